"""Unseen blockers are learnt from dropped masks, and no cue argues backwards."""

from dataclasses import replace

import numpy as np
import pytest

from cpor.errors import FittingError
from cpor.evidence import UnseenEvidence
from cpor.learn.unseen import UnseenCalibrator


def draw(rng, n=400):
    """Objects with and without an unseen blocker, which leaves about a fifth of the mask without owner."""
    label = rng.random(n) < 0.2
    before = np.where(label, rng.uniform(0.0, 0.4, n), rng.exponential(0.004, n))
    zeros = np.zeros(n)
    ring = np.where(label, rng.uniform(0.0, 0.3, n), rng.exponential(0.004, n))
    yes, no = np.ones(n, bool), np.zeros(n, bool)
    cues = (before, zeros, zeros.copy(), zeros.copy(), ring, zeros.copy(), zeros.copy())
    return UnseenEvidence(*cues, shows=yes, has_amodal=yes.copy(), flagged=no, crossed=no.copy()), label


def test_probabilities_mean_what_they_say_on_new_objects(rng):
    fitted = UnseenCalibrator.fit([draw(rng) for _ in range(3)])
    cues, label = draw(rng, 4000)
    p = fitted.apply(cues)
    assert p.mean() == pytest.approx(label.mean(), abs=0.03)
    assert p[label].mean() > 0.8 and p[~label].mean() < 0.1
    assert (fitted.n, fitted.n_obstructed > 0) == (1200, True)


def test_more_evidence_never_makes_it_less_likely(rng):
    fitted = UnseenCalibrator.fit([draw(rng)])
    cues, _ = draw(rng, 50)
    for name in ("before", "level", "unread", "ring_before"):
        more = replace(cues, **{name: getattr(cues, name) + 0.1})
        assert (fitted.apply(more) >= fitted.apply(cues)).all()


def test_what_nothing_can_be_said_of_has_no_answer(rng):
    fitted = UnseenCalibrator.fit([draw(rng)])
    cues, _ = draw(rng, 3)
    shows = np.array([False, True, True])
    cut = np.array([0.0, 0.5, 0.0])
    assert np.isnan(fitted.apply(replace(cues, shows=shows, cut=cut))).tolist() == [True, True, False]


def test_both_outcomes_are_needed(rng):
    cues, label = draw(rng)
    with pytest.raises(FittingError, match="where both occur"):
        UnseenCalibrator.fit([(cues, np.zeros_like(label))])


def test_it_survives_the_file(rng):
    fitted = UnseenCalibrator.fit([draw(rng)])
    assert UnseenCalibrator.from_json(fitted.to_json()) == fitted
