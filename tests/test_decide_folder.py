"""`cpor decide` on scene folders: which object is meant, whose masks, whose scores, which model."""

import csv
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image
from support.networks import paint, write_area_scorer, write_colour_segmenter
from typer.testing import CliRunner

from cpor import CporError
from cpor.cli.app import app
from cpor.cli.dialogue import converse
from cpor.errors import say_version
from cpor.io.scene_folder import write_scene_folder
from cpor.model import FittedModel, bundled_model
from cpor.scene import BlockedBy, DetectedObject, MaskCrop, Observation, Scene, SemanticScores
from cpor.system import System

SHAPE = (240, 320)
BOXES = {"red": (0.1, 0.1, 0.5, 0.4), "green": (0.15, 0.42, 0.6, 0.7), "blue": (0.55, 0.2, 0.9, 0.5)}


def frame(*colours):
    rgb = paint(SHAPE, **{colour: BOXES[colour] for colour in colours or BOXES})
    return Observation(rgb, np.where((rgb == 120).all(axis=-1), 0.8, 0.75).astype(np.float32))


def with_masks(scores=None, request=None):
    seen = frame()
    ids = np.zeros(SHAPE, np.int32)
    for k, colour in enumerate((200, 30, 30), start=1):
        ids[(seen.rgb[..., 0] == colour) & (ids == 0) & (seen.rgb[..., 1] != (60 if k == 2 else 255))] = k
    ids[(seen.rgb == (30, 60, 200)).all(axis=-1)] = 3
    objects = tuple(
        DetectedObject(k, MaskCrop.from_mask(ids == k), f"the {name}")
        for k, name in ((1, "mug"), (2, "box"), (3, "can"))
    )
    return Scene(seen, objects, ids, request=request, semantic_scores=scores)


@pytest.fixture
def folder(tmp_path):
    """A folder with a photograph and depth, and nothing else."""
    write_scene_folder(Scene(frame()), tmp_path / "scene")
    return tmp_path / "scene"


@pytest.fixture
def tiny(tmp_path):
    """Options that put tiny networks in the place of ours."""
    write_area_scorer(tmp_path / "scorer.onnx")
    (tmp_path / "tiny.toml").write_text(
        f'kind = "embedded"\n[options]\npath = "{tmp_path / "scorer.onnx"}"\n'
    )
    segmenter = write_colour_segmenter(tmp_path / "segmenter.onnx")
    return "--weights", segmenter, "--scorer", tmp_path / "tiny.toml", "--model", "none"


def decide(*arguments):
    ran = CliRunner().invoke(app, ["decide", *map(str, arguments)], env={"COLUMNS": "200"})
    if isinstance(ran.exception, CporError):
        raise ran.exception
    assert ran.exception is None or isinstance(ran.exception, SystemExit), ran.exception
    return ran


def told(*arguments, code=0):
    ran = decide(*arguments, "--json")
    assert ran.exit_code == code, ran.output
    return json.loads(ran.output)


def test_a_photograph_with_depth_is_enough(folder, tiny):
    said = told(folder, "--request", "the green one", *tiny)
    assert said["action"]["type"] in ("grasp", "remove", "defer")
    assert said["masks"] == "embedded tiny"
    meant = next(o for o in said["objects"] if o["id"] == said["target"])
    assert [type(v) for v in (meant["id"], meant["point"], meant["box"])] == [int, list, list]
    x, y = meant["point"]
    assert tuple(frame().rgb[y, x]) == (30, 160, 50)
    assert {"read", "check", "segment", "ground", "score", "relate", "decide"} <= set(said["times_ms"])
    assert any("The segmenter embedded tiny found 3 objects" in note for note in said["notes"])


def test_three_ways_to_ask_for_the_same_object(folder, tiny):
    by_words = told(folder, "--request", "the green one", *tiny)
    x, y = next(o["point"] for o in by_words["objects"] if o["id"] == by_words["target"])
    assert told(folder, "--point", f"{x},{y}", *tiny)["target"] == by_words["target"]
    assert told(folder, "--target", by_words["target"], *tiny)["action"] == by_words["action"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--target", "1", "--point", "3,4"), "in one way only"),
        (("--point", "here"), "not X,Y"),
        (("--point", "900,10"), "outside of the 320 x 240 image"),
        (("--target", "77"), "unknown object 77"),
    ],
)
def test_unusable_requests_are_refused(folder, tiny, arguments, said):
    with pytest.raises(CporError, match=said):
        decide(folder, *arguments, *tiny)


def test_the_folders_own_request_counts_where_nothing_is_said(tmp_path, tiny):
    write_scene_folder(Scene(frame(), request="the blue one"), tmp_path / "asked")
    said = told(tmp_path / "asked", *tiny)
    assert any("request.txt asks for: the blue one" in note for note in said["notes"])
    assert told(tmp_path / "asked", "--request", "the red one", *tiny)["target"] != said["target"]


def test_what_is_not_clear_is_asked_back(folder, tiny):
    said = told(folder, "--request", "the object", *tiny, code=2)
    assert said["action"] is None and said["target"] is None
    assert said["question"].endswith("?")
    assert {o["id"] for o in said["candidates"]} <= {o["id"] for o in said["objects"]}
    assert len(said["candidates"]) > 1 and {"id", "name", "point", "box", "fit"} <= set(said["candidates"][0])
    ran = decide(folder, "--request", "the object", *tiny)
    assert ran.exit_code == 2
    assert "Which one do you mean?" in ran.output
    ran = decide(folder, *tiny)
    assert ran.exit_code == 2 and "Nobody said which object is asked for." in ran.output
    assert (
        "object 3 (" in ran.output
        and "Reply with --tell NUMBER, or name the object with --target ID" in ran.output
    )


def test_what_is_said_to_a_question_points_to_what_was_asked():
    system = System(model=bundled_model("geometry"))
    view = system.look(with_masks())
    first, said = system.decide(view, "the object"), []
    replies = iter(["the white one", "the second one", ""])
    found, given = converse(first, lambda text: said.append(text) or next(replies))
    assert (
        given == ["the white one", "the second one"]
        and "Reply with" not in said[0]
        and "--target" not in said[0]
    )
    assert found.target == first.candidates[1].id
    assert "Which one do you mean?" in said[0] and 'No object fits "the white one"' in said[1]
    assert system.decide(view, request="it").target == found.target
    replies = iter(["3", ""])
    assert converse(first, lambda text: next(replies))[0].target == 3
    assert converse(first, lambda text: "")[0] is first


def test_an_object_that_is_not_there_is_not_made_up(folder, tiny):
    said = told(folder, "--request", "the pink box", *tiny, code=2)
    # Boxes of other colours are asked about; none is taken.
    assert said["question"].startswith('No object fits "the pink box" well') and said["action"] is None
    assert len(said["objects"]) == 3
    nowhere = told(folder, "--point", "319,239", *tiny, code=2)
    assert "No object was found at" in nowhere["question"]


def test_a_word_that_is_not_known_is_asked_back(folder, tiny):
    said = told(folder, "--request", "the red gizmo", *tiny, code=2)
    assert said["action"] is None and len(said["candidates"]) == 1
    assert said["question"] == 'I do not know the word "gizmo". Which object do you mean?'


def test_only_what_lies_in_the_workspace_may_be_asked_for(folder, tiny, tmp_path):
    left = "0,0 140,0 140,239 0,239"  # the red one and the blue one's left half
    told(folder, "--request", "the red one", "--workspace", left, *tiny)
    files = (folder / "rgb.png", folder / "depth.png")
    for source in ((folder,), files):
        refused = told(*source, "--request", "the green one", "--workspace", left, *tiny, code=2)
        assert refused["action"] is None and refused["question"]
    told(folder, "--request", "the green one", *tiny)
    with pytest.raises(CporError, match="at least 3 different corners"):
        decide(folder, "--request", "the red one", "--workspace", "0,0 9,9", *tiny)
    with pytest.raises(CporError, match="not X,Y"):
        decide(folder, "--request", "the red one", "--workspace", "0,0 9,9 left", *tiny)
    # What `perceive` was told, the folder it writes says.
    ran = CliRunner().invoke(
        app, ["perceive", str(folder), "--out", str(tmp_path / "seen"), "--workspace", left, *tiny[:2]]
    )
    assert ran.exit_code == 0, ran.output
    again = told(tmp_path / "seen", "--request", "the green one", *tiny[2:], code=2)
    assert again["question"] == refused["question"]


def test_given_masks_count_unless_told_otherwise(tmp_path, tiny):
    write_scene_folder(with_masks(), tmp_path / "masks")
    scorer = tiny[2:]
    said = told(tmp_path / "masks", "--request", "the mug", *scorer)
    assert said["masks"] == "given" and said["target"] == 1
    assert [o["name"] for o in said["objects"]] == ["the mug", "the box", "the can"]
    again = told(tmp_path / "masks", "--request", "the red one", *tiny, "--ignore-given-masks")
    assert again["masks"] == "embedded tiny"
    depth = told(tmp_path / "masks", "--segmenter", "depth", "--point", "80,70", *scorer)
    assert depth["masks"] == "depth"


def test_the_model_is_the_one_for_what_was_used(tmp_path, tiny):
    write_scene_folder(with_masks(), tmp_path / "masks")
    alone = told(tmp_path / "masks", "--target", 1, "--scorer", "none")
    assert alone["tau"] == FittedModel.load(bundled_model("geometry")).tau("cautious")
    assert alone["mode"] == "cautious"
    assert any("geometry decides alone" in note for note in alone["notes"])
    raw = told(tmp_path / "masks", "--target", 1, "--scorer", "none", "--model", "none")
    assert raw["tau"] == 0.9 and any("Not calibrated" in note for note in raw["notes"])
    # Scores of somebody for whom nothing was fitted: no model is taken for them.
    scores = SemanticScores({BlockedBy(1, 2): 0.8, BlockedBy(2, 1): 0.1}, "somebody")
    write_scene_folder(with_masks(scores), tmp_path / "scored")
    other = told(tmp_path / "scored", "--target", 1)
    assert other["tau"] == 0.9 and any("Not calibrated" in note for note in other["notes"])
    # Those scores can be left aside.
    assert told(tmp_path / "scored", "--target", 1, "--scorer", "none")["scores"] == alone["scores"]


def test_nothing_is_promised_of_masks_that_nobody_recorded(tmp_path):
    write_scene_folder(with_masks(), tmp_path / "masks")
    said = told(tmp_path / "masks", "--target", 1, "--scorer", "none", "--segmenter", "given")
    assert said["promise"] is None
    assert {"name": "masks_source", "state": "doubt"}.items() <= next(
        check for check in said["checks"] if check["name"] == "masks_source"
    ).items()


def test_two_files_are_enough(folder, tiny):
    by_folder = told(folder, "--request", "the green one", *tiny)
    files = (folder / "rgb.png", folder / "depth.png")
    by_files = told(*files, "--request", "the green one", *tiny)
    assert by_files["scores"] == by_folder["scores"] and by_files["checks"] == by_folder["checks"]
    assert any("One step of depth is 0.001 m, by camera.json" in note for note in by_files["notes"])
    (folder / "camera.json").unlink()
    for source in (files, (folder,)):
        guessed = told(*source, "--request", "the green one", *tiny)
        assert guessed["scores"] == by_folder["scores"]
        assert any("one step is 0.001 m" in note for note in guessed["notes"])


def test_a_picture_a_page_and_a_record_are_written(folder, tiny, tmp_path):
    out = tmp_path / "new" / "out"
    said = told(folder, "--request", "the green one", "--out", out, *tiny)
    kept = json.loads((out / "decision.json").read_text())
    assert kept | {"times_ms": 0} == said | {"times_ms": 0}
    page = (out / "decision.html").read_text()
    assert "data:image/webp;base64," in page and "http" not in page.replace("http-equiv", "")
    assert "Content-Security-Policy" in page and "object" in page
    with Image.open(out / "decision.png") as picture:
        shown = np.asarray(picture)
    # Objects keep their own colours but for badges, arrows and thin outlines.
    assert (shown[: SHAPE[0]] == frame().rgb).all(axis=2).mean() > 0.8  # its pixels are the photograph's
    for words in ("Question: Does ", "What would change this", "Worth asking", "Likeliest ways"):
        assert words in page
    asked = decide(folder, "--request", "the object", "--out", out, *tiny)
    assert asked.exit_code == 2 and "Wrote" in asked.output
    assert "Which one do you mean?" in (out / "decision.html").read_text()
    with pytest.raises(CporError, match="cannot create the folder"):
        decide(folder, "--request", "the green one", "--out", folder / "rgb.png" / "x", *tiny)


def test_a_camera_without_its_library_says_what_to_install(tiny):
    with pytest.raises(CporError, match=r"pip install 'cpor-grasp\[robot\]'|no RealSense gives"):
        decide("realsense", "--point", "3,4", *tiny)


def test_modes_set_the_threshold(folder, tiny):
    for mode, tau in (("cautious", 0.9), ("balanced", 0.5), ("bold", 0.3)):
        said = told(folder, "--request", "the green one", "--mode", mode, *tiny)
        assert (said["mode"], said["tau"]) == (mode, tau)
    said = told(folder, "--request", "the green one", "--tau", 0.3, *tiny)
    assert (said["mode"], said["tau"]) == (None, 0.3)
    with pytest.raises(CporError, match="mode 'brave'; choose one of: robust, cautious, balanced, bold"):
        decide(folder, "--request", "the green one", "--mode", "brave", *tiny)


def test_our_own_networks_decide_a_simulated_scene(evidence):
    scene = "examples/scenes/sim/scene_00007"
    said = told(scene, "--ignore-given-masks", "--request", "the purple one")
    assert said["masks"].startswith("embedded") and len(said["objects"]) > 4
    model = FittedModel.load(bundled_model("embedded"))
    assert any(f"{say_version(model.scorer)} answered" in note for note in said["notes"])
    assert not any("Not calibrated" in note for note in said["notes"])
    evidence(
        "decides", "RGB-D and words to a decision, nothing configured", "a decision", said["action"]["type"]
    )


def test_an_empty_table_has_nothing_to_decide(tmp_path, tiny):
    write_scene_folder(Scene(Observation(paint(SHAPE))), tmp_path / "empty")
    said = told(tmp_path / "empty", "--request", "the red one", *tiny, code=2)
    assert said["objects"] == [] and "no object" in said["question"]


def test_options_of_folders_do_not_go_with_scene_files():
    for option in (
        ("--point", "3,4"),
        ("--request", "the mug"),
        ("--segmenter", "depth"),
        ("--model", "none"),
    ):
        with pytest.raises(CporError, match="is a scene file, which names its target"):
            decide("examples/scenes/heap.json", *option)


def without_the_extra(*arguments):
    code = "import sys; sys.modules['onnxruntime'] = None; from cpor.cli.app import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, "decide", *arguments],
        capture_output=True,
        text=True,
        env=os.environ,
        check=False,
    )


def test_without_the_extra_it_says_what_to_install(folder):
    ran = without_the_extra(folder, "--target", "1")
    assert ran.returncode == 2 and len(ran.stderr.splitlines()) == 1
    assert "cpor-grasp[perception]" in ran.stderr and "pip install" in ran.stderr


def test_without_the_extra_given_masks_and_depth_decide_alone(tmp_path):
    write_scene_folder(with_masks(), tmp_path / "masks")
    ran = without_the_extra(tmp_path / "masks", "--target", "1", "--json")
    assert ran.returncode == 0, ran.stderr
    assert any("geometry decides alone" in note for note in json.loads(ran.stdout)["notes"])


def test_a_question_is_answered_on_the_command_line(folder, tiny):
    asks = decide(folder, "--request", "the object", *tiny)
    assert asks.exit_code == 2
    ids = [o["id"] for o in told(folder, "--request", "the object", *tiny, code=2)["candidates"]]
    said = told(folder, "--request", "the object", "--tell", str(ids[0]), *tiny)
    assert said["target"] == ids[0] and said["action"] is not None
    other = next(o["id"] for o in said["objects"] if o["id"] != ids[0])
    lies = told(folder, "--target", str(ids[0]), "--tell", f"{other} on {ids[0]}", *tiny)
    pairs = {(each["blocked"], each["blocker"]): each["p"] for each in lies["relations"]}
    assert pairs[ids[0], other] == 1.0
    with pytest.raises(CporError, match="I do not understand the reply"):
        decide(folder, "--target", str(ids[0]), "--tell", "perhaps", *tiny)


def test_a_session_goes_on_from_earlier_calls_and_belongs_to_one_picture(folder, tiny, tmp_path):
    session = tmp_path / "session.json"
    keeps = (*tiny, "--session", session)
    asks = decide(folder, "--request", "the object", *keeps)
    assert asks.exit_code == 2 and "Reply with --tell " in asks.output
    first, second = (o["id"] for o in told(folder, *keeps, code=2)["candidates"][:2])
    assert told(folder, "--tell", first, *keeps)["target"] == first
    lies = told(folder, "--tell", f"{second} on {first}", *keeps)
    assert told(folder, *keeps)["scores"] == lies["scores"] and lies["target"] == first
    assert json.loads(session.read_text())["replies"] == [str(first), f"{second} on {first}"]
    with pytest.raises(CporError, match="I do not understand the reply"):
        decide(folder, "--tell", "perhaps", *keeps)
    assert told(folder, "--target", second, *keeps)["target"] == second  # another object: anew
    write_scene_folder(Scene(frame("red", "green")), tmp_path / "other")
    with pytest.raises(CporError, match="is about another picture; delete it"):
        decide(tmp_path / "other", *keeps)
    session.write_text('{"frame": 3}')
    with pytest.raises(CporError, match="is no session"):
        decide(folder, *keeps)


def test_all_frames_of_a_folder_are_decided_and_listed(tiny, tmp_path):
    for k, colours in enumerate((("red", "green"), ("green", "blue"), ("red", "blue"))):
        Image.fromarray(frame(*colours).rgb).save(tmp_path / f"color_{k}.png")
        Image.fromarray(np.rint(frame(*colours).depth * 1000).astype(np.uint16)).save(
            tmp_path / f"depth_{k}.png"
        )
    (tmp_path / "depth_2.png").write_bytes(b"no picture")
    out = tmp_path / "out"
    ran = decide(tmp_path, "--request", "the red one", "--all", out, *tiny)
    assert ran.exit_code == 1 and "3 frames: " in ran.output and "1 error" in ran.output
    rows = list(csv.DictReader((out / "decisions.csv").read_text().splitlines()))
    assert [row["frame"] for row in rows] == ["0000", "0001", "0002"]
    assert rows[0]["action"] in ("grasp", "remove", "defer") and rows[0]["target"]
    assert (rows[1]["action"], rows[1]["target"]) == ("which", "") and rows[1]["question"].endswith("?")
    assert rows[2]["action"] == "error" and "depth_2.png" in rows[2]["error"]
    for name in ("0000", "0001"):
        assert {"decision.png", "decision.json", "decision.html"} == {
            path.name for path in (out / name).iterdir()
        }
    assert not (out / "0002").exists()


@pytest.mark.parametrize("option", [("--tell", "yes"), ("--out", "x"), ("--why",), ("--session", "x")])
def test_options_about_one_frame_are_refused_where_many_are_decided(tmp_path, tiny, option):
    for many in (("--follow",), ("--all", tmp_path / "out")):
        with pytest.raises(CporError, match="are about one frame"):
            decide(tmp_path, *many, *option, *tiny)
    with pytest.raises(CporError, match="the number of an object is of one frame"):
        decide(tmp_path, "--all", tmp_path / "out", "--target", 1, *tiny)
