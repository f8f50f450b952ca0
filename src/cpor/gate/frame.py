"""Checks of a frame: its picture, its depth, and both together.

The thresholds were chosen on, and "untouched" below means: 44 + 5 photographs with sensor depth, 4 raw camera
frames, 4 MetaGraspNet views and 69 simulated frames. docs/gate.md has the rates, on other frames as well.
"""

import numpy as np
from jaxtyping import Float32, UInt8

from cpor.evidence.shadows import find_shadow
from cpor.gate.check import Check, CheckState, graded
from cpor.gate.edges import colour_strength, compare_edges, depth_edges, work_factor
from cpor.io.depth import PLAUSIBLE_M, SURE, TYPICAL_M, USUAL_M, middle_of
from cpor.scene import Observation

COVERAGE = (0.6, 0.4)
"""Share of the middle with a reading, for doubt and for failure. Lowest untouched: 0.68 with harsh simulated
faults, 0.74 in a photograph. Half of the readings lost: 0.34 to 0.50."""

LEAST_WHOLE = 0.5
"""Share of the whole picture with a reading, for doubt. Lowest untouched: 0.54. A tub with glossy walls:
0.49."""

FLAT_M = 0.002
"""Depth that varies less than this over 98 % of the frame is constant. Lowest untouched: 0.049. [m]"""

COARSE_M = 0.005
"""Steps between readings above this: a wrong unit or 8 bits. Largest untouched: 0.002 (Kinect). [m]"""

FEW_LEVELS = 12
"""With fewer different readings the scene is drawn, not measured: steps say nothing. Least measured: 68."""

DARK_LEVEL, BRIGHT_LEVEL = 16, 254
"""A pixel is black with no channel as bright as the first, clipped with one as bright as the second."""

DARK_SHARE = (0.4, 0.9)
"""Share of black pixels for doubt and for failure. Highest untouched: 0.05."""

BRIGHT_SHARE = (0.25, 0.6)
"""Share of clipped pixels for doubt and for failure. Highest untouched: 0.03."""

EVEN_LEVELS = 12.0
"""Contrast (5 % to 95 % of the best channel) below this shows nothing. Lowest untouched: 68. [levels]"""

RED_OVER_BLUE = 1.4
"""Noise of red over that of blue above which the channels look swapped: cameras amplify blue most. Highest
untouched: 1.31 simulated, 0.99 photographed. A Kinect with swapped channels: 1.56 to 2.1."""

LEAST_NOISE = 0.3
"""Mean second difference of grey in the evenest quarter below which there is no noise to compare. [levels]"""

DRAWN_SHARE = 0.8
"""Share of pixels exactly like their neighbours above which a picture is drawn and noise-free. Highest of the
photographs and of ray-cast frames: 0.39."""

LEAST_EDGES = 100
"""Depth edges, in work pixels, below which nothing can be said of registration. Photographs: 86 to 1,109."""

FITS = (1.2, 1.05)
"""Strength of colour under depth edges for doubt and for failure. Untouched: at least 1.26. Depth of another
frame: 0.5 to 1.4 on tables, 1.0 to 1.7 in a bin, whose walls stay where they are."""

FITS_BETTER_ELSEWHERE = (0.9, 0.85)
"""Fit here over the best fit elsewhere for doubt and for failure. Untouched: at least 0.92. Shifted by 20 px
of 640: 256 of 264 found in the 44 photographs; at most 0.76 in simulated frames."""


def check_frame(observation: Observation, previous: Observation | None = None) -> tuple[Check, ...]:
    """Everything that can be said of a frame without masks.

    Args:
        observation: The frame.
        previous: The frame before it from the same camera, where there was one.
    """
    checks = [_exposure(observation.rgb), _channels(observation.rgb), *_depth(observation)]
    if previous is not None:
        checks.append(_fresh(observation, previous))
    return tuple(checks)


def _depth(observation: Observation) -> list[Check]:
    depth = observation.depth
    if depth is None:
        return [
            Check(
                "depth_coverage",
                "doubt",
                "The frame has no depth.",
                "Give the depth picture; from colour alone nothing is promised.",
            )
        ]
    middle = middle_of(depth)
    readings = middle[np.isfinite(middle)]
    checks = [_coverage(readings.size / middle.size, float(np.isfinite(depth).mean()))]
    if readings.size:
        if (p_unit := observation.camera.p_unit) < SURE:
            says = f"The unit of depth was guessed, and is right with probability {p_unit:.0%}."
            remedy = "Say it: depth_unit_m in camera.json, or --depth-unit-m."
            checks.append(Check("depth_unit", "doubt", says, remedy))
        checks += [_range(readings), _variation(depth), _steps(readings)]
        checks += _shadows(depth)
        # Where the unit is off or depth is flat, its edges mean nothing.
        if all(check.state != "fail" for check in checks):
            checks.append(_registration(observation.rgb, depth))
    return checks


def _coverage(share: float, whole: float) -> Check:
    """By the share of the middle with a reading, and of the whole picture."""
    if share == 0.0:
        remedy = "Check that the depth file holds readings and that the depth unit is right."
        return Check("depth_coverage", "fail", "The middle of the depth picture has no reading.", remedy)
    remedy = "Move the camera, or its light, until more of the scene has depth."
    if share >= COVERAGE[0] and whole < LEAST_WHOLE:
        return Check("depth_coverage", "doubt", f"Depth covers {whole:.0%} of the picture.", remedy)
    says = f"Depth covers {share:.0%} of the middle of the picture."
    return graded("depth_coverage", share, COVERAGE, says, remedy)


def _range(readings: Float32[np.ndarray, " n"]) -> Check:
    """Distance of the middle, which tells a unit that is off by ten or more."""
    distance = float(np.median(readings))
    says = f"The middle of the picture is {_say_m(distance)} away."
    if USUAL_M[0] <= distance <= USUAL_M[1]:
        return Check("depth_range", "pass", says)
    state: CheckState = "doubt" if PLAUSIBLE_M[0] <= distance <= PLAUSIBLE_M[1] else "fail"
    power = round(float(np.log10(TYPICAL_M / distance)))
    guess = f" A unit {10.0**power:g} times the given one would make it {_say_m(distance * 10.0**power)}."
    remedy = f"Check the depth unit.{guess if power else ''}"
    return Check("depth_range", state, says, remedy)


def _say_m(distance: float) -> str:
    return f"{distance:.2f} m" if distance < 10.0 else f"{distance:,.0f} m"


def _variation(depth: Float32[np.ndarray, "h w"]) -> Check:
    sample = depth[::4, ::4]
    low, high = np.nanpercentile(sample, (1.0, 99.0)) if np.isfinite(sample).any() else (0.0, 0.0)
    if high - low >= FLAT_M:
        return Check("depth_variation", "pass", f"Depth spans {_say_m(float(high - low))}.")
    return Check(
        "depth_variation",
        "fail",
        f"Depth is {low:.3f} m nearly everywhere.",
        "Check that the depth file is what the camera measured; a constant picture shows no object.",
    )


def _steps(readings: Float32[np.ndarray, " n"]) -> Check:
    low, high = np.percentile(readings, (5.0, 95.0))
    levels = np.unique(readings[(readings >= low) & (readings <= high)])
    if levels.size < FEW_LEVELS:
        return Check("depth_steps", "pass", f"Depth has {levels.size} different readings: too few to tell.")
    step = float(np.percentile(np.diff(levels), 25.0))
    says = f"Readings of depth are {1e3 * step:.1f} mm apart."
    if step < COARSE_M:
        return Check("depth_steps", "pass", says)
    return Check(
        "depth_steps", "doubt", says, "Check the depth unit, and keep depth in 16 bits or as floats."
    )


def _registration(rgb: UInt8[np.ndarray, "h w 3"], depth: Float32[np.ndarray, "h w"]) -> Check:
    """Whether colour changes where depth does."""
    name = "depth_fits_picture"
    found = compare_edges(depth_edges(depth), colour_strength(rgb), work_factor(depth.shape))
    if found is None or found.count < LEAST_EDGES:
        return Check(name, "pass", "Depth has too few edges to compare it with the picture.")
    remedy = "Check that depth is registered to the picture and taken at the same moment."
    if found.elsewhere >= FITS[0] and found.here < FITS_BETTER_ELSEWHERE[0] * found.elsewhere:
        says = f"Depth fits the picture better when it is shifted by {found.shift} px."
        return graded(name, found.here / found.elsewhere, FITS_BETTER_ELSEWHERE, says, remedy)
    says = f"Colour edges are {found.here:.1f} times as strong at depth edges."
    return graded(name, found.here, FITS, says, remedy)


def _shadows(depth: Float32[np.ndarray, "h w"]) -> list[Check]:
    """Shadows are no fault; whether a promise holds with them is for `as_set_up` to say."""
    side = find_shadow(depth)
    if side is None:
        return []
    where = (("above", "below"), ("left of", "right of"))[side.axis][side.after]
    says = f"Depth is missing {where} near surfaces, in a projector's shadow."
    return [Check("depth_shadows", "pass", says)]


def _exposure(rgb: UInt8[np.ndarray, "h w 3"]) -> Check:
    sample = rgb[::4, ::4]
    brightest = np.maximum.reduce([sample[..., k] for k in range(3)])  # far faster than along the last axis
    dark = float((brightest < DARK_LEVEL).mean())
    bright = float((brightest >= BRIGHT_LEVEL).mean())
    for share, limits, word, remedy in (
        (dark, DARK_SHARE, "black", "Light the scene or raise the exposure."),
        (bright, BRIGHT_SHARE, "over-exposed", "Lower the exposure."),
    ):
        if share > limits[0]:
            says = f"{share:.0%} of the picture is {word}."
            return Check("exposure", "fail" if share > limits[1] else "doubt", says, remedy)
    low, high = np.percentile(sample, (5.0, 95.0), axis=(0, 1))
    if (high - low).max() < EVEN_LEVELS:
        remedy = "Check the camera and what covers its lens."
        return Check("exposure", "fail", "The picture has one colour nearly everywhere.", remedy)
    return Check("exposure", "pass", f"{dark:.0%} of the picture is black, {bright:.0%} over-exposed.")


def _channels(rgb: UInt8[np.ndarray, "h w 3"]) -> Check:
    """Whether red is noisier than blue, in the evenest quarter of the picture."""
    width = (rgb.shape[1] - 2) // 16 * 16
    wide = rgb[::6, : width + 2].astype(np.int16)
    curve = np.abs(wide[:, 2:] - 2 * wide[:, 1:-1] + wide[:, :-2])
    blocks = (sum(curve[:, k::16] for k in range(16)) / np.float32(16.0)).reshape(-1, 3)
    unsure = Check("channels", "pass", "The order of the colour channels cannot be told from this picture.")
    if not blocks.size:
        return unsure
    red, green, blue = blocks[blocks[:, 1] <= np.quantile(blocks[:, 1], 0.25)].mean(axis=0)
    if min(green, blue) < LEAST_NOISE:
        return unsure
    if red <= RED_OVER_BLUE * blue:
        return Check("channels", "pass", "Nothing says that red and blue are swapped.")
    return Check(
        "channels",
        "doubt",
        f"Red is {red / blue:.1f} times as noisy as blue, as if the two were swapped.",
        "Give the channels in the order red, green, blue; OpenCV reads blue, green, red.",
    )


def _fresh(now: Observation, before: Observation) -> Check:
    """Whether the camera delivered anything new: two pictures with noise are never equal."""
    same = [
        word
        for word, a, b in (("picture", now.rgb, before.rgb), ("depth", now.depth, before.depth))
        if a is not None and b is not None and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
    ]
    if not same:
        return Check("fresh", "pass", "The frame differs from the one before.")
    says = f"The {' and '.join(same)} equal the frame before exactly."
    remedy = "Check that the camera still delivers frames."
    sample = now.rgb[::4]
    drawn = (sample[:, 1:] == sample[:, :-1]).all(axis=2).mean() > DRAWN_SHARE
    return Check("fresh", "doubt" if drawn else "fail", says, remedy)
