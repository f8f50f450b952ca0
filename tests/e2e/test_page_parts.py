"""Around the decision: accessibility, cameras, stages of an upload, the API, the queue of labels."""

import json
import re
import shutil
from functools import cache
from importlib.resources import files

import pytest
from e2e.page_steps import PATIENCE_S, SCENE, comes_true, expect
from support.browser import SCENES, running_service

from cpor.apps.lab import is_labelled_by_hand
from cpor.io.scene_folder import read_scene_folder

SERIOUS = ("serious", "critical")


@cache
def _source() -> str:
    pytest.importorskip("axe_playwright_python", reason="needs axe-core (extra dev)")
    return files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")


def findings(page) -> list[dict]:
    """What axe finds in a page as it is now: impact, rule and the elements, one entry a rule."""
    page.evaluate(_source())
    found = page.evaluate("async () => (await axe.run(document)).violations")
    return [
        {"impact": each["impact"], "rule": each["id"], "elements": [node["html"] for node in each["nodes"]]}
        for each in found
    ]


def serious_findings(page) -> list[dict]:
    """Those that keep somebody from using it."""
    return [each for each in findings(page) if each["impact"] in SERIOUS]


@pytest.mark.parametrize(("scheme", "width"), [("light", 1366), ("dark", 360)])
def test_axe_finds_nothing_serious(open_page, scheme, width):
    it = open_page(color_scheme=scheme, viewport={"width": width, "height": 780}, bypass_csp=True)
    it.drop_scene(SCENE)
    it.page.locator("[data-testid^=badge-]").first.press("Enter")
    it.settled()
    it.see("correct").click()
    it.see("relation").first.click()
    expect(it.see("evidence")).to_be_visible()
    assert serious_findings(it.page) == []
    comes_true(it.page, "(width) => document.documentElement.scrollWidth <= width", width)


def test_a_phone_has_one_row_above_the_picture_and_the_rest_in_a_menu(open_page):
    it = open_page(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    it.choose(it.drop_scene(SCENE)["objects"][0]["id"])
    it.settled()
    assert it.page.locator("header.bar").bounding_box()["height"] <= 60
    picture = it.see("picture").bounding_box()
    assert picture["y"] + 0.6 * picture["height"] <= 844
    expect(it.see("open-glossary")).to_be_hidden()
    it.see("open-tools").tap()
    it.see("open-glossary").tap()
    expect(it.see("glossary")).to_be_visible()
    assert it.page.evaluate("document.documentElement.scrollWidth") <= 390


def test_the_api_is_described_without_another_host(open_page):
    it = open_page("/docs")
    expect(it.see("operation").first).to_be_visible()
    listed = {(each["path"], each["method"]) for each in it.see("operation").evaluate_all(
        "all => all.map(({dataset}) => ({path: dataset.path, method: dataset.method}))")}  # fmt: skip
    spec = it.page.evaluate("fetch('/openapi.json').then((reply) => reply.json())")
    assert listed == {(path, method) for path, methods in spec["paths"].items() for method in methods}
    one = it.page.locator("[data-path='/v1/decide']")
    one.locator("summary").first.click()
    expect(one).to_contain_text("relations[].blocker")
    expect(one).to_contain_text("Content-Type: application/json")


def test_an_upload_shows_its_stages(open_page):
    it = open_page()
    it.wait_for("empty")
    it.page.evaluate(
        """() => { window.seen = [];
        const watch = new MutationObserver(() => window.seen.push(
            [...document.querySelectorAll('#stages li')].map((each) => each.dataset.stage).join(' ')));
        watch.observe(document.getElementById('stages'), {childList: true}); }"""
    )
    it.drop_scene(SCENE)
    assert list(dict.fromkeys(it.page.evaluate("window.seen"))) == ["now later", "done now"]
    expect(it.see("stages")).to_be_hidden()


def test_the_cameras_of_the_browser_and_of_the_service(open_page):
    page = open_page(permissions=["camera"]).page
    page.get_by_test_id("use-camera").click()
    view = page.get_by_test_id("camera-view")
    expect(view).not_to_have_js_property("videoWidth", 0)
    with page.expect_response("**/v1/scenes") as reply:
        page.get_by_test_id("camera-take").click()
    assert reply.value.ok and reply.value.json()["has_depth"] is False
    expect(view).to_be_hidden()
    page.wait_for_selector('body[data-state="choose"]')

    page.get_by_test_id("open-pictures").click()
    page.get_by_test_id("use-depth-camera").click()
    expect(view).to_have_js_property("naturalWidth", 256)
    with page.expect_response("**/v1/camera/look") as reply:
        page.get_by_test_id("camera-take").click()
    seen = reply.value.json()
    assert seen["has_depth"] is True and len(seen["objects"]) > 1
    expect(page.get_by_test_id("object")).to_have_count(len(seen["objects"]))


def test_photographs_are_labelled_one_after_the_other(browser, tmp_path):
    photographs, out = tmp_path / "photographs", tmp_path / "labelled"
    for name in (SCENE, "scene_00007"):
        shutil.copytree(SCENES / name, photographs / name)
    options = (str(photographs), "--out", str(out), "--no-open")
    with running_service(*options, command="label") as url:
        page = browser.new_page()
        page.set_default_timeout(1000 * PATIENCE_S)
        page.goto(url)
        said = page.get_by_test_id("queue-text")
        expect(said).to_contain_text("2 of 2 photographs left")
        first = said.text_content().split(":")[0]
        expect(page.get_by_test_id("queue-asserts")).to_contain_text("every object has one mask")
        with page.expect_response("**/v1/queue/skip") as second:
            page.keyboard.press("l")
        expect(said).not_to_contain_text(first)
        assert not list(out.glob("scene_*"))
        before = len(second.value.json()["scene"]["objects"])
        expect(page.get_by_test_id("object")).to_have_count(before)
        page.keyboard.press("d")
        expect(page.get_by_test_id("tool-delete")).to_have_attribute("aria-pressed", "true")
        with page.expect_response("**/corrections"):
            page.locator("[data-testid^=badge-] .disc").first.click()
        expect(page.get_by_test_id("object")).to_have_count(before - 1)
        page.keyboard.press("a")
        expect(said).to_contain_text("1 of 2 photographs left")
        (written,) = out.glob("scene_*")
        labelled = read_scene_folder(written)
        assert written.name != first and is_labelled_by_hand(labelled) and len(labelled.ids) == before - 1
        page.get_by_test_id("queue-accept").click()
        expect(said).to_have_text(re.compile("All 2 photographs are labelled"))
    assert set(json.loads((out / "queue.json").read_text())) == {SCENE, "scene_00007"}


def test_names_and_colours_agree_between_picture_bars_and_relations(open_page):
    it = open_page()
    scene = it.drop_scene(SCENE)
    it.choose(scene["objects"][0]["id"])
    it.settled()
    names = {each["id"]: each["name"] for each in scene["objects"]}
    for obj, name in names.items():
        row = it.see(f"bar-{obj}")
        expect(row).to_contain_text(name)
        colours = it.page.evaluate(
            """(obj) => ['.badge-on-picture', '.object', '.row'].map((each) => document
                .querySelector(`${each}[data-id="${obj}"]`).style.getPropertyValue('--thing'))""",
            obj,
        )
        assert len(set(colours)) == 1 and colours[0].startswith("#"), (obj, colours)
        badge = row.locator(".badge").evaluate("(each) => each.style.background")
        r, g, b = (int(colours[0][k : k + 2], 16) for k in (1, 3, 5))
        assert badge == f"rgb({r}, {g}, {b})"
    target = it.page.locator(".object.is-target")
    expect(target.locator(".hatched")).to_have_css("visibility", "visible")
    expect(target.locator(".hatched")).to_have_css("fill", re.compile(rf"#hatch-{scene['objects'][0]['id']}"))
    for row in it.see("relation").all():
        blocked, blocker = (names[int(each)] for each in re.findall(r"\d+", row.get_attribute("data-pair")))
        expect(row).to_contain_text(blocked)
        expect(row).to_contain_text(blocker)


def test_the_first_screen_is_light_and_has_no_3_d_part(open_page):
    it = open_page()
    expect(it.page.locator('.thumb img[src^="blob:"]')).to_have_count(3)
    loaded = it.page.evaluate(
        """() => ['navigation', 'resource'].flatMap((kind) => performance.getEntriesByType(kind))
        .filter(({name}) => !name.startsWith('blob:'))
        .map(({name, encodedBodySize}) => [name, encodedBodySize])"""
    )
    assert any(name.endswith("/static/app.js") and size > 1000 for name, size in loaded)
    assert sum(size for _, size in loaded) < 500_000
    assert not any(name.endswith("/depth_view.js") for name, _ in loaded)


def test_the_scene_is_drawn_in_three_dimensions_and_turns(open_page):
    it = open_page()
    scene = it.drop_scene(SCENE)
    assert not it.page.evaluate(
        "performance.getEntriesByName(location.origin + '/static/depth_view.js').length"
    )
    it.choose(scene["objects"][0]["id"])
    it.settled()
    it.see("depth-view").click()
    canvas = it.see("depth-canvas")
    expect(canvas).to_be_visible()
    expect(canvas).to_have_attribute("data-angles", re.compile(r"\d"))
    colours = """(canvas) => new Set(new Uint32Array(canvas.getContext('2d')
        .getImageData(0, 0, canvas.width, canvas.height).data.buffer)).size"""
    assert canvas.evaluate(colours) > 50
    before = canvas.evaluate("(canvas) => canvas.toDataURL()")
    angles = canvas.get_attribute("data-angles")
    canvas.press("ArrowRight")
    expect(canvas).not_to_have_attribute("data-angles", angles)
    assert canvas.evaluate("(canvas) => canvas.toDataURL()") != before
    angles = canvas.get_attribute("data-angles")
    box = canvas.bounding_box()
    it.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    it.page.mouse.down()
    it.page.mouse.move(box["x"] + box["width"] / 2 + 80, box["y"] + box["height"] / 2, steps=4)
    it.page.mouse.up()
    expect(canvas).not_to_have_attribute("data-angles", angles)
    assert canvas.evaluate(colours) > 50
    it.see("depth-view").click()
    expect(canvas).to_be_hidden()
