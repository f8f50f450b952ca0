// The first screen: what this is, a place to drop a picture, and examples to try at once.

import * as api from "./api.js";
import { byId, el, show } from "./dom.js";

/** actions: openExample(example), chooseFiles(), useCamera(), useDepthCamera(), close(). */
export function mountWelcome(root, store, actions) {
  const pictures = new Map(); // example -> URL of its picture, fetched once
  store.view((state, before) => {
    root.hidden = state.phase !== "empty";
    byId("workplace").hidden = state.phase === "empty";
    if (["examples", "scene", "health"].some((field) => state[field] !== before[field])) draw(state);
  });

  function draw(state) {
    const perception = state.health?.perception ?? true;
    show(
      root,
      el("div", {},
        el("p", { class: "lead" }, "Which object should the robot take first?"),
        el(
          "p",
          { class: "how" },
          "Say which object you want out of a heap. The page shows what lies on top of what, whether to " +
            "grasp it now, to remove something else first, or to ask you, and how sure that is.",
        ),
      ),
      perception ? null : el("p", { class: "notice alert", "data-testid": "no-perception" },
        "This service has no networks to find objects with (its extra “perception” is not installed). " +
          "Examples work, with the masks they come with; your own pictures need masks too (instances.png)."),
      dropZone(state),
      el("h2", {}, "Or try an example"),
      thumbs(state),
    );
  }

  function dropZone(state) {
    return el("div", { class: "drop-zone", "data-testid": "drop-zone" },
      el(
        "button",
        { type: "button", class: "primary", onclick: actions.chooseFiles, "data-testid": "choose-files" },
        "Choose files…",
      ),
      el("button", { type: "button", onclick: actions.useCamera, "data-testid": "use-camera" }, "Camera…"),
      state.health?.camera
        ? el("button", { type: "button", onclick: actions.useDepthCamera, "data-testid": "use-depth-camera" }, "Camera with depth…")
        : null,
      el("span", {}, el("b", {}, "or drop your picture here"), el("br"),
        el("span", { class: "small dim" }, 
          "A colour picture and its 16-bit depth picture; camera.json, instances.png and amodal.npz if you " +
          "have them, or a whole scene folder.")),
      state.scene ? el("button", { type: "button", onclick: actions.close, "data-testid": "welcome-close" }, "Back") : null);
  }

  function thumbs(state) {
    if (state.examples === null) return el("p", { class: "dim" }, "Loading the examples…");
    if (state.examples.length === 0) return el("p", { class: "dim" }, "This service has no examples.");
    return el("ul", { class: "thumbs" }, state.examples.map((example) => {
      const image = el("img", { alt: "", width: 160, height: 120 });
      setPicture(image, example.name);
      return el("li", {}, el("button", {
        type: "button",
        class: "thumb",
        "data-testid": "example",
        "data-name": example.name,
        onclick: () => actions.openExample(example),
      },
        el("span", { class: "frame" }, image), el("span", {}, example.title)));
    }));
  }

  async function setPicture(image, name) {
    try {
      // Fetched rather than linked, so that it works where the service wants a token.
      if (!pictures.has(name)) pictures.set(name, URL.createObjectURL(await api.smallExample(name)));
      image.src = pictures.get(name);
    } catch {
      image.alt = "(no picture)";
    }
  }
}

/** Take files that are dropped anywhere on the page. */
export function listenForDrops(take) {
  const hint = byId("drop-hint");
  let depth = 0;
  const hasFiles = (event) => event.dataTransfer?.types.includes("Files");
  document.addEventListener("dragenter", (event) => {
    if (!hasFiles(event)) return;
    depth++;
    hint.hidden = false;
  });
  document.addEventListener("dragleave", (event) => {
    if (hasFiles(event) && --depth <= 0) hint.hidden = true;
  });
  document.addEventListener("dragover", (event) => hasFiles(event) && event.preventDefault());
  document.addEventListener("drop", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    depth = 0;
    hint.hidden = true;
    take(event.dataTransfer);
  });
}
