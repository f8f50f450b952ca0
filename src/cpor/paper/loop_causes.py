"""Why an action of the closed loop was wrong: each wrong action has one cause, by fixed rules.

The rules look at the moment of the decision: what the masks showed, what was believed of each pair, and what
was so. The first one that applies counts. Where several blockers were overlooked, the one that was nearest to
being known does: a relation that was judged and missed comes before a pair that was never asked about, and
that before a mask that was not there.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias, get_args

from pydantic import BaseModel, ConfigDict

from cpor.decision import Defer, Grasp, Remove
from cpor.pipeline import UNSEEN
from cpor.records import PairBelief
from cpor.robot.cycle import Cycle
from cpor.scene import BlockedBy
from cpor.sim.dataset.recognition import Recognition
from cpor.truth import is_wrong, right_actions

if TYPE_CHECKING:  # needs MuJoCo, and records are read without it
    from cpor.sim.staged_run import Moment

Why: TypeAlias = Literal[
    "no_right_action",
    "tried_in_vain",
    "moved",
    "target_mistaken",
    "mask_invented",
    "mask_split",
    "tie",
    "stale",
    "overruled",
    "relation_missed",
    "pair_never_asked",
    "mask_merged",
    "mask_missed",
    "hidden",
    "relation_invented",
    "other",
]
"""`no_right_action`: the true chain is a cycle, so every action is wrong.
`tried_in_vain`: what was decided on had failed before, and the next best was taken instead.
`moved`: something moved between look and action.
`target_mistaken`: another object was taken for the target.
`mask_invented`: it acted on a mask where nothing is.
`mask_split`: a piece of an object was thought to be in the way of the rest.
`tie`: a right action scored nearly as high.
`stale`: the decisive belief was carried over from an earlier look.
`overruled`: the blocker was believed in, and other beliefs outweighed it.
`relation_missed`: the blocker was seen and judged unlikely to obstruct.
`pair_never_asked`: it was seen, and no source gave a probability.
`mask_merged`: it is part of another object's mask.
`mask_missed`: it shows and has no mask.
`hidden`: it does not show.
`relation_invented`: the object acted on lies free and obstructs nothing that matters.
`other`: none of these."""

WHYS: tuple[Why, ...] = get_args(Why)

NEAR_TIE = 0.1
"""A right action that scored this much less at most was as good as tied."""

_BELIEVED = 0.5

_NEAREST_FIRST = WHYS[WHYS.index("stale") : WHYS.index("hidden") + 1]
"""Why a blocker was not believed in, the cause nearest to the decision first."""


class Step(BaseModel):
    """One decision of a run, and what the truth says of it.

    Attributes:
        cycle: Index of its cycle.
        did: What was done.
        reason: Why it deferred; None where it did not.
        score: Score of the action; where it deferred, of the likeliest action that could be taken.
        wrong: Whether that action is wrong, also where it was not taken.
        why: The cause where it is wrong.
        by_person: Whether a person said what to do.
        own_wrong: Whether the likeliest action by the robot's own scores is wrong.
    """

    model_config = ConfigDict(frozen=True)

    cycle: int
    did: Literal["grasp", "remove", "defer"]
    reason: str | None = None
    score: float
    wrong: bool
    why: Why | None = None
    by_person: bool = False
    own_wrong: bool = False


def list_steps(
    cycles: Sequence[Cycle], moments: "Mapping[int, Moment]", told: frozenset[int] = frozenset()
) -> tuple[Step, ...]:
    """Every decision of a run.

    Args:
        cycles: The run.
        moments: The truth at each decision, by the index of its cycle.
        told: Cycles in which a person said what to do.
    """
    return tuple(
        _step(cycle, moments[cycle.index], cycle.index in told)
        for cycle in cycles
        if cycle.decision is not None and cycle.target is not None and cycle.index in moments
    )


def _step(cycle: Cycle, moment: "Moment", by_person: bool) -> Step:
    assert cycle.decision is not None and cycle.target is not None and cycle.action is not None
    own = _likeliest(cycle.decision.scores, cycle.target)
    action: Grasp | Remove = own if isinstance(cycle.action, Defer) else cycle.action
    wrong = _is_wrong(action, moment)
    sent: Literal["grasp", "remove"] = "grasp" if isinstance(action, Grasp) else "remove"
    return Step(
        cycle=cycle.index,
        did="defer" if isinstance(cycle.action, Defer) else sent,
        reason=cycle.action.reason if isinstance(cycle.action, Defer) else None,
        score=float(cycle.decision.scores.get(action.obj, 0.0)),
        wrong=wrong,
        why=why_wrong(cycle, action, moment) if wrong else None,
        by_person=by_person,
        own_wrong=_is_wrong(own, moment),
    )


def _is_wrong(action: Grasp | Remove, moment: "Moment") -> bool:
    owner = moment.recognition.owner.get(_id(action))
    if owner is None or moment.target is None:
        return True
    return is_wrong(type(action)(owner), moment.target, moment.truth)


def _likeliest(scores: Mapping[Hashable, float], target: int) -> Grasp | Remove:
    obj = max((k for k in scores if k != UNSEEN), key=lambda k: (scores[k], k == target), default=target)
    return Grasp(obj) if obj == target else Remove(obj)


def _id(action: Grasp | Remove) -> int:
    assert isinstance(action.obj, int)
    return action.obj


def why_wrong(cycle: Cycle, action: Grasp | Remove, moment: "Moment") -> Why:
    """The cause of a wrong action.

    Args:
        cycle: What was seen and believed.
        action: By the ids of the cycle's scene.
        moment: What was so.
    """
    known, obj = moment.recognition, _id(action)
    thing = known.owner.get(obj)
    if moment.moved:
        return "moved"
    if moment.target is None or (cycle.target is not None and known.owner.get(cycle.target) != moment.target):
        return "target_mistaken"
    right = right_actions(moment.target, moment.truth)
    if not right:
        return "no_right_action"
    if _did_otherwise(cycle, action):
        return "tried_in_vain"
    if thing is None:
        return "mask_invented"
    if thing == moment.target and isinstance(action, Remove):
        return "mask_split"
    scores = cycle.decision.scores if cycle.decision is not None else {}
    best = max((scores.get(piece, 0.0) for k in right for piece in known.pieces(k)), default=0.0)
    if best > 0.0 and scores.get(obj, 0.0) - best <= NEAR_TIE:
        return "tie"
    return _why_believed(cycle, obj, moment)


def _why_believed(cycle: Cycle, obj: int, moment: "Moment") -> Why:
    """Why an object was thought to be the right one, from what was believed of the pairs."""
    thing, known = moment.recognition.owner[obj], moment.recognition
    beliefs = {BlockedBy(each.blocked, each.blocker): each for each in cycle.beliefs}
    blockers = [pair.blocker for pair in moment.truth if pair.blocked == thing]
    if blockers:
        causes = {_why_overlooked(obj, blocker, known, beliefs) for blocker in blockers}
        return min(causes, key=_NEAREST_FIRST.index)
    assert cycle.target is not None
    return _why_invented(cycle.target, obj, moment, beliefs)


def _did_otherwise(cycle: Cycle, action: Grasp | Remove) -> bool:
    """Whether another action than the one decided on was taken."""
    decided = None if cycle.decision is None else cycle.decision.action
    return isinstance(decided, Grasp | Remove) and decided != action


def _why_overlooked(
    obj: int, blocker: int, known: Recognition, beliefs: Mapping[BlockedBy, PairBelief]
) -> Why:
    """Why a true blocker of the object acted on did not count."""
    if blocker in known.unseen:
        if blocker not in known.held_by:
            return "hidden"
        return "mask_merged" if known.held_by[blocker] else "mask_missed"
    pieces = [k for k in known.pieces(blocker) if k != obj]
    told = [beliefs[pair] for k in pieces if (pair := BlockedBy(obj, k)) in beliefs]
    answered = [each for each in told if each.p is not None]
    if not answered:
        return "pair_never_asked"
    likeliest = max(answered, key=lambda each: each.p or 0.0)
    if (likeliest.p or 0.0) > _BELIEVED:
        return "overruled"
    return "stale" if likeliest.carried else "relation_missed"


def _why_invented(target: int, obj: int, moment: "Moment", beliefs: Mapping[BlockedBy, PairBelief]) -> Why:
    """Why an object that lies free was thought to obstruct the target, by the likeliest path to it."""
    known = moment.recognition
    held: dict[int, list[int]] = {}
    for thing, holder in known.held_by.items():
        held.setdefault(holder, []).append(thing)

    def things(k: int) -> list[int]:
        owner = known.owner.get(k)
        return ([owner] if owner is not None else []) + (held.get(k, []) if k else [])

    for pair in _likeliest_path(target, obj, beliefs):
        blocked, blocker = known.owner.get(pair.blocked), known.owner.get(pair.blocker)
        if blocked is None or blocker is None:
            return "mask_invented"
        if blocked == blocker:
            return "mask_split"
        if BlockedBy(blocked, blocker) in moment.truth:
            continue
        if any(BlockedBy(i, j) in moment.truth for i in things(pair.blocked) for j in things(pair.blocker)):
            return "mask_merged"
        return "stale" if beliefs[pair].carried else "relation_invented"
    return "other"


def _likeliest_path(target: int, obj: int, beliefs: Mapping[BlockedBy, PairBelief]) -> list[BlockedBy]:
    """The path of beliefs from the target to an object with the largest product; empty where none leads."""
    p_to, came, todo = {target: 1.0}, dict[int, BlockedBy](), {target}
    while todo:  # Dijkstra: the likeliest first
        here = max(todo, key=lambda k: p_to[k])
        todo.discard(here)
        for pair, belief in beliefs.items():
            p = p_to[here] * (belief.p or 0.0)
            if pair.blocked == here and p > p_to.get(pair.blocker, 0.0):
                p_to[pair.blocker], came[pair.blocker] = p, pair
                todo.add(pair.blocker)
    path: list[BlockedBy] = []
    while obj in came:
        path.append(came[obj])
        obj = came[obj].blocked
    return path[::-1]


class JudgedTarget(Protocol):
    """A record of a run with its decisions."""

    @property
    def success(self) -> bool:
        """Whether the target came out and every action was right."""
        ...

    @property
    def steps(self) -> tuple[Step, ...]:
        """Every decision."""
        ...


def count_causes(records: Iterable[JudgedTarget]) -> Counter[Why]:
    """How many wrong actions were taken for each cause; what a person said is not counted."""
    return Counter(
        step.why
        for record in records
        for step in record.steps
        if step.why is not None and step.did != "defer" and not step.by_person
    )


class EpisodeRisk(NamedTuple):
    """Whole runs at a threshold: those that go through without asking, and those of them that fail."""

    n_through: int
    n_failed: int
    n: int


def episode_risk(records: Sequence[JudgedTarget], tau: float) -> EpisodeRisk:
    """What a threshold would leave of runs that were made with a lower one.

    A run goes through without asking where it never deferred and each of its actions scored above the
    threshold: it would then have gone the same way.
    """
    through = [
        record
        for record in records
        if record.steps and all(step.did != "defer" and step.score > tau for step in record.steps)
    ]
    return EpisodeRisk(len(through), sum(not record.success for record in through), len(records))
