"""A run: every case of a dataset decided, kept on disk piece by piece, resumed where it was stopped."""

import platform
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import TypeAlias

from cpor import __version__
from cpor.errors import InvalidSettingError
from cpor.infer.policy import Policy
from cpor.io.pool import Pool
from cpor.io.scene_folder import Progress
from cpor.paper.runs.answer_items import Shard, answer_shard
from cpor.paper.runs.dataset import Dataset, fingerprint_files
from cpor.paper.runs.folder import RunDataset, RunHeader, ShardFolder, open_run_folder, read_run_folder
from cpor.paper.runs.questions import RunSettings
from cpor.paper_model import load_model

AnswerItem: TypeAlias = Callable[[Shard], bytes]

SHARD_SIZE = 16
"""Items that a worker is given at once; it writes down each case as soon as it is decided."""

_PACKAGES = ("numpy", "scipy", "numba", "llvmlite", "pydantic", "pillow")
"""Packages whose version can change the last digit of a result, or how it is written."""


@dataclass(frozen=True)
class RunPlan:
    """What to run.

    Attributes:
        dataset: Its items.
        settings: What is asked, and how it is decided; `model` is set from `model_file`.
        model_file: Fitted model for scene folders; None: the bundled one.
    """

    dataset: Dataset
    settings: RunSettings = field(default_factory=RunSettings)
    model_file: Path | None = None

    def __post_init__(self) -> None:
        s = self.settings
        Policy(0.5 if s.tau is None else s.tau, s.method)  # refuses what no case could use
        if s.shift is not None and not 0.0 < s.shift < 1.0:
            raise InvalidSettingError(f"the shift is {s.shift}; it must lie between 0 and 1")
        if s.seed < 0:
            raise InvalidSettingError(f"the seed is {s.seed}; give 0 or more")
        named = (self.model_file, s.segmenter, s.scorer)
        if any(each is not None for each in named) and not self.dataset.is_pictures:
            raise InvalidSettingError(
                "--model, --segmenter and --scorer are for scene folders and bags only; this data set has "
                "its own probabilities"
            )
        if s.all_targets and not self.dataset.is_pictures:
            raise InvalidSettingError(
                "--all-targets is for scene folders and bags only; this data set names its targets"
            )
        if s.shift is not None and self.dataset.kind != "score log":
            raise InvalidSettingError("--shift needs --scores")

    def header(self) -> RunHeader:
        """What identifies the run."""
        model = None if self.model_file is None else fingerprint_files([self.model_file])
        return RunHeader(
            dataset=RunDataset(
                kind=self.dataset.kind,
                fingerprint=self.dataset.fingerprint,
                n_items=len(self.dataset.items),
            ),
            settings=self.settings.model_copy(update={"model": model}),
            versions={"cpor": __version__, "python": platform.python_version()}
            | {name: version(name) for name in _PACKAGES},
        )

    def shards(self, size: int) -> list[Shard]:
        """The items in pieces of `size`, each with what is needed to answer it."""
        model = None if self.model_file is None else load_model(self.model_file)
        items = self.dataset.items
        return [Shard(k, items[k : k + size], self.settings, model) for k in range(0, len(items), size)]


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
    pool: Pool | None = None,
    progress: Progress = lambda what, done, total: None,
    *,
    shard_size: int = SHARD_SIZE,
    answer: AnswerItem = answer_shard,
) -> RunTally:
    """Decide every case of a dataset; go on with a run that was stopped.

    The bytes in the run folder depend on the dataset, the settings and the versions of what computes;
    not on the pool, the shard size, or how often the run was stopped.

    Args:
        plan: What to run.
        out: The run folder; made if absent.
        pool: Where to answer shards; in this process by default.
        progress: Told `(what, items done, items in all)`.
        shard_size: Items that a worker is given at once.
        answer: What a worker does with a shard.

    Raises:
        InputFileError: The folder holds another run, or other files.
        CporError: A worker died too often; what was finished is kept.
    """
    if shard_size < 1:
        raise InvalidSettingError(f"the shard size is {shard_size}; give at least 1")
    shards = plan.shards(shard_size)
    with open_run_folder(out, plan.header()) as folder:
        if not folder.is_finished:
            _answer_rest(folder, shards, pool or Pool(), answer, progress)
        folder.finish(shards)
        return _tally(out)


def _answer_rest(
    folder: ShardFolder, shards: list[Shard], pool: Pool, answer: AnswerItem, progress: Progress
) -> None:
    total = sum(len(shard.items) for shard in shards)
    rest = [replace(shard, begun=folder.begun(shard)) for shard in shards if not folder.is_done(shard)]
    done = total - sum(len(shard.items) for shard in rest)
    progress("deciding", done, total)
    for shard, lines in pool.do_all(answer, rest):
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
