"""A page in the browser with everything it sent and complained about, and what the library says instead."""

import base64
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from support.browser import SCENES

import cpor
from cpor.io.scene_file import parse_scene
from cpor.model import FittedModel, bundled_model

DROP = """(files) => {
    const transfer = new DataTransfer();
    for (const [name, text] of files) {
        const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
        transfer.items.add(new File([bytes], name));
    }
    for (const type of ['dragenter', 'dragover', 'drop'])
        document.body.dispatchEvent(
            new DragEvent(type, {dataTransfer: transfer, bubbles: true, cancelable: true}));
}"""


TWO_FRAMES = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


@dataclass
class Watched:
    """A page, and everything it sent and complained about."""

    page: object
    url: str
    complaints: list[str] = field(default_factory=list)
    hosts: set[str] = field(default_factory=set)
    asked: list[object] = field(default_factory=list)
    expected: tuple[str, ...] = ()

    def open(self, where: str = "/"):
        self.page.goto(self.url + where)
        return self

    def see(self, name: str):
        return self.page.get_by_test_id(name)

    def wait_for(self, state: str):
        self.page.wait_for_selector(f'body[data-state="{state}"]')

    def drop(self, *files: Path) -> None:
        self.page.evaluate(DROP, [[f.name, base64.b64encode(f.read_bytes()).decode()] for f in files])

    def drop_scene(self, name: str) -> dict:
        """Drop a scene with its masks, wait until it is shown; what the service answered."""
        folder = SCENES / name
        parts = ("rgb.png", "depth.png", "camera.json", "instances.png", "amodal.npz")
        with self.page.expect_response("**/v1/scenes") as reply:
            self.drop(*(folder / part for part in parts))
        self.wait_for("choose")
        return reply.value.json()

    def choose(self, obj: int) -> None:
        self.see(f"badge-{obj}").click()
        self.page.wait_for_selector(f'[data-testid=decision][data-target="{obj}"]')

    def wait_for_answer(self) -> None:
        """Nothing is on its way, and the picture has taken the place that the words leave it."""
        answered = "body:not([data-state=busy]) [data-testid=decision][aria-busy=false]"
        self.page.wait_for_selector(answered, state="attached")
        self.page.evaluate(TWO_FRAMES)

    def settled(self) -> dict:
        """The answer to what the page asked last, once it is shown, as a scene to decide on."""
        self.wait_for_answer()
        answer = self.asked[-1].response().json()
        # What nobody segmented has a number in the scores, and no place among the objects.
        return answer | {"objects": [int(label) for label in answer["scores"]]}

    def last_request(self) -> dict:
        """What the page asked last."""
        return json.loads(self.asked[-1].post_data)

    def shown_action(self) -> tuple[str, str]:
        decision = self.see("decision")
        return decision.get_attribute("data-action"), decision.get_attribute("data-object")


def library_action(answer: dict) -> tuple[str, str]:
    """What `cpor.decide` says of the probabilities and the line that an answer was made from."""
    action = library_decision(answer).action
    kind = type(action).__name__.lower()
    return (kind, "") if kind == "defer" else (kind, str(action.obj))


def library_decision(answer: dict) -> cpor.Decision:
    model = FittedModel.load(bundled_model("embedded"))
    return model.pipeline().settle(cpor.decide(parse_scene(answer), float(answer["tau"])))


def decides(url: str) -> bool:
    """Whether a request asks for a decision on a scene."""
    return bool(re.fullmatch(r"/v1/scenes/[^/]+/decide", urlsplit(url).path))


def note_request(it: Watched, request) -> None:
    parts = urlsplit(request.url)
    if parts.scheme in ("http", "https", "ws", "wss"):
        it.hosts.add(parts.netloc)
    if decides(request.url):
        it.asked.append(request)
