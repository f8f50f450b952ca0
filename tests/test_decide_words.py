"""`cpor decide FOLDER --request WORDS --scorer FILE`: the model that scores also tells what is meant."""

import json

import pytest
from support.vlm_scenes import three_boxes
from support.vlm_servers import GeminiHandler, OpenAIHandler, Plan, VlmServer
from typer.testing import CliRunner

from cpor.cli.app import app
from cpor.io.scene_folder import write_scene_folder

KEY = "sk-cli-words-0123456789"
BOTH = pytest.mark.parametrize("kind", ["openai", "gemini"])


@pytest.fixture
def decide(tmp_path, monkeypatch):
    """Decide on three boxes with a server that answers by a plan."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("CPOR_TEST_KEY", KEY)
    write_scene_folder(three_boxes(request="the mug"), tmp_path / "scene")
    running = []

    def run(kind, plan, *arguments, more=""):
        server = VlmServer(OpenAIHandler if kind == "openai" else GeminiHandler, plan).__enter__()
        running.append(server)
        (tmp_path / "mine.toml").write_text(
            f'kind = "{kind}"\nmodel = "m"\nbase_url = "{server.url}"\napi_key_env = "CPOR_TEST_KEY"\n'
            f"first_wait_s = 0.0\nlongest_wait_s = 0.0\nattempts = 2\n{more}"
        )
        arguments = ["decide", tmp_path / "scene", *arguments, "--scorer", tmp_path / "mine.toml"]
        ran = CliRunner().invoke(app, [str(each) for each in arguments], env={"COLUMNS": "200"})
        assert KEY not in ran.output
        return ran

    yield run
    for server in running:
        server.__exit__()


def says(*fits):
    return json.dumps({"objects": [{"object": k, "fit": fit} for k, fit in fits]})


@BOTH
def test_the_model_tells_which_object_is_meant(kind, decide, evidence):
    plan = Plan(meant=says((7, 0.9)))
    ran = decide(kind, plan, "--request", "the mug", "--json")
    assert ran.exit_code == 0, ran.output
    said = json.loads(ran.output)
    assert said["target"] == 7 and said["action"]["type"] == "grasp"
    assert "mine was asked which object is meant. Spent: 1 calls, 940 tokens." in said["notes"]
    assert [bool(seen.pairs) for seen in plan.seen] == [False, True]
    evidence(
        "asks", f"cpor decide --request --scorer ({kind})", "the object the VLM names", "named and decided"
    )


def test_the_folders_request_is_asked_about_too(decide):
    plan = Plan(meant=says((9, 0.9)))
    said = json.loads(decide("openai", plan, "--json").output)
    assert said["target"] == 9 and '"the mug"' in plan.seen[0].prompt
    plan = Plan(meant=says((9, 0.9)))
    assert json.loads(decide("openai", plan, "--target", "4", "--json").output)["target"] == 4
    assert [bool(seen.pairs) for seen in plan.seen] == [True]


@BOTH
def test_what_the_model_finds_unclear_is_asked_back_and_no_pair_is_paid_for(kind, decide):
    plan = Plan(meant=says((7, 0.9), (4, 0.8)))
    ran = decide(kind, plan, "--request", "the mug", "--json")
    assert ran.exit_code == 2
    said = json.loads(ran.output)
    assert said["action"] is None and said["target"] is None
    assert [(each["id"], each["fit"]) for each in said["candidates"]] == [(7, 0.9), (4, 0.8)]
    named = {each["id"]: each["name"] for each in said["objects"]}
    fitting = f"7 ({named[7]}), 4 ({named[4]})"
    assert said["question"] == f'"the mug" fits {fitting}. Which one do you mean?'
    assert len(plan.seen) == 1
    none = decide(kind, Plan(meant=says()), "--request", "the mug", "--json")
    assert none.exit_code == 2 and "mine finds no object that fits" in json.loads(none.output)["question"]


@BOTH
def test_a_lost_answer_is_told_and_only_a_sure_judge_steps_in(kind, decide):
    lost = {"fault": lambda _, seen: None if seen.pairs else "500"}
    said = json.loads(decide(kind, Plan(**lost), "--request", "the blue one", "--json").output)
    assert said["target"] == 9
    assert any("mine did not tell which object is meant (server: 500" in note for note in said["notes"])
    ran = decide(kind, Plan(**lost), "--request", "the blue gizmo")
    assert ran.exit_code == 2
    assert 'I do not know the word "gizmo". Which object do you mean?' in ran.output
    assert "object 9 " in ran.output and "object 4 " not in ran.output and "So you are asked." in ran.output


def test_what_a_model_says_does_not_act_on_the_terminal(decide):
    rude = Plan(meant='{"objects": [{"object": "\\u001b[31mred\\u0007", "fit": 1}]}')
    ran = decide("openai", rude, "--request", "the mug")
    assert ran.exit_code == 2 and "is no object of the scene" in ran.output
    assert "\x1b" not in ran.output and "\x07" not in ran.output


def test_words_can_be_kept_from_the_model(decide):
    plan = Plan(meant=says((7, 0.9)))
    said = json.loads(
        decide("openai", plan, "--request", "the red one", "--json", more="words = false").output
    )
    assert said["target"] == 4 and [bool(seen.pairs) for seen in plan.seen] == [True]
