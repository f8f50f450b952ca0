r"""Geometric evidence of obstruction from masks and depth: eq. mask-support and geometry-score.

For objects i (blocked) and j (blocker) with visible masks V and amodal masks A, IV_i = A_i \ V_i the hidden
part of i and R_i = Dilate(A_i, rho) \ A_i the ring around it:

    o_ij = |IV_i n V_j| / max(|A_i|, 1)             hidden overlap
    c_ij = |R_i n V_j| / max(|R_i|, 1)              clearance taken
    d_ij = r_ij tanh((z_i - z_j) / sigma_z)         depth order, r_ij = min(r_i, r_j)
    u_ij = b + kappa_o (o_ij - o*) + kappa_c (c_ij - c*) + kappa_z d_ij,      p_ij = sigmoid(u_ij)

with z_i the median depth reading over V_i and r_i the fraction of V_i that has one.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import IntEnum
from types import MappingProxyType
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float, Float32, Int8, Int64
from scipy.special import expit

from cpor.errors import InvalidSceneError, InvalidSettingError
from cpor.evidence.source import PairScores
from cpor.evidence.unseen import UnseenEvidence, surface_bounds, unseen_evidence
from cpor.scene import MaskCrop, Scene


@dataclass(frozen=True, slots=True)
class GeometrySettings:
    """How masks and depth become a score; the defaults are the preset `default`.

    Attributes:
        rho: Width of the clearance ring: the ring holds what lies within this Euclidean distance of the
            amodal mask (a disk is the structuring element) and inside the image. [px]
        sigma_z: Depth difference at which the ordering cue saturates. [m]
        kappa_o: Weight of hidden overlap, >= 0.
        kappa_c: Weight of clearance, >= 0.
        kappa_z: Weight of depth order, >= 0.
        o_star: Hidden overlap that speaks neither for nor against.
        c_star: Clearance that speaks neither for nor against.
        b_cv: Log-odds of a pair with neutral cues.
        min_readings: A pair is scored when at least this fraction of its overlap has a depth reading.
    """

    rho: int = 8
    sigma_z: float = 0.06
    kappa_o: float = 30.0
    kappa_c: float = 1.2
    kappa_z: float = 2.0
    o_star: float = 0.1
    c_star: float = 0.15
    b_cv: float = -0.3
    min_readings: float = 0.5

    # A model file holds nothing else.
    __pydantic_config__: ClassVar = {"extra": "forbid"}

    def __post_init__(self) -> None:
        for f in fields(self):
            if not math.isfinite(getattr(self, f.name)):
                raise InvalidSettingError(f"{f.name} is {getattr(self, f.name)}; it must be a finite number")
        if not isinstance(self.rho, int) or not 0 <= self.rho <= 1000:
            raise InvalidSettingError(f"rho is {self.rho}; it must be a whole number of pixels, 0 to 1000")
        if self.sigma_z <= 0.0:
            raise InvalidSettingError(f"sigma_z is {self.sigma_z}; it must be above 0, in metres")
        if min(self.kappa_o, self.kappa_c, self.kappa_z) < 0.0:
            raise InvalidSettingError(
                "kappa_o, kappa_c and kappa_z must be 0 or more: no cue argues backwards"
            )
        if not 0.0 < self.min_readings <= 1.0:
            raise InvalidSettingError(f"min_readings is {self.min_readings}; it must lie in (0, 1]")


_PAPER = GeometrySettings(
    rho=8, sigma_z=0.06, kappa_o=12.0, o_star=0.15, kappa_c=0.0, c_star=0.0, kappa_z=0.0, b_cv=0.0
)

GEOMETRY_PRESETS: Mapping[str, GeometrySettings] = MappingProxyType(
    {"default": GeometrySettings(), "paper": _PAPER}
)
"""Presets by name.

`default`: rho and sigma_z as in the paper. The other numbers are, rounded, the non-negative logistic
regression of "j hides more than 5% of i" on o_ij, c_ij and d_ij over the 11,900 candidate pairs of 400 drawn
scenes, u = -3.50 + 30.2 o + 1.20 c + 1.99 d (`tests/evidence/test_default_coefficients.py` draws scenes and
fits again). A constant can move between b_cv, o_star and c_star: the latter two are the mean cues of a
candidate, rounded, and b_cv takes the rest. The scenes are objects dropped on a table seen at a slant, with
wandering mask edges, hidden parts found only partly or guessed too large, noise and gaps in the depth. No
labelled photograph or rendered scene went into it.

`paper`: what the paper's settings say, rho 8 px, sigma_z 60 mm, one kappa 12 with o_star 0.15. They name no
kappa_c, kappa_z, c_star and b_cv; here these are 0, so that nothing is invented and the score is that of
hidden overlap alone.
"""


class PairState(IntEnum):
    """What geometry has to say about an ordered pair."""

    NO_CONTACT = 0
    """j shows neither on the hidden part of i nor on its ring: known not to obstruct."""
    CANDIDATE = 1
    """A candidate of the paper's rule: they touch, and the overlap has enough depth readings."""
    UNANSWERED = 2
    """They touch but depth is missing, or a mask is missing: an answer is needed and there is none."""


@dataclass(frozen=True, eq=False)
class GeometricEvidence:
    """Cues and scores of all ordered pairs: row i is the blocked object, column j the blocker.

    All arrays but those of `unseen` have shape (n, n); they are read-only and follow the order of `ids`.

    Attributes:
        ids: Ids of the objects, ascending.
        state: A `PairState` for each pair; the diagonal is NO_CONTACT.
        hidden_overlap: o_ij, in [0, 1]. NaN where a mask is missing.
        clearance: c_ij, in [0, 1]. NaN where a mask is missing.
        depth_order: d_ij, in [-1, 1], positive where j is nearer to the camera; 0 where either object
            has no depth reading.
        reliability: r_ij, in [0, 1], the gate of eq. fusion.
        logit_geometry: u_ij where scored, NaN elsewhere.
        p_geometry: sigmoid(u_ij) where scored: a bounded confidence, not calibrated. 0 without contact,
            NaN without answer, as `ObstructionPosterior` reads them.
        unseen: What speaks for something without a mask before each object.
        nearness: See `cpor.evidence.nearness`; None: not measured.
    """

    ids: tuple[int, ...]
    state: Int8[np.ndarray, "n n"]
    hidden_overlap: Float[np.ndarray, "n n"]
    clearance: Float[np.ndarray, "n n"]
    depth_order: Float[np.ndarray, "n n"]
    reliability: Float[np.ndarray, "n n"]
    logit_geometry: Float[np.ndarray, "n n"]
    p_geometry: Float[np.ndarray, "n n"]
    unseen: UnseenEvidence
    nearness: Float[np.ndarray, "n n"] | None = None

    @property
    def is_candidate(self) -> Bool[np.ndarray, "n n"]:
        """Which pairs are candidates with a score: the delta^cv of eq. fusion. Shape (n, n)."""
        return np.asarray(self.state == PairState.CANDIDATE)

    @property
    def is_unanswered(self) -> Bool[np.ndarray, "n n"]:
        """Which pairs need an answer that geometry cannot give. Shape (n, n)."""
        return np.asarray(self.state == PairState.UNANSWERED)

    def pair_scores(self, least_reliability: float) -> PairScores:
        """The scores as a source of belief, of the candidates with at least this reliability."""
        reliable = self.is_candidate & (self.reliability >= least_reliability)
        score = np.where(reliable, self.p_geometry, np.nan)
        return PairScores(score, self.state != PairState.NO_CONTACT, self.reliability)


def geometric_evidence(scene: Scene, settings: GeometrySettings | None = None) -> GeometricEvidence:
    """Cues, candidates and scores of all ordered pairs of a scene.

    Args:
        scene: With objects and, for any answer, their visible and amodal masks.
        settings: None for the preset `default`.

    Raises:
        InvalidSceneError: The scene was never segmented and lists no objects: nothing can be said, and
            an empty result would read as "nothing is in the way".
    """
    settings = settings or GeometrySettings()
    if scene.visible_ids is None and not scene.objects:
        raise InvalidSceneError("the scene has no objects and no masks; segment it first")
    pairs, unowned, has_amodal, areas, readings, z = _measure(scene, settings.rho)
    hidden, ring, touch_readings = pairs
    amodal_area, ring_area, visible_area = areas.T

    has_visible = visible_area > 0
    known = has_visible[None, :] & (has_visible & has_amodal)[:, None]
    overlap = hidden / np.maximum(amodal_area, 1)[:, None]
    clearance = ring / np.maximum(ring_area, 1)[:, None]
    fraction = readings / np.maximum(visible_area, 1)
    reliability = np.minimum(fraction[:, None], fraction[None, :])
    order = reliability * np.tanh((z[:, None] - z[None, :]) / settings.sigma_z)
    order[np.isnan(order)] = 0.0

    touch = hidden + ring
    enough = touch_readings >= settings.min_readings * touch
    state = np.where(enough, PairState.CANDIDATE, PairState.UNANSWERED).astype(np.int8)
    state[touch == 0] = PairState.NO_CONTACT
    state[~known] = PairState.UNANSWERED
    np.fill_diagonal(state, PairState.NO_CONTACT)

    logit = (
        settings.b_cv
        + settings.kappa_o * (overlap - settings.o_star)
        + settings.kappa_c * (clearance - settings.c_star)
        + settings.kappa_z * order
    )
    logit[state != PairState.CANDIDATE] = np.nan
    # A sigmoid that underflows to 0 would read as "known not to obstruct".
    p = np.maximum(expit(logit), np.finfo(np.float64).tiny)
    p[state == PairState.NO_CONTACT] = 0.0
    overlap[~known] = np.nan
    clearance[~known] = np.nan
    arrays = (state, overlap, clearance, order, reliability, logit, p)
    for array in arrays:
        array.flags.writeable = False
    unseen = unseen_evidence(scene, unowned, hidden.sum(axis=1), areas, has_amodal)
    return GeometricEvidence(scene.ids, *arrays, unseen)


def _measure(
    scene: Scene, rho: int
) -> tuple[
    Int64[np.ndarray, "3 n n"],
    Int64[np.ndarray, "n 2 4"],
    Bool[np.ndarray, " n"],
    Int64[np.ndarray, "n 3"],
    Int64[np.ndarray, " n"],
    Float[np.ndarray, " n"],
]:
    """Count pixels of all pairs from one image of object numbers, one box per object.

    Returns:
        |IV_i n V_j|, |R_i n V_j|, and pixels of both with a depth reading. Shape (3, n, n). [px]
        Pixels of IV_i and R_i that show no object, by what depth says there. Shape (n, 2, 4). [px]
        Whether the hidden part is known. Shape (n,).
        |A_i| (|V_i| where it is not known), |R_i| inside the image, and |V_i|. Shape (n, 3). [px]
        Pixels of V_i that have a depth reading. Shape (n,). [px]
        Median of these readings, NaN without any. Shape (n,). [m]
    """
    # Imported here because numba takes most of a second, which a command that only lists objects
    # should not pay.
    from cpor.evidence import _kernels

    n = len(scene.objects)
    pairs, areas = np.zeros((3, n, n), dtype=np.int64), np.zeros((n, 3), dtype=np.int64)
    hidden, ring, touch_readings = pairs
    unowned = np.zeros((n, 2, 4), dtype=np.int64)
    has_amodal = np.zeros(n, dtype=bool)
    readings = np.zeros(n, dtype=np.int64)
    z_median = np.full(n, np.nan)
    bounds = np.full((n, 2, 2), np.nan)
    if scene.visible_ids is not None and n > 0:
        depth = scene.observation.depth
        if depth is None:
            depth = np.zeros((0, 0), dtype=np.float32)
            depth.flags.writeable = False  # Like real depth, or the kernels would be compiled twice.
        index_of_id = np.full(scene.objects[-1].id + 1, -1, dtype=np.int32)
        index_of_id[list(scene.ids)] = np.arange(n)
        index_image, shown, readings, boxes = _kernels.survey_visible(
            scene.visible_ids, index_of_id, depth, n
        )
        areas[:, 2] = shown
        if readings.any():
            values = np.split(
                _kernels.gather_readings(index_image, depth, readings), np.cumsum(readings)[:-1]
            )
            z_median[:] = [_median(v) if v.size else math.nan for v in values]
            bounds[:] = [surface_bounds(v) for v in values]
        half_width = np.array([math.isqrt(rho**2 - k**2) for k in range(rho + 1)])
        for i, o in enumerate(scene.objects):
            if shown[i] == 0:
                continue
            whole = o.amodal
            has_amodal[i] = whole is not None and bool(whole.pixels.any())
            if whole is None or not has_amodal[i]:  # an empty mask inside the box of the visible one
                whole = MaskCrop(int(boxes[i, 0]), int(boxes[i, 2]), np.zeros((0, 0), dtype=bool))
            areas[i, :2] = _kernels.count_contacts(
                i, whole.pixels, whole.top, whole.left, boxes[i], index_image, depth, half_width,
                bounds[i], hidden[i], ring[i], touch_readings[i], unowned[i],
            )  # fmt: skip
    return pairs, unowned, has_amodal, areas, readings, z_median


def _median(values: Float32[np.ndarray, " k"]) -> float:
    """Median. `np.median` is eight times slower: it looks for NaN, and there is none."""
    middle = values.size // 2
    parted = np.partition(values, middle)
    upper = float(parted[middle])
    return upper if values.size % 2 else (float(parted[:middle].max()) + upper) / 2.0
