"""The simulated robot: a UR3e with a parallel gripper that finds its grasps in the picture, as a real one.

A grasp can fail and a pile can fall: from the first touch to the tray everything is contact physics. The
robot knows what its camera, joints and fingers tell it; `in_tray` and `in_bin` are the truth for experiments.
"""

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from cpor.errors import list_labels
from cpor.robot.dead_man import DeadMan
from cpor.robot.grasps import GraspFinder, GraspPose, find_grasps
from cpor.robot.protocol import HEARTBEAT_S, Outcome, OutcomeKind, RobotState, RobotStatus
from cpor.scene import DetectedObject, Observation, Scene
from cpor.sim.arm import ur3e
from cpor.sim.arm.motion import Motion, MotionEndedError
from cpor.sim.arm.pick import Picker, Tray, Trays
from cpor.sim.camera.look import SceneLook, plain_look
from cpor.sim.camera.sensor import SensorModel, photograph, sensor_preset
from cpor.sim.camera.views import CameraSetup, Views, cast_views
from cpor.sim.dataset.manifest import Tier
from cpor.sim.physics.build import build_world
from cpor.sim.physics.clutter import HeapSettings, make_heap
from cpor.sim.physics.settle import settle
from cpor.sim.physics.world import HEAP_CENTRE, World

MAX_TRIES = 3
"""Grasps tried in one action; the picture is older with each of them."""

ON_TABLE = 0.2
"""On a bare table, the heap reaches this far from its middle along x and y. [m]"""


class SimulatedRobot:
    """A robot in a simulated world; implements `cpor.robot.protocol.Robot`.

    What it puts into a tray is taken away (see `Trays`).

    Args:
        world: With an arm. Its state is the robot's from now on.
        camera: Over the heap.
        look: Light, table and bin of its pictures.
        sensor: How the camera fails, None for a perfect one.
        rng: Where the sensor's errors come from.
        watch: Told the world after every control step, for films; it must not change it.
        late_s: A heartbeat later than this ends a motion. Longer than for a real arm: nothing can be hurt,
            and the process has a world to compute meanwhile. [s]
        grasps: Grasp planner; `find_grasps` by default.

    Raises:
        SimulationError: The world has no arm.
    """

    is_simulated: ClassVar[bool] = True

    def __init__(
        self,
        world: World,
        camera: CameraSetup,
        look: SceneLook,
        sensor: SensorModel | None,
        rng: np.random.Generator,
        watch: Callable[[World], None] | None = None,
        late_s: float = 5 * HEARTBEAT_S,
        grasps: GraspFinder | None = None,
    ) -> None:
        self.world = world
        self.camera = camera
        self._look = look
        self._sensor = sensor
        self._rng = rng
        self._find = grasps or (lambda scene, obj: find_grasps(scene, obj, ur3e.GRIPPER))
        self.address = None  # no other program can reach it
        self._stop = threading.Event()
        self._dead_man = DeadMan(self._stop.set, late_s)
        self.motion = Motion(world, self._stop, watch, self._dead_man)
        self._picker = Picker(self.motion)
        self._trays = Trays(self.motion)
        self._state: RobotState = "ready"
        self._detail = "at home"
        self._locked = False
        self._failed: list[GraspPose] = []  # since something was last taken out
        self._seen: tuple[Observation, Views] | None = None
        self._frames = 0
        self.motion.place(np.array(ur3e.HOME), ur3e.HOME_OPENING)

    def observe(self) -> Observation:
        """Take a picture; at home, where every action leaves it, the arm is out of view."""
        views = cast_views(self.world, self.camera)
        scene = photograph(self.world, self.camera, self._look, self._sensor, self._rng, views=views)
        self._frames += 1
        taken = replace(scene.observation, time_s=self.motion.time_s, number=self._frames)
        self._seen = taken, views
        return taken

    def grasp(self, scene: Scene, obj: int) -> Outcome:
        """Take an object, as seen in `scene`, and deliver it."""
        return self._act(lambda: self._pick(scene, obj, "delivery"))

    def remove(self, scene: Scene, obj: int) -> Outcome:
        """Take an object, as seen in `scene`, and put it aside."""
        return self._act(lambda: self._pick(scene, obj, "discard"))

    def home(self) -> Outcome:
        """Go home and clear a `stop`; what is still in the gripper is put into the discard tray.

        After a protective stop the arm stays where it is until `unlock` was called.
        """
        if not self.resume():
            return Outcome("fault", "protective stop; see what the arm hit, then unlock it")
        return self._act(self._return)

    def resume(self) -> bool:
        """Clear a `stop` where the arm stands; False after a protective stop."""
        if not self._locked:
            self._stop.clear()
            self._state = "ready"
        return not self._locked

    def pick(self, grasps: list[GraspPose], name: str, tray: Tray) -> Outcome:
        """Take what grasps close on, best first, and bring it to a tray."""
        return self._act(lambda: self._try(grasps, name, tray))

    def follow(self, joints: Float[np.ndarray, "k 6"], times_s: Float[np.ndarray, " k"]) -> Outcome:
        """Be at postures [rad] at times [s] from now; what fails ends the motion, see `Motion`."""

        def motion() -> Outcome:
            self.motion.follow(joints, times_s)
            return Outcome("done", "the arm is there")

        return self._act(motion)

    def move_fingers(self, opening: float) -> Outcome:
        """Open the fingers to a distance; 0 closes them until they press or meet. [m]."""

        def motion() -> Outcome:
            if opening > 0.0:
                self.motion.open(min(opening, ur3e.GRIPPER.opening))
                self._trays.clear()
            elif self.motion.close():
                self.motion.squeeze()
                self.motion.wait(0.05)
            return Outcome("done", "the fingers are there", holding=self.motion.holding)

        return self._act(motion)

    def stop(self) -> None:
        """Stop at once; safe from another thread or a signal handler."""
        self._stop.set()

    def heartbeat(self) -> None:
        """Report that the program that moves the arm is alive."""
        self._dead_man.beat()

    def unlock(self) -> None:
        """Say that it is safe to go on after a protective stop; `home` then clears it."""
        self._locked = False

    def status(self) -> RobotStatus:
        """How the robot is; never moves it."""
        state, detail = self._state, self._detail
        if self._locked:
            state = "protective_stop"
        elif self._stop.is_set():
            state, detail = "stopped", "stopped on request; call home to go on"
        elif state == "moving":
            detail = "on the way"
        return RobotStatus(state, detail, self.motion.holding, time_s=self.motion.time_s)

    def views_of(self, observation: Observation) -> Views:
        """What a camera without noise saw when `observation` was taken; the present view if it is older."""
        if self._seen is not None and self._seen[0].number == observation.number:
            return self._seen[1]
        return cast_views(self.world, self.camera)

    def take_away(self, obj: int, tray: Tray) -> None:
        """Put an object into a tray without moving the arm, and let the heap come to rest."""
        self._trays.put(obj, tray)
        settle(self.world)

    def in_tray(self, obj: int, tray: Tray | None = None) -> bool:
        """The truth: whether an object is in a tray, in any if none is named."""
        return self._trays.holds(obj, tray)

    def in_bin(self, obj: int) -> bool:
        """The truth: whether an object's middle is inside the bin, or on the table where the heap may lie."""
        if self._trays.holds(obj):
            return False
        offset = np.abs(self.world.data.xipos[self.world.body_of[obj], :2] - HEAP_CENTRE)
        half = ON_TABLE if self.world.bin is None else np.array(self.world.bin.inner) / 2
        return bool((offset < half).all())

    def _act(self, motion: Callable[[], Outcome]) -> Outcome:
        """Run a motion; whatever ends it, the arm stands still afterwards and the outcome says why."""
        began = self.motion.time_s
        if self._locked:
            return Outcome("fault", "protective stop; see what the arm hit, unlock it and call home")
        if self._stop.is_set() or self._state != "ready":
            return Outcome("stopped", "the robot was stopped; call home first")
        self._state = "moving"
        try:
            outcome = motion()
            self._state = "ready"
        except MotionEndedError as ended:
            self._locked = ended.reason == "protective_stop"
            self._state = ended.reason
            outcome = Outcome("fault" if self._locked else "stopped", str(ended))
        except BaseException:
            self.motion.hold()
            self._state, self._detail = "stopped", "an error ended the motion; call home to go on"
            raise
        self._detail = outcome.detail
        return replace(outcome, duration_s=self.motion.time_s - began)

    def _pick(self, scene: Scene, obj: int, tray: Tray) -> Outcome:
        return self._try(self._find(scene, obj), f"object {obj}", tray)

    def _try(self, grasps: list[GraspPose], name: str, tray: Tray) -> Outcome:
        if not grasps:
            return Outcome("no_grasp", f"no grasp found for {name}")
        failures: list[str] = []
        # A grasp that failed would fail again: the others first.
        grasps = sorted(grasps, key=lambda grasp: any(_alike(grasp, failed) for failed in self._failed))
        for grasp, down in self._picker.plans(grasps):
            failure = self._picker.attempt(grasp, down)
            if failure is None:
                arrived = self._picker.carry(tray)
                self._trays.clear()
                self._picker.go_home()
                tries = f" at attempt {len(failures) + 1}" if failures else ""
                if arrived:
                    self._failed.clear()
                    return Outcome("done", f"{name} was put into the {tray} tray{tries}", holding=True)
                return Outcome("dropped", f"{name} was taken{tries}, but lost on the way")
            failures.append(failure)
            self._failed.append(grasp)
            # What slipped lies elsewhere now: look again instead of groping for it.
            if failure == "slipped" or len(failures) == MAX_TRIES:
                break
        if not failures:
            return Outcome("unreachable", f"{len(grasps)} grasps of {name}, none with a free way to it")
        self._picker.go_home()
        kind: OutcomeKind = "dropped" if "slipped" in failures else "missed"
        return Outcome(kind, f"{name} not taken, {len(failures)} tries: {list_labels(failures)}")

    def _return(self) -> Outcome:
        """Home, by way of the discard tray where something is in the gripper."""
        detail = "at home"
        if self.motion.holding:
            self._picker.raise_up()
            self._picker.carry("discard")
            self._trays.clear()
            detail = "at home; what was in the gripper was put into the discard tray"
        self._picker.go_home()
        return Outcome("done", detail)


def build(seed: int = 0, tier: Tier | None = None, sensor: str = "default") -> SimulatedRobot:
    """The robot `simulated` of `cpor.robots`: a UR3e beside a bin with a heap, a target as deep as asked."""
    heap = make_heap(seed, HeapSettings(tier=tier))
    world = build_world(heap.world.objects, heap.world.poses(), heap.world.bin, arm=True)
    rng = np.random.default_rng(seed)
    return SimulatedRobot(world, heap.camera, plain_look(), sensor_preset(sensor), rng)


def _alike(a: GraspPose, b: GraspPose) -> bool:
    """Whether two grasps close nearly the same way at nearly the same place."""
    T, U = a.T_world_gripper, b.T_world_gripper
    turned = abs(float(T[:3, 0] @ U[:3, 0])) < 0.9 or float(T[:3, 2] @ U[:3, 2]) < 0.95
    return not turned and float(np.linalg.norm(T[:3, 3] - U[:3, 3])) < 0.01


class SimulatorMasks:
    """True masks of what the robot's camera sees; implements `cpor.perception.segmenter.Segmenter`.

    An object of which no pixel shows is not found, as with any other segmenter.
    """

    def __init__(self, robot: SimulatedRobot) -> None:
        self._robot = robot

    def segment(self, observation: Observation) -> Scene:
        """The scene of a frame; of any but the last one the masks are those of the world as it is now."""
        views = self._robot.views_of(observation)
        shown = sorted(set(views.visible_ids.reshape(-1).tolist()) - {0})
        names = {obj: thing.name for obj, thing in self._robot.world.objects.items()}
        objects = tuple(DetectedObject(obj, views.amodal[obj], names[obj]) for obj in shown)
        return Scene(observation, objects, views.visible_ids)
