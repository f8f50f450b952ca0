"""UNOBench as released: truth and instance maps; and logs of relation scores in the authors' form.

Truth: a JSON list or one JSON object a line, with `image_id`, `query_object`, `occlusion_paths` (top
first), `top_objects` and two tier fields: `difficulty` (the paper's Easy / Medium / Hard) and
`new_difficulty` (UNOBench's own No-Occ / Easy / Medium / Hard), which are never mixed here.
"""

import csv
import gzip
import io
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Int32

from cpor.errors import InputFileError, list_labels
from cpor.paper.paths import relations_on
from cpor.scene import BlockedBy

SCORE_COLUMNS = ("sample_id", "edge", "edge_confidence", "label")
SOURCE_COLUMNS = ("prob_edge", "N_cand", "p_geometry", "reliability")
"""Columns that a log may have beside: what was fused."""

GZIP = b"\x1f\x8b"
_IMAGE_NAME = re.compile(r"image_(\d+)", re.IGNORECASE)
_EDGE = re.compile(r"\s*(\d+)\s*->\s*(\d+)\s*")


@dataclass(frozen=True)
class UnobenchCase:
    """One target in one image, and the truth about it.

    Attributes:
        index: Its line, from 0; the `sample_id` of score logs and `test_index` of challenge files.
        image_id: Which image; cases share images.
        target: X, the `query_object`.
        paths: True paths, top first; `((target,),)` where it is free.
        top_objects: Objects that are right to act on next.
        difficulty: The paper's tier.
        new_difficulty: UNOBench's own tier.
    """

    index: int
    image_id: int
    target: int
    paths: tuple[tuple[int, ...], ...]
    top_objects: frozenset[int]
    difficulty: str | None = None
    new_difficulty: str | None = None
    relations: frozenset[BlockedBy] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "relations", relations_on(self.paths))


@dataclass(frozen=True, eq=False)
class FusedScores:
    """The rows of a log of fused relation scores, as they stand.

    Attributes:
        case: `sample_id`: the line of the truth each row belongs to. Shape (n,).
        blocked: Shape (n,).
        blocker: Shape (n,).
        p: Fused probability; NaN where the cell is empty: no answer. Shape (n,).
        label: Whether the relation lies on this target's true paths. Shape (n,).
        sources: What was fused, by SOURCE_COLUMNS: raw semantic score, number of pairs scored in the scene,
            geometric confidence and its gate; NaN: no answer. Empty where the log has fused scores alone.
            Each of shape (n,).
    """

    case: Int[np.ndarray, " n"]
    blocked: Int[np.ndarray, " n"]
    blocker: Int[np.ndarray, " n"]
    p: Float[np.ndarray, " n"]
    label: Bool[np.ndarray, " n"]
    sources: Mapping[str, Float[np.ndarray, " n"]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.p)

    def by_case(self) -> dict[int, dict[BlockedBy, float | None]]:
        """Relations of each case: self-loops dropped, of duplicates the larger kept, None for no answer."""
        cases: dict[int, dict[BlockedBy, float | None]] = {}
        columns = (self.case, self.blocked, self.blocker, self.p)
        for case, blocked, blocker, p in zip(*(c.tolist() for c in columns), strict=True):
            if blocked == blocker:
                continue
            pairs = cases.setdefault(case, {})
            pair = BlockedBy(blocked, blocker)
            known = pairs.get(pair)
            if math.isnan(p):
                pairs.setdefault(pair, None)
            else:
                pairs[pair] = p if known is None else max(p, known)
        return cases


def read_truth(path: str | Path) -> tuple[UnobenchCase, ...]:
    """Read ground truth, a JSON list or one JSON object a line; line k is case k.

    Raises:
        InputFileError: With file, line and remedy.
    """
    path = Path(path)
    cases = []
    for index, (where, record) in enumerate(_records(path)):
        if record.get("sample_id", index) != index:
            raise InputFileError(
                f"{where}: sample_id is {record['sample_id']}, but case {index} stands here; a line is "
                "missing or out of order, restore the released file"
            )
        cases.append(_read_case(where, index, record))
    if not cases:
        raise InputFileError(f"{path} has no cases; give UNOBench's ground truth, JSON or JSON lines")
    seen: dict[tuple[int, int], int] = {}
    for case in cases:
        first = seen.setdefault((case.image_id, case.target), case.index)
        if first != case.index:
            raise InputFileError(
                f"{path}: cases {first} and {case.index} both ask for object {case.target} of image "
                f"{case.image_id}; keep one"
            )
    return tuple(cases)


def read_fused_scores(path: str | Path, n_cases: int | None = None) -> FusedScores:
    """Read a log of relation scores: `sample_id`, `edge`, `edge_confidence`, `label`.

    `A->B` there means that A obstructs B, so blocked is B and blocker is A. The SOURCE_COLUMNS are read where
    all of them are there.

    Raises:
        InputFileError: With file, line and remedy.
    """
    path = Path(path)
    rows: list[tuple[int, int, int, float, bool]] = []
    beside: list[tuple[float, ...]] = []
    try:
        content = path.read_bytes()
        text = gzip.decompress(content) if content.startswith(GZIP) else content
        reader = csv.DictReader(io.StringIO(text.decode("utf-8-sig"), newline=""))
        columns = reader.fieldnames or []
        missing = [name for name in SCORE_COLUMNS if name not in columns]
        if missing:
            raise InputFileError(
                f"{path} has no column {missing[0]!r}; it needs {list_labels(SCORE_COLUMNS)}, it has: "
                f"{list_labels(columns or ['nothing'])}"
            )
        whole = set(SOURCE_COLUMNS) <= set(columns)
        for row in reader:
            where = f"{path}, line {reader.line_num}"
            rows.append(_read_score(where, row, n_cases))
            if whole:
                beside.append(
                    tuple(_number(where, name, row[name], name != "N_cand") for name in SOURCE_COLUMNS)
                )
    except (OSError, EOFError, UnicodeDecodeError, csv.Error) as problem:
        raise InputFileError(f"cannot read the scores {path}: {problem}") from None
    if not rows:
        raise InputFileError(f"{path} has no rows below its header")
    case, blocked, blocker, p, label = zip(*rows, strict=True)
    sources = dict(zip(SOURCE_COLUMNS, np.array(beside, np.float64).T, strict=True)) if beside else {}
    return FusedScores(
        np.array(case), np.array(blocked), np.array(blocker), np.array(p), np.array(label, np.bool_), sources
    )


def read_instances(path: str | Path) -> Int32[np.ndarray, "h w"]:
    """Read an instance map `annotations/image_000123.npy`: the id each pixel shows, 0 = background.

    Raises:
        InputFileError: With file and remedy.
    """
    path = Path(path)
    try:
        ids = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as problem:
        raise InputFileError(f"cannot read the instance map {path}: {problem}") from None
    if not isinstance(ids, np.ndarray) or ids.ndim != 2 or not np.issubdtype(ids.dtype, np.number):
        raise InputFileError(f"{path} is not an (h, w) image of ids; give a file of annotations/")
    whole = np.rint(ids.astype(np.float64))
    if not np.array_equal(whole, ids) or whole.min(initial=0) < 0 or whole.max(initial=0) > 65535:
        raise InputFileError(f"{path} holds values that are not ids from 0 to 65535")
    return whole.astype(np.int32)


def instance_reader(folder: str | Path) -> Callable[[int], Int32[np.ndarray, "h w"]]:
    """A function that reads the instance map of an image from a folder `annotations/`, by image id."""
    return lambda image_id: read_instances(Path(folder) / f"image_{image_id:06d}.npy")


def _records(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The JSON objects of a file with where each stands: a list, or one a line."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as problem:
        raise InputFileError(f"cannot read {path}: {problem}") from None
    if text.lstrip().startswith("["):
        try:
            entries = [(f"{path}, entry {k}", entry) for k, entry in enumerate(json.loads(text))]
        except (json.JSONDecodeError, RecursionError) as problem:
            raise InputFileError(
                f"{path} is not a JSON list ({problem}); restore the released file"
            ) from None
    else:
        entries = []
        for number, line in enumerate(text.splitlines(), 1):
            if not line.strip():
                continue
            where = f"{path}, line {number}"
            try:
                entries.append((where, json.loads(line)))
            except (json.JSONDecodeError, RecursionError) as problem:
                raise InputFileError(f"{where}: not JSON ({problem}); each line is one JSON object") from None
    for where, entry in entries:
        if not isinstance(entry, dict):
            raise InputFileError(f"{where}: expected a JSON object, got {type(entry).__name__}")
        yield where, entry


def _read_case(where: str, index: int, record: Mapping[str, Any]) -> UnobenchCase:
    target = _integer(where, "query_object", record.get("query_object"))
    image = record.get("image_id")
    if image is None and isinstance(name := record.get("image"), str) and (found := _IMAGE_NAME.search(name)):
        image = int(found[1])
    paths = record.get("occlusion_paths")
    if not isinstance(paths, list) or not all(isinstance(path, list) and path for path in paths):
        raise InputFileError(
            f"{where}: occlusion_paths must be a list of lists of ids, top first; [[{target}]] if it is free"
        )
    read = tuple(tuple(_integer(where, "occlusion_paths", v) for v in path) for path in paths)
    for path in read:
        if path[-1] != target or len(set(path)) < len(path):
            raise InputFileError(
                f"{where}: the path {list(path)} must end at the query object {target} and visit no object "
                "twice"
            )
    read = read or ((target,),)
    tops = record.get("top_objects", [path[0] for path in read])
    if not isinstance(tops, list) or not tops:
        raise InputFileError(f"{where}: top_objects must be a list of ids; [{target}] if it is free")
    return UnobenchCase(
        index,
        _integer(where, "image_id", image),
        target,
        read,
        frozenset(_integer(where, "top_objects", v) for v in tops),
        _tier(where, record, "difficulty"),
        _tier(where, record, "new_difficulty"),
    )


def _tier(where: str, record: Mapping[str, Any], name: str) -> str | None:
    tier = record.get(name)
    known = ("Easy", "Medium", "Hard") if name == "difficulty" else ("No-Occ", "Easy", "Medium", "Hard")
    if tier is not None and tier not in known:
        raise InputFileError(f"{where}: {name} is {tier!r}; it must be one of: {list_labels(known)}")
    return tier


def _integer(where: str, name: str, value: object) -> int:
    if isinstance(value, str) and value.strip().isdecimal():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InputFileError(f"{where}: {name} is {value!r}; give a whole number")
    return value


def _read_score(
    where: str, row: Mapping[str, str | None], n_cases: int | None
) -> tuple[int, int, int, float, bool]:
    cells = [row[name] for name in SCORE_COLUMNS]
    if any(cell is None for cell in cells):
        raise InputFileError(f"{where}: fewer cells than the header has columns; the line is cut short")
    sample, edge, score, label = (str(cell).strip() for cell in cells)
    case = _integer(where, "sample_id", sample)
    if n_cases is not None and case >= n_cases:
        raise InputFileError(
            f"{where}: sample_id is {case}, but the truth has cases 0 to {n_cases - 1}; do the files belong "
            "together?"
        )
    found = _EDGE.fullmatch(edge)
    if not found:
        raise InputFileError(f"{where}: edge is {edge!r}; write '3->1' where 3 obstructs 1")
    p = _number(where, "edge_confidence", score)
    if label not in ("0", "1"):
        raise InputFileError(f"{where}: label is {label!r}; it must be 0 or 1")
    return case, int(found[2]), int(found[1]), p, label == "1"


def _number(where: str, name: str, text: str | None, share: bool = True) -> float:
    """A cell that may be empty, which is NaN."""
    cell = "" if text is None else text.strip()
    if cell == "":
        return math.nan
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not 0.0 <= value <= (1.0 if share else math.inf):
        limits = "in [0, 1]" if share else "of at least 0"
        raise InputFileError(f"{where}: {name} is {cell!r}; give a number {limits}, or nothing for no answer")
    return value
