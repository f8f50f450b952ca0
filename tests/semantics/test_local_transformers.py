import importlib.util
import json
import shutil

import pytest
from support.vlm_scenes import all_pairs, heap

from cpor.scene import BlockedBy
from cpor.semantics.config import ScorerConfig
from cpor.semantics.scorer import ScorerError
from cpor.semantics.scorer_registry import make_scorer

pytestmark = pytest.mark.slow  # loads torch

needs_transformers = pytest.mark.skipif(
    not (importlib.util.find_spec("torch") and importlib.util.find_spec("transformers")),
    reason="torch and transformers are not installed: pip install 'cpor-grasp[local-vlm]'",
)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    from support.tiny_vlm import write_tiny_qwen

    return write_tiny_qwen(tmp_path_factory.mktemp("tiny-qwen"))


def local(folder, **changes):
    settings = {"name": "tiny", "model": str(folder), "way": "pairs", "cache": False, "least_yes_no": 0.0}
    return make_scorer(ScorerConfig(kind="transformers", **settings | changes))


@needs_transformers
def test_yes_and_no_come_from_the_logits(tiny, evidence):
    import torch

    scene = heap(3)
    scorer = local(tiny)
    said = scorer.score(scene, all_pairs(scene))
    assert len(set(said.scores.values())) > 1  # it looks at the question
    assert all(0.0 < score < 1.0 for score in said.scores.values())
    assert said.scores == local(tiny).score(scene, all_pairs(scene)).scores
    # The same, by hand, from the model's own logits.
    loaded = scorer.provider
    from cpor.semantics.badges import draw_marks
    from cpor.semantics.provider import Question
    from cpor.semantics.questions import SYSTEM, pair_prompt

    picture, marks = draw_marks(scene)
    question = Question(picture, pair_prompt(scene, marks.number, BlockedBy(1, 2)), SYSTEM, wants_yes_no=True)
    with torch.inference_mode():
        logits = loaded._model(**loaded._inputs(question)).logits[0, -1].double()
    place = loaded._processor.tokenizer.convert_tokens_to_ids
    yes, no = (
        torch.exp(logits[[place(a), place(b), place(c)]]).sum()
        for a, b, c in (("yes", "Yes", "y"), ("no", "No", "n"))
    )
    more_yes, more_no = torch.exp(logits[place("Y")]), torch.exp(logits[place("N")])
    expected = float((yes + more_yes) / (yes + more_yes + no + more_no))
    assert said.scores[BlockedBy(1, 2)] == pytest.approx(expected, rel=1e-5)
    there = importlib.util.find_spec("torchvision") is not None
    evidence(
        "asks",
        "tiny random Qwen2.5-VL built offline, yes/no logits",
        "works without torchvision",
        f"{len(said.scores)} pairs scored, torchvision {'there' if there else 'absent'}",
    )


@needs_transformers
@pytest.mark.parametrize("family", ["gemma", "internvl"])
def test_other_families_answer_too(family, tmp_path, evidence):
    from support import tiny_vlm

    folder = getattr(tiny_vlm, f"write_tiny_{family}")(tmp_path)
    said = local(folder).score(heap(3), all_pairs(heap(3)))
    assert all(0.0 < score < 1.0 for score in said.scores.values())
    assert len(set(said.scores.values())) > 1
    evidence(
        "asks", f"tiny random {family} built offline, yes/no logits", "scores", f"{len(said.scores)} pairs"
    )


@needs_transformers
def test_a_template_written_for_the_processor_alone_is_found(tiny, tmp_path):
    shutil.copytree(tiny, tmp_path / "old")
    template = (tmp_path / "old" / "chat_template.jinja").read_text()
    (tmp_path / "old" / "chat_template.jinja").unlink()
    (tmp_path / "old" / "chat_template.json").write_text(json.dumps({"chat_template": template}))
    pairs = all_pairs(heap(2))
    assert local(tmp_path / "old").score(heap(2), pairs).scores == local(tiny).score(heap(2), pairs).scores


@needs_transformers
def test_the_picture_changes_the_answer(tiny):
    first = local(tiny).score(heap(3), [BlockedBy(1, 2)])
    other = local(tiny).score(heap(3, shape=(120, 90)), [BlockedBy(1, 2)])
    assert first.scores != other.scores


@needs_transformers
def test_a_random_model_asked_for_json_gives_no_answer_rather_than_a_wrong_one(tiny):
    said = local(tiny, way="scene", max_output_tokens=12).score(heap(2), all_pairs(heap(2)))
    assert len(said.unanswered) == 2
    assert said.replies[0].text and said.spent.output_tokens <= 12


@needs_transformers
def test_a_model_that_would_say_something_else_has_no_answer(tiny):
    assert local(tiny, least_yes_no=0.5).score(heap(2), all_pairs(heap(2))).unanswered


@needs_transformers
def test_unograsp_runs_a_folder_too(tiny):
    config = ScorerConfig(
        kind="unograsp",
        name="u",
        model=str(tiny),
        cache=False,
        max_output_tokens=8,
        options={"through": "transformers"},
    )
    said = make_scorer(config).score(heap(2), all_pairs(heap(2)))
    assert len(said.unanswered) == 2 and all(reply.text is not None for reply in said.replies)


@needs_transformers
def test_a_folder_that_holds_no_model_is_an_error_that_names_it(tmp_path):
    with pytest.raises(ScorerError, match="cannot load"):
        local(tmp_path, options={"local_files_only": True}).score(heap(2), [BlockedBy(1, 2)])


def test_without_the_extra_it_says_what_to_install(monkeypatch, tmp_path):
    import sys

    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ScorerError, match="local-vlm"):
        local(tmp_path).score(heap(2), [BlockedBy(1, 2)])
