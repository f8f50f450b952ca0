// A picture from a camera: of this browser (colour only, since browsers know no depth), or of the service (with depth).

import * as api from "./api.js";
import { byId, el, show } from "./dom.js";

const PAUSE_MS = 100; // between two pictures of the service's camera

/** Show what this browser's camera sees; `take` is given the picture as a file, `complain` what went wrong. */
export async function openCamera(take, complain) {
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
  const shoot = () => {
    const canvas = el("canvas", { width: video.videoWidth, height: video.videoHeight });
    canvas.getContext("2d").drawImage(video, 0, 0);
    canvas.toBlob((blob) => take(new File([blob], "camera.png", { type: "image/png" })), "image/png");
  };
  openDialog(video, "Colour only: without depth, what touches has no geometric answer. A RealSense has depth: cpor serve --camera realsense.", shoot, () => {
    for (const track of stream.getTracks()) track.stop();
    video.srcObject = null;
  });
}

/** Show what the service's camera sees; page: busyWith(words, work), open(scene, picture, title), report(problem). */
export function openDepthCamera(page) {
  const picture = el("img", { alt: "What the camera sees", "data-testid": "camera-view" });
  let isOpen = true;
  const close = openDialog(picture, "Colour is shown; depth is taken with it.", async () => {
    const scene = await page.busyWith("Looking through the camera…", api.lookNow);
    if (scene !== null) page.open(scene, await api.scenePicture(scene.id), "camera");
  }, () => {
    isOpen = false;
    URL.revokeObjectURL(picture.src);
  });
  (async () => {
    while (isOpen) {
      const next = URL.createObjectURL(await api.cameraView());
      URL.revokeObjectURL(picture.src);
      picture.src = next;
      await new Promise((done) => setTimeout(done, PAUSE_MS));
    }
  })().catch((problem) => {
    close();
    page.report(problem);
  });
}

function openDialog(view, words, shoot, end) {
  const dialog = byId("camera");
  const take = el("button", { type: "button", class: "primary", "data-testid": "camera-take", onclick: () => {
    shoot();
    dialog.close();
  } }, "Take the picture");
  show(dialog, el("h2", { id: "camera-title" }, "Camera"), view, el("p", { class: "dim" }, words),
    el("form", { method: "dialog", class: "answers" }, take, el("button", {}, "Close")));
  dialog.onclose = end;
  dialog.showModal();
  return () => dialog.close();
}
