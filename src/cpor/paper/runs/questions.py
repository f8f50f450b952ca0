"""From an item of a dataset to the questions it asks: scene, target, and the truth where it is known."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias, cast, get_args

import numpy as np
from pydantic import BaseModel, ConfigDict

from cpor.answer import Answer, DecideSettings, decide_given
from cpor.errors import CporError, FittingError, InvalidSceneError, SceneFileError, one_of
from cpor.infer.policy import MethodChoice
from cpor.io.scene_file import parse_scene
from cpor.io.whole_files import parse_strict
from cpor.learn.modes import DEFAULT_MODE, Mode
from cpor.learn.prior import shift_for_decoding
from cpor.paper.runs.dataset import FolderItem, FrameItem, Item, LineItem, LogItem
from cpor.paper.runs.record import TruthRecord, clean_text
from cpor.parts import GIVEN
from cpor.records import FileLabel, PairRecord
from cpor.relations import Label, ObstructionPosterior
from cpor.scene import BlockedBy, Scene
from cpor.system import System
from cpor.truth import right_actions

MissingScores: TypeAlias = Literal["error", "unobstructed"]
MISSING: tuple[MissingScores, ...] = get_args(MissingScores)


class RunSettings(BaseModel):
    """What a run is asked to do; nothing here but what changes its results.

    Attributes:
        mode: The risk setting.
        tau: Act above this score instead.
        method: Method of inference.
        segmenter, scorer: Names, as `System` takes them.
        model: Fingerprint of the file of the fitted model; None: the bundled one.
        seed: Seed of the target of each scene folder; only the folder's name counts beside it.
        all_targets: Ask for every object of a scene folder, one after the other.
        shift: Prior shift of a score log's scores, p' = sigmoid(logit p - logit shift); None: as they are.
        missing: What a case without any row in a score log is: an error, or a target with no candidate.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    mode: Mode = DEFAULT_MODE
    tau: float | None = None
    method: MethodChoice = "auto"
    segmenter: str | None = None
    scorer: str | None = None
    model: str | None = None
    seed: int = 0
    all_targets: bool = False
    shift: float | None = None
    missing: MissingScores = "error"

    def decide_given(self, posterior: ObstructionPosterior) -> Answer:
        """Decide from given probabilities."""
        return decide_given(posterior, mode=self.mode, tau=self.tau, settings=DecideSettings(self.method))


def parse_missing(name: str) -> MissingScores:
    """A treatment of missing predictions by its name."""
    return one_of("--missing", name, MISSING)


@dataclass(frozen=True, eq=False)
class CaseQuestion:
    """One case to decide.

    Attributes:
        case: Its name.
        image: What it shares with cases that are not independent of it.
        tier: Its difficulty.
        ask: Decides it.
        truth: What is right, where known.
    """

    case: str
    image: str | None
    tier: str | None
    ask: Callable[[], Answer]
    truth: TruthRecord | None


def item_name(item: Item) -> str:
    """What an item is called where it cannot be read."""
    if isinstance(item, FolderItem | FrameItem):
        return item.name
    return f"line {item.number}" if isinstance(item, LineItem) else str(item.case)


def questions(item: Item, system: System, settings: RunSettings) -> Iterator[CaseQuestion]:
    """The questions of an item, one for most.

    Raises:
        CporError: Where the item cannot be read; nothing is known of its cases then.
    """
    if isinstance(item, FolderItem | FrameItem):
        return _picture_questions(item, system, settings)
    if isinstance(item, LineItem):
        return iter((_line_question(item, settings),))
    return iter((_log_question(item, settings),))


def _picture_questions(
    item: FolderItem | FrameItem, system: System, settings: RunSettings
) -> Iterator[CaseQuestion]:
    view = system.look(Path(item.root, item.name) if isinstance(item, FolderItem) else item.read())
    scene = view.scene
    if not scene.ids:
        raise SceneFileError(f"{item.name} has no object to ask for")
    digest = hashlib.sha256(item.name.encode()).digest()
    rng = np.random.default_rng([settings.seed, *digest])
    targets = scene.ids if settings.all_targets else (int(rng.choice(scene.ids)),)
    how = DecideSettings(settings.method)
    for target in targets:
        ask = partial(system.decide, view, target, tau=settings.tau, settings=how)
        # Objects that were found here have other numbers than those of the truth.
        truth = _scene_truth(scene, target) if view.masks == GIVEN else None
        yield CaseQuestion(f"{item.name}/{target}", item.name, None, ask, truth)


def _scene_truth(scene: Scene, target: int) -> TruthRecord | None:
    """The truth of a scene whose objects were all labelled; of others it is not known."""
    truth = scene.true_occlusion
    if truth is None or not truth.objects.issuperset(scene.ids):
        return None
    return TruthRecord(
        right=tuple(sorted(right_actions(target, truth.pairs))),
        relations=tuple(PairRecord(**pair._asdict()) for pair in sorted(truth.pairs)),
    )


def _line_question(item: LineItem, settings: RunSettings) -> CaseQuestion:
    try:
        content = parse_strict(item.text)
        posterior = parse_scene(content)
        truth = content.get("truth")
        return CaseQuestion(
            _text(content, "id") or f"line {item.number}",
            _text(content, "image"),
            _text(content, "tier"),
            partial(settings.decide_given, posterior),
            None if truth is None else _parse_truth(truth, posterior.target),
        )
    except CporError as error:
        raise SceneFileError(f"line {item.number}: {error}") from None


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


def _log_question(item: LogItem, settings: RunSettings) -> CaseQuestion:
    if item.pairs is None and settings.missing == "error":
        raise FittingError(
            f"case {item.case} has no row in the scores, so it has no answer; "
            "--missing unobstructed counts it as free"
        )
    pairs = item.pairs or ()
    objects = sorted({item.target, *(label for pair, _ in pairs for label in pair)})
    truth = TruthRecord(
        right=item.right, relations=tuple(PairRecord(**pair._asdict()) for pair in item.relations)
    )
    posterior = ObstructionPosterior(objects, item.target, _shift(pairs, settings.shift))
    ask = partial(settings.decide_given, posterior)
    return CaseQuestion(str(item.case), item.image, item.tier, ask, truth)


_Scored: TypeAlias = tuple[tuple[Label, Label], float | None]


def _shift(pairs: Sequence[_Scored], shift: float | None) -> dict[tuple[Label, Label], float | None]:
    if shift is None:
        return dict(pairs)
    scores = np.array([np.nan if score is None else score for _, score in pairs], np.float64)
    shifted = shift_for_decoding(scores, shift).tolist()
    return {pair: None if score is None else p for (pair, score), p in zip(pairs, shifted, strict=True)}
