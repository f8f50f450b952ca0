"""From an item of a dataset to the questions it asks: scene, target, and the truth where it is known."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, cast, get_args

import numpy as np

from cpor.data.scene_file import parse_scene
from cpor.data.scene_folder import read_scene_folder
from cpor.errors import CporError, InvalidSceneError, InvalidSettingError, SceneFileError
from cpor.experiments.runs.dataset import FolderItem, Item, LineItem, LogItem
from cpor.experiments.runs.record import FileLabel, PairRecord, TruthRecord, clean_text
from cpor.fusion.prior import shift_for_decoding
from cpor.pipeline import Pipeline
from cpor.relations import Label, ObstructionPosterior
from cpor.scene import BlockedBy, Scene
from cpor.truth import right_actions

Missing: TypeAlias = Literal["error", "unobstructed"]
MISSING: tuple[str, ...] = get_args(Missing)


class MissingPredictionError(CporError, ValueError):
    """A case of which the scores say nothing."""


@dataclass(frozen=True)
class QuestionSettings:
    """How items become questions.

    Attributes:
        seed: Of the target of each scene folder; it depends on the folder's name and on nothing else.
        all_targets: Ask for every object of a scene folder, one after the other.
        shift: Prior shift of a score log's scores, p' = sigmoid(logit p - logit shift); None: as they are.
        missing: What a case without any row in a score log is: an error, or a target with no candidate.
    """

    seed: int = 0
    all_targets: bool = False
    shift: float | None = None
    missing: Missing = "error"

    def __post_init__(self) -> None:
        if self.shift is not None and not 0.0 < self.shift < 1.0:
            raise InvalidSettingError(f"the shift is {self.shift}; it must lie between 0 and 1")
        if self.seed < 0:
            raise InvalidSettingError(f"the seed is {self.seed}; give 0 or more")
        parse_missing(self.missing)


def parse_missing(name: str) -> Missing:
    """A treatment of missing predictions by its name."""
    if name not in MISSING:
        raise InvalidSettingError(f"unknown --missing {name!r}; choose one of: {', '.join(MISSING)}")
    return cast(Missing, name)


@dataclass(frozen=True, eq=False)
class CaseQuestion:
    """One case to decide.

    Attributes:
        case: Its name.
        image: What it shares with cases that are not independent of it.
        tier: Its difficulty.
        posterior: Objects, target and relation probabilities.
        truth: What is right, where known.
    """

    case: str
    image: str | None
    tier: str | None
    posterior: ObstructionPosterior
    truth: TruthRecord | None


def item_name(item: Item) -> str:
    """What an item is called where it cannot be read."""
    if isinstance(item, FolderItem):
        return item.name
    return f"line {item.number}" if isinstance(item, LineItem) else str(item.case)


def questions(item: Item, pipeline: Pipeline, settings: QuestionSettings) -> Iterator[CaseQuestion]:
    """The questions of an item, one for most.

    Raises:
        CporError: Where the item cannot be read; nothing is known of its cases then.
    """
    if isinstance(item, FolderItem):
        return _folder_questions(item, pipeline, settings)
    return iter((_line_question(item) if isinstance(item, LineItem) else _log_question(item, settings),))


def _folder_questions(
    item: FolderItem, pipeline: Pipeline, settings: QuestionSettings
) -> Iterator[CaseQuestion]:
    scene = read_scene_folder(Path(item.root, item.name))
    if scene.visible_ids is None:
        raise SceneFileError(f"{item.name} has no instances.png; a decision from a folder needs masks")
    if not scene.ids:
        raise SceneFileError(f"{item.name} has no object to ask for")
    digest = hashlib.sha256(item.name.encode()).digest()
    rng = np.random.default_rng([settings.seed, *digest])
    targets = scene.ids if settings.all_targets else (int(rng.choice(scene.ids)),)
    beliefs = pipeline.believe(scene)
    for target in targets:
        posterior = pipeline.posterior(beliefs, target)
        name = f"{item.name}/{target}"
        yield CaseQuestion(name, item.name, None, posterior, _scene_truth(scene, target))


def _scene_truth(scene: Scene, target: int) -> TruthRecord | None:
    """The truth of a scene whose objects were all labelled; of others it is not known."""
    truth = scene.true_occlusion
    if truth is None or not truth.objects.issuperset(scene.ids):
        return None
    return TruthRecord(
        right=tuple(sorted(right_actions(target, truth.pairs))),
        relations=tuple(PairRecord(**pair._asdict()) for pair in sorted(truth.pairs)),
    )


def _line_question(item: LineItem) -> CaseQuestion:
    try:
        content = json.loads(item.text.decode(), object_pairs_hook=_refuse_repeats)
        posterior = parse_scene(content)
        truth = content.get("truth")
        return CaseQuestion(
            _text(content, "id") or f"line {item.number}",
            _text(content, "image"),
            _text(content, "tier"),
            posterior,
            None if truth is None else _parse_truth(truth, posterior.target),
        )
    except CporError as error:
        raise SceneFileError(f"line {item.number}: {error}") from None
    except (ValueError, RecursionError) as error:  # not UTF-8, or not JSON
        raise SceneFileError(f"line {item.number} is not JSON: {error}") from None


def _refuse_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Of a key given twice, JSON readers keep the last in silence; a lost relation must not read as none."""
    content = dict(pairs)
    if len(content) < len(pairs):
        raise InvalidSceneError("a key is given twice in one object; keep one")
    return content


def _text(content: dict[str, object], key: str) -> str | None:
    value = content.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise InvalidSceneError(f'"{key}" must be text or a whole number, got {json.dumps(value)}')
    if (text := str(value)) != clean_text(text):
        raise InvalidSceneError(f'"{key}" is no valid text: it holds half of a surrogate pair')
    return text


_TRUTH = '{"relations": [{"blocked": ..., "blocker": ...}]} or {"top_objects": [...]}, or both'


def _parse_truth(content: object, target: Label) -> TruthRecord:
    """The truth of a line; what is right next is `top_objects` where given, else it follows."""
    if not isinstance(content, dict) or not content.keys() & {"relations", "top_objects"}:
        raise InvalidSceneError(f'"truth" must be {_TRUTH}')
    relations, right = content.get("relations"), content.get("top_objects")
    pairs = None if relations is None else [_parse_pair(pair) for pair in _list(relations, "relations")]
    if right is None:
        right = _follow(cast(FileLabel, target), pairs or [])
    try:
        record = TruthRecord(
            right=tuple(_list(right, "top_objects")), relations=None if pairs is None else tuple(pairs)
        )
    except ValueError:
        raise InvalidSceneError('"truth" "top_objects" must list labels: strings or numbers') from None
    if any(clean_text(str(label)) != str(label) for label in record.right):
        raise InvalidSceneError('"truth" holds a label that is no valid text')
    if not record.right and pairs is None:
        raise InvalidSceneError('"truth" "top_objects" is empty; an unobstructed target is its own')
    return record


def _list(value: object, key: str) -> list[FileLabel]:
    if not isinstance(value, list):
        raise InvalidSceneError(f'"truth" "{key}" must be a list')
    return value


def _parse_pair(pair: object) -> PairRecord:
    try:
        found = PairRecord.model_validate(pair)
    except ValueError:
        raise InvalidSceneError(f'"truth" "relations" holds {json.dumps(pair)}; expected {_TRUTH}') from None
    if any(clean_text(str(label)) != str(label) for label in (found.blocked, found.blocker)):
        raise InvalidSceneError('"truth" holds a label that is no valid text')
    if found.blocked == found.blocker:
        raise InvalidSceneError(f'"truth" says that {found.blocked!r} obstructs itself')
    return found


def _follow(target: FileLabel, pairs: Iterable[PairRecord]) -> list[FileLabel]:
    """What is right next under true relations; labels may name objects that were not detected."""
    labels: dict[FileLabel, int] = {target: 0}
    for pair in pairs:
        labels.setdefault(pair.blocked, len(labels))
        labels.setdefault(pair.blocker, len(labels))
    truth = {BlockedBy(labels[pair.blocked], labels[pair.blocker]) for pair in pairs}
    names = list(labels)
    return [names[k] for k in sorted(right_actions(0, truth))]


def _log_question(item: LogItem, settings: QuestionSettings) -> CaseQuestion:
    if item.pairs is None and settings.missing == "error":
        raise MissingPredictionError(
            f"case {item.case} has no row in the scores: no answer, which is not 'unobstructed'; "
            "--missing unobstructed reads it so"
        )
    pairs = item.pairs or ()
    objects = sorted({item.target, *(label for pair, _ in pairs for label in pair)})
    truth = TruthRecord(
        right=item.right, relations=tuple(PairRecord(**pair._asdict()) for pair in item.relations)
    )
    posterior = ObstructionPosterior(objects, item.target, _shift(pairs, settings.shift))
    return CaseQuestion(str(item.case), item.image, item.tier, posterior, truth)


_Scored: TypeAlias = tuple[tuple[Label, Label], float | None]


def _shift(pairs: Sequence[_Scored], shift: float | None) -> dict[tuple[Label, Label], float | None]:
    if shift is None:
        return dict(pairs)
    scores = np.array([np.nan if score is None else score for _, score in pairs], np.float64)
    shifted = shift_for_decoding(scores, shift).tolist()
    return {pair: None if score is None else p for (pair, score), p in zip(pairs, shifted, strict=True)}
