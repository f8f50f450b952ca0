"""What a simulated data set says of itself, and how to read one; MuJoCo is not needed for reading."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, TypeAlias, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
)

from cpor.errors import InputFileError
from cpor.scene import Scene

MANIFEST = "manifest.json"

Tier: TypeAlias = Literal["easy", "medium", "hard"]
"""The paper's: the longest path to the target has one, two, or more objects."""

TIERS: tuple[Tier, ...] = get_args(Tier)

SensorName: TypeAlias = Literal["none", "default", "harsh", "realsense", "phoxi", "kinect", "zed"]
"""Cameras by how they fail, see `cpor.sim.camera.sensor`; `none` is perfect."""

_STRICT = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)


class DatasetSettings(BaseModel):
    """What every scene of a data set is made with; nothing here but what changes its bytes.

    Attributes:
        container: In a bin or on the bare table.
        density: How full.
        width, height: Size of the images. [px]
        sensor: Preset of the camera's faults.
        lift: Whether the slow audit of what lifts what is made too.
        removed: How many blockers of the target were taken out in a right order before the photograph, as in
            the middle of a run; fewer where it lay free before.
    """

    model_config = _STRICT

    container: Literal["bin", "table"] = "bin"
    density: Literal["loose", "dense", "heaped"] = "dense"
    width: Annotated[int, Field(ge=64, le=4096)] = 640
    height: Annotated[int, Field(ge=48, le=4096)] = 480
    sensor: SensorName = "default"
    lift: bool = False
    removed: Annotated[int, Field(ge=0, le=30)] = 0

    @model_serializer(mode="wrap")
    def _as_before(self, write: SerializerFunctionWrapHandler) -> dict[str, object]:
        """A first look is written as it was before there were others."""
        content: dict[str, object] = write(self)
        return {key: value for key, value in content.items() if key != "removed" or value}


class CasePlan(NamedTuple):
    """A scene to be made in the folder `name`; its target lies as deep as `tier`, None: as it falls."""

    name: str
    seed: int
    tier: Tier | None


class CaseEntry(BaseModel):
    """One scene of a data set, and the one object asked for in it.

    Attributes:
        name: Name of its folder.
        seed: What it was made from.
        target: Id of the object asked for.
        request: How it is asked for.
        tier: How deep it lies, by true occlusion.
        n_objects: Objects in the world; some may not be seen.
        n_relations: True relations in each file.
        cyclic: Files whose relations contain a cycle; such scenes are kept.
    """

    model_config = _STRICT

    name: str
    seed: int
    target: int
    request: str
    tier: Tier
    n_objects: int
    n_relations: dict[str, int]
    cyclic: list[str]


class Manifest(BaseModel):
    """The content of `manifest.json`, which is written last: where it is, the data set is whole.

    Attributes:
        split: `dev` or `test` of the product, or what the seed of another set was.
        versions: What the scenes were made with; other versions may make other bytes.
        n_cases: Cases of each tier, and how many truths of each file are cyclic.
    """

    model_config = _STRICT

    kind: Literal["cpor-dataset"] = "cpor-dataset"
    version: Literal[1] = 1
    split: str
    settings: DatasetSettings
    versions: dict[str, str]
    n_cases: dict[str, int]
    n_cyclic: dict[str, int]
    cases: list[CaseEntry]


class SplitCase(NamedTuple):
    """One case of a data set: a scene and what is asked for in it."""

    name: str
    scene: Scene
    target: int
    tier: Tier


def read_split(folder: str | Path) -> Iterator[SplitCase]:
    """The cases of a simulated data set, one by one, in the order of the manifest."""
    from cpor.io.scene_folder import read_scene_folder

    folder = Path(folder)
    for case in read_manifest(folder).cases:
        yield SplitCase(case.name, read_scene_folder(folder / case.name), case.target, case.tier)


def read_manifest(folder: Path) -> Manifest:
    """What a data set says of itself."""
    place = folder / MANIFEST
    if not place.is_file():
        unfinished = (folder / ".making").is_dir()
        what = "is not finished; give the same command again" if unfinished else f"has no {MANIFEST}"
        raise InputFileError(f"{folder} {what}; `cpor simulate --out {folder}` makes a data set")
    try:
        return Manifest.model_validate_json(place.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(step) for step in first["loc"]) or "content"
        raise InputFileError(f"{place}: {where}: {first['msg']}; delete it and simulate again") from None


def encode_manifest(manifest: Manifest) -> bytes:
    """Bytes of the file, a line a case."""
    content = manifest.model_dump(mode="json")
    cases = content.pop("cases")
    head = json.dumps(content, indent=2)[:-2]
    lines = ",\n".join(f"    {json.dumps(case)}" for case in cases)
    return f'{head},\n  "cases": [\n{lines}\n  ]\n}}\n'.encode()
