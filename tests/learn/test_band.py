"""The band around the calibration curve: by hand where it can be, and over redraws of the images."""

import numpy as np
import pytest
from support.sizes import sized

from cpor.errors import FittingError
from cpor.learn.band import BeliefBand


def draw(rng, n_images, slope, bias, spread=0.3):
    """Pairs of images that share an error each: beliefs, labels, images."""
    image = np.repeat(np.arange(n_images), 12)
    x = rng.normal(-1.0, 2.0, image.size)
    shift = spread * rng.normal(size=n_images)[image]
    label = rng.random(image.size) < 1.0 / (1.0 + np.exp(-(slope * x + bias + shift)))
    return 1.0 / (1.0 + np.exp(-x)), label, image


def test_the_ends_follow_from_slope_bias_and_covariance_by_hand():
    band = BeliefBand(slope=2.0, bias=1.0, covariance=(0.04, 0.0, 0.09), delta=np.exp(-2.0), n_images=50)
    least, most = band.interval(np.array([0.5, 1.0 / (1.0 + np.exp(-1.0))]))
    # delta = e^-2: z = 2. At x = 0 the line is at 1, half a width 2 * .3; at x = 1 it is at 3, 2 * sqrt(.13).
    logit = [np.log(end / (1.0 - end)) for end in (least, most)]
    assert logit[1] == pytest.approx([1.6, 3.0 + 2.0 * np.sqrt(0.13)])
    assert logit[0] == pytest.approx([0.0, 1.0])  # 0.4 and 2.28 would leave the belief itself out


def test_the_band_narrows_with_images_and_needs_some(rng):
    widths = []
    for n in (40, 640):
        least, most = BeliefBand.fit(*draw(rng, n, 1.0, 0.0)).interval(np.array([0.3]))
        widths.append(float((most - least)[0]))
    assert widths[1] < 0.5 * widths[0]
    with pytest.raises(FittingError, match="5 images"):
        BeliefBand.fit(*draw(rng, 5, 1.0, 0.0))


def test_a_separable_sample_has_a_band(rng):
    p, _, image = draw(rng, 30, 1.0, 0.0)
    least, most = BeliefBand.fit(p, p > 0.5, image).interval(p)
    assert np.isfinite([least, most]).all()


def test_the_whole_line_is_held_over_redraws(evidence):
    rng = np.random.default_rng(7)
    x = np.linspace(-5.0, 4.0, 40)
    p = 1.0 / (1.0 + np.exp(-x))
    held, redraws = 0, sized(150, 1000)
    for _ in range(redraws):
        slope, bias = rng.normal(1.0, 0.2), rng.normal(0.0, 0.3)
        least, most = BeliefBand.fit(*draw(rng, 60, slope, bias), delta=0.1).interval(p)
        # What the shared errors leave of the line on average, to which a fit without them converges.
        shifts = 0.3 * np.linspace(-3.0, 3.0, 61)
        weight = np.exp(-0.5 * (shifts / 0.3) ** 2)
        true = (1.0 / (1.0 + np.exp(-(slope * x[:, None] + bias + shifts))) * weight).sum(1) / weight.sum()
        held += bool(((least <= true) & (true <= most)).all())
    point = f"band of beliefs holds the whole true line, {redraws} redraws of 60 images"
    evidence("calibrated", point, ">= 0.9", held / redraws)
    assert held >= 0.9 * redraws - 3.0 * np.sqrt(0.09 * redraws)
