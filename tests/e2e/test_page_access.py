"""Keyboard, labels, contrast, sizes and speed of the page."""

import itertools

import pytest
from e2e.page_steps import SCENE, comes_true, expect, shows_action
from e2e.watched_page import library_action
from support.browser import SCENES
from support.sizes import sized

TABLET = {"width": 1024, "height": 768}

# Names of everything that can be used, as a screen reader would say them; empty ones are returned.
NAMELESS = """() => [...document.querySelectorAll(
    'button, a, input, select, [role=button], [role=slider], summary')]
    .filter((node) => node.checkVisibility())
    .filter((node) => !(node.getAttribute('aria-label') || node.labels?.length || node.textContent.trim()))
    .map((node) => node.outerHTML)"""

SMALL = """(least) => [...document.querySelectorAll('button, a, select, [role=button], [role=slider], input')]
    .filter((node) => node.checkVisibility() && !node.classList.contains('visually-hidden'))
    .map((node) => [node.outerHTML.slice(0, 90), node.getBoundingClientRect()])
    .filter(([, box]) => box.height < least - 0.5 || box.width < least - 0.5).map(([text]) => text)"""

COLOURS = """(pairs) => pairs.map((pair) => pair.map((token) => {
    const probe = document.createElement('i');
    probe.style.color = `var(${token})`;
    document.body.append(probe);
    const found = getComputedStyle(probe).color;
    probe.remove();
    return found.match(/[0-9.]+/g).slice(0, 3).map(Number);
}))"""

TEXT_ON = [
    *itertools.product(["--ink", "--dim", "--main", "--bad"], ["--page", "--card", "--sunk"]),
    *itertools.product(
        ["--ink", "--dim", "--main"], ["--grasp-tint", "--remove-tint", "--ask-tint", "--soft"]
    ),
    ("--grasp", "--grasp-tint"),
    ("--remove", "--remove-tint"),
    ("--ask", "--ask-tint"),
    ("--ink", "--bad-tint"),
    ("--bad", "--bad-tint"),
    ("--on-main", "--main"),
    *itertools.product(["--edited"], ["--card", "--grasp-tint", "--remove-tint", "--ask-tint"]),
]

# From the move of the hand to the decision on the page, without the screen's own delay.
DRAG = """async (moves) => {
    const decision = document.querySelector('[data-testid=decision]');
    const axis = document.querySelector('.axis');
    const box = axis.getBoundingClientRect();
    const point = (type, x) => axis.dispatchEvent(new PointerEvent(type, {bubbles: true, button: 0,
        pointerId: 1, isPrimary: true, clientX: x, clientY: box.y + 5}));
    axis.setPointerCapture = () => {};
    const times = [];
    point('pointerdown', box.x + 0.5 * box.width);
    await new Promise((done) => setTimeout(done, 300));
    for (let i = 0; i < moves; i++) {
        const tau = Math.round(1000 * (0.1 + 0.8 * ((i * 0.618) % 1))) / 1000;
        const start = performance.now();
        const shown = new Promise((done) => {
            const watch = new MutationObserver(() => {
                if (Math.abs(Number(decision.dataset.tau) - tau) > 0.002) return;
                watch.disconnect();
                done(performance.now() - start);
            });
            watch.observe(decision, {attributes: true});
        });
        point('pointermove', box.x + tau * box.width);
        times.push(await shown);
    }
    point('pointerup', box.x);
    return times.sort((a, b) => a - b);
}"""


INSIDE = """([name, height]) => {
    const box = document.querySelector(`[data-testid=${name}]`).getBoundingClientRect();
    return box.top >= 0 && box.bottom <= height;
}"""


def luminance(rgb):
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (v / 255 for v in rgb)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a, b):
    light, dark = sorted((luminance(a), luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_text_stands_out_from_what_is_behind_it(open_page, evidence):
    it = open_page()
    it.wait_for("empty")
    seen = []
    for scheme in ("light", "dark"):
        it.page.emulate_media(color_scheme=scheme)
        pairs = it.page.evaluate(COLOURS, TEXT_ON)
        seen.append(pairs)
        found = {names: contrast(*colours) for names, colours in zip(TEXT_ON, pairs, strict=True)}
        low = {names: round(ratio, 2) for names, ratio in found.items() if ratio < 4.5}
        assert not low
        evidence("serves", f"least contrast of text, {scheme}", ">= 4.5 (WCAG AA)", min(found.values()))
    assert seen[0] != seen[1]


def test_everything_by_keyboard_alone(open_page):
    it = open_page()
    it.wait_for("empty")
    expect(it.see("example").first).to_be_visible()
    keys = it.page.keyboard
    for _ in range(12):
        keys.press("Tab")
        if it.page.evaluate("document.activeElement.dataset.testid") == "example":
            break
    keys.press("Enter")
    it.wait_for("choose")
    target = int(it.page.locator("[data-testid^=badge-]").first.get_attribute("data-id"))
    keys.press(str(target)[0])
    expect(it.see("decision")).to_have_attribute("data-target", str(target)[0])
    tau = it.settled()["tau"]
    keys.press("ArrowRight")
    assert it.settled()["tau"] == pytest.approx(round(tau + 0.01, 2))
    it.see("tau").focus()
    keys.press("End")
    expect(it.see("decision")).to_have_attribute("data-action", "defer")
    shows_action(it, library_action(it.settled()))
    keys.press("n")
    expect(it.see("evidence")).to_be_visible()
    it.see("edit-range").focus()
    keys.press("Home")
    expect(it.see("edited-note")).to_be_visible()
    keys.press("Escape")
    expect(it.see("evidence")).to_have_count(0)
    keys.press("?")
    expect(it.see("keys")).to_be_visible()
    keys.press("Escape")
    expect(it.see("keys")).to_be_hidden()
    keys.press("/")
    expect(it.see("words")).to_be_focused()
    keys.press("Escape")
    keys.press("o")
    it.wait_for("empty")
    keys.press("Escape")
    it.wait_for("decided")


def test_badge_is_a_button_for_the_keyboard_and_a_laptop_shows_what_counts(open_page):
    it = open_page()
    scene = it.drop_scene(SCENE)
    obj = scene["objects"][2]["id"]
    it.see(f"badge-{obj}").focus()
    it.page.keyboard.press("Enter")
    expect(it.see("decision")).to_have_attribute("data-target", str(obj))
    expect(it.see(f"badge-{obj}")).to_have_attribute("aria-pressed", "true")
    expect(it.see(f"badge-{obj}")).to_be_focused()
    it.settled()
    decision_and_picture_are_seen_without_scrolling(it)
    meaning_is_not_told_by_colour_alone(it, obj)


def decision_and_picture_are_seen_without_scrolling(it):
    expect(it.see("changes")).not_to_contain_text("Thinking")
    comes_true(
        it.page, "(page => page.scrollHeight === 768 && page.scrollWidth === 1366)(document.documentElement)"
    )
    for name in ("decision", "picture"):
        comes_true(it.page, INSIDE, [name, 768])
    best = it.page.locator("[data-testid^=bar-]").first.get_attribute("data-testid")
    comes_true(it.page, INSIDE, [best, 768])
    for name in ("bars", "changes", "graphs"):  # the column beside the picture scrolls by itself
        it.see(name).scroll_into_view_if_needed()
        comes_true(
            it.page,
            "name => document.querySelector(`[data-testid=${name}]`).getBoundingClientRect().top < 768",
            name,
        )
        comes_true(it.page, INSIDE, ["picture", 768])


def meaning_is_not_told_by_colour_alone(it, target):
    expect(it.see(f"badge-{target}")).to_contain_text("★")
    kind, obj = it.shown_action()
    if kind != "defer":
        expect(it.see(f"badge-{obj}")).to_contain_text(kind)
        expect(it.see(f"bar-{obj}")).to_contain_text("✓")
    for arrow in it.page.locator(".arrow.cycle").all():
        expect(arrow).to_contain_text("⟳")
    for arrow in it.page.locator(".arrow.unknown").all():
        expect(arrow).to_contain_text("?")


def test_everything_that_can_be_used_has_a_name(open_page):
    it = open_page()
    it.wait_for("empty")
    expect(it.see("example").first).to_be_visible()
    assert it.page.evaluate(NAMELESS) == []
    scene = it.drop_scene(SCENE)
    it.choose(scene["objects"][0]["id"])
    it.settled()
    assert it.page.evaluate(NAMELESS) == []
    it.see("relation").first.click()
    expect(it.see("evidence")).to_be_visible()
    assert it.page.evaluate(NAMELESS) == []
    assert it.page.locator("h1").count() == 1
    assert it.page.locator("html").get_attribute("lang") == "en"
    tau = it.see("tau")
    assert [tau.get_attribute(f"aria-value{each}") for each in ("min", "max")] == ["0", "100"]
    assert "surer than" in tau.get_attribute("aria-valuetext")
    ids = it.page.evaluate("() => [...document.querySelectorAll('[id]')].map((node) => node.id)")
    assert len(ids) == len(set(ids))


def test_fingers_meet_targets_of_40_px_on_a_tablet(open_page):
    it = open_page(viewport=TABLET, has_touch=True, is_mobile=True)
    it.wait_for("empty")
    expect(it.see("example").first).to_be_visible()
    assert it.page.evaluate(SMALL, 40) == []
    scene = it.drop_scene(SCENE)
    obj = scene["objects"][1]["id"]
    it.see(f"badge-{obj}").tap()
    expect(it.see("decision")).to_have_attribute("data-target", str(obj))
    it.settled()
    assert it.page.evaluate(SMALL, 40) == []
    it.see("relation").first.tap()
    expect(it.see("evidence")).to_be_visible()
    assert it.page.evaluate(SMALL, 40) == []
    assert it.page.evaluate("document.documentElement.scrollWidth") <= TABLET["width"]


def test_theme_is_switched_and_kept(open_page):
    it = open_page(color_scheme="light")
    it.wait_for("empty")
    colour = "getComputedStyle(document.body).backgroundColor"
    light = it.page.evaluate(colour)
    it.see("theme").click()
    comes_true(it.page, f"(light) => {colour} !== light", light)
    dark = it.page.evaluate(colour)
    it.open()
    comes_true(it.page, f"(dark) => {colour} === dark", dark)


def test_dragged_tau_to_decision_time(open_page, evidence):
    it = open_page()
    scene = it.drop_scene("scene_00007")
    it.choose(scene["objects"][0]["id"])
    it.settled()
    n = sized(15, 60)
    times = it.page.evaluate(DRAG, n)
    assert len(times) == n
    shows_action(it, library_action(it.settled()))
    evidence(
        "fast",
        f"dragged tau to the decision on the page, median of {n}",
        "<= 50 ms",
        f"{times[n // 2]:.1f} ms",
    )
    evidence("fast", "the same, 95th percentile", "", f"{times[int(0.95 * n) - 1]:.1f} ms")


def test_files_can_be_chosen_as_well_as_dropped(open_page):
    it = open_page()
    it.wait_for("empty")
    with it.page.expect_file_chooser() as chooser:
        it.see("choose-files").click()
    chooser.value.set_files(
        [
            SCENES / SCENE / name
            for name in ("rgb.png", "depth.png", "camera.json", "instances.png", "amodal.npz")
        ]
    )
    it.wait_for("choose")
    expect(it.see("object").first).to_be_visible()
