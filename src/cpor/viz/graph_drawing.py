"""An obstruction graph as SVG: what may obstruct an object stands above it."""

import math
from collections import defaultdict
from collections.abc import Sequence
from html import escape
from typing import TypeAlias

from cpor.paper.runs.record import CaseRecord
from cpor.paper.runs.report import edges_on_cycles
from cpor.records import FileLabel, RelationRecord

_SWEEPS = 6
_A_ROW = 9

Edges = dict[FileLabel, list[FileLabel]]


def graph_rows(record: CaseRecord) -> list[list[FileLabel]]:
    """The objects in rows, the lowest first; long rows are broken.

    A contradiction has no above and below: the likeliest relations that admit an order decide.
    """
    above = _ordered_relations(record)
    below: Edges = defaultdict(list)
    for blocked, blockers in above.items():
        for blocker in blockers:
            below[blocker].append(blocked)
    level = _levels(record.objects, above, below)
    rows: list[list[FileLabel]] = [[] for _ in range(max(level.values()) + 1)]
    for label in record.objects:
        rows[level[label]].append(label)
    linked: Edges = defaultdict(list)
    for relation in record.relations:
        linked[relation.blocked].append(relation.blocker)
        linked[relation.blocker].append(relation.blocked)
    _untangle(rows, linked)
    return [row[k : k + _A_ROW] for row in rows for k in range(0, len(row), _A_ROW)]


def _ordered_relations(record: CaseRecord) -> Edges:
    """Blockers of each object, over relations taken by falling probability as long as none closes a cycle."""
    above: Edges = defaultdict(list)
    for relation in sorted(record.relations, key=lambda r: -(0.5 if r.p is None else r.p)):
        if relation.blocked not in _above(above, relation.blocker):
            above[relation.blocked].append(relation.blocker)
    return above


def _above(edges: Edges, start: FileLabel) -> set[FileLabel]:
    seen, todo = {start}, [start]
    while todo:
        todo.extend(more := [label for label in edges.get(todo.pop(), ()) if label not in seen])
        seen.update(more)
    return seen


def _levels(objects: Sequence[FileLabel], above: Edges, below: Edges) -> dict[FileLabel, int]:
    """One above the highest it obstructs; what obstructs nothing, right below its blockers."""
    level: dict[FileLabel, int] = {}
    waiting = {label: len(below[label]) for label in objects}
    ready = [label for label in objects if waiting[label] == 0]
    for label in ready:
        level[label] = max((level[under] + 1 for under in below[label]), default=0)
        for blocker in above.get(label, ()):
            waiting[blocker] -= 1
            if waiting[blocker] == 0:
                ready.append(blocker)
    for label in objects:
        if not below[label] and above.get(label):
            level[label] = min(level[blocker] for blocker in above[label]) - 1
    return level


def _untangle(rows: list[list[FileLabel]], linked: Edges) -> None:
    """Move each object to the mean place of its neighbours in other rows, up and down a few times."""
    for sweep in range(_SWEEPS):
        place = {label: k - (len(row) - 1) / 2 for row in rows for k, label in enumerate(row)}
        for row in rows if sweep % 2 == 0 else reversed(rows):
            inside = set(row)
            wish = {}
            for label in row:
                near = [place[other] for other in linked[label] if other not in inside]
                wish[label] = sum(near) / len(near) if near else place[label]
            row.sort(key=wish.__getitem__)
            place |= {label: k - (len(row) - 1) / 2 for k, label in enumerate(row)}


_STEP_X, _STEP_Y = 104, 78
_BOX_W, _BOX_H = 78, 28
_MARGIN = 12
_LETTERS = 10
_MOST_NUMBERS = 14
"""Above this many relations their probabilities are only shown when pointed at."""


_Place: TypeAlias = tuple[float, float, int]
"""x and y of the centre of a box, and the row it lies in."""


def draw_graph(record: CaseRecord) -> str:
    """The candidate relations of a case: thickness is probability, contradictions and the target marked.

    An arrow points from an object to what may obstruct it.
    """
    rows = graph_rows(record)
    widest = max(len(row) for row in rows)
    width = widest * _STEP_X + 2 * _MARGIN
    height = (len(rows) - 1) * _STEP_Y + _BOX_H + 2 * _MARGIN + 16
    places: dict[FileLabel, _Place] = {}
    for level, row in enumerate(rows):
        left = (width - len(row) * _STEP_X) / 2
        y = height - _MARGIN - 8 - _BOX_H / 2 - level * _STEP_Y
        for k, label in enumerate(row):
            places[label] = (left + (k + 0.5) * _STEP_X, y, level)
    cyclic = edges_on_cycles(record)
    numbers = len(record.relations) <= _MOST_NUMBERS
    counts = f"{len(record.objects)} objects, {len(record.relations)} relations"
    name = f"Obstruction graph of {record.case}: {counts}"
    parts = [f'<svg class="graph" viewBox="0 0 {width} {height}" role="img" aria-label="{escape(name)}">']
    true = {(pair.blocked, pair.blocker) for pair in (record.truth and record.truth.relations) or ()}
    both = {(relation.blocked, relation.blocker) for relation in record.relations}
    for k, relation in enumerate(record.relations):
        start, end = places[relation.blocked], places[relation.blocker]
        # Bent where it is long, or where the opposite arrow is drawn too.
        two_way = (relation.blocker, relation.blocked) in both
        bend = 40 if abs(end[2] - start[2]) != 1 else 26 if two_way else 0
        is_true = (relation.blocked, relation.blocker) in true
        parts.append(_edge(relation, start, end, bend, (k in cyclic, is_true), numbers))
    reached = _reached(record)
    parts += [_box(record, label, place, label in reached) for label, place in places.items()]
    return "\n".join([*parts, "</svg>"])


def _reached(record: CaseRecord) -> list[FileLabel | None]:
    """The objects that matter to the target."""
    found = [record.target]
    for label in found:
        for relation in record.relations:
            if relation.blocked == label and relation.blocker not in found:
                found.append(relation.blocker)
    return found


def _box(record: CaseRecord, label: FileLabel, place: _Place, matters: bool) -> str:
    decision = record.decision
    marks = [
        ("target", label == record.target),
        ("aside", not matters),
        ("chosen", decision is not None and decision.action.object == label),
        ("right", record.truth is not None and label in record.truth.right),
    ]
    style = " ".join(["box", *(name for name, holds in marks if holds)])
    text = str(label)
    short = text if len(text) <= _LETTERS else text[: _LETTERS - 1] + "…"
    said = [name for name, holds in marks if holds and name != "aside"]
    if decision is not None:
        said.append(f"score {decision.scores[str(label)]:.3f}")
    x, y = place[0] - _BOX_W / 2, place[1] - _BOX_H / 2
    ring = (
        f'<rect class="ring" x="{x - 4}" y="{y - 4}" width="{_BOX_W + 8}" height="{_BOX_H + 8}" rx="9"/>'
        if label == record.target
        else ""
    )
    tick = " ✓" if "right" in said else ""
    return (
        f'<g class="{style}"><title>{escape(text)}: {escape(", ".join(said))}</title>{ring}'
        f'<rect x="{x}" y="{y}" width="{_BOX_W}" height="{_BOX_H}" rx="6"/>'
        f'<text x="{place[0]}" y="{place[1] + 4}" text-anchor="middle">{escape(short)}{tick}</text></g>'
    )


def _edge(
    relation: RelationRecord, start: _Place, end: _Place, bend: float, marks: tuple[bool, bool], number: bool
) -> str:
    """An arrow from an object to what may obstruct it, bent to one side; `marks`: on a cycle, true."""
    (cyclic, is_true), p = marks, relation.p
    dx, dy = end[0] - start[0], end[1] - start[1]
    length = math.hypot(dx, dy)
    # To one side as seen along the arrow, so that two opposite arrows part.
    middle_x = (start[0] + end[0]) / 2 - dy / length * bend
    middle_y = (start[1] + end[1]) / 2 + dx / length * bend
    x1, y1 = _border(start, middle_x, middle_y, 1)
    x2, y2 = _border(end, middle_x, middle_y, 4)
    thick = 1.0 if p is None else 0.6 + 3.4 * p
    words = ("cycle", cyclic), ("gap", p is None), ("true", is_true)
    style = " ".join(["edge", *(word for word, holds in words if holds)])
    shown = "no answer" if p is None else f"{p:.3f}"
    said = f"{relation.blocker} obstructs {relation.blocked}: {shown}"
    said += (", on a cycle" if cyclic else "") + (", true" if is_true else "")
    angle = math.atan2(y2 - middle_y, x2 - middle_x)
    head = " ".join(
        f"{x2 - size * math.cos(angle + turn):.1f},{y2 - size * math.sin(angle + turn):.1f}"
        for size, turn in ((-3.0, 0.0), (6.0 + thick, 0.5), (6.0 + thick, -0.5))
    )
    text = ""
    if number:
        at_x, at_y = (x1 + 2 * middle_x + x2) / 4, (y1 + 2 * middle_y + y2) / 4
        short = ("?" if p is None else f"{p:.2f}") + (" ✓" if is_true else "")
        text = f'<text x="{at_x:.1f}" y="{at_y + 4:.1f}" text-anchor="middle">{short}</text>'
    return (
        f'<g class="{style}"><title>{escape(said)}</title>'
        f'<path d="M{x1:.1f} {y1:.1f}Q{middle_x:.1f} {middle_y:.1f} {x2:.1f} {y2:.1f}" '
        f'stroke-width="{thick:.2f}"/><polygon points="{head}"/>{text}</g>'
    )


def _border(place: _Place, toward_x: float, toward_y: float, gap: float) -> tuple[float, float]:
    """Where the line from a box's centre toward a point leaves the box, and a little further."""
    dx, dy = toward_x - place[0], toward_y - place[1]
    sides = ((_BOX_W / 2 + gap, dx), (_BOX_H / 2 + gap, dy))
    reach = min((half / abs(d) for half, d in sides if d), default=1.0)
    return place[0] + dx * min(reach, 1.0), place[1] + dy * min(reach, 1.0)
