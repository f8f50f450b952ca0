"""Steps that several tests of the page take. All of them wait: a loaded machine shows things late."""

import json
import time

import pytest

PATIENCE_S = 60.0

expect = pytest.importorskip("playwright.sync_api", reason="needs playwright (extra dev)").expect
expect.set_options(timeout=1000 * PATIENCE_S)  # what is there at once costs nothing

SCENE = "scene_00003"
DECIDE = "**/v1/scenes/*/decide"


def shows_action(it, action: tuple[str, str]) -> None:
    """The page shows this kind of action on this object."""
    decision = it.see("decision")
    expect(decision).to_have_attribute("data-action", action[0])
    expect(decision).to_have_attribute("data-object", action[1])


def comes_true(page, expression: str, given: object = None) -> None:
    """An expression, or a function of what is given, becomes true in the page."""
    give_up = time.monotonic() + PATIENCE_S
    while not page.evaluate(expression, given):
        assert time.monotonic() < give_up, (expression, given)
        page.wait_for_timeout(50)


def asked_above(where: str, tau: float):
    """Whether a response is of this part of the service, for a line above `tau`."""
    return lambda reply: reply.url.endswith(where) and json.loads(reply.request.post_data)["tau"] > tau
