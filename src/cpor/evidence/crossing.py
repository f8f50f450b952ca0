r"""Covers that no mask shows, by lines over several things: rods, straps, edges of films and clear sheets.

A cover lets through a share 1 - h of what is below it, and has a colour c of its own. What has the colour a
on one side of its edge has on the other side the colour

    b = (1 - h) a + h c        with one h and one c for all things along the edge.

A film has a small h and a colour near to white; behind the edge of a rod or a strap (h = 1) all has one
colour b = c. Each thing and each channel of colour is a test, so that few other lines pass: an edge of shade
is b = s a, and what is printed on a thing ends at its outline. Neither the segmenter nor depth has a part in
this, which misses thin and clear things. Lines are found by a Hough transform of the edge pixels off the
outlines of masks, so that a cover has to have a straight edge.

The numbers were chosen on 40 heaps of the dev split as our segmenter sees them, with covers drawn over one
large object of each: 59 of 80 films, 25 of 40 sheets and 32 of 40 rods are found, and 2 of 426 untouched
objects are taken for crossed. `benchmarks/evidence_covers.py` reports on other heaps and on photographs.
"""

import numpy as np
from jaxtyping import Bool, Int32, Int64, UInt8

from cpor.evidence._line_kernels import (
    colour_gradients,
    find_crests,
    fit_film,
    fit_opaque,
    mark_outlines,
    read_line,
    vote_lines,
)

FILTER = np.array([102, 62, 14, 1], np.float32)
"""Half of a Gaussian of 1 px from its middle outwards, in 256ths."""

LEAST_STEP = 3.0
"""Colour gradient below which a pixel is no edge. [levels per px]"""

NEAR_OUTLINE = 3
"""Edges this near to an outline belong to it. [px]"""

HOLE = -1
"""Stands for pixels without a colour among the ids of objects."""

TURNS, WIDTH_PX, SPREAD = 512, 1.5, 6
"""Angles and width of lines, and how many angles beside its own an edge pixel votes for: 4 degrees."""

LEAST_VOTES, APART = 30, 6
"""Least edge pixels of a line; the best line counts within so many angles and widths."""

TURN = np.deg2rad(20.0)
"""Largest angle between the gradient of an edge pixel on a line and that of the line. [rad]"""

ASIDE_PX = np.array([2.0, 4.0])
"""How far from the line colours are read: of a rod within it, of a film off its bright rim. [px]"""

PIECE_PX = (8, 16)
"""Length of the pieces of one object that are compared. [px]"""

LEAST_EDGE = 0.6
"""Least share of the pixels of a piece that lie on an edge in the line's direction."""

LEAST_PX, GAP_PX = 40, 100
"""Least edge pixels of the pieces that agree, and their largest distance. [px]"""

WHITE, TRUST_PX = 240.0, 2.0
"""Colour of a film that is expected, and how many pixels this counts. [levels]"""

FILM_OFF, OPAQUE_OFF = 0.6, 0.25
"""Most that the colour of a piece lies off, as a share of the step of colour: of a film, and of a rod."""

FILM, FILM_COLOUR = (0.03, 0.35), (150.0, 400.0)
"""Least and largest share h and colour c of a film; c exceeds 255 where h is small. [-, levels]"""


def crossed_objects(
    rgb: UInt8[np.ndarray, "h w 3"], ids: Int32[np.ndarray, "h w"] | None, objects: tuple[int, ...]
) -> Bool[np.ndarray, " n"]:
    """Whether the edge of a cover that no mask shows runs across the outline of each object.

    Args:
        rgb: The photograph.
        ids: Which object each pixel shows, 0 for none; None: not known, then nothing is found.
        objects: Ids of the objects.
    """
    if ids is None or min(ids.shape) < 8:
        return np.zeros(len(objects), np.bool_)
    down, across = colour_gradients(np.ascontiguousarray(rgb).reshape(rgb.shape[0], -1), FILTER)
    # Cameras that map colours onto depth leave holes without a colour, as long and straight as shadows are.
    is_hole = (rgb[..., 0] | rgb[..., 1] | rgb[..., 2]) == 0
    outline = mark_outlines(np.where(is_hole, np.int32(HOLE), ids), NEAR_OUTLINE)
    rows, cols, angles = find_crests(down, across, outline, LEAST_STEP)
    edge = np.full(ids.shape, np.nan, np.float32)
    edge[rows, cols] = angles
    found: set[int] = set()
    lines = vote_lines(rows, cols, angles, ids.shape, TURNS, WIDTH_PX, SPREAD, LEAST_VOTES, APART)
    for angle, offset in zip(*lines, strict=True):
        shown, counts, colours = read_line(
            angle, offset, edge, rgb, ids, outline, TURN, ASIDE_PX, PIECE_PX[1]
        )
        _, _, label, length, on_edge, read = counts.T
        good = (length >= PIECE_PX[0]) & (on_edge >= LEAST_EDGE * length) & (2 * read >= PIECE_PX[0])
        if on_edge[good].sum() < LEAST_PX or len({*label[good].tolist()}) < 2:
            continue
        pieces, weight, (near, far) = counts[good], read[good], colours[:, good]
        kept, h, c = fit_film(far, weight, WHITE, TRUST_PX, FILM_OFF)
        if FILM[0] < h < FILM[1] and FILM_COLOUR[0] < c < FILM_COLOUR[1]:
            found |= _below(pieces[kept], shown)
        for sides in (near, near[:, ::-1]):  # a rod is brighter or darker than what it lies on
            found |= _below(pieces[fit_opaque(sides, weight, OPAQUE_OFF)], shown)
    return np.array([label in found for label in objects], np.bool_)


def _below(pieces: Int64[np.ndarray, "k 6"], shown: Int64[np.ndarray, " steps"]) -> set[int]:
    """Objects from the first to the last piece of an edge; none where its pieces are too few."""
    found: set[int] = set()
    apart = pieces[1:, 0] - pieces[:-1, 1] > GAP_PX
    for group in np.split(pieces, np.flatnonzero(apart) + 1):
        if len({*group[:, 2].tolist()}) > 1 and group[:, 4].sum() >= LEAST_PX:
            found.update(shown[group[0, 0] : group[-1, 1]].tolist())
    return found
