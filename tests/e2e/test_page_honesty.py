"""The page never says more than is known: missing answers, late answers, and lines that nobody tested."""

import json
import math
import re

from e2e.page_steps import DECIDE, expect, shows_action
from e2e.watched_page import library_action, library_decision

from cpor.pipeline import UNSEEN

SCENE = "scene_00007"
WIDE = 0.01
PROMISE = {"alpha": 0.05, "confidence": 0.9}


def strongest_relation(scene: dict) -> dict:
    """The surest of those that alone obstruct something: without it, much is open."""
    sure = [relation for relation in scene["relations"] if (relation["p"] or 0.0) > 0.3]
    blocked = [relation["blocked"] for relation in sure]
    alone = [relation for relation in sure if blocked.count(relation["blocked"]) == 1]
    return max(alone, key=lambda relation: relation["p"])


def without_an_answer(it, scene: dict, relation: dict) -> dict:
    """Choose what it obstructs and say that nobody knows; what the page asked then."""
    it.choose(relation["blocked"])
    pair = f"{relation['blocker']}>{relation['blocked']}"
    it.page.locator(f'[data-testid=relation][data-pair="{pair}"]').click()
    it.see("edit-none").click()
    expect(it.see("edited-mark")).to_contain_text("no answer instead of")
    return it.settled()


def add_to_replies(it, where: str, change: dict) -> None:
    def add(route):
        reply = route.fetch()
        route.fulfill(response=reply, json=reply.json() | change)

    it.page.route(where, add)


def with_promise(it, promise: dict | None, acted: dict | None = None) -> None:
    """Let scenes say what is promised in the mode cautious, and answers what is promised of them."""
    add_to_replies(it, "**/v1/scenes", {"promise": promise})
    add_to_replies(it, DECIDE, {"promise": acted})


def to_tau(it, key: str) -> None:
    it.see("tau").focus()
    it.page.keyboard.press(key)
    expect(it.see("decision")).to_have_attribute("data-tau", {"Home": "0", "End": "1"}[key])


def bars_show_both_ends(it, decision) -> None:
    wide = 0
    for obj in decision.scores:
        low, high = decision.interval(obj)
        if high - low < WIDE or obj == UNSEEN:
            continue
        wide += 1
        shown = f"{math.floor(100 * low + 1e-9)}\u2013{math.ceil(100 * high - 1e-9)} %"
        expect(it.see(f"bar-{obj}").locator(".row-value")).to_have_text(shown)
    assert wide > 0


def test_missing_answer_is_asked_for_and_no_change_is_promised(open_page):
    it = open_page()
    scene = it.drop_scene(SCENE)
    asked = without_an_answer(it, scene, strongest_relation(scene))
    bars_show_both_ends(it, library_decision(asked))
    # What somebody overruled no longer decides.
    expect(it.see("evidence-p")).to_have_class(re.compile("overruled"))
    expect(it.see("evidence-p")).not_to_contain_text("this decides")
    it.see("edit-reset").click()
    expect(it.see("evidence-p")).to_contain_text("this decides")
    it.see("edit-none").click()
    expect(it.see("edited-mark")).to_contain_text("no answer instead of")
    asked = it.settled()
    assert None in [each["p"] for each in asked["relations"]]
    expect(it.see("missing")).to_contain_text("it is not known what else would change the decision")
    unknown = [f"{each['blocker']}>{each['blocked']}" for each in asked["relations"] if each["p"] is None]
    expect(it.see("missing")).to_have_attribute("data-pair", re.compile("|".join(map(re.escape, unknown))))
    expect(it.see("change")).to_have_count(0)
    expect(it.see("changes")).not_to_contain_text("No single relation")
    for pair in unknown:  # with every answer given, changes are named again
        it.see("detail-close").click()
        it.page.locator(f'[data-testid=relation][data-pair="{pair}"]').click()
        it.see("edit-number").fill("30")
    expect(it.see("missing")).to_have_count(0)
    assert None not in [each["p"] for each in it.settled()["relations"]]
    expect(it.see("changes")).to_contain_text(re.compile("If |No single relation"))


def test_decision_before_never_looks_like_the_answer(open_page):
    it = open_page()
    it.expected = ("Failed to load resource",)
    scene = it.drop_scene(SCENE)
    it.choose(strongest_relation(scene)["blocked"])
    for trouble in ("gone", "busy"):
        to_tau(it, "Home")
        it.settled()
        assert it.shown_action()[0] in ("grasp", "remove")
        acted = it.see(f"badge-{it.shown_action()[1]}")
        expect(acted).to_contain_text(it.shown_action()[0])
        refuse_decisions(it, trouble)
        it.page.keyboard.press("End")
        expect(it.see("headline")).to_have_text("Not answered yet")
        shows_action(it, ("none", ""))
        expect(it.page.locator("#workplace")).to_have_attribute("data-stale", "")
        expect(acted).not_to_contain_text(re.compile("grasp|remove"))
        expect(it.page.locator(".tick").first).to_be_hidden()
        it.page.unroute(DECIDE)
        if trouble == "busy":
            expect(it.see("error")).to_contain_text("too many at once")
            it.see("again").click()
        expect(it.see("decision")).to_have_attribute("data-tau", "1")
        shows_action(it, library_action(it.settled()))
        expect(it.page.locator("#workplace")).not_to_have_attribute("data-stale", "")


def refuse_decisions(it, trouble: str) -> None:
    """The service is gone, or too busy to decide."""
    refusal, refused = json.dumps({"code": "busy", "message": "too many at once"}), []

    def refuse(route):
        refused.append(route.request.url)
        if trouble == "gone":
            route.abort()
        else:
            route.fulfill(status=503, content_type="application/json", body=refusal)

    it.page.route(DECIDE, refuse)
    while not refused:  # a busy browser may let a request pass that comes too soon
        it.page.evaluate("fetch('/v1/scenes/none/decide', {method: 'POST'}).catch(() => 0)")


def test_acting_below_the_tested_line_says_that_nothing_is_promised(open_page):
    it = open_page()
    for promise, acted in ((PROMISE, None), (None, None), (PROMISE, PROMISE)):
        with_promise(it, promise, acted)
        scene = it.drop_scene(SCENE)
        it.choose(strongest_relation(scene)["blocked"])
        if promise is None:
            expect(it.see("promised")).to_be_hidden()
        else:
            expect(it.see("promised")).to_have_text(re.compile("tested"))
            expect(it.see("promised")).to_have_attribute("data-above", str(scene["modes"]["cautious"]))
        to_tau(it, "Home")
        it.settled()
        assert it.shown_action()[0] in ("grasp", "remove")
        if promise == acted:  # nothing is known, or all was tested
            expect(it.see("untested")).to_have_count(0)
        else:
            expect(it.see("untested")).to_contain_text("No error rate is promised for this line")
        to_tau(it, "End")
        expect(it.see("untested")).to_have_count(0)
