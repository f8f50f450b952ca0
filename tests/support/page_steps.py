"""Steps that several tests of the page take."""

import pytest

expect = pytest.importorskip("playwright.sync_api", reason="needs playwright (extra dev)").expect
SCENE = "scene_00003"
DECIDE = "**/v1/scenes/*/decide"
