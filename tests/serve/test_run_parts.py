"""The parts of a live run that need no simulator: events within bounds, listeners, controls."""

import asyncio
import threading
import time

import numpy as np
import pytest
from support.own_loop import run_apart

from cpor.answer import decide_given
from cpor.errors import InvalidSettingError
from cpor.records import PairBelief
from cpor.relations import ObstructionPosterior
from cpor.robot.cycle import Cycle
from cpor.scene import DetectedObject, Observation, Scene
from cpor.serve.api.answered import FilmMessage, RunEvent, RunReply
from cpor.serve.api.asked import ControlRequest
from cpor.serve.http.refusals import Busy
from cpor.serve.http.settings import RunLimits
from cpor.serve.live.events import EventLog, Pictures
from cpor.serve.live.show import RunControls, describe_cycle


def said(cycle):
    reply = RunReply(
        run_id="x", state="running", cycle=cycle, target=None, target_name=None, ended=None, detail=None
    )
    return RunEvent(number=0, run=reply)


def frame(k):
    return RunEvent(number=0, film=FilmMessage(frame=k, picture=f"/{k}.jpg"))


async def heard(listener, seconds=0.05):
    numbers = []
    async for event in listener.events(seconds):
        if event is None:
            break
        numbers.append(event.number)
    return numbers


def test_the_newest_events_and_the_last_frame_are_kept():
    async def follow():
        log = EventLog(RunLimits(most_events=3))
        for k in range(5):
            log.add(said(k))
            log.add(frame(k))
        assert await heard(log.subscribe(0)) == [5, 7, 9, 10]
        assert await heard(log.subscribe(7)) == [9, 10]
        log.close()
        assert log.subscribe(10) is None and await heard(log.subscribe(9)) == [10]

    run_apart(follow())


def test_events_are_bounded_by_bytes_too():
    async def follow():
        log = EventLog(RunLimits(most_event_bytes=300))
        for k in range(20):
            log.add(said(k))
        kept = await heard(log.subscribe(0))
        assert 1 <= len(kept) < 5 and kept[-1] == 20

    run_apart(follow())


def test_a_slow_listener_is_dropped_and_the_others_are_not():
    async def follow():
        log = EventLog(RunLimits(most_waiting_events=4))
        slow = log.subscribe(0)
        quick = log.subscribe(0)
        got = []
        for k in range(12):
            log.add(frame(k))
            await asyncio.sleep(0)
            got += await heard(quick, 0.005)
        assert got == list(range(1, 13)) and slow.dropped and not quick.dropped
        assert log.listeners == 1
        assert len(await heard(slow)) <= 5

    run_apart(follow())


def test_listeners_are_bounded():
    async def follow():
        log = EventLog(RunLimits(most_listeners=2))
        log.subscribe(0)
        log.subscribe(0)
        with pytest.raises(Busy, match="2 follow"):
            log.subscribe(0)

    run_apart(follow())


def test_the_oldest_pictures_go():
    pictures = Pictures(2)
    for name in "abc":
        pictures.add(name, name.encode())
    assert pictures.get("a") is None and pictures.get("c") == b"c"


def test_limits_must_make_sense():
    with pytest.raises(InvalidSettingError, match="most_events is 0"):
        RunLimits(most_events=0)
    with pytest.raises(InvalidSettingError, match="most_kept"):
        RunLimits(most_running=3, most_kept=2)


class Waiting:
    """Waits in a thread of its own, as the loop does."""

    def __init__(self, work):
        self.result = None
        self._thread = threading.Thread(target=lambda: setattr(self, "result", work()))
        self._thread.start()

    def still(self):
        self._thread.join(0.1)
        return self._thread.is_alive()

    def over(self):
        self._thread.join(60.0)
        return not self._thread.is_alive()


def test_a_cycle_is_told_in_the_one_form():
    ids = np.zeros((20, 20), np.int32)
    ids[2:9, 2:9], ids[9:18, 2:9] = 1, 2
    scene = Scene(
        Observation(np.zeros((20, 20, 3), np.uint8)), (DetectedObject(1, name="mug"), DetectedObject(2)), ids
    )
    posterior = ObstructionPosterior((1, 2), 1, {(1, 2): 0.97})
    decided = decide_given(posterior)
    beliefs = (PairBelief(blocked=1, blocker=2, p=0.97, p_fused=0.97),)
    seen = Cycle(
        0, scene, target=1, decision=decided.decision, action=decided.action, beliefs=beliefs, p_success=0.9
    )
    told = describe_cycle(seen, "/x.jpg", (0, 0, 20, 20), "cautious").model_dump(mode="json")["decision"]
    expected = decided.to_json(0)
    for field in ("action", "scores", "blockers", "certificate", "relations", "mode", "tau", "mu", "target"):
        assert told[field] == expected[field], field
    assert told["p_success"] == 0.9 and "90%" in told["words"]["why"]
    assert "The mug is free" in told["words"]["why"]


def controls(paused):
    states = []
    return RunControls(paused, states.append), states


def until_state(states, wanted):
    until = time.monotonic() + 60.0
    while states[-1:] != [wanted]:
        assert time.monotonic() < until
        time.sleep(0.005)


def test_a_step_lets_one_action_through():
    run, states = controls(paused=True)
    first = Waiting(run.wait_before_action)
    assert first.still()
    assert run.obey(ControlRequest(do="step")) is None and first.over()
    second = Waiting(run.wait_before_action)
    until_state(states, "paused")
    assert second.still() and states == ["paused", "running", "paused"]
    run.obey(ControlRequest(do="resume"))
    assert second.over()
    run.wait_before_action()  # does not wait any more
    run.obey(ControlRequest(do="pause"))
    third = Waiting(run.wait_before_action)
    assert third.still()
    run.obey(ControlRequest(do="stop"))
    assert third.over() and run.stop.is_set()


def test_an_answer_is_taken_only_where_it_is_asked_for():
    run, states = controls(paused=False)
    assert run.obey(ControlRequest(do="answer", obj=3)) == "the run asks nothing at the moment"
    asking = Waiting(run.wait_for_answer)
    until_state(states, "asking")
    assert asking.still() and run.obey(ControlRequest(do="answer", obj=3)) is None
    assert asking.over() and asking.result == 3 and states[-1] == "running"
    giving_up = Waiting(run.wait_for_answer)
    until_state(states, "asking")
    run.obey(ControlRequest(do="answer", obj=None))
    assert giving_up.over() and giving_up.result is None


def test_another_target_ends_the_waiting():
    run, _ = controls(paused=True)
    waiting = Waiting(run.wait_before_action)
    assert waiting.still()
    run.obey(ControlRequest(do="retarget", obj=7))
    assert waiting.over() and run.take_target() == 7 and run.take_target() is None
