"""One live run, inside its own process: the stage, the loop, and everything told of it on the way."""

import logging
import threading
import time
from collections.abc import Callable

import numpy as np
from PIL import Image

from cpor.answer import Answer
from cpor.decision import Action, Grasp, Remove
from cpor.errors import CameraError, CporError, RobotError, SimulationError
from cpor.learn.modes import Mode
from cpor.records import record_action
from cpor.relations import ObstructionPosterior, Relation
from cpor.robot.cycle import Cycle, Ended
from cpor.serve.api.answered import CycleMessage, CycleMoment, DecideReply, RunReply, RunState
from cpor.serve.api.asked import ControlRequest, RunRequest
from cpor.serve.api.decide_jobs import describe_answer
from cpor.serve.api.look_jobs import describe_objects
from cpor.serve.http.settings import RunLimits
from cpor.serve.live.runs import RunNews, pictures_of
from cpor.sim.arm.film import close_camera, make_projector
from cpor.sim.dataset.recognition import Verdict
from cpor.sim.physics.world import World
from cpor.sim.staged_run import Demonstration, DemoSettings, Stage, demonstrate, set_stage
from cpor.viz.overlay import Window, draw_scene, encode_picture, marks_of, window_around
from cpor.viz.words import namer, say_outcome, say_verdict, sentence, with_names

_LATE_S = 0.3
"""A motion this late begins its own time anew: the film does not hurry after a pause. [s]"""


class LiveFilm:
    """Watches the arm, which moves at most `speed` times as fast as its own clock; give `watch` to the stage.

    `on_frame` gets each JPEG, in the film's own thread, `frames_per_s` on the clock on the wall. [1/s]
    """

    def __init__(
        self, speed: float, frames_per_s: float, stop: threading.Event, on_frame: Callable[[bytes], None]
    ) -> None:
        self._speed, self._every_s = speed, 1.0 / frames_per_s
        self._stop, self._on_frame = stop, on_frame
        self._began: tuple[float, float] | None = None  # on the wall, on the world's clock
        self._next_s = 0.0
        self._cost_s = 0.0  # of the last picture
        self._pose: np.ndarray | None = None
        self._ready = threading.Condition()
        self._over = False
        self._thread: threading.Thread | None = None

    def watch(self, world: World) -> None:
        """Keep the pose if it is time, and hold the arm back if it is too fast; the world is not touched."""
        now, simulated = time.monotonic(), float(world.data.time)
        if now >= self._next_s:
            # Pictures take half of the time at most: on a busy machine they get fewer, not the arm slower.
            self._next_s = now + max(self._every_s, 2.0 * self._cost_s)
            self.show(world)
        if self._began is None:
            self._began = now, simulated
        ahead = (simulated - self._began[1]) / self._speed - (now - self._began[0])
        if ahead < -_LATE_S:
            self._began = now, simulated
        elif ahead > 0.005:
            self._stop.wait(ahead)

    def show(self, world: World) -> None:
        """Make a picture of how the world stands now; one that is not begun yet is left out for it."""
        with self._ready:
            self._pose = np.array(world.data.qpos)
            self._ready.notify()

    def begin(self, stage: Stage) -> None:
        """Make pictures from now on."""
        projector = make_projector(stage.world, stage.look, close_camera())
        self._thread = threading.Thread(target=self._develop, args=(projector,), daemon=True)
        self._thread.start()
        self.show(stage.world)

    def end(self) -> None:
        """Make the last picture and end."""
        with self._ready:
            self._over = True
            self._ready.notify()
        if self._thread is not None:
            self._thread.join()

    def _develop(self, projector: Callable[[np.ndarray], np.ndarray]) -> None:
        while True:
            with self._ready:
                while self._pose is None and not self._over:
                    self._ready.wait()
                pose, self._pose = self._pose, None
            if pose is None:
                return
            began = time.monotonic()
            self._on_frame(encode_picture(Image.fromarray(projector(pose)), 75, "JPEG"))
            self._cost_s = time.monotonic() - began


def describe_cycle(
    cycle: Cycle,
    picture: str,
    window: Window,
    mode: Mode,
    verdict: Verdict | None = None,
    moment: CycleMoment = "decided",
) -> CycleMessage:
    """A cycle as it goes over the wire; see `CycleMessage`."""
    name = namer(cycle.scene)
    return CycleMessage(
        index=cycle.index,
        moment=moment,
        picture=picture,
        window=window,
        objects=describe_objects(cycle.scene),
        target=cycle.target,
        retargeted=cycle.retargeted,
        decision=_describe_decision(cycle, mode),
        action=None if cycle.action is None else record_action(cycle.action),
        outcome=say_outcome(cycle, name) if moment == "done" else None,
        verdict=None if verdict is None else say_verdict(verdict),
        right=None if verdict is None else not verdict.is_wrong,
        notes=[sentence(with_names(note, name)) for note in cycle.notes],
        times_ms={step: round(1e3 * value, 1) for step, value in cycle.times_s.items()},
    )


def _describe_decision(cycle: Cycle, mode: Mode) -> DecideReply | None:
    if cycle.decision is None or cycle.target is None:
        return None
    relations = [Relation(b.blocked, b.blocker, b.p) for b in cycle.beliefs if b.p is None or b.p > 0.0]
    posterior = ObstructionPosterior.from_relations(cycle.scene.ids, cycle.target, relations)
    tau = cycle.decision.tau
    answer = Answer(cycle.decision, posterior, None, None, mode, tau, p_success=cycle.p_success)
    return DecideReply.model_validate(describe_answer(answer, 0, name=namer(cycle.scene)))


_FAILED = "the run failed; the log of the service says more"
_log = logging.getLogger(__name__)


class Show:
    """A run, from the heap to its end; `tell` is called with what happens, from any thread."""

    def __init__(
        self, run_id: str, request: RunRequest, limits: RunLimits, tell: Callable[[RunNews], None]
    ) -> None:
        self._run_id, self._request, self._tell = run_id, request, tell
        self._cycle = 0
        self._target: int | None = None
        self._target_name: str | None = None
        self._drawn: tuple[int, Action | None] | None = None
        self._drawings = 0
        self._window: Window | None = None  # one for all cycles, so that the eye can compare them
        self.controls = RunControls(request.paused, self._say_state)
        self._film = LiveFilm(request.speed, limits.frames_per_s, self.controls.stop, tell)

    def run(self) -> None:
        """Everything; the last thing told is that it ended, or failed."""
        self._say_state("preparing")
        try:
            self._say_end(self._perform())
        except CporError as error:
            _log.exception("a live run failed")
            self._say_state("failed", detail=_say_error(error))
        finally:
            self._film.end()

    def _perform(self) -> Demonstration:
        asked = self._request
        settings = DemoSettings(tier=asked.tier, eyes=asked.eyes, mode=asked.mode)
        stage = set_stage(self._request.seed, settings, self._film.watch)
        if stage.ids_are_kept:  # else the first look says what the robot calls it
            self._target_name, self._target = stage.target_name, stage.heap.target
        self._film.begin(stage)
        self._say_state("running")

        def over(cycle: Cycle, verdict: Verdict | None) -> None:
            self._film.show(stage.world)
            self._show(cycle, verdict, "done")

        done = demonstrate(
            stage,
            settings,
            on_decision=self._decided,
            on_cycle=over,
            ask=self._ask,
            stop=self.controls.stop,
            retarget=self.controls.take_target,
        )
        self._film.end()
        return done

    def _decided(self, cycle: Cycle) -> None:
        self._show(cycle)
        self.controls.wait_before_action()

    def _ask(self, cycle: Cycle) -> Action | None:
        self._show(cycle)
        obj = self.controls.wait_for_answer()
        if obj is None:
            return None
        return Grasp(obj) if cycle.target in (obj, None) else Remove(obj)

    def _show(self, cycle: Cycle, verdict: Verdict | None = None, moment: CycleMoment = "decided") -> None:
        changed = cycle.index != self._cycle or cycle.target not in (None, self._target)
        self._cycle = cycle.index
        if cycle.target is not None:
            self._target, self._target_name = cycle.target, namer(cycle.scene)(cycle.target)
        if self._window is None:
            height, width = cycle.scene.observation.shape
            self._window = window_around(cycle.scene) or (0, 0, width, height)
        picture = None
        if self._drawn != (cycle.index, cycle.action):
            self._drawn = cycle.index, cycle.action
            self._drawings += 1
            drawn = draw_scene(cycle.scene, marks_of(cycle), window=self._window)
            picture = encode_picture(drawn, 82, "JPEG")
        path = f"{pictures_of(self._run_id)}/cycle_{self._drawings:03d}.jpg"
        said = describe_cycle(cycle, path, self._window, self._request.mode, verdict, moment)
        self._tell((said, picture))
        if changed:
            self._say_state("running")

    def _say_state(self, state: RunState, ended: Ended | None = None, detail: str | None = None) -> None:
        reply = RunReply(
            run_id=self._run_id,
            state=state,
            cycle=self._cycle,
            target=self._target,
            target_name=self._target_name,
            ended=ended,
            detail=detail,
        )
        self._tell(reply)

    def _say_end(self, done: Demonstration) -> None:
        result = done.result
        ended, detail = done.how_it_ended
        if result.error is not None:
            detail = _say_error(result.error)
        if result.final_scene is not None:
            self._show(Cycle(len(result.cycles), result.final_scene, None), moment="last")
        self._say_state("ended", ended, detail)


def _say_error(error: CporError) -> str:
    """What may be told of an error: messages about files of this machine may not."""
    return str(error) if isinstance(error, SimulationError | CameraError | RobotError) else _FAILED


class RunControls:
    """Pause, resume, step, stop, another target, an answer; `on_state` hears when it waits or goes on."""

    def __init__(self, paused: bool, on_state: Callable[[RunState], None]) -> None:
        self.stop = threading.Event()
        self._paused = paused
        self._steps = 0
        self._waits_for: RunState | None = None
        self._wanted: int | None = None
        self._answer: int | None = None
        self._answered = False
        self._on_state = on_state
        self._change = threading.Condition()

    def obey(self, order: ControlRequest) -> str | None:
        """Carry out an order; why not, where it is refused."""
        with self._change:
            refused = self._obey(order)
            if refused is None and self._waits_for is not None and not self._must_wait(self._waits_for):
                # Set here and not by the waiting thread, so that the order shows at once.
                self._waits_for = None
                self._on_state("running")
            self._change.notify_all()
        return refused

    def _obey(self, order: ControlRequest) -> str | None:
        if order.do == "stop":
            self.stop.set()
        elif order.do == "pause":
            self._paused = True
        elif order.do == "resume":
            self._paused, self._steps = False, 0
        elif order.do == "step":
            self._paused, self._steps = True, self._steps + 1
        elif order.do == "retarget":
            self._wanted = order.obj
        elif self._waits_for != "asking":
            return "the run asks nothing at the moment"
        else:
            self._answer, self._answered = order.obj, True
        return None

    def wait_before_action(self) -> None:
        """Wait while paused; a step, a stop and another target end the waiting."""
        with self._change:
            self._wait("paused")
            if self._steps and not self.stop.is_set() and self._wanted is None:
                self._steps -= 1

    def wait_for_answer(self) -> int | None:
        """The object to act on, as a person says; None without an answer."""
        with self._change:
            self._answer, self._answered = None, False
            self._wait("asking")
            return self._answer

    def take_target(self) -> int | None:
        """The object that is asked for instead; each word counts once."""
        with self._change:
            obj, self._wanted = self._wanted, None
            return obj

    def _must_wait(self, state: RunState) -> bool:
        if self.stop.is_set() or self._wanted is not None:
            return False
        return not self._answered if state == "asking" else self._paused and not self._steps

    def _wait(self, state: RunState) -> None:
        if not self._must_wait(state):
            return
        self._waits_for = state
        self._on_state(state)
        while self._must_wait(state):
            self._change.wait()
        self._waits_for = None
