"""Photographs to label, in order: some for what their labels teach, some drawn at random to promise from.

A model may be fitted to whatever teaches most. A promise is about the photographs of the lab, so it is tested
on such as were drawn from them at random, and `queue.json` says which these are.
"""

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import numpy as np
from jaxtyping import Float

from cpor.apps.lab import read_why, write_why
from cpor.fitting.from_prior import FIT_SHARE
from cpor.io.frame_files import name_inputs, read_input
from cpor.learn.pairs import clipped_logit
from cpor.pipeline import PairBeliefs
from cpor.system import System

FIRST_GUESS_S = 45.0
"""How long a photograph takes, until some were labelled. [s]"""

IN_A_ROUND = 5
"""Two for their value and three drawn at random come in turn, so that a person who stops early has both."""


@dataclass
class LabelQueue:
    """What is to be labelled, in order, by name: path and number in a recording; and what is done."""

    photographs: dict[str, tuple[Path, int | None]]
    out: Path
    clock: Callable[[], float] = time.monotonic
    _skipped: set[str] = field(default_factory=set, init=False)
    _took_s: list[float] = field(default_factory=list, init=False)
    _began: float = field(default=0.0, init=False)

    @property
    def left(self) -> list[str]:
        """Names of those not labelled yet, those put off last."""
        todo = [name for name in self.photographs if not (self.out / name / "relations.json").is_file()]
        return sorted(todo, key=lambda name: name in self._skipped)

    @property
    def minutes_left(self) -> float:
        """About how long the rest takes, by those labelled last, in minutes."""
        return len(self.left) * (median(self._took_s[-9:]) if self._took_s else FIRST_GUESS_S) / 60.0

    def begin(self) -> str | None:
        """The next one; None: all are labelled."""
        self._began = self.clock()
        return self.left[0] if self.left else None

    def accept(self) -> None:
        """The one begun last is labelled."""
        self._took_s.append(self.clock() - self._began)

    def put_off(self, name: str) -> None:
        """Leave one for later."""
        self._skipped.add(name)


def plan_queue(
    folder: Path,
    out: Path,
    photographs: int,
    seed: int = 0,
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> LabelQueue:
    """Choose what to label; a queue that was begun goes on as it was planned."""
    paths = name_inputs(folder)
    out.mkdir(parents=True, exist_ok=True)
    why = read_why(out)
    if why is None:
        system, beliefs = System(), {}
        names = list(paths)
        wanted = min(photographs, len(names))
        n_value = math.floor(FIT_SHARE * wanted)
        rng = np.random.default_rng(seed)
        drawn = [names[k] for k in rng.permutation(len(names))[: wanted - n_value]]
        for k, name in enumerate(names):
            if name not in drawn:
                path, number = paths[name]
                view = system.look(read_input(path, frame=number)[0].observation)
                found = system.believe(view).beliefs
                assert found is not None
                beliefs[name] = found
            progress("looking", k + 1, len(names))
        others = list(beliefs)
        by_value = [others[k] for k in order_by_value(list(beliefs.values()))[:n_value]]
        why = {name: "value" if name in by_value else "drawn" for name in _in_turn(by_value, drawn)}
        write_why(out, why)
    return LabelQueue({name: paths[name] for name in why if name in paths}, out)


def _in_turn(by_value: list[str], drawn: list[str]) -> Iterable[str]:
    """Both kinds in turn, in their shares."""
    values, others = list(by_value), list(drawn)
    share = round(FIT_SHARE * IN_A_ROUND)
    while values or others:
        yield from values[:share]
        yield from others[: IN_A_ROUND - share]
        values, others = values[share:], others[IN_A_ROUND - share :]


def order_by_value(beliefs: Sequence[PairBeliefs]) -> list[int]:
    """Indices of the pictures, those whose labels teach most first."""
    told = [_information(each) for each in beliefs]
    known = np.eye(len(told[0])) if told else np.eye(1)
    left, order = list(range(len(told))), []
    while left:
        gain = [np.linalg.slogdet(known + told[k])[1] for k in left]
        best = left.pop(int(np.argmax(gain)))
        known = known + told[best]
        order.append(best)
    return order


def _information(beliefs: PairBeliefs) -> Float[np.ndarray, "k k"]:
    p = np.where(np.isnan(beliefs.p_fused), 0.5, beliefs.p_fused)
    there = p > 0.0
    p = p[there]
    sources = [np.nan_to_num(clipped_logit(each[there])) for each in beliefs.p.values()]
    x = np.column_stack([np.ones(p.size), *sources])
    return np.asarray((x * (p * (1.0 - p))[:, None]).T @ x)
