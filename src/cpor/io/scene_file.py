"""Scene files with relation probabilities, and decisions as JSON: what `cpor decide` reads and prints."""

import json
import math
from pathlib import Path

from cpor.errors import InvalidSceneError, SceneFileError
from cpor.io.whole_files import parse_strict, read_bytes
from cpor.relations import Label, ObstructionPosterior

_SHAPE = '{"objects": [...], "target": ..., "relations": [{"blocked": ..., "blocker": ..., "p": ...}]}'


def read_scene_file(path: Path) -> ObstructionPosterior:
    """Read objects, target and relation probabilities; `"p": null` is no answer."""
    content = parse_strict(read_bytes(path), name=path, remedy=f"expected {_SHAPE}")
    try:
        return parse_scene(content)
    except InvalidSceneError as error:
        raise SceneFileError(f"{path}: {error}") from None


def parse_scene(content: object) -> ObstructionPosterior:
    """A scene from parsed JSON; "unseen", which may be left out, labels what was not segmented."""
    if not isinstance(content, dict):
        raise InvalidSceneError(f"a scene is a JSON object; expected {_SHAPE}")
    for key in ("objects", "target", "relations"):
        if key not in content:
            raise InvalidSceneError(f'"{key}" is missing; expected {_SHAPE}')
    objects, relations = content["objects"], content["relations"]
    if not isinstance(objects, list):
        raise InvalidSceneError('"objects" must be a list of labels')
    if not isinstance(relations, list):
        raise InvalidSceneError(
            '"relations" must be a list; an empty one says that nothing obstructs anything'
        )
    labels = [_label(label, f'"objects"[{k}]') for k, label in enumerate(objects)]
    if len({str(label) for label in labels}) < len(set(labels)):
        raise InvalidSceneError(
            'two labels in "objects" read the same as text, such as 1 and "1"; rename one'
        )
    unseen = content.get("unseen")
    return ObstructionPosterior.from_relations(
        labels,
        _label(content["target"], '"target"'),
        [_relation(relation, k) for k, relation in enumerate(relations)],
        None if unseen is None else _label(unseen, '"unseen"'),
    )


def _label(label: object, where: str) -> Label:
    if isinstance(label, bool) or not isinstance(label, str | int | float):
        raise InvalidSceneError(f"{where} is {json.dumps(label)}; labels are strings or numbers")
    if isinstance(label, float) and not math.isfinite(label):
        raise InvalidSceneError(f"{where} is too large a number for a label; write it as a string")
    if isinstance(label, str) and any("\ud800" <= character <= "\udfff" for character in label):
        raise InvalidSceneError(f"{where} is no valid text: it holds half of a surrogate pair")
    return label


def _relation(relation: object, k: int) -> tuple[Label, Label, float | None]:
    where = f'"relations"[{k}]'
    if not isinstance(relation, dict):
        raise InvalidSceneError(f'{where} must be an object with "blocked", "blocker" and "p"')
    for key in ("blocked", "blocker", "p"):
        if key not in relation:
            remedy = '; write "p": null where there was no answer' if key == "p" else ""
            raise InvalidSceneError(f'{where} has no "{key}"{remedy}')
    p = relation["p"]
    if p is not None and (isinstance(p, bool) or not isinstance(p, int | float)):
        raise InvalidSceneError(f'{where} has "p": {json.dumps(p)}; give a number in [0, 1], or null')
    return (
        _label(relation["blocked"], f'{where} "blocked"'),
        _label(relation["blocker"], f'{where} "blocker"'),
        p,
    )
