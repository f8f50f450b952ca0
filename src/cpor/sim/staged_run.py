"""The loop closed on a simulated heap, judged by the truth at the time of each action."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias, Unpack

import numpy as np
from jaxtyping import Int32
from scipy import ndimage

from cpor.decision import Defer, Grasp, Remove
from cpor.learn.modes import DEFAULT_MODE, Mode
from cpor.parts import NONE
from cpor.perception.onnx_segmenter import OnnxSegmenter
from cpor.perception.segmenter import Segmenter
from cpor.robot.cycle import Cycle, Ended, LoopSettings, PersonCallbacks, RunResult
from cpor.robot.loop import retrieve
from cpor.robot.run_folder import RunFolder
from cpor.scene import BlockedBy, PixelPoint, Scene, TrueRelations
from cpor.sim.arm.film import Film
from cpor.sim.arm.simulated_robot import SimulatedRobot, SimulatorMasks
from cpor.sim.camera.look import SceneLook, plain_look
from cpor.sim.camera.sensor import sensor_preset
from cpor.sim.camera.views import Views, cast_views
from cpor.sim.dataset.manifest import Tier
from cpor.sim.dataset.recognition import Recognition, Verdict, judge
from cpor.sim.physics.build import build_world
from cpor.sim.physics.clutter import Heap, HeapSettings, make_heap
from cpor.sim.physics.true_relations import occlusion_relations, sweep_relations, union
from cpor.sim.physics.world import World
from cpor.system import System

Eyes: TypeAlias = Literal["networks", "truth"]
"""What finds objects and scores relations: our networks, or true masks and no scores."""


@dataclass(frozen=True)
class DemoSettings:
    """What to show.

    Attributes:
        tier: How deep the target lies; None: as it falls.
        sensor: Preset of the camera's faults.
        finger_friction: Friction of the fingers; 0.5 is a hard rubber, and things slip now and then.
        budget: Attempts at most.
        eyes: What finds objects and scores relations.
        mode: The risk setting.
        tau: Act above this score instead.
    """

    tier: Tier | None = "hard"
    sensor: str = "default"
    finger_friction: float = 0.5
    budget: int = 12
    eyes: Eyes = "networks"
    mode: Mode = DEFAULT_MODE
    tau: float | None = None

    def system(self, segmenter: Segmenter, model: Path | None = None) -> System:
        """A system of a model; of the bundled one that was fitted to such eyes by default."""
        scorer = None if self.eyes == "networks" else NONE
        second_look = None if self.eyes == "networks" else False  # true masks need none
        return System(segmenter, scorer, model, self.mode, second_look=second_look, tau=self.tau)


@dataclass(frozen=True, eq=False)
class Stage:
    """A heap with a robot beside it, before anything moves."""

    heap: Heap
    world: World
    look: SceneLook
    robot: SimulatedRobot
    segmenter: Segmenter
    film: Film

    @property
    def target_name(self) -> str:
        """What is asked for: "the red mug"."""
        return f"the {self.heap.target_name}"

    def look_at_it(self) -> Scene:
        """A first look, with what is asked for."""
        return self.segmenter.segment(self.robot.observe())

    def views(self) -> Views:
        """The truth: what a camera without noise sees right now."""
        return cast_views(self.world, self.heap.camera)

    def target_shows(self) -> bool:
        """The truth: whether the camera sees some of the target right now."""
        return bool((self.views().visible_ids == self.heap.target).any())

    @property
    def ids_are_kept(self) -> bool:
        """Whether objects are found under the world's own ids."""
        return isinstance(self.segmenter, SimulatorMasks)

    def truth(self, views: Views | None = None) -> frozenset[BlockedBy]:
        """What obstructs what right now, by occlusion or sweep, by the world's ids."""
        seen = occlusion_relations(views or self.views())
        return union((seen, sweep_relations(self.world)))

    def recognise(self, scene: Scene) -> Recognition:
        """The true object that each one is, in a scene seen since anything last moved."""
        assert scene.visible_ids is not None
        views = self.robot.views_of(scene.observation)
        return Recognition.match(scene.ids, scene.visible_ids, self.world.objects, views.visible_ids)

    def truth_in(self, scene: Scene) -> frozenset[BlockedBy]:
        """The truth of the moment by the ids of a scene that was just seen."""
        truth = TrueRelations(frozenset(self.world.objects), self.truth())
        return self.recognise(scene).translate(truth).pairs

    def find_target(self, scene: Scene) -> int | None:
        """The target's id in a scene that was just seen, as a person who points at it would say it."""
        found = self.recognise(scene).find(self.heap.target)
        return found if found in scene.ids else None


class Moment(NamedTuple):
    """The truth when a cycle decided, and what was asked for, by the world's ids."""

    truth: frozenset[BlockedBy]
    recognition: Recognition
    target: int | None


@dataclass(frozen=True, eq=False)
class Demonstration:
    """What came of it.

    Attributes:
        result: The run, as the robot saw it.
        delivered: The truth: whether what was asked for, last, lies in the delivery tray.
        verdicts: What the truth says of each action when it was begun, by the index of its cycle.
        pointed: How often a person had to say again which object is meant.
        moments: The truth at each decision, by the index of its cycle.
    """

    result: RunResult
    delivered: bool
    verdicts: dict[int, Verdict] = field(default_factory=dict)
    pointed: int = 0
    moments: dict[int, Moment] = field(default_factory=dict)

    @property
    def how_it_ended(self) -> tuple[Ended, str]:
        """How it ended in truth, and the same as a sentence."""
        if self.result.retrieved and not self.delivered:
            return Ended.TARGET_LOST, "the robot believes that it delivered it, but it is not in the tray"
        return self.result.ended, self.result.detail

    @property
    def wrong_removals(self) -> int:
        """Removals of what was not removable next."""
        return self._wrong(Remove)

    @property
    def wrong_grasps(self) -> int:
        """Grasps of the target while something lay in its way."""
        return self._wrong(Grasp)

    def _wrong(self, kind: type[Grasp] | type[Remove]) -> int:
        actions = {cycle.index: cycle.action for cycle in self.result.cycles}
        return sum(said.is_wrong for k, said in self.verdicts.items() if isinstance(actions.get(k), kind))

    def to_json(self) -> dict[str, object]:
        """For programs."""
        return {
            "retrieved": self.result.retrieved and self.delivered,
            "cycles": len(self.result.cycles),
            "wrong_removals": self.wrong_removals,
            "deferrals": self.result.deferrals,
            "actions": self.result.actions,
            "wrong_grasps": self.wrong_grasps,
            "pointed": self.pointed,
            "ended": self.result.ended,
            "detail": self.result.detail,
        }


def set_stage(
    seed: int, settings: DemoSettings, watch: Callable[[World], None] = lambda world: None
) -> Stage:
    """Heap a bin, name a target, put the robot beside it; `watch` sees the world after every control step."""
    heap = make_heap(seed, HeapSettings(tier=settings.tier))
    standing, friction = heap.world, settings.finger_friction
    world = build_world(standing.objects, standing.poses(), standing.bin, True, friction)
    film, look = Film(), plain_look()
    rng = np.random.default_rng((seed, 0xDE30))

    def watched(world: World) -> None:
        film(world)
        watch(world)

    robot = SimulatedRobot(world, heap.camera, look, sensor_preset(settings.sensor), rng, watch=watched)
    segmenter = OnnxSegmenter() if settings.eyes == "networks" else SimulatorMasks(robot)
    return Stage(heap, world, look, robot, segmenter, film)


def demonstrate(
    stage: Stage,
    settings: DemoSettings,
    system: System | None = None,
    record: RunFolder | None = None,
    on_decision: Callable[[Cycle], None] = lambda cycle: None,
    on_cycle: Callable[[Cycle, Verdict | None], None] = lambda cycle, verdict: None,
    sign_off_prior: str | None = None,
    **person: Unpack[PersonCallbacks],
) -> Demonstration:
    """Retrieve the target, and judge each action by the truth when it is begun; the rest as in `retrieve`."""
    verdicts: dict[int, Verdict] = {}
    moments: dict[int, Moment] = {}
    witness, pointer = Witness(stage), Pointer(stage)

    def decided(cycle: Cycle) -> None:
        moments[cycle.index] = moment = witness.look(cycle)
        verdicts[cycle.index] = witness.judge(cycle, moment)
        on_decision(cycle)

    def over(cycle: Cycle) -> None:
        if cycle.attempt == "none":
            moments[cycle.index] = witness.look(cycle)
            verdicts.pop(cycle.index, None)  # announced, but not carried out
        on_cycle(cycle, verdicts.get(cycle.index))

    loop = LoopSettings(
        budget=settings.budget,
        ids_are_kept=stage.ids_are_kept,
        frames_may_repeat=settings.sensor == "none",
        sign_off_prior=sign_off_prior,
    )
    target = stage.heap.target if stage.ids_are_kept else pointer
    system = system or settings.system(stage.segmenter)
    result = retrieve(stage.robot, system, target, loop, record, over, on_decision=decided, **person)
    return Demonstration(result, witness.delivered, verdicts, max(0, pointer.times - 1), moments)


def deepest_point(ids: Int32[np.ndarray, "h w"], obj: int) -> PixelPoint | None:
    """The pixel that lies deepest in what shows of an object; None where nothing does."""
    inside = np.pad(ids == obj, 1)
    if not inside.any():
        return None
    row, col = np.unravel_index(ndimage.distance_transform_edt(inside).argmax(), inside.shape)
    return PixelPoint(float(col) - 1.0, float(row) - 1.0)


class Pointer:
    """A person who points at the target, `times` so far, when the loop does not recognise it by itself."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.times = 0

    def __call__(self, scene: Scene) -> int | None:
        """The target's id in a scene that was just seen; None where it is not found."""
        found = self._stage.find_target(scene)
        self.times += found is not None
        return found

    def where(self, scene: Scene) -> PixelPoint | None:
        """The pixel that lies deepest in what truly shows of the target; None where nothing does."""
        seen = self._stage.robot.views_of(scene.observation).visible_ids
        return deepest_point(seen, self._stage.heap.target)


class Witness:
    """A person who knows the truth, and what is truly asked for."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.target: int | None = stage.heap.target
        """What is truly asked for, by the world's ids; None: what was asked for is no object."""
        self._asked_anew = False

    @property
    def delivered(self) -> bool:
        """Whether what is asked for lies in the delivery tray."""
        return self.target is not None and self._stage.robot.in_tray(self.target, "delivery")

    def look(self, cycle: Cycle) -> Moment:
        """Take note of what is so in a cycle, before anything moves in it."""
        has_masks = cycle.scene.visible_ids is not None
        recognition = self._stage.recognise(cycle.scene) if has_masks else Recognition({}, {}, {})
        self._asked_anew |= cycle.retargeted
        if self._asked_anew and cycle.target is not None:
            self.target, self._asked_anew = recognition.owner.get(cycle.target), False
        return Moment(self._stage.truth(), recognition, self.target)

    def judge(self, cycle: Cycle, moment: Moment) -> Verdict:
        """What the truth says of a cycle's action before the arm moves."""
        action, titles = cycle.action, {o.id: o.title for o in cycle.scene.objects}

        def name(true: int) -> str:
            """As the robot calls it, where it sees it: people read both."""
            called = titles.get(moment.recognition.find(true))
            return f"the {called or self._stage.world.objects[true].name}"

        assert action is not None and not isinstance(action, Defer)
        obj = moment.recognition.owner.get(int(action.obj))  # type: ignore[call-overload]
        if obj is None or moment.target is None:
            return Verdict(True, "there is no object" if obj is None else "what is asked for is no object")
        return judge(type(action)(obj), moment.target, moment.truth, name)
