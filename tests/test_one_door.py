"""One door: the loop and every surface look and decide with the system they are given, in one way."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from support.box_table import Box, BoxTable, TableMasks
from support.faulty_table import grasp_at_once
from support.plain_system import Deciding, plain_system
from support.surfaces import StillRobot, ask_in_words_and_points, bare_frame
from support.vlm_servers import OpenAIHandler, Plan, VlmServer

import cpor
from cpor.answer import decide_given
from cpor.decision import Defer
from cpor.io.scene_folder import read_scene_folder
from cpor.perception.segmenter import make_segmenter
from cpor.relations import ObstructionPosterior
from cpor.robot.cycle import LoopSettings
from cpor.semantics.grounder import WordsReply
from cpor.words.grounding_answers import Request

SCENE = Path("examples/scenes/sim/scene_00007")


class Grounder:
    """Says which object is meant, and counts how often it is asked."""

    def __init__(self, *meant):
        self.meant, self.asked = meant, []

    def which_object(self, scene, words):
        self.asked.append(words)
        return WordsReply(dict.fromkeys(self.meant, 1.0), "the grounder")


def test_the_loop_asks_the_grounder_of_its_system_what_words_mean_and_once():
    table, grounder = BoxTable(), Grounder(1)
    system = plain_system(TableMasks(table))
    system._grounder = grounder
    result = cpor.retrieve(table, system, "the thing to drink from")
    assert result.retrieved and 1 not in table.boxes
    assert grounder.asked == ["the thing to drink from"], "words are read once, then identity carries"
    assert any("the grounder was asked" in note for note in result.cycles[0].notes)


@pytest.mark.slow
def test_the_command_retrieve_asks_a_model_what_words_mean(tmp_path, monkeypatch):
    frame = bare_frame(SCENE, tmp_path / "frame")
    monkeypatch.setenv("CPOR_TEST_KEY", "sk-test")
    with VlmServer(OpenAIHandler, Plan(meant='{"objects": [{"object": 3, "fit": 0.95}]}')) as server:
        scorer = write_scorer(tmp_path, server)
        asked = Request(words="what I drink from")
        said = dict(ask_in_words_and_points(frame, asked, None, scorer, tmp_path))
        asked_words = [seen for seen in server.plan.seen if "what I drink from" in seen.prompt]
    reference = said["Python, decide"]
    assert {surface: each.why_not(reference) for surface, each in said.items()} == dict.fromkeys(said)
    assert len(said) == 6 and asked_words


def write_scorer(folder, server):
    text = f'kind = "openai"\nname = "stand-in"\nmodel = "some-model"\nbase_url = "{server.url}"\n'
    text += f'api_key_env = "CPOR_TEST_KEY"\ncache = "{folder / "replies.sqlite"}"\n'
    (folder / "stand_in.toml").write_text(text)
    return str(folder / "stand_in.toml")


@pytest.mark.slow
@pytest.mark.parametrize(("way", "segmenter"), [("id", "depth"), ("point", None), ("words", "depth")])
def test_every_surface_says_the_same(way, segmenter, tmp_path):
    """Our masks, and those of another segmenter."""
    frame = bare_frame(SCENE, tmp_path / "frame")
    system = cpor.System(segmenter)
    view = system.look(frame)
    target = view.scene.ids[0]
    shown = np.argwhere(view.seen.visible_ids == target)
    y, x = shown[len(shown) // 2]
    asked = {"id": Request(target), "point": Request(point=(float(x), float(y)))}
    asked["words"] = Request(words=next(o.called for o in view.scene.objects if o.id == target))
    said = dict(ask_in_words_and_points(frame, asked[way], segmenter, None, tmp_path))
    reference = said["Python, decide"]
    assert {surface: each.why_not(reference) for surface, each in said.items()} == dict.fromkeys(said)


@pytest.mark.parametrize("surface", ["decide", "loop"])
@pytest.mark.parametrize(("asked_for", "expected"), [(None, True), (False, False), (True, True)])
def test_every_surface_looks_a_second_time_at_the_masks_of_another_segmenter(
    surface, asked_for, expected, monkeypatch
):
    looked = []
    monkeypatch.setattr("cpor.system.doubt_merged", lambda view, beliefs, stages: looked.append(1) or beliefs)
    table = BoxTable()
    system = cpor.System(TableMasks(table), "none", "none", second_look=asked_for)
    if surface == "loop":
        cpor.retrieve(table, system, 1, LoopSettings(budget=1, max_deferrals=1))
    else:
        system.decide(system.look(table.observe()), 1)
    assert bool(looked) is expected


def test_the_loop_finds_objects_with_the_segmenter_of_its_system():
    class Counting:
        asked = 0

        def segment(self, observation):
            self.asked += 1
            return make_segmenter("depth").segment(observation)

    frame, masks = read_scene_folder(SCENE).observation, Counting()
    system = cpor.System(masks, "none", second_look=False)
    result = cpor.retrieve(StillRobot(frame), system, 1, LoopSettings(budget=1, max_deferrals=1))
    assert masks.asked == 1 and result.cycles[0].scene.objects


def test_given_probabilities_that_contradict_each_other_are_not_acted_on():
    p = np.array([[0.0, 0.9999], [0.9999, 0.0]])
    answer = decide_given(ObstructionPosterior((1, 2), 1, p), tau=0.1)
    assert answer.decision.mu_target > 0.99 and answer.action == Defer("conflicting_evidence")


def test_a_request_is_refused_in_one_place():
    with pytest.raises(cpor.CporError, match="one way only"):
        Request(3, words="the red one")
    with pytest.raises(cpor.CporError, match="in one way"):
        Request().required()


def test_one_frame_is_hashed_and_described_once(monkeypatch):
    """A cycle of the loop, asked in words: each costly look at a frame is taken once."""
    import cpor.sources
    import cpor.words.description

    counted = Counter()

    def count(module, name):
        real = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *a, **k: counted.update([name]) or real(*a, **k))

    count(cpor.sources, "digest_frame")
    count(cpor.words.description, "describe_objects")
    frame = read_scene_folder(SCENE).observation
    system = cpor.System("depth", "none", second_look=False)
    cpor.retrieve(StillRobot(frame), system, "the purple one", LoopSettings(budget=1, max_deferrals=1))
    assert counted == dict.fromkeys(("digest_frame", "describe_objects"), 1)


def boxes_in_a_row():
    return {k: Box((20, 50), (10 + 40 * n, 30 + 40 * n), 0.04, (200 - 80 * n, 30 + 80 * n, 30)) for n, k in
            enumerate((1, 2, 3))}  # fmt: skip


def test_a_request_in_words_never_changes_its_meaning():
    """The leftmost thing vanishes between two looks: another one is the leftmost then, and is not taken."""
    table = BoxTable(boxes_in_a_row(), rolls_away={1: 1}, misses={1: 1})
    asked = []
    system = Deciding(TableMasks(table), grasp_at_once)
    result = cpor.retrieve(table, system, "the leftmost one", ask=lambda cycle: asked.append(cycle) or None)
    assert not result.retrieved and {2, 3} <= set(table.boxes)
    assert len({c.target for c in result.cycles if c.target is not None}) == 1
