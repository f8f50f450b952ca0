import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from support.layered import draw_layered_scene
from support.vlm_servers import GeminiHandler, OpenAIHandler, Plan, VlmServer
from typer.testing import CliRunner

from cpor.cli.app import app
from cpor.io.scene_folder import read_scene_folder, write_scene_folder
from cpor.scene import BlockedBy
from cpor.semantics.scorer import touching_pairs
from cpor.sources import verified_sources

ROOT = Path(__file__).parents[1]
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
    pairs = touching_pairs(read_scene_folder(scene_folder))
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
    assert ran.exit_code == 1  # no question was answered at all
    assert {r["score"] for r in json.loads((tmp_path / "s.json").read_text())["relations"]} == {None}
    assert "answered 0 of" in ran.output and "server: 500" in ran.output


def test_scores_that_are_there_survive_a_run_in_vain(scene_folder, scorer):
    scorer()
    assert run("score", scene_folder, "--scorer", "mine").exit_code == 0
    before = (scene_folder / "scores.json").read_bytes()
    scorer(Plan(fault=lambda *_: "500"))
    ran = run("score", scene_folder, "--scorer", "mine", "--no-cache")
    assert ran.exit_code == 1 and "was not changed" in ran.output
    assert (scene_folder / "scores.json").read_bytes() == before


def test_where_scores_go_is_checked_before_anything_is_asked(scene_folder, scorer, tmp_path):
    plan = scorer()
    for out in (tmp_path / "no" / "s.json", tmp_path):
        ran = run("score", scene_folder, "--scorer", "mine", "--out", out)
        assert ran.exit_code != 0 and "cannot write" in str(ran.exception)
    assert not plan.seen


def test_what_a_server_says_does_not_act_on_the_terminal(scene_folder, scorer, tmp_path):
    class Rude(OpenAIHandler):
        def error(self, status, message):
            return super().error(status, "\x1b[2J\x1b]0;owned\x07 gone")

    plan = Plan(fault=lambda *_: "500")
    with VlmServer(Rude, plan) as server:
        (tmp_path / "rude.toml").write_text(
            f'kind = "openai"\nbase_url = "{server.url}"\nattempts = 1\nmodel = "m"\n'
        )
        ran = run("score", scene_folder, "--scorer", tmp_path / "rude.toml", "--out", tmp_path / "s.json")
    assert "gone" in ran.output and "\x1b" not in ran.output and "\x07" not in ran.output


def test_half_of_an_emoji_in_a_reply_is_kept(scene_folder, scorer, tmp_path):
    scorer(Plan(text="cut here \ud83d"), more="attempts = 1\n")
    ran = run("score", scene_folder, "--scorer", "mine", "--out", tmp_path / "s.json")
    assert ran.exit_code == 1, ran.exception
    kept = json.loads((tmp_path / "s.replies.json").read_text())
    assert kept["replies"][0]["text"] == "cut here \ud83d"


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
    ran = run("decide", scene_folder, "--scorer", "mine", "--target", 1, "--why")
    assert ran.exit_code == 0, ran.output
    pairs = touching_pairs(read_scene_folder(scene_folder))
    assert len(plan.seen) == len(pairs)
    assert f"mine answered {len(pairs)} of {len(pairs)} questions" in " ".join(ran.output.split())


def test_decide_asks_only_what_matters_within_a_number_of_questions(scene_folder, scorer):
    plan = scorer(more='way = "pairs"\n')
    ran = run("decide", scene_folder, "--scorer", "mine", "--target", 1, "--questions", 2, "--json")
    assert ran.exit_code == 0, ran.output
    assert len(plan.seen) <= 2
    assert any("that could matter" in note for note in json.loads(ran.output)["notes"])


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


def test_scorers_lists_what_there_is_and_shows_one(scene_folder, scorer, tmp_path):
    scorer(more='name = "ours"\n[options]\nstructured = true\n')
    (tmp_path / "scorers" / "odd.toml").write_text('kind = "openai"\n[options]\nnope = 1\n')
    ran = run("scorers", "--no-reach")
    assert ran.exit_code == 0, ran.output
    assert "gpt-4o" in ran.output and "ours" in ran.output and KEY not in ran.output
    assert "'nope' in [options]" in " ".join(ran.output.split())  # not taken for a style
    listed = {each["name"]: each for each in json.loads(run("scorers", "--json", "--no-reach").output)}
    assert listed["ours"]["configured"] is None and listed["ours"]["reachable"] is None
    assert run("scorers", "--show", "mine").output == (tmp_path / "scorers" / "mine.toml").read_text()
    shown = run("scorers", "--show", "gemini-robotics-er-1.6")
    assert 'model = "gemini-robotics-er-1.6-preview"' in shown.output


def test_scorers_fit_into_80_columns(scorer, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = run("scorers", "--no-reach").output.splitlines()
    assert max(map(len, lines)) <= 80 and "…" not in "".join(lines)
    assert any("embedded" in line and "installed" in line for line in lines)


@pytest.mark.slow
def test_scoring_then_deciding_is_deciding(tmp_path, monkeypatch):
    """The scorer's own pairs are asked whoever asks them."""
    pytest.importorskip("onnxruntime", reason="pip install 'cpor-grasp[perception]'")
    scene = tmp_path / "scene"
    shutil.copytree(ROOT / "examples" / "scenes" / "sim" / "scene_00000", scene)
    ids = read_scene_folder(scene).ids
    asked = [("decide", scene, "--target", target, "--json") for target in ids]
    direct = [json.loads(run(*arguments).stdout) for arguments in asked]
    assert run("score", scene, "--scorer", "embedded").exit_code == 0
    scored = [json.loads(run(*arguments).stdout) for arguments in asked]
    for one, other in zip(direct, scored, strict=True):
        assert one["action"] == other["action"] and one["scores"] == pytest.approx(other["scores"], abs=1e-12)


def test_a_folder_without_masks_gets_some_first(tmp_path, scene_folder):
    bare = tmp_path / "bare"
    bare.mkdir()
    for name in ("rgb.png", "depth.png", "camera.json"):
        shutil.copy(ROOT / "examples" / "scenes" / "sim" / "scene_00000" / name, bare)
    ran = run("score", bare, "--scorer", "embedded")
    assert ran.exit_code == 0 and "objects found, and kept in" in ran.output, ran.output
    scene = read_scene_folder(bare)
    assert scene.semantic_scores.scores and verified_sources(scene).scores is not None
    for path, said in ((tmp_path / "absent", "there is no folder"), (tmp_path / "scorers", "cpor perceive")):
        refused = run("score", path, "--scorer", "embedded")
        assert said in str(refused.exception)
