"""What the truth says of an action: eq. free on true relations, and what counts as wrong."""

from collections.abc import Set

from cpor.decision import Action, Defer, Grasp
from cpor.scene import BlockedBy


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
