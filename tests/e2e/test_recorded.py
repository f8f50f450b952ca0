"""The recorded decision of the site: opened from disk, it says what the service says."""

import importlib.util
import re
from pathlib import Path

import httpx
import pytest
from e2e.page_steps import expect

from cpor.pipeline import UNSEEN

SCRIPT = Path(__file__).parents[2] / "docs" / "record_page.py"


def load_script():
    spec = importlib.util.spec_from_file_location("record_page", SCRIPT)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


@pytest.mark.slow
def test_thirty_interactions_equal_what_the_service_answers(service, browser, tmp_path, evidence):
    script = load_script()
    with httpx.Client(base_url=service, timeout=120.0) as client:
        recording = script.record(client, targets=1, pairs=4, edit_step=1.0)
        scene = recording["scene"]
        target = scene["objects"][0]["id"]
        (tmp_path / "try.html").write_text(script.page(recording))
        context = browser.new_context(viewport={"width": 1366, "height": 768}, reduced_motion="reduce")
        page = context.new_page()
        page.set_default_timeout(60_000)
        complaints, asked = [], []
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(f"{(tmp_path / 'try.html').as_uri()}?example={script.EXAMPLE}&target={target}")

        def shows(**risk):
            """The page shows the action and the scores that the service gives to the same question."""
            body = {"target": target, "relations": [], "graphs": 0} | risk
            said = client.post(f"/v1/scenes/{scene['id']}/decide", json=body).json()
            action = said["action"]
            decision = page.get_by_test_id("decision")
            expect(decision).to_have_attribute("data-action", action["type"])
            if "tau" in risk:
                expect(decision).to_have_attribute("data-tau", re.compile(f"^{said['tau']:.2g}"))
            if action.get("object") is not None:
                expect(decision).to_have_attribute("data-object", str(action["object"]))
            scores = {obj: score for obj, score in said["scores"].items() if int(obj) != UNSEEN}
            for _ in range(200):
                shown = {obj: page.get_by_test_id(f"bar-{obj}").get_attribute("data-score") for obj in scores}
                if all(float(shown[obj]) == pytest.approx(scores[obj], abs=1e-9) for obj in scores):
                    return
                page.wait_for_timeout(100)
            raise AssertionError((body, shown, scores))

        interactions = 0
        for mode in scene["modes"]:
            page.locator(f"[data-mode={mode}]").click()
            shows(mode=mode)
            interactions += 1
        page.get_by_test_id("tau").press("Home")
        shows(tau=0.0)
        for _ in range(19):
            page.get_by_test_id("tau").press("ArrowRight")
            tau = float(page.get_by_test_id("tau").get_attribute("data-tau"))
            shows(tau=round(tau, 2))
            interactions += 1
        page.locator("[data-mode=cautious]").click()
        for pair in scene["relations"][:4]:
            name = f"{pair['blocker']}>{pair['blocked']}"
            page.locator(f'[data-pair="{name}"]').first.click()
            for p in (0.0, 1.0):
                page.get_by_test_id("edit-number").fill(str(round(100 * p)))
                edit = {"blocked": pair["blocked"], "blocker": pair["blocker"], "p": p}
                shows(mode="cautious", relations=[edit])
                interactions += 1
            page.get_by_test_id("edit-reset").click()
            page.keyboard.press("Escape")
            shows(mode="cautious")
        context.close()
    evidence("serves", "recorded decision: interactions unlike the service", "0", f"0 of {interactions}")
    assert interactions >= 30 and not complaints
    assert not [url for url in asked if not url.startswith(("file:", "data:", "blob:"))]
