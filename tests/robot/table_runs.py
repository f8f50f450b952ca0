"""Runs of the loop on a table of boxes, whose record must say what the result says."""

from support.box_table import BoxTable, TableMasks, stack
from support.plain_system import Deciding, plain_system

from cpor.robot.cycle import LoopSettings
from cpor.robot.loop import retrieve
from cpor.robot.run_folder import RunFolder, read_run

RED = (200, 30, 30)


def two():
    """The target lies free, another box apart from it."""
    return BoxTable({1: stack()[1], 4: stack()[4]})


def run(table, tmp_path, settings=None, masks=None, target=1, **options):
    """Run on a table with a record; the record must say what the result says."""
    settings, masks = LoopSettings(**(settings or {})), masks or TableMasks(table)
    decider = options.pop("decider", None)
    system = Deciding(masks, decider) if decider else plain_system(masks)
    result = retrieve(
        table,
        options.pop("system", system),
        target,
        settings,
        RunFolder(tmp_path / "run"),
        **options,
    )
    on_disk = read_run(tmp_path / "run")
    assert on_disk.ended == result.ended and on_disk.head.detail == result.detail
    assert on_disk.head.actions == result.actions == sum(c.attempt != "none" for c in on_disk.cycles)
    assert len(on_disk.cycles) == len(result.cycles)
    for written, kept in zip(on_disk.cycles, result.cycles, strict=True):
        assert (written.action, written.outcome, written.attempt) == (kept.action, kept.outcome, kept.attempt)
        assert written.notes == kept.notes and written.scene == kept.scene
    return result
