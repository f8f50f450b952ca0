"""Whether the pictures that come in still look like those that the model was tested on.

The service counts in windows that do not overlap. Each window is one permutation test, so a false alarm comes
in a share `LEVEL` of the windows. An alarm stays until a later window passes.
"""

import logging
from dataclasses import dataclass, field

import numpy as np

from cpor.learn.drift import check_drift
from cpor.model import FittedModel, scene_features
from cpor.pipeline import PairBeliefs

WINDOW = 30
"""Pictures of one test."""

LEVEL = 0.01
"""Share of windows with a false alarm."""

_LOG = logging.getLogger("cpor.serve")


def drift_features(model: FittedModel, beliefs: PairBeliefs, rng: np.random.Generator) -> dict[str, float]:
    """What drift is told from, of one picture: one random target, whatever the threshold."""
    result = None
    if beliefs.ids:
        pipeline = model.pipeline(tau=0.0)
        posterior = pipeline.posterior(beliefs, int(rng.choice(beliefs.ids)))
        result = beliefs, pipeline.decide(posterior)
    return {name: float(values[0]) for name, values in scene_features([result]).items()}


@dataclass
class DriftWatch:
    """Watches the pictures of a service; `warning` is empty while nothing fires."""

    model: FittedModel
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    warning: str = ""
    _window: list[dict[str, float]] = field(default_factory=list, init=False)

    def add(self, beliefs: PairBeliefs) -> None:
        """Count one more picture; with the last of a window, test it."""
        self._window.append(drift_features(self.model, beliefs, self.rng))
        if len(self._window) < WINDOW:
            return
        new = {name: np.array([each[name] for each in self._window]) for name in self._window[0]}
        old = {name: np.array(values, np.float64) for name, values in self.model.reference.items()}
        self._window.clear()
        found = check_drift(old, new, self.rng, LEVEL)
        self.warning = f"The last {WINDOW} pictures: {found.reason}." if found.drifted else ""
        if found.drifted:
            _LOG.warning("drift: %s", found.reason)
