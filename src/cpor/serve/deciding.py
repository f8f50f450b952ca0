"""From questions on the wire to the library's calls and back: decide, explain, plan."""

import time
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from cpor.data.scene_file import action_to_json, parse_scene
from cpor.decision import Action, Decision
from cpor.errors import TooLargeError
from cpor.inference._kernels.frontier import strong_components
from cpor.inference.certificate import Inference, judge
from cpor.inference.decide import Policy, decide, infer_many
from cpor.inference.explain import NO_ANSWER, RelationEffect, explain
from cpor.inference.graphs import GraphShare, edge_posteriors, likeliest_graphs
from cpor.planning.plan import plan
from cpor.relations import Label, ObstructionPosterior
from cpor.serve.messages import (
    ActionMessage,
    CertificateMessage,
    DecideReply,
    DecideRequest,
    EdgeMessage,
    EffectMessage,
    ExplainReply,
    ExplainRequest,
    GraphMessage,
    PairMessage,
    PlanReply,
    PlanRequest,
    PlanStepMessage,
    ScoreMessage,
)
from cpor.viz.card import clean
from cpor.viz.words import percent, say_certificate, say_step, say_why

MOST_EDGES_FOR_POSTERIORS = 400
"""Relations up to which the posterior of each is computed: beyond, it takes longer than a person waits."""

_REMEMBERED = 16
"""Scenes whose costly parts are kept: those that a few people turn over at the moment."""


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
    decision = _decide(posterior, request, deadline_ms)
    took = {"decide": _ms_since(start)}
    start = time.perf_counter()
    known = posterior.with_prior(request.prior)
    graphs = () if known.has_unanswered else _graphs(known, request.graphs)
    took["graphs"] = _ms_since(start)
    return describe_decision(posterior, decision, graphs, request.prior, took)


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
) -> DecideReply:
    """A decision as it goes over the wire.

    Args:
        posterior: What was decided from.
        decision: What was decided.
        graphs: The likeliest ones.
        prior: Probability assumed where there was no answer.
        times_ms: Time of each stage so far. [ms]
        name: What an object is called in sentences.
    """
    name = name or say_label
    certificate = decision.certificate
    start = time.perf_counter()
    edges = list(_edges(posterior, prior))
    times_ms = {**times_ms, "edges": _ms_since(start)}
    ranked = sorted(decision.scores, key=lambda obj: (-decision.scores[obj], obj != posterior.target))
    return DecideReply(
        action=describe_action(decision.action),
        headline=say_step(decision.action, name),
        why=say_why(decision, posterior.target, name),
        proof=say_certificate(decision),
        scores=[_describe_score(decision, obj) for obj in ranked],
        certificate=CertificateMessage(
            kind=certificate.kind,
            certified=certificate.certified,
            epsilon=certificate.epsilon,
            k=certificate.k,
            exact=certificate.exact,
            blockers_certified=certificate.blockers_certified,
        ),
        relations=edges,
        graphs=[
            GraphMessage(
                share=graph.share,
                relations=[PairMessage(blocked=r.blocked, blocker=r.blocker) for r in graph.relations],
            )
            for graph in graphs
        ],
        method=decision.method,
        tau=decision.tau,
        mu=decision.mu,
        times_ms={stage: round(value, 3) for stage, value in times_ms.items()},
    )


def describe_action(action: Action) -> ActionMessage:
    """An action as it goes over the wire."""
    return ActionMessage.model_validate(action_to_json(action))


def _describe_edges(posterior: ObstructionPosterior, prior: float | None) -> list[EdgeMessage]:
    """Every candidate relation with its posterior, where that is in reach, and whether it is on a cycle."""
    relations = list(posterior.relations())
    known = posterior.with_prior(prior)
    p_posterior: np.ndarray | None = None
    if not known.has_unanswered and len(relations) <= MOST_EDGES_FOR_POSTERIORS:
        try:
            p_posterior = edge_posteriors(known)
        except TooLargeError:
            p_posterior = None
    part = np.empty(len(posterior), np.int64)
    strong_components(posterior.with_prior(NO_ANSWER).p_obstructs, part)
    index = {label: k for k, label in enumerate(posterior.objects)}
    edges = []
    for blocked, blocker, p in relations:
        i, j = index[blocked], index[blocker]
        edges.append(
            EdgeMessage(
                blocked=blocked,
                blocker=blocker,
                p=p,
                p_posterior=None if p_posterior is None else min(max(float(p_posterior[i, j]), 0.0), 1.0),
                in_cycle=bool(part[i] == part[j]),
            )
        )
    return edges


def say_label(label: Label) -> str:
    """What an object is called: `object 7`, or its label where that is a text."""
    return clean(label) if isinstance(label, str) else f"object {label}"


def _decide(posterior: ObstructionPosterior, request: DecideRequest, deadline_ms: float | None) -> Decision:
    """As `cpor.decide`; exact scores do not depend on tau, so while it is dragged they are kept."""
    known = posterior.with_prior(request.prior)
    if request.method == "auto" and not known.has_unanswered:
        inference = _infer(known, deadline_ms)
        if inference.method == "exact":
            return judge(known, inference, request.tau, request.tau, request.require_certificate)
    return decide(
        posterior, request.tau, request.method, deadline_ms, request.require_certificate, prior=request.prior
    )


@lru_cache(maxsize=_REMEMBERED)
def _infer(known: ObstructionPosterior, deadline_ms: float | None) -> Inference:
    policy = Policy(deadline_ms=deadline_ms)
    return infer_many([known.p_obstructs], [known.target_index], policy)[0]


@lru_cache(maxsize=_REMEMBERED)
def _graphs(known: ObstructionPosterior, k: int) -> tuple[GraphShare, ...]:
    return likeliest_graphs(known, k)


@lru_cache(maxsize=_REMEMBERED)
def _edges(posterior: ObstructionPosterior, prior: float | None) -> tuple[EdgeMessage, ...]:
    return tuple(_describe_edges(posterior, prior))


def _describe_score(decision: Decision, obj: Label) -> ScoreMessage:
    low, high = decision.interval(obj)
    return ScoreMessage(
        object=obj,
        score=min(max(decision.scores[obj], 0.0), 1.0),
        low=low,
        high=high,
        is_blocker=obj in decision.blockers,
    )


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
