// What scrolls sideways can be reached and scrolled by keyboard, and a button to copy is no place to navigate to.
function reachable() {
  for (const each of document.querySelectorAll(".md-code__nav")) each.setAttribute("role", "none");
  for (const each of document.querySelectorAll(".md-typeset__scrollwrap, .md-typeset pre > code")) {
    if (each.scrollWidth > each.clientWidth) each.tabIndex = 0;
  }
}
for (const event of ["load", "resize"]) window.addEventListener(event, () => setTimeout(reachable, 100));
