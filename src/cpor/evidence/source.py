"""Sources of belief, each by its name: a source scores the ordered pairs of a scene.

`geometry` and `semantic` are built in. A further cue is one class with a name and a method `score`; see
docs/extending.md.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float

from cpor.errors import CporError, InvalidSettingError, list_labels
from cpor.plugins import SOURCES, list_plugins, make_plugin
from cpor.scene import Scene, SemanticScores

GEOMETRY = "geometry"
"""The source that measures masks and depth, by the paper's formula, by our network, or by both."""

SEMANTIC = "semantic"
"""The source that looks at the photograph: a relation scorer, or the scores that came with the scene."""


class SourceError(CporError, ValueError):
    """A source of belief that breaks its contract."""


@dataclass(frozen=True, eq=False, init=False)
class PairScores:
    """What one source says of each ordered pair: row i is the blocked object, column j the blocker.

    Attributes:
        score: Score in [0, 1], not calibrated; NaN: no answer. In the order of `Scene.ids`. Shape (n, n).
        asked: Pairs that need an answer: it is missing where no source has one. By default the scored pairs.
            Shape (n, n).
        reliability: How far each score counts, in [0, 1]: the gate r of eq. fusion. By default 1.
            Shape (n, n).
    """

    score: Float[np.ndarray, "n n"]
    asked: Bool[np.ndarray, "n n"]
    reliability: Float[np.ndarray, "n n"]

    def __init__(
        self,
        score: Float[np.ndarray, "n n"],
        asked: Bool[np.ndarray, "n n"] | None = None,
        reliability: Float[np.ndarray, "n n"] | None = None,
    ) -> None:
        put = object.__setattr__
        put(self, "score", score)
        put(self, "asked", ~np.isnan(score) if asked is None else asked)
        put(self, "reliability", np.ones(score.shape) if reliability is None else reliability)


@runtime_checkable
class Source(Protocol):
    """A source of belief of one's own. Its scores need not be probabilities: `cpor fit` calibrates them."""

    @property
    def name(self) -> str:
        """A name of its own, under which a fitted model keeps its calibrator and its weight."""
        ...

    def score(self, scene: Scene) -> PairScores:
        """Score the ordered pairs of a scene.

        Args:
            scene: With masks; n objects.
        """
        ...


def load_sources(sources: Iterable[Source | str]) -> tuple[Source, ...]:
    """Sources by name, as `module:attribute`, or as objects; each name may occur once.

    Raises:
        InvalidSettingError: A source is unknown, is no source, or takes a name that is in use.
    """
    made: dict[str, Source] = {}
    for each in sources:
        source = make_plugin(SOURCES, each) if isinstance(each, str) else each
        if not isinstance(source, Source) or not isinstance(source.name, str) or not source.name:
            raise InvalidSettingError(f"{each!r} is no source of belief; see docs/extending.md")
        if source.name in (GEOMETRY, SEMANTIC, *made):
            raise InvalidSettingError(
                f"the name {source.name!r} of a source is in use; give each source a name of its own"
            )
        made[source.name] = source
    return tuple(made.values())


def sources_of_model(names: Iterable[str], given: Iterable[Source]) -> tuple[Source, ...]:
    """The further sources that a model was fitted with: those given, else installed plug-ins of these names.

    A model file names its sources and never a module: no file makes us import what was not installed.
    """
    wanted = [name for name in names if name not in (GEOMETRY, SEMANTIC)]
    found = {each.name: each for each in given}
    if strange := [name for name in found if name not in wanted]:
        raise InvalidSettingError(
            f"the model was not fitted with the source {strange[0]!r}; fit one with it, or leave it out"
        )
    for name in wanted:
        if name not in found:
            found[name] = _installed(name)
    return tuple(found[name] for name in wanted)


@cache
def _installed(name: str) -> Source:
    if name not in (known := list_plugins(SOURCES)):
        raise InvalidSettingError(
            f"the model was fitted with the source {name!r}, which is not installed; give it as "
            f"module:attribute. Installed are: {list_labels(list(known)) or 'none'}"
        )
    return load_sources([name])[0]


def score_with(source: Source, scene: Scene) -> PairScores:
    """What a source says of a scene, checked; no object obstructs itself.

    Raises:
        SourceError: The arrays have another shape, or hold numbers outside of [0, 1].
    """
    found, n = source.score(scene), len(scene.ids)
    if not isinstance(found, PairScores):
        raise SourceError(f"the source {source.name!r} gave a {type(found).__name__}; give PairScores")
    for what in ("score", "reliability", "asked"):
        shape = np.shape(getattr(found, what))
        if shape != (n, n):
            raise SourceError(f"{what} of the source {source.name!r} has shape {shape}; give ({n}, {n})")
    score, gate = np.array(found.score, np.float64), np.asarray(found.reliability, np.float64)
    asked = np.array(found.asked, np.bool_)
    np.fill_diagonal(score, np.nan)
    np.fill_diagonal(asked, False)
    if ((score < 0.0) | (score > 1.0)).any():
        raise SourceError(
            f"the source {source.name!r} gave scores outside of [0, 1]; use NaN where there is no answer"
        )
    if not ((gate >= 0.0) & (gate <= 1.0))[~np.isnan(score)].all():
        raise SourceError(f"the source {source.name!r} gave a reliability outside of [0, 1]")
    return PairScores(score, asked | ~np.isnan(score), gate)


def semantic_pair_scores(ids: tuple[int, ...], semantic: SemanticScores | None) -> PairScores:
    """Semantic scores as arrays; a pair that was asked about in vain needs an answer."""
    score = np.full((len(ids), len(ids)), np.nan)
    asked = np.zeros((len(ids), len(ids)), np.bool_)
    place = {label: k for k, label in enumerate(ids)}
    for (blocked, blocker), value in (semantic.scores if semantic else {}).items():
        i, j = place[blocked], place[blocker]
        asked[i, j] = True
        if value is not None:
            score[i, j] = value
    return PairScores(score, asked)
