"""The frames of a camera: ids stay, and earlier looks count as evidence. Here: three looks at one heap."""

from collections.abc import Iterator

from cpor.scene import Observation
from cpor.sim.camera.views import overhead_camera
from cpor.sim.dataset.make import photograph_heap
from cpor.sim.dataset.manifest import DatasetSettings
from cpor.sim.physics.clutter import HeapSettings, make_heap
from cpor.system import System


def frames() -> Iterator[Observation]:
    """The same heap by a camera that moves a little between the looks."""
    for tilt_deg in (0.0, 4.0, 8.0):
        camera = overhead_camera(tilt_deg=tilt_deg)
        heap = make_heap(11, HeapSettings(density="loose", camera=camera))
        yield photograph_heap(heap, DatasetSettings()).observation


def main() -> None:
    """Point at an object in the first frame, and follow it."""
    system = System()
    first, *rest = frames()
    target = system.look(first).seen.ids[0]
    for number, answer in enumerate(system.follow([first, *rest], target)):
        print(f"frame {number}: object {answer.target}: {answer.question or answer.action}")


if __name__ == "__main__":
    main()
