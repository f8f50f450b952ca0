"""A segmenter of one's own: anything that turns a frame into masks. Here: what stands out of the ground."""

from pathlib import Path

import numpy as np
from scipy import ndimage

import cpor
from cpor.scene import DetectedObject, MaskCrop, Observation, Scene

SCENE = Path(__file__).parent / "scenes" / "sim" / "scene_00007"


class Lumps:
    """Connected lumps that stand at least 2 cm out of the median depth."""

    name = "lumps"

    def segment(self, observation: Observation) -> Scene:
        """The scene of a frame; hidden parts are left out, and guessed by the system."""
        assert observation.depth is not None
        raised = np.nan_to_num(np.nanmedian(observation.depth) - observation.depth) > 0.02
        labels, count = ndimage.label(ndimage.binary_opening(raised, iterations=2))
        sizes = ndimage.sum_labels(raised, labels, range(1, count + 1))
        large = [k + 1 for k, size in enumerate(sizes) if size > 300]
        ids = np.zeros(labels.shape, np.int32)
        for obj, label in enumerate(large, start=1):
            ids[labels == label] = obj
        objects = tuple(
            DetectedObject(obj, MaskCrop.from_mask(ids == obj)) for obj in range(1, len(large) + 1)
        )
        return Scene(observation, objects, ids)


def main() -> None:
    """Look with it and decide; nothing is promised for masks that were not tested."""
    system = cpor.System(segmenter=Lumps())
    view = system.look(SCENE / "rgb.png", SCENE / "depth.png")
    print(f"{len(view.seen.objects)} lumps")
    answer = system.decide(view, view.seen.ids[0])
    print(answer.action, "promised" if answer.promise else "not promised")


if __name__ == "__main__":
    main()
