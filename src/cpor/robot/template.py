"""A robot to copy: it keeps the rules, reads frames from a folder, and says where yours has to move."""

from cpor.errors import InvalidSceneError, RobotError
from cpor.robot.cameras import FolderCamera
from cpor.robot.grasps import find_grasps
from cpor.robot.protocol import Outcome, RobotState, RobotStatus
from cpor.scene import Observation, Scene


class TemplateRobot:
    """Looks, plans and moves nothing; replace what raises `RobotError` by calls of your driver.

    Args:
        frames: Folder of frames; put your camera in its place.
        dry_run: Say what would be done.
    """

    def __init__(self, frames: str, dry_run: bool = True) -> None:
        self._camera = FolderCamera(frames)
        self._dry_run = dry_run
        self._state: RobotState = "ready"

    @property
    def address(self) -> str | None:
        """Name of the arm for its lease; put the address of your controller here."""
        return None if self._dry_run else "template"

    def observe(self) -> Observation:
        """Take a picture now: first bring the arm out of view."""
        return self._camera.frame()

    def grasp(self, scene: Scene, obj: int) -> Outcome:
        """Take an object and deliver it."""
        return self._pick(scene, obj, "deliver")

    def remove(self, scene: Scene, obj: int) -> Outcome:
        """Take an object and put it aside."""
        return self._pick(scene, obj, "put aside")

    def home(self) -> Outcome:
        """Go to the looking posture; clears a `stop`."""
        self._state = "ready"
        return Outcome("done", "at home")

    def stop(self) -> None:
        """Tell your driver to stop, by a connection of its own; from any thread."""
        self._state = "stopped"

    def heartbeat(self) -> None:
        """Feed `cpor.robot.dead_man.DeadMan`, which stops the arm where this comes late."""

    def status(self) -> RobotStatus:
        """How the robot is."""
        detail = "stopped on request; call home to go on" if self._state == "stopped" else "at rest"
        return RobotStatus(self._state, detail, dry_run=self._dry_run)

    def _pick(self, scene: Scene, obj: int, then: str) -> Outcome:
        if self._state == "stopped":
            return Outcome("stopped", "the robot was stopped; call home first")
        try:
            grasps = find_grasps(scene, obj)
        except InvalidSceneError as error:
            return Outcome("no_grasp", str(error))
        if not grasps:
            return Outcome("no_grasp", f"no way to take object {obj} was found")
        if not self._dry_run:
            raise RobotError("the template moves nothing; call your driver here")
        x, y, z = grasps[0].T_world_gripper[:3, 3]
        did = f"would take object {obj} at ({x:.3f}, {y:.3f}, {z:.3f}) m, then {then} it"
        return Outcome("done", did, 0.1)
