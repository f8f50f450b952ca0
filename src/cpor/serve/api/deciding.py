"""From questions on the wire to the library's calls and back: decide, explain, plan."""

import time
from collections.abc import Callable
from dataclasses import replace

from cpor.data.scene_file import action_to_json, parse_scene
from cpor.decision import Action, Decision, Defer
from cpor.inference.certificate import judge
from cpor.inference.decide import decide
from cpor.inference.explain import RelationEffect, explain
from cpor.inference.graphs import GraphShare
from cpor.planning.plan import plan
from cpor.relations import Label, ObstructionPosterior
from cpor.serve.api.messages import (
    ActionMessage,
    DecideReply,
    DecideRequest,
    EffectMessage,
    ExplainReply,
    ExplainRequest,
    PairMessage,
    PlanReply,
    PlanRequest,
    PlanStepMessage,
)
from cpor.serve.api.remembered import Sum, describe_edges, find_graphs, infer
from cpor.viz.card import clean
from cpor.viz.words import percent, say_certificate, say_step, say_why, says_nothing

LEFT_OUT = "Not all likeliest arrangements and posteriors of relations are listed: the time was up."
"""Said in `proof` where the deadline came before the parts that decide nothing."""


def read_scene(request: DecideRequest | PlanRequest) -> ObstructionPosterior:
    """Objects, target and relations of a request, checked as those of a scene file are."""
    relations = [{"blocked": r.blocked, "blocker": r.blocker, "p": r.p} for r in request.relations]
    return parse_scene({"objects": request.objects, "target": request.target, "relations": relations})


def answer_decide(
    request: DecideRequest, deadline_ms: float | None, posterior: ObstructionPosterior | None = None
) -> DecideReply:
    """Decide, and say why; `posterior` is the request's scene, where it was read already."""
    posterior = posterior or read_scene(request)
    start = time.perf_counter()
    until = None if deadline_ms is None else start + deadline_ms / 1e3
    decision = _decide(posterior, request, deadline_ms)
    took = {"decide": _ms_since(start)}
    start = time.perf_counter()
    known = posterior.with_prior(request.prior)
    graphs, all_there = list_graphs(known, request.graphs, until)
    took["graphs"] = _ms_since(start)
    return describe_decision(
        posterior, decision, graphs, request.prior, took, until=until, all_graphs=all_there
    )


def list_graphs(
    known: ObstructionPosterior, k: int, until: float | None
) -> tuple[tuple[GraphShare, ...], bool]:
    """The likeliest graphs, none where answers are missing, and whether the time was enough.

    They get half of the time that is left: the posteriors of relations come after them.

    Args:
        known: The scene.
        k: How many.
        until: Moment of `time.perf_counter` by which all must be done; None: no hurry. [s]
    """
    if known.has_unanswered:
        return (), True
    half = None if until is None else 0.5 * (time.perf_counter() + until)
    return find_graphs(Sum(known, until=half), k)


def answer_explain(
    request: ExplainRequest, deadline_ms: float | None, posterior: ObstructionPosterior | None = None
) -> ExplainReply:
    """Decide, and say what would change it; `posterior` as in `answer_decide`."""
    posterior = posterior or read_scene(request)
    start = time.perf_counter()
    decision = _decide(posterior, request, deadline_ms)
    took = {"decide": _ms_since(start)}
    start = time.perf_counter()
    explanation = explain(posterior, decision, k=request.graphs, prior=request.prior)
    took["explain"] = _ms_since(start)
    ask = explanation.ask_next
    return ExplainReply(
        decision=describe_decision(posterior, decision, explanation.graphs, request.prior, took),
        effects=[_describe_effect(effect) for effect in explanation.relations],
        ask_next=None if ask is None else PairMessage(blocked=ask.blocked, blocker=ask.blocker),
        not_examined=explanation.not_examined,
    )


def answer_plan(request: PlanRequest) -> PlanReply:
    """The removals that lead to the target."""
    found = plan(
        read_scene(request),
        request.max_steps,
        request.cost_removal,
        request.cost_wrong,
        request.cost_ask,
        tau=request.tau,
        prior=request.prior,
    )
    return PlanReply(
        target=request.target,
        steps=[
            PlanStepMessage(
                object=step.obj,
                p_valid=step.p_valid,
                p_valid_so_far=step.p_valid_so_far,
                p_needed=step.p_needed,
            )
            for step in found.steps
        ],
        p_valid=found.p_valid,
        value=found.value,
        value_of_asking=found.value_of_asking,
        ask=found.ask,
        first_action=describe_action(found.first_action),
        note=found.note,
    )


def describe_decision(
    posterior: ObstructionPosterior,
    decision: Decision,
    graphs: tuple[GraphShare, ...],
    prior: float | None,
    times_ms: dict[str, float],
    name: Callable[[Label], str] | None = None,
    until: float | None = None,
    all_graphs: bool = True,
) -> DecideReply:
    """A decision as it goes over the wire.

    Args:
        posterior: What was decided from.
        decision: What was decided.
        graphs: The likeliest ones.
        prior: Probability assumed where there was no answer.
        times_ms: Time of each stage so far. [ms]
        name: What an object is called in sentences.
        until: Moment of `time.perf_counter` after which posteriors of relations are left out. [s]
        all_graphs: Whether the time was enough for `graphs`.
    """
    name = name or say_label
    certificate = decision.certificate
    start = time.perf_counter()
    edges, all_edges = describe_edges(Sum(posterior, until=until), prior)
    times_ms = {**times_ms, "edges": _ms_since(start)}
    ranked = sorted(decision.scores, key=lambda obj: (-decision.scores[obj], obj != posterior.target))
    # Checked in one go: that is several times quicker than one message after the other.
    return DecideReply.model_validate(
        {
            "action": action_to_json(decision.action),
            "headline": say_step(decision.action, name),
            "why": say_why(decision, posterior.target, name),
            "proof": say_certificate(decision) + ("" if all_graphs and all_edges else f" {LEFT_OUT}"),
            "scores": [_describe_score(decision, obj) for obj in ranked],
            "certificate": {
                "kind": certificate.kind,
                "certified": certificate.certified,
                "epsilon": certificate.epsilon,
                "k": certificate.k,
                "exact": certificate.exact,
                "blockers_certified": certificate.blockers_certified,
            },
            "relations": edges,
            "graphs": [
                {
                    "share": graph.share,
                    "relations": [{"blocked": r.blocked, "blocker": r.blocker} for r in graph.relations],
                }
                for graph in graphs
            ],
            "method": decision.method,
            "tau": decision.tau,
            "mu": decision.mu,
            "times_ms": {stage: round(value, 3) for stage, value in times_ms.items()},
        }
    )


def describe_action(action: Action) -> ActionMessage:
    """An action as it goes over the wire."""
    return ActionMessage.model_validate(action_to_json(action))


def say_label(label: Label) -> str:
    """What an object is called: `object 7`, or its label where that is a text."""
    return clean(label) if isinstance(label, str) else f"object {label}"


def _decide(posterior: ObstructionPosterior, request: DecideRequest, deadline_ms: float | None) -> Decision:
    """As `cpor.decide`, except that bounds which say nothing are never acted on."""
    known = posterior.with_prior(request.prior)
    if request.method == "auto" and not known.has_unanswered:
        until = None if deadline_ms is None else time.perf_counter() + deadline_ms / 1e3
        inference = infer(Sum(known, request.tau, until))
        return judge(known, inference, request.tau, request.tau, request.require_certificate)
    tau, method, proven = request.tau, request.method, request.require_certificate
    decision = decide(posterior, tau, method, deadline_ms, proven, prior=request.prior)
    if says_nothing(decision) and not isinstance(decision.action, Defer):
        # Algorithm 1 to the letter acts on any bound; the library keeps to that, a service must not.
        return replace(decision, action=Defer("weak_evidence"))
    return decision


def _describe_score(decision: Decision, obj: Label) -> dict[str, object]:
    """As `ScoreMessage` has it."""
    low, high = decision.interval(obj)
    score = min(max(decision.scores[obj], 0.0), 1.0)
    return {
        "object": obj,
        "score": score,
        "low": low,
        "high": high,
        "is_blocker": obj in decision.blockers,
    }


def _describe_effect(effect: RelationEffect) -> EffectMessage:
    return EffectMessage(
        blocked=effect.blocked,
        blocker=effect.blocker,
        p=effect.p,
        assumed=effect.assumed,
        p_posterior=min(max(effect.p_posterior, 0.0), 1.0),
        flips_at=effect.flips_at,
        flips_to=None if effect.flips_to is None else describe_action(effect.flips_to),
        if_true=describe_action(effect.if_true),
        if_false=describe_action(effect.if_false),
        value_of_asking=effect.value_of_asking,
        words=say_effect(effect, say_label),
    )


def say_effect(effect: RelationEffect, name: Callable[[Label], str]) -> str:
    """What one relation means for the decision, in a sentence."""
    blocker, blocked = name(effect.blocker), name(effect.blocked)
    if effect.flips_at is not None and effect.flips_to is not None:
        at, now = percent(effect.flips_at), percent(effect.p)
        if at == now:  # too near to tell apart in whole percents
            at, now = f"{effect.flips_at:.2%}", f"{effect.p:.2%}"
        then = _lower(say_step(effect.flips_to, name))
        return f"If {blocker} obstructed {blocked} with {at} instead of {now}: {then}."
    yes, no = _lower(say_step(effect.if_true, name)), _lower(say_step(effect.if_false, name))
    if yes == no:
        return f"Whether {blocker} obstructs {blocked} does not change what to do."
    return f"If {blocker} obstructs {blocked}: {yes}. If not: {no}."


def _lower(words: str) -> str:
    return words[:1].lower() + words[1:]


def _ms_since(start: float) -> float:
    return 1e3 * (time.perf_counter() - start)
