"""Names that a model gives: short, of objects of the scene, and never in place of a person's."""

import json

import pytest
from support.vlm_scenes import three_boxes
from support.vlm_servers import OpenAIHandler, Plan, VlmServer

from cpor.semantics.badges import draw_marks
from cpor.semantics.config import Budget, ScorerConfig
from cpor.semantics.questions import read_names_reply
from cpor.semantics.scorer_registry import make_scorer
from cpor.system import System


def says(*names):
    return json.dumps({"names": [{"object": k, "name": name} for k, name in names]})


@pytest.fixture
def look(monkeypatch, tmp_path):
    """Look at a scene with a server that answers by a plan."""
    monkeypatch.setenv("CPOR_TEST_KEY", "sk-names-0123456789")
    running = []

    def start(plan, scene, **changes):
        server = VlmServer(OpenAIHandler, plan).__enter__()
        running.append(server)
        settings = {"model": "m", "api_key_env": "CPOR_TEST_KEY", "base_url": server.url, "cache": False}
        settings |= {"first_wait_s": 0.0, "longest_wait_s": 0.0, "attempts": 1, "names": True}
        scorer = make_scorer(ScorerConfig(kind="openai", name="tested", **settings | changes))
        return System(scorer=scorer).look(scene)

    yield start
    for server in running:
        server.__exit__()


def test_a_model_names_what_nobody_named(look):
    plan = Plan(meant=says((4, "red mug"), (7, "red mug"), (9, "anything else")))
    view = look(plan, three_boxes(names=(None, None, "my can")))
    names = {o.id: o.called for o in view.scene.objects}
    assert names[9] == "my can" and names[4].startswith("red mug (") and names[7].startswith("red mug (")
    assert names[4] != names[7] and len(plan.seen) == 1 and '"my can"' in plan.seen[0].prompt
    assert "tested named 3 objects. Spent: 1 calls, 940 tokens." in view.notes


@pytest.mark.parametrize(
    ("plan", "changes", "why"),
    [
        (Plan(meant="I see a mug."), {}, "the reply holds no list of names"),
        (Plan(meant=says((4, "red mug"))), {"budget": Budget(calls=0)}, "budget"),
    ],
)
def test_without_an_answer_colours_and_shapes_name(look, plan, changes, why):
    view = look(plan, three_boxes(names=(None, None, None)), **changes)
    assert all(o.called and "mug" not in o.called for o in view.scene.objects)
    assert any("tested gave no names" in note and why in note for note in view.notes)


def test_nobody_is_asked_unless_it_may(look):
    plan = Plan(meant=says((4, "red mug")))
    look(plan, three_boxes(names=(None, None, None)), names=False)
    look(plan, three_boxes(names=("a", "b", "c")))
    assert not plan.seen


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (says((4, " Red\nmug. ")), {4: "Red mug"}),
        (says((4, "x" * 31), (7, "cup"), (5, "cup"), (7, "bowl")), {7: "cup"}),
        (says((4, "?!"), (9, "")), {}),
        ('{"names": [7, {"object": [1, 2], "name": "cup"}]}', {}),
        ('{"names": "cup"}', None),
        ("", None),
    ],
)
def test_a_reply_names_objects_of_the_scene_and_nothing_else(text, names):
    assert read_names_reply(text, draw_marks(three_boxes())[1])[0] == names
