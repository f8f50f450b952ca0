"""What `System.decide` says: an action with everything behind it, in one form for people and programs."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from cpor.decision import Action, Decision, Defer, settle
from cpor.errors import TooLargeError
from cpor.infer.decide import decide
from cpor.infer.graphs import GraphShare, likeliest_graphs
from cpor.infer.policy import MethodChoice
from cpor.infer.robust import LARGEST_FACTOR, allow_cycles, odds_factor, only_robust
from cpor.learn.modes import DEFAULT_MODE, ROBUST_FACTOR, Mode, mode_tau, parse_mode
from cpor.records import Promise, record_decision, record_relations
from cpor.relations import Label, ObstructionPosterior
from cpor.words.grounding_answers import (
    AmbiguousRequest,
    Candidate,
    Exchange,
    Found,
    Grounding,
    NotFound,
)

if TYPE_CHECKING:  # a file of probabilities is decided on without loading what looks at pictures
    from cpor.gate.check import Check
    from cpor.learn.band import BeliefBand
    from cpor.perception.segmenter import ListedObject
    from cpor.pipeline import PairBeliefs
    from cpor.scene import BlockedBy, Scene, SemanticScores, Sources
    from cpor.tracking.memory import Memory

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


@dataclass(eq=False)
class View:
    """What was seen in one frame and is believed of it: deciding for another target costs milliseconds.

    Attributes:
        seen: The frame and its objects, as found; a decision needs no more. `scene` names them.
        masks: Source of the masks: `given`, or the segmenter's name.
        sources: Digests of frame, masks and scores, and what made them.
        checks: What was found about the input.
        notes: What to know of the masks, in sentences.
        times_ms: Time of each stage. [ms]
        beliefs: What each stage says of every pair; None until `System.believe` or a decision fills it, with
            the four attributes below.
        semantic: The semantic scores; None: geometry alone.
        asked_all: Whether every pair that the scorer asks about was asked, as the test of a promise supposes.
        kept: Pairs whose semantic score is from an earlier look; they were not asked about again.
        asking: What asking took, in a sentence; empty where there is nothing to say.
        relations: What a person said of pairs, by `(blocked, blocker)`; decided from in place of beliefs.
        memory: What is known of the objects after this look, where looks are followed; None: they are not.
        exchange: What was said of it last, for words that point to it ("it", "the second one"); filled by
            every decision.
        proved: What made masks and scores, once those that were read have been made again; None: not tried.
        told: What a model said that objects are, by id; None: no model was asked.
    """

    seen: "Scene"
    masks: str
    sources: "Sources"
    checks: "tuple[Check, ...]"
    notes: tuple[str, ...] = ()
    times_ms: Mapping[str, float] = field(default_factory=dict)
    beliefs: "PairBeliefs | None" = None
    semantic: "SemanticScores | None" = None
    asked_all: bool = True
    kept: "frozenset[BlockedBy]" = frozenset()
    asking: str = ""
    relations: Mapping[tuple[int, int], float | None] = field(default_factory=dict)
    memory: "Memory | None" = None
    exchange: Exchange = field(default_factory=Exchange)
    proved: "Sources | None" = None
    told: Mapping[int, str] | None = None

    @cached_property
    def scene(self) -> "Scene":
        """The frame and its objects, each with the name that every surface shows; named when first asked."""
        from cpor.pipeline import Stopwatch
        from cpor.words.names import name_objects

        watch = Stopwatch(self.times_ms)
        kept = None if self.memory is None else self.memory.names
        named = name_objects(self.seen, kept, told=self.told)
        if self.memory is not None:
            called = {o.id: o.called for o in named.objects if o.called}
            self.memory = replace(self.memory, names={**self.memory.names, **called})
        watch.lap("name")
        self.times_ms = watch.times
        return named

    @cached_property
    def setup(self) -> Mapping[str, float]:
        """Figures of the camera's set-up (`cpor.gate.setup`); told once."""
        from cpor.gate.setup import setup_figures

        return setup_figures(self.seen)

    @cached_property
    def objects(self) -> "tuple[ListedObject, ...]":
        """The objects as other programs want them; looked up once."""
        from cpor.perception.segmenter import list_objects

        return tuple(list_objects(self.scene))

    def is_as_tested(self, relations: Mapping[tuple[int, int], float | None]) -> bool:
        """Whether every pair was asked in this look alone and none was set, as in the test of a promise."""
        assert self.beliefs is not None
        return self.asked_all and self.beliefs.p_look is None and not relations

    def notes_on_beliefs(self) -> tuple[str, ...]:
        """What to know of the beliefs: what asking took, and which evidence is missing; some are empty."""
        no_depth, no_scores = self.seen.observation.depth is None, self.semantic is None
        return (
            self.asking,
            "No depth: pairs that touch have no geometric answer." if no_depth else "",
            "No semantic scores: geometry decides alone." if no_scores else "",
        )


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
    """

    decision: Decision | None
    posterior: ObstructionPosterior | None
    view: View | None
    meant: Grounding | None
    mode: Mode | None
    tau: float | None
    promise: Promise | None = None
    checks: "tuple[Check, ...]" = ()
    p_success: float | None = None
    prior: float | None = None
    notes: tuple[str, ...] = ()
    times_ms: Mapping[str, float] = field(default_factory=dict)

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

    def _reading(self, objects: "Mapping[int, ListedObject]") -> dict[str, Any] | None:
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
            said["relations"] = [each.model_dump(mode="json") for each in record_relations(self.posterior)]
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
