"""What `System.decide` says: an action with everything behind it, in one form for people and programs."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from cpor.decision import Action, Decision, Defer, settle
from cpor.errors import InvalidSettingError, TooLargeError
from cpor.infer.decide import decide
from cpor.infer.graphs import GraphShare, likeliest_graphs
from cpor.infer.policy import MethodChoice
from cpor.infer.robust import LARGEST_FACTOR, allow_cycles, odds_factor, only_robust
from cpor.learn.modes import DEFAULT_MODE, ROBUST_FACTOR, Mode, mode_tau, parse_mode
from cpor.records import Promise, record_decision
from cpor.relations import Label, ObstructionPosterior
from cpor.words.grounding_answers import (
    AmbiguousRequest,
    Candidate,
    Found,
    Grounding,
    NotFound,
    say_objects,
)

if TYPE_CHECKING:  # a file of probabilities is decided on without loading what looks at pictures
    from cpor.gate.check import Check
    from cpor.learn.band import BeliefBand
    from cpor.view import View

N_GRAPHS = 3
"""Likeliest graphs that an answer lists."""


@dataclass(frozen=True)
class DecideSettings:
    """How to decide, beside the threshold.

    Attributes:
        method: Method of inference.
        deadline_ms: Answer within this time; None: as long as it takes. [ms]
        require_certificate: Defer unless proven to be the exact answer.
        prior: Probability to assume where no source has an answer; None: such a pair may be anything.
        questions: Ask the scorer only what matters, and no more than this; None: every pair it asks about.
        ignore_checks: Act although a check of the input failed; nothing is promised then.
        seed: Random seed of the answers drawn to tell which questions matter.
        cycles: Share of their probability that graphs with a cycle keep, in which no action is right. 0: they
            are excluded, as in the paper; see `cpor.infer.robust.allow_cycles`.
    """

    method: MethodChoice = "auto"
    deadline_ms: float | None = None
    require_certificate: bool = False
    prior: float | None = None
    questions: int | None = None
    ignore_checks: bool = False
    seed: int = 0
    cycles: float = 0.0

    def heed(self, checks: "Sequence[Check]", decision: Decision) -> Decision:
        """The decision, or to defer where a check failed."""
        if self.ignore_checks or all(check.state != "fail" for check in checks):
            return decision
        return replace(decision, action=Defer("failed_check"))

    def withhold(
        self,
        decision: Decision,
        posterior: ObstructionPosterior,
        mode: Mode | None,
        band: "BeliefBand | None" = None,
    ) -> Decision:
        """The decision, or to defer where `robust` or a share of cycles asks for more than its score.

        Args:
            decision: What the score alone says.
            posterior: What it was made from.
            mode: The risk setting; None: a threshold was given.
            band: How far beliefs may be off; None: not known.
        """
        if mode == "robust":
            interval = None if band is None else band.interval
            known = posterior.with_prior(self.prior)
            decision = only_robust(known, decision, ROBUST_FACTOR, interval)
        return allow_cycles(decision, self.cycles)


@dataclass(frozen=True)
class OpenQuestion:
    """A question to a person, and what yes means.

    Attributes:
        question: The question.
        blocked, blocker: Yes says that `blocker` obstructs `blocked`; None where no pair is asked about.
        object: Yes says that this object is meant; None where several may be, or a pair is asked about.
    """

    question: str
    blocked: int | None = None
    blocker: int | None = None
    object: int | None = None


@dataclass(frozen=True, eq=False)
class Answer:
    """A decision, or a question where it is not clear which object is meant.

    `System.outlook` gives one without either: what holds for every target of a view.

    Attributes:
        decision: The decision; None where it is not clear which object is meant.
        posterior: What it was decided from; None likewise.
        view: What was seen; None where probabilities were given.
        meant: Which object is meant; None where probabilities were given.
        mode: The risk setting; None where a threshold was given instead.
        tau: The threshold in force: it acts where the score of an action is above. None: nothing was decided.
        promise: The promised error rate; None where none is made, and `notes` say why.
        checks: What was found about the input; only where all pass anything is promised.
        prior: Probability that was assumed where there was no answer; None: none was.
        p_success: How often actions with such a score were right in labelled scenes; None where unknown.
        notes: What a person should know, in sentences.
        times_ms: Time of each stage. [ms]
        on_reply: Decides anew after a reply to an answer; None where nothing can be replied.
    """

    decision: Decision | None
    posterior: ObstructionPosterior | None
    view: "View | None"
    meant: Grounding | None
    mode: Mode | None
    tau: float | None
    promise: Promise | None = None
    checks: "tuple[Check, ...]" = ()
    p_success: float | None = None
    prior: float | None = None
    notes: tuple[str, ...] = ()
    times_ms: Mapping[str, float] = field(default_factory=dict)
    on_reply: "Callable[[str, Answer], Answer] | None" = None

    @property
    def action(self) -> Action | None:
        """What to do; None: answer `question` first."""
        return None if self.decision is None else self.decision.action

    @property
    def scores(self) -> Mapping[Label, float]:
        """Probability of each action to be right, by object."""
        return {} if self.decision is None else self.decision.scores

    @property
    def target(self) -> Label | None:
        """The object asked for; None where that is not clear."""
        return None if self.posterior is None else self.posterior.target

    @property
    def question(self) -> str | None:
        """What to ask back, where it is not clear which object is meant."""
        if isinstance(self.meant, AmbiguousRequest):
            return self.meant.question
        return f"{self.meant.reason} Which object do you mean?" if isinstance(self.meant, NotFound) else None

    @cached_property
    def asks(self) -> "OpenQuestion | None":
        """What to ask a person next: which object is meant, or the pair that would help a deferral most."""
        if self.question is not None:
            only = self.candidates[0].id if len(self.candidates) == 1 else None
            return OpenQuestion(self.question, object=only)
        if self.posterior is None or not isinstance(self.action, Defer) or self.view is None:
            return None
        from cpor.infer.explain import explain

        ask = explain(self.posterior, self.decision, k=0, prior=self.prior, flips=False).ask_next
        pair = self._first_unanswered() if ask is None else (ask.blocked, ask.blocker)
        if pair is None or not all(isinstance(each, int) for each in pair):
            return None
        called = {o.id: o.title or "" for o in self.view.scene.objects}
        blocked, blocker = (int(each) for each in pair)  # type: ignore[call-overload]
        above, below = (say_objects([each], called) for each in (blocker, blocked))
        return OpenQuestion(f"Does {above} obstruct {below}?", blocked, blocker)

    def _first_unanswered(self) -> tuple[Label, Label] | None:
        """The pair without an answer to ask about first: one of the target, else any; None: all have one."""
        from cpor.pipeline import UNSEEN

        assert self.posterior is not None
        missing = [r for r in self.posterior.relations() if r.p is None and r.blocker != UNSEEN]
        missing.sort(key=lambda r: r.blocked != self.target)
        return (missing[0].blocked, missing[0].blocker) if missing else None

    def tell(self, reply: str) -> "Answer":
        """The answer after a reply to what it asks, or after a correction.

        Args:
            reply: `yes` or `no`; `1 on 7` or `not 1 on 7` for a pair; `3`, `not 3` or other words for the
                object that is meant.

        Raises:
            InvalidSettingError: The reply is no answer to the question, and no correction.
        """
        if self.on_reply is None:
            raise InvalidSettingError("nothing was seen that a reply could be about; decide on a picture")
        return self.on_reply(reply, self)

    @property
    def names(self) -> dict[Label, str]:
        """What the objects are called, by id; empty where probabilities were given."""
        objects = () if self.view is None else self.view.objects
        return {each["id"]: name for each in objects if (name := each["name"])}

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """The objects that may be meant, the likeliest first."""
        return self.meant.candidates if isinstance(self.meant, AmbiguousRequest) else ()

    def top_graphs(self, k: int = N_GRAPHS) -> tuple[GraphShare, ...]:
        """The likeliest graphs; none where answers are missing, or finding them is too much work."""
        if self.posterior is None:
            return ()
        known = self.posterior.with_prior(self.prior)
        if known.has_unanswered:
            return ()
        try:
            return likeliest_graphs(known, k)
        except TooLargeError:
            return ()

    @property
    def odds_factor(self) -> float | None:
        """The factor by which the odds of every relation may be off at once; None where it defers."""
        if self.decision is None or self.posterior is None:
            return None
        known = self.decision.odds_factor
        return odds_factor(self.posterior.with_prior(self.prior), self.decision) if known is None else known

    def _reading(self, objects: Mapping[int, dict[str, Any]]) -> dict[str, Any] | None:
        """How well the words fit the object they were read as, and the one that they fit next best."""
        ranked = self.meant.ranked if isinstance(self.meant, Found) else ()
        if not ranked:
            return None
        runner_up = {**objects[ranked[1].id], "fit": ranked[1].fit} if len(ranked) > 1 else None
        return {"fit": ranked[0].fit, "runner_up": runner_up}

    def to_json(self, graphs: int | tuple[GraphShare, ...] = N_GRAPHS) -> dict[str, Any]:
        """The one JSON form of an answer, see `cpor.records.AnswerRecord`.

        Args:
            graphs: How many of the likeliest graphs to list; or these, where they were found already.
        """
        said: dict[str, Any] = {"action": None, "target": self.target, "question": self.question}
        if self.decision is not None and self.posterior is not None:
            listed = self.top_graphs(graphs) if isinstance(graphs, int) else graphs
            said |= record_decision(self.decision, listed).model_dump(mode="json")
            radius = self.decision.radius
            said["radius"] = None if radius is None else min(radius, math.log(LARGEST_FACTOR))
            said["odds_factor"] = self.odds_factor
            said["relations"] = [each._asdict() for each in self.posterior.relations()]
        scorer = None
        objects: list[Any] = list(self.posterior.objects) if self.posterior is not None else []
        if self.view is not None:
            objects = list(self.view.objects)
            scorer = self.view.semantic.scorer if self.view.semantic is not None else None
        times_ms = {**(self.view.times_ms if self.view is not None else {}), **self.times_ms}
        by_id = {each["id"]: each for each in objects} if self.view is not None else {}
        return said | {
            "candidates": [{**by_id[each.id], "fit": each.fit} for each in self.candidates],
            "reading": self._reading(by_id),
            "mode": self.mode,
            "tau": self.tau,
            "promise": None if self.promise is None else asdict(self.promise),
            "checks": [each.to_json() for each in self.checks],
            "p_success": self.p_success,
            "notes": list(self.notes),
            "objects": objects,
            "masks": None if self.view is None else self.view.masks,
            "scorer": scorer,
            "times_ms": {stage: round(value, 3) for stage, value in times_ms.items()},
        }


def decide_given(
    posterior: ObstructionPosterior,
    *,
    mode: Mode | str = DEFAULT_MODE,
    tau: float | None = None,
    settings: DecideSettings | None = None,
) -> Answer:
    """Decide from relation probabilities that the caller gives; nothing is promised of them.

    Args:
        posterior: Objects, target and probabilities.
        mode: The risk setting.
        tau: Act above this score instead.
        settings: How to decide.
    """
    settings = settings or DecideSettings()
    chosen = None if tau is not None else parse_mode(mode)
    level = mode_tau(chosen) if chosen is not None else tau
    assert level is not None
    start = time.perf_counter()
    decision = settle(
        decide(
            posterior,
            level,
            settings.method,
            deadline_ms=settings.deadline_ms,
            require_certificate=settings.require_certificate,
            prior=settings.prior,
        )
    )
    decision = settings.withhold(decision, posterior, chosen)
    times_ms = {"decide": 1e3 * (time.perf_counter() - start)}
    return Answer(decision, posterior, None, None, chosen, level, prior=settings.prior, times_ms=times_ms)
