"""What the page does when things go wrong, or come late."""

import re

from e2e.page_steps import DECIDE, SCENE, expect, shows_action
from e2e.watched_page import library_action
from support.browser import SCENES, running_service


def test_error_of_the_service_or_its_end_is_shown_plainly_and_nothing_is_lost(open_page, tmp_path):
    it = open_page()
    it.expected = ("Failed to load resource",)
    scene = it.drop_scene(SCENE)
    it.choose(scene["objects"][0]["id"])
    it.settled()
    before = it.shown_action()
    broken = tmp_path / "rgb.png"
    broken.write_bytes((SCENES / SCENE / "rgb.png").read_bytes()[:400])
    with it.page.expect_response("**/v1/scenes") as reply:
        it.drop(broken)
    assert 400 <= reply.value.status < 500
    expect(it.see("error")).to_contain_text(reply.value.json()["message"])
    shows_action(it, before)
    it.page.keyboard.press("Escape")
    expect(it.see("error")).to_be_hidden()
    second = scene["objects"][1]["id"]
    it.page.route("**/*", lambda route: route.abort())
    it.see(f"badge-{second}").click()
    expect(it.see("gone")).to_be_visible()
    it.page.unroute("**/*")
    expect(it.see("gone")).to_be_hidden()
    expect(it.see("decision")).to_have_attribute("data-target", str(second))
    shows_action(it, library_action(it.settled()))


def test_a_service_that_is_starting_is_waited_for(open_page):
    it = open_page()
    it.expected = ("503",)
    starting = iter([{"code": "busy", "message": "no worker is ready"}])

    def answer(route):
        if (said := next(starting, None)) is None:
            route.continue_()
        else:
            route.fulfill(status=503, headers={"Retry-After": "1"}, json=said)

    it.page.route("**/healthz", answer)
    it.open("/?example=touching-toys")
    expect(it.see("busy")).to_contain_text("The service is starting")
    it.wait_for("choose")
    expect(it.see("error")).to_be_hidden()


def test_drop_without_a_colour_picture_says_what_is_missing_and_no_name_becomes_markup(open_page, tmp_path):
    it = open_page()
    it.wait_for("empty")
    it.drop(SCENES / SCENE / "depth.png")
    expect(it.see("error")).to_contain_text("No colour picture among depth.png")
    it.wait_for("empty")
    strange = tmp_path / "<img src=x onerror=alert(1)>.npz"
    strange.write_bytes(b"nothing")
    it.drop(strange)
    expect(it.see("error")).to_contain_text("<img src=x")
    expect(it.page.locator("#error img")).to_have_count(0)


def test_late_reply_never_replaces_a_newer_one(open_page):
    it = open_page()
    scene = it.drop_scene(SCENE)
    it.choose(scene["objects"][0]["id"])
    it.settled()
    held = []

    def hold_first(route):
        if held:
            route.continue_()
        else:
            held.append(route)

    it.page.route(DECIDE, hold_first)
    it.see("tau").focus()
    it.page.keyboard.press("Home")
    while not held:
        it.page.wait_for_timeout(10)
    it.page.keyboard.press("End")
    expect(it.see("decision")).to_have_attribute("data-tau", "1")
    with it.page.expect_request_finished(lambda request: request == held[0].request):
        held[0].continue_()
    it.wait_for_answer()
    expect(it.see("decision")).to_have_attribute("data-tau", "1")
    expect(it.see("decision")).to_have_attribute("data-action", "defer")


def test_examples_that_come_late_are_waited_for(open_page):
    it = open_page("/static/icon.svg")
    held = []
    it.page.route("**/v1/examples", lambda route: held.append(route))
    it.open()
    expect(it.page.get_by_text("Loading the examples…")).to_be_visible()
    expect(it.see("drop-zone")).to_be_visible()
    while not held:
        it.page.wait_for_timeout(10)
    held[0].continue_()
    expect(it.see("example").nth(2)).to_be_visible()


def test_without_networks_it_says_so_and_examples_use_their_masks(open_page):
    it = open_page("/static/icon.svg")

    def without_perception(route):
        reply = route.fetch()
        route.fulfill(response=reply, json=reply.json() | {"perception": False})

    it.page.route("**/healthz", without_perception)
    it.open()
    expect(it.see("no-perception")).to_be_visible()
    with it.page.expect_response(lambda reply: reply.request.method == "POST") as reply:
        it.see("example").first.click()
    assert "masks=given" in reply.value.url
    assert reply.value.json()["masks"] == "given"
    it.wait_for("choose")


def test_service_with_a_token_asks_for_it_and_goes_on(browser, monkeypatch):
    monkeypatch.setenv("PAGE_TEST_TOKEN", "quite-long-and-not-guessed")
    with running_service("--token-env", "PAGE_TEST_TOKEN") as url:
        page = browser.new_context().new_page()
        page.goto(url)
        expect(page.get_by_test_id("token")).to_be_visible()
        page.get_by_test_id("token-text").fill("long-enough-and-wrong")
        page.get_by_test_id("token-send").click()
        expect(page.get_by_test_id("token")).to_contain_text("not the token of this service")
        page.get_by_test_id("token-text").fill("quite-long-and-not-guessed")
        page.get_by_test_id("token-send").click()
        expect(page.get_by_test_id("example").first).to_be_visible()
        expect(page.locator(".thumb img").first).to_have_attribute("src", re.compile("^blob:"))
        page.context.close()


def test_a_failed_question_is_said_until_it_is_read_and_a_slow_one_shows_that_it_is_asked(open_page):
    it = open_page()
    it.expected = ("Failed to load resource",)
    scene = it.drop_scene(SCENE)
    it.choose(scene["objects"][0]["id"])
    it.settled()
    broken = {"code": "late", "message": "The worker was too slow."}
    it.page.route(DECIDE, lambda route: route.fulfill(status=504, json=broken), times=1)
    it.see("mode-balanced").click()
    expect(it.see("error")).to_contain_text("The worker was too slow.")
    held = []
    it.page.route(DECIDE, lambda route: held.append(route), times=1)
    it.see("mode-bold").click()
    expect(it.page.locator("body[data-asking]")).to_have_count(1)
    while not held:
        it.page.wait_for_timeout(10)
    held[0].continue_()
    expect(it.page.locator("body[data-asking]")).to_have_count(0)
    expect(it.see("error")).to_contain_text("The worker was too slow.")
    it.choose(scene["objects"][1]["id"])
    it.settled()
    expect(it.see("error")).to_contain_text("The worker was too slow.")
    it.page.locator("#error-close").click()
    expect(it.see("error")).to_be_hidden()
