"""A segmenter that knows: true visible and amodal masks of the simulated world, under the world's own ids."""

from cpor.scene import DetectedObject, Observation, Scene
from cpor.sim.arm.simulated_robot import SimulatedRobot


class SimulatorMasks:
    """True masks of what the robot's camera sees; implements `cpor.perception.segmenter.Segmenter`.

    An object of which no pixel shows is not found, as with any other segmenter.

    Args:
        robot: Whose camera took the frames.
    """

    def __init__(self, robot: SimulatedRobot) -> None:
        self._robot = robot

    def segment(self, observation: Observation) -> Scene:
        """The scene of a frame; of any but the last one the masks are those of the world as it is now."""
        views = self._robot.views_of(observation)
        world = self._robot.world
        shown = set(views.visible_ids.reshape(-1).tolist())
        objects = tuple(
            DetectedObject(obj, views.amodal[obj], world.objects[obj].name)
            for obj in sorted(world.objects)
            if obj in shown
        )
        return Scene(observation, objects, views.visible_ids)
