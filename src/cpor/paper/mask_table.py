"""Quality of the masks of a perceived split, as UOAIS reports it, with intervals."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cpor.learn.bootstrap import Interval, bootstrap_mean
from cpor.paper.perceived import PerceivedCase
from cpor.paper.segmentation import MUCH_HIDDEN, FrameQuality

KINDS = ("visible", "amodal", "invisible")


@dataclass(frozen=True)
class MaskFigure:
    """A mean with its interval, images resampled; both None where there is nothing to take it over."""

    value: float | None
    ci: Interval | None


def measure_masks(records: Sequence[PerceivedCase], rng: np.random.Generator) -> dict[str, MaskFigure]:
    """Every figure by name, such as `visible overlap f1` or `amodal_iou_much_hidden`.

    Overlap, boundary and F@.75 are means over frames, as the benchmarks print them; the rest are means over
    objects. `_all` counts objects that were not found as 0.
    """
    figures = {}
    for kind in KINDS:
        frames = [(r.name, q) for r in records if (q := getattr(r.quality, kind)) is not None]
        for part in ("overlap", "boundary"):
            for figure in ("precision", "recall", "f1"):
                told = [(name, getattr(getattr(q, part), figure)) for name, q in frames]
                figures[f"{kind} {part} {figure}"] = _figure(told, rng)
        figures[f"{kind} f@.75"] = _figure([(name, q.f_75) for name, q in frames], rng)
    for name, values in _objects(records).items():
        figures[name] = _figure(values, rng)
    return figures


def masks_to_json(figures: Mapping[str, MaskFigure]) -> dict[str, object]:
    """For files and programs."""
    return {name: {"value": each.value, "ci": each.ci} for name, each in figures.items()}


def _objects(records: Sequence[PerceivedCase]) -> dict[str, list[tuple[str, float]]]:
    told: dict[str, list[tuple[str, float]]] = {
        name: []
        for name in (
            *("recall", "precision", "visible_iou", "amodal_iou", "invisible_iou"),
            *("amodal_iou_much_hidden", "amodal_iou_much_hidden_all", "occlusion_accuracy", "target_found"),
        )
    }

    def note(figure: str, value: float | None) -> None:
        if value is not None:
            told[figure].append((record.name, float(value)))

    for record in records:
        quality: FrameQuality = record.quality
        matches = quality.matches
        for figure, count in (("recall", quality.n_true), ("precision", quality.n_predicted)):
            for k in range(count):
                note(figure, float(k < len(matches)))
        much = [m for m in matches if m.hidden_share is not None and m.hidden_share > MUCH_HIDDEN]
        for match in matches:
            note("visible_iou", match.visible_iou)
            note("amodal_iou", match.amodal_iou)
            note("invisible_iou", match.invisible_iou)
            note("occlusion_accuracy", match.flag_right)
        for match in much:
            note("amodal_iou_much_hidden", match.amodal_iou)
            note("amodal_iou_much_hidden_all", match.amodal_iou)
        for _ in range(quality.n_much_hidden - len(much)):
            note("amodal_iou_much_hidden_all", 0.0)
        note("target_found", record.found)
    return told


def _figure(told: Sequence[tuple[str, float]], rng: np.random.Generator) -> MaskFigure:
    if not told:
        return MaskFigure(None, None)
    values = np.array([value for _, value in told])
    return MaskFigure(float(values.mean()), bootstrap_mean(values, np.array([name for name, _ in told]), rng))
