"""The live page, used as a person would: start, watch, step, ask for another object, stop."""

import re

import httpx
import pytest
from e2e.page_steps import comes_true, expect
from support.live_runs import PATIENCE_S, Follower

from cpor.pipeline import UNSEEN

pytest.importorskip("mujoco", reason="needs the extra sim")


STOP_ONCE_IT_MOVES = """() => new MutationObserver((_, watch) => {
    if (document.body.dataset.state !== 'running') return;
    watch.disconnect();
    document.querySelector('[data-testid=stop]').click();
}).observe(document.body, {attributes: true})"""


@pytest.fixture
def client(service):
    with httpx.Client(base_url=service, timeout=PATIENCE_S) as client:
        yield client
        for run in client.get("/v1/runs").json():  # what a failed test leaves must not keep the next from one
            client.delete(f"/v1/runs/{run['run_id']}")


@pytest.fixture
def open_live(open_page):
    """Opens the live page and has patience with it: a run takes its processor for itself."""

    def open_one(where="/live"):
        it = open_page(where)
        it.page.set_default_timeout(120_000)
        return it

    return open_one


def begin(it, tier, seed, paused=False, pace="100"):
    it.see("tier").select_option(tier)
    it.see("eyes").select_option("truth")  # its runs are the same everywhere
    it.see("seed").fill(str(seed))
    it.see("speed").select_option(pace)
    it.see("paused").set_checked(paused)
    it.see("begin").click()
    expect(it.page).to_have_url(re.compile("#run="), timeout=120_000)
    return it.page.evaluate("location.hash").removeprefix("#run=")


def wait_for_step(it, index):
    it.page.wait_for_selector(f'[data-testid=verdict][data-cycle="{index}"]')


def shows(it, cycle):
    """What the page shows is what the service said."""
    verdict = it.see("verdict")
    expect(verdict).to_have_attribute("data-cycle", str(cycle["index"]))
    expect(verdict).to_have_attribute("data-action", cycle["action"]["type"])
    expect(verdict).to_have_attribute("data-object", str(cycle["action"]["object"]))
    names = {o["id"]: o["name"] for o in cycle["objects"]}
    expect(it.see("headline")).to_contain_text(names[cycle["action"]["object"]])
    expect(it.see("why")).to_have_text(cycle["decision"]["words"]["why"])
    # What nobody segmented has no bar: nobody can act on it.
    scores = {int(obj): score for obj, score in cycle["decision"]["scores"].items() if int(obj) != UNSEEN}
    bars = it.page.locator("[data-testid^=bar-]")
    expect(bars).to_have_count(len(scores))
    shown = bars.evaluate_all("all => all.map(({dataset}) => [Number(dataset.id), Number(dataset.score)])")
    assert dict(shown) == scores and [score for _, score in shown] == sorted(scores.values(), reverse=True)
    expect(it.page.locator("#heap-picture")).to_have_attribute("data-picture", cycle["picture"])
    sizes = "all => all.map((each) => each.getBoundingClientRect()).map(({width, height}) => [width, height])"
    picture, hits = it.page.locator(".heap canvas, .hits").evaluate_all(sizes)
    assert hits == pytest.approx(picture, abs=0.5), "what is clicked lies on what is shown"


def click_on_picture(it, obj):
    """Click where the picture shows an object."""
    x, y = it.page.evaluate(
        """([x, y]) => {
            const place = new DOMPoint(x, y).matrixTransform(document.getElementById('hits').getScreenCTM());
            return [place.x, place.y];
        }""",
        obj["point"],
    )
    it.page.mouse.click(x, y)


LATE_REPLIES = """() => {
    const send = window.fetch;
    window.replies = 0;
    window.fetch = async (...asked) => {
        const reply = await send(...asked);
        if (!String(asked[0]).includes("/control")) return reply;
        await new Promise((done) => setTimeout(done, 4000));
        window.replies += 1;
        return reply;
    };
}"""
"""What the service replies to orders comes after what the stream says of them."""


def test_step_through_a_run_ask_for_another_object_and_stop(open_live, client, evidence):
    it = open_live()
    expect(it.see("status")).to_be_hidden()
    run_id = begin(it, "medium", 5, paused=True, pace="5")
    expect(it.see("begin")).to_be_disabled()
    it.page.wait_for_selector("body[data-state=paused]")
    follower = Follower(client, run_id)
    first = follower.wait_for_cycle(0, "decided")
    shows(it, first)
    comes_true(it.page, "document.documentElement.scrollHeight <= 768")
    expect(it.see("pause")).to_be_disabled()
    it.page.keyboard.press("s")  # one step
    wait_for_step(it, 1)
    it.page.wait_for_selector("body[data-state=paused]")
    expect(it.see("step-0")).to_contain_text(follower.wait_for_cycle(0, "done")["outcome"].split(":")[0])
    second = follower.wait_for_cycle(1, "decided")
    shows(it, second)
    it.see("step-0").click()  # look back
    shows(it, first)
    expect(it.see("came")).to_contain_text("It worked")
    expect(it.see("truth")).to_contain_text("In truth")
    it.see("step-1").click()
    others = [o for o in second["objects"] if o["id"] != second["target"] and o["visible"]]
    it.page.wait_for_selector(f"[data-testid=object-{others[0]['id']}]")
    click_on_picture(it, others[0])
    wait_for_step(it, 2)
    third = follower.wait_for_cycle(2, "decided")
    assert third["target"] == others[0]["id"] and third["retargeted"]
    expect(it.see("status")).to_contain_text(others[0]["name"])
    it.page.wait_for_selector("body[data-state=paused]")
    again = next(o["id"] for o in third["objects"] if o["id"] != third["target"])
    it.see(f"pick-{again}").focus()
    it.page.evaluate(LATE_REPLIES)
    it.page.keyboard.press("Enter")  # the same by keyboard
    wait_for_step(it, 3)
    assert follower.wait_for_cycle(3, "decided")["target"] == again
    comes_true(it.page, "window.replies === 1")
    it.page.wait_for_selector("body[data-state=paused]")  # the stream said so before the reply came
    it.page.evaluate(STOP_ONCE_IT_MOVES)  # by a hand as quick as the arm, however loaded the machine
    it.see("resume").click()
    it.page.wait_for_selector("body[data-state=ended]")
    expect(it.see("status")).to_contain_text("it was stopped")
    told = client.get(f"/v1/runs/{run_id}").json()
    assert (told["state"], told["ended"]) == ("ended", "stopped")
    expect(it.see("begin")).to_be_enabled()
    evidence(
        "serves", "live page in Chromium", "step, retarget by click and key, stop", "as the service says"
    )


def test_a_run_to_its_end_although_the_connection_breaks(open_live, client):
    it = open_live()
    it.expected = ("net::ERR_FAILED",)
    breaks = iter([True])
    it.page.route("**/events", lambda route: route.abort() if next(breaks, False) else route.continue_())
    run_id = begin(it, "easy", 4)
    it.page.wait_for_selector("body[data-state=ended]")
    expect(it.see("status")).to_have_text("✓ Done: retrieved the orange carrot after 1 step.")
    told = client.get(f"/v1/runs/{run_id}").json()
    assert told["ended"] == "retrieved" and told["target_name"] == "the orange carrot"
    film = re.compile(re.escape(f"/v1/runs/{run_id}/pictures/film_"))
    expect(it.see("film")).to_have_attribute("data-picture", film)
    it.page.reload()  # whoever comes later sees the same
    it.page.wait_for_selector("body[data-state=ended]")
    expect(it.see("headline")).to_have_text("The last look: what is left")
    follower = Follower(client, run_id)
    left = follower.wait_for_cycle(1, "last")
    assert "orange carrot" not in [each["name"] for each in left["objects"]]
    expect(it.page.locator("#heap-picture")).to_have_attribute("data-picture", left["picture"])
    it.see("step-0").click()
    shows(it, follower.wait_for_cycle(0, "done"))


def test_a_run_that_is_gone_and_one_that_may_not_begin_are_said(open_live, client):
    it = open_live("/live#run=nonsense")
    it.expected = ("404", "503")
    expect(it.see("problem")).to_contain_text("no such run")
    begun = client.post("/v1/runs", json={"tier": "easy", "seed": 4, "paused": True})
    it.see("begin").click()
    expect(it.see("problem")).to_contain_text("Another run is active")
    it.see("rejoin").click()
    expect(it.page).to_have_url(re.compile(begun.json()["run_id"]))
    it = open_live()  # another tab
    it.see("stop-other").click()
    expect(it.see("rejoin")).to_have_count(0)
    client.delete(f"/v1/runs/{begun.json()['run_id']}")


def test_without_the_simulator_the_page_says_what_to_install(open_page):
    it = open_page("/")
    reply = {"status": "ok", "version": "0", "perception": True, "simulator": False}
    it.page.route("**/healthz", lambda route: route.fulfill(json=reply))
    it.open("/live")
    expect(it.see("eyes")).to_have_value("networks")  # ours, where they are installed
    expect(it.see("problem")).to_contain_text("pip install 'cpor-grasp[sim]'")
    expect(it.see("begin")).to_be_disabled()
