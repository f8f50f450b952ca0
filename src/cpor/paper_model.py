"""The paper's pipeline end to end: its formulas and settings, and nothing of ours.

System(model="paper") and `--pipeline paper` decide with it. It differs from the default pipeline as follows:

geometry    eq. geometry-score with kappa 12 and 0.15 for every cue; the default joins it with our network
candidates  a pair without depth on half of the overlap does not obstruct; by default it has no answer
calibrate   semantic scores alone (eq. calibration); by default geometry too
fuse        eq. fusion, the base rate where reliability is 0; by default no answer there
guard       none: no maximum of fused and geometric probability, no answer withheld where sources contradict
unseen      none: what has no mask does not exist
decide      tau 0.5 unless given, no limit on mu, no promise

Kept all the same: a semantic score that was asked for and did not come is no answer, not "does not obstruct".
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np

from cpor.evidence import GEOMETRY_PRESETS, GeometricEvidence, PairState, UnseenEvidence, geometric_evidence
from cpor.evidence.source import SEMANTIC, Source, sources_of_model
from cpor.learn.control import control_risk
from cpor.learn.gated import GatedFusion
from cpor.learn.logistic import LogisticCalibrator
from cpor.learn.modes import Mode
from cpor.learn.versioned import VersionedModel, kind_of, read_text, read_versioned
from cpor.model import FittedModel
from cpor.pipeline import Pipeline
from cpor.scene import Scene

PAPER = "paper"
"""Name of the model in place of a file."""

TAU = 0.5
"""The paper gives no tau for single decisions; it thresholds object marginals at this."""

PAPER_GEOMETRY = replace(GEOMETRY_PRESETS["paper"], kappa_c=12.0, c_star=0.15, kappa_z=12.0)
"""The paper names one kappa and one star for three cues, so here each cue has them; b_cv is not given, and 0.

The preset `paper` of the geometric evidence leaves out the cues whose coefficients are not named. On 1,642
targets of 150 simulated scenes with true masks, relation F1 is .757 with all cues, .659 with overlap alone.
"""

LEAST_GATE = 1e-9
"""In place of a reliability of 0, so that eq. fusion gives the base rate and the source is not absent."""

_SHARES = ("before", "level", "behind", "unread", "ring_before", "ring_unread", "cut")
_NO_PROMISE = control_risk(np.array([np.nan]), np.array([False]), 0.1, 0.1, np.array([TAU])).model_copy(
    update={"reason": "the paper promises none"}
)
PAPER_FILE = Path(__file__).parent / "models" / "simulated_paper.json"


class PaperFit(VersionedModel):
    """What the paper fits: the semantic calibrator and the fusion.

    Attributes:
        scorer: Name of the semantic source; None: geometry alone.
        calibration: Theta_cal; None where no scores were given.
        fusion: Theta_fus.
        n_scenes: Scenes fitted to, half for each.
        n_pairs: Candidate pairs of these.
    """

    kind: Literal["paper-fit"] = "paper-fit"
    version: Literal[1] = 1
    scorer: str | None
    calibration: LogisticCalibrator | None
    fusion: GatedFusion
    n_scenes: int
    n_pairs: int

    def model(self) -> "PaperModel":
        """The model to give to a System."""
        return PaperModel(
            scorer=self.scorer,
            geometry=PAPER_GEOMETRY,
            calibration={} if self.calibration is None else {SEMANTIC: self.calibration},
            fusion=self.fusion,
            condition=None,
            rate=None,
            promise=_NO_PROMISE,
            parts={},
            targets={},
            reference={},
            seed=0,
        )


class PaperModel(FittedModel):
    """A model whose stages are the paper's."""

    def tau(self, mode: Mode = "cautious") -> float:
        """One threshold for every mode."""
        return TAU

    def pipeline(self, tau: float | None = None, *, sources: Sequence[Source] = ()) -> Pipeline:
        """The paper's stages; arguments as for `FittedModel.pipeline`."""
        return Pipeline(
            measure=paper_evidence,
            sources=sources_of_model(self.fusion.beta, sources),
            calibrate=self.calibration,
            least_reliability=0.0,
            fuse=self.fusion,
            guard=None,
            tau=TAU if tau is None else tau,
            most_mu=1.0,
        )


def load_model(name: str | Path) -> FittedModel:
    """A model by its file, of either pipeline; `paper`: the paper's, with the bundled parameters.

    The bundled ones were fitted on simulated scenes with our networks, since the authors released neither
    Theta_fus nor the masks and scores to fit it to. `cpor fit --pipeline paper` fits others.
    """
    text = read_text(PAPER_FILE if name == PAPER else name)
    known: dict[str, type[PaperFit | FittedModel]] = {
        kind_of(PaperFit): PaperFit,
        kind_of(FittedModel): FittedModel,
    }
    found = read_versioned(text, known)
    return found.model() if isinstance(found, PaperFit) else found


def paper_evidence(scene: Scene) -> GeometricEvidence:
    """The geometric branch: candidates by the paper's rule, all other pairs known not to obstruct."""
    found = geometric_evidence(scene, PAPER_GEOMETRY)
    inside = found.is_candidate
    return replace(
        found,
        state=np.where(inside, found.state, PairState.NO_CONTACT).astype(np.int8),
        p_geometry=np.where(inside, found.p_geometry, 0.0),
        reliability=np.where(inside, np.maximum(found.reliability, LEAST_GATE), found.reliability),
        unseen=nothing_unseen(len(found.ids)),
    )


def nothing_unseen(n: int) -> UnseenEvidence:
    """Evidence that everything hidden is accounted for."""
    shares = {name: np.zeros(n) for name in _SHARES}
    yes = {name: np.ones(n, np.bool_) for name in ("shows", "has_amodal")}
    no = {name: np.zeros(n, np.bool_) for name in ("flagged", "crossed")}
    return UnseenEvidence(**shares, **yes, **no)
