"""The embedded scorer: a small network that stands in for a vision-language model where none is configured.

It looks at the photograph and the two visible masks, never at depth, so that it stays a source of its own
beside the geometric evidence. It knows what obstruction looks like, not what things are: its score is the
probability that one object hides the other or stands in the way when the other is lifted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy.special import expit

from cpor.evidence.learnt import RELATIONS, run_pairs
from cpor.evidence.pair_crops import colour_crops, near_pairs, unordered
from cpor.perception.network_file import CPU, PACKAGED, HoldsNetwork, Session, open_network, parse_device
from cpor.scene import BlockedBy, Scene
from cpor.semantics.scorer import RawReply, RelationScorer, ScoredPairs, check_pairs
from cpor.sources import fingerprint_settings

if TYPE_CHECKING:  # our own scorer needs no configuration
    from cpor.semantics.config import ScorerConfig


def build(config: "ScorerConfig") -> RelationScorer:
    """The scorer of a configuration with kind = "embedded".

    `options.path` is another network than ours, `options.device` what runs it.
    """
    config.check_options(("path", "device"))
    path, device = config.option("path", str), config.option("device", str, "cpu")
    return EmbeddedScorer(EmbeddedScorer.path if path is None else Path(path).expanduser(), device)


@dataclass(frozen=True)
class EmbeddedScorer(HoldsNetwork):
    """Scores pairs with the network that comes with the package; all of a scene in one batch.

    The network is read when first used. It takes `crops` (n, 5, 96, 96) uint8 as `colour_crops` cuts them and
    gives `logit` (n, 2, 3): [pair, (i blocked by j, j blocked by i), RELATIONS].

    Attributes:
        path: The network; the one that comes with the package by default.
        device: What runs the network, as `OnnxSegmenter.device`: another one has another fingerprint.
    """

    path: Path = PACKAGED / "scorer.onnx"
    device: str = "cpu"
    is_free: ClassVar[bool] = True
    """Asking costs no money and little time: the loop scores every pair anew in each look."""

    def __post_init__(self) -> None:
        parse_device(self.device)

    @cached_property
    def name(self) -> str:
        """`embedded` and the version of the weights."""
        written = self._session.get_modelmeta().custom_metadata_map
        return f"embedded {written.get('version', 'unknown')}"

    @cached_property
    def fingerprint(self) -> str:
        """Name, version, and a digest of the weights; and what runs them, if not a CPU."""
        provider = self._session.get_providers()[0]
        return fingerprint_settings(self.name, None if provider == CPU else provider, self.path)

    def pairs(self, scene: Scene) -> tuple[BlockedBy, ...]:
        """Pairs near each other."""
        return near_pairs(scene)

    def score(self, scene: Scene, pairs: Sequence[BlockedBy]) -> ScoredPairs:
        """Score each pair; an object that shows nowhere gets no answer."""
        pairs = check_pairs(scene, pairs)
        rgb, ids = scene.observation.rgb, scene.visible_ids
        if ids is None:
            ids = np.zeros(scene.observation.shape, np.int32)
        shown = set(np.flatnonzero(np.bincount(ids.reshape(-1))).tolist())
        seen = [pair for pair in pairs if shown.issuperset(pair)]
        asked = unordered(seen)
        logit = run_pairs(self._session, self.path, asked, lambda batch: colour_crops(rgb, ids, batch))
        told: dict[tuple[int, int], float] = {}
        for (i, j), p in zip(asked, expit(logit[..., RELATIONS.index("either")]), strict=True):
            told[i, j], told[j, i] = p
        scores: dict[BlockedBy, float | None] = dict.fromkeys(pairs)
        scores |= {pair: float(told[pair]) for pair in seen if np.isfinite(told[pair])}
        unseen = tuple(pair for pair in pairs if not shown.issuperset(pair))
        replies = (RawReply(unseen, None, ("an object of the pair shows nowhere",)),) if unseen else ()
        return ScoredPairs(scores, self.name, replies)

    @cached_property
    def _session(self) -> Session:
        return open_network(self.path, ("crops",), ("logit",), self.device)
