"""States of the pages that are looked at by the accessibility check: how to get there in a browser."""

from collections.abc import Callable
from typing import Any

SIZES = {"laptop": (1366, 768), "tablet": (1024, 768), "phone": (360, 780)}
SCHEMES = ("light", "dark")
EXAMPLE = "/?example=touching-toys&target=7&tau=0.5"


def _decided(page: Any) -> None:
    page.wait_for_selector('body[data-state="decided"]')
    page.wait_for_selector("[data-testid=change], [data-testid=missing]")


def _first(page: Any) -> None:
    page.wait_for_selector('.thumb img[src^="blob:"]')


def _choose(page: Any) -> None:
    page.wait_for_selector('body[data-state="choose"]')


def _after(*names: str) -> Callable[[Any], None]:
    """Decided, then these clicked one after the other."""

    def go(page: Any) -> None:
        _decided(page)
        for name in names:
            page.get_by_test_id(name).first.click()
        page.wait_for_timeout(300)

    return go


def _live(page: Any) -> None:
    page.wait_for_selector("[data-testid=begin-here]")


def _api(page: Any) -> None:
    page.wait_for_selector("[data-testid=operation]")


STATES: dict[str, tuple[str, Callable[[Any], None]]] = {
    "first visit": ("/", _first),
    "choose": ("/?example=touching-toys", _choose),
    "decided": (EXAMPLE, _decided),
    "one relation": (EXAMPLE, _after("relation")),
    "it asks": ("/?example=full-bin&target=3", _decided),
    "changed by hand": ("/?example=full-bin&target=3", _after("answer-yes")),
    "corrections": (EXAMPLE, _after("correct", "tool-merge")),
    "taken away": (EXAMPLE, _after("open-take")),
    "glossary": (EXAMPLE, _after("open-glossary")),
    "keys": (EXAMPLE, _after("open-keys")),
    "live": ("/live", _live),
    "documentation of the API": ("/docs", _api),
}
"""Name -> address, and what to wait for and to click."""
