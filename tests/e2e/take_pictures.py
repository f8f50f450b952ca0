"""Takes the pictures of the page: `python tests/e2e/take_pictures.py docs/pictures [page-remove ...]`."""

import io
import sys
from pathlib import Path

from PIL import Image

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.browser import open_browser, running_service

LAPTOP = (1366, 768)
TABLET = (1024, 768)
MOST_BYTES = 290_000
"""Larger pictures make do with 256 colours: a repository keeps them for ever."""

# Name, size, colours, address, what to click before.
PICTURES = [
    ("page-first-visit", LAPTOP, "light", "/", []),
    ("page-choose", LAPTOP, "light", "/?example=touching-toys", []),
    ("page-remove", LAPTOP, "light", "/?example=touching-toys&target=3", []),
    ("page-ask-dark", LAPTOP, "dark", "/?example=full-bin&target=3", []),
    ("page-evidence", LAPTOP, "light", "/?example=full-bin&target=3", ["answer-yes"]),
    ("page-grasp-tablet", TABLET, "light", "/?example=loose-bin&target=3&tau=0.5", []),
    ("page-dark-tablet", TABLET, "dark", "/?example=full-bin&target=4", []),
    ("live", LAPTOP, "light", "/live", ["begin"]),
]


def take(browser, url: str, size: tuple[int, int], scheme: str, where: str, clicks: list[str]) -> bytes:
    viewport = {"width": size[0], "height": size[1]}
    context = browser.new_context(viewport=viewport, color_scheme=scheme, has_touch=size == TABLET)
    page = context.new_page()
    page.goto(url + where, timeout=120_000)
    states = {"target": "decided", "example": "choose", "live": "none"}
    state = next((state for word, state in states.items() if word in where), "empty")
    page.wait_for_selector(f'body[data-state="{state}"]', timeout=60_000)
    if state == "empty":
        page.wait_for_selector('.thumb img[src^="blob:"]')
    if state == "decided":
        page.wait_for_selector("[data-testid^=change], [data-testid=missing]", timeout=60_000)
    for name in clicks:
        page.get_by_test_id(name).first.click()
    if state == "none":
        page.wait_for_selector("[data-testid=step-1]", timeout=300_000)
        page.wait_for_timeout(4_000)  # the arm is on its way
    else:
        page.wait_for_load_state("networkidle")
    page.wait_for_timeout(1_000)
    taken: bytes = page.screenshot()
    context.close()
    return taken


def main(folder: Path, only: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with running_service() as url, open_browser() as browser:
        for name, size, scheme, where, clicks in [each for each in PICTURES if each[0] in only or not only]:
            picture = Image.open(io.BytesIO(take(browser, url, size, scheme, where, clicks))).convert("RGB")
            file = folder / f"{name}.png"
            picture.save(file, optimize=True)
            if file.stat().st_size > MOST_BYTES:
                picture.quantize(256, dither=Image.Dither.FLOYDSTEINBERG).save(file, optimize=True)
            sys.stdout.write(f"{name}: {file.stat().st_size // 1024} kB\n")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/pictures"), sys.argv[2:])
