import json

import numpy as np
import pytest
from support.layered import draw_layered_scene
from support.vlm_servers import GeminiHandler, OpenAIHandler, Plan, VlmServer
from typer.testing import CliRunner

from cpor.cli import app
from cpor.data.scene_folder import read_scene_folder, write_scene_folder
from cpor.scene import BlockedBy
from cpor.semantics.vlm import pairs_to_ask

KEY = "sk-cli-test-0123456789"


def run(*arguments):
    return CliRunner().invoke(app, [str(each) for each in arguments])


@pytest.fixture
def scene_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("CPOR_TEST_KEY", KEY)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("CPOR_SCORERS", str(tmp_path / "scorers"))
    (tmp_path / "scorers").mkdir()
    write_scene_folder(draw_layered_scene(np.random.default_rng(2), (180, 240), 5), tmp_path / "scene")
    return tmp_path / "scene"


@pytest.fixture
def scorer(scene_folder, tmp_path):
    """Writes the configuration of a scorer that asks a server of ours; its name is `mine`."""
    running = []

    def write(plan=None, kind="openai", more=""):
        handler = OpenAIHandler if kind == "openai" else GeminiHandler
        server = VlmServer(handler, plan or Plan()).__enter__()
        running.append(server)
        (tmp_path / "scorers" / "mine.toml").write_text(
            f'kind = "{kind}"\nmodel = "m"\nbase_url = "{server.url}"\napi_key_env = "CPOR_TEST_KEY"\n'
            f"first_wait_s = 0.0\nlongest_wait_s = 0.0\n{more}"
        )
        return server.plan

    yield write
    for server in running:
        server.__exit__()


@pytest.mark.parametrize("kind", ["openai", "gemini"])
def test_score_writes_scores_and_the_raw_replies(kind, scene_folder, scorer, tmp_path):
    plan = scorer(kind=kind)
    out = tmp_path / "scores.json"
    ran = run("score", scene_folder, "--scorer", "mine", "--out", out, "--picture", tmp_path / "shown.png")
    assert ran.exit_code == 0, ran.output
    pairs = pairs_to_ask(read_scene_folder(scene_folder))
    written = json.loads(out.read_text())
    assert written["scorer"] == "mine"
    found = {BlockedBy(r["blocked"], r["blocker"]): r["score"] for r in written["relations"]}
    assert found == {pair: plan.p(*pair) for pair in pairs}
    replies = json.loads((tmp_path / "scores.replies.json").read_text())
    assert replies["replies"][0]["text"].startswith('{"relations"')
    assert replies["spent"]["calls"] == 1
    assert (
        f"answered {len(pairs)} of {len(pairs)}" in ran.output and "spent: 1 calls, 940 tokens" in ran.output
    )
    assert (tmp_path / "shown.png").read_bytes().startswith(b"\x89PNG")
    assert all(KEY.encode() not in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_scores_in_the_scene_folder_are_read_with_it(scene_folder, scorer):
    scorer()
    assert run("score", scene_folder, "--scorer", "mine").exit_code == 0
    (scene_folder / "scores.replies.json").unlink()
    assert read_scene_folder(scene_folder).semantic_scores.scorer == "mine"


def test_what_fails_is_written_as_null_and_said(scene_folder, scorer, tmp_path):
    scorer(Plan(fault=lambda *_: "500"))
    ran = run("score", scene_folder, "--scorer", "mine", "--out", tmp_path / "s.json")
    assert ran.exit_code == 0
    assert {r["score"] for r in json.loads((tmp_path / "s.json").read_text())["relations"]} == {None}
    assert "answered 0 of" in ran.output and "server: 500" in ran.output


def test_calls_can_be_limited_and_all_pairs_asked(scene_folder, scorer, tmp_path):
    plan = scorer(more='way = "pairs"\n')
    ran = run(
        *("score", scene_folder, "--scorer", "mine", "--all-pairs", "--calls", 3, "--no-cache"),
        *("--out", tmp_path / "s.json", "--json"),
    )
    summary = json.loads(ran.output)
    assert summary["pairs"] == 20 and summary["spent"]["calls"] == len(plan.seen) == 3
    assert len(summary["unanswered"]) == 17 == summary["spent"]["refused"]
    assert not (tmp_path / "cache").exists()


def test_a_recording_replays_without_a_server(scene_folder, scorer, tmp_path):
    scorer()
    recording = tmp_path / "replies.jsonl"
    first = run(
        "score", scene_folder, "--scorer", "mine", "--record", recording, "--out", tmp_path / "a.json"
    )
    assert first.exit_code == 0, first.output
    (tmp_path / "again.toml").write_text(f'kind = "replay"\n[options]\nrecording = "{recording}"\n')
    ran = run("score", scene_folder, "--scorer", tmp_path / "again.toml", "--out", tmp_path / "b.json")
    assert ran.exit_code == 0, ran.output
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    assert KEY not in recording.read_text()


def test_decide_asks_a_scorer_about_every_pair_that_touches(scene_folder, scorer):
    plan = scorer(more='way = "pairs"\n')
    ran = run("decide", scene_folder, "--scorer", "mine", "--target", 1)
    assert ran.exit_code == 0, ran.output
    pairs = pairs_to_ask(read_scene_folder(scene_folder))
    assert len(plan.seen) == len(pairs)
    assert f"mine answered {len(pairs)} of {len(pairs)} questions" in " ".join(ran.output.split())


def test_decide_asks_only_what_matters_within_a_number_of_questions(scene_folder, scorer):
    plan = scorer(more='way = "pairs"\n')
    ran = run("decide", scene_folder, "--scorer", "mine", "--target", 1, "--questions", 2, "--json")
    assert ran.exit_code == 0, ran.output
    assert len(plan.seen) <= 2
    assert any("questions that could matter" in note for note in json.loads(ran.output)["notes"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("score", "{scene}", "--scorer", "nobody"), "unknown scorer 'nobody'; there are:"),
        (("decide", "{scene}", "--target", "1", "--questions", "3"), "--questions needs --scorer"),
        (
            ("decide", "{scene}", "--target", "77", "--scorer", "mine", "--questions", "3"),
            "unknown object 77",
        ),
        (
            ("score", "{scene}", "--scorer", "gpt-4o", "--no-cache"),
            "set the environment variable OPENAI_API_KEY",
        ),
    ],
)
def test_errors_say_what_to_do(arguments, said, scene_folder, scorer, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    scorer()
    ran = run(*(each.format(scene=scene_folder) for each in arguments))
    assert ran.exit_code != 0
    assert said in str(ran.exception)


def test_scorers_lists_what_there_is_and_shows_one(scene_folder, scorer):
    scorer()
    ran = run("scorers", "--no-reach")
    assert ran.exit_code == 0, ran.output
    assert "gpt-4o" in ran.output and "mine" in ran.output and KEY not in ran.output
    listed = {each["name"]: each for each in json.loads(run("scorers", "--json", "--no-reach").output)}
    assert listed["mine"]["configured"] is None and listed["mine"]["reachable"] is None
    shown = run("scorers", "--show", "gemini-robotics-er-1.6")
    assert 'model = "gemini-robotics-er-1.6-preview"' in shown.output
