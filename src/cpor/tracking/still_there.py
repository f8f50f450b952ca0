"""What a segmenter misses in a look although it was seen in the one before and nothing of it has changed."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from cpor.scene import Scene
from cpor.tracking.looks import SAME_PIXELS, SHOWN, ObjectLook, find_in, same_pose


def add_still_there(
    known: Mapping[int, ObjectLook], before: Scene, seen: Scene
) -> tuple[Scene, dict[int, int]]:
    """The next look with the objects that are still there, though nobody found them; and who they are.

    A network names a thing in one frame and is not sure enough in the next. Its place, depth and colours say
    that it is there, so it counts with the mask it had: what was known does not become free by omission.

    Args:
        known: How each object looked in the look before; those that were taken away are not among them.
        before: That look.
        seen: The next one, as the segmenter made it.

    Returns:
        The look, and the known object that each new id of it is.
    """
    if seen.visible_ids is None or not same_pose(before.observation.camera, seen.observation.camera):
        return seen, {}
    objects, ids = list(seen.objects), seen.visible_ids.copy()
    as_before = {o.id: o for o in before.objects}
    added: dict[int, int] = {}
    for k, look in known.items():
        found = find_in(look, seen)
        if found.on.get(0, 0) < max(SHOWN * len(look.pixels), 1) or found.recoloured[0] > SAME_PIXELS:
            continue
        label = max((o.id for o in objects), default=0) + 1
        rows, cols = look.mask.pixels.shape
        place = ids[look.mask.top : look.mask.top + rows, look.mask.left : look.mask.left + cols]
        place[look.mask.pixels & (place == 0)] = label
        objects.append(replace(as_before[k], id=label))
        added[label] = k
    if not added:
        return seen, {}
    return replace(seen, objects=tuple(objects), visible_ids=np.asarray(ids, np.int32)), added
