"""The paper's robot table on the simulated arm: paired scenarios, failures sorted by cause."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from cpor.errors import InputFileError, InvalidSettingError
from cpor.io.pool import Pool
from cpor.io.whole_files import held_alone, refuse_other
from cpor.learn.bootstrap import PairedComparison, compare_paired
from cpor.model import FittedModel
from cpor.paper.means import WilsonRate
from cpor.paper.methods import METHODS, MethodName
from cpor.paper.table import Figures, Table, paper_rows
from cpor.perception.network_file import CHECKSUMS, PACKAGED
from cpor.robot.cycle import Ended
from cpor.sim.dataset.manifest import TIERS, Tier
from cpor.sim.physics.installed import versions

if TYPE_CHECKING:  # needs MuJoCo, and tables are made without it
    from cpor.paper.scenarios import ScenarioSettings

FIRST_SEED = 3_000_000
"""Seed of the first scenario; the tiers begin 1,000 apart.

Those of the dev split begin at 1,000,000, of the test split at 2,000,000.
"""

REFERENCE: MethodName = "cpor"

METHOD_NAMES: Mapping[MethodName, str] = {
    "geometry_argmax": "geometry + argmax",
    "scorer_argmax": "scorer + argmax",
    "raw_argmax": "raw scores + argmax",
    "no_acyclicity": "no acyclicity",
    "single_map": "single MAP",
    "topk": "Algorithm 1",
    "cpor": "CPOR",
    "paper": "paper's pipeline",
    "oracle": "true relations",
}


Cause: TypeAlias = Literal["perception", "reasoning", "grasp", "physics"]
"""Why a scenario failed. `perception`: no frame came, nothing was found in it, or the target was not although
it can be seen. `reasoning`: a wrong action was taken, or none although one was right. `grasp`: right actions,
but the gripper did not get hold. `physics`: the pile fell, the target left the view, or the arm stopped
itself."""


class Step(BaseModel):
    """One decision of a run, and what the truth says of it.

    Attributes:
        cycle: Index of its cycle.
        did: What was done.
        reason: Why it deferred; None where it did not.
        score: Score of the action; where it deferred, of the likeliest action that could be taken.
        wrong: Whether that action is wrong, also where it was not taken.
        by_person: Whether a person said what to do.
        own_wrong: Whether the likeliest action by the robot's own scores is wrong.
    """

    model_config = ConfigDict(frozen=True)

    cycle: int
    did: Literal["grasp", "remove", "defer"]
    reason: str | None = None
    score: float
    wrong: bool
    by_person: bool = False
    own_wrong: bool = False


class ScenarioRecord(BaseModel):
    """What came of one scenario.

    Attributes:
        tier, seed, method: Which.
        ended: How the loop ended.
        retrieved: Whether the target is in the delivery tray, by the simulator.
        success: As the paper defines it: retrieved, and every action was right.
        actions: Attempts on objects.
        wrong: Actions that occlusion or sweep says were wrong, less those that a person said.
        deferrals: Times it deferred.
        failed_grasps: Attempts that did not end with the object in a tray.
        cause: Why it is no success; None where it is.
        cyclic: Whether the first truth held a cycle.
        n_objects: In the heap.
        detail: How it ended, in words.
        pointed: How often a person had to say again which object is meant.
        sign_off_prior: Why missing answers were filled with a prior; None where they were not.
        asked: How often a person was asked what to do.
        steps: Every decision.
    """

    model_config = ConfigDict(frozen=True)

    tier: Tier
    seed: int
    method: MethodName
    ended: Ended
    retrieved: bool
    success: bool
    actions: int
    wrong: int
    deferrals: int
    failed_grasps: int
    cause: Cause | None
    cyclic: bool
    n_objects: int
    detail: str
    pointed: int = 0
    sign_off_prior: str | None = None
    asked: int = 0
    steps: tuple[Step, ...] = ()

    @property
    def needless(self) -> int:
        """Questions to a person where the robot's own likeliest action was right."""
        return sum(step.by_person and not step.own_wrong for step in self.steps)


@dataclass(frozen=True, eq=False)
class RobotRow:
    """One method.

    Attributes:
        success: As the paper defines it, by tier and over `all`.
        unasked: The same, without any question.
        retrieved: Whether the target came out at all, by tier and over `all`.
        causes: Why scenarios were no success.
        mean_actions: Attempts a scenario.
        wrong: Wrong actions in all.
        deferrals: Deferrals in all.
        asked: Questions to a person in all.
        needless: Those of them where the robot's own likeliest action was right.
        pointed: How often a person had to point at the target again.
        paired: CPOR's success against this row's, on the scenarios both have; None for CPOR itself.
    """

    success: Mapping[str, WilsonRate]
    unasked: Mapping[str, WilsonRate]
    retrieved: Mapping[str, WilsonRate]
    causes: Mapping[str, int]
    mean_actions: float
    wrong: int
    deferrals: int
    asked: int
    needless: int
    pointed: int
    paired: PairedComparison | None


def run_robot_table(
    out: Path,
    settings: "ScenarioSettings",
    per_tier: int = 15,
    methods: Sequence[MethodName] = METHODS,
    pool: Pool | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> list[ScenarioRecord]:
    """Run every method on the same scenarios; what a file of records holds already is not run again.

    Args:
        out: File of records, one JSON a line; the first line says their settings. No other process can
            write to it meanwhile.
        settings: What the scenarios share.
        per_tier: Scenarios a tier.
        methods: Rows of the table.
        pool: Worker processes (`Pool`); the nodes of a cluster see the model at the same path. None:
            this process.
        progress: Told of each step: what is done, how much of it, out of how much.

    Raises:
        InputFileError: The file cannot be written, was made with something else, or another process writes
            to it.
    """
    if per_tier < 1:
        raise InvalidSettingError(f"{per_tier} scenarios a tier; give at least 1")
    from cpor.paper.scenarios import Job, run_scenario

    head = _made_with(settings)
    seeds = [(tier, FIRST_SEED + 1000 * TIERS.index(tier) + k) for k in range(per_tier) for tier in TIERS]
    wanted = [(*place, method) for place in seeds for method in methods]
    _make_file(out)
    with held_alone(out):
        done = {(r.tier, r.seed, r.method): r for r in _begin(out, head)}
        missing = {place: tuple(m for m in methods if (*place, m) not in done) for place in seeds}
        jobs = [Job(*place, left, settings) for place, left in missing.items() if left]
        for _, records in (pool or Pool()).do_all(run_scenario, jobs):
            done |= {(record.tier, record.seed, record.method): record for record in records}
            with out.open("a", encoding="utf-8") as file:
                file.writelines(record.model_dump_json() + "\n" for record in records)
            if progress is not None:
                progress("scenarios", sum(key in done for key in wanted), len(wanted))
        return [done[key] for key in wanted]


def read_records(path: Path) -> list[ScenarioRecord]:
    """The records of a file; a last line that was cut off while it was written is left out."""
    lines = path.read_text(encoding="utf-8").split("\n")
    records = []
    for number, line in enumerate(lines[1:-1], start=2):
        try:
            records.append(ScenarioRecord.model_validate_json(line))
        except ValidationError:
            raise InputFileError(f"{path}, line {number} is no record; move the file away") from None
    return records


def summarise(records: Sequence[ScenarioRecord], rng: np.random.Generator) -> dict[MethodName, RobotRow]:
    """The table: a row a method, in the order of METHODS."""
    by_method: dict[MethodName, dict[tuple[str, int], ScenarioRecord]] = {}
    for record in records:
        by_method.setdefault(record.method, {})[record.tier, record.seed] = record
    reference = by_method.get(REFERENCE, {})
    return {
        method: _row(by_method[method], reference if method != REFERENCE else {}, rng)
        for method in METHODS
        if method in by_method
    }


def paper_table(rows: Mapping[MethodName, RobotRow]) -> Table:
    """Table robot: our simulated arm's rows below the paper's."""
    names = {"easy": "easy", "medium": "medium", "hard": "hard", "average": "all"}
    ours: dict[str, Figures] = {
        METHOD_NAMES[method]: {figure: row.success[tier].share for figure, tier in names.items()}
        for method, row in rows.items()
    }
    counted = [f"{METHOD_NAMES[m]}: {row.success['all'].n} scenarios" for m, row in rows.items()]
    notes = [
        "The paper: a UR3, 45 real scenarios. Ours: a simulated arm, our networks' masks and scores.",
        "; ".join(counted) if counted else "Not run: `cpor experiment robot --out FILE`, then --robot FILE.",
        "Rows of VLM backbones need a key: `cpor experiment robot` takes our scorer alone.",
    ]
    table = paper_rows("robot", ours, {}, "Needs their arm and objects.")
    return Table("robot", "Robot", table, notes)


def table_to_json(rows: Mapping[MethodName, RobotRow]) -> dict[str, Any]:
    """For files and programs."""
    return {method: asdict(row) for method, row in rows.items()}


def _row(
    found: Mapping[tuple[str, int], ScenarioRecord],
    reference: Mapping[tuple[str, int], ScenarioRecord],
    rng: np.random.Generator,
) -> RobotRow:
    records = list(found.values())
    groups = {"all": records} | {t: [r for r in records if r.tier == t] for t in TIERS}
    both = [key for key in found if key in reference]
    paired = None
    if both:
        own = np.array([found[key].success for key in both], np.float64)
        other = np.array([reference[key].success for key in both], np.float64)
        paired = compare_paired(own, other, np.arange(len(both)), rng)

    def by_tier(holds: Callable[[ScenarioRecord], bool]) -> dict[str, WilsonRate]:
        return {tier: WilsonRate.of([holds(each) for each in group]) for tier, group in groups.items()}

    return RobotRow(
        by_tier(lambda record: record.success),
        by_tier(lambda record: record.success and not record.asked),
        by_tier(lambda record: record.retrieved),
        dict(Counter(r.cause for r in records if r.cause is not None)),
        float(np.mean([r.actions for r in records])),
        sum(r.wrong for r in records),
        sum(r.deferrals for r in records),
        sum(r.asked for r in records),
        sum(r.needless for r in records),
        sum(r.pointed for r in records),
        paired,
    )


def _made_with(settings: "ScenarioSettings") -> dict[str, Any]:
    """What must be the same for records to be gone on with; files count by what is in them."""
    FittedModel.load(settings.model)  # says what is wrong with it, if anything is
    said = asdict(settings)
    files = {name: _fingerprint(value) for name, value in said.items() if isinstance(value, Path)}
    others = {name: value for name, value in said.items() if name not in files}
    if settings.eyes == "networks":
        checksums = PACKAGED / CHECKSUMS
        files["networks"] = _fingerprint(checksums) if checksums.is_file() else "missing"
    return {"settings": others, "files": files, "versions": versions()}


def _fingerprint(file: Path) -> str:
    return sha256(file.read_bytes()).hexdigest()


def _make_file(out: Path) -> None:
    if out.is_dir():
        raise InputFileError(f"{out} is a folder, and records go into a file; choose another --out")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.open("a").close()
    except OSError as error:
        raise InputFileError(f"cannot write to {out}: {error.strerror}; choose another --out") from None


def _begin(out: Path, head: dict[str, Any]) -> list[ScenarioRecord]:
    """Records that are there already; begins a file that is empty or was cut off in its first line."""
    text = out.read_text(encoding="utf-8")
    begun = json.dumps(head) + "\n"
    if begun.startswith(text):
        out.write_text(begun, encoding="utf-8")
        return []
    _refuse_other(out, text.split("\n", 1)[0], head)
    whole = text[: text.rfind("\n") + 1]
    if whole != text:  # killed while it wrote
        out.write_text(whole, encoding="utf-8")
    return read_records(out)


def _refuse_other(out: Path, line: str, head: dict[str, Any]) -> None:
    try:
        there = json.loads(line)
    except ValueError:
        there = None
    if not isinstance(there, dict) or there.keys() != head.keys():
        raise InputFileError(f"{out} is no file of records of this version; choose another --out")
    refuse_other(out, there, head)
