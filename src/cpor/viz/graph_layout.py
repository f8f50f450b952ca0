"""Where the objects of an obstruction graph stand: what obstructs above what it obstructs, few crossings."""

from collections import defaultdict
from collections.abc import Sequence

from cpor.experiments.runs.record import CaseRecord
from cpor.records.decision import FileLabel

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
        if relation.blocked not in _reached(above, relation.blocker):
            above[relation.blocked].append(relation.blocker)
    return above


def _reached(edges: Edges, start: FileLabel) -> set[FileLabel]:
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
