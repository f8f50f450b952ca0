"""The front door: look at a frame, decide for a target, with nothing configured and with tiny networks."""

from dataclasses import replace

import numpy as np
import pytest
from support.networks import paint, write_area_scorer, write_colour_segmenter

import cpor
from cpor.decision import Defer
from cpor.io.scene_folder import read_scene_folder, write_scene_folder
from cpor.model import FittedModel, bundled_model
from cpor.perception.onnx_segmenter import OnnxSegmenter
from cpor.records import Promise
from cpor.scene import Observation, Scene
from cpor.semantics.embedded import EmbeddedScorer
from cpor.system import System
from cpor.words.grounding import AmbiguousRequest, Found, NotFound

BOXES = {"red": (0.1, 0.1, 0.5, 0.4), "green": (0.15, 0.42, 0.6, 0.7), "blue": (0.55, 0.2, 0.9, 0.5)}


@pytest.fixture
def system(tmp_path):
    segmenter = OnnxSegmenter(write_colour_segmenter(tmp_path / "segmenter.onnx"))
    return System(segmenter, EmbeddedScorer(write_area_scorer(tmp_path / "scorer.onnx")), "none")


def frame(**boxes):
    rgb = paint((240, 320), **boxes)
    return Observation(rgb, np.where((rgb == 120).all(axis=-1), 0.8, 0.75).astype(np.float32))


def test_a_promise_names_what_its_tests_leave_out():
    assert "clear and very thin covers are not among them" in Promise(0.05, 0.9).in_words()


def test_words_points_and_ids_lead_to_the_same_decision(system):
    view = system.look(frame(**BOXES))
    by_words = system.decide(view, request="the green one")
    assert isinstance(by_words.meant, Found)
    assert view.semantic.scorer == "embedded tiny"
    by_point = system.decide(view, (180.0, 80.0))
    by_id = system.decide(view, by_words.target)
    assert by_point.decision == by_words.decision == by_id.decision
    assert {"read", "check", "segment", "ground", "score", "relate", "decide"} <= set(by_words.times_ms)


def test_things_are_named_once_somebody_asks_for_names(system):
    view = system.look(frame(**BOXES))
    answer = system.decide(view, 1)
    system.decide(view, (180.0, 80.0))
    assert "name" not in view.times_ms and not any(o.called for o in view.seen.objects)
    said = answer.to_json()
    assert all(each["name"] for each in said["objects"]) and said["times_ms"]["name"] > 0.0
    assert view.scene is view.scene and system.decide(view, request="the green one").times_ms["name"] > 0.0


def test_beliefs_are_kept_with_the_view(system):
    view = system.look(frame(**BOXES))
    assert view.beliefs is None
    system.decide(view, 1)
    kept = view.beliefs
    system.decide(view, 2, tau=0.1)
    assert view.beliefs is kept


def test_what_is_not_clear_is_not_decided(system):
    view = system.look(frame(**BOXES))
    several = system.decide(view, request="the object")
    assert isinstance(several.meant, AmbiguousRequest) and several.action is None and several.question
    assert view.beliefs is None  # nobody is asked, and paid, before it is clear what is meant
    nothing = system.decide(system.look(frame()), request="the red box")
    assert isinstance(nothing.meant, NotFound) and nothing.action is None
    with pytest.raises(cpor.CporError, match="one way only"):
        system.decide(view, cpor.Request(1, words="the red box"))


def test_without_depth_it_still_decides_from_what_the_scorer_says(system):
    view = system.look(Observation(frame(**BOXES).rgb))
    answer = system.decide(view, request="the red one")
    assert answer.decision is not None and view.beliefs.scores["semantic"].asked.any()
    assert answer.promise is None and any("No depth" in note for note in answer.notes)


def test_nothing_needs_to_be_configured():
    scene = read_scene_folder("examples/scenes/sim/scene_00007")
    view = System().look(scene.observation)
    answer = System().decide(view, request="the purple one", tau=0.0)
    assert isinstance(answer.meant, Found)
    assert view.semantic.scorer == FittedModel.load(bundled_model("embedded")).scorer
    again = System().decide(System().look(scene.observation), request="the purple one", tau=0.0)
    assert again.decision == answer.decision


def test_arrays_files_and_folders_are_the_same_picture(system, tmp_path):
    seen = frame(**BOXES)
    write_scene_folder(Scene(seen), tmp_path / "scene")
    steps = np.rint(seen.depth * 1000).astype(np.uint16)
    millimetres = (seen.depth * 1000).astype(np.float32)
    rgb_file, depth_file = tmp_path / "scene" / "rgb.png", tmp_path / "scene" / "depth.png"
    answers = [
        system.decide(view, request="the green one")
        for view in (
            system.look(tmp_path / "scene"),
            system.look(rgb_file, depth_file),
            system.look(rgb_file, depth_file, depth_unit_m=0.001),
            system.look(seen.rgb, steps),
            system.look(seen.rgb, steps, depth_unit_m=0.001),
            system.look(seen.rgb, millimetres),
            system.look(seen.rgb, seen.depth),
        )
    ]
    for other in answers[1:]:
        assert other.action == answers[0].action
        assert other.scores == pytest.approx(answers[0].scores, abs=1e-6)
        assert [check.state for check in other.checks] == [check.state for check in answers[0].checks]


def test_a_failed_check_blocks_acting_unless_it_is_overridden(system):
    seen = frame(**BOXES)
    blank = Observation(seen.rgb, np.full_like(seen.depth, np.nan))
    answer = system.decide(system.look(blank), request="the green one", tau=0.0)
    assert any(check.state == "fail" for check in answer.checks)
    assert answer.action == Defer("failed_check") and answer.promise is None
    settings = cpor.DecideSettings(ignore_checks=True)
    forced = system.decide(system.look(blank), request="the green one", tau=0.0, settings=settings)
    assert forced.action != Defer("failed_check") and forced.promise is None


def test_all_objects_of_a_view_are_decided_as_each_alone(system):
    view = system.look(frame(**BOXES))
    answers = system.decide_all(view, mode="bold")
    assert tuple(answers) == view.scene.ids
    for obj, answer in answers.items():
        alone = system.decide(system.look(frame(**BOXES)), obj, mode="bold")
        assert (answer.action, answer.decision.scores) == (alone.action, alone.decision.scores)


def test_graphs_with_a_cycle_may_keep_their_probability(system):
    view = system.look(frame(**BOXES))
    a, b = view.scene.ids[:2]
    given = {(i, j): 0.0 for i in view.scene.ids for j in view.scene.ids if i != j} | {
        (a, b): 0.6,
        (b, a): 0.6,
    }
    plain, whole = (
        system.decide(view, a, tau=0.4, relations=given, settings=cpor.DecideSettings(cycles=cycles))
        for cycles in (0.0, 1.0)
    )
    # Z = 1 - .36, and a is free with probability .4 / Z; with cycles nothing is divided.
    q = plain.decision.scores[a]
    assert q * (1.0 - plain.decision.mu_target) == pytest.approx(whole.decision.scores[a])
    assert plain.action == cpor.Grasp(a)
    assert whole.action == Defer("conflicting_evidence")


def test_relations_can_be_edited(system):
    view = system.look(frame(**BOXES))
    target, other = view.scene.ids[:2]
    free = {(i, j): 0.0 for i in view.scene.ids for j in view.scene.ids if i != j}
    assert system.decide(view, target, relations=free).action == cpor.Grasp(target)
    blocked = system.decide(view, target, relations=free | {(target, other): 1.0})
    assert blocked.action == cpor.Remove(other)
    unknown = system.decide(view, target, relations=free | {(target, other): None})
    assert unknown.action == Defer("no_evidence")
    with pytest.raises(cpor.CporError, match="unknown object 99"):
        system.decide(view, target, relations={(target, 99): 0.5})


def test_masks_and_scores_of_another_picture_are_found_out(system, tmp_path):
    view = system.look(frame(**BOXES))
    believed = system.believe(view)
    scene = replace(view.scene, semantic_scores=believed.semantic, sources=believed.sources)
    write_scene_folder(scene, tmp_path / "seen")
    own = System("given", model="none")
    answer = own.decide(own.look(tmp_path / "seen"), view.scene.ids[0])
    state = {check.name: check.state for check in answer.checks}
    assert state["masks_source"] == state["scores_source"] == "pass"
    moved = frame(**BOXES | {"red": (0.05, 0.1, 0.45, 0.4)})
    other = replace(scene, observation=moved)
    answer = own.decide(own.look(other), view.scene.ids[0])
    state = {check.name: check.state for check in answer.checks}
    assert state["masks_source"] == state["scores_source"] == "fail"
    assert answer.action == Defer("failed_check")


def test_the_json_form_holds_what_every_surface_prints(system):
    said = system.decide(system.look(frame(**BOXES)), request="the green one").to_json()
    keys = "action scores blockers certificate target objects tau mu top_graphs mode promise checks notes"
    assert set(keys.split()) <= set(said)
    assert set(said["objects"][0]) >= {"id", "name", "point", "box"}
    assert said["promise"] is None and said["mode"] == "cautious" and said["tau"] == 0.9


def test_a_neighbour_without_depth_earns_no_promise(system):
    seen = frame(**BOXES)
    view = system.look(seen)
    red, green = (system.decide(view, request=f"the {name} one").target for name in ("red", "green"))
    depth = np.where(view.scene.visible_ids == green, np.nan, seen.depth).astype(np.float32)
    for observation, state in ((seen, "pass"), (replace(seen, depth=depth), "doubt")):
        answer = system.decide(system.look(observation), red)
        assert [check.state for check in answer.checks if check.name == "measured"] == [state]
