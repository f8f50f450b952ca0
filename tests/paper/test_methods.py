"""The rows of the robot table, on scenes small enough to see what each must do."""

from dataclasses import replace

import numpy as np
import pytest
from support.labelled import draw_labelled_scene

from cpor.decision import Defer, Grasp, Remove
from cpor.errors import InvalidSettingError
from cpor.infer.decide import decide
from cpor.paper.first_decisions import forced_systems, measure_first_decisions
from cpor.paper.methods import METHODS, MethodSystem, argmax_scores, true_scores
from cpor.paper_model import PAPER, load_model
from cpor.pipeline import Pipeline
from cpor.relations import ObstructionPosterior
from cpor.scene import BlockedBy, Observation
from cpor.sim.dataset.manifest import SplitCase
from cpor.truth import is_wrong


def test_argmax_follows_the_likeliest_blocker():
    scene = ObstructionPosterior([1, 2, 3], 1, {(1, 2): 0.9, (1, 3): 0.6, (2, 3): 0.7})
    assert argmax_scores(scene).tolist() == [0.0, 0.0, 1.0]
    free = ObstructionPosterior([1, 2, 3], 1, {(1, 2): 0.4})
    assert argmax_scores(free).tolist() == [1.0, 0.0, 0.0]


def test_argmax_does_not_walk_in_circles():
    scene = ObstructionPosterior([1, 2], 1, {(1, 2): 0.9, (2, 1): 0.8})
    assert argmax_scores(scene).tolist() == [0.0, 1.0]


def test_the_oracle_scores_what_is_right_and_survives_cycles():
    truth = {BlockedBy(1, 2), BlockedBy(2, 3), BlockedBy(1, 4)}
    assert true_scores((1, 2, 3, 4), 1, truth).tolist() == [0.0, 0.0, 1.0, 1.0]
    assert true_scores((1, 2, 3, 4), 4, truth).tolist() == [0.0, 0.0, 0.0, 1.0]
    # 3 is out of sight: what hides behind it is not waited for.
    assert true_scores((1, 2, 4), 1, truth).tolist() == [0.0, 1.0, 1.0]
    cyclic = {BlockedBy(1, 2), BlockedBy(2, 1), BlockedBy(1, 3)}
    assert true_scores((1, 2, 3), 1, cyclic).tolist() == [0.0, 0.0, 1.0]
    assert true_scores((1, 2), 1, cyclic - {BlockedBy(1, 3)}).tolist() == [1.0, 1.0]


@pytest.fixture(scope="module")
def cases():
    rng = np.random.default_rng(5)
    scenes = [draw_labelled_scene(rng) for _ in range(40)]
    return [
        SplitCase(f"s{k}", _with_sweep(s), int(rng.choice(s.ids)), "easy" if k % 2 else "hard")
        for k, s in enumerate(scenes)
    ]


def _with_sweep(scene):
    return replace(scene, true_sweep=scene.true_occlusion)


def decide_with(system, scene, target):
    return system.decide(system.look(scene), target)


def test_all_rows_decide_and_cpor_is_the_pipeline(cases):
    pipeline = Pipeline(tau=0.3, prior=0.5)
    for case in cases[:10]:
        truth = case.scene.true_occlusion.pairs
        given = {"tau": 0.3, "prior": 0.5, "truth": lambda scene, truth=truth: truth}
        rows = {name: MethodSystem(name, None, **given) for name in METHODS}
        found = {name: decide_with(row, case.scene, case.target).decision for name, row in rows.items()}
        posterior = pipeline.posterior(pipeline.believe(case.scene), case.target)
        assert found["cpor"] == pipeline.settle(decide(posterior, 0.3, prior=0.5))
        assert not is_wrong(found["oracle"].action, case.target, truth)
        assert isinstance(found["geometry_argmax"].action, Grasp | Remove)


def test_rows_of_the_paper_keep_graphs_and_the_scorers_row_sees_no_geometry(cases):
    for case in cases[:5]:
        given = {"prior": 0.5, "tau": 0.3}
        rows = {name: MethodSystem(name, None, **given) for name in ("topk", "scorer_argmax", "paper")}
        answers = {name: decide_with(row, case.scene, case.target) for name, row in rows.items()}
        listed = decide(answers["topk"].posterior, 0.0, "topk", prior=0.5)
        assert answers["topk"].decision.scores == pytest.approx(listed.scores)
        stages = load_model(PAPER).pipeline(0.3)
        exact = stages.posterior(stages.believe(case.scene), case.target)
        assert answers["paper"].posterior.p_obstructs == pytest.approx(exact.p_obstructs, nan_ok=True)
        scores = case.scene.semantic_scores.scores
        blocked_by = {j for (i, j), p in scores.items() if i == case.target and (p or 0.0) > 0.5}
        chosen = answers["scorer_argmax"].action
        assert isinstance(chosen, Grasp) != bool(blocked_by)
    with pytest.raises(InvalidSettingError, match="needs a scorer"):
        MethodSystem("scorer_argmax", None, scorer="none")


def test_rows_beside_another_are_dropped_once_they_decide_otherwise(cases):
    lead = MethodSystem("cpor", None, prior=0.5)
    alike, other = MethodSystem("cpor", None, prior=0.5), MethodSystem("geometry_argmax", None, prior=0.5)
    lead.beside = {alike: [], other: []}
    alone = MethodSystem("geometry_argmax", None, prior=0.5)
    decisions, agreed = [], True
    for case in cases:
        decisions.append(decide_with(lead, case.scene, case.target).decision)
        agreed = agreed and decide_with(alone, case.scene, case.target).action == decisions[-1].action
    assert lead.beside == {alike: decisions}
    assert not agreed


def test_without_a_prior_a_missing_answer_is_not_guessed(cases):
    scene = min((case.scene for case in cases), key=lambda scene: len(scene.ids))
    blind = replace(scene, observation=Observation(scene.observation.rgb), semantic_scores=None)
    methods = "cpor", "geometry_argmax", "no_acyclicity", "single_map"
    rows = {name: MethodSystem(name, None, scorer="none", tau=0.5) for name in methods}
    unsure = [t for t in scene.ids if decide_with(rows["cpor"], blind, t).action == Defer("no_evidence")]
    assert unsure
    for target in unsure:
        for row in rows.values():
            assert decide_with(row, blind, target).action == Defer("no_evidence")


def test_first_decisions_are_counted_and_compared(cases):
    found = measure_first_decisions(cases, forced_systems(None, True, 0.5), np.random.default_rng(0))
    assert found.n == {"hard": 20, "easy": 20}
    rsr = found.rsr["occlusion"]["cpor"]
    assert rsr["all"][0] == pytest.approx((rsr["easy"][0] + rsr["hard"][0]) / 2)
    assert rsr["all"][1].low <= rsr["all"][0] <= rsr["all"][1].high
    for other, paired in found.paired["any"].items():
        gap = found.rsr["any"]["cpor"]["all"][0] - found.rsr["any"][other]["all"][0]
        assert paired.delta == pytest.approx(gap)
        assert (paired.corrections - paired.regressions) / paired.n == pytest.approx(gap)
    # With a prior nothing is left open, except where the likeliest blocker is one that nobody segmented.
    assert max(found.deferred.values()) <= 0.05
