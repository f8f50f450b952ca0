"""The pages and the site in a real browser: axe-core in light and dark, on a laptop, a tablet and a phone.

Also how large and how fast the first screen of the site is, read from disk. Needs `make docs` before.
Rows go to out/evidence/.

Run: python benchmarks/evidence_access.py [--only access_pages,access_queue,access_site,access_first_screen]
"""

import itertools
import os
import shutil
import statistics
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from long_parts import Row, measure_parts
from page_states import SCHEMES, SIZES, STATES
from support.axe import SERIOUS, findings
from support.browser import SCENES, open_browser, running_service

ROOT = Path(__file__).resolve().parents[1]
SITE = ROOT / "out" / "site"
RUNS = 10
PATIENCE_MS = 120_000

State = tuple[str, Callable[[Any], None]]


def look(browser: Any, states: dict[str, State]) -> tuple[list[str], int, int, int]:
    """Serious findings in words, others, screens looked at, and screens that scroll sideways."""
    serious, others, looked, wide = [], 0, 0, 0
    for (name, (where, go)), scheme, (size, (width, height)) in itertools.product(
        states.items(), SCHEMES, SIZES.items()
    ):
        touch = size != "laptop"
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=scheme,
            reduced_motion="reduce",
            bypass_csp=True,
            has_touch=touch,
            is_mobile=touch,
        )
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.goto(where)
        go(page)
        for each in findings(page):
            if each["impact"] in SERIOUS:
                serious.append(f"{name}, {scheme}, {size}: {each['rule']} {each['elements'][0][:160]}")
                print(serious[-1], flush=True)
            else:
                others += 1
        wide += page.evaluate("document.documentElement.scrollWidth") > width
        looked += 1
        context.close()
    return serious, others, looked, wide


def rows(what: str, found: tuple[list[str], int, int, int]) -> list[Row]:
    serious, others, looked, wide = found
    said = f"{len(serious)} in {looked} screens ({others} lesser ones)"
    return [
        ("serves", f"{what}, light and dark, laptop, tablet, phone: serious findings of axe-core", "0", said),
        ("serves", f"{what}: screens that scroll sideways, 360 px and wider", "0", f"{wide} of {looked}"),
    ]


def pages() -> list[Row]:
    """The pages of the service in every state."""
    with running_service() as url, open_browser() as browser:
        states = {name: (url + where, go) for name, (where, go) in STATES.items()}
        return rows("pages of the service", look(browser, states))


def queue() -> list[Row]:
    """The page as a queue of photographs to label."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for name in ("scene_00003", "scene_00007"):
            shutil.copytree(SCENES / name, folder / "photographs" / name)
        options = (str(folder / "photographs"), "--out", str(folder / "labelled"), "--no-open")
        url = stack.enter_context(running_service(*options, command="label"))
        browser = stack.enter_context(open_browser())
        shown = (url, lambda page: page.wait_for_selector('body[data-state="choose"]'))
        return rows("the queue of photographs to label", look(browser, {"queue": shown}))


def _loaded(page: Any) -> None:
    page.wait_for_load_state("load")
    page.wait_for_timeout(500)  # the theme's scripts wrap tables and code


def site() -> list[Row]:
    """All pages of the site, from disk."""
    # The page for what is not found is for web servers: its addresses do not hold on disk.
    names = sorted(str(page.relative_to(SITE)) for page in SITE.rglob("*.html") if page.name != "404.html")
    states: dict[str, State] = {name: ((SITE / name).as_uri(), _loaded) for name in names}
    with open_browser() as browser:
        return rows(f"all {len(names)} pages of the site", look(browser, states))


def first_screen() -> list[Row]:
    """Bytes and seconds of the site's first screen, from disk, nothing cached."""
    took, size = [], 0
    with open_browser() as browser:
        for _ in range(RUNS):
            context = browser.new_context(viewport={"width": 1366, "height": 768})
            page = context.new_page()
            page.set_default_timeout(PATIENCE_MS)
            asked: list[str] = []
            page.on("request", lambda request, asked=asked: asked.append(request.url))
            page.goto((SITE / "index.html").as_uri())
            page.wait_for_load_state("load")
            took.append(page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd") / 1000.0)
            files = {url.partition("?")[0].partition("#")[0].removeprefix("file://") for url in asked}
            size = sum(Path(file).stat().st_size for file in files if Path(file).is_file())
            context.close()
    load = os.getloadavg()[0]
    return [
        ("serves", "first screen of the site, from disk: size", "< 500 kB", f"{size / 1000:.0f} kB"),
        (
            "fast",
            f"first screen of the site, from disk, median of {RUNS}",
            "< 1 s",
            f"{statistics.median(took):.2f} s; load {load:.1f} on {os.cpu_count()} cores",
        ),
    ]


PARTS = {"pages": pages, "queue": queue, "site": site, "first_screen": first_screen}


if __name__ == "__main__":
    measure_parts({f"access_{name}": part for name, part in PARTS.items()}, __doc__)
