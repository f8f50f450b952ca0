"""Whole retrievals on the simulated arm, judged by the truth: what a promise over retrievals is tested on."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from cpor.errors import CameraError, InvalidSettingError, RobotError
from cpor.io.pool import Pool
from cpor.io.whole_files import held_alone
from cpor.paper.scenarios import Person
from cpor.robot.cycle import Ended
from cpor.robot.judged_retrievals import Retrieval, keep_retrieval, read_retrievals, set_up
from cpor.sim.dataset.manifest import TIERS
from cpor.sim.staged_run import DemoSettings, demonstrate, set_stage

FIRST_SEED = 3_700_000
"""Seeds of the episodes, apart from those of the data sets and of the robot table."""


class Episode(NamedTuple):
    """One to run: seed, settings with the tier, model file."""

    seed: int
    settings: DemoSettings
    model: Path | None


def run_episodes(
    out: Path,
    count: int,
    settings: DemoSettings,
    model: Path | None = None,
    workers: int = 1,
    progress: Callable[[str, int, int], None] | None = None,
) -> list[Retrieval]:
    """Run retrievals with a `System` and a person who knows the truth; what a file holds is not run again.

    Args:
        out: File of judged retrievals.
        count: How many; the tiers in turn.
        settings: Mode or threshold, and what finds the objects.
        model: Model file; None: the bundled one.
        workers: Number of worker processes.
        progress: Told of each step: what is done, how much of it, out of how much.
    """
    if count < 1:
        raise InvalidSettingError(f"{count} episodes; give at least 1")
    out.touch()
    with held_alone(out):
        tiers = [TIERS[k % len(TIERS)] for k in range(count)]
        wanted = [
            Episode(FIRST_SEED + k, replace(settings, tier=tier), model) for k, tier in enumerate(tiers)
        ]
        done = {each.run: each for each in read_retrievals([out])}
        todo = [job for job in wanted if _name(job) not in done]
        for job, retrieval in Pool(workers).do_all(run_episode, todo):
            keep_retrieval(out, retrieval)
            done[_name(job)] = retrieval
            if progress is not None:
                progress("episodes", sum(_name(each) in done for each in wanted), len(wanted))
    return [done[_name(job)] for job in wanted]


def _name(job: Episode) -> str:
    return f"{job.settings.tier} {job.seed}, {job.settings.tau or job.settings.mode}"


def run_episode(job: Episode) -> Retrieval:
    """One heap, until the target is out or the run ends otherwise."""
    stage = set_stage(job.seed, job.settings)
    system, person = job.settings.system(stage.segmenter, job.model), Person(stage)
    run = demonstrate(stage, job.settings, system, ask=person)
    error = run.result.error
    if error is not None and not isinstance(error, CameraError | RobotError):
        raise error
    if run.result.ended == Ended.STOPPED and error is None:
        raise KeyboardInterrupt
    model, tau, where = set_up("simulated", system)
    assert model is not None and tau is not None, "a demonstration has a model"
    wrong = any(verdict.is_wrong for k, verdict in run.verdicts.items() if k not in person.told)
    return Retrieval(
        run=_name(job),
        where=where,
        model=model.tested_digest,
        tau=tau,
        wrong=wrong,
        ended=run.result.ended,
    )
