"""Which object an answered badge number or point means (SPEC section 2, the paper's matching rule)."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from cpor.scene import PixelPoint, Scene
from cpor.words.grounding import object_centres

NEAREST_CENTROID_PX = 120.0
"""A point in no mask means the object whose centre is nearest, within this distance, as in the paper. [px]"""


def match_point(scene: Scene, point: PixelPoint) -> int | None:
    """The object a point in a reply means; None where it means none, or may mean several.

    In its visible mask, else in its amodal mask, else with the nearest centre: a model points at numbers that
    were drawn beside things.
    """
    height, width = scene.observation.shape
    if not (0.0 <= point.x < width and 0.0 <= point.y < height):
        return None
    row, col = int(point.y), int(point.x)
    if scene.visible_ids is not None and (shown := int(scene.visible_ids[row, col])):
        return shown
    inside = []
    for o in scene.objects:
        if o.amodal is not None:
            y, x = row - o.amodal.top, col - o.amodal.left
            rows, cols = o.amodal.pixels.shape
            if 0 <= y < rows and 0 <= x < cols and o.amodal.pixels[y, x]:
                inside.append(o.id)
    if inside:
        return inside[0] if len(inside) == 1 else None
    distance = {k: np.hypot(c.x - point.x, c.y - point.y) for k, c in object_centres(scene).items()}
    nearest = min(distance, key=distance.__getitem__, default=None)
    return nearest if nearest is not None and distance[nearest] <= NEAREST_CENTROID_PX else None


@dataclass(frozen=True)
class NumberedMarks:
    """The numbers that objects carry in a picture, and how points in a reply are meant.

    Attributes:
        scene: The scene.
        number: Badge number of each object id.
        scale: Size of the picture sent relative to the scene's image.
        points: `pixels`: [x, y] in pixels of the picture sent. `thousandths`: [y, x] in thousandths of its
            height and width, as Gemini Robotics-ER gives them.
    """

    scene: Scene
    number: Mapping[int, int]
    scale: float = 1.0
    points: str = "pixels"

    def object_of(self, answer: object) -> int | None:
        """The object that a number, its text, or a point in a reply means; None where it means none."""
        if isinstance(answer, bool):
            return None
        if isinstance(answer, float) and answer.is_integer():
            answer = int(answer)
        if isinstance(answer, str):
            digits = answer.strip().lower().removeprefix("object").removeprefix("badge").strip(" #")
            answer = int(digits) if digits.isdecimal() and digits.isascii() and len(digits) < 6 else None
        if isinstance(answer, int):
            return next((label for label, number in self.number.items() if number == answer), None)
        if isinstance(answer, list) and len(answer) == 2 and all(_is_number(v) for v in answer):
            (first, second), (height, width) = answer, self.scene.observation.shape
            if self.points == "thousandths":
                place = PixelPoint(second * width / 1000.0, first * height / 1000.0)
            else:
                place = PixelPoint(first / self.scale, second / self.scale)
            return match_point(self.scene, place)
        return None


def number_objects(scene: Scene) -> dict[int, int]:
    """Badge number by object id: the id itself where all are short, else 1 to n."""
    if all(label < 100 for label in scene.ids):
        return {label: label for label in scene.ids}
    return {label: k for k, label in enumerate(scene.ids, 1)}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e9
