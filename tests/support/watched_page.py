"""A page in the browser with everything it sent and complained about, and what the library says instead."""

import base64
import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import cpor
from cpor.data.scene_file import parse_scene
from support.browser import SCENES

PATIENCE_S = 20.0
"""How long the page may take to settle. [s]"""

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


@dataclass
class Watched:
    """A page, and everything it sent and complained about."""

    page: object
    url: str
    complaints: list[str] = field(default_factory=list)
    hosts: set[str] = field(default_factory=set)
    asked: list[dict] = field(default_factory=list)
    answered: int = 0
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

    def settled(self) -> dict:
        """What the page asked last, once its answer is shown."""
        quiet = 0
        give_up = time.monotonic() + PATIENCE_S
        while quiet < 3 and time.monotonic() < give_up:
            before = len(self.asked)
            self.page.wait_for_timeout(40)
            quiet = quiet + 1 if before == len(self.asked) == self.answered else 0
        return self.asked[-1]

    def shown_action(self) -> tuple[str, str]:
        decision = self.see("decision")
        return decision.get_attribute("data-action"), decision.get_attribute("data-object")


def library_action(request: dict) -> tuple[str, str]:
    """What `cpor.decide` says of what the page asked."""
    action = library_decision(request).action
    kind = type(action).__name__.lower()
    return (kind, "") if kind == "defer" else (kind, str(action.obj))


def library_decision(request: dict) -> cpor.Decision:
    return cpor.decide(parse_scene(request), float(request["tau"]))


def note_request(it: Watched, request) -> None:
    parts = urlsplit(request.url)
    if parts.scheme in ("http", "https", "ws", "wss"):
        it.hosts.add(parts.netloc)
    if parts.path == "/v1/decide":
        it.asked.append(json.loads(request.post_data))


def note_answer(it: Watched, request) -> None:
    if urlsplit(request.url).path == "/v1/decide":
        it.answered += 1
