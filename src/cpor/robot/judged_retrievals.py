"""Retrievals that were judged: what a promise over whole retrievals is tested on, and watched with."""

from collections.abc import Iterable
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cpor.answer import DecideSettings
from cpor.errors import InputFileError, MissingExtraError
from cpor.learn.modes import percent
from cpor.learn.retrievals import e_value
from cpor.model import FittedModel
from cpor.parts import own_scorer, own_segmenter
from cpor.scene import SemanticScores
from cpor.sources import fingerprint
from cpor.system import System

FILE = "retrievals.jsonl"
"""Name of the file beside the records of runs."""


class Retrieval(BaseModel):
    """One run, judged; a line of FILE.

    Attributes:
        run: Name of its record.
        where: Robot, mode, masks and scores; see `set_up`.
        model: `FittedModel.tested_digest` of its model.
        tau: Threshold in force.
        wrong: Whether it contained a wrong action; None: it was not judged.
        ended: How it ended.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    run: str
    where: str
    model: str
    tau: float = Field(ge=0.0, le=1.0)
    wrong: bool | None
    ended: str


def read_retrievals(files: Iterable[Path]) -> list[Retrieval]:
    """The retrievals of files; a last line that was cut off while it was written is left out."""
    found = []
    for file in files:
        for number, line in enumerate(file.read_text(encoding="utf-8").split("\n")[:-1], start=1):
            try:
                found.append(Retrieval.model_validate_json(line))
            except ValidationError:
                raise InputFileError(f"{file}, line {number} is no judged retrieval") from None
    return found


def keep_retrieval(file: Path, retrieval: Retrieval) -> None:
    """Add a line to a file."""
    with file.open("a", encoding="utf-8") as lines:
        lines.write(retrieval.model_dump_json() + "\n")


def set_up(robot: str, system: System) -> tuple[FittedModel | None, float | None, str]:
    """The model and the threshold that a run will have, and what else its promise depends on, as text."""
    parts = system.parts
    try:
        scorer = None if parts.no_scorer else parts.scorer or own_scorer()
        semantic = None if scorer is None else SemanticScores({}, scorer.name)
    except MissingExtraError:
        scorer = semantic = None
    made = [fingerprint(each) for each in (parts.segmenter or own_segmenter(), scorer)]
    model, mode = parts.model_for(semantic), None if system.tau is not None else system.mode
    tau = system.tau if mode is None or model is None else model.tau(mode)
    where = (
        f"{robot}, {f'mode {mode}' if mode else 'a set threshold'}, masks of {made[0]}, scores of {made[1]}"
    )
    return model, tau, where if system.settings == DecideSettings() else f"{where}, {system.settings}"


def say_promise(robot: str, system: System, past: Iterable[Retrieval]) -> str | None:
    """What is promised of whole retrievals before a run, or why nothing is; None: the model says nothing."""
    model, tau, where = set_up(robot, system)
    if model is None or model.retrievals is None:
        return None
    promise, why = model.retrievals, model.unproven
    same = [each for each in past if (each.model, each.tau, each.where) == (model.tested_digest, tau, where)]
    judged = [each.wrong for each in same if each.wrong is not None]
    if promise.tau is None:
        why = promise.reason
    elif promise.tau != tau:
        why = f"it was tested with the threshold {promise.tau:.4g}, and {tau} is in force"
    elif where not in promise.strata:
        why = f"it was tested with {' and '.join(promise.strata)}; this is {where}"
    elif (value := e_value(judged, promise.alpha)) >= 1.0 / promise.delta:
        why = (
            f"withdrawn, since {sum(judged)} of {len(judged)} judged runs contained a wrong action (evidence "
            f"{value:.3g} against it, limit {1.0 / promise.delta:.3g}); fit it again"
        )
    if why is not None:
        return f"No error rate is promised of whole retrievals: {why}."
    return (
        f"Promised: at most 1 in {1.0 / promise.alpha:.3g} retrievals contains a wrong action (confidence "
        f"{percent(1.0 - promise.delta)}, tested on {promise.n}; {len(judged)} judged since)."
    )
