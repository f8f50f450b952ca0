"""What `cpor fit` learns and every deciding command can use: one JSON file, versioned."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, field_serializer, model_validator

from cpor.decision import MOST_MU, Decision, Defer
from cpor.evidence import GeometrySettings
from cpor.evidence.learnt import GeometryKind
from cpor.evidence.source import Source, sources_of_model
from cpor.io.seals import Seal, digest_of, seal_here, sign, why_unknown
from cpor.learn.action import ActionCalibrator
from cpor.learn.band import BeliefBand
from cpor.learn.control import RiskPromise
from cpor.learn.coverage import CandidateCoverage
from cpor.learn.drift import DriftReport, check_drift
from cpor.learn.gated import GatedFusion, Guard
from cpor.learn.logistic import Calibrator, LogisticCalibrator
from cpor.learn.modes import DEFAULT_MODE, Mode, ModeFigures, mode_tau, percent
from cpor.learn.unseen import UnseenCalibrator
from cpor.learn.versioned import VersionedModel
from cpor.pipeline import UNSEEN, PairBeliefs, Pipeline, measure_with
from cpor.truth import TruthKind

PairCalibration = Annotated[Calibrator, Field(discriminator="kind")]

_BUNDLED = Path(__file__).parent / "models"

PARTS = ("calibration", "fusion", "selection", "promise")
"""Disjoint parts of the labelled scenes, split by image, each for one purpose."""


Bundled: TypeAlias = Literal["geometry", "embedded"]
"""Models that come with the package: masks that are given and depth alone, or our own two networks."""


BUNDLED_DIGESTS: dict[Bundled, str] = {
    "geometry": "fb2cdbb64c46ca1c37347f5ee0d7ce751d8f9a566575723d167b2d107484a64d",
    "embedded": "6c121a0b66e93072514fda366f15ab4443357fe0700d3703441efac5593ea34f",
}
"""Digest of the content of each bundled model: what came with the package needs no seal."""


def bundled_model(kind: Bundled = "geometry") -> Path:
    """File of a model that comes with the package, fitted on simulated scenes (`dev`)."""
    return _BUNDLED / f"simulated_{kind}.json"


class TestedWith(BaseModel):
    """What made the masks and scores of the scenes that the promise was tested on, by fingerprint.

    Attributes:
        segmenter: Fingerprint of the segmenter.
        scorer: Fingerprint of the scorer; None: there was none.
        sources: Fingerprint of each further source, by its name.
    """

    __test__: ClassVar = False  # a name that test runners look at
    model_config = ConfigDict(frozen=True, extra="forbid")

    segmenter: str
    scorer: str | None
    sources: dict[str, str] = Field(default_factory=dict)


class FittedModel(VersionedModel):
    """Calibration, fusion and promised error rate, fitted on disjoint parts of labelled scenes.

    Attributes:
        scorer: Name of the semantic source it was fitted to; None where geometry was alone.
        truth: Which true relations it learnt.
        tested_with: What made masks and scores of its scenes; None where that is not recorded: then nothing
            is promised, whatever the test said.
        geometry: Settings of the geometric evidence.
        geometry_kind: Whose geometric evidence it was fitted to.
        geometry_weights: Fingerprint of the network it was fitted to; None for the paper's formula.
        calibration: For the scores of each source by its name; sources without scores have none.
        fusion: Fusion of all sources.
        coverage: Adds candidates by nearness; None: the candidates are those that geometry or a scorer links.
        band: How far the fused probabilities may be off, for the mode `robust`; None: not known.
        condition: For what lies on the target's chain; None where left out.
        rate: From action scores to success rates.
        promise: The promised error rate and its tau, or why there is none.
        modes: What each mode did on the scenes of the promise.
        unseen: For what has no mask; None: evidence of it is no answer.
        most_disagreement: Log-odds by which the sources may contradict each other; None: the default.
        most_mu: Share of belief that may be discarded as contradictory; None: the default.
        retrievals: The promise over whole retrievals, where some were judged (`cpor fit --episodes`).
        p_unanswered: Share of the pairs without any answer that truly obstruct, to give as a prior to those
            who must act nevertheless; None where every pair had an answer.
        parts: The scenes of each part, by name.
        targets: The target asked for in each scene of the last two parts.
        reference: Features of the scenes of the last part, to tell drift from.
        setup: Figures of the camera's set-up in them (`cpor.gate.setup`), to tell another one from.
        seed: Random seed of the split and of the targets.
        seal: The person that vouches for all of this (`cpor.io.seals`); the bundled models need none.
    """

    kind: Literal["cpor-model"] = "cpor-model"
    version: Literal[2] = 2
    latest_version: ClassVar[int] = 2
    scorer: str | None
    truth: TruthKind = "occlusion"
    tested_with: TestedWith | None = None
    geometry: GeometrySettings
    geometry_kind: GeometryKind = "paper"
    geometry_weights: str | None = None
    calibration: dict[str, PairCalibration]
    fusion: GatedFusion
    coverage: CandidateCoverage | None = None
    band: BeliefBand | None = None
    condition: LogisticCalibrator | None
    rate: ActionCalibrator | None
    promise: RiskPromise
    modes: dict[Mode, ModeFigures] = Field(default_factory=dict)
    unseen: UnseenCalibrator | None = None
    most_disagreement: PositiveFloat | None = None
    most_mu: float | None = Field(default=None, ge=0.0, le=1.0)
    retrievals: RiskPromise | None = None
    p_unanswered: float | None = Field(default=None, ge=0.0, le=1.0)
    parts: dict[str, list[str]]
    targets: dict[str, int]
    reference: dict[str, list[float | None]]
    setup: dict[str, list[float | None]] = Field(default_factory=dict)
    seed: int
    seal: Seal | None = None

    @field_serializer("geometry")
    def _all_settings(self, geometry: GeometrySettings) -> dict[str, Any]:
        return asdict(geometry)  # defaults too: the digest covers them

    @model_validator(mode="after")
    def _check_modes(self) -> "FittedModel":
        """The figures of the modes are counts of the tested scenes, at the thresholds in force."""
        for mode, figures in self.modes.items():
            tau = mode_tau(mode, self.promise.tau if self.tested_with is not None else None)
            if (figures.tau, figures.n) != (tau, self.promise.n):
                counted = f"tau {figures.tau:g} and {figures.n} scenes"
                raise ValueError(f"mode {mode} has {counted}; the promise has {tau:g} and {self.promise.n}")
        return self

    @property
    def digest(self) -> str:
        """Digest of everything but the seal: thresholds, modes, calibrators, fusion, networks, counts."""
        return digest_of(self.model_dump(mode="json", exclude={"seal"}, exclude_defaults=True))

    @property
    def tested_digest(self) -> str:
        """Digest of what decides in a retrieval: all but the promise over retrievals."""
        return self.model_copy(update={"retrievals": None}).digest

    def sealed(self, key_file: Path | None = None) -> "FittedModel":
        """The same model, vouched for by this account, or signed with a key.

        Args:
            key_file: An Ed25519 key as `ssh-keygen` writes it; None: the account's own key. Where that
                cannot be kept, the model stays without a seal.
        """
        digest = self.digest
        return self.model_copy(update={"seal": sign(digest, key_file) if key_file else seal_here(digest)})

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> "FittedModel":
        """A copy; what was found out about this model is not carried over."""
        copied = super().model_copy(update=update, deep=deep)
        copied.__dict__.pop("unproven", None)
        return copied

    @cached_property
    def unproven(self) -> str | None:
        """Why the promise is a mere claim of the file; None: the package or a known key vouches for it."""
        digest = self.digest
        return None if digest in BUNDLED_DIGESTS.values() else why_unknown(self.seal, digest)

    def why_no_promise(self) -> str | None:
        """Why this model promises nothing, whatever the scene; None: it does."""
        promise = self.promise
        if promise.tau is None:
            return promise.reason
        if self.unproven is not None:
            claim = f"at most {percent(promise.alpha)} wrong (confidence {percent(1.0 - promise.delta)})"
            return f"{claim} is claimed by the model file alone, and {self.unproven}"
        if self.tested_with is None:
            return "nobody recorded which masks and scores the model was tested with"
        return None

    def tau(self, mode: Mode = DEFAULT_MODE) -> float:
        """The score above which a mode acts; a tested threshold counts only where something is promised."""
        return mode_tau(mode, None if self.why_no_promise() else self.promise.tau)

    def say_coverage(self) -> str:
        """How often all true relations are among the candidates; empty where that was not fitted."""
        if self.coverage is None:
            return ""
        share, n = percent(1.0 - self.coverage.alpha), self.coverage.n
        return f"In at least {share} of scenes like the {n} labelled ones every true relation is a candidate."

    def say_mode(self, mode: Mode) -> str:
        """What the mode did on the tested scenes, in a sentence; empty where nothing was counted."""
        figures = self.modes.get(mode)
        if figures is None or figures.tau != self.tau(mode):
            return ""
        claimed = "" if self.unproven is None else "the model file claims that "
        return f"Mode {mode}: {claimed}{figures.in_words()}."

    def pipeline(self, tau: float | None = None, *, sources: Sequence[Source] = ()) -> Pipeline:
        """The fitted stages.

        Args:
            tau: Act above this score. None: as the mode `cautious` does.
            sources: The further sources it was fitted with, where they are not installed under their names.
        """
        measure = measure_with(self.geometry, self.geometry_kind)
        if self.coverage is not None:
            from cpor.evidence.nearness import WithNearness

            measure = WithNearness(measure)
        return Pipeline(
            measure=measure,
            sources=sources_of_model(self.fusion.beta, sources),
            calibrate=self.calibration,
            calibrate_unseen=self.unseen,
            fuse=self.fusion,
            guard=Guard() if self.most_disagreement is None else Guard(self.most_disagreement),
            coverage=self.coverage,
            condition=self.condition,
            rate=self.rate,
            tau=self.tau() if tau is None else tau,
            most_mu=MOST_MU if self.most_mu is None else self.most_mu,
        )

    def check_drift(
        self,
        results: Sequence[tuple[PairBeliefs, Decision] | None],
        rng: np.random.Generator,
        level: float = 0.01,
    ) -> DriftReport:
        """Whether new scenes still look like those the promise was made from.

        Args:
            results: Beliefs and decision of the new scenes, one target each; None for an empty scene.
            rng: Draws the permutations.
            level: Probability of a false alarm when nothing has changed.
        """
        old = {name: np.array(values, np.float64) for name, values in self.reference.items()}
        return check_drift(old, scene_features(results), rng, level)


def belief_features(beliefs: PairBeliefs) -> dict[str, float]:
    """What a scene looks like to the stages, whatever the target: one number for each feature."""
    p = beliefs.p_fused
    candidates = p[(p > 0.0) & ~np.isnan(p)]
    return {
        "n_objects": float(len(beliefs.ids)),
        "n_candidates": float(candidates.size),
        "mean_p": float(candidates.mean()) if candidates.size else np.nan,
        "n_unanswered": float(np.isnan(p).sum()),
    }


_EMPTY = {"n_objects": 0.0, "n_candidates": 0.0, "mean_p": np.nan, "n_unanswered": 0.0}


def scene_features(results: Sequence[tuple[PairBeliefs, Decision] | None]) -> dict[str, np.ndarray]:
    """What drift is told from: one number a scene for each feature. Shape (n,) each."""
    rows = []
    for result in results:
        if result is None:  # a scene without objects
            rows.append({"best_score": np.nan, **_EMPTY})
            continue
        beliefs, decision = result
        missing = isinstance(decision.action, Defer) and decision.action.reason == "no_evidence"
        scores = [score for label, score in decision.scores.items() if label != UNSEEN]
        best = np.nan if missing else max(scores)
        rows.append({"best_score": best, **belief_features(beliefs)})
    names = ("best_score", *_EMPTY)
    return {name: np.array([row[name] for row in rows], np.float64) for name in names}
