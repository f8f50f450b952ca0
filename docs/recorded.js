// Answers the page from a recording instead of the service. Nothing is computed here: what was not recorded is refused.
"use strict";
(() => {
  const packed = document.getElementById("recording").textContent;
  const bytes = Uint8Array.from(atob(packed), (each) => each.charCodeAt(0));
  const opened = new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
  const json = (body, status = 200) =>
    new Response(JSON.stringify(body), { status, headers: { "Content-Type": "application/json" } });
  const refuse = (message) => json({ code: "recorded", message }, 501);
  let last = null; // the decision on screen, which "why" and "what next" are about

  const place = (body) => {
    const risk = body.mode ?? `tau ${body.tau.toFixed(2)}`;
    const edits = (body.relations ?? []).map((each) =>
      `${each.blocker}>${each.blocked} ${each.p === null ? "none" : each.p.toFixed(2)}`);
    return [`${body.target}`, risk, ...edits].join(" | ");
  };

  const answer = async (path, options) => {
    const recording = await opened;
    if (path === "/healthz") return json(recording.health);
    if (path === "/v1/examples") return json(recording.examples);
    if (/\/(rgb\.png|small\.jpg)$/.test(path)) return new Response(await (await real(recording.picture)).blob());
    if (path.startsWith("/v1/examples/")) return json(recording.scene);
    const body = options.body ? JSON.parse(options.body) : null;
    if (path.endsWith("/decide") && body.request === undefined && body.target !== undefined) {
      const found = recording.states[place(body)];
      if (found) last = found;
      return found ? json(found.decide) : refuse(
        "This is a recording: one relation changed at a time, in the mode cautious. Undo a change to go on.",
      );
    }
    if (path === "/v1/explain" && last?.explain) return json(last.explain);
    if (path === "/v1/plan" && last?.plan) return json(last.plan);
    return refuse("This is a recording. Install it to do that: pip install 'cpor-grasp[perception,serve]', then cpor serve.");
  };

  const real = globalThis.fetch.bind(globalThis);
  globalThis.fetch = (path, options = {}) => answer(String(path), options);
  globalThis.XMLHttpRequest = undefined;
  // A page opened from disk may not write its address.
  for (const write of ["pushState", "replaceState"]) {
    const given = history[write].bind(history);
    history[write] = (state) => given(state, "");
  }
})();
