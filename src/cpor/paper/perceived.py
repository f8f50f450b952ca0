"""A labelled split as a segmenter and our scorer see it: the same frames, found objects, translated truth.

    DIR/manifest.json      as in the split, with the target's id among the objects found; written last
    DIR/perception.json    source of masks and of scores
    DIR/scene_00000/ …     scene folders to fit and decide with
    DIR/records/ …         for each scene which object is which, and the quality of its masks

A target that was not found keeps an id that no found object has: such a case is lost, and counts as wrong.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from cpor.errors import InputFileError, InvalidSettingError
from cpor.io.pool import Pool
from cpor.io.scene_folder import read_scene_folder, write_scene_folder
from cpor.io.whole_files import open_resumable
from cpor.paper.segmentation import FrameQuality, frame_quality
from cpor.parts import NONE
from cpor.perception.onnx_segmenter import OnnxSegmenter
from cpor.perception.segmenter import Segmenter
from cpor.scene import Scene
from cpor.semantics.embedded import EmbeddedScorer
from cpor.sim.dataset.manifest import MANIFEST, CaseEntry, encode_manifest, read_manifest
from cpor.sim.dataset.recognition import Recognition
from cpor.sources import fingerprint
from cpor.system import System

SegmenterKind: TypeAlias = Literal["ours", "given", "depth"]
SEGMENTERS: tuple[SegmenterKind, ...] = get_args(SegmenterKind)
"""Our network, the true masks that the split has, the classical one."""

ABOUT = "perception.json"
RECORDS = "records"


class PerceptionSettings(BaseModel):
    """How a split is perceived.

    Attributes:
        segmenter: Source of the masks.
        scorer: Whether our scorer scores the pairs that lie near each other.
        segmenter_file, scorer_file: Other networks than ours.
    """

    model_config = ConfigDict(frozen=True)

    segmenter: SegmenterKind = "ours"
    scorer: bool = True
    segmenter_file: Path | None = None
    scorer_file: Path | None = None

    def system(self) -> System:
        """What looks at the split; networks are read once a process."""
        return _system(self)

    def names(self) -> dict[str, str | None]:
        """What masks and scores are called, down to the weights."""
        parts = self.system().parts
        masks = fingerprint(parts.segmenter) if self.segmenter == "ours" else self.segmenter
        return {"masks": masks, "scorer": fingerprint(parts.scorer) if self.scorer else None}


class PerceivedCase(BaseModel):
    """What was perceived of one case.

    Attributes:
        name, tier: Name and tier of the case.
        target: Its id among the objects found, or one that none has.
        found: Whether it was found.
        owner: The true object that each found one is; None: background.
        quality: Quality of the masks.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    tier: str
    target: int
    found: bool
    owner: dict[int, int | None]
    quality: FrameQuality


@dataclass(frozen=True, eq=False)
class Perceived:
    """A perceived split.

    Attributes:
        folder: Where it lies.
        masks, scorer: Source of masks and scores; there may be no scorer.
        records: One a case, in the order of the manifest.
    """

    folder: Path
    masks: str
    scorer: str | None
    records: tuple[PerceivedCase, ...]


def perceive_split(
    split: Path,
    out: Path,
    settings: PerceptionSettings | None = None,
    workers: int = 1,
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
    engine: str = "local",
) -> Perceived:
    """Perceive every case of a split; called again, it goes on where it stopped.

    Raises:
        InputFileError: The folder holds another perception, or another process writes to it.
    """
    settings = settings or PerceptionSettings()
    manifest = read_manifest(split)
    about = {"split": manifest.split, "n": len(manifest.cases), **settings.names()}
    pool = Pool(workers, engine)
    with open_resumable(out, ABOUT, RECORDS) as folder:
        folder.claim(about)
        done = {case.name: record for case in manifest.cases if (record := _finished(out, case)) is not None}
        todo = [case for case in manifest.cases if case.name not in done]
        progress("perceiving", len(done), len(manifest.cases))
        for case, record in pool.do_all(partial(_perceive, split=split, out=out, settings=settings), todo):
            folder.keep(f"{case.name}.json", _RECORD.dump_json(record))
            done[case.name] = record
            progress("perceiving", len(done), len(manifest.cases))
        cases = [case.model_copy(update={"target": done[case.name].target}) for case in manifest.cases]
        content = encode_manifest(manifest.model_copy(update={"cases": cases}))
        folder.finish(MANIFEST, content, keep_pieces=True)
    return read_perceived(out)


def read_perceived(folder: Path) -> Perceived:
    """A split that was perceived earlier.

    Raises:
        InputFileError: There is none.
    """
    try:
        about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
        records = [_read_record(folder, case.name) for case in read_manifest(folder).cases]
    except (OSError, ValidationError) as error:
        raise InputFileError(
            f"{folder} holds no perceived split ({error}); `cpor experiment perception` makes one"
        ) from error
    return Perceived(folder, about["masks"], about["scorer"], tuple(records))


def see(scene: Scene, settings: PerceptionSettings) -> tuple[Scene, Recognition]:
    """A labelled scene as the segmenter and the scorer see it, and the true object that each one is."""
    if scene.visible_ids is None or scene.true_occlusion is None or scene.true_sweep is None:
        raise InvalidSettingError(
            "a split to perceive needs true masks, relations.json and relations_sweep.json"
        )
    system = settings.system()
    # The true masks are the scene's own; any other segmenter gets the frame alone.
    view = system.look(scene if settings.segmenter == "given" else scene.observation)
    found = view.scene
    assert found.visible_ids is not None
    objects = scene.true_occlusion.objects | scene.true_sweep.objects | {*scene.ids}
    known = Recognition.match(found.ids, found.visible_ids, objects, scene.visible_ids)
    believed = system.believe(view)
    seen = replace(
        found,
        request=scene.request,
        true_occlusion=known.translate(scene.true_occlusion),
        true_sweep=known.translate(scene.true_sweep),
        true_lift=None,
        semantic_scores=believed.semantic,
        sources=believed.sources,
    )
    return seen, known


def _perceive(case: CaseEntry, split: Path, out: Path, settings: PerceptionSettings) -> PerceivedCase:
    scene = read_scene_folder(split / case.name)
    seen, known = see(scene, settings)
    target = known.find(case.target)
    record = PerceivedCase(
        name=case.name,
        tier=case.tier,
        target=target,
        found=target in seen.ids,
        owner=dict(known.owner),
        quality=frame_quality(seen, scene),
    )
    write_scene_folder(seen, out / case.name, overwrite=True)
    return record


_RECORD = TypeAdapter(PerceivedCase)


def _read_record(out: Path, name: str) -> PerceivedCase:
    return _RECORD.validate_json((out / RECORDS / f"{name}.json").read_bytes())


def _finished(out: Path, case: CaseEntry) -> PerceivedCase | None:
    try:
        return _read_record(out, case.name)
    except (OSError, ValidationError):
        return None


@lru_cache(maxsize=4)
def _system(settings: PerceptionSettings) -> System:
    masks: Segmenter | str = settings.segmenter
    if masks == "ours":
        file = settings.segmenter_file
        masks = OnnxSegmenter() if file is None else OnnxSegmenter(file)
    file = settings.scorer_file
    scorer = EmbeddedScorer() if file is None else EmbeddedScorer(file)
    return System(masks, scorer if settings.scorer else NONE)
