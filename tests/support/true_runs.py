"""Runs of the loop whose record must end as they do, and robots that say `done`."""

from cpor.robot.cycle import LoopSettings
from cpor.robot.loop import retrieve
from cpor.robot.run_folder import RunFolder, read_run
from support.box_table import BoxTable, TableMasks, stack
from support.plain_system import Deciding, plain_system


def two():
    """The target lies free, another box apart from it."""
    return BoxTable({1: stack()[1], 4: stack()[4]})


def run(table, tmp_path, settings=None, masks=None, target=1, **options):
    record, decider = RunFolder(tmp_path / "run"), options.pop("decider", None)
    masks = masks or TableMasks(table)
    system = Deciding(masks, decider) if decider else plain_system(masks)
    result = retrieve(
        table,
        options.pop("system", system),
        target,
        settings=LoopSettings(**(settings or {})),
        record=record,
        **options,
    )
    assert read_run(tmp_path / "run").ended == result.ended
    return result
