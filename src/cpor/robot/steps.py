"""The steps of a cycle in which nothing moves: take a frame, decide, hear what a person says instead."""

from dataclasses import replace

from cpor.decision import Action, Defer, Grasp
from cpor.errors import CameraError
from cpor.pipeline import Pipeline
from cpor.robot.carry_over import Memory
from cpor.robot.choose import Decider, choose
from cpor.robot.cycle import Cycle, LoopSettings, Stopwatch, list_beliefs, scores_used
from cpor.robot.protocol import Robot
from cpor.scene import Observation


def take_frame(robot: Robot, retries: int, notes: list[str]) -> Observation:
    """A frame; one that was lost is noted and tried again.

    Raises:
        CameraError: The last try brought none either.
    """
    for _ in range(retries):
        try:
            return robot.observe()
        except CameraError as error:
            notes.append(f"a frame was lost: {error}")
    return robot.observe()


def decide_cycle(
    cycle: Cycle, target: int, decider: Pipeline | Decider, memory: Memory, settings: LoopSettings
) -> tuple[Cycle, Memory]:
    """The cycle with its decision, and the memory with what was learnt on the way.

    Args:
        cycle: What was seen.
        target: Whom it is about.
        decider: Who decides.
        memory: What is known after this frame.
        settings: When an object is left alone.
    """
    watch = Stopwatch(cycle.times_s)
    limit = settings.failures_before_exclusion
    excluded = frozenset(k for k, known in memory.known.items() if known.failures >= limit)
    choice = choose(decider, cycle.scene, target, excluded, settings.make_room)
    scene = cycle.scene
    if choice.result is not None:
        scene = replace(scene, semantic_scores=scores_used(scene, choice.result))
    beliefs = list_beliefs(choice.result, memory.carried) if choice.result else ()
    memory = memory.learn(scene.semantic_scores)
    watch.lap("decide")
    decided = replace(
        cycle,
        scene=scene,
        decision=choice.decision,
        action=choice.action,
        p_success=choice.p_success,
        beliefs=beliefs,
        notes=(*cycle.notes, *choice.notes),
        times_s=watch.times_s,
    )
    return decided, memory


def with_answer(cycle: Cycle, action: Action | None) -> Cycle:
    """The cycle with what a person says instead, if anything that can be done."""
    if action is None or isinstance(action, Defer):
        return cycle
    if action.obj not in cycle.scene.ids or isinstance(action, Grasp) != (action.obj == cycle.target):
        return noted(cycle, f"a person said {action}, which cannot be done in this scene")
    return replace(noted(cycle, f"a person said {action}"), action=action, p_success=None)


def noted(cycle: Cycle, *notes: str) -> Cycle:
    """The cycle with further notes."""
    return replace(cycle, notes=(*cycle.notes, *notes))
