"""Words typed on the page, and files that come later or with a request."""

import json
import re

from e2e.page_steps import DECIDE, SCENE, expect, shows_action
from e2e.watched_page import library_action
from support.browser import SCENES


def test_typed_request_finds_the_target_and_goes_when_another_is_clicked(open_page):
    it = open_page()
    scene = it.drop_scene(SCENE)
    for words in ("the pink one", "pink"):
        it.see("words").fill(words)
        with it.page.expect_response(DECIDE) as reply:
            it.see("ask").click()
        said = reply.value.json()
        assert said["action"] is not None
        expect(it.see("decision")).to_have_attribute("data-target", str(said["target"]))
        shows_action(it, library_action(it.settled()))
        expect(it.see("words")).to_have_value(words)
        it.choose(next(each["id"] for each in scene["objects"] if each["id"] != said["target"]))
        expect(it.see("words")).to_have_value("")


def test_what_is_not_there_not_known_or_ambiguous_is_asked_back_and_a_click_answers(open_page):
    it = open_page()
    scene = it.drop_scene(SCENE)
    it.choose(scene["objects"][0]["id"])
    it.see("words").fill("the book")
    with it.page.expect_response(DECIDE) as reply:
        it.see("ask").click()
    assert reply.value.json()["action"] is None
    expect(it.page.locator("body")).to_contain_text(reply.value.json()["question"])
    # The decision on what was wanted before is not shown beside a request that was refused.
    expect(it.see("decision")).to_have_attribute("data-action", "none")
    expect(it.see("headline")).to_have_text("Which one do you mean?")

    it.see("words").fill("the pink gizmo")
    it.see("ask").click()
    it.wait_for("ambiguous")
    expect(it.see("question")).to_have_text('I do not know the word "gizmo". Which object do you mean?')

    it.see("words").fill("the yellow one")
    with it.page.expect_response(DECIDE) as reply:
        it.see("ask").click()
    said = reply.value.json()
    assert said["action"] is None
    it.wait_for("ambiguous")
    candidates = [each["id"] for each in said["candidates"] if each["fit"] > 0.0]
    assert 1 < len(candidates) < len(scene["objects"])
    marked = it.page.locator("[data-testid^=badge-].is-candidate")
    expect(marked).to_have_count(len(candidates))
    assert sorted(int(m.get_attribute("data-id")) for m in marked.all()) == sorted(candidates)
    expect(it.see("question")).to_have_text(said["question"])
    it.see(f"candidate-{candidates[0]}").click()
    expect(it.see("decision")).to_have_attribute("data-target", str(candidates[0]))


def test_back_leads_to_the_object_and_the_picture_before(open_page):
    it = open_page("/?example=touching-toys&target=2")
    it.wait_for("decided")
    it.choose(6)
    expect(it.page).to_have_url(re.compile(r"\?example=touching-toys&target=6$"))
    it.page.go_back()
    expect(it.see("decision")).to_have_attribute("data-target", "2")
    it.page.go_forward()
    expect(it.see("decision")).to_have_attribute("data-target", "6")


def test_depth_dropped_later_joins_the_picture(open_page):
    it = open_page()
    folder = SCENES / SCENE
    with it.page.expect_response("**/v1/scenes") as first:
        it.drop(folder / "rgb.png", folder / "instances.png", folder / "amodal.npz")
    assert first.value.json()["has_depth"] is False
    it.wait_for("choose")
    with it.page.expect_response("**/v1/scenes") as second:
        it.drop(folder / "depth.png", folder / "camera.json")
    assert second.value.json()["has_depth"] is True


def test_request_file_of_a_scene_folder_is_asked_at_once(open_page):
    it = open_page()
    folder = SCENES / SCENE
    parts = (
        "rgb.png",
        "depth.png",
        "camera.json",
        "instances.png",
        "amodal.npz",
        "objects.json",
        "relations.json",
        "request.txt",
    )
    with it.page.expect_response("**/v1/scenes") as scene, it.page.expect_response(DECIDE) as reply:
        it.drop(*(folder / part for part in parts))
    names = {
        each["id"]: each["name"] for each in json.loads((folder / "objects.json").read_text())["objects"]
    }
    assert {each["id"]: each["name"] for each in scene.value.json()["objects"]} == names
    assert (
        json.loads(reply.value.request.post_data)["request"] == (folder / "request.txt").read_text().strip()
    )
