r"""Evidence of blockers without a mask: hidden pixels that no known object accounts for.

With V and A the visible and amodal masks, R_i the ring around A_i, and U the pixels that show no object, the
hidden part over the background is H_i = (A_i \ V_i) n U. Depth z there is compared with the readings of V_i:

    before_i = |{H_i: z < near_i}| / |A_i|              something stands there
    level_i  = |{H_i: near_i <= z <= far_i}| / |A_i|    something, or a surface of the object's own height
    behind_i = |{H_i: z > far_i}| / |A_i|               nothing hides it there: A_i is merely too large
    unread_i = |{H_i: no reading}| / |A_i|              not known
    near_i = median(z over V_i) - margin,   far_i = 95th percentile(z over V_i) + margin

and likewise for R_i n U over |R_i|, with the 5th percentile for near_i: what stands beside the object and
higher than all of it may be in the way too, but a table seen at a slant is nearer than the object's middle.
"""

from dataclasses import dataclass, fields

import numpy as np
from jaxtyping import Bool, Float, Float32, Int64

from cpor.scene import Scene

SURFACE_MARGIN = 0.005
"""Noise of a depth reading, about that of a commodity RGB-D camera at 1 m. [m]"""

QUANTILES = (0.05, 0.5, 0.95)
"""Near end, middle and far end of an object's own readings; those outside are noise at its edges."""

LARGELY_HIDDEN = 0.5
"""Share of the amodal mask beyond which a hidden part needs an owner even if no detector flags it."""

OWNED_ENOUGH = 0.02
"""Share of the amodal mask that known objects must hide for them to account for a flag."""

CUT = 0.1
"""`cut` beyond which the image border cuts an object off, and what lies beyond is not known."""

UNEXPLAINED = 0.08
"""Share of the amodal mask without owner that is too much to be a ragged mask.

On 120 simulated scenes as our segmenter sees them 3.6 % of the objects that nothing unsegmented obstructs
exceed this or RING_TAKEN, 0.5 % with true masks, 1.8 % of osd_learn.
"""

RING_TAKEN = 0.05
"""Share of the ring that something unsegmented and higher may take."""

RING_UNREAD = 0.5
"""Share of the ring without a reading beyond which depth cannot stand in for a missing amodal mask."""


@dataclass(frozen=True, eq=False)
class UnseenEvidence:
    """What speaks for something unsegmented before each object. All arrays have shape (n,), read-only.

    Attributes:
        before: Share of the amodal mask where no object shows and something stands before the object. NaN, as
            are the next five, where the object shows no pixel.
        level: The same, at the depth of the object's own surface.
        behind: The same, behind the object.
        unread: The same, without a depth reading there or on the object.
        ring_before: Share of the ring where no object shows and something stands higher than the object.
        ring_unread: The same, without a depth reading there or on the object.
        cut: Pixels of the visible mask on the image border, over the square root of its area.
        shows: Whether the object shows at all.
        has_amodal: Whether its hidden part is known; where not, the shares are of the visible mask.
        flagged: Whether it is said to be hidden, by its detector or by its masks, and no known object hides
            it.
        crossed: Whether a line that no mask explains runs across its outline (`cpor.evidence.crossing`).
    """

    before: Float[np.ndarray, " n"]
    level: Float[np.ndarray, " n"]
    behind: Float[np.ndarray, " n"]
    unread: Float[np.ndarray, " n"]
    ring_before: Float[np.ndarray, " n"]
    ring_unread: Float[np.ndarray, " n"]
    cut: Float[np.ndarray, " n"]
    shows: Bool[np.ndarray, " n"]
    has_amodal: Bool[np.ndarray, " n"]
    flagged: Bool[np.ndarray, " n"]
    crossed: Bool[np.ndarray, " n"]

    def __post_init__(self) -> None:
        for each in fields(self):
            getattr(self, each.name).flags.writeable = False

    @property
    def is_unknowable(self) -> Bool[np.ndarray, " n"]:
        """Objects nothing can be said of: no pixel, cut off, crossed, or neither hidden part nor depth."""
        blind = ~self.has_amodal & (self.ring_unread > RING_UNREAD)
        return np.asarray(~self.shows | (self.cut > CUT) | self.crossed | blind)

    @property
    def is_unexplained(self) -> Bool[np.ndarray, " n"]:
        """Which objects something unsegmented may obstruct, by fixed thresholds. Shape (n,)."""
        hidden = self.before + self.level + self.unread
        return np.asarray((hidden > UNEXPLAINED) | (self.ring_before > RING_TAKEN) | self.flagged)

    def strict_p(self) -> Float[np.ndarray, " n"]:
        """Probability that something unsegmented obstructs, without calibration: 0, or NaN for no answer."""
        return np.where(self.is_unknowable | self.is_unexplained, np.nan, 0.0)


def surface_bounds(values: Float32[np.ndarray, " k"]) -> Float[np.ndarray, "2 2"]:
    """near_i and far_i on the hidden part (row 0) and on the ring (row 1), NaN without a reading. [m]."""
    if values.size == 0:
        return np.full((2, 2), np.nan)
    at = [min(int(share * values.size), values.size - 1) for share in QUANTILES]
    first, middle, last = np.partition(values, at)[at].astype(np.float64)
    return np.array([[middle, last], [first, last]]) + SURFACE_MARGIN * np.array([-1.0, 1.0])


def unseen_evidence(
    scene: Scene,
    unowned: Int64[np.ndarray, "n 2 4"],
    owned: Int64[np.ndarray, " n"],
    area: Int64[np.ndarray, "n 3"],
    has_amodal: Bool[np.ndarray, " n"],
) -> UnseenEvidence:
    """Shares from pixel counts.

    Args:
        scene: The scene.
        unowned: Pixels of the hidden part and of the ring that show no object: before, level, behind and
            not known. [px]
        owned: Hidden pixels that show another object. [px]
        area: Pixels of amodal mask, ring and visible mask. [px]
        has_amodal: Whether the hidden part is known.
    """
    from cpor.evidence.crossing import crossed_objects  # loads the compiler

    amodal_area, ring_area, visible_area = (area[:, k].astype(np.float64) for k in range(3))
    shows = visible_area > 0
    hidden = np.where(shows[:, None], unowned[:, 0] / np.maximum(amodal_area, 1.0)[:, None], np.nan)
    ring = np.where(shows[:, None], unowned[:, 1] / np.maximum(ring_area, 1.0)[:, None], np.nan)
    said = np.array([o.occluded is True for o in scene.objects], dtype=bool)
    largely = has_amodal & (visible_area < (1.0 - LARGELY_HIDDEN) * amodal_area)
    explained = owned > OWNED_ENOUGH * amodal_area
    return UnseenEvidence(
        before=hidden[:, 0].copy(),
        level=hidden[:, 1].copy(),
        behind=hidden[:, 2].copy(),
        unread=hidden[:, 3].copy(),
        ring_before=ring[:, 0].copy(),
        ring_unread=ring[:, 3].copy(),
        cut=_border_pixels(scene) / np.sqrt(np.maximum(visible_area, 1.0)),
        shows=shows,
        has_amodal=has_amodal.copy(),
        flagged=(said | largely) & ~explained,
        crossed=crossed_objects(scene.observation.rgb, scene.visible_ids, scene.ids),
    )


def _border_pixels(scene: Scene) -> Float[np.ndarray, " n"]:
    """Pixels of each visible mask on the image border, corners twice. Shape (n,). [px]."""
    ids = scene.visible_ids
    if ids is None:
        return np.zeros(len(scene.objects))
    edge = np.concatenate([ids[0], ids[-1], ids[:, 0], ids[:, -1]])
    count = np.bincount(edge, minlength=max(scene.ids, default=0) + 1)
    return count[list(scene.ids)].astype(np.float64)
