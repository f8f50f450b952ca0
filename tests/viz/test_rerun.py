"""Recordings for the Rerun viewer: read back, they hold what was seen, decided and done."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest
from support.box_table import BoxTable, TableMasks
from support.browser import SCENES
from support.plain_system import plain_system

from cpor.apps.demo import DemoShow
from cpor.cli.app import main
from cpor.decision import Grasp
from cpor.errors import InvalidSettingError, MissingExtraError
from cpor.io.scene_folder import read_scene_folder
from cpor.pipeline import UNSEEN, Pipeline
from cpor.robot.loop import retrieve
from cpor.robot.run_folder import read_run
from cpor.scene import BlockedBy, Observation, Scene
from cpor.system import System
from cpor.viz.overlay import Marks, relations_to_draw
from cpor.viz.rerun_scene import MOST_POINTS, check_recording, log_cycle, log_end, open_recording, write_scene
from cpor.viz.words import NOBODY_SEGMENTED, namer

chunks = pytest.importorskip("rerun", reason="needs the extra viz").chunk
SCENE = SCENES / "scene_00003"


class Recording:
    """A file read back: for each entity its rows, and the cycle of each."""

    def __init__(self, path):
        self.rows = {}
        for chunk in chunks.RrdReader(path).stream().to_chunks():
            if chunk.entity_path.startswith("/__"):
                continue
            assert "cycle" in chunk.timeline_names
            batch = chunk.to_record_batch()
            own = [name for name in batch.schema.names if name == "cycle" or ":" in name]
            for row in batch.select(own).to_pylist():
                self.rows.setdefault(chunk.entity_path, []).append(row)
        for rows in self.rows.values():
            rows.sort(key=lambda row: row["cycle"])

    def values(self, entity, component):
        return [row[component] for row in self.rows[entity] if row.get(component) is not None]

    def only(self, entity, component):
        (value,) = self.values(entity, component)
        return value


def run_cpor(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["cpor", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    return capsys.readouterr().out


def test_a_decided_scene_is_all_there(tmp_path, monkeypatch, capsys, evidence):
    file = tmp_path / "scene.rrd"
    told = json.loads(
        run_cpor(monkeypatch, capsys, "decide", SCENE, "--target", 6, "--json", "--rerun", file)
    )
    scene, it = read_scene_folder(SCENE), Recording(file)
    frame = scene.observation
    height, width = frame.shape
    matrix = np.array(it.only("/world/camera", "Pinhole:image_from_camera")[0]).reshape(3, 3).T
    k = frame.camera.intrinsics
    assert np.allclose(matrix, [[k.fx, 0, k.cx], [0, k.fy, k.cy], [0, 0, 1]], rtol=1e-6)
    assert it.only("/world/camera", "Pinhole:resolution")[0] == [width, height]
    depth = np.frombuffer(bytes(it.only("/world/camera/depth", "DepthImage:buffer")[0]), np.uint16)
    metres = depth.reshape(height, width) / it.only("/world/camera/depth", "DepthImage:meter")[0]
    seen = np.isfinite(frame.depth)
    assert np.allclose(metres[seen], frame.depth[seen], atol=1e-6) and not metres[~seen].any()
    ids = np.frombuffer(
        bytes(it.only("/world/camera/segmentation", "SegmentationImage:buffer")[0]), np.uint16
    )
    assert np.array_equal(ids.reshape(height, width), scene.visible_ids)
    points = np.array(it.only("/world/points", "Points3D:positions"))
    assert 1000 < len(points) <= MOST_POINTS
    T = frame.camera.T_world_camera
    v, u = next((v, u) for v, u in zip(*np.nonzero(seen), strict=True) if v and u)
    z = float(frame.depth[v, u])
    world = T[:3, :3] @ ((u - k.cx) / k.fx * z, (v - k.cy) / k.fy * z, z) + T[:3, 3]
    assert np.linalg.norm(points - world, axis=1).min() < 5e-3
    strips = it.only("/world/camera/outlines", "LineStrips2D:strips")
    assert len(strips) >= len(scene.objects) and all(strip[0] == strip[-1] for strip in strips)
    assert it.only("/decision/graph", "GraphNodes:node_ids") == [str(o.id) for o in scene.objects]
    system = System()
    posterior = system.decide(system.look(SCENE), 6).posterior
    believed = [r for r in posterior.relations() if r.blocker != UNSEEN]
    likely = {(str(r.blocker), str(r.blocked)) for r in believed if r.p is None or r.p >= 0.3}
    edges = it.only("/decision/graph", "GraphEdges:edges")
    assert {(e["first"], e["second"]) for e in edges} == likely
    for obj, score in told["scores"].items():
        assert it.only(f"/score/object_{obj}", "Scalars:scalars") == [pytest.approx(score)]
    headline = it.only("/decision/words", "TextDocument:text")[0].splitlines()[0]
    assert headline.startswith(
        {"grasp": "# Grasp", "remove": "# Remove", "defer": "# Do not act"}[told["action"]["type"]]
    )
    assert not list(tmp_path.glob(".*")), "nothing is left beside it"
    evidence("serves", "Rerun file of a scene: entities", "all", len(it.rows))


def test_what_nobody_segmented_has_words_and_no_arrow(tmp_path):
    scene, pipeline = read_scene_folder(SCENE), Pipeline()
    beliefs = pipeline.believe(scene)
    posterior = pipeline.posterior(replace(beliefs, p_unseen=np.full(len(scene.ids), 0.4)), 6)
    decision = pipeline.decide(posterior)
    marks = Marks(6, decision.action, relations_to_draw(posterior))
    assert BlockedBy(6, UNSEEN) in marks.p_obstructs
    write_scene(tmp_path / "scene.rrd", scene, marks, decision)
    it = Recording(tmp_path / "scene.rrd")
    assert str(UNSEEN) not in {e["first"] for e in it.only("/decision/graph", "GraphEdges:edges")}
    assert NOBODY_SEGMENTED in it.only("/decision/words", "TextDocument:text")[0]


def test_found_objects_without_a_decision(tmp_path, monkeypatch, capsys):
    file = tmp_path / "found.rrd"
    run_cpor(monkeypatch, capsys, "perceive", SCENE, "--out", tmp_path / "found", "--rerun", file)
    it = Recording(file)
    assert "/world/camera/outlines" in it.rows and "/decision/words" not in it.rows


def test_a_photograph_alone_has_no_points_and_no_camera(tmp_path):
    photograph = Scene(Observation(np.full((6, 8, 3), 90, np.uint8)))
    write_scene(tmp_path / "bare.rrd", photograph)
    assert set(Recording(tmp_path / "bare.rrd").rows) == {"/world/camera/colour"}


def test_a_run_lies_along_the_cycles(tmp_path):
    table, file = BoxTable(misses={2: 1}), tmp_path / "run.rrd"
    with open_recording(file, "run") as recording:
        result = retrieve(
            table, plain_system(TableMasks(table)), 1, on_cycle=lambda cycle: log_cycle(recording, cycle)
        )
        log_end(recording, "the red box", result.ended, result.detail)
    it = Recording(file)
    words = it.rows["/decision/words"]
    assert [row["cycle"] for row in words] == list(range(len(result.cycles)))
    for row, cycle in zip(words, result.cycles, strict=True):
        verb = "Grasp" if isinstance(cycle.action, Grasp) else "Remove"
        assert row["TextDocument:text"][0].startswith(f"# {verb} {namer(cycle.scene)(cycle.action.obj)}")
    assert "The fingers closed on nothing" in words[1]["TextDocument:text"][0]
    log = [text for value in it.values("/log", "TextLog:text") for text in value]
    assert log[-1].startswith("The red box was retrieved")
    scores = it.rows["/score/object_1"]
    assert [row["Scalars:scalars"][0] for row in scores] == [
        pytest.approx(c.decision.scores[1]) for c in result.cycles
    ]


@pytest.mark.slow
def test_a_demo_is_recorded_and_told_though_its_film_was_interrupted(tmp_path, monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("cpor.sim.arm.film.Film.develop", interrupted)
    file = tmp_path / "demo.rrd"
    with pytest.raises(KeyboardInterrupt):
        DemoShow(tmp_path / "demo", quiet=True, rerun=file).run(4, "easy", eyes="truth")
    page = (tmp_path / "demo" / "story.html").read_text()
    assert "How it ended" in page and "The arm at work" not in page
    it, run = Recording(file), read_run(tmp_path / "demo" / "run")
    assert len(it.rows["/decision/words"]) == len(run.cycles) > 0
    assert (
        "In truth, which the robot does not see, this was right."
        in it.rows["/decision/words"][-1]["TextDocument:text"][0]
    )
    log = [text for value in it.values("/log", "TextLog:text") for text in value]
    assert ("was retrieved" in log[-1]) == (run.ended == "retrieved")


def test_what_was_recorded_before_an_error_is_kept(tmp_path):
    table, file = BoxTable(breaks_on={2}), tmp_path / "broken.rrd"
    with pytest.raises(ZeroDivisionError), open_recording(file, "run") as recording:
        retrieve(
            table, plain_system(TableMasks(table)), 1, on_cycle=lambda cycle: log_cycle(recording, cycle)
        )
    assert [row["cycle"] for row in Recording(file).rows["/decision/words"]] == [0, 1]


def test_what_cannot_be_written_is_said_before_any_work(tmp_path, monkeypatch):
    with pytest.raises(InvalidSettingError, match=r"ends with \.rrd"):
        check_recording(tmp_path / "scene.txt")
    with pytest.raises(InvalidSettingError, match="there is no folder"):
        check_recording(tmp_path / "none" / "scene.rrd")
    (tmp_path / "folder.rrd").mkdir()
    with pytest.raises(InvalidSettingError, match="is a folder"):
        DemoShow(tmp_path / "demo", rerun=tmp_path / "folder.rrd")
    monkeypatch.setitem(sys.modules, "rerun", None)  # as if it were not installed
    with pytest.raises(MissingExtraError, match=r"pip install 'cpor-grasp\[viz\]'"):
        check_recording(tmp_path / "scene.rrd")


def test_a_scene_file_shows_nothing(tmp_path, monkeypatch, capsys):
    file = tmp_path / "scene.json"
    file.write_text("{}")
    monkeypatch.setattr(sys, "argv", ["cpor", "decide", str(file), "--rerun", str(tmp_path / "x.rrd")])
    with pytest.raises(SystemExit):
        main()
    said = capsys.readouterr().err
    assert "is a scene file" in said and "drop the options about pictures" in said
