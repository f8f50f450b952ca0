"""Predictions on disk, in the forms that UNOGrasp's evaluator and the challenge read.

One JSON object a line, or one JSON list of them.

UNOGrasp: `image_id`, `query_object` and `model_output`, such as `<think>Path1: Object 4 is occluded by object
2.</think><answer>[2]</answer>`: one sentence a relation from the target outward; a free target is `Path1:
Object 4 is not occluded.` with itself as the answer. `model_output` may also be a plain list, or name points:
`a mug at (x, y) is occluded by a box at (x, y)` in <think>, `<points x y>box</points>` in <answer>. Without
`image_id`, `image` is a path with `image_000007` in it.

Challenge: `{"test_index": 2, "output": [3, 5]}`, or points `[[x, y], ...]` in pixels instead of ids.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from cpor.errors import InputFileError
from cpor.io.whole_files import write_text
from cpor.paper.paths import Prediction
from cpor.paper.unobench import UnobenchCase
from cpor.semantics.unograsp import FileAnswer, ProblemKind, id_list, parse_reply, whole_number

Instances: TypeAlias = Callable[[int], np.ndarray]
"""The instance map of an image, by its id."""

OFF_OBJECT = 0
"""The id a point on no object takes: the background, which is never a right answer."""

_ANSWER_TAG = re.compile(r"<answer>.*?</answer>", re.IGNORECASE | re.DOTALL)
_PLAIN_LIST = re.compile(r"\s*(?:```(?:json)?\s*)?(\[[^\]]*\])\s*(?:```\s*)?")
_XY = r"\((\d+(?:\.\d+)?),\s*(\d+(?:\.\d+)?)\)"
_POINT_RELATION = re.compile(rf"[^.:()]+? at {_XY} is occluded by [^.:()]+? at {_XY}", re.IGNORECASE)
_POINTS = re.compile(r"<points\s+(\d+(?:\.\d+)?)\s+(\d+(?:\.\d+)?)>", re.IGNORECASE)
_IMAGE_NAME = re.compile(r"image_(\d+)", re.IGNORECASE)


@dataclass(frozen=True)
class Problem:
    """Something in a prediction file that is not as it should be.

    Attributes:
        line: Its line, from 1.
        kind: `truncated_line` (no JSON object), `unknown_case` (not in the truth), `duplicate` (the last
            one counts), `no_tags` (neither <think> nor <answer>), `no_answer` (no readable objects),
            `no_path` (no readable path), `empty_answer` (an empty list, which scores 0), `off_object` (a
            point on no object, which counts as a wrong one).
        detail: What it says there.
    """

    line: int
    kind: ProblemKind
    detail: str


@dataclass(frozen=True)
class PredictionFile:
    """The answers of a file, by case index, and what was wrong in it.

    Attributes:
        answers: By case index; cases without any record are absent.
        problems: In the order of lines.
        has_paths: Whether the format holds paths at all; challenge files do not.
    """

    answers: Mapping[int, FileAnswer]
    problems: tuple[Problem, ...] = ()
    has_paths: bool = True


def think_and_answer(target: int, prediction: Prediction) -> str:
    """The reply that UNOGrasp's evaluator reads: reasoning along each path, then the objects."""
    parts = []
    for k, path in enumerate(prediction.paths, 1):
        outward = path[::-1]
        steps = [
            f"Object {blocked} is occluded by object {blocker}." for blocked, blocker in pairwise(outward)
        ]
        parts.append(f"Path{k}: {' '.join(steps) or f'Object {target} is not occluded.'}")
    return f"<think>{' '.join(parts)}</think><answer>{sorted(prediction.objects)}</answer>"


def write_unograsp(
    path: str | Path, cases: Sequence[UnobenchCase], predictions: Mapping[int, Prediction]
) -> None:
    """Write `predictions.jsonl` for UNOGrasp's evaluator; a case without prediction has no line."""
    records = (
        {
            "image_id": case.image_id,
            "query_object": case.target,
            "model_output": think_and_answer(case.target, predictions[case.index]),
        }
        for case in cases
        if case.index in predictions
    )
    write_text(Path(path), "".join(f"{json.dumps(record)}\n" for record in records))


def read_predictions(
    path: str | Path, cases: Sequence[UnobenchCase], instances: Instances | None = None
) -> PredictionFile:
    """Read anybody's predictions in any of the forms; what is wrong in a line is listed, not raised.

    Raises:
        InputFileError: The file cannot be read at all, holds no known form, or needs instance maps.
    """
    path = Path(path)
    try:
        lines = path.read_bytes().decode("utf-8-sig", errors="replace").split("\n")
    except OSError as problem:
        raise InputFileError(f"cannot read the predictions {path}: {problem.strerror}") from None
    reader = _Reader(path, cases, instances)
    for number, line in enumerate(_split_list(lines), 1):
        if line.strip():
            reader.read_line(number, line)
    if not reader.answers and not reader.recognised:
        raise InputFileError(
            f'{path} holds no prediction; each line is {{"image_id", "query_object", "model_output"}} or '
            '{"test_index", "output"}'
        )
    return PredictionFile(reader.answers, tuple(reader.problems), reader.has_paths)


@dataclass
class _Reader:
    path: Path
    cases: Sequence[UnobenchCase]
    instances: Instances | None
    answers: dict[int, FileAnswer] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    recognised: int = 0
    has_paths: bool = False

    def __post_init__(self) -> None:
        self.index = {(case.image_id, case.target): case.index for case in self.cases}

    def note(self, line: int, kind: ProblemKind, detail: object) -> None:
        self.problems.append(Problem(line, kind, str(detail)[:120]))

    def read_line(self, number: int, line: str) -> None:
        try:
            record = json.loads(line)
        except (json.JSONDecodeError, RecursionError):
            record = None
        if not isinstance(record, dict):
            self.note(number, "truncated_line", line.strip())
            return
        if "model_output" in record:
            self.recognised += 1
            key = (_image_id(record), whole_number(record.get("query_object")))
            found = None if None in key else self.index.get(key)  # type: ignore[arg-type]
            if found is None:
                self.note(number, "unknown_case", f"image {key[0]}, object {key[1]}")
                return
            answer = self.parse_reply(number, record["model_output"], self.cases[found].image_id)
        elif "test_index" in record and "output" in record:
            self.recognised += 1
            found = whole_number(record["test_index"])
            if found is None or found >= len(self.cases):
                self.note(number, "unknown_case", f"test_index {record['test_index']!r}")
                return
            answer = FileAnswer(self.parse_output(number, record["output"], self.cases[found].image_id), None)
        else:
            self.note(
                number, "truncated_line", f"neither model_output nor test_index and output: {line.strip()}"
            )
            return
        if found in self.answers:
            self.note(number, "duplicate", f"case {found} again")
        self.answers[found] = answer

    def parse_reply(self, number: int, reply: object, image_id: int) -> FileAnswer:
        if isinstance(reply, list):
            return FileAnswer(self.parse_output(number, reply, image_id), None)
        text = reply if isinstance(reply, str) else ""
        if (plain := _PLAIN_LIST.fullmatch(text)) and (objects := id_list(plain[1])) is not None:
            return FileAnswer(self.parse_output(number, sorted(objects), image_id), None)
        self.has_paths = True
        if _POINTS.search(text) or _POINT_RELATION.search(text):
            text = self.name_points(number, text, image_id)
        answer, kinds = parse_reply(text)
        for kind in kinds:
            self.note(number, kind, text or repr(reply))
        return answer

    def name_points(self, number: int, text: str, image_id: int) -> str:
        """The reply with the ids of the objects that its points hit."""

        def name(x: str, y: str) -> int:
            (hit,) = self.parse_output(number, [[float(x), float(y)]], image_id) or (OFF_OBJECT,)
            return hit

        text = _POINT_RELATION.sub(
            lambda m: f"Object {name(m[1], m[2])} is occluded by object {name(m[3], m[4])}", text
        )
        found = [name(x, y) for x, y in _POINTS.findall(text)]
        return _ANSWER_TAG.sub(f"<answer>{found}</answer>", text) if found else text

    def parse_output(self, number: int, output: Any, image_id: int) -> frozenset[int] | None:
        if not isinstance(output, list):
            self.note(number, "no_answer", output)
            return None
        if not output:
            self.note(number, "empty_answer", "output is []")
            return frozenset()
        ids = [whole_number(v) for v in output]
        if all(v is not None for v in ids):
            return frozenset(v for v in ids if v is not None)
        if not all(isinstance(v, list) and len(v) == 2 and all(_is_number(c) for c in v) for v in output):
            self.note(number, "no_answer", output)
            return None
        if self.instances is None:
            raise InputFileError(
                f"{self.path}, line {number}: points need the instance maps to tell which objects they hit; "
                "give the folder annotations/ (--annotations)"
            )
        image = self.instances(image_id)
        hits = set()
        for x, y in output:
            row, column = round(y), round(x)
            inside = 0 <= row < image.shape[0] and 0 <= column < image.shape[1]
            hit = int(image[row, column]) if inside else OFF_OBJECT
            if hit == OFF_OBJECT:
                self.note(number, "off_object", f"point {x}, {y}")
            hits.add(hit)
        return frozenset(hits)


def _split_list(lines: list[str]) -> list[str]:
    """The records of a file that is one JSON list, a line each; else the lines as they are."""
    if lines and lines[0].lstrip().startswith("["):
        try:
            return [json.dumps(record) for record in json.loads("\n".join(lines))]
        except (json.JSONDecodeError, RecursionError):
            pass  # each line is listed as damaged
    return lines


def _image_id(record: Mapping[str, Any]) -> int | None:
    known, name = record.get("image_id"), record.get("image")
    if known is None and isinstance(name, str) and (found := _IMAGE_NAME.search(name)):
        known = found[1]
    return whole_number(known)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e9
