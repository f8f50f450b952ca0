"""The ROS 2 action `retrieve`: the loop on a robot, as a goal; cancelled, it leaves the arm at rest."""

from dataclasses import dataclass, replace

from cpor.bridges.ros2_actions import ABORTED, CANCELED, SUCCEEDED, ActionServer, Goal
from cpor.bridges.ros2_messages import Message, new
from cpor.bridges.ros2_transport import Transport
from cpor.bridges.states import state_of
from cpor.errors import CporError
from cpor.records import record_action
from cpor.robot.cycle import Cycle, LoopSettings
from cpor.robot.loop import retrieve
from cpor.robot.protocol import Robot
from cpor.scene import PixelPoint
from cpor.system import System
from cpor.viz.words import namer, say_step
from cpor.words.grounding_answers import Request

_RESULT = "cpor_msgs/action/Retrieve_Result"


@dataclass(frozen=True)
class Attached:
    """A robot beside the node; it looks with its own camera.

    Attributes:
        robot: Sees and acts.
        settings: Settings of the loop.
    """

    robot: Robot
    settings: LoopSettings


def serve_retrieve(transport: Transport, name: str, attached: Attached, system: System) -> ActionServer:
    """Serve the action; one goal at a time.

    Args:
        transport: How it hears and speaks.
        name: Name of the action.
        attached: The robot.
        system: Looks and decides.
    """

    def run(goal: Goal) -> tuple[int, Message]:
        robot, asked = attached.robot, goal.asked

        def tell(cycle: Cycle) -> None:
            goal.tell(_feedback(cycle))

        try:
            point = PixelPoint(asked.x, asked.y) if asked.x >= 0 else None
            request = Request(asked.target or None, point, asked.request or None)
            dry = robot.status().dry_run
            settings = replace(attached.settings, budget=1, max_deferrals=1) if dry else attached.settings
            done = retrieve(
                robot,
                system,
                request,
                settings,
                on_cycle=tell,
                on_decision=tell,
                stop=goal.cancelled,
            )
        except CporError as error:
            return ABORTED, _nothing(str(error))
        result = new(_RESULT, retrieved=done.retrieved, ended=str(done.ended), detail=done.detail)
        result.actions, result.dry_run = done.actions, dry
        if goal.cancelled.is_set():
            return CANCELED, result
        return (SUCCEEDED if done.retrieved or dry else ABORTED), result

    return ActionServer(transport, name, "cpor_msgs/action/Retrieve", run, _nothing)


def _nothing(why: str) -> Message:
    return new(_RESULT, ended="fault", detail=why)


def _feedback(cycle: Cycle) -> Message:
    """What was decided in a cycle; once it is over, what came of it."""
    told = new("cpor_msgs/action/Retrieve_Feedback", cycle=cycle.index + 1, action="ask")
    told.state = state_of(cycle.action)
    if cycle.action is not None:
        action = record_action(cycle.action)
        told.detail = say_step(cycle.action, namer(cycle.scene))
        if action.type != "defer":
            told.action, told.object = action.type, int(action.object or 0)
    if cycle.outcome is not None:
        told.outcome, told.detail = cycle.outcome.kind, cycle.outcome.detail
    return told
