"""A ROS 2 node that looks at camera topics and says what may be grasped; over any `Transport`.

It decides on the newest whole frame only. A publisher that is lost, a frame that cannot be read and a
decision that comes too late are `no_answer`; nothing is ever answered from an old picture.
"""

import logging
import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from cpor.answer import Answer
from cpor.bridges import ros2_answers
from cpor.bridges.ros2_actions import ABORTED, CANCELED, SUCCEEDED, ActionServer, Goal
from cpor.bridges.ros2_camera import Frame, FrameTopics
from cpor.bridges.ros2_messages import RosMessage, new
from cpor.bridges.ros2_parameters import NodeSettings, serve_parameters
from cpor.bridges.ros2_transport import OnReply, Transport
from cpor.bridges.states import state_of
from cpor.errors import CporError, InvalidSettingError
from cpor.records import record_action
from cpor.robot.cycle import Cycle, LoopSettings
from cpor.robot.loop import retrieve
from cpor.robot.protocol import Robot
from cpor.scene import PixelPoint
from cpor.system import System
from cpor.viz.words import namer, say_step
from cpor.words.grounding_answers import Request

_RESULT = "cpor_msgs/action/Retrieve_Result"


def serve_retrieve(
    transport: Transport, name: str, robot: Robot, loop: LoopSettings, system: System
) -> ActionServer:
    """Serve the action, one goal at a time; the robot looks with its own camera."""

    def run(goal: Goal) -> tuple[int, RosMessage]:
        asked = goal.asked

        def tell(cycle: Cycle) -> None:
            goal.tell(_feedback(cycle))

        try:
            point = PixelPoint(asked.x, asked.y) if asked.x >= 0 else None
            request = Request(asked.target or None, point, asked.request or None)
            dry = robot.status().dry_run
            settings = replace(loop, budget=1, max_deferrals=1) if dry else loop
            stop = goal.cancelled
            done = retrieve(robot, system, request, settings, on_cycle=tell, on_decision=tell, stop=stop)
        except CporError as error:
            return ABORTED, _not_retrieved(str(error))
        result = new(_RESULT, retrieved=done.retrieved, ended=str(done.ended), detail=done.detail)
        result.actions, result.dry_run = done.actions, dry
        if goal.cancelled.is_set():
            return CANCELED, result
        return (SUCCEEDED if done.retrieved or dry else ABORTED), result

    return ActionServer(transport, name, "cpor_msgs/action/Retrieve", run, _not_retrieved)


def _not_retrieved(why: str) -> RosMessage:
    return new(_RESULT, ended="fault", detail=why)


def _feedback(cycle: Cycle) -> RosMessage:
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


PICTURE_S, HEALTH_S = 0.5, 1.0
"""The annotated picture is sent at most so often, diagnostics at least. [s]"""

WAIT_S = 10.0
"""A goal waits so long for a picture. [s]"""

MOST_GOALS = 8
"""Goals of the action `decide` at a time."""

OK, WARN, ERROR, STALE = range(4)
"""Levels of a diagnostic status."""

_log = logging.getLogger(__name__)


@dataclass
class NodeCounts:
    """What happened so far; `passed`: frames that were not looked at since a newer one came."""

    frames: int = 0
    passed: int = 0
    decided: int = 0
    no_answer: int = 0
    garbled: int = 0
    lost: int = 0


class DecideNode:
    """The node; `close` ends it. With a robot and settings of its loop it offers the action `retrieve`."""

    def __init__(
        self,
        transport: Transport,
        settings: NodeSettings,
        system: System | None = None,
        attached: tuple[Robot, LoopSettings] | None = None,
    ) -> None:
        self.settings, self._counts = settings, NodeCounts()
        self._transport, self._system = transport, system or System()
        self._change = threading.Condition()
        self._deciding = threading.Lock()
        self._calls = ThreadPoolExecutor(1, "cpor-call")
        self._ended = False
        self._health_s, self._picture_s, self._level = -math.inf, -math.inf, -1
        s, say = settings, transport.publish
        self._seen = (
            (say(f"{s.prefix}/labels", "sensor_msgs/Image"), ros2_answers.say_labels),
            (say(f"{s.prefix}/label_info", "vision_msgs/LabelInfo"), ros2_answers.say_names),
            (say(f"{s.prefix}/detections", "vision_msgs/Detection2DArray"), ros2_answers.say_boxes),
        )
        self._say_picture = say(f"{s.prefix}/annotated/compressed", "sensor_msgs/CompressedImage")
        self._say_decision = say(f"{s.prefix}/decision", "cpor_msgs/Decision")
        self._say_health = say("/diagnostics", "diagnostic_msgs/DiagnosticArray")
        self._subscribe()
        transport.serve(f"{s.prefix}/decide", "cpor_msgs/srv/Decide", self._hear_call)
        serve_parameters(transport, s.prefix, lambda: self.settings, self._set)
        name, kind = f"{s.prefix}/decide", "cpor_msgs/action/Decide"
        self._actions = [ActionServer(transport, name, kind, self._run_goal, _nothing, MOST_GOALS)]
        if attached is not None:
            self._actions.append(serve_retrieve(transport, f"{s.prefix}/retrieve", *attached, self._system))
        self._thread = threading.Thread(target=self._work, name="cpor-ros2", daemon=True)
        self._thread.start()

    @property
    def counts(self) -> NodeCounts:
        """What happened so far, on the topics of now."""
        return replace(self._counts, frames=self._frames.whole, passed=self._frames.passed)

    @property
    def alive(self) -> bool:
        """Whether it looks at frames; False where it was closed, or an error ended it."""
        return self._thread.is_alive()

    def close(self) -> None:
        """End, and close the transport."""
        with self._change:
            self._ended = True
        self._frames.end()
        for action in self._actions:
            action.close()
        self._thread.join()
        self._calls.shutdown()
        self._transport.close()

    def _subscribe(self) -> None:
        """Hear the topics of the settings, and forget what came of others."""
        with self._change:
            self._newest: Frame | None = None  # the last one that was looked at
            self._problem = "no picture has come yet"
            self._frames = FrameTopics(self._transport, self.settings.topics, self._garbled)

    def _set(self, settings: NodeSettings) -> None:
        before, self.settings = self.settings, settings
        if self.settings.topics != before.topics:
            self._frames.unsubscribe()
            self._subscribe()

    def _garbled(self, why: str) -> None:
        with self._change:
            self._counts.garbled += 1
            self._problem = f"a message cannot be read: {why}"
        _log.warning(self._problem)

    def _work(self) -> None:
        """Look at the newest frame, again and again; where none comes, say so."""
        told_at = time.monotonic()
        while True:
            frames = self._frames
            frame = frames.take()
            if self._ended:
                return
            newest, now = self._newest, time.monotonic()
            if frame is not None:
                self._look(frame, frames)
            elif newest is None or now - newest.sent_s > self.settings.max_age_s:
                if now - told_at < self.settings.max_age_s:
                    continue
                self._counts.lost += 1
                self._tell(None, None, f"no whole frame for {self.settings.max_age_s:g} s; {self._problem}")
            else:
                continue
            told_at = time.monotonic()
            self._tell_health()

    def _look(self, frame: Frame, of: FrameTopics) -> None:
        """Look and decide; the decision is sent first, what others want to see after it."""
        s, before = self.settings, self._newest
        try:
            with self._deciding:
                previous = before.seen if before is not None else None
                frame.seen = view = self._system.look(of.read(frame), previous=previous)
        except CporError as error:
            with self._change:
                self._counts.garbled += 1
                self._problem = str(error)
            self._tell(None, frame, str(error))
            return
        with self._change:
            if of is not self._frames:
                return  # a picture of a former camera
            self._newest = frame
            self._change.notify_all()
        answer = None
        if s.decides:
            answer, why = self._decide(frame, s.asked, s.mode)
            self._tell(answer, frame, why)
            if answer is not None and answer.view is not None:
                frame.seen = view = answer.view
        header = frame.color.header
        for say, make in self._seen:
            if say.wanted():
                say(make(view, header))
        if time.monotonic() - self._picture_s >= PICTURE_S and self._say_picture.wanted():
            self._picture_s = time.monotonic()
            self._say_picture(ros2_answers.say_picture(view, header, answer))

    def _decide(
        self, frame: Frame, request: Request, mode: str | None, answers: Sequence[str] = ()
    ) -> tuple[Answer | None, str]:
        """The answer after what a person replied, or None and why there is none."""
        assert frame.seen is not None
        try:
            with self._deciding:
                answer = self._system.decide(frame.seen, request, mode=mode, replies=answers)
        except CporError as error:
            return None, str(error)
        return answer, ""

    def _said(self, answer: Answer | None, frame: Frame | None, why: str, asks: bool = False) -> RosMessage:
        """The message of an answer; `no_answer` where the picture is too old by now."""
        header = None if frame is None else frame.color.header
        said = ros2_answers.say_decision(answer, header, why)
        if asks and answer is not None and answer.asks is not None:
            said.question = answer.asks.question
        late = 0.0 if frame is None else time.monotonic() - frame.sent_s
        if said.state != "no_answer" and late > self.settings.max_age_s:
            old = f"the picture is {late:.1f} s old; that is too old to act on"
            return ros2_answers.say_decision(None, header, old)
        return said

    def _hear_call(self, call: RosMessage, reply: OnReply) -> None:
        """Answered in a thread of its own: frames come in meanwhile."""
        self._calls.submit(lambda: reply(self._answer_call(call)))

    def _answer_call(self, call: RosMessage) -> RosMessage:
        frame = self._newest
        age = math.inf if frame is None else time.monotonic() - frame.sent_s
        answer, why = None, f"there is no picture newer than {self.settings.max_age_s:g} s"
        if frame is not None and age <= self.settings.max_age_s:
            answer, why = self._decide_asked(frame, call)
        return new("cpor_msgs/srv/Decide_Response", decision=self._said(answer, frame, why, asks=True))

    def _decide_asked(self, frame: Frame, asked: RosMessage) -> tuple[Answer | None, str]:
        place = PixelPoint(asked.x, asked.y) if asked.x >= 0 else None
        try:
            request = Request(asked.target or None, place, asked.request or None).required()
        except InvalidSettingError as error:
            return None, str(error)
        return self._decide(frame, request, asked.mode or self.settings.mode, asked.answers)

    def _run_goal(self, goal: Goal) -> tuple[int, RosMessage]:
        """Decide on the first frame that is sent after the goal; it may be cancelled while it waits."""
        began = time.monotonic()
        told = -math.inf
        while True:
            now = time.monotonic()
            with self._change:
                frame = self._newest
                if frame is None or frame.sent_s < began:
                    frame = None
                    self._change.wait(0.05)
            if goal.cancelled.is_set() or self._ended:
                return CANCELED, _nothing("cancelled")
            if frame is not None:
                break
            if now - began > WAIT_S:
                return ABORTED, _nothing(f"no picture came in {WAIT_S:g} s; {self._problem}")
            if now - told > 0.5:
                told = now
                goal.tell(new("cpor_msgs/action/Decide_Feedback", stage="waiting", waited_s=now - began))
        waited = time.monotonic() - began
        goal.tell(new("cpor_msgs/action/Decide_Feedback", stage="deciding", waited_s=waited))
        answer, why = self._decide_asked(frame, goal.asked)
        result = new("cpor_msgs/action/Decide_Result", decision=self._said(answer, frame, why, asks=True))
        if goal.cancelled.is_set():
            return CANCELED, _nothing("cancelled")
        return (SUCCEEDED if answer is not None else ABORTED), result

    def _tell(self, answer: Answer | None, frame: Frame | None, why: str) -> None:
        said = self._said(answer, frame, why)
        self._say_decision(said)
        with self._change:
            self._counts.decided += 1
            self._counts.no_answer += said.state == "no_answer"

    def _tell_health(self) -> None:
        newest, now = self._newest, time.monotonic()
        age = math.inf if newest is None else now - newest.sent_s
        level = OK if age <= self.settings.max_age_s else STALE
        if level == self._level and now - self._health_s < HEALTH_S:
            return
        self._level, self._health_s = level, now
        values = {"age_s": f"{age:.3f}", **{key: str(value) for key, value in vars(self.counts).items()}}
        says = "decides on fresh frames" if level == OK else self._problem
        self._say_health(ros2_answers.say_health(level, says, values))


def _nothing(why: str) -> RosMessage:
    """The result of a goal that came to nothing."""
    return new("cpor_msgs/action/Decide_Result", decision=ros2_answers.say_decision(None, None, why))


def spin(node: DecideNode, tell: Callable[[str], None], every_s: float = 10.0) -> None:
    """Run until interrupted; a line on what happened now and then. [s]."""
    try:
        while node.alive:
            time.sleep(every_s)
            c = node.counts
            tell(f"{c.frames} frames, {c.decided} answers ({c.no_answer} no answer), {c.garbled} garbled")
        raise CporError("the node ended by an error, which stands above; start it again")
    except KeyboardInterrupt:
        tell("Ended.")
    finally:
        node.close()
