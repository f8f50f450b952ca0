"""The doctor: what is wrong with an input, and what to type against it; what this installation lacks."""

import importlib.metadata
import os
import platform
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from cpor.errors import CporError, MissingExtraError
from cpor.gate.check import Check
from cpor.gate.frame import check_frame
from cpor.io.depth import guess_depth_unit
from cpor.io.frame_files import read_input, read_steps
from cpor.model import Bundled, FittedModel, bundled_model
from cpor.perception.network_file import PACKAGED, read_network
from cpor.scene import Observation, Scene
from cpor.system import System

PACKAGE = "cpor-grasp"
_AGAIN = f"pip install --force-reinstall {PACKAGE}"

OF_UNIT = ("depth_coverage", "depth_range", "depth_steps", "object_sizes")
"""Checks that a wrong unit of depth fails."""

FOR_A_PROMISE = ("masks_source", "scores_source", "like_tested")
"""Checks whose doubt is no fault of the input: only that nothing is promised."""

_FIXES = {
    "depth_coverage": "Turn the emitter on and keep 0.3 to 2 m away. Shiny and clear objects give no depth.",
    "depth_variation": "Record the frame again: depth is the same everywhere.",
    "depth_fits_picture": "Record depth aligned to colour (RealSense: rs.align(rs.stream.color)), or write "
    'into camera.json: fx, fy, cx, cy, "depth_camera": {"fx", "fy", "cx", "cy", "T_colour_depth"}',
    "depth_steps": "Save depth as uint16 or float32, not as 8 bits.",
    "exposure": "Set the exposure, light the scene, clear the lens, and record again.",
    "channels": "rgb = bgr[:, :, ::-1]",
    "fresh": "Start the camera again, and check it: cpor doctor camera:realsense",
    "masks_there": "Take these ids out of objects.json, or: {perceive}",
    "mask_coverage": "Write 0 for the background into instances.png, or: {perceive}",
    "visible_inside_amodal": "Remove amodal.npz, or make both anew: {perceive}",
    "mask_pieces": "{perceive}",
    "object_sizes": 'Check "fx" and "fy" of camera.json.',
    "masks_fit_picture": "{perceive}",
    "masks_fit_depth": "{perceive}",
    "masks_source": "{perceive}",
    "scores_source": "cpor score {source} --scorer embedded",
    "like_tested": "cpor fit, on scenes like these",
}

_OWN_MASKS = "Our segmenter does badly here: give masks of your own with --masks, or try --segmenter depth."


Finding: TypeAlias = tuple[Check, str]
"""One thing that is wrong or doubtful, and what to type or change."""


@dataclass(frozen=True, eq=False)
class Examined:
    """What the doctor says of one input; `hints`: why nothing is promised, though nothing is wrong."""

    name: str
    scene: Scene | None
    findings: tuple[Finding, ...] = ()
    hints: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    error: str | None = None

    @property
    def state(self) -> str:
        """`fail`, `doubt` or `pass`: the worst finding."""
        states = {check.state for check, _ in self.findings}
        return "fail" if self.error or "fail" in states else "doubt" if states else "pass"

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "name": self.name,
            "state": self.state,
            "error": self.error,
            "findings": [check.to_json() | {"fix": fix} for check, fix in self.findings],
            "hints": [check.to_json() | {"fix": fix} for check, fix in self.hints],
            "notes": list(self.notes),
        }


def examine(
    system: System | None,
    picture: Path,
    depth: Path | None = None,
    depth_unit_m: float | None = None,
    frame: int | None = None,
    previous: Observation | None = None,
) -> Examined:
    """Look at one input as `System.look` does, and say what is wrong; no system: the frame alone."""
    name = picture.name if frame is None else f"{picture.name}, frame {frame}"
    try:
        given, notes = read_input(picture, depth, None, depth_unit_m, frame)
        steps = read_steps(picture, depth, frame)
    except CporError as error:
        return Examined(name, None, error=str(error))
    source = " ".join(str(each) for each in (picture, depth) if each is not None)
    return examine_scene(system, given, name, notes, source, _better_unit(given, steps), previous)


def examine_scene(
    system: System | None,
    given: Scene,
    name: str,
    notes: tuple[str, ...] = (),
    source: str = "INPUT",
    unit_m: float | None = None,
    previous: Observation | None = None,
) -> Examined:
    """Say what is wrong with a scene or a frame.

    Args:
        system: Finds the objects; None: only picture and depth are checked.
        given: The frame, with masks where it came with some.
        name: What to call it.
        notes: What is known of it.
        source: What to put after a command.
        unit_m: A likelier unit of its depth than that in force; None where there is none. [m]
        previous: The frame before it, where there was one.
    """
    scene, checks = given, check_frame(given.observation, previous)
    if system is not None:
        try:
            view = system.look(given)
            scene, notes = view.scene, (*notes, *view.notes)
            more = system.outlook(view).checks if scene.objects else view.checks
            if given.visible_ids is None and any(check.state == "fail" for check in checks):
                # Masks found in a frame that is wrong are wrong for that reason.
                more = tuple(check for check in more if check.name in FOR_A_PROMISE)
            checks += tuple(check for check in more if check.name not in {each.name for each in checks})
        except MissingExtraError as error:
            notes = (*notes, f"Masks were not looked at: {error}.")
    findings: list[Finding] = []
    hints: list[Finding] = []
    for check in checks:
        if check.state != "pass":
            is_hint = check.name in FOR_A_PROMISE and check.state == "doubt"
            (hints if is_hint else findings).append((check, _fix(check, source, given, unit_m)))
    return Examined(name, scene, tuple(findings), tuple(hints), notes)


def summarize(examined: Sequence[Examined]) -> dict[str, Any]:
    """Counts over a data set: inputs, by state, and by check with the first few names."""
    by_check: dict[str, list[str]] = {}
    for each in examined:
        for check, _ in each.findings:
            by_check.setdefault(check.name, []).append(each.name)
    return {
        "inputs": len(examined),
        "states": dict(Counter(each.state for each in examined)),
        "unreadable": [each.name for each in examined if each.error],
        "checks": by_check,
    }


def _fix(check: Check, source: str, given: Scene, unit_m: float | None) -> str:
    if check.name in OF_UNIT and unit_m is not None:
        return f'"depth_unit_m": {unit_m:g} in camera.json, or: --depth-unit-m {unit_m:g}'
    depth = given.observation.depth
    if check.name == "depth_coverage" and depth is None:
        return f"cpor decide {source} DEPTH"
    if check.name == "depth_coverage" and depth is not None and not np.isfinite(depth).any():
        return "Record depth again: the file holds no reading."
    perceive = f"cpor perceive {source} --ignore-given-masks --out NEW_FOLDER"
    fix = _FIXES.get(check.name, check.remedy)
    if given.visible_ids is None and "{perceive}" in fix:
        fix = _FIXES["depth_fits_picture"] if check.name == "masks_fit_depth" else _OWN_MASKS
    return fix.replace("{perceive}", perceive).replace("{source}", source)


def _better_unit(given: Scene, steps: np.ndarray | None) -> float | None:
    """The unit that the values of a depth file suggest, where that in force is another. [m]."""
    depth = given.observation.depth
    guess = None if steps is None else guess_depth_unit(steps)[0]
    if guess is None or steps is None or depth is None:
        return None
    with np.errstate(invalid="ignore"):
        stored = float(np.median(steps[steps > 0]))
    if not np.isfinite(depth).any():
        return guess
    in_force = float(np.nanmedian(depth)) / stored
    return None if 0.5 < in_force / guess < 2.0 else guess


@dataclass(frozen=True)
class InstalledPart:
    """One part of the installation: `ok`, `missing` or `damaged`, and what to type against it."""

    name: str
    state: str
    says: str
    fix: str = ""


def examine_installation() -> list[InstalledPart]:
    """Versions, extras, weights, models and cores."""
    parts = [InstalledPart("Python", "ok", f"{platform.python_version()} on {platform.platform(terse=True)}")]
    parts.append(InstalledPart("cores", "ok", f"{_cores()} for this process, {os.cpu_count()} in all"))
    parts += _packages()
    parts += [_weights(path) for path in sorted(PACKAGED.glob("*.onnx"))]
    return [*parts, _model("geometry"), _model("embedded")]


def _weights(path: Path) -> InstalledPart:
    try:
        said = f"{len(read_network(path)) / 1e6:.1f} MB, checksum right"
    except CporError as error:
        return InstalledPart(f"weights {path.name}", "damaged", str(error), _AGAIN)
    return InstalledPart(f"weights {path.name}", "ok", said)


def _model(kind: Bundled) -> InstalledPart:
    try:
        scorer = FittedModel.load(bundled_model(kind)).scorer
    except CporError as error:
        return InstalledPart(f"model {kind}", "damaged", str(error), _AGAIN)
    return InstalledPart(f"model {kind}", "ok", f"fitted to {scorer or 'geometry'}")


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _packages() -> list[InstalledPart]:
    """What the package needs, then each extra: there, or the line that installs it."""
    try:
        own, needed = importlib.metadata.version(PACKAGE), importlib.metadata.requires(PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        return [InstalledPart(PACKAGE, "missing", "not installed: running from a checkout", "pip install .")]
    parts = [InstalledPart(PACKAGE, "ok", own)]
    extras: dict[str, list[str]] = {}
    for line in needed:
        name = re.match(r"[A-Za-z0-9._-]+", line)
        group = re.search(r"extra == ['\"]([^'\"]+)", line)
        if name is not None and name[0] != PACKAGE:
            extras.setdefault(group[1] if group else "", []).append(name[0])
    for extra in [each for each in extras if each != "dev"]:
        versions = {name: _version(name) for name in extras[extra]}
        lacking = [name for name, version in versions.items() if version is None]
        label = f"extra {extra}" if extra else "needed"
        if lacking:
            fix = f"pip install '{PACKAGE}[{extra}]'" if extra else f"pip install {PACKAGE}"
            parts.append(InstalledPart(label, "missing", f"lacks {', '.join(lacking)}", fix))
        else:
            parts.append(
                InstalledPart(
                    label, "ok", ", ".join(f"{name} {version}" for name, version in versions.items())
                )
            )
    return parts


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
