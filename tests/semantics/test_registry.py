import os
import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import numpy as np
import pytest
from support.layered import draw_layered_scene
from support.vlm_scenes import heap
from support.vlm_servers import OpenAIHandler, Plan, VlmServer

from cpor.data.scene_folder import write_scene_folder
from cpor.semantics.config import ScorerConfig, read_config
from cpor.semantics.registry import GROUP, config_files, find_config, load_scorer, make_scorer, scorer_status
from cpor.semantics.scorer import RelationScorer, ScorerError

ROOT = Path(__file__).parents[2]
IN_THE_PAPER = {
    "gemini-robotics-er-1.6": "gemini-robotics-er-1.6",
    "gpt-4o": "gpt-4o",
    "qwen3.5-9b": "Qwen3.5-9B",
    "internvl3.5-14b": "InternVL3_5-14B",
    "gemma3-12b": "gemma-3-12b",
    "unograsp": "UNOGrasp",
}


@pytest.fixture(autouse=True)
def no_keys_and_no_home(monkeypatch, tmp_path):
    for name in ("GEMINI_API_KEY", "GOOGLE_API_KEY", "OPENAI_API_KEY", "CPOR_SCORERS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.mark.parametrize("name", IN_THE_PAPER)
def test_every_model_of_the_paper_has_a_ready_configuration(name):
    config = find_config(name)
    assert IN_THE_PAPER[name] in config.model
    assert isinstance(make_scorer(config), RelationScorer)


def test_all_of_them_are_counted(evidence):
    ready = config_files()
    assert set(IN_THE_PAPER) <= set(ready)
    evidence("F", "models of the paper with a ready configuration", "every one", f"{len(IN_THE_PAPER)} of 6")


@pytest.mark.parametrize("path", sorted((ROOT / "examples" / "scorers").glob("*.toml")), ids=lambda p: p.stem)
def test_examples_are_configurations(path):
    config = read_config(path)
    if config.kind != "replay":
        assert isinstance(make_scorer(config), RelationScorer)


def test_our_own_scorers_are_entry_points_like_any_other():
    assert {"openai", "gemini", "transformers", "unograsp", "replay"} <= {
        p.name for p in entry_points(group=GROUP)
    }


def test_a_name_may_be_shortened_if_it_stays_clear():
    assert find_config("gpt").name == "gpt-4o"
    assert find_config("gemini").name == "gemini"
    with pytest.raises(ScorerError, match=r"may be any of: qwen3\.5-9b, qwen3\.5-9b-local"):
        find_config("qw")
    with pytest.raises(ScorerError, match=r"unknown scorer 'claude'; there are: .*gpt-4o"):
        find_config("claude")


def test_own_configurations_win(monkeypatch, tmp_path):
    (tmp_path / "gpt-4o.toml").write_text(
        'kind = "openai"\nmodel = "mine"\nbase_url = "http://localhost:1/v1"\n'
    )
    monkeypatch.setenv("CPOR_SCORERS", str(tmp_path))
    assert find_config("gpt-4o").model == "mine"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("kind = 3", "kind"),
        ('model = "m"', "kind"),
        ('kind = "openai"\nwya = "scene"', "wya"),
        ('kind = "openai"\nway = "both"', "way"),
        ('kind = "openai"\nattempts = 0', "attempts"),
        ("kind = ", "is not TOML"),
        ('kind = "openai"\napi_key = "sk-very-secret"', "seems to hold a key"),
        ('kind = "openai"\n[budget]\ncalls = "very-secret"', "budget.calls"),
        ('kind = "openai"\nmodel = "sk-very-secret-1"', "seems to hold a key"),
        ('kind = "openai"\napi_key_env = "sk-very-secret-1"', "not the key itself"),
        ('kind = "openai"\napi_key_env = "AIzaSyVery-secret_1"', "not the key itself"),
        ('kind = "openai"\nbase_url = "http://me:very-secret@localhost/v1"', "seems to hold a key"),
        ('kind = "openai"\nbase_url = "http://localhost/v1?key=very-secret"', "seems to hold a key"),
        ('kind = "openai"\n[options.extra_body]\napi_key = "very-secret"', "seems to hold a key"),
        (
            'kind = "openai"\n[options]\nextra_body = [{ Authorization = "very-secret" }]',
            "seems to hold a key",
        ),
    ],
)
def test_a_wrong_configuration_says_where_and_repeats_no_value(text, problem, tmp_path):
    path = tmp_path / "wrong.toml"
    path.write_text(text)
    with pytest.raises(ScorerError, match=re.escape(problem)) as caught:
        read_config(path)
    assert "wrong.toml" in str(caught.value) and "very-secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        ("telepathy", "unknown kind 'telepathy'; there are: .*gemini, openai"),
        ("no_such_module:build", "cannot find no_such_module:build"),
        ("math:no_such", "cannot find math:no_such"),
        (":build", "cannot find :build"),
        ("builtins:str", "made no RelationScorer"),
    ],
)
def test_a_kind_nobody_makes_is_an_error_that_lists_those_there_are(kind, problem):
    with pytest.raises(ScorerError, match=problem):
        make_scorer(ScorerConfig(kind=kind, name="x"))


def test_unknown_options_are_refused():
    with pytest.raises(ScorerError, match="unknown option 'temprature'"):
        make_scorer(ScorerConfig(kind="openai", name="x", options={"temprature": 1}))
    with pytest.raises(ScorerError, match="must be of type bool"):
        make_scorer(ScorerConfig(kind="openai", name="x", options={"structured": 1}))


def test_status_tells_what_is_installed_configured_and_reachable(monkeypatch, tmp_path):
    with VlmServer(OpenAIHandler, Plan()) as server:
        (tmp_path / "here.toml").write_text(f'kind = "openai"\nmodel = "m"\nbase_url = "{server.url}"\n')
        (tmp_path / "gone.toml").write_text(
            'kind = "openai"\nmodel = "m"\nbase_url = "http://127.0.0.1:9/v1"\n'
        )
        (tmp_path / "broken.toml").write_text("kind = ")
        (tmp_path / "nokey.toml").write_text(
            f'kind = "gemini"\nmodel = "m"\nbase_url = "{server.url}"\napi_key_env = "NOT_SET"\n'
        )
        monkeypatch.setenv("CPOR_SCORERS", str(tmp_path))
        monkeypatch.setattr("cpor.semantics.registry.files", lambda _: tmp_path / "nothing")
        status = {each.name: each for each in scorer_status(timeout_s=1.0)}
    assert status["here"].reachable and status["here"].configured is None and status["here"].installed is None
    assert status["gone"].reachable is False
    assert status["nokey"].configured == "NOT_SET is not set"
    assert "is not TOML" in status["broken"].configured
    assert not server.plan.seen  # nothing was asked, no key was sent


def test_a_host_that_cannot_be_one_is_not_reachable(monkeypatch, tmp_path):
    (tmp_path / "odd.toml").write_text(f'kind = "openai"\nbase_url = "http://{"a" * 70}.example/v1"\n')
    monkeypatch.setenv("CPOR_SCORERS", str(tmp_path))
    monkeypatch.setattr("cpor.semantics.registry.files", lambda _: tmp_path / "nothing")
    (status,) = scorer_status(timeout_s=0.5)
    assert status.reachable is False


def test_changes_to_a_configuration_are_checked_too():
    assert load_scorer("gpt-4o", way="scene", cache=False).config.way == "scene"


def code_in_docs(language):
    text = (ROOT / "docs" / "scorers.md").read_text()
    return re.search(rf"## Write your own.*?```{language}\n(.*?)```", text, re.DOTALL)[1]


def test_the_scorer_written_in_the_docs_runs(tmp_path, evidence):
    code = code_in_docs("python")
    (tmp_path / "depth_scorer.py").write_text(code)
    (tmp_path / "depth.toml").write_text(code_in_docs("toml"))
    scene = draw_layered_scene(np.random.default_rng(5), (120, 160), 4)
    write_scene_folder(scene, tmp_path / "scene")
    command = [sys.executable, "-m", "cpor", "decide", "scene", "--scorer", "depth.toml", "--target", "1"]
    if not (ROOT / "src" / "cpor" / "__main__.py").exists():
        command[1:3] = ["-c", "from cpor.cli.app import main; main()"]
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment)
    assert ran.returncode == 0, ran.stderr
    assert "nearer answered" in " ".join(ran.stdout.split())
    lines = [line for line in code.splitlines() if line.strip()]
    assert len(lines) <= 20
    evidence("F", "write your own scorer, run by a test", "in 20 lines", f"{len(lines)} lines")


def test_a_custom_scorer_takes_part_in_python_too(monkeypatch, tmp_path):
    (tmp_path / "depth_scorer.py").write_text(code_in_docs("python"))
    monkeypatch.syspath_prepend(str(tmp_path))
    scorer = make_scorer(ScorerConfig(kind="depth_scorer:build", name="x"))
    said = scorer.score(heap(2), [(1, 2)])
    assert said.unanswered == ((1, 2),)  # the scene has no depth
