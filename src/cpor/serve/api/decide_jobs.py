"""From questions on the wire to the library's calls and back: decide, explain, plan.

The likeliest graphs, which are costly and decide nothing, are kept for the scenes asked about last. They do
not depend on tau, so nothing is summed again while that is dragged.
"""

import time
from collections.abc import Callable
from typing import Any, TypeVar

from cpor.answer import Answer, DecideSettings, decide_given
from cpor.errors import TooLargeError
from cpor.infer.exact import WORK_LIMIT
from cpor.infer.explain import NO_ANSWER, RelationEffect, explain
from cpor.infer.graphs import GraphShare, likeliest_graphs
from cpor.infer.local import Allowance, cyclic_parts
from cpor.infer.plan import plan
from cpor.infer.warm_up import warm_up
from cpor.io.scene_file import parse_scene
from cpor.learn.modes import DEFAULT_MODE, mode_tau
from cpor.records import PairRecord
from cpor.relations import Label, ObstructionPosterior
from cpor.serve.api.answered import DecideReply, EffectMessage, ExplainReply, PlanReply
from cpor.serve.api.asked import DecideRequest, ExplainRequest, GivenScene, PlanRequest
from cpor.viz.words import clean, percent, say_all, say_certificate, say_step

LEFT_OUT = "Not all likeliest arrangements are listed: the time was up."
"""Said in `proof` where the deadline came before they were found; they decide nothing."""

_T = TypeVar("_T")

_kept: dict[tuple[ObstructionPosterior, int], tuple[GraphShare, ...]] = {}
_MOST_KEPT = 32


def read_scene(request: GivenScene) -> ObstructionPosterior:
    """Objects, target and relations of a request, checked as those of a scene file are."""
    return parse_scene(request.model_dump(include={"objects", "target", "relations", "unseen"}))


def answer_decide(request: DecideRequest, deadline_ms: float | None) -> dict[str, Any]:
    """Decide, and say why."""
    until = None if deadline_ms is None else time.perf_counter() + deadline_ms / 1e3
    return describe_answer(_decide(request, deadline_ms), request.graphs, until)


def answer_explain(request: ExplainRequest, deadline_ms: float | None) -> ExplainReply:
    """Decide, and say what would change it."""
    answer = _decide(request, deadline_ms)
    assert answer.posterior is not None
    explanation = explain(answer.posterior, answer.decision, k=0, prior=request.prior)
    ask: Any = explanation.ask_next
    return ExplainReply(
        decision=DecideReply.model_validate(describe_answer(answer, request.graphs)),
        effects=[_describe_effect(effect) for effect in explanation.relations],
        ask_next=None if ask is None else PairRecord(blocked=ask.blocked, blocker=ask.blocker),
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
    return PlanReply.model_validate(found, from_attributes=True)


def describe_answer(
    answer: Answer, graphs: int, until: float | None = None, name: Callable[[Label], str] | None = None
) -> dict[str, Any]:
    """An answer as `DecideReply` has it: its one JSON form, and what the page shows besides.

    After `until`, on `time.perf_counter`, graphs are left out. [s]
    """
    if answer.decision is None or answer.posterior is None:
        words = {"headline": "Which object do you mean?", "why": answer.question or "", "proof": ""}
        return answer.to_json(0) | {"words": words, "edges": []}
    name, decision = name or say_label, answer.decision
    known = answer.posterior.with_prior(answer.prior)
    listed, in_time = ((), True) if known.has_unanswered else find_graphs(known, graphs, until)
    words = {
        "headline": say_step(decision.action, name),
        "why": say_all(decision, answer.posterior.target, name, answer.p_success),
        "proof": say_certificate(decision) + ("" if in_time else f" {LEFT_OUT}"),
    }
    return answer.to_json(listed) | {"words": words, "edges": _describe_edges(answer.posterior)}


def find_graphs(
    scene: ObstructionPosterior, k: int, until: float | None = None
) -> tuple[tuple[GraphShare, ...], bool]:
    """The `k` likeliest graphs of a scene without missing answers; fewer, and False, where the time is up."""
    if k == 0:
        return (), True
    if until is not None and time.perf_counter() >= until:
        return (), False
    key = scene, k
    if (graphs := _kept.get(key)) is None:
        allowance = Allowance(WORK_LIMIT, until)
        try:
            graphs = likeliest_graphs(scene, k, allowance=allowance)
        except TooLargeError:
            return (), True  # as an answer lists none where finding them is too much work
        if allowance.late:
            return graphs, False
        _kept[key] = graphs
        if len(_kept) > _MOST_KEPT:
            del _kept[next(iter(_kept))]  # the oldest
    return graphs, True


def _describe_edges(posterior: ObstructionPosterior) -> list[dict[str, object]]:
    """Every candidate relation as `EdgeMessage` has it."""
    part = cyclic_parts(posterior.with_prior(NO_ANSWER).p_obstructs)
    index = {label: k for k, label in enumerate(posterior.objects)}
    return [
        relation._asdict()
        | {"in_cycle": bool(part[index[relation.blocked]] == part[index[relation.blocker]])}
        for relation in posterior.relations()
    ]


def say_label(label: Label) -> str:
    """What an object is called: `object 7`, or its label where that is a text."""
    return clean(label) if isinstance(label, str) else f"object {label}"


def _decide(request: DecideRequest, deadline_ms: float | None) -> Answer:
    settings = DecideSettings(request.method, deadline_ms, request.require_certificate, request.prior)
    mode = request.mode or DEFAULT_MODE
    return decide_given(read_scene(request), mode=mode, tau=request.tau, settings=settings)


def _describe_effect(effect: RelationEffect) -> EffectMessage:
    fields = {name: value for name, value in vars(effect).items() if name in EffectMessage.model_fields}
    fields["p_posterior"] = min(max(effect.p_posterior, 0.0), 1.0)
    return EffectMessage.model_validate(fields | {"words": say_effect(effect, say_label)})


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


def prepare_deciding() -> None:
    """Compile or load everything, so that no caller waits for it."""
    warm_up()
    plan(ObstructionPosterior(("a", "b"), "a", {("a", "b"): 0.5}))


def work(_: object, job: Callable[..., _T], /, *args: object) -> _T:
    """A job of a worker that needs none of its tools."""
    return job(*args)
