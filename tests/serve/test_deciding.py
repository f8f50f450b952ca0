import itertools

import numpy as np
import pytest
from pydantic import ValidationError

import cpor
from cpor.answer import decide_given
from cpor.decision import Defer
from cpor.errors import InvalidSceneError
from cpor.serve.api import decide_jobs
from cpor.serve.api.answered import DecideReply
from cpor.serve.api.asked import (
    ControlRequest,
    DecideRequest,
    ExplainRequest,
    PlanRequest,
    RunRequest,
    SceneDecideRequest,
)
from cpor.serve.api.decide_jobs import answer_explain, answer_plan, find_graphs

RELATIONS = [
    {"blocked": "mug", "blocker": "box", "p": 0.8},
    {"blocked": "box", "blocker": "can", "p": 0.3},
    {"blocked": "can", "blocker": "box", "p": 0.4},
    {"blocked": "lid", "blocker": "mug", "p": 0.5},
]


def scene(kind=DecideRequest, **changes):
    content = {"objects": ["mug", "box", "can", "lid"], "target": "mug", "relations": RELATIONS}
    return kind.model_validate(content | changes)


def answer_decide(request, deadline_ms):
    return DecideReply.model_validate(decide_jobs.answer_decide(request, deadline_ms))


def named(scores):
    """Scores by label, as a record has them: labels are text there."""
    return {str(label): score for label, score in scores.items()}


def posterior(request):
    triples = [(r.blocked, r.blocker, r.p) for r in request.relations]
    return cpor.ObstructionPosterior.from_relations(request.objects, request.target, triples)


@pytest.mark.parametrize("method", ["auto", "exact"])
@pytest.mark.parametrize("tau", [0.0, 0.3, 0.9])
def test_a_reply_says_what_the_library_decides(method, tau):
    request = scene(method=method, tau=tau)
    reply, decision = answer_decide(request, 2_000.0), cpor.decide(posterior(request), tau, method)
    assert reply.scores == pytest.approx(named(decision.scores))
    assert reply.action.object == getattr(decision.action, "obj", None)
    assert reply.action.reason == getattr(decision.action, "reason", None)
    assert set(reply.blockers) == set(decision.blockers)
    assert (reply.certificate.kind, reply.method) == (decision.certificate.kind, decision.method)


def test_a_reply_is_the_answer_of_the_library_and_two_fields_to_show():
    request = scene(mode="balanced")
    reply = decide_jobs.answer_decide(request, None)
    expected = decide_given(posterior(request), mode="balanced").to_json()
    shown = {name: reply.pop(name) for name in ("words", "edges")}
    assert reply | {"times_ms": {}} == expected | {"times_ms": {}}
    assert (reply["mode"], reply["tau"], reply["promise"], reply["checks"]) == ("balanced", 0.5, None, [])
    assert [(e["blocked"], e["blocker"], e["p"]) for e in shown["edges"]] == [
        (r["blocked"], r["blocker"], r["p"]) for r in expected["relations"]
    ]
    assert set(shown["words"]) == {"headline", "why", "proof"}


def test_it_is_cautious_where_nothing_else_is_asked_for():
    assert (answer_decide(scene(), None).mode, answer_decide(scene(), None).tau) == ("cautious", 0.9)
    assert answer_decide(scene(tau=0.3), None).mode is None
    for kind in (DecideRequest, ExplainRequest, PlanRequest):
        with pytest.raises(ValidationError, match="mode or tau, not both"):
            scene(kind, mode="bold", tau=0.5)
    with pytest.raises(ValidationError, match="cautious"):
        scene(mode="reckless")


def test_dragging_tau_changes_the_choice_and_nothing_else():
    seen = {}
    for tau in (0.1, 0.95, 0.1, 0.65):
        request = scene(tau=tau)
        reply, decision = answer_decide(request, 2_000.0), cpor.decide(posterior(request), tau)
        assert reply.action.object == getattr(decision.action, "obj", None)
        assert set(reply.blockers) == set(decision.blockers)
        assert reply.tau == tau
        seen[tau] = (reply.action.type, reply.scores, reply.edges, reply.relations, reply.top_graphs)
    assert seen[0.1][0] == "remove" and seen[0.95][0] == "defer"
    assert seen[0.1][1:] == seen[0.95][1:]


@pytest.mark.parametrize("method", ["auto", "exact"])
def test_every_setting_is_answered_as_the_library_does(method):
    relations = [*RELATIONS, {"blocked": "mug", "blocker": "lid", "p": None}]
    for tau, prior, proven in itertools.product((0.2, 0.6), (None, 0.1, 0.9), (False, True)):
        request = scene(relations=relations, tau=tau, prior=prior, method=method, require_certificate=proven)
        reply = answer_decide(request, None)
        expected = cpor.decide(posterior(request), tau, method, require_certificate=proven, prior=prior)
        assert reply.action.object == getattr(expected.action, "obj", None)
        assert reply.scores == pytest.approx(named(expected.scores))


def test_the_service_acts_on_what_is_proven_only():
    rng = np.random.default_rng(0)
    relations = [
        {"blocked": i, "blocker": j, "p": float(rng.uniform(0.31, 0.55))}
        for i, j in itertools.combinations(range(14), 2)
    ]
    content = {"objects": list(range(14)), "target": 0, "relations": relations, "tau": 0.5}
    with pytest.raises(ValidationError):  # the paper's rule acts on scores that may be far off
        DecideRequest.model_validate(content | {"method": "topk"})
    to_the_letter = cpor.decide(posterior(scene(**content)), method="topk", deadline_ms=100.0)
    assert not isinstance(to_the_letter.action, Defer)
    assert to_the_letter.interval(to_the_letter.action.obj)[0] <= 0.5
    reply = answer_decide(DecideRequest.model_validate(content | {"graphs": 0}), 1.0)
    assert not reply.certificate.exact and reply.action.type == "remove"
    assert reply.score_bounds[str(reply.action.object)][0] > 0.5
    reply = answer_decide(DecideRequest.model_validate(content | {"tau": 0.8, "graphs": 0}), 1.0)
    assert (reply.action.type, reply.action.reason) == ("defer", "not_proven")
    assert "too large for an exact sum" in reply.words["why"] and "%" not in reply.words["why"]


@pytest.mark.parametrize("p", [0.5, None])
def test_a_large_scene_of_which_nothing_is_known_is_not_acted_on(p):
    relations = [{"blocked": i, "blocker": j, "p": p} for i, j in itertools.permutations(range(24), 2)]
    content = {"objects": list(range(24)), "target": 0, "relations": relations}
    reply = answer_decide(
        DecideRequest.model_validate(content | {"tau": 0.5, "prior": 0.5, "graphs": 0}), None
    )
    assert (reply.action.type, reply.action.reason) == ("defer", "conflicting_evidence")


@pytest.mark.parametrize("wrong", [True, False, "0.9", "", [0.5]])
def test_only_numbers_are_probabilities(wrong):
    for changes in (
        {"relations": [{"blocked": "mug", "blocker": "box", "p": wrong}]},
        {"tau": wrong},
        {"prior": wrong},
        {"graphs": wrong},
    ):
        with pytest.raises(ValidationError):
            scene(**changes)
    with pytest.raises(ValidationError):
        scene(PlanRequest, max_steps=wrong)
    with pytest.raises(ValidationError):
        RunRequest.model_validate({"seed": wrong})
    with pytest.raises(ValidationError):
        ControlRequest.model_validate({"do": "retarget", "obj": wrong})
    with pytest.raises(ValidationError):
        SceneDecideRequest.model_validate(
            {"target": 1, "relations": [{"blocked": 1, "blocker": 2, "p": wrong}]}
        )


@pytest.mark.parametrize("wrong", ["yes", 1, 0, "true"])
def test_only_true_and_false_are_switches(wrong):
    with pytest.raises(ValidationError):
        scene(require_certificate=wrong)
    with pytest.raises(ValidationError):
        RunRequest.model_validate({"paused": wrong})


def test_whole_numbers_are_probabilities_too():
    reply = answer_decide(scene(relations=[{"blocked": "mug", "blocker": "box", "p": 1}], tau=0), None)
    assert reply.action.object == "box"


def dense(n, low, high):
    rng = np.random.default_rng(n)
    relations = [
        {"blocked": i, "blocker": j, "p": float(rng.uniform(low, high))}
        for i, j in itertools.permutations(range(n), 2)
    ]
    return {"objects": list(range(n)), "target": 0, "relations": relations}


def test_what_decides_nothing_is_left_out_when_the_time_is_up():
    content = dense(17, 0.4, 0.9)
    reply = answer_decide(DecideRequest.model_validate(content | {"graphs": 20}), 60.0)
    assert len(reply.top_graphs) < 20
    assert "the time was up" in reply.words["proof"]
    assert len(reply.scores) == 17 and len(reply.relations) == len(content["relations"])
    # What was left out is not kept: asked without hurry it is there.
    small = dense(5, 0.2, 0.6)
    hurried = DecideRequest.model_validate(small)
    assert find_graphs(posterior(hurried), 3, until=0.0) == ((), False)
    calm = answer_decide(hurried, None)
    assert len(calm.top_graphs) == 3 and "the time was up" not in calm.words["proof"]


def test_a_scene_that_is_not_exact_is_decided_with_its_own_tau():
    request = DecideRequest.model_validate(dense(24, 0.1, 0.3))
    for tau in (0.1, 0.8):
        expected = cpor.decide(posterior(request), tau)
        assert expected.method == "topk"
        reply = answer_decide(request.model_copy(update={"tau": tau, "graphs": 0}), None)
        assert (reply.certificate.kind, reply.certificate.epsilon) == (
            expected.certificate.kind,
            pytest.approx(expected.certificate.epsilon),
        )
        assert reply.action.object == getattr(expected.action, "obj", None)


def test_posteriors_of_relations_are_exact():
    content = scene().model_dump()
    reply = answer_explain(ExplainRequest.model_validate(content), None)
    table = cpor.edge_posteriors(posterior(scene()))
    index = {label: k for k, label in enumerate(content["objects"])}
    assert reply.effects
    for each in reply.effects:
        assert each.p_posterior == pytest.approx(table[index[each.blocked], index[each.blocker]])


def test_cycles_are_marked():
    for edge in answer_decide(scene(), None).edges:
        assert edge.in_cycle == ({edge.blocked, edge.blocker} == {"box", "can"})


def test_graphs_are_the_likeliest_ones():
    request = scene(graphs=5)
    shares = [graph.share for graph in answer_decide(request, None).top_graphs]
    expected = cpor.likeliest_graphs(posterior(request), 5)
    assert shares == pytest.approx([graph.share for graph in expected])


def test_no_answer_stays_no_answer():
    request = scene(relations=[{"blocked": "mug", "blocker": "box", "p": None}])
    reply = answer_decide(request, None)
    assert (reply.action.type, reply.action.reason) == ("defer", "no_evidence")
    (edge,) = reply.edges
    assert edge.p is None
    assert reply.top_graphs == ()
    assert reply.score_ranges["mug"] == pytest.approx((0.0, 1.0), abs=1e-6)


def test_a_prior_stands_in_for_a_missing_answer():
    reply = answer_decide(
        scene(relations=[{"blocked": "mug", "blocker": "box", "p": None}], prior=0.9, tau=0.5), None
    )
    assert reply.action.type == "remove" and reply.top_graphs


def test_whole_numbers_are_called_objects():
    request = DecideRequest(
        objects=[4, 7], target=4, relations=[{"blocked": 4, "blocker": 7, "p": 0.9}], mode="bold"
    )
    reply = answer_decide(request, None)
    assert reply.words["headline"] == "Remove object 7"
    assert "object 4" in reply.words["why"].lower()


def test_effects_say_what_would_change_the_decision():
    request = scene(ExplainRequest, tau=0.5)
    reply = answer_explain(request, None)
    expected = cpor.explain(posterior(request))
    assert len(reply.effects) == len(expected.relations)
    first = reply.effects[0]
    assert first.flips_at == pytest.approx(expected.relations[0].flips_at)
    assert first.words.startswith("If box obstructed mug with")
    beyond = first.flips_at + np.copysign(1e-3, first.flips_at - first.p)
    changed = [
        {**r, "p": beyond} if (r["blocked"], r["blocker"]) == (first.blocked, first.blocker) else r
        for r in RELATIONS
    ]
    assert answer_decide(scene(relations=changed, tau=0.5), None).action.object == first.flips_to.object
    assert (reply.ask_next.blocked, reply.ask_next.blocker) == (
        expected.ask_next.blocked,
        expected.ask_next.blocker,
    )


def test_a_plan_is_the_library_s():
    request = scene(PlanRequest, cost_removal=0.01, mode="bold")
    reply, expected = answer_plan(request), cpor.plan(posterior(request), cost_removal=0.01)
    assert [step.object for step in reply.steps] == [step.obj for step in expected.steps]
    assert reply.p_valid == pytest.approx(expected.p_valid)
    assert reply.note == expected.note


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"target": "cup"}, "not among the objects"),
        ({"objects": ["mug", "mug"]}, "listed twice"),
        ({"objects": [1, "1", "mug"]}, "read the same"),
        ({"relations": [{"blocked": "mug", "blocker": "mug", "p": 0.1}]}, "cannot obstruct itself"),
        ({"relations": [{"blocked": "mug", "blocker": "ghost", "p": 0.1}]}, "unknown object"),
    ],
)
def test_what_is_no_scene_is_refused(changes, says):
    with pytest.raises(InvalidSceneError, match=says):
        answer_decide(scene(**changes), None)


def test_plans_go_on_without_answers_and_beyond_the_size_of_all_plans():
    gap = answer_plan(scene(PlanRequest, relations=[{"blocked": "mug", "blocker": "box", "p": None}]))
    assert 0.0 <= gap.p_valid <= 1.0
    chain = [{"blocked": k, "blocker": k + 1, "p": 0.5} for k in range(29)]
    long = answer_plan(
        PlanRequest.model_validate({"objects": list(range(30)), "target": 0, "relations": chain})
    )
    assert 0.0 < long.p_valid <= 1.0
