"""COCO's ways to write a mask: run lengths, run lengths as text, polygons. Runs go down the columns."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool

from cpor.errors import SceneFileError


def decode_mask(written: object, shape: tuple[int, int], where: str) -> Bool[np.ndarray, "h w"]:
    """A mask in any of the ways COCO files have it.

    Args:
        written: {"size": [h, w], "counts": list or text}, a list of polygons [x0, y0, x1, y1, …], or rows of
            true and false, as SAM's `binary_mask` mode gives them.
        shape: Height and width of the image. [px]
        where: File and entry, for the error.
    """
    if isinstance(written, dict):
        return _decode_runs(written, shape, where)
    if isinstance(written, list) and written and all(isinstance(each, list) for each in written):
        if written[0] and isinstance(written[0][0], bool):
            return _rows(written, shape, where)
        return _fill_polygons(written, shape, where)
    raise SceneFileError(
        f"{where}: the mask is neither run lengths ({{'size', 'counts'}}) nor polygons; save COCO masks"
    )


def encode_mask(mask: Bool[np.ndarray, "h w"]) -> dict[str, object]:
    """A mask as COCO's run lengths in a text: {"size": [h, w], "counts": text}."""
    flat = mask.T.reshape(-1)
    ends = np.flatnonzero(np.diff(flat)) + 1
    bounds = np.concatenate([[0], ends, [flat.size]])
    counts = np.diff(bounds).tolist()
    if flat[0]:
        counts.insert(0, 0)  # runs begin with what is outside
    text = []
    for k, count in enumerate(counts):
        value = count - counts[k - 2] if k > 2 else count
        more = True
        while more:
            code = value & 0x1F
            value >>= 5
            more = value != (-1 if code & 0x10 else 0)
            text.append(chr(48 + (code | 0x20 if more else code)))
    return {"size": [int(side) for side in mask.shape], "counts": "".join(text)}


def counts_from_text(text: str, where: str) -> list[int]:
    """Run lengths from COCO's text: six bits a character, five of them value, small numbers first."""
    counts: list[int] = []
    value = shift = 0
    for character in text:
        code = ord(character) - 48
        if not 0 <= code < 64 or shift > 40:
            raise SceneFileError(
                f"{where}: {character!r} is no character of COCO's run lengths; save it again"
            )
        value |= (code & 0x1F) << shift
        shift += 5
        if code & 0x20:
            continue
        if code & 0x10:  # negative
            value -= 1 << shift
        # From the fourth on, a run is told by its difference from the one two before.
        counts.append(value + (counts[-2] if len(counts) > 2 else 0))
        value = shift = 0
    if shift:
        raise SceneFileError(f"{where}: the run lengths end in the middle of a number; save them again")
    return counts


def _decode_runs(written: dict[str, object], shape: tuple[int, int], where: str) -> Bool[np.ndarray, "h w"]:
    size, counts = written.get("size"), written.get("counts")
    if not isinstance(size, list) or [*map(_whole, size)] != [*shape]:
        raise SceneFileError(
            f"{where}: the mask has the size {size}, the image {list(shape)} (height, width); "
            "give the masks of this very image"
        )
    if isinstance(counts, str):
        counts = counts_from_text(counts, where)
    runs = [_whole(each) for each in counts] if isinstance(counts, list) else []
    if any(run is None or run < 0 for run in runs) or sum(runs) != shape[0] * shape[1]:  # type: ignore[arg-type]
        raise SceneFileError(f"{where}: the run lengths do not add up to the image; save them again")
    values = np.arange(len(runs)) % 2 == 1
    flat = np.repeat(values, np.array(runs, dtype=np.int64))
    return np.ascontiguousarray(flat.reshape(shape[1], shape[0]).T)


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _rows(written: list[list[object]], shape: tuple[int, int], where: str) -> Bool[np.ndarray, "h w"]:
    if len(written) != shape[0] or any(len(row) != shape[1] for row in written):
        size = f"{len(written)} rows, {len(written[0])} columns"
        raise SceneFileError(f"{where}: the mask has {size}, the image {shape[0]} and {shape[1]}")
    return np.array(written, dtype=bool)


def _fill_polygons(
    polygons: Sequence[Sequence[object]], shape: tuple[int, int], where: str
) -> Bool[np.ndarray, "h w"]:
    """The union of polygons: a pixel is inside where its centre is."""
    mask = np.zeros(shape, dtype=bool)
    for polygon in polygons:
        try:
            corners = np.array(polygon, dtype=np.float64).reshape(-1, 2)
        except (ValueError, TypeError) as error:
            raise SceneFileError(f"{where}: a polygon must be numbers x0, y0, x1, y1, …") from error
        if len(corners) < 3 or not np.isfinite(corners).all():
            raise SceneFileError(f"{where}: a polygon needs at least three finite corners")
        mask |= _fill(corners, shape)
    return mask


def _fill(corners: np.ndarray, shape: tuple[int, int]) -> Bool[np.ndarray, "h w"]:
    """Even-odd filling by rows. `corners` has shape (n, 2), x and y in pixels."""
    nexts = np.roll(corners, -1, axis=0)
    # How often the border is crossed before each pixel centre: odd is inside.
    crossings = np.zeros((shape[0], shape[1] + 1), dtype=np.int64)
    for (x0, y0), (x1, y1) in zip(corners, nexts, strict=True):
        if y0 == y1:
            continue
        low, high = min(y0, y1), max(y0, y1)
        first, last = max(0, int(np.ceil(low - 0.5))), min(shape[0], int(np.ceil(high - 0.5)))
        rows = np.arange(first, last)
        x = x0 + (rows + 0.5 - y0) / (y1 - y0) * (x1 - x0)
        columns = np.clip(np.ceil(x - 0.5), 0, shape[1]).astype(np.intp)
        np.add.at(crossings, (rows, columns), 1)
    return np.asarray(np.cumsum(crossings[:, :-1], axis=1) % 2 == 1)
