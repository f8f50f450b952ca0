"""A run: every case of a dataset decided, kept on disk piece by piece, resumed where it was stopped."""

import platform
from collections import Counter
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from cpor import __version__
from cpor.errors import InvalidSettingError
from cpor.experiments.runs.answer import Shard, answer_shard
from cpor.experiments.runs.dataset import Dataset, Progress, fingerprint_files
from cpor.experiments.runs.engine import Answer, Engine, SerialEngine
from cpor.experiments.runs.folder import (
    RunDataset,
    RunFolder,
    RunHeader,
    RunSettings,
    open_run_folder,
    read_run_folder,
)
from cpor.experiments.runs.questions import QuestionSettings
from cpor.inference.decide import MethodChoice, Policy
from cpor.model import FittedModel

SHARD_SIZE = 16
"""Items answered between two writes: what a kill can cost, against a file for each."""

_PACKAGES = ("numpy", "scipy", "numba", "llvmlite", "pydantic", "pillow")
"""Packages whose version can change the last digit of a result, or how it is written."""


@dataclass(frozen=True)
class RunPlan:
    """What to run.

    Attributes:
        dataset: Its items.
        asking: How items become questions.
        tau: Act above this score; None: the model's promise, or 0.5.
        method: Of inference.
        model_file: Fitted model for scene folders; None: unfitted stages.
    """

    dataset: Dataset
    asking: QuestionSettings = field(default_factory=QuestionSettings)
    tau: float | None = None
    method: MethodChoice = "auto"
    model_file: Path | None = None

    def __post_init__(self) -> None:
        Policy(0.5 if self.tau is None else self.tau, self.method)  # refuses what no case could use
        if self.model_file is not None and self.dataset.kind != "folders":
            raise InvalidSettingError(
                "--model goes with scene folders; other datasets name their probabilities themselves"
            )
        if self.asking.all_targets and self.dataset.kind != "folders":
            raise InvalidSettingError("--all-targets goes with scene folders; other datasets name a target")
        if self.asking.shift is not None and self.dataset.kind != "score log":
            raise InvalidSettingError("--shift goes with --scores")

    def header(self) -> RunHeader:
        """What identifies the run."""
        model = None if self.model_file is None else fingerprint_files([self.model_file])
        return RunHeader(
            dataset=RunDataset(
                kind=self.dataset.kind,
                fingerprint=self.dataset.fingerprint,
                n_items=len(self.dataset.items),
            ),
            settings=RunSettings(
                tau=self.tau,
                method=self.method,
                model=model,
                seed=self.asking.seed,
                all_targets=self.asking.all_targets,
                shift=self.asking.shift,
                missing=self.asking.missing,
            ),
            versions={"cpor": __version__, "python": platform.python_version()}
            | {name: version(name) for name in _PACKAGES},
        )

    def shards(self, size: int) -> list[Shard]:
        """The items in pieces of `size`, each with what is needed to answer it."""
        model = None if self.model_file is None else FittedModel.load(self.model_file)
        items = self.dataset.items
        return [
            Shard(k, items[k : k + size], self.asking, self.tau, self.method, model)
            for k in range(0, len(items), size)
        ]


@dataclass(frozen=True)
class RunTally:
    """How many cases came to what.

    Attributes:
        n_cases: All of them.
        actions: Cases by action: grasp, remove, defer, error.
        outcomes: Cases by outcome: right, wrong, deferred, unjudged, error.
    """

    n_cases: int
    actions: dict[str, int]
    outcomes: dict[str, int]

    @property
    def n_errors(self) -> int:
        """Cases without a decision."""
        return self.actions.get("error", 0)


def run(
    plan: RunPlan,
    out: Path,
    engine: Engine | None = None,
    progress: Progress = lambda what, done, total: None,
    *,
    shard_size: int = SHARD_SIZE,
    answer: Answer = answer_shard,
) -> RunTally:
    """Decide every case of a dataset; go on with a run that was stopped.

    The bytes in the run folder depend on the dataset, the settings and the versions of what computes;
    not on the engine, the shard size, or how often the run was stopped.

    Args:
        plan: What to run.
        out: The run folder; made if absent.
        engine: Where to answer shards; in this process by default.
        progress: Told `(what, items done, items in all)`.
        shard_size: Items between two writes.
        answer: What a worker does with a shard.

    Raises:
        RunFolderError: The folder holds another run, or other files.
        WorkerDiedError: A worker died too often; what was finished is kept.
    """
    if shard_size < 1:
        raise InvalidSettingError(f"the shard size is {shard_size}; give at least 1")
    shards = plan.shards(shard_size)
    with open_run_folder(out, plan.header()) as folder:
        if not folder.is_finished:
            _answer_rest(folder, shards, engine or SerialEngine(), answer, progress)
        folder.finish(shards)
        return _tally(out)


def _answer_rest(
    folder: RunFolder, shards: list[Shard], engine: Engine, answer: Answer, progress: Progress
) -> None:
    total = sum(len(shard.items) for shard in shards)
    rest = [shard for shard in shards if not folder.is_done(shard)]
    done = total - sum(len(shard.items) for shard in rest)
    progress("deciding", done, total)
    for shard, lines in engine.answer_all(answer, rest):
        folder.keep(shard, lines)
        done += len(shard.items)
        progress("deciding", done, total)


def _tally(out: Path) -> RunTally:
    _, records = read_run_folder(out)
    return RunTally(
        len(records),
        dict(sorted(Counter(record.action for record in records).items())),
        dict(sorted(Counter(str(record.outcome) for record in records).items())),
    )
