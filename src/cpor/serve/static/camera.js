// A picture from the camera of this machine: colour only, since browsers know no depth.

import { byId, el, show } from "./dom.js";

/** Show what the camera sees; `take` is given the picture as a file, `complain` what went wrong. */
export async function openCamera(take, complain) {
  const dialog = byId("camera");
  let stream;
  try {
    stream = await navigator.mediaDevices.getUserMedia({ video: { width: { ideal: 1280 } } });
  } catch (problem) {
    const why = problem.name === "NotAllowedError" ? "this page may not use it" : "there is none, or it is in use";
    complain(`No picture from the camera: ${why}. Browsers allow it on this machine or by https only.`);
    return;
  }
  const video = el("video", { autoplay: true, playsinline: true, "aria-label": "What the camera sees", "data-testid": "camera-view" });
  video.muted = true;
  video.srcObject = stream;
  const shoot = el("button", { type: "button", class: "primary", "data-testid": "camera-take", onclick: () => {
    const canvas = el("canvas", { width: video.videoWidth, height: video.videoHeight });
    canvas.getContext("2d").drawImage(video, 0, 0);
    canvas.toBlob((blob) => take(new File([blob], "camera.png", { type: "image/png" })), "image/png");
    dialog.close();
  } }, "Take the picture");
  show(dialog, el("h2", { id: "camera-title" }, "Camera"), video,
    el("p", { class: "dim" }, "Colour only: without depth, what touches has no geometric answer."),
    el("form", { method: "dialog", class: "answers" }, shoot, el("button", {}, "Close")));
  dialog.onclose = () => {
    for (const track of stream.getTracks()) track.stop();
    video.srcObject = null;
  };
  dialog.showModal();
}
