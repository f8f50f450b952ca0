"""The page, used as a person would: drop, click, read, drag, change, ask."""

import json
import re
from pathlib import Path

import pytest
from e2e.page_steps import DECIDE, SCENE, asked_above, comes_true, expect, shows_action
from e2e.watched_page import library_action, library_decision
from typer.testing import CliRunner

import cpor
from cpor.cli.app import app
from cpor.infer.graphs import likeliest_graphs
from cpor.io.scene_file import parse_scene
from cpor.pipeline import UNSEEN

EXAMPLES = Path(cpor.__file__).parent / "serve" / "examples"


IN_ORDER = """(names) => names.map((name) =>
    document.querySelector(`[data-testid=${name}]`).getBoundingClientRect().y)
    .every((y, k, all) => k === 0 || y > all[k - 1])"""


def blocked_target(scene: dict) -> int:
    """The object that has most in its way: something to decide about."""
    weight = {each["id"]: 0.0 for each in scene["objects"]}
    for each in scene["relations"]:
        weight[each["blocked"]] += each["p"] or 0.0
    return max(weight, key=weight.get)


def drag_tau(it, to: float, steps: int = 12) -> None:
    """Drag the line; again where the page moved under the hand, as words came in above it."""
    for _ in range(5):
        it.see("tau").hover()
        track = it.page.locator(".axis").bounding_box()
        it.page.mouse.down()
        it.page.mouse.move(track["x"] + to * track["width"], track["y"] + 10, steps=steps)
        it.page.mouse.up()
        if abs(float(it.see("tau").get_attribute("data-tau")) - to) < 0.02:
            return
    raise AssertionError("the line does not follow the hand")


def test_first_visit_offers_examples_and_a_place_to_drop(open_page):
    it = open_page()
    it.wait_for("empty")
    expect(it.see("drop-zone")).to_be_visible()
    expect(it.see("example").nth(2)).to_be_visible()
    it.see("example").first.click()
    it.wait_for("choose")
    expect(it.see("headline")).to_have_text("Which object do you want?")
    expect(it.page.locator("[data-testid^=badge-]").nth(2)).to_be_visible()


def test_dropped_scene_shows_every_object_and_a_click_decides(open_page):
    it = open_page()
    it.wait_for("empty")
    scene = it.drop_scene(SCENE)
    expect(it.see("object")).to_have_count(len(scene["objects"]))
    target = blocked_target(scene)
    it.choose(target)
    asked = it.settled()
    assert asked["target"] == target
    assert [each for each in asked["relations"] if each["blocker"]] == scene["relations"]
    shows_action(it, library_action(asked))
    kind, obj = it.shown_action()
    said = {"grasp": f"Grasp .*{obj}", "remove": f"Remove .*{obj}", "defer": "ask first"}[kind]
    expect(it.see("headline")).to_have_text(re.compile(said))
    decision = library_decision(asked)
    bars_show_score_and_interval(it, decision)
    proof_is_said(it, asked, decision.certificate)
    arrow_shows_what_each_stage_said(it, scene)


def bars_show_score_and_interval(it, decision) -> None:
    for obj, score in decision.scores.items():
        if obj == UNSEEN:
            continue
        bar = it.see(f"bar-{obj}")
        shown = [float(bar.get_attribute(f"data-{each}")) for each in ("score", "low", "high")]
        assert shown == pytest.approx([score, *decision.interval(obj)], abs=1e-9)


def proof_is_said(it, asked, certificate) -> None:
    expect(it.see("proof")).to_have_attribute("data-certified", str(certificate.certified).lower())
    missing = any(each["p"] is None for each in asked["relations"])
    exact = "Counted exactly, given these percentages"
    counted = "answers are missing" if missing else exact if certificate.exact else "Estimated"
    expect(it.see("proof")).to_contain_text(counted)
    expect(it.see("proof")).not_to_contain_text("Proven")


def arrow_shows_what_each_stage_said(it, scene) -> None:
    arrow = it.see("arrow").last
    blocker, blocked = map(int, arrow.get_attribute("data-pair").split(">"))
    arrow.locator(".head").dispatch_event("click")  # it may lie below a badge, and moves as words come in
    expect(it.see("evidence")).to_be_visible()
    said = next(e for e in scene["evidence"] if (e["blocker"], e["blocked"]) == (blocker, blocked))
    for field in ("hidden_overlap", "clearance", "reliability", "p"):
        expect(it.see(f"evidence-{field}").locator("b")).to_have_text(percent(said[field]))
    for name, source in said["sources"].items():
        expect(it.see(f"evidence-{name}").locator("b")).to_have_text(percent(source["p"]))
    assert "nearer" in it.see("evidence-depth_order").inner_text() or said["depth_order"] <= 0.05


def test_the_first_answer_is_that_of_the_command_line(open_page):
    it = open_page("/?example=touching-toys&target=7")
    it.wait_for("decided")
    page = it.settled()
    command = ["decide", str(EXAMPLES / "touching-toys"), "--ignore-given-masks", "--target", "7", "--json"]
    cli = json.loads(CliRunner().invoke(app, command).stdout)
    assert it.last_request()["mode"] == cli["mode"] == "cautious"
    for field in ("action", "tau", "mode", "promise", "checks", "p_success", "masks", "scorer", "target"):
        assert page[field] == cli[field], field
    assert page["scores"] == pytest.approx(cli["scores"], abs=1e-9)
    shows_action(it, (cli["action"]["type"], str(cli["action"]["object"] or "")))
    expect(it.see("tau")).to_have_attribute("data-tau", str(cli["tau"]))
    expect(it.page.locator(".check")).to_have_count(sum(check["state"] != "pass" for check in cli["checks"]))


def test_modes_set_the_line_and_dragging_it_is_a_threshold_until_it_asks(open_page):
    it = open_page()
    scene = it.drop_scene(SCENE)
    assert (scene["mode"], scene["tau"]) == ("cautious", scene["modes"]["cautious"])
    it.choose(blocked_target(scene))
    it.settled()
    for mode in ("bold", "balanced", "cautious"):
        it.see(f"mode-{mode}").click()
        expect(it.see("decision")).to_have_attribute("data-tau", str(scene["modes"][mode]))
        answer = it.settled()
        assert (answer["mode"], it.last_request().get("tau")) == (mode, None)
        shows_action(it, library_action(answer))
        expect(it.see(f"mode-{mode}")).to_have_attribute("aria-pressed", "true")
    drag_tau(it, 0.4)
    answer = it.settled()
    assert answer["mode"] is None and answer["tau"] == it.last_request()["tau"] == pytest.approx(
        0.4, abs=0.02
    )
    expect(it.page.locator('.modes [aria-pressed="true"]')).to_have_count(0)
    drag_tau(it, 0.02)
    shows_action(it, library_action(it.settled()))
    drag_tau(it, 0.995)
    expect(it.see("decision")).to_have_attribute("data-action", "defer")
    asked = it.settled()
    assert asked["tau"] > 0.98
    assert library_action(asked) == ("defer", "")
    expect(it.see("tau")).to_have_attribute("aria-valuenow", str(round(100 * asked["tau"])))
    expect(it.see("decision")).to_have_attribute("data-tau", str(asked["tau"]))


def test_failed_checks_stand_above_the_decision_and_doubtful_ones_beside_it(open_page):
    it = open_page()
    wrong = {
        "name": "depth_unit",
        "state": "fail",
        "says": "Depth is too far away.",
        "remedy": "Give its unit.",
    }

    def fail(route):
        reply = route.fetch()
        said = reply.json()
        action = {"type": "defer", "object": None, "reason": "failed_check"}
        route.fulfill(response=reply, json=said | {"action": action, "checks": [*said["checks"], wrong]})

    it.page.route(DECIDE, fail)
    scene = it.drop_scene(SCENE)
    (doubt,) = [check for check in scene["checks"] if check["name"] == "masks_source"]
    said = f"In doubt: {doubt['says']} {doubt['remedy']}".replace("`", "")
    expect(it.see("check-masks_source")).to_contain_text(said)
    it.see("doubts").locator("summary").click()
    expect(it.see("check-masks_source")).to_be_visible()
    it.choose(blocked_target(scene))
    expect(it.see("check-depth_unit")).to_have_text("✗ Failed: Depth is too far away. Give its unit.")
    expect(it.see("headline")).to_have_text("Do not act: the picture is not right")
    comes_true(it.page, IN_ORDER, ["checks-fail", "headline"])
    expect(it.see("change")).to_have_count(0)


def test_a_service_that_forgot_the_picture_is_sent_it_again(open_page):
    it = open_page()
    it.expected = ("404",)
    scene = it.drop_scene(SCENE)
    forgotten = {"code": "not_found", "message": "this scene is not kept (any more); send the picture again"}
    it.page.route(
        f"**/v1/scenes/{scene['id']}/decide", lambda route: route.fulfill(status=404, json=forgotten)
    )
    target = blocked_target(scene)
    with it.page.expect_response("**/v1/scenes") as again:
        it.see(f"badge-{target}").click()
    assert again.value.json()["id"] != scene["id"]
    expect(it.see("decision")).to_have_attribute("data-target", str(target))


def test_relation_changed_by_hand_changes_the_decision(open_page):
    it = open_page()
    scene = it.drop_scene(SCENE)
    target = blocked_target(scene)
    it.choose(target)
    before = it.settled()
    for each in [r for r in scene["relations"] if r["blocked"] == target]:
        it.page.locator(f'[data-testid=relation][data-pair="{each["blocker"]}>{target}"]').click()
        it.see("edit-number").fill("0")
        it.see("detail-close").click()
    expect(it.see("decision")).to_have_attribute("data-action", "grasp")
    after = it.settled()
    assert library_action(before) != library_action(after) == ("grasp", str(target))
    expect(it.see("edited-note")).to_contain_text("by hand")
    it.see("undo-all").click()
    it.page.wait_for_selector("[data-testid=edited-note]", state="detached")
    assert it.settled()["relations"] == before["relations"]
    shows_action(it, library_action(before))
    no_answer_is_shown_as_unknown_and_undone(it, scene, target)


def no_answer_is_shown_as_unknown_and_undone(it, scene, target) -> None:
    strongest = max(
        (r for r in scene["relations"] if r["blocked"] == target), key=lambda relation: relation["p"] or 0.0
    )
    pair = f"{strongest['blocker']}>{target}"
    it.page.locator(f'[data-testid=relation][data-pair="{pair}"]').click()
    it.see("edit-none").click()
    arrow = it.page.locator(f'[data-testid=arrow][data-pair="{pair}"]')
    expect(arrow).to_have_class(re.compile("unknown"))
    expect(arrow).to_contain_text("?")
    expect(it.see("edited-mark")).to_contain_text("Changed by hand")
    asked = it.settled()
    assert {"blocked": target, "blocker": strongest["blocker"], "p": None} in asked["relations"]
    shows_action(it, library_action(asked))
    it.see("edit-reset").click()
    expect(it.see("edited-mark")).to_have_text("")
    assert [each for each in it.settled()["relations"] if each["blocker"]] == scene["relations"]


def percent(p: float | None) -> str:
    if p is None:
        return "no answer"
    return ">99 %" if 0.99 < p < 1 else "<1 %" if 0 < p < 0.01 else f"{int(100 * p + 0.5)} %"


def test_likeliest_graphs_stand_with_their_share(open_page):
    it = open_page()
    scene = it.drop_scene("scene_00007")
    it.choose(blocked_target(scene))
    asked = it.settled()
    posterior = parse_scene(asked)
    if posterior.has_unanswered:
        for each in [r for r in scene["relations"] if r["p"] is None]:
            it.page.locator(
                f'[data-testid=relation][data-pair="{each["blocker"]}>{each["blocked"]}"]'
            ).click()
            it.see("edit-number").fill("40")
            it.see("detail-close").click()
        posterior = parse_scene(it.settled())
    expected = likeliest_graphs(posterior, 3)
    shown = [float(tile.get_attribute("data-share")) for tile in it.see("graph").all()]
    assert shown == pytest.approx([graph.share for graph in expected], abs=1e-9)
    it.see("graph").first.click()
    expect(it.see("arrow")).to_have_count(len(expected[0].relations))


def answer_what_is_missing(it, scene):
    for each in [r for r in scene["relations"] if r["p"] is None]:
        it.page.locator(f'[data-testid=relation][data-pair="{each["blocker"]}>{each["blocked"]}"]').click()
        it.see("edit-number").fill("0")
        it.see("detail-close").click()


def plan_says_what_comes_after(it, target) -> None:
    drag_tau(it, 0.05)
    with it.page.expect_response(asked_above("/v1/plan", it.settled()["tau"])) as reply:
        it.page.keyboard.press("ArrowRight")  # one move: an answer to a drag may be called off
    plan = reply.value.json()
    first = plan["first_action"]
    if first["type"] == "remove" and it.shown_action() == ("remove", str(first["object"])):
        expect(it.see("after")).to_contain_text(f"grasp ★{target}")
    else:
        expect(it.see("after")).to_have_count(0)


def test_plan_and_what_would_change_it_come_true(open_page):
    it = open_page()
    scene = it.drop_scene("scene_00007")
    target = blocked_target(scene)
    it.choose(target)
    it.settled()
    answer_what_is_missing(it, scene)
    plan_says_what_comes_after(it, target)
    before = it.shown_action()
    drag_tau(it, 0.4)
    with it.page.expect_response(asked_above("/v1/explain", it.settled()["tau"])) as reply:
        it.page.keyboard.press("ArrowRight")  # one move: an answer to a drag may be called off
    effects = [e for e in reply.value.json()["effects"] if e["flips_at"] is not None]
    decision = reply.value.json()["decision"]["action"]
    effects = [e for e in effects if e["flips_to"]["type"] != decision["type"] or decision["type"] != "defer"]
    assert effects, "this scene has something to try"
    first = effects[0]
    shown = f'[data-testid=change][data-pair="{first["blocker"]}>{first["blocked"]}"]'
    tells = "([shown, at]) => Math.abs(document.querySelector(shown)?.dataset.at - at) < 1e-9"
    comes_true(it.page, tells, [shown, first["flips_at"]])
    it.page.locator(shown).click()
    beyond = first["flips_at"] + (0.003 if first["flips_at"] > first["p"] else -0.003)
    it.see("edit-number").fill(f"{100 * min(max(beyond, 0.0), 1.0):.2f}")
    action = library_action(it.settled())
    shows_action(it, action)
    assert action[0] == first["flips_to"]["type"], before
