"""What came of a run, in numbers: rates with intervals, and the curves behind the figures."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist

import numpy as np
from jaxtyping import Bool, Float

from cpor.learn.bootstrap import bootstrap_mean
from cpor.paper.risk_coverage import aurc, risk_coverage
from cpor.paper.runs.folder import RunHeader, read_run_folder
from cpor.paper.runs.record import CaseRecord

CONFIDENCE = 0.95
_RESAMPLES = 1000


@dataclass(frozen=True)
class Report:
    """A finished run: what was run, and every case in order."""

    header: RunHeader
    records: tuple[CaseRecord, ...]

    @property
    def n_images(self) -> int:
        """Groups of cases that are independent of each other."""
        return len({record.group for record in self.records})


def read_report(run_folder: Path) -> Report:
    """Read a finished run."""
    header, records = read_run_folder(run_folder)
    return Report(header, tuple(records))


@dataclass(frozen=True)
class Rate:
    """A share of cases, with what it might be on other cases of the same kind.

    Attributes:
        hits, n: `hits` of `n`.
        wilson: 95% interval as if cases were independent; it makes sense at 0 and n too.
        by_image: 95% interval from resampling whole images, since cases share them. None where all cases
            agree: resampling knows only what it has seen.
    """

    hits: int
    n: int
    wilson: tuple[float, float]
    by_image: tuple[float, float] | None

    @property
    def value(self) -> float | None:
        """The share; None of nothing."""
        return self.hits / self.n if self.n else None


def measure_rate(records: Iterable[CaseRecord], is_hit: Callable[[CaseRecord], bool]) -> Rate:
    """The share of cases for which something holds."""
    cases = list(records)
    hit = np.array([is_hit(record) for record in cases], np.float64)
    hits, n = int(hit.sum()), len(cases)
    by_image = None
    if 0 < hits < n:
        image = np.array([record.group for record in cases])
        rng = np.random.default_rng(0)  # the same run gives the same report
        by_image = bootstrap_mean(hit, image, rng, _RESAMPLES, CONFIDENCE)
    return Rate(hits, n, wilson_interval(hits, n), by_image)


def wilson_interval(hits: int, n: int) -> tuple[float, float]:
    """Wilson's score interval for a rate, at 95%; all of [0, 1] of nothing."""
    if n == 0:
        return 0.0, 1.0
    z = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2.0)
    share, weight = hits / n, z * z / n
    centre = (share + weight / 2.0) / (1.0 + weight)
    half = z * math.sqrt(share * (1.0 - share) / n + weight / (4.0 * n)) / (1.0 + weight)
    # At the ends the interval closes exactly; rounding must not leave the rate outside.
    return (0.0 if hits == 0 else centre - half), (1.0 if hits == n else centre + half)


def object_scores(
    records: Sequence[CaseRecord],
) -> tuple[Float[np.ndarray, " n"], Bool[np.ndarray, " n"]]:
    """Score of every object, and whether acting on it next is right; over cases with known truth."""
    scores: list[float] = []
    right: list[bool] = []
    for record in records:
        if record.decision is not None and record.truth is not None:
            scores.extend(record.decision.scores.values())
            right.extend(label in record.truth.right for label in record.objects)
    return np.array(scores, np.float64), np.array(right, np.bool_)


def best_scores(
    records: Sequence[CaseRecord],
) -> tuple[Float[np.ndarray, " n"], Bool[np.ndarray, " n"]]:
    """Score of each case's best action, taken or not, and whether it is right; where that is known."""
    judged = [
        (record.best.score, record.best.right)
        for record in records
        if record.best is not None and record.best.right is not None
    ]
    scores, right = zip(*judged, strict=True) if judged else ((), ())
    return np.array(scores, np.float64), np.array(right, np.bool_)


@dataclass(frozen=True, eq=False)
class SelectiveCurve:
    """What acting on the surest cases only would bring.

    Attributes:
        coverage: Share of cases acted on. Shape (n,).
        risk: Share of wrong ones among them. Shape (n,).
        captured: Share of all wrong ones among the cases not acted on; zeros where none is wrong. Shape (n,).
        area: Area under risk over coverage (AURC).
    """

    coverage: Float[np.ndarray, " n"]
    risk: Float[np.ndarray, " n"]
    captured: Float[np.ndarray, " n"]
    area: float


def selective_curve(score: Float[np.ndarray, " n"], right: Bool[np.ndarray, " n"]) -> SelectiveCurve | None:
    """Risk and captured errors by coverage, the surest first. None of nothing."""
    if score.size == 0:
        return None
    loss = np.where(right, 0.0, 1.0)
    curve = risk_coverage(score, loss)
    errors = curve.coverage * curve.risk
    captured = 1.0 - errors / errors[-1] if errors[-1] > 0.0 else np.zeros_like(errors)
    return SelectiveCurve(curve.coverage, curve.risk, captured, aurc(score, loss))


@dataclass(frozen=True)
class SizeCost:
    """What cases of one size cost, in counted steps, so that it is the same on any machine.

    Attributes:
        n_objects: The size.
        n: Cases of it.
        log10_graphs: Median of log10 of the graphs that enumeration would have to look at, 2^relations.
        log10_subsets: Median of log10 of the steps that bound the exact recursion, 3^objects that matter.
        uncertified: Cases whose action is not proven to be that of exact inference.
    """

    n_objects: int
    n: int
    log10_graphs: float
    log10_subsets: float
    uncertified: int


def cost_by_size(records: Sequence[CaseRecord]) -> list[SizeCost]:
    """Growth of cost with the number of objects."""
    by_size: dict[int, list[CaseRecord]] = defaultdict(list)
    for record in records:
        if record.objects:
            by_size[len(record.objects)].append(record)
    return [
        SizeCost(
            size,
            len(cases),
            float(np.median([len(case.relations) for case in cases])) * math.log10(2.0),
            float(np.median([case.n_reachable for case in cases])) * math.log10(3.0),
            sum(not is_certified(case) for case in cases),
        )
        for size, cases in sorted(by_size.items())
    ]


def is_certified(record: CaseRecord) -> bool:
    """Whether the action is proven to be that of exact inference."""
    return record.decision is not None and record.decision.certificate.kind in ("exact", "action", "defer")


def is_cyclic(record: CaseRecord) -> bool:
    """Whether its relations can contradict each other."""
    mu = None if record.decision is None else record.decision.mu
    return bool(mu) if mu is not None else bool(edges_on_cycles(record))


def edges_on_cycles(record: CaseRecord) -> frozenset[int]:
    """Positions of the candidate relations that lie on a cycle: their blocker leads back to the blocked."""
    after: dict[object, list[object]] = defaultdict(list)
    for relation in record.relations:
        after[relation.blocked].append(relation.blocker)

    def reached_from(start: object) -> set[object]:
        seen, todo = {start}, [start]
        while todo:
            todo.extend(more := [label for label in after[todo.pop()] if label not in seen])
            seen.update(more)
        return seen

    reach = {label: reached_from(label) for label in list(after)}
    return frozenset(
        k
        for k, relation in enumerate(record.relations)
        if relation.blocked in reach.get(relation.blocker, ())
    )
