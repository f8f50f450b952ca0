"""Which object is the target from frame to frame, and when it counts as gone."""

from robot.table_runs import RED, run
from support.box_table import Box, BoxTable, TableMasks, stack


def test_a_robot_that_only_says_done_does_not_retrieve(tmp_path):
    table = BoxTable({1: stack()[1]}, lies={1})
    result = run(table, tmp_path)
    assert result.ended == "deferred" and result.actions == 4
    assert any("lies where it lay" in note for note in result.cycles[0].notes)


def test_a_removal_that_only_says_done_counts_as_failure(tmp_path):
    table = BoxTable(lies={3})
    result = run(table, tmp_path)
    assert result.ended == "deferred" and table.log.count("remove 3") == 4


def test_a_target_that_rolls_away_is_lost_not_retrieved(tmp_path):
    table = BoxTable(rolls_away={3: 1})
    result = run(table, tmp_path, settings={"looks_for_target": 2})
    assert result.ended == "target_lost" and not result.retrieved
    assert [cycle.target for cycle in result.cycles] == [1, None, None]
    assert table.log[-1] == "home"


def test_what_comes_to_light_where_the_target_lay_is_not_taken_for_it(tmp_path, rng):
    boxes = {
        1: Box((20, 60), (20, 60), 0.09, RED),
        2: Box((18, 62), (18, 62), 0.03, (180, 60, 30)),
        3: Box((30, 70), (40, 80), 0.14, (30, 30, 200)),
    }
    table = BoxTable(boxes, rolls_away={3: 1})
    masks = TableMasks(table, rng)
    first = masks.find(RED)
    frames = iter(range(100))
    result = run(table, tmp_path, masks=masks, target=lambda s: first(s) if next(frames) == 0 else None)
    assert result.ended == "target_lost" and set(table.boxes) == {2}


def test_a_target_that_moves_within_view_is_followed(tmp_path, rng):
    table = BoxTable(misses={3: 1})
    take = table.remove

    def remove_and_kick(scene, obj):
        outcome = take(scene, obj)
        if outcome.kind == "missed":
            table.boxes[1] = table.boxes[1].moved(30, -15)
        return outcome

    table.remove = remove_and_kick
    masks = TableMasks(table, rng)
    first = masks.find(RED)
    frames = iter(range(100))
    result = run(table, tmp_path, masks=masks, target=lambda s: first(s) if next(frames) == 0 else None)
    assert result.retrieved and 1 not in table.boxes


def test_a_target_unseen_for_a_frame_is_found_again(tmp_path):
    table = BoxTable({1: stack()[1], 4: stack()[4]}, misses={1: 1})
    seen = []
    observe = table.observe

    def observe_with_a_hand_in_front():
        seen.append(1)
        if len(seen) == 3:  # the second look comes right before the motion
            hidden = table.boxes.pop(1)
            frame = observe()
            table.boxes[1] = hidden
            return frame
        return observe()

    table.observe = observe_with_a_hand_in_front
    result = run(table, tmp_path)
    assert [cycle.target for cycle in result.cycles] == [1, None, 1] and result.retrieved


def test_an_unknown_target_is_lost_and_the_objects_are_named(tmp_path):
    result = run(BoxTable(), tmp_path, target=9)
    assert result.ended == "target_lost" and "1, 2, 3, 4" in result.detail and result.actions == 0


def test_an_empty_table_is_empty(tmp_path):
    result = run(BoxTable({}), tmp_path)
    assert result.ended == "empty" and result.actions == 0
