"""Which object a request means: by id, by a point, or by words. What is not clear is asked back.

Only what lies in the workspace may be asked for: see `cpor.words.workspace`.
"""

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from cpor.errors import InvalidSceneError, InvalidSettingError, say_known
from cpor.scene import PixelPoint, Scene
from cpor.words.description import describe
from cpor.words.grounding_answers import (
    AmbiguousRequest,
    Candidate,
    Exchange,
    Found,
    Grounding,
    NotFound,
    Request,
    say_objects,
)
from cpor.words.request_words import Wish, parse_request
from cpor.words.vocabulary import split_words, vocabulary

__all__ = [
    "AmbiguousRequest",
    "Candidate",
    "Exchange",
    "Found",
    "Grounding",
    "NotFound",
    "ground",
    "ground_id",
    "ground_point",
    "ground_words",
    "object_centres",
    "parse_point",
    "shows_nothing",
]

SURELY = 0.97
"""An object called by its listed name is meant for certain where words mean it with this probability."""

SLIP = 0.003
"""A point in no mask means the only object within this share of the longer side: masks are no more exact."""


def ground(
    scene: Scene,
    target: int | None = None,
    point: PixelPoint | None = None,
    words: str | None = None,
    before: Exchange | None = None,
) -> Grounding:
    """The object that is asked for in one of three ways; by the request the scene came with where in none.

    Raises:
        InvalidSettingError: It is asked for in several ways.
    """
    Request(target, point, words)  # refuses several ways
    if target is not None:
        return _within_given(scene, ground_id(scene, target))
    if point is not None:
        return _within_given(scene, ground_point(scene, point))
    words = words if words is not None else scene.request
    if words is None:
        return NotFound("Nobody said which object is asked for.")
    return ground_words(scene, words, before)


def _within_given(scene: Scene, meant: Grounding) -> Grounding:
    """Refuse an object outside the workspace that was given; a workspace only found may be overruled."""
    given = scene.observation.camera.workspace is not None
    if given and isinstance(meant, Found) and meant.id not in describe(scene).inside:
        return NotFound(say_outside(meant.id))
    return meant


def say_outside(obj: int) -> str:
    """That an object may not be asked for, and what to do."""
    return f"Object {obj} lies outside the workspace. Ask for an object inside it, or change the workspace."


def parse_point(text: str) -> PixelPoint:
    """A point written as `X,Y` in pixels.

    Raises:
        InvalidSettingError: It is not two numbers.
    """
    try:
        x, y = (float(part) for part in text.split(","))
    except ValueError:
        x = y = math.nan
    if not (math.isfinite(x) and math.isfinite(y)):
        raise InvalidSettingError(
            f"the point {text!r} is not X,Y; give two numbers in pixels, such as 320,240"
        )
    return PixelPoint(x, y)


def ground_id(scene: Scene, obj: int) -> Found:
    """The object of an id.

    Raises:
        InvalidSceneError: There is none.
    """
    if obj not in scene.ids:
        raise InvalidSceneError(f"unknown object {obj}; {say_known(obj, scene.ids)}")
    return Found(obj)


def shows_nothing(scene: Scene, point: PixelPoint) -> bool:
    """Whether a point of the picture lies in no visible mask; not so without masks, or outside."""
    height, width = scene.observation.shape
    if scene.visible_ids is None or not (0.0 <= point.x < width and 0.0 <= point.y < height):
        return False
    return not scene.visible_ids[int(point.y), int(point.x)]


def ground_point(scene: Scene, point: PixelPoint) -> Grounding:
    """The object at a point, or just beside it. Where none shows, none is meant: it is never guessed.

    A point on the hidden part of an object shows what hides it.

    Args:
        scene: With masks.
        point: x and y. [px]

    Raises:
        InvalidSettingError: The point lies outside of the image.
    """
    height, width = scene.observation.shape
    if not (0.0 <= point.x < width and 0.0 <= point.y < height):
        raise InvalidSettingError(
            f"the point {point.x:g}, {point.y:g} lies outside of the "
            f"{width} x {height} image; give x, y in pixels"
        )
    row, col = int(point.y), int(point.x)
    if scene.visible_ids is not None:
        if shown := int(scene.visible_ids[row, col]):
            return Found(shown)
        slip = max(1, round(SLIP * max(height, width)))
        beside = np.unique(
            scene.visible_ids[max(0, row - slip) : row + slip + 1, max(0, col - slip) : col + slip + 1]
        )
        beside = beside[beside > 0]
        if beside.size == 1:
            return Found(int(beside[0]))
    centres = object_centres(scene)
    distance = {k: float(np.hypot(c.x - point.x, c.y - point.y)) for k, c in centres.items()}
    ranked = tuple(
        Candidate(k, 1.0 / (1.0 + distance[k] / max(height, width)))
        for k in sorted(distance, key=distance.__getitem__)
    )
    nearest = say_objects([each.id for each in ranked[:2]], {o.id: o.title or "" for o in scene.objects})
    around = f" Nearest to it: {nearest}." if ranked else ""
    remedy = "Point at one that was found, or add what is there: on the page, or with `cpor.corrections`."
    return NotFound(f"No object was found at {point.x:g}, {point.y:g}.{around} {remedy}", ranked)


def ground_words(scene: Scene, words: str, before: Exchange | None = None) -> Grounding:
    """The object in the workspace that words describe: colour, shape, size, place, and name where it has one.

    A word that is not known, or cannot be judged in this scene, is asked back.

    Args:
        scene: With visible masks.
        words: Such as "the red mug left of the book"; the words are those of `vocabulary.json`.
        before: What was said and done before, for words that point to it.
    """
    if scene.visible_ids is None and not any(o.name for o in scene.objects):
        raise InvalidSceneError("the scene has no masks; segment it before asking for an object in words")
    if not scene.objects:
        return NotFound("There is no object in the scene.")
    inside = describe(scene).inside
    before = before or Exchange()
    if (reply := _read_reply(scene, words, before)) is not None:
        return reply
    if (exact := _called_so(scene, words)) is not None:
        return _within_given(scene, Found(exact))
    fillers = vocabulary().polite
    named = {o.id: frozenset(split_words(o.name or "")) - fillers for o in scene.objects if o.id in inside}
    request = parse_request(words, frozenset().union(*named.values()))
    if request.trouble is not None:
        return NotFound(request.trouble)
    if request.number is not None:
        return _of_number(scene, request.number)
    given = [k for k in _titled(scene, words) if named.get(k)]
    if request.wish.names and len(given) == 1:
        return Found(given[0])  # a name that was given, with a word that describes nothing
    if not named:
        return NotFound("No object lies in the workspace. Point at the object, or give another workspace.")
    from cpor.words.word_answer import RequestReader  # only where words have to be judged

    if before.asking and (of_those := _choose_again(scene, words, named, before, request.wish)):
        return of_those
    meant = RequestReader(scene, words, named, before).answer(request.wish)
    if isinstance(meant, Found) and (meant.p or 0.0) >= SURELY and meant.id in _titled(scene, words):
        return replace(meant, p=None)  # the name in the list, and it describes no other object
    return meant


def _of_number(scene: Scene, number: int) -> Grounding:
    if number not in scene.ids:
        return NotFound(f"Unknown object {number}; {say_known(number, scene.ids)}.")
    return _within_given(scene, Found(number))


def _choose_again(
    scene: Scene, words: str, named: Mapping[int, frozenset[str]], before: Exchange, wish: Wish
) -> Found | None:
    """The object of those that were asked about: "the left one", "the red one"; None where words say more."""
    from cpor.words.word_answer import RequestReader

    among = {k: named[k] for k in before.candidates if k in named}
    if not among or wish.names or wish.shapes or wish.kinds or wish.pronouns:
        return None
    meant = RequestReader(scene, words, among, before).answer(wish)
    return meant if isinstance(meant, Found) else None


def _read_reply(scene: Scene, words: str, before: Exchange) -> Grounding | None:
    """What "yes", "no", or a number means after a question; None: it is no reply, or no question is open."""
    voc, said = vocabulary(), split_words(words)
    asked = tuple(k for k in before.candidates if k in scene.ids)
    if not (before.asking and said and asked):
        return None
    alone = voc.reply_fillers.issuperset(said[1:])
    if said[0] in voc.yes and alone:
        # Of several candidates a yes means none in particular.
        return Found(asked[0]) if len(asked) == 1 else None
    if said[0] in voc.no and not said[-1].isdigit():  # "no. 3" is a number
        if alone:
            return NotFound(voc.said["none_of_them"])
        return ground_words(scene, " ".join(said[1:]), replace(before, asking=False))  # "no, the red one"
    if len(said) == 1 and said[0].isdigit() and int(said[0]) in asked:
        return Found(int(said[0]))
    return None


def _called_so(scene: Scene, words: str) -> int | None:
    """The object whose whole name, as surfaces show it, is what the words are; None where there is none."""
    # A name without a mark is also a description, which may fit others: "red box" beside "red box 2".
    marked = {o.id for o in scene.objects if "(" in (o.title or "")}
    same = _titled(scene, words)
    return same[0] if len(same) == 1 and same[0] in marked else None


def _titled(scene: Scene, words: str) -> list[int]:
    """The objects whose whole name the words are."""

    def spoken(text: str) -> list[str]:
        return [word for word in split_words(text) if word not in vocabulary().determiners]

    return [o.id for o in scene.objects if o.title and spoken(o.title) == spoken(words)]


def object_centres(scene: Scene) -> dict[int, PixelPoint]:
    """Centre of what shows of each object, or of its amodal mask where nothing shows, in pixels."""
    centres: dict[int, PixelPoint] = {}
    ids = scene.visible_ids
    if ids is not None and scene.objects:
        n = scene.objects[-1].id + 1
        rows, cols = np.nonzero(ids)
        labels = ids[rows, cols]
        area = np.bincount(labels, minlength=n)
        y, x = (np.bincount(labels, weights=each, minlength=n) / np.maximum(area, 1) for each in (rows, cols))
        centres = {k: PixelPoint(float(x[k]), float(y[k])) for k in scene.ids if area[k]}
    for o in scene.objects:
        if o.id not in centres and o.amodal is not None and o.amodal.pixels.any():
            rows, cols = np.nonzero(o.amodal.pixels)
            centres[o.id] = PixelPoint(float(cols.mean()) + o.amodal.left, float(rows.mean()) + o.amodal.top)
    return centres
