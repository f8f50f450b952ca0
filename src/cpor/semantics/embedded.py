"""The embedded scorer: a small network that stands in for a vision-language model where none is configured.

It looks at the photograph and the two visible masks, never at depth, so that it stays a source of its own
beside the geometric evidence. It knows what obstruction looks like, not what things are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit

from cpor.perception.network_file import PACKAGED, Session, WeightsError, open_network
from cpor.scene import BlockedBy, Scene, SemanticScores
from cpor.semantics.config import ScorerConfig
from cpor.semantics.crops import near_pairs, pair_crops
from cpor.semantics.scorer import RawReply, RelationScorer, ScoredPairs
from cpor.semantics.vlm import check_pairs

MOST_AT_ONCE = 128
"""Pairs in one batch; more would only take memory."""


def build(config: ScorerConfig) -> RelationScorer:
    """The scorer of a configuration with kind = "embedded"; `options.path` is another network than ours."""
    config.check_options(("path",))
    path = config.option("path", str)
    return EmbeddedScorer() if path is None else EmbeddedScorer(Path(path).expanduser())


@dataclass(frozen=True)
class EmbeddedScorer:
    """Scores pairs with the network that comes with the package; all of a scene in one batch.

    The network is read when first used. It takes `crops` (n, 96, 96, 5) uint8 and gives `logit` (n,).

    Attributes:
        path: The network; the one that comes with the package by default.
    """

    path: Path = PACKAGED / "scorer.onnx"

    @cached_property
    def name(self) -> str:
        """`embedded` and the version of the weights."""
        written = self._session.get_modelmeta().custom_metadata_map
        return f"embedded {written.get('version', 'unknown')}"

    def score(self, scene: Scene, pairs: Sequence[BlockedBy]) -> ScoredPairs:
        """Score each pair; an object that shows nowhere gets no answer."""
        pairs = check_pairs(scene, pairs)
        shown: set[int] = set()
        if scene.visible_ids is not None:
            shown.update(np.flatnonzero(np.bincount(scene.visible_ids.reshape(-1))).tolist())
        seen = [pair for pair in pairs if shown.issuperset(pair)]
        scores: dict[BlockedBy, float | None] = dict.fromkeys(pairs)
        for start in range(0, len(seen), MOST_AT_ONCE):
            batch = seen[start : start + MOST_AT_ONCE]
            scores.update(zip(batch, self._judge(scene, batch), strict=True))
        unseen = tuple(pair for pair in pairs if not shown.issuperset(pair))
        replies = (RawReply(unseen, None, ("an object of the pair shows nowhere",)),) if unseen else ()
        return ScoredPairs(scores, self.name, replies)

    def score_near(self, scene: Scene) -> SemanticScores:
        """Scores of all pairs worth asking about, as a pipeline's `score` stage gives them."""
        return self.score(scene, near_pairs(scene)).semantic_scores()

    def _judge(self, scene: Scene, pairs: Sequence[BlockedBy]) -> list[float | None]:
        assert scene.visible_ids is not None
        crops = pair_crops(scene.observation.rgb, scene.visible_ids, pairs)
        logit = np.asarray(self._session.run(["logit"], {"crops": crops})[0], dtype=np.float64)
        if logit.shape != (len(pairs),):
            raise WeightsError(f"{self.path} gave {logit.shape} for {len(pairs)} pairs; expected one a pair")
        return [float(p) if np.isfinite(p) else None for p in expit(logit)]

    @cached_property
    def _session(self) -> Session:
        return open_network(self.path, ("crops",), ("logit",))

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the open network, so that worker processes can have a copy."""
        return {key: value for key, value in self.__dict__.items() if key not in ("_session", "name")}
