"""The loop closed on a simulated heap, judged by the truth at the time of each action."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from cpor.decision import Grasp, Remove
from cpor.model import FittedModel, bundled_model
from cpor.pipeline import Pipeline
from cpor.robot.choose import Decider
from cpor.robot.cycle import Cycle, LoopSettings, RunResult
from cpor.robot.loop import retrieve
from cpor.robot.run_folder import RunFolder
from cpor.scene import BlockedBy, Scene
from cpor.sim.build import build_world
from cpor.sim.camera import cast_views
from cpor.sim.clutter import Heap, HeapSettings, make_heap
from cpor.sim.film import Film
from cpor.sim.look import Look, plain_look
from cpor.sim.manifest import Tier
from cpor.sim.sensor import sensor_preset
from cpor.sim.simulated_robot import SimulatedRobot
from cpor.sim.simulator_masks import SimulatorMasks
from cpor.sim.truth import occlusion_relations, sweep_relations, union
from cpor.sim.verdict import Verdict, judge
from cpor.sim.world import World

TAU = 0.3
"""The demo acts above this score: it has no person to ask, so it takes more risks than the default."""


@dataclass(frozen=True)
class DemoSettings:
    """What to show.

    Attributes:
        tier: How deep the target lies; None: as it falls.
        sensor: Preset of the camera's faults.
        finger_friction: Of the gripper's fingers; 0.5 is a hard rubber, and things slip now and then.
        budget: Attempts at most.
    """

    tier: Tier | None = "hard"
    sensor: str = "default"
    finger_friction: float = 0.5
    budget: int = 12


@dataclass(frozen=True, eq=False)
class Stage:
    """A heap with a robot beside it, before anything moves.

    Attributes:
        heap: The heap and its target.
        world: The same heap with the arm.
        look: Its light.
        robot: The arm and its camera.
        segmenter: True masks from the simulator.
        film: What the arm does, for an animation.
    """

    heap: Heap
    world: World
    look: Look
    robot: SimulatedRobot
    segmenter: SimulatorMasks
    film: Film

    @property
    def target_name(self) -> str:
        """What is asked for: "the red mug"."""
        return f"the {self.heap.target_name}"

    def look_at_it(self) -> Scene:
        """A first look, with what is asked for."""
        return self.segmenter.segment(self.robot.observe())

    def truth(self) -> frozenset[BlockedBy]:
        """What obstructs what right now, by occlusion or sweep."""
        seen = occlusion_relations(cast_views(self.world, self.heap.camera))
        return union((seen, sweep_relations(self.world)))


@dataclass(frozen=True, eq=False)
class Demonstration:
    """What came of it.

    Attributes:
        result: The run, as the robot saw it.
        delivered: The truth: whether the target lies in the delivery tray.
        verdicts: What the truth says of each action when it was begun, by the index of its cycle.
    """

    result: RunResult
    delivered: bool
    verdicts: dict[int, Verdict] = field(default_factory=dict)

    @property
    def wrong_removals(self) -> int:
        """Removals of what was not removable next."""
        return self._wrong(Remove)

    @property
    def wrong_grasps(self) -> int:
        """Grasps of the target while something lay in its way."""
        return self._wrong(Grasp)

    def _wrong(self, kind: type[Grasp] | type[Remove]) -> int:
        cycles = self.result.cycles
        return sum(
            self.verdicts[c.index].is_wrong
            for c in cycles
            if c.index in self.verdicts and isinstance(c.action, kind)
        )

    def to_json(self) -> dict[str, object]:
        """For programs."""
        return {
            "retrieved": self.result.retrieved and self.delivered,
            "cycles": len(self.result.cycles),
            "wrong_removals": self.wrong_removals,
            "deferrals": self.result.deferrals,
            "actions": self.result.actions,
            "wrong_grasps": self.wrong_grasps,
            "ended": self.result.ended,
            "detail": self.result.detail,
        }


def set_stage(seed: int, settings: DemoSettings) -> Stage:
    """Heap a bin, name a target, put the robot beside it."""
    heap = make_heap(seed, HeapSettings(tier=settings.tier))
    poses = {obj: heap.world.pose(obj) for obj in heap.world.objects}
    friction = settings.finger_friction
    world = build_world(heap.world.objects, poses, heap.world.bin, arm=True, finger_friction=friction)
    film, look = Film(), plain_look()
    rng = np.random.default_rng((seed, 0xDE30))
    robot = SimulatedRobot(world, heap.camera, look, sensor_preset(settings.sensor), rng, watch=film)
    return Stage(heap, world, look, robot, SimulatorMasks(robot), film)


def demonstrate(
    stage: Stage,
    settings: DemoSettings,
    pipeline: Pipeline | Decider | None = None,
    record: RunFolder | None = None,
    on_decision: Callable[[Cycle], None] = lambda cycle: None,
    on_cycle: Callable[[Cycle, Verdict | None], None] = lambda cycle, verdict: None,
) -> Demonstration:
    """Retrieve the target, and judge each action by the truth when it is begun.

    Args:
        stage: As `set_stage` left it.
        settings: How many attempts.
        pipeline: Who decides; by default masks and depth alone, with the bundled model.
        record: Where every cycle is written.
        on_decision: Called before the arm moves.
        on_cycle: Called after, with what the truth says.
    """
    verdicts: dict[int, Verdict] = {}

    def decided(cycle: Cycle) -> None:
        assert cycle.action is not None and cycle.target is not None
        names = stage.world.objects
        verdicts[cycle.index] = judge(
            cycle.action, cycle.target, stage.truth(), lambda k: f"the {names[k].name}"
        )
        on_decision(cycle)

    result = retrieve(
        stage.robot,
        stage.segmenter,
        stage.heap.target,
        pipeline or FittedModel.load(bundled_model()).pipeline(TAU, fill_missing=True),
        LoopSettings(budget=settings.budget, ids_are_kept=True),
        record,
        lambda cycle: on_cycle(cycle, verdicts.get(cycle.index)),
        on_decision=decided,
    )
    return Demonstration(result, stage.robot.in_tray(stage.heap.target, "delivery"), verdicts)
