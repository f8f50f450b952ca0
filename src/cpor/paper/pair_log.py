"""The score log of a perceived split: one row a pair of objects, enough for every table without a picture.

image, blocked, blocker   the pair, by ids of objects found; ids above those are of objects not found
prob_edge                 raw semantic score; empty: no answer
N_cand                    pairs that were scored in the image
label, label_occlusion    whether the relation holds, by occlusion or sweep, and by occlusion alone
p_geometry, reliability   raw geometric confidence and its gate; empty where geometry has no answer
asked                     0: a true relation of a pair that neither source looked at
target, tier              of the image; an empty target was not found
blocked_is, blocker_is    the true objects; empty: background, or an object not found
"""

import csv
import gzip
import io
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cpor.errors import InputFileError
from cpor.evidence import GeometricEvidence, PairState, geometric_evidence
from cpor.io.scene_folder import read_scene_folder
from cpor.model import FittedModel
from cpor.paper.perceived import Perceived, PerceivedCase
from cpor.pipeline import LEAST_RELIABILITY
from cpor.scene import BlockedBy, Scene
from cpor.truth import truth_of


class PairRow(NamedTuple):
    """One row; the head of this module says what the columns mean. NaN and None are empty cells."""

    image: str
    blocked: int
    blocker: int
    prob_edge: float
    N_cand: int
    label: bool
    label_occlusion: bool
    p_geometry: float
    reliability: float
    asked: bool
    target: int | None
    tier: str
    blocked_is: int | None
    blocker_is: int | None


@dataclass(frozen=True, eq=False)
class LoggedCase:
    """All rows of one image.

    Attributes:
        image: Its name.
        tier: How deep the target lies.
        target: Its id; None where it was not found.
        rows: The pairs.
    """

    image: str
    tier: str
    target: int | None
    rows: tuple[PairRow, ...]

    @property
    def objects(self) -> tuple[int, ...]:
        """Objects that were found and have a neighbour, and the target."""
        seen = {k for row in self.rows if row.asked for k in (row.blocked, row.blocker)}
        return tuple(sorted(seen | ({self.target} if self.target is not None else set())))

    def identity(self) -> dict[int, int]:
        """What each id truly is: a true object, or minus the id where it is none or was not found."""
        known: dict[int, int] = {}
        for row in self.rows:
            for k, true in ((row.blocked, row.blocked_is), (row.blocker, row.blocker_is)):
                known[k] = -k if true is None else true
        if self.target is not None:
            known.setdefault(self.target, -self.target)
        return known

    def truth(self, occlusion_only: bool) -> frozenset[BlockedBy]:
        """The true relations, by what the objects truly are."""
        true_of = self.identity()
        return frozenset(
            BlockedBy(true_of[row.blocked], true_of[row.blocker])
            for row in self.rows
            if (row.label_occlusion if occlusion_only else row.label)
        )


def log_pairs(
    perceived: Perceived,
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
    measure: Callable[[Scene], GeometricEvidence] = geometric_evidence,
) -> Iterator[PairRow]:
    """The rows of a perceived split, image by image, with the geometry of the model they are logged for."""
    for k, record in enumerate(perceived.records, start=1):
        yield from rows_of(read_scene_folder(perceived.folder / record.name), record, measure)
        progress("logging", k, len(perceived.records))


def rows_of(
    scene: Scene, record: PerceivedCase, measure: Callable[[Scene], GeometricEvidence] = geometric_evidence
) -> Iterator[PairRow]:
    """The rows of one image; where it has no pair at all, one that says so, so that it is not forgotten."""
    geometry = measure(scene)
    place = {label: k for k, label in enumerate(geometry.ids)}
    scores = scene.semantic_scores.scores if scene.semantic_scores else {}
    either, hides = truth_of(scene, "any").pairs, truth_of(scene, "occlusion").pairs
    touching = np.argwhere(geometry.state != PairState.NO_CONTACT)
    looked_at = {BlockedBy(geometry.ids[i], geometry.ids[j]) for i, j in touching} | scores.keys()
    known = geometry.is_candidate & (geometry.reliability >= LEAST_RELIABILITY)
    nothing = BlockedBy(record.target, record.target)
    for pair in sorted(looked_at | either) or [nothing]:
        p = gate = math.nan
        if pair in looked_at:
            i, j = place[pair.blocked], place[pair.blocker]
            gate = float(geometry.reliability[i, j])
            p = float(geometry.p_geometry[i, j]) if known[i, j] else math.nan
        score = scores.get(pair)
        yield PairRow(
            image=record.name,
            blocked=pair.blocked,
            blocker=pair.blocker,
            prob_edge=math.nan if score is None else score,
            N_cand=max(1, len(scores)),
            label=pair in either,
            label_occlusion=pair in hides,
            p_geometry=p,
            reliability=gate,
            asked=pair in looked_at,
            target=record.target if record.found else None,
            tier=record.tier,
            blocked_is=record.owner.get(pair.blocked),
            blocker_is=record.owner.get(pair.blocker),
        )


def write_pair_log(
    rows: Iterable[PairRow], path: Path, made_with: Mapping[str, str | None] | None = None
) -> None:
    """Write a log; compressed where the name ends in .gz. The same rows give the same bytes."""
    text = io.StringIO()
    if made_with is not None:
        text.write(f"# {json.dumps(made_with)}\n")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(PairRow._fields)
    writer.writerows([_cell(value) for value in row] for row in rows)
    content = text.getvalue().encode()
    path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)


def read_made_with(path: Path) -> dict[str, str | None] | None:
    """What made a log; None where it does not say."""
    first = _text_of(path).partition("\n")[0]
    if not first.startswith("# "):
        return None
    try:
        return dict(json.loads(first[2:]))
    except ValueError:
        raise InputFileError(f"{path}: the first line does not say what made the log; restore it") from None


def refuse_other_versions(path: Path, model: FittedModel) -> None:
    """Refuse a log of other networks than the model was fitted with.

    Raises:
        InputFileError: They differ, or the log does not say.
    """
    made, tested = read_made_with(path), model.tested_with
    wanted = None if tested is None else {"segmenter": tested.segmenter, "scorer": tested.scorer}
    if made is not None and wanted is not None and wanted.items() <= made.items():
        return
    said = "does not say what made it" if made is None else f"was made with {made}"
    raise InputFileError(
        f"{path} {said}, but the model was fitted with {wanted}; a table would mix versions. Make the "
        "log anew with `cpor experiment perception`, or accept it with --any-versions"
    )


def read_pair_log(path: Path) -> list[LoggedCase]:
    """The cases of a log, in its order.

    Raises:
        InputFileError: It cannot be read as one.
    """
    try:
        text = _text_of(path)
        table = text.partition("\n")[2] if text.startswith("# ") else text
        rows = [_read(row) for row in csv.DictReader(io.StringIO(table, newline=""))]
    except (OSError, EOFError, KeyError, TypeError, ValueError) as problem:
        raise InputFileError(
            f"{path} is no log of pairs ({problem}); `cpor experiment perception` writes one"
        ) from None
    if not rows:
        raise InputFileError(f"{path} has no rows below its header")
    cases = []
    for image, group in groupby(rows, key=lambda row: row.image):
        found = tuple(group)
        pairs = tuple(row for row in found if row.blocked != row.blocker)
        cases.append(LoggedCase(image, found[0].tier, found[0].target, pairs))
    return cases


def _text_of(path: Path) -> str:
    try:
        content = path.read_bytes()
        return (gzip.decompress(content) if path.suffix == ".gz" else content).decode("utf-8")
    except (OSError, EOFError, ValueError) as problem:
        raise InputFileError(
            f"{path} is no log of pairs ({problem}); `cpor experiment perception` writes one"
        ) from None


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.5g}"
    return "" if value is None else str(value)


_CELLS: Mapping[Any, Callable[[str], Any]] = {
    str: str,
    int: int,
    bool: lambda cell: cell == "1",
    float: lambda cell: float(cell) if cell else math.nan,
    int | None: lambda cell: int(cell) if cell else None,
}
"""How a cell is read, by the type of its column."""


def _read(row: dict[str, str]) -> PairRow:
    return PairRow(*(_CELLS[kind](row[name]) for name, kind in PairRow.__annotations__.items()))
