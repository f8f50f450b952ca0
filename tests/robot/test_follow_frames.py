"""A folder of frames: the object asked for in the first one is followed through all of them."""

import json
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from support.box_table import Box, BoxTable, TableMasks
from typer.testing import CliRunner

from cpor.cli.app import app
from cpor.decision import Grasp, Remove
from cpor.system import System


def see(table, rng):
    return TableMasks(table, rng).segment(table.observe())


def test_it_is_followed_whatever_a_frame_calls_it_and_asked_about_where_it_is_gone(rng):
    system, table = System(scorer="none", model="none", mode="bold"), BoxTable()
    frames = [see(table, rng)]
    for gone in (3, 2, 1):
        del table.boxes[gone]
        frames.append(see(table, rng))
    views = (system.look(frame) for frame in frames)
    answers = list(system.follow(views, (25, 25), tau=0.5))
    first = answers[0].target
    assert [answer.target for answer in answers] == [first] * 3 + [None]
    assert isinstance(answers[0].action, Remove) and answers[2].action == Grasp(first)
    assert "is not seen in frame 3" in answers[3].question
    assert answers[1].promise is None and {o["id"] for o in answers[1].to_json()["objects"]} < {
        o["id"] for o in answers[0].to_json()["objects"]
    }


@pytest.mark.parametrize("asked", [{}, {"mode": "bold"}, {"tau": 0.4}])
def test_a_question_names_the_mode_and_the_threshold_as_decide_does(asked, rng):
    system, table = System(scorer="none", model="none", mode="bold"), BoxTable()
    frames = [see(table, rng)]
    del table.boxes[1]
    views = [system.look(frame) for frame in (*frames, see(table, rng))]
    question = list(system.follow(views, (25, 25), **asked))[1]
    like = system.decide(views[1], "the green dragon", **asked)
    assert question.question and like.question
    assert (question.mode, question.tau) == (like.mode, like.tau)


def test_what_was_pointed_at_is_followed_out_of_a_mask_that_held_two_things(rng):
    system, table = System(scorer="none", model="none", mode="bold"), BoxTable()
    table.boxes = {k: table.boxes[k] for k in (1, 4)}
    table.boxes[2] = Box((20, 60), (60, 75), 0.04, (30, 30, 200))
    apart = [see(table, rng) for _ in range(2)]
    ids = apart[0].visible_ids
    first, other = int(ids[25, 25]), int(ids[25, 65])
    as_one = tuple(o for o in apart[0].objects if o.id != first)
    apart[0] = replace(apart[0], visible_ids=np.where(ids == first, other, ids), objects=as_one)
    answers = list(system.follow(map(system.look, apart), (65, 25), tau=0.5))
    assert answers[1].target == answers[0].target == other
    assert answers[1].view.seen.visible_ids[25, 65] == other


def test_the_command_says_a_line_a_frame(tmp_path):
    table = BoxTable()
    for number in range(2):
        frame = table.observe()
        Image.fromarray(frame.rgb).save(tmp_path / f"color_{number}.png")
        depth = np.rint(frame.depth * 1000).astype(np.uint16)
        Image.fromarray(depth).save(tmp_path / f"depth_{number}.png")
        del table.boxes[3 - number]
    options = ["--point", "105,10", "--segmenter", "depth", "--scorer", "none", "--ignore-checks", "--follow"]
    ran = CliRunner().invoke(app, ["decide", str(tmp_path), "--mode", "bold", "--json", *options])
    assert ran.exit_code == 0, ran.output
    told = [json.loads(line) for line in ran.stdout.splitlines()]
    assert len(told) == 2 and told[0]["target"] == told[1]["target"] is not None
