"""From questions on the wire to the library's calls and back: decide, explain, plan."""

import time
from collections.abc import Callable
from typing import Any

from cpor.answer import Answer, DecideSettings, decide_given
from cpor.infer.explain import RelationEffect, explain
from cpor.infer.plan import plan
from cpor.io.scene_file import parse_scene
from cpor.learn.modes import DEFAULT_MODE, mode_tau
from cpor.records import PairRecord, record_action
from cpor.relations import Label, ObstructionPosterior
from cpor.serve.api.kept_sums import Sum, describe_edges, find_graphs
from cpor.serve.api.messages import (
    DecideReply,
    DecideRequest,
    EffectMessage,
    ExplainReply,
    ExplainRequest,
    GivenScene,
    PlanReply,
    PlanRequest,
    PlanStepMessage,
)
from cpor.viz.card import clean
from cpor.viz.words import percent, say_certificate, say_step, say_success, say_why

LEFT_OUT = "Not all likeliest arrangements and posteriors of relations are listed: the time was up."
"""Said in `proof` where the deadline came before the parts that decide nothing."""


def read_scene(request: GivenScene) -> ObstructionPosterior:
    """Objects, target and relations of a request, checked as those of a scene file are."""
    relations = [{"blocked": r.blocked, "blocker": r.blocker, "p": r.p} for r in request.relations]
    return parse_scene(
        {
            "objects": request.objects,
            "target": request.target,
            "relations": relations,
            "unseen": request.unseen,
        }
    )


def answer_decide(
    request: DecideRequest, deadline_ms: float | None, posterior: ObstructionPosterior | None = None
) -> dict[str, Any]:
    """Decide, and say why; `posterior` is the request's scene, where it was read already."""
    until = None if deadline_ms is None else time.perf_counter() + deadline_ms / 1e3
    return describe_answer(_decide(request, deadline_ms, posterior), request.graphs, until)


def answer_explain(
    request: ExplainRequest, deadline_ms: float | None, posterior: ObstructionPosterior | None = None
) -> ExplainReply:
    """Decide, and say what would change it; `posterior` as in `answer_decide`."""
    answer = _decide(request, deadline_ms, posterior)
    assert answer.posterior is not None
    explanation = explain(answer.posterior, answer.decision, k=0, prior=request.prior)
    ask = explanation.ask_next
    return ExplainReply(
        decision=DecideReply.model_validate(describe_answer(answer, request.graphs)),
        effects=[_describe_effect(effect) for effect in explanation.relations],
        ask_next=None if ask is None else PairRecord.model_validate(_pair(ask)),
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
        tau=request.tau if request.tau is not None else mode_tau(request.mode or DEFAULT_MODE),
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
        first_action=record_action(found.first_action),
        note=found.note,
    )


def describe_answer(
    answer: Answer, graphs: int, until: float | None = None, name: Callable[[Label], str] | None = None
) -> dict[str, Any]:
    """An answer as `DecideReply` has it: its one JSON form, and what the page shows besides.

    Args:
        answer: The answer.
        graphs: How many of the likeliest graphs to list.
        until: Moment of `time.perf_counter` after which graphs and posteriors of relations are left out. [s]
        name: What an object is called in sentences.
    """
    if answer.decision is None or answer.posterior is None:
        words = {"headline": "Which object do you mean?", "why": answer.question or "", "proof": ""}
        return answer.to_json(0) | {"words": words, "edges": []}
    name, decision = name or say_label, answer.decision
    # The posteriors of relations come after the graphs, which get half of the time.
    half = None if until is None else 0.5 * (time.perf_counter() + until)
    known = answer.posterior.with_prior(answer.prior)
    listed, all_graphs = ((), True) if known.has_unanswered else find_graphs(Sum(known, half), graphs)
    edges, all_edges = describe_edges(Sum(answer.posterior, until), answer.prior)
    why = say_why(decision, answer.posterior.target, name)
    success = say_success(answer.p_success, decision)
    words = {
        "headline": say_step(decision.action, name),
        "why": f"{why} {success}" if success else why,
        "proof": say_certificate(decision) + ("" if all_graphs and all_edges else f" {LEFT_OUT}"),
    }
    return answer.to_json(listed) | {"words": words, "edges": edges}


def say_label(label: Label) -> str:
    """What an object is called: `object 7`, or its label where that is a text."""
    return clean(label) if isinstance(label, str) else f"object {label}"


def _decide(
    request: DecideRequest, deadline_ms: float | None, posterior: ObstructionPosterior | None
) -> Answer:
    settings = DecideSettings(request.method, deadline_ms, request.require_certificate, request.prior)
    mode = request.mode or DEFAULT_MODE
    return decide_given(posterior or read_scene(request), mode=mode, tau=request.tau, settings=settings)


def _pair(effect: RelationEffect) -> dict[str, Label]:
    return {"blocked": effect.blocked, "blocker": effect.blocker}


def _describe_effect(effect: RelationEffect) -> EffectMessage:
    return EffectMessage(
        blocked=effect.blocked,
        blocker=effect.blocker,
        p=effect.p,
        assumed=effect.assumed,
        p_posterior=min(max(effect.p_posterior, 0.0), 1.0),
        flips_at=effect.flips_at,
        flips_to=None if effect.flips_to is None else record_action(effect.flips_to),
        if_true=record_action(effect.if_true),
        if_false=record_action(effect.if_false),
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
