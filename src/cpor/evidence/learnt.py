"""Learnt geometry: a small network on depth and masks beside eq. geometry-score.

It sees no colour, so that it stays a source of its own beside the semantic scores. For every pair of
neighbours it tells how likely it is that one hides the other, that one stands in the way when the other is
lifted straight up, and that either holds; one picture of a pair answers both directions.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from jaxtyping import Float
from scipy.special import expit

from cpor.errors import InputFileError, MissingExtraError, one_of
from cpor.evidence.geometry import GeometricEvidence, GeometrySettings, PairState, geometric_evidence
from cpor.evidence.pair_crops import Pair, geometry_crops, near_pairs, unordered
from cpor.evidence.shadows import FILLING, fill_shadows
from cpor.perception.network_file import PACKAGED, HoldsNetwork, Session, open_network, read_network
from cpor.scene import Scene

PAPER_SHARE = 0.1
"""Share of the paper's log-odds. On 500 scenes of `dev` (our masks) 0 to 0.1 are alike, 0.3 costs a point."""

LARGEST = 6.0
"""Log-odds of the paper's formula beyond this are a figure of speech: it was never calibrated there."""

COVERED = 0.5
"""Hidden overlap from which one object covers most of another."""

LEAST_BEHIND = -3.0
"""Log-odds that the one behind obstructs the one that covers it; 6 of 1,800 such pairs of `dev` did."""

PIECE_HIDES = 1.0
"""Log-odds of occlusion up to which a covered object is a piece. On `dev`, 41 of 135 such pairs were true
obstructions, and 97 in 100 of those above."""

RULE = f"joined 1: {PAPER_SHARE} {LARGEST} {COVERED} {LEAST_BEHIND} {PIECE_HIDES}"
"""What a fingerprint of the joined geometry covers beside the weights."""


def join_geometry(
    paper: GeometricEvidence, learnt: GeometricEvidence, logit_hides: Float[np.ndarray, "n n"]
) -> GeometricEvidence:
    """The network's log-odds, a share of the paper's, and what the overlap alone knows.

    With u the log-odds of the network, u' those of eq. geometry-score within +-LARGEST, o the hidden overlap:

        u_ij := (1 - PAPER_SHARE) u_ij + PAPER_SHARE u'_ij where both speak
        u_ji := min(u_ji, LEAST_BEHIND)                     where j covers most of i: o_ij >= COVERED > o_ji
        u_jk := max(u_jk, u_ik)                             where i is a piece of j

    The segmenter cuts objects with prints, lids or edges in two. The hidden part that it guesses for a piece
    i is then the rest of the same object: j covers most of it, yet the network sees nothing in front. What
    stands before a piece stands before the whole; the last rule only adds obstructions.

    On 44 photographs (110 targets, our masks) the network alone erred in five targets, all cut into pieces
    (three more have masks of another photograph); with true masks it erred in none of these. The constants
    were chosen on those photographs and on `dev`.

    Args:
        paper: By eq. geometry-score.
        learnt: By the network, of the same scene.
        logit_hides: The network's log-odds that j hides part of i; NaN where not asked. Shape (n, n).
    """
    theirs = np.clip(paper.logit_geometry, -LARGEST, LARGEST)
    theirs = np.where(np.isnan(theirs), learnt.logit_geometry, theirs)
    logit = (1.0 - PAPER_SHARE) * learnt.logit_geometry + PAPER_SHARE * theirs
    covered = (paper.hidden_overlap >= COVERED) & ~(paper.hidden_overlap.T >= COVERED)
    logit = np.where(covered.T, np.minimum(logit, LEAST_BEHIND), logit)
    state = learnt.state.copy()
    before = logit.copy()
    for i, j in np.argwhere(covered & (logit_hides <= PIECE_HIDES)):
        takes = ~np.isnan(before[i]) & (state[j] != PairState.UNANSWERED) & ~covered[:, j]
        takes[j] = False
        logit[j, takes] = np.fmax(logit[j, takes], before[i, takes])
        state[j, takes] = PairState.CANDIDATE
    # A sigmoid that underflows to 0 would read as "known not to obstruct".
    p = np.maximum(expit(logit), np.finfo(np.float64).tiny)
    p[state == PairState.NO_CONTACT] = 0.0
    for array in (state, logit, p):
        array.flags.writeable = False
    return replace(learnt, state=state, logit_geometry=logit, p_geometry=p)


RelationKind: TypeAlias = Literal["occlusion", "sweep", "either"]
RELATIONS: tuple[RelationKind, ...] = get_args(RelationKind)
"""What a relation network tells of a direction, in the order of its outputs."""

GeometryKind: TypeAlias = Literal["paper", "learnt", "both"]
"""Geometric evidence by the paper's formula, by the network, or by both joined."""

MOST_AT_ONCE = 64
"""Pairs in one batch; more would only take memory."""


def parse_geometry(name: str) -> GeometryKind:
    """The kind of geometric evidence a person named.

    Raises:
        InvalidSettingError: There is no such kind.
    """
    kinds: tuple[GeometryKind, ...] = get_args(GeometryKind)
    return one_of("geometry", name, kinds)


@dataclass(frozen=True)
class LearntGeometry(HoldsNetwork):
    """Geometric evidence of a scene by the network; called as `geometric_evidence` is.

    The network is read when first used. It takes `crops` (n, 6, 96, 96) uint8 as `geometry_crops` cuts them
    and gives `logit` (n, 2, 3): [pair, (i blocked by j, j blocked by i), RELATIONS].

    A pair that is not near is NO_CONTACT. A near pair is UNANSWERED where a mask is missing, or where either
    object has depth on less than `settings.min_readings` of its visible pixels. In frames with depth shadows
    these are filled first, and so are other holes, but not for `unseen` (`cpor.evidence.shadows`).

    Attributes:
        path: The network; the one that comes with the package by default.
        kind: Which relation its probability is of.
        joined: Whether the paper's formula has a say, as `join_geometry` does it.
        settings: Settings of the cues and of the paper's formula, which takes the network's place
            where onnxruntime or the weights are absent; `fallback` then says so.
    """

    path: Path = PACKAGED / "geometry.onnx"
    kind: RelationKind = "either"
    joined: bool = True
    settings: GeometrySettings = field(default_factory=GeometrySettings)

    def __post_init__(self) -> None:
        one_of("kind", self.kind, RELATIONS)

    def __call__(self, scene: Scene) -> GeometricEvidence:
        """Cues, states and probabilities of all ordered pairs of a scene."""
        lit, scene = fill_shadows(scene)
        paper = geometric_evidence(scene, self.settings)
        if scene is not lit:  # a hole that is filled with what is around it may hide something
            paper = replace(paper, unseen=geometric_evidence(lit, self.settings).unseen)
        if self.fallback is not None:
            return paper
        ids = paper.ids
        place = {label: k for k, label in enumerate(ids)}
        unknown = np.isnan(paper.hidden_overlap)
        state = np.full(paper.state.shape, PairState.NO_CONTACT, np.int8)
        state[unknown] = PairState.UNANSWERED
        np.fill_diagonal(state, PairState.NO_CONTACT)
        logit, hides = np.full((2, *state.shape), np.nan)
        asked: list[Pair] = []
        for first, second in unordered(near_pairs(scene)):
            i, j = place[first], place[second]
            poor = paper.reliability[i, j] < self.settings.min_readings
            if poor or unknown[i, j] or unknown[j, i]:
                state[i, j] = state[j, i] = PairState.UNANSWERED
            else:
                state[i, j] = state[j, i] = PairState.CANDIDATE
                asked.append((first, second))
        for (first, second), told in zip(asked, self.judge(scene, asked), strict=True):
            i, j = place[first], place[second]
            logit[i, j], logit[j, i] = told[:, RELATIONS.index(self.kind)]
            hides[i, j], hides[j, i] = told[:, RELATIONS.index("occlusion")]
        logit[~np.isfinite(logit)] = np.nan
        state[(state == PairState.CANDIDATE) & np.isnan(logit)] = PairState.UNANSWERED
        # A sigmoid that underflows to 0 would read as "known not to obstruct".
        p = np.maximum(expit(logit), np.finfo(np.float64).tiny)
        p[state == PairState.NO_CONTACT] = 0.0
        for array in (state, logit, p):
            array.flags.writeable = False
        learnt = replace(paper, state=state, logit_geometry=logit, p_geometry=p)
        return join_geometry(paper, learnt, hides) if self.joined else learnt

    def judge(self, scene: Scene, pairs: Sequence[Pair]) -> Float[np.ndarray, "n 2 3"]:
        """Log-odds of both directions and all `RELATIONS` of pairs whose objects show. Shape (n, 2, 3)."""
        return run_pairs(self._session, self.path, pairs, lambda batch: geometry_crops(scene, batch))

    @cached_property
    def fallback(self) -> str | None:
        """Why the paper's formula answers in place of the network; None where the network answers."""
        if not self.path.is_file():
            return f"the paper's formula stands in for the learnt geometry: {self.path} is not there"
        try:
            self._session  # noqa: B018
        except MissingExtraError as error:
            return f"the paper's formula stands in for the learnt geometry: {error}"
        return None

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 in hex of weights, filling and the rule that joins, which a model fitted to them names."""
        rules = f"{FILLING} {RULE}" if self.joined else FILLING
        return hashlib.sha256(read_network(self.path) + rules.encode()).hexdigest()

    @cached_property
    def _session(self) -> Session:
        return open_network(self.path, ("crops",), ("logit",))


def run_pairs(session: Session, path: Path, pairs: Sequence[Pair], cut: Any) -> Float[np.ndarray, "n 2 3"]:
    """What a relation network says of pairs, whose pictures `cut` makes, batch by batch. Shape (n, 2, 3)."""
    said = np.empty((len(pairs), 2, len(RELATIONS)))
    for start in range(0, len(pairs), MOST_AT_ONCE):
        batch = pairs[start : start + MOST_AT_ONCE]
        logit = np.asarray(session.run(["logit"], {"crops": cut(batch)})[0], dtype=np.float64)
        if logit.shape != (len(batch), 2, len(RELATIONS)):
            raise InputFileError(
                f"{path} gave {logit.shape} for {len(batch)} pairs; expected (n, 2, {len(RELATIONS)})"
            )
        said[start : start + len(batch)] = logit
    return said
