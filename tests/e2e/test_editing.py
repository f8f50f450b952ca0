"""Correct what was seen in the page; each correction is asserted by what the page then decides."""

import io
import math
import re
import zipfile

from e2e.page_steps import SCENE, expect, shows_action

from cpor.io.scene_folder import read_scene_folder
from cpor.learn.modes import MODES


class Editor:
    """Uses the tools on a page as a hand does."""

    def __init__(self, it) -> None:
        self.it = it
        self.done = 0

    def at(self, obj: int) -> tuple[float, float]:
        self.it.wait_for_answer()
        box = self.it.see(f"badge-{obj}").locator(".disc").bounding_box()
        return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    def use(self, tool: str, *objects: int, then=None) -> dict:
        """Click objects with a tool; the scene and the decision that come of it."""
        return self.click(tool, *objects, then=then)

    def click(self, tool: str, *places: int | tuple[float, float], then=None) -> dict:
        """Places are objects, or points of the screen."""
        self.it.see(f"tool-{tool}").click()
        with self.it.page.expect_response("**/corrections") as reply:
            for place in places:
                if isinstance(place, int):
                    self.it.see(f"badge-{place}").click()
                else:
                    self.it.page.mouse.click(*place)
            if then is not None:
                then()
        self.it.see(f"tool-{tool}").click()
        return self._shown(reply.value)

    def press(self, button: str) -> dict:
        with self.it.page.expect_response("**/corrections") as reply:
            self.it.see(button).click()
        return self._shown(reply.value)

    def _shown(self, reply) -> dict:
        assert reply.ok, reply.text()
        scene = reply.json()["scene"]
        expect(self.it.see("object")).to_have_count(len(scene["objects"]))
        return scene

    def ids(self, scene: dict) -> set[int]:
        return {each["id"] for each in scene["objects"]}


def moved(places, now):
    """Where the third of three places is on the screen, now that the picture has another size and place."""
    (ax, ay), (bx, by), (cx, cy) = places
    scale = math.dist(*now) / math.dist((ax, ay), (bx, by))
    return now[0][0] + scale * (cx - ax), now[0][1] + scale * (cy - ay)


def test_every_tool_changes_what_the_page_decides(open_page, tmp_path):
    it = open_page()
    for later in ("explain", "plan"):  # what comes in later would move the page under the hand
        it.page.route(f"**/v1/{later}", lambda route: None)
    scene = it.drop_scene(SCENE)
    hand = Editor(it)
    before = hand.ids(scene)
    target, other, third = sorted(before)[:3]
    it.choose(target)
    it.see("mode-bold").click()
    it.settled()

    it.see("correct").click()
    hand.use("relate", other, target)
    answer = it.settled()
    assert {(e["blocked"], e["blocker"]): e["p"] for e in answer["edges"]}[target, other] == 1.0
    assert answer["scores"][str(target)] < 1e-9 and it.shown_action() != ("grasp", str(target))
    assert answer["promise"] is None

    merged = hand.use("merge", target, third)
    assert hand.ids(merged) == before - {third}
    assert str(third) not in it.settled()["scores"]
    back = hand.press("undo")
    assert hand.ids(back) == before and str(third) in it.settled()["scores"]
    again = hand.press("redo")
    assert hand.ids(again) == before - {third}
    hand.press("undo")

    removed = hand.use("delete", other)
    assert hand.ids(removed) == before - {other}
    answer = it.settled()
    assert str(other) not in answer["scores"] and it.shown_action() != ("remove", str(other))
    place = next(each["point"] for each in scene["objects"] if each["id"] == other)
    hand.press("undo")
    far = max(before - {target, other}, key=lambda k: math.dist(hand.at(k), hand.at(target)))
    places = [hand.at(k) for k in (target, far, other)]
    hand.press("redo")
    added = hand.click("add", moved(places, [hand.at(k) for k in (target, far)]))
    (new,) = hand.ids(added) - (before - {other})
    assert str(new) in it.settled()["scores"] and place is not None

    x, y = hand.at(target)
    parted = hand.click("split", (x - 7, y - 7), (x + 7, y + 7))
    (half,) = hand.ids(parted) - hand.ids(added)
    assert str(half) in it.settled()["scores"]

    def name_it():
        it.see("rename-text").fill("the odd thing")
        it.see("rename-save").click()

    hand.use("rename", half, then=name_it)
    it.see("words").fill("the odd thing")
    it.see("ask").click()
    expect(it.see("decision")).to_have_attribute("data-target", str(half))

    frame = it.page.locator(".stage").bounding_box()
    corners = [(frame["x"] + dx, frame["y"] + dy) for dx, dy in ((4, 4), (12, 4), (12, 12))]
    hand.click("workspace", *corners, then=it.see("tool-done").click)
    expect(it.see("error")).to_have_text(re.compile("workspace"))
    hand.press("undo")

    it.see("tool-brush-off").click()
    expect(it.see("tool-hint")).to_contain_text("does not belong")
    with it.page.expect_response("**/corrections") as reply:
        it.page.mouse.move(*hand.at(half))
        it.page.mouse.down()
        it.page.mouse.move(x + 9, y + 9, steps=3)
        it.page.mouse.up()
    assert reply.value.status in (200, 400)  # a small part may be erased whole, which is refused
    it.page.keyboard.press("Escape")

    with it.page.expect_download() as saved:
        it.see("save").click()
    with zipfile.ZipFile(io.BytesIO(saved.value.path().read_bytes())) as archive:
        archive.extractall(tmp_path)
    labelled = read_scene_folder(tmp_path / "scene")
    assert set(labelled.ids) == hand.ids(parted) and labelled.sources.segmenter == "a person"


def test_a_picture_survives_a_reload_and_can_be_forgotten(open_page):
    it = open_page()
    scene = it.drop_scene(SCENE)
    target = scene["objects"][0]["id"]
    it.choose(target)
    it.see("mode-bold").click()
    expect(it.see("mode-bold")).to_have_attribute("aria-pressed", "true")
    it.settled()
    shown = it.shown_action()
    it.page.reload()
    it.wait_for("decided")
    expect(it.see("mode-bold")).to_have_attribute("aria-pressed", "true")
    expect(it.see("decision")).to_have_attribute("data-target", str(target))
    shows_action(it, shown)
    where = it.page.url
    it.see("correct").click()
    it.see("forget").click()
    it.wait_for("empty")
    it.expected = ("404",)
    it.page.goto(where)
    expect(it.see("note")).to_contain_text("does not keep this picture")


def test_a_decision_is_taken_away_and_compared(open_page):
    it = open_page()
    scene = it.drop_scene(SCENE)
    it.choose(scene["objects"][0]["id"])
    answer = it.settled()
    it.see("open-take").click()
    rows = it.see("compare").locator("tr")
    expect(rows).to_have_count(len(MODES))
    by_mode = {row.get_attribute("data-mode"): row.get_attribute("data-action") for row in rows.all()}
    assert by_mode["cautious"] == answer["action"]["type"]
    expect(it.see("history").locator("li")).to_have_count(1)
    expect(it.see("snippet-curl")).to_contain_text(f"target={answer['target']} -F mode=cautious")
    for kind, start in (("json", b"{"), ("png", b"\x89PNG"), ("html", b"<!doctype")):
        with it.page.expect_download() as saved:
            it.see(f"take-{kind}").click()
        assert saved.value.path().read_bytes().lower().startswith(start.lower())
    it.page.keyboard.press("Escape")
    it.see("term-term-right").click()
    expect(it.page.locator("#glossary-list .is-meant")).to_be_visible()
