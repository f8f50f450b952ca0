"""What the truth says of an action: eq. free on true relations, and what counts as wrong."""

from collections.abc import Set
from typing import Literal, TypeAlias, get_args

from cpor.decision import Action, Defer, Grasp
from cpor.errors import InvalidSceneError, one_of
from cpor.scene import BlockedBy, Scene, TrueRelations

TruthKind: TypeAlias = Literal["occlusion", "sweep", "any"]
"""Which ground truth counts: what hides an object, what stands in the way of lifting it out, or either."""

_FILES = {"occlusion": "relations.json", "sweep": "relations_sweep.json"}


def parse_truth(name: str) -> TruthKind:
    """The kind of truth a person named.

    Raises:
        InvalidSettingError: There is no such kind.
    """
    kinds: tuple[TruthKind, ...] = get_args(TruthKind)
    return one_of("truth", name, kinds)


def truth_of(scene: Scene, kind: TruthKind = "occlusion") -> TrueRelations:
    """The true relations of a scene; with `any` those of occlusion and sweep together.

    Raises:
        InvalidSceneError: The scene lacks that truth.
    """
    known = {"occlusion": scene.true_occlusion, "sweep": scene.true_sweep}
    wanted = list(known) if kind == "any" else [kind]
    truths = []
    for name in wanted:
        truth = known[name]
        if truth is None:
            raise InvalidSceneError(f"{_FILES[name]} is missing; the true relations must be known")
        truths.append(truth)
    objects = frozenset.intersection(*(truth.objects for truth in truths))
    pairs = frozenset(pair for truth in truths for pair in truth.pairs if objects.issuperset(pair))
    return TrueRelations(objects, pairs)


def chain_of(target: int, truth: Set[BlockedBy]) -> frozenset[int]:
    """The target and every object that has to go before it."""
    reached, todo = {target}, [target]
    while todo:
        here = todo.pop()
        more = {blocker for blocked, blocker in truth if blocked == here} - reached
        reached |= more
        todo.extend(more)
    return frozenset(reached)


def on_chain(target: int, truth: Set[BlockedBy]) -> frozenset[BlockedBy]:
    """The true relations that lie on the target's removal paths."""
    chain = chain_of(target, truth)
    return frozenset(pair for pair in truth if pair.blocked in chain)


def right_actions(target: int, truth: Set[BlockedBy]) -> frozenset[int]:
    """The target alone where nothing obstructs it, else the objects that are removable next (eq. free)."""
    obstructed = {blocked for blocked, _ in truth}
    return chain_of(target, truth) - obstructed


def is_wrong(action: Action, target: int, truth: Set[BlockedBy]) -> bool:
    """Whether an action is wrong: grasping an obstructed target, removing what is not removable next."""
    if isinstance(action, Defer):
        return False
    if isinstance(action, Grasp) and action.obj != target:
        return True
    return action.obj not in right_actions(target, truth)
