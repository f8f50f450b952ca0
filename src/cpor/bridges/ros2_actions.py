"""ROS 2 actions over any `Transport`: three services and two topics each, as rcl_action has them."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from cpor.bridges.ros2_answers import now
from cpor.bridges.ros2_messages import RosMessage, new
from cpor.bridges.ros2_transport import OnReply, Transport, serve_now

UNKNOWN, ACCEPTED, EXECUTING, CANCELING, SUCCEEDED, CANCELED, ABORTED = range(7)
"""States of action_msgs/GoalStatus."""

NONE, REJECTED, UNKNOWN_GOAL, TERMINATED = range(4)
"""Return codes of action_msgs/CancelGoal."""

MOST_KEPT = 32
"""Goals whose results are kept for later requests."""


@dataclass(eq=False)
class Goal:
    """A goal under way: its id (16 bytes), its fields, and `cancelled`, which is set to end it."""

    id: bytes
    asked: RosMessage
    tell: Callable[[RosMessage], None]
    stamp: RosMessage = field(default_factory=now)
    status: int = ACCEPTED
    cancelled: threading.Event = field(default_factory=threading.Event)
    result: RosMessage | None = None
    waiting: list[OnReply] = field(default_factory=list)


RunGoal: TypeAlias = Callable[[Goal], tuple[int, RosMessage]]
"""Works on a goal, in a thread of its own, until it is reached, cannot be, or is cancelled. Returns how it
ended, `SUCCEEDED`, `CANCELED` or `ABORTED`, and the result."""


class ActionServer:
    """Takes goals, `most` at a time; tells feedback, status and results. `nothing` makes an empty one."""

    def __init__(
        self,
        transport: Transport,
        name: str,
        kind: str,
        run: RunGoal,
        nothing: Callable[[str], RosMessage],
        most: int = 1,
    ) -> None:
        self._kind, self._run, self._nothing, self._most = kind, run, nothing, most
        self._goals: dict[bytes, Goal] = {}
        self._threads: set[threading.Thread] = set()
        self._lock = threading.RLock()
        self._ended = False
        path = f"{name}/_action"
        self._say_feedback = transport.publish(f"{path}/feedback", f"{kind}_FeedbackMessage")
        self._say_status = transport.publish(f"{path}/status", "action_msgs/GoalStatusArray", latched=True)
        serve_now(transport, f"{path}/send_goal", f"{kind}_SendGoal", self._take)
        serve_now(transport, f"{path}/cancel_goal", "action_msgs/srv/CancelGoal", self._cancel)
        transport.serve(f"{path}/get_result", f"{kind}_GetResult", self._give)

    def close(self) -> None:
        """Cancel what is under way, and wait for it."""
        with self._lock:
            self._ended = True
            for goal in self._goals.values():
                goal.cancelled.set()
            threads = tuple(self._threads)
        for thread in threads:
            thread.join()

    def _take(self, request: RosMessage) -> dict[str, Any]:
        id_ = bytes(request.goal_id.uuid)

        def tell(feedback: RosMessage) -> None:
            kind = f"{self._kind}_FeedbackMessage"
            self._say_feedback(new(kind, goal_id=request.goal_id, feedback=feedback))

        goal = Goal(id_, request.goal, tell)
        with self._lock:
            busy = sum(each.result is None for each in self._goals.values()) >= self._most
            accepted = not (busy or self._ended or id_ in self._goals)
            if accepted:
                self._goals[id_] = goal
                self._forget()
                thread = threading.Thread(target=self._work, args=(goal,), name="cpor-goal", daemon=True)
                self._threads.add(thread)
                thread.start()
        return {"accepted": accepted, "stamp": goal.stamp}

    def _forget(self) -> None:
        done = [id_ for id_, each in self._goals.items() if each.result is not None]
        for id_ in done[: max(0, len(self._goals) - MOST_KEPT)]:
            del self._goals[id_]

    def _work(self, goal: Goal) -> None:
        status, result = ABORTED, self._nothing("the node failed")
        try:
            with self._lock:
                goal.status = EXECUTING if goal.status == ACCEPTED else goal.status
            self._tell_status()
            status, result = self._run(goal)
        finally:
            with self._lock:
                goal.status, goal.result = status, result
                waiting, goal.waiting = goal.waiting, []
                self._threads.discard(threading.current_thread())
            self._tell_status()
            for reply in waiting:
                reply(self._result_of(goal))

    def _cancel(self, request: RosMessage) -> dict[str, Any]:
        """Cancel one goal, all up to a time, or all: as GoalInfo says, where 0 means any."""
        wanted, until = bytes(request.goal_info.goal_id.uuid), _ns(request.goal_info.stamp)
        with self._lock:
            every = not any(wanted) and until == 0
            chosen = [
                goal
                for goal in self._goals.values()
                if every or goal.id == wanted or (until and _ns(goal.stamp) <= until)
            ]
            live = [goal for goal in chosen if goal.result is None]
            for goal in live:
                goal.status = CANCELING
                goal.cancelled.set()
        code = NONE
        if not live:
            code = REJECTED if not any(wanted) else TERMINATED if chosen else UNKNOWN_GOAL
        self._tell_status()
        return {"return_code": code, "goals_canceling": [_info(goal) for goal in live]}

    def _give(self, request: RosMessage, reply: OnReply) -> None:
        with self._lock:
            goal = self._goals.get(bytes(request.goal_id.uuid))
            if goal is not None and goal.result is None:
                goal.waiting.append(reply)
                return
        reply(self._result_of(goal))

    def _result_of(self, goal: Goal | None) -> RosMessage:
        kind = f"{self._kind}_GetResult_Response"
        if goal is None:
            return new(kind, status=UNKNOWN, result=self._nothing("no goal has this id"))
        return new(kind, status=goal.status, result=goal.result)

    def _tell_status(self) -> None:
        with self._lock:
            goals, kind = self._goals.values(), "action_msgs/GoalStatus"
            told = [new(kind, goal_info=_info(goal), status=goal.status) for goal in goals]
            self._say_status(new("action_msgs/GoalStatusArray", status_list=told))


def _info(goal: Goal) -> Any:
    id_ = new("unique_identifier_msgs/UUID", uuid=goal.id)
    return new("action_msgs/GoalInfo", goal_id=id_, stamp=goal.stamp)


def _ns(stamp: RosMessage) -> int:
    return int(stamp.sec) * 10**9 + int(stamp.nanosec)
