"""What a model is asked: all pairs of a scene at once with a rubric, or one pair with yes or no."""

from collections.abc import Mapping, Sequence

import numpy as np

from cpor.evidence import GeometricEvidence, PairState
from cpor.scene import BlockedBy, Scene
from cpor.semantics.reply_parser import list_schema

RELATIONS_SCHEMA = list_schema("relations", blocked="integer", blocker="integer", probability="integer")
"""What a reply about a scene looks like. Ranges are checked on reading: not every server takes them."""

SYSTEM = (
    "You look at photographs of cluttered objects for a robot that lifts one object at a time. You judge "
    "which objects are in the way of which. You say how sure you are, and your numbers are honest: of all "
    "the times you say 70, seven in ten are true."
)

_MEANING = (
    "Every object carries a badge with its number. A badge beside an object is joined to it by a line that "
    "ends on the object.\n\n"
    "Object B obstructs object A when B lies on A, leans on A, or hides a part of A from the camera, so that "
    "B has to be taken away before A can be lifted out. It is a matter of direction: B on A does not mean "
    "A on B. Objects that only stand beside each other do not obstruct each other."
)

_RUBRIC = (
    "Give each pair a probability, a whole number from 0 to 100:\n"
    "  0    they do not touch, and neither hides the other\n"
    "  10   they are close, but B is clearly not on top of A or in front of it\n"
    "  30   they touch, and B may cover a little of A; more likely not\n"
    "  50   one covers the other, and the picture does not tell which\n"
    "  70   B seems to cover a part of A\n"
    "  90   B clearly covers a part of A or rests on it\n"
    "  100  B lies on A beyond any doubt"
)


def scene_prompt(
    scene: Scene,
    number: Mapping[int, int],
    pairs: Sequence[BlockedBy],
    hypotheses: GeometricEvidence | None = None,
) -> str:
    """One prompt for all pairs of a scene, with badge numbers by object id and hints from geometry."""
    parts = [_MEANING, "Objects:\n" + "\n".join(_object_line(scene, number, label) for label in scene.ids)]
    if hypotheses is not None:
        parts.append(_hypotheses_table(number, pairs, hypotheses))
    parts.append(_RUBRIC)
    listed = "\n".join(f"  blocked {number[a]}, blocker {number[b]}" for a, b in pairs)
    parts.append(
        f"Judge each of these {len(pairs)} pairs, where `blocked` is A and `blocker` is B:\n{listed}\n\n"
        'Reply with JSON only: {"relations": [{"blocked": A, "blocker": B, "probability": number}, ...]}, '
        "with one entry for every pair listed, in that order, and no others."
    )
    return "\n\n".join(parts)


def pair_prompt(scene: Scene, number: Mapping[int, int], pair: BlockedBy) -> str:
    """One prompt for one pair, to be answered with yes or no."""
    names = {o.id: f" ({o.name})" if o.name else "" for o in scene.objects}
    a, b = pair
    return (
        f"{_MEANING}\n\nDoes object {number[b]}{names[b]} obstruct object {number[a]}{names[a]}, so that "
        f"object {number[b]} has to be taken away before object {number[a]}? Answer with one word, yes or no."
    )


def _object_line(scene: Scene, number: Mapping[int, int], label: int) -> str:
    name = next(o.name for o in scene.objects if o.id == label)
    return f"  {number[label]}: {name}" if name else f"  {number[label]}"


def _hypotheses_table(
    number: Mapping[int, int], pairs: Sequence[BlockedBy], geometry: GeometricEvidence
) -> str:
    place = {label: k for k, label in enumerate(geometry.ids)}
    lines = ["  blocked | blocker | share of A hidden where B shows | B is nearer to the camera"]
    for a, b in pairs:
        i, j = place[a], place[b]
        if geometry.state[i, j] == PairState.NO_CONTACT:
            continue
        hidden, order = geometry.hidden_overlap[i, j], geometry.depth_order[i, j]
        shown = "not known" if np.isnan(hidden) else f"{hidden:.0%}"
        known = geometry.reliability[i, j] > 0.0
        nearer = (
            "not known" if not known else "yes" if order > 0.1 else "no" if order < -0.1 else "about equal"
        )
        lines.append(f"  {number[a]} | {number[b]} | {shown} | {nearer}")
    if len(lines) == 1:
        return "A depth camera found no two objects that touch in the picture."
    head = (
        "A depth camera suggests the following. It can be wrong; trust what you see where you see it clearly."
    )
    return "\n".join([head, *lines])
