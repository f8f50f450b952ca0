"""Lines that run across the outline of an object: a wire, a rod or the edge of a film before it.

What is printed on an object ends at its outline, and so does what is printed on its background. A straight
colour edge that goes on across the outline belongs to neither: something that no mask shows lies over both.
The segmenter has no part in this, nor has depth, which cameras miss on thin and on clear things.

Edges are followed from pixel to pixel into straight pieces. Those near an outline are left out, since masks
explain them. Two pieces in different masks that continue each other are a crossing. So is a piece that goes
on fainter behind an outline with the same side lighter, as the edge of a film does; such a line has no step
of depth, and where it begins on an object no other line of the object is parallel to it, as prints are.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Float32, Int32, Int64, UInt8

from cpor.evidence._line_kernels import (
    colour_gradients,
    find_crests,
    fit_lines,
    follow_pieces,
    join_neighbours,
    mark_outlines,
    pair_pieces,
)

FILTER = np.array([102, 62, 14, 1], np.float32)
"""Half of a Gaussian of 1 px from its middle outwards, in 256ths."""

LEAST_STEP = 8.0
"""Colour gradient below which a pixel is no edge. [levels per px]"""

NEAR_OUTLINE = 3
"""Edges this near to an outline belong to it. [px]"""

DIRECTIONS = 16
"""Bins of the direction of the gradient: an edge is followed within one, so it stays straight."""

LEAST_PX, LONG_PX = 5.0, 10.0
"""Length of a piece, and of both pieces of a crossing that counts by itself. [px]"""

WIDTH_PX = 1.0
"""Spread of the pixels of a straight piece across it. [px]"""

GAP_PX = 16.0
"""Farthest that two pieces of a line are apart; both keep NEAR_OUTLINE from the outline. [px]"""

ON_LINE = (1.6, 2.0)
"""Distance of the ends of both pieces from one line: of a crossing by itself, and of one of a pair. [px]"""

TURN = (np.deg2rad(6.0), np.deg2rad(9.0))
"""Angle between both pieces, likewise. [rad]

These numbers were chosen on 60 simulated heaps and 44 photographs as our segmenter sees them, with a rod of
6 px drawn over one object of each: found 43 of 60 and 31 of 44; of untouched objects 15 of 644 and 2 of 155
are taken for crossed. Of clear films over half an object 12 of 60 and 3 of 44 are found.
"""

BAND_PX = (2.0, 14.0)
"""Distance of the two edges of a rod or a wire. [px]"""

OPPOSITE = -0.7
"""Cosine between the gradients of the two edges of a rod: one gets lighter where the other gets darker."""

FOLLOWED_PX, EACH_PX = (12.0, 18.0), (8, 20)
"""Length of a piece that is followed behind an outline into what shows no object, and into another; length
that is looked at there. [px]"""

FAINT = (4.0, 0.9)
"""Gradient below which nothing goes on, and share of its pixels with one sign. [levels per px]"""

CLEAR = (2.0, 3.0)
"""How much stronger a line's gradient is across than along, where one side shows no object, and elsewhere."""

DEPTH_STEP = 0.01
"""Edges with a larger step of depth are edges of things that depth sees. [m]

These five were chosen on 48 heaps of the dev split as our segmenter sees them: with the rules above alone
21 of 48 rods, 7 films and 16 clear sheets are found and 8 of 514 untouched objects taken for crossed; with
both 27, 14, 24 and 9. `benchmarks/evidence_covers.py` reports on other heaps and on photographs.
"""


class _Pieces(NamedTuple):
    """Straight pieces of edges: both ends (x, y), length, mask, direction of the line and of the gradient."""

    ends: Float[np.ndarray, "k 2 2"]
    length: Float[np.ndarray, " k"]
    label: Int64[np.ndarray, " k"]
    direction: Float[np.ndarray, " k"]
    gradient: Float[np.ndarray, " k"]


def crossed_objects(
    rgb: UInt8[np.ndarray, "h w 3"],
    ids: Int32[np.ndarray, "h w"] | None,
    objects: tuple[int, ...],
    depth: Float32[np.ndarray, "h w"] | None = None,
) -> Bool[np.ndarray, " n"]:
    """Whether a line that no mask explains runs across the outline of each object.

    A crossing with two long pieces counts by itself, shorter ones where they are the two edges of a rod. So
    does a long piece that goes on behind an outline with the same side lighter, as the edge of a film does.

    Args:
        rgb: The photograph.
        ids: Which object each pixel shows, 0 for none; None: not known, then nothing is found.
        objects: Ids of the objects.
        depth: NaN where there is no reading; None: no depth. [m]
    """
    if ids is None or min(ids.shape) < 8:
        return np.zeros(len(objects), np.bool_)
    levels = np.ascontiguousarray(rgb).reshape(rgb.shape[0], -1)
    down, across = colour_gradients(levels, FILTER)
    outline = mark_outlines(ids, NEAR_OUTLINE)
    pieces = _straight_pieces(down, across, ids, outline, LEAST_STEP)
    pairs, off, angle = pair_pieces(
        pieces.ends, pieces.direction, pieces.label, max(ON_LINE), max(TURN), GAP_PX
    )
    inside = pairs[:, 0]
    alone = (pieces.length[pairs] >= LONG_PX).all(axis=1) & (off < ON_LINE[0]) & (angle < TURN[0])
    found = set(pieces.label[inside[alone | _in_band(pieces, inside)]].tolist())
    if depth is not None:
        faint = _straight_pieces(down, across, ids, outline, FAINT[0])
        found |= _faint_crossings(faint, down, across, ids, outline, depth)
    return np.array([label in found for label in objects], np.bool_)


def _faint_crossings(
    pieces: _Pieces,
    down: Float32[np.ndarray, "h w"],
    across: Float32[np.ndarray, "h w"],
    ids: Int32[np.ndarray, "h w"],
    outline: Bool[np.ndarray, "h w"],
    depth: Float32[np.ndarray, "h w"],
) -> set[int]:
    """Objects on both sides of an outline behind which a long piece goes on without a step of depth."""
    long = _Pieces(*(each[pieces.length >= min(FOLLOWED_PX)] for each in pieces))
    behind, normal, tangent, share, steps = follow_pieces(
        long.ends,
        long.gradient,
        long.label,
        down,
        across,
        ids,
        outline,
        depth,
        GAP_PX + 2.0,
        EACH_PX[1],
        EACH_PX[0],
    )
    label, length = long.label[:, None], long.length[:, None]
    flat = (steps[..., 0] <= DEPTH_STEP) & ~(steps[..., 1] > DEPTH_STEP)
    goes_on = flat & (share >= FAINT[1]) & (normal >= FAINT[0]) & (behind >= 0)
    bare = (label == 0) | (behind == 0)
    good = goes_on & np.where(
        bare, normal >= CLEAR[0] * tangent, (normal >= CLEAR[1] * tangent) & (length >= FOLLOWED_PX[1])
    )
    piece, end = np.nonzero(good)
    alone = (long.label[piece] == 0) | ~_is_striped(long, piece)
    return {*long.label[piece[alone]].tolist(), *behind[piece[alone], end[alone]].tolist()}


def _straight_pieces(
    down: Float32[np.ndarray, "h w"],
    across: Float32[np.ndarray, "h w"],
    ids: Int32[np.ndarray, "h w"],
    outline: Bool[np.ndarray, "h w"],
    least: float,
) -> _Pieces:
    """Crests of the gradient off the outlines, neighbours of one direction bin joined, in two sets of bins.

    All pixels of a piece lie in one mask: none is near an outline.
    """
    rows, cols, angle = find_crests(down, across, outline, least)
    found = []
    for shift in (0.0, 0.5):
        bins = np.floor(angle / (2.0 * np.pi) * DIRECTIONS + shift).astype(np.int64) % DIRECTIONS
        piece, n = join_neighbours(rows, cols, bins, ids.shape[1])
        count, some, direction, spread, ends, gradient = fit_lines(piece, n, rows, cols, angle)
        length = np.hypot(*(ends[:, 1] - ends[:, 0]).T)
        label = ids[rows[some], cols[some]].astype(np.int64)
        straight = (count >= LEAST_PX) & (spread < WIDTH_PX) & (length >= LEAST_PX)
        found.append([each[straight] for each in (ends, length, label, direction, gradient)])
    return _Pieces(*(np.concatenate(each) for each in zip(*found, strict=True)))


def _is_striped(pieces: _Pieces, some: Int64[np.ndarray, " c"]) -> Bool[np.ndarray, " c"]:
    """Which of some pieces have a parallel one in their mask, beyond the other edge of a rod: a print."""
    middle, direction = pieces.ends.mean(axis=1), pieces.direction[some]
    normal = np.stack([-np.sin(direction), np.cos(direction)], 1)
    beside = np.abs(np.einsum("abc,ac->ab", middle - middle[some][:, None], normal))
    turn = np.abs(direction[:, None] - pieces.direction)
    parallel = np.minimum(turn, np.pi - turn) < TURN[1]
    same = pieces.label[some][:, None] == pieces.label
    return np.asarray((parallel & same & (beside > BAND_PX[1])).any(axis=1), np.bool_)


def _in_band(pieces: _Pieces, inside: Int64[np.ndarray, " c"]) -> Bool[np.ndarray, " c"]:
    """Which crossings have another one beside them in the same mask, with the opposite gradient."""
    direction, gradient = pieces.direction[inside], pieces.gradient[inside]
    middle = pieces.ends[inside].mean(axis=1)
    across = np.stack([-np.sin(direction), np.cos(direction)], 1)
    beside = np.abs(np.einsum("abc,ac->ab", middle - middle[:, None], across))
    angle = np.abs(direction[:, None] - direction)
    parallel = np.minimum(angle, np.pi - angle) < TURN[1]
    opposite = np.cos(gradient[:, None] - gradient) < OPPOSITE
    same = pieces.label[inside][:, None] == pieces.label[inside]
    return np.asarray(
        (parallel & opposite & same & (beside > BAND_PX[0]) & (beside < BAND_PX[1])).any(axis=1), np.bool_
    )
