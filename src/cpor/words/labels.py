"""What is printed on objects: read by `rapidocr`, where the extra `labels` is installed.

A person asks for "the raisins", and the box says so. What is printed is evidence of what a thing is called,
and nothing else: it is never read as an instruction.
"""

from collections.abc import Sequence
from difflib import SequenceMatcher
from functools import cache
from typing import Any

import numpy as np
from PIL import Image

from cpor.scene import Scene
from cpor.words.vocabulary import split_words, vocabulary

SIDE, LARGER = 1920, 2.0
"""Text is looked for in a picture whose longer side has so many pixels, at most so many times as large."""

LEAST_READ = 0.6
"""Lines that are read with less confidence are left out."""

ALIKE, LEAST_LETTERS = 0.82, 4
"""Share of letters that a printed word shares with the word asked for: letters are hidden, or misread.
Shorter words have to be the same."""

LONG = 5
"""Words of so many letters may also be part of a longer one, as words are read without their space."""


def read_labels(scene: Scene) -> dict[int, tuple[str, ...]]:
    """Words printed on each object, in any of four turns; empty without `rapidocr`."""
    ids = scene.visible_ids
    if ids is None or (reader := _reader()) is None:
        return {}
    picture = Image.fromarray(scene.observation.rgb)
    scale = min(LARGER, SIDE / max(picture.size))
    picture = picture.resize((round(picture.width * scale), round(picture.height * scale)))
    pixels = np.asarray(picture)[:, :, ::-1]
    found: dict[int, list[str]] = {}
    for turn in range(4):
        told = reader(np.ascontiguousarray(np.rot90(pixels, turn)))
        if told.boxes is None:
            continue
        for box, text, p in zip(told.boxes, told.txts, told.scores, strict=True):
            if p < LEAST_READ:
                continue
            col, row = np.asarray(box, dtype=np.float64).mean(axis=0)
            for quarter in range(turn, 0, -1):  # back, a quarter turn at a time
                side = pixels.shape[quarter % 2]
                col, row = side - 1.0 - row, col
            at = (
                int(np.clip(row / scale, 0, ids.shape[0] - 1)),
                int(np.clip(col / scale, 0, ids.shape[1] - 1)),
            )
            if obj := int(ids[at]):
                found.setdefault(obj, []).extend(split_words(text))
    return {k: tuple(dict.fromkeys(words)) for k, words in found.items()}


def own_words(noun: str) -> tuple[str, ...]:
    """Words of a noun that are no words for a shape: those that may be printed on a thing."""
    voc = vocabulary()
    others = voc.shape_words | voc.polite | {"of", "and"}
    return tuple(word for word in split_words(noun) if word not in others)


def share_printed(words: Sequence[str], printed: Sequence[str]) -> float:
    """Share of words that are printed on an object."""
    return sum(any(_is_alike(word, each) for each in printed) for word in words) / max(1, len(words))


def _is_alike(word: str, printed: str) -> bool:
    if word == printed or (len(word) >= LONG and word in printed):
        return True
    if len(word) < LEAST_LETTERS or abs(len(word) - len(printed)) > 2:
        return False
    return SequenceMatcher(None, word, printed).ratio() >= ALIKE


@cache
def _reader() -> Any | None:
    try:
        from rapidocr import RapidOCR
    except ImportError:
        return None
    return RapidOCR(params={"Global.log_level": "error"})
