"""What was seen in one frame, and what is believed of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from cpor.words.grounding_answers import Exchange

if TYPE_CHECKING:  # a file of probabilities is decided on without loading what looks at pictures
    from cpor.gate.check import Check
    from cpor.pipeline import PairBeliefs
    from cpor.scene import BlockedBy, Scene, SemanticScores, Sources
    from cpor.tracking.memory import Memory


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
    def objects(self) -> tuple[dict[str, Any], ...]:
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
