import re
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from support.vlm_scenes import heap
from support.vlm_servers import OpenAIHandler, Plan, VlmServer

from cpor.semantics.config import ScorerConfig, read_config
from cpor.semantics.scorer import RelationScorer, ScorerError, touching_pairs
from cpor.semantics.scorer_registry import config_files, find_config, load_scorer, make_scorer, scorer_status

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
    evidence(
        "asks", "models of the paper with a ready configuration", "every one", f"{len(IN_THE_PAPER)} of 6"
    )


@pytest.mark.parametrize("path", sorted((ROOT / "examples" / "scorers").glob("*.toml")), ids=lambda p: p.stem)
def test_examples_are_configurations(path):
    config = read_config(path)
    if config.kind != "replay":
        assert isinstance(make_scorer(config), RelationScorer)


def test_our_own_scorers_are_entry_points_like_any_other():
    assert {"openai", "gemini", "transformers", "unograsp", "replay"} <= {
        p.name for p in entry_points(group="cpor.scorers")
    }


def test_a_name_may_be_shortened_if_it_stays_clear():
    assert find_config("gpt").name == "gpt-4o"
    assert find_config("gemini").name == "gemini"
    with pytest.raises(ScorerError, match=r"could be any of: qwen3\.5-9b, qwen3\.5-9b-local"):
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
        ("telepathy", "unknown scorer 'telepathy'; installed are: .*gemini, openai"),
        ("no_such_module:build", "'no_such_module:build' cannot be loaded"),
        ("math:no_such", "'math:no_such' cannot be loaded"),
        (":build", "unknown scorer ':build'"),
        ("builtins:str", "did not return a RelationScorer"),
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
        monkeypatch.setattr("cpor.semantics.scorer_registry.files", lambda _: tmp_path / "nothing")
        status = {each["name"]: each for each in scorer_status(timeout_s=30.0)}
    here = status["here"]
    assert here["reachable"] and here["configured"] is None and here["installed"] is None
    assert status["gone"]["reachable"] is False
    assert status["nokey"]["configured"] == "NOT_SET is not set"
    assert "is not TOML" in status["broken"]["configured"]
    assert not server.plan.seen  # nothing was asked, no key was sent


def test_a_host_that_cannot_be_one_is_not_reachable(monkeypatch, tmp_path):
    (tmp_path / "odd.toml").write_text(f'kind = "openai"\nbase_url = "http://{"a" * 70}.example/v1"\n')
    monkeypatch.setenv("CPOR_SCORERS", str(tmp_path))
    monkeypatch.setattr("cpor.semantics.scorer_registry.files", lambda _: tmp_path / "nothing")
    (status,) = scorer_status(timeout_s=0.5)
    assert status["reachable"] is False


def test_changes_to_a_configuration_are_checked_too():
    assert load_scorer("gpt-4o", way="scene", cache=False).config.way == "scene"


OWN = """
from cpor.semantics.scorer import RelationScorer, ScoredPairs

class Own(RelationScorer):
    name = "own"
    def score(self, scene, pairs):
        return ScoredPairs(dict.fromkeys(pairs, 0.5), self.name)

class Halfway:
    name = "halfway"
    def score(self, scene, pairs):
        return ScoredPairs({}, self.name)

def build(config):
    assert config.kind == "own_scorer:build"
    return Own()

ready = Own()
"""


def test_module_and_attribute_name_a_scorer_a_class_or_a_function(monkeypatch, tmp_path):
    (tmp_path / "own_scorer.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    for attribute in ("Own", "build", "ready"):
        scorer = load_scorer(f"own_scorer:{attribute}")
        assert isinstance(scorer, RelationScorer) and scorer.name == "own"
        assert scorer.pairs(heap(3)) == touching_pairs(heap(3))
    with pytest.raises(ScorerError, match=r"a RelationScorer with name, pairs\(\) and score\(\)"):
        load_scorer("own_scorer:Halfway")
    with pytest.raises(ScorerError, match="takes no options"):
        load_scorer("own_scorer:Own", options={"depth": 1})
