"""The style sheet of a report's page: light and dark, readable at any width, on paper too."""

STYLE = """
:root { color-scheme: light dark; --ink: #1c2330; --dim: #5b6472; --page: #ffffff; --card: #f5f7fa;
  --line: #d5dbe3; --main: #1f6fb2; --soft: #a9cbe8; --bad: #b3261e; --good: #1b7a43; --warn: #8a5a00; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaf0; --dim: #a0a9b6; --page: #14181f;
  --card: #1d232c; --line: #38414e; --main: #6bb3f0; --soft: #2c5578; --bad: #ff8a80; --good: #6fd39a;
  --warn: #f0bf5c; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 74rem; background: var(--page);
  color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; margin: 0 0 .3rem; } h2 { font-size: 1.2rem; margin: 2.2rem 0 .8rem; }
h3 { font-size: 1rem; margin: 0 0 .3rem; } p { margin: .3rem 0; } .note, figcaption { color: var(--dim); }
a { color: var(--main); } :focus-visible { outline: 3px solid var(--main); outline-offset: 2px; }
.skip { position: absolute; left: -99rem; } .skip:focus { left: 1rem; background: var(--page);
  padding: .4rem; }
nav a { margin-right: 1rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0 .8rem; margin: .3rem 0; }
dt { color: var(--dim); } dd { margin: 0; overflow-wrap: anywhere; }
table { border-collapse: collapse; margin: .4rem 0; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding-bottom: .2rem; }
th, td { padding: .15rem .7rem .15rem 0; text-align: left; font-weight: 400; vertical-align: top;
  border-bottom: 1px solid var(--line); overflow-wrap: anywhere; }
thead th { color: var(--dim); }
.tables { display: flex; flex-wrap: wrap; gap: 1.2rem 3rem; align-items: flex-start; }
.wide { overflow-x: auto; max-width: 100%; }
.figures { display: grid; grid-template-columns: repeat(auto-fill, minmax(20rem, 1fr)); gap: 1rem; }
.gallery { display: grid; grid-template-columns: repeat(auto-fill, minmax(16rem, 1fr)); gap: 1rem; }
figure { margin: 0; background: var(--card); border: 1px solid var(--line); border-radius: 8px;
  padding: .7rem; }
figcaption { font-size: .85rem; overflow-wrap: anywhere; }
svg { display: block; max-width: 100%; height: auto; margin: 0 auto; }
svg text { font: 11px system-ui, sans-serif; fill: var(--ink); } .plot { width: 100%; }
.gallery svg { height: 13rem; width: 100%; }
.grid { stroke: var(--line); stroke-width: 1; } .axis { stroke: var(--dim); }
.curve { fill: none; stroke: var(--main); stroke-width: 2; } .dot { fill: var(--main); stroke: var(--card); }
.bar { fill: var(--soft); } .other { fill: var(--warn); stroke: var(--card); }
.limit { fill: none; stroke: var(--warn); stroke-width: 1.5; stroke-dasharray: 2 3; }
.reference { fill: none; stroke: var(--dim); stroke-dasharray: 5 4; }
.box rect { fill: var(--page); stroke: var(--dim); } .box .ring { fill: none; stroke: var(--ink);
  stroke-width: 2; } .box.aside { opacity: .55; } .box.chosen rect:last-of-type { fill: var(--soft); }
.box.right rect:last-of-type { stroke: var(--good); stroke-width: 2.5; }
.edge path { fill: none; stroke: var(--dim); } .edge polygon { fill: var(--dim); }
.edge.true path { stroke: var(--good); } .edge.true polygon { fill: var(--good); }
.edge.cycle path { stroke: var(--bad); stroke-dasharray: 7 3; } .edge.cycle polygon { fill: var(--bad); }
.edge.gap path { stroke-dasharray: 1 4; } .edge text { font-size: 10px; paint-order: stroke;
  stroke: var(--card); stroke-width: 4px; }
.case { border-bottom: 1px solid var(--line); } summary { cursor: pointer; padding: .3rem 0;
  overflow-wrap: anywhere; } .inside { padding: .2rem 0 1.2rem 1rem; scroll-margin-top: 3rem; }
.sides { display: grid; grid-template-columns: repeat(auto-fit, minmax(18rem, 1fr)); gap: 1rem;
  align-items: start; } .sides svg { max-height: 24rem; }
.mark { display: inline-block; border: 1px solid; border-radius: 4px; padding: 0 .35rem; margin-right: .4rem;
  font-size: .78rem; color: var(--dim); } .mark.wrong, .mark.error { color: var(--bad); }
.mark.right { color: var(--good); } .mark.deferred, .mark.cyclic { color: var(--warn); }
.said { overflow-wrap: anywhere; } .filter { display: inline-block; margin: 0 1rem .6rem .2rem; }
.legend span { margin-right: 1.2rem; }
@media print { .case:not([open]) { display: none; } nav, .skip, .filter, input { display: none; } }
"""

FILTERS = ("wrong", "error", "deferred", "cyclic", "unjudged", "right")
"""What cases can be filtered by; the page has a button for each, which works without any script."""


def filter_rules() -> str:
    """One rule a filter: while its button is chosen, other cases are hidden."""
    return "\n".join(
        f"#show-{name}:checked ~ .cases .case:not(.{name}) {{ display: none; }}" for name in FILTERS
    )
