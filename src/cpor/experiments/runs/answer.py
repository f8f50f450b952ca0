"""From questions to records: what a worker does with a shard of a dataset."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from cpor.decision import Decision, Defer
from cpor.errors import CporError, TooLargeError
from cpor.experiments.runs.dataset import FolderItem, Item
from cpor.experiments.runs.questions import CaseQuestion, QuestionSettings, item_name, questions
from cpor.experiments.runs.record import (
    BestRecord,
    CaseRecord,
    Outcome,
    TruthRecord,
    record_decision,
    record_error,
    record_relations,
)
from cpor.inference.certificate import choose
from cpor.inference.decide import MethodChoice
from cpor.inference.graphs import GraphShare, likeliest_graphs
from cpor.inference.local import reachable
from cpor.model import FittedModel
from cpor.pipeline import Pipeline
from cpor.relations import ObstructionPosterior

N_GRAPHS = 3
"""Likeliest graphs kept of each case, as many as the card of `cpor decide` shows."""


@dataclass(frozen=True)
class Shard:
    """A piece of a run, with everything a worker needs, so that it can travel.

    Attributes:
        first: Number of its first item in the dataset.
        items: Its items.
        asking: How items become questions.
        tau: Act above this score; None: the model's promise, or 0.5.
        method: Of inference.
        model: Fitted stages; None: unfitted.
    """

    first: int
    items: tuple[Item, ...]
    asking: QuestionSettings
    tau: float | None
    method: MethodChoice
    model: FittedModel | None

    @property
    def numbers(self) -> range:
        """Numbers of its items."""
        return range(self.first, self.first + len(self.items))

    def pipeline(self) -> Pipeline:
        """The stages; built where they are used, since they do not travel."""
        plain = Pipeline(tau=0.5 if self.tau is None else self.tau)
        stages = plain if self.model is None else self.model.pipeline(self.tau)
        return replace(stages, method=self.method)


def answer_shard(shard: Shard) -> bytes:
    """The lines of a shard, in order; the same shard gives the same bytes."""
    pipeline = shard.pipeline()
    return b"".join(
        record.to_line()
        for number, item in zip(shard.numbers, shard.items, strict=True)
        for record in answer_item(number, item, pipeline, shard.asking)
    )


def answer_item(
    number: int, item: Item, pipeline: Pipeline, asking: QuestionSettings
) -> Iterator[CaseRecord]:
    """The records of one item; where it cannot be read, one record that says so."""
    hide = f"{item.root}/" if isinstance(item, FolderItem) else ""
    try:
        for question in questions(item, pipeline, asking):
            yield _answer(number, question, pipeline, hide)
    except CporError as error:
        yield CaseRecord(item=number, case=item_name(item), outcome="error", error=record_error(error, hide))


def _answer(number: int, question: CaseQuestion, pipeline: Pipeline, hide: str) -> CaseRecord:
    posterior, truth = question.posterior, question.truth
    asked = CaseRecord(
        item=number,
        case=question.case,
        image=question.image,
        tier=question.tier,
        target=posterior.target,
        objects=posterior.objects,
        relations=record_relations(posterior),
        n_reachable=len(reachable(posterior.p_obstructs, posterior.target_index)),
        truth=truth,
        outcome="error",
    )
    try:
        decision = pipeline.decide(posterior)
        graphs = _graphs(posterior)
    except CporError as error:
        return asked.model_copy(update={"error": record_error(error, hide)})
    return asked.model_copy(
        update={
            "decision": record_decision(decision, graphs, pipeline.success_rate(decision)),
            "best": _best(posterior, decision, truth),
            "outcome": _outcome(decision, truth),
        }
    )


def _graphs(posterior: ObstructionPosterior) -> tuple[GraphShare, ...]:
    """The likeliest graphs; none where answers are missing, or where finding them is too much work."""
    if posterior.has_unanswered:
        return ()
    try:
        return likeliest_graphs(posterior, N_GRAPHS)
    except TooLargeError:
        return ()


def _best(posterior: ObstructionPosterior, decision: Decision, truth: TruthRecord | None) -> BestRecord:
    action = choose(posterior, list(decision.scores.values()), -1.0)
    assert action is not None and not isinstance(action, Defer)  # some score exceeds -1
    return BestRecord(
        object=action.obj,
        score=decision.scores[action.obj],
        right=None if truth is None else action.obj in truth.right,
    )


def _outcome(decision: Decision, truth: TruthRecord | None) -> Outcome:
    if isinstance(decision.action, Defer):
        return "deferred"
    if truth is None:
        return "unjudged"
    return "right" if decision.action.obj in truth.right else "wrong"
