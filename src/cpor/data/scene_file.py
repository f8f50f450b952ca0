"""Scene files with relation probabilities, and decisions as JSON: what `cpor decide` reads and prints."""

import json
import math
from pathlib import Path
from typing import Any, NoReturn

from cpor.decision import Action, Decision, Defer, Grasp
from cpor.errors import InvalidSceneError, SceneFileError
from cpor.inference.graphs import GraphShare
from cpor.relations import Label, ObstructionPosterior

_SHAPE = '{"objects": [...], "target": ..., "relations": [{"blocked": ..., "blocker": ..., "p": ...}]}'


def read_scene_file(path: Path) -> ObstructionPosterior:
    """Read objects, target and relation probabilities; `"p": null` is no answer.

    Raises:
        SceneFileError: With the file, what is wrong in it and what is expected.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise SceneFileError(f"cannot read the scene {path}: {reason}") from None
    try:
        content = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_refuse_repeats)
    except SceneFileError as error:
        raise SceneFileError(f"{path}: {error}") from None
    except (ValueError, RecursionError) as error:
        raise SceneFileError(f"{path} is not JSON ({error}); expected {_SHAPE}") from None
    try:
        return parse_scene(content)
    except InvalidSceneError as error:
        raise SceneFileError(f"{path}: {error}") from None


def parse_scene(content: object) -> ObstructionPosterior:
    """A scene from parsed JSON.

    Raises:
        InvalidSceneError: With what is wrong.
    """
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
    return ObstructionPosterior.from_relations(
        labels,
        _label(content["target"], '"target"'),
        [_relation(relation, k) for k, relation in enumerate(relations)],
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


def _refuse_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Of a key given twice, JSON readers keep the last in silence; a lost relation must not read as none."""
    content = dict(pairs)
    if len(content) < len(pairs):
        twice = next(key for k, (key, _) in enumerate(pairs) if key in dict(pairs[:k]))
        raise SceneFileError(f'"{twice}" is given twice in one object; keep one')
    return content


def _refuse_constant(name: str) -> NoReturn:
    raise SceneFileError(f"{name} is not a number in JSON; write null where there was no answer")


def action_to_json(action: Action) -> dict[str, Any]:
    """`{"type": grasp|remove|defer, "object": ..., "reason": ...}`, null where it does not apply."""
    if isinstance(action, Defer):
        return {"type": "defer", "object": None, "reason": action.reason}
    kind = "grasp" if isinstance(action, Grasp) else "remove"
    return {"type": kind, "object": action.obj, "reason": None}


def decision_to_json(decision: Decision, top_graphs: tuple[GraphShare, ...]) -> dict[str, Any]:
    """A decision in the form the command line prints."""
    certificate = decision.certificate
    ranges = decision.unanswered_range
    return {
        "action": action_to_json(decision.action),
        "scores": {str(label): score for label, score in decision.scores.items()},
        "score_ranges": None
        if ranges is None
        else {str(label): [low, high] for label, (low, high) in ranges.items()},
        "blockers": [label for label in decision.scores if label in decision.blockers],
        "certificate": {
            "kind": certificate.kind,
            "epsilon": certificate.epsilon,
            "k": certificate.k,
            "exact": certificate.exact,
            "blockers_certified": certificate.blockers_certified,
        },
        "method": decision.method,
        "tau": decision.tau,
        "mu": decision.mu,
        "top_graphs": [
            {
                "share": graph.share,
                "relations": [{"blocked": r.blocked, "blocker": r.blocker} for r in graph.relations],
            }
            for graph in top_graphs
        ],
    }
