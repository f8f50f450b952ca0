import numpy as np
import pytest

import cpor
from cpor.errors import InvalidSceneError, InvalidSettingError, TooLargeError
from cpor.serve.deciding import answer_decide, answer_explain, answer_plan
from cpor.serve.messages import DecideRequest, ExplainRequest, PlanRequest

RELATIONS = [
    {"blocked": "mug", "blocker": "box", "p": 0.8},
    {"blocked": "box", "blocker": "can", "p": 0.3},
    {"blocked": "can", "blocker": "box", "p": 0.4},
    {"blocked": "lid", "blocker": "mug", "p": 0.5},
]


def scene(kind=DecideRequest, **changes):
    content = {"objects": ["mug", "box", "can", "lid"], "target": "mug", "relations": RELATIONS}
    return kind.model_validate(content | changes)


def posterior(request):
    triples = [(r.blocked, r.blocker, r.p) for r in request.relations]
    return cpor.ObstructionPosterior.from_relations(request.objects, request.target, triples)


@pytest.mark.parametrize("method", ["auto", "exact", "topk"])
@pytest.mark.parametrize("tau", [0.0, 0.3, 0.9])
def test_a_reply_says_what_the_library_decides(method, tau):
    request = scene(method=method, tau=tau)
    reply, decision = answer_decide(request, 2_000.0), cpor.decide(posterior(request), tau, method)
    assert {s.object: s.score for s in reply.scores} == pytest.approx(dict(decision.scores))
    assert reply.action.object == getattr(decision.action, "obj", None)
    assert reply.action.reason == getattr(decision.action, "reason", None)
    assert {s.object for s in reply.scores if s.is_blocker} == set(decision.blockers)
    assert (reply.certificate.kind, reply.method) == (decision.certificate.kind, decision.method)
    assert [s.score for s in reply.scores] == sorted((s.score for s in reply.scores), reverse=True)
    assert all(s.low <= s.score <= s.high for s in reply.scores)


def test_dragging_tau_changes_the_choice_and_nothing_else():
    seen = {}
    for tau in (0.1, 0.95, 0.1, 0.65):
        request = scene(tau=tau)
        reply, decision = answer_decide(request, 2_000.0), cpor.decide(posterior(request), tau)
        assert reply.action.object == getattr(decision.action, "obj", None)
        assert {s.object for s in reply.scores if s.is_blocker} == set(decision.blockers)
        assert reply.tau == tau
        seen[tau] = (reply.action.type, [s.score for s in reply.scores], reply.relations, reply.graphs)
    assert seen[0.1][0] == "remove" and seen[0.95][0] == "defer"
    assert seen[0.1][1:] == seen[0.95][1:]


def test_posteriors_of_relations_are_exact_and_cycles_are_marked():
    request = scene()
    reply = answer_decide(request, None)
    table = cpor.edge_posteriors(posterior(request))
    index = {label: k for k, label in enumerate(request.objects)}
    for edge in reply.relations:
        assert edge.p_posterior == pytest.approx(table[index[edge.blocked], index[edge.blocker]])
        assert edge.in_cycle == ({edge.blocked, edge.blocker} == {"box", "can"})


def test_graphs_are_the_likeliest_ones():
    request = scene(graphs=5)
    shares = [graph.share for graph in answer_decide(request, None).graphs]
    expected = cpor.likeliest_graphs(posterior(request), 5)
    assert shares == pytest.approx([graph.share for graph in expected])


def test_no_answer_stays_no_answer():
    request = scene(relations=[{"blocked": "mug", "blocker": "box", "p": None}])
    reply = answer_decide(request, None)
    assert (reply.action.type, reply.action.reason) == ("defer", "no_evidence")
    (edge,) = reply.relations
    assert edge.p is None and edge.p_posterior is None
    assert reply.graphs == []
    assert (reply.scores[0].low, reply.scores[0].high) == pytest.approx((0.0, 1.0), abs=1e-6)


def test_a_prior_stands_in_for_a_missing_answer():
    reply = answer_decide(scene(relations=[{"blocked": "mug", "blocker": "box", "p": None}], prior=0.9), None)
    assert reply.action.type == "remove" and reply.graphs


def test_whole_numbers_are_called_objects():
    request = DecideRequest(objects=[4, 7], target=4, relations=[{"blocked": 4, "blocker": 7, "p": 0.9}])
    reply = answer_decide(request, None)
    assert reply.headline == "Remove object 7"
    assert "object 4" in reply.why.lower()


def test_effects_say_what_would_change_the_decision():
    request = scene(ExplainRequest)
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
    assert answer_decide(scene(relations=changed), None).action.object == first.flips_to.object
    assert (reply.ask_next.blocked, reply.ask_next.blocker) == (
        expected.ask_next.blocked,
        expected.ask_next.blocker,
    )


def test_a_plan_is_the_library_s():
    request = scene(PlanRequest, cost_removal=0.01)
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


def test_plans_need_answers_and_a_size():
    with pytest.raises(InvalidSettingError, match="no answer"):
        answer_plan(scene(PlanRequest, relations=[{"blocked": "mug", "blocker": "box", "p": None}]))
    chain = [{"blocked": k, "blocker": k + 1, "p": 0.5} for k in range(29)]
    with pytest.raises(TooLargeError, match="30 objects"):
        answer_plan(PlanRequest.model_validate({"objects": list(range(30)), "target": 0, "relations": chain}))
