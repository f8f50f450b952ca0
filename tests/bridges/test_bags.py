"""Frames of bags equal the frames that were recorded, whatever their form; a run as MCAP is read back."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from mcap.reader import make_reader
from mcap_ros2.decoder import DecoderFactory
from pyarrow import parquet
from rosbags.rosbag2 import CompressionMode, StoragePlugin
from rosbags.typesys import Stores
from support.bags import (
    COLOR,
    DEPTH,
    FIRST_NS,
    PERIOD,
    SHAPE,
    BagMaker,
    K,
    damaged_bags,
    depth_png,
    jpeg,
    plain,
    recorded,
)
from support.box_table import BoxTable, TableMasks
from support.plain_system import plain_system
from support.sizes import sized
from typer.testing import CliRunner

from cpor.bridges.bag_cameras import BagError
from cpor.bridges.bags import is_bag, open_bag
from cpor.bridges.lerobot import write_lerobot
from cpor.bridges.mcap_run import write_run_mcap
from cpor.cli.app import app
from cpor.io.depth import DepthCamera
from cpor.io.frame_files import make_observation
from cpor.io.images import DEPTH as GREY_DEPTH
from cpor.io.images import decode_grey, decode_photograph, encode_png
from cpor.io.scene_folder import write_scene_folder
from cpor.robot.loop import retrieve
from cpor.robot.run_folder import RunFolder, read_run
from cpor.scene import Camera, Intrinsics, Scene


def expected(k, steps=None, unit=0.001, rgb=None, camera=True):
    colours, own = recorded(k)
    made = Camera(K if camera else None)
    return make_observation(colours if rgb is None else rgb, own if steps is None else steps, made, unit)[0]


def same(seen, wanted):
    assert np.array_equal(seen.rgb, wanted.rgb)
    assert np.array_equal(seen.depth, wanted.depth, equal_nan=True)
    assert seen.camera == wanted.camera


def every_variant(root):
    """`(name, bag, index of the frame, the frame as it was recorded)`."""
    bag = plain(BagMaker(root / "sqlite", plugin=StoragePlugin.SQLITE3)).write()
    yield "SQLite, Humble, rgb8, 16UC1", bag, 1, expected(1)
    bag = plain(BagMaker(root / "jazzy", Stores.ROS2_JAZZY), encoding="bgr8", pad=7).write()
    yield "MCAP, Jazzy, bgr8, padded rows", bag, 1, expected(1)
    bag = plain(BagMaker(root / "zstd", compress=CompressionMode.MESSAGE, plugin=StoragePlugin.SQLITE3))
    yield "messages compressed by zstd", bag.write(), 2, expected(2)
    yield "one MCAP file without its folder", next((root / "jazzy").glob("*.mcap")), 2, expected(2)

    maker = BagMaker(root / "float")
    for k in range(2):
        rgb, steps = recorded(k)
        bgra = np.dstack([rgb[..., ::-1], np.full(SHAPE, 255, np.uint8)])
        metres = np.where(steps == 0, np.nan, steps / 1000).astype(np.float32)
        maker.image(COLOR, bgra, "bgra8", FIRST_NS + k * PERIOD)
        maker.image(DEPTH, metres, "32FC1", FIRST_NS + k * PERIOD, big=True)
        maker.info("/camera/color/camera_info", SHAPE, K, FIRST_NS)
    yield "bgra8, 32FC1, big-endian", maker.write(), 1, expected(1, metres, 1.0)

    maker = BagMaker(root / "png")
    for k in range(2):
        rgb, steps = recorded(k)
        maker.compressed(f"{COLOR}/compressed", encode_png(rgb), "rgb8; png compressed bgr8", FIRST_NS + k)
        packed = depth_png(steps, "16UC1")
        maker.compressed(f"{DEPTH}/compressedDepth", packed, "16UC1; compressedDepth png", FIRST_NS + k)
        maker.info("/camera/color/camera_info", SHAPE, K, FIRST_NS)
    yield "PNG and compressedDepth", maker.write(), 0, expected(0)

    maker = BagMaker(root / "jpeg")
    rgb, steps = recorded(0)
    metres = np.where(steps == 0, np.nan, steps / 1000).astype(np.float32)
    maker.compressed(f"{COLOR}/compressed", jpeg(rgb), "rgb8; jpeg compressed bgr8", FIRST_NS)
    packed = depth_png(metres, "32FC1")
    maker.compressed(f"{DEPTH}/compressedDepth", packed, "32FC1; compressedDepth png", FIRST_NS)
    maker.info("/camera/color/camera_info", SHAPE, K, FIRST_NS)
    lossy = decode_photograph(jpeg(rgb), "jpeg")[0]
    sent = expected(0, metres, 1.0, lossy)
    yield "JPEG and 32FC1 compressedDepth (to 1 mm)", maker.write(), 0, sent

    maker, far = BagMaker(root / "unaligned"), (48, 64)
    half, T = Intrinsics(75.0, 75.0, 31.75, 23.75), np.eye(4)
    T[0, 3] = 0.015
    rgb, steps = recorded(0)
    for k in range(2):
        time_ns = FIRST_NS + k * PERIOD
        maker.image(COLOR, rgb, "rgb8", time_ns, frame="color_optical")
        maker.image("/camera/depth/image_rect_raw", steps[::2, ::2], "16UC1", time_ns, frame="depth_optical")
        maker.info("/camera/color/camera_info", SHAPE, K, time_ns)
        maker.info("/camera/depth/camera_info", far, half, time_ns)
    links = [("base", "color_optical", (0.1, 0.0, 0.0)), ("base", "depth", (0.1, 0.0, 0.0))]
    maker.tf_static([*links, ("depth", "depth_optical", (0.015, 0.0, 0.0))], FIRST_NS)
    sent, _ = make_observation(rgb, steps[::2, ::2], Camera(K), 0.001, DepthCamera(half, T))
    assert np.isfinite(sent.depth).mean() > 0.9
    yield "unaligned depth of half the size", maker.write(), 1, sent

    yield "no camera info", plain(BagMaker(root / "bare"), info=False).write(), 1, expected(1, camera=False)

    def jumps(k):
        return FIRST_NS + (k % 2) * PERIOD  # the camera's clock starts again at every second frame

    yield "a clock that jumps", plain(BagMaker(root / "jump"), 4, stamp=jumps).write(), 3, expected(3)

    maker = plain(BagMaker(root / "drops"), 6)
    lost = {(DEPTH, 1), (DEPTH, 2), (COLOR, 4)}
    maker.messages = [m for m in maker.messages if (m[1], (m[0] - FIRST_NS) // PERIOD) not in lost]
    yield "dropped frames", maker.write(), 1, expected(3)

    yield "ROS 1, lz4", plain(BagMaker(root / "one.bag", ros1=True)).write(), 2, expected(2)

    maker = BagMaker(root / "realsense.bag", ros1=True)
    deep, colour = "/device_0/sensor_0/Depth_0", "/device_0/sensor_1/Color_0"
    for k in range(2):
        rgb, steps = recorded(k)
        maker.image(f"{colour}/image/data", rgb, "rgb8", FIRST_NS + k * PERIOD, frame="0")
        maker.image(f"{deep}/image/data", steps * 4, "mono16", FIRST_NS + k * PERIOD, frame="0")
    for stream in (deep, colour):
        maker.info(f"{stream}/info/camera_info", SHAPE, K, FIRST_NS)
        maker.add(f"{stream}/tf/0", "geometry_msgs/msg/Transform", maker.transform((0, 0, 0)), FIRST_NS)
    unit = maker.kind["std_msgs/msg/Float32"](np.float32(0.00025))
    maker.add("/device_0/sensor_0/option/Depth Units/value", "std_msgs/msg/Float32", unit, FIRST_NS)
    yield "RealSense", maker.write(), 1, expected(1, recorded(1)[1] * 4, 0.00025)


def test_a_frame_of_a_bag_is_the_frame_that_was_recorded(tmp_path, evidence):
    names = []
    for name, path, index, wanted in every_variant(tmp_path):
        assert is_bag(path), name
        bag = open_bag(path)
        seen = bag.read(bag.frames[index])
        if "to 1 mm" in name:
            off = np.abs(seen.depth - wanted.depth)
            assert np.nanmax(off) < 1e-3 and np.array_equal(np.isnan(seen.depth), np.isnan(wanted.depth))
            seen = make_observation(seen.rgb, wanted.depth, Camera(K), 1.0)[0]
        same(seen, wanted)
        assert seen.time_s is None or seen.time_s > 0
        names.append(name)
    drops = open_bag(tmp_path / "drops")
    assert (drops.dropped, len(drops.frames)) == (2, 3) and "left out" in drops.notes[-1]
    assert "not known" in open_bag(tmp_path / "bare").notes[0]
    evidence(
        "serves",
        "forms of bags whose frames equal those recorded",
        "12 of 12",
        f"{len(names)} of {len(names)}",
    )
    assert len(names) >= 12


def test_the_decision_from_a_bag_is_that_of_the_frame(tmp_path):
    bag = plain(BagMaker(tmp_path / "bag")).write()
    write_scene_folder(Scene(expected(1)), tmp_path / "scene")
    common = ["--point", "40,40", "--segmenter", "depth", "--scorer", "none", "--json"]

    def ask(*source):
        ran = CliRunner().invoke(app, ["decide", *map(str, source), *common])
        assert ran.exit_code == 0, ran.output
        return json.loads(ran.stdout)

    told = ask(bag, "--at", PERIOD * 1e-9, "--color", COLOR)
    given = ask(tmp_path / "scene")
    for each in ("action", "target", "scores", "relations", "mode", "tau", "promise", "objects"):
        assert told[each] == given[each], each
    assert told["notes"][0].startswith("Frame 1 of 3")
    out = tmp_path / "run"
    ran = CliRunner().invoke(
        app, ["run", str(bag), "--out", str(out), "--segmenter", "depth", "--scorer", "none", "--json"]
    )
    assert ran.exit_code == 0 and json.loads(ran.stdout)["n_cases"] == 3, ran.output


def test_what_a_bag_lacks_is_said(tmp_path):
    maker = plain(BagMaker(tmp_path / "two"))
    maker.image("/other/color/image_raw", recorded(0)[0], "rgb8", FIRST_NS)
    with pytest.raises(BagError, match="choose one with --color: /camera"):
        open_bag(maker.write())
    with pytest.raises(BagError, match="is not in the bag; color topics: /camera"):
        open_bag(tmp_path / "two", "/nowhere")
    assert open_bag(tmp_path / "two", COLOR).depth == DEPTH
    apart = BagMaker(tmp_path / "apart")
    apart.image(COLOR, recorded(0)[0], "rgb8", FIRST_NS, frame="a")
    apart.image("/camera/depth/image", recorded(0)[1], "16UC1", FIRST_NS, frame="b")
    with pytest.raises(BagError, match=r"lacks .*camera info.*tf_static from b to a; record aligned depth"):
        open_bag(apart.write())
    masks = BagMaker(tmp_path / "masks")  # ids of objects are no depth
    masks.image(COLOR, recorded(0)[0], "rgb8", FIRST_NS)
    masks.image("/masks", recorded(0)[1], "mono16", FIRST_NS)
    assert open_bag(masks.write()).depth == ""
    with pytest.raises(BagError, match="is not there"):
        open_bag(tmp_path / "nothing.bag")


def test_damage_is_one_clear_error(tmp_path, rng, evidence):
    """Cut short or overwritten at random: our error, or frames; never another error."""
    refused, count = 0, sized(45, 300)
    for broken in damaged_bags(tmp_path, rng, count):
        try:
            bag = open_bag(broken)
            for frame in bag.frames:
                bag.read(frame)
        except BagError:
            refused += 1
    assert refused > 20 * count // 45
    said = f"{refused} refused in a sentence, {count - refused} read, 0 other errors"
    evidence("serves", f"{count} damaged bags (MCAP, SQLite, ROS 1)", "one clear error each", said)
    ran = CliRunner().invoke(app, ["decide", str(broken), "--target", "1"])
    assert isinstance(ran.exception, BagError) and str(broken) in str(ran.exception)


def test_a_run_as_mcap_and_as_lerobot_is_read_back(tmp_path):
    robot = BoxTable()
    folder = RunFolder(tmp_path / "run")
    retrieve(robot, plain_system(TableMasks(robot)), 1, record=folder)
    run = read_run(tmp_path / "run")
    out = tmp_path / "run.mcap"
    ran = CliRunner().invoke(app, ["export", str(tmp_path / "run"), "--mcap", str(out)])
    assert ran.exit_code == 0, ran.output
    bag = open_bag(out)
    assert len(bag.frames) == len(run.cycles) + (run.final_scene is not None)
    for cycle, frame in zip(run.cycles, bag.frames, strict=False):
        seen = cycle.scene.observation
        same(bag.read(frame), replace(seen, camera=replace(seen.camera, T_world_camera=None)))
    with out.open("rb") as file:  # a reader that is not ours
        read = list(make_reader(file, decoder_factories=[DecoderFactory()]).iter_decoded_messages())
    said = [message.data for _, channel, _, message in read if channel.topic == "/cpor/decision"]
    assert [json.loads(each)["target"] for each in said] == [cycle.target for cycle in run.cycles]
    ids = [message for _, channel, _, message in read if channel.topic == "/cpor/masks"]
    shown = np.frombuffer(bytes(ids[0].data), np.uint16).reshape(ids[0].height, ids[0].width)
    assert np.array_equal(shown, run.cycles[0].scene.visible_ids)
    made = tmp_path / "set"
    ran = CliRunner().invoke(app, ["export", *[str(tmp_path / "run")] * 2, "--lerobot", str(made)])
    assert ran.exit_code == 0, ran.output
    info = json.loads((made / "meta" / "info.json").read_text())
    assert info["total_episodes"] == 2 and info["total_frames"] == 2 * len(run.cycles)
    table = parquet.read_table(made / info["data_path"].format(chunk_index=0, file_index=0))
    assert set(table.column_names) == set(info["features"]) and len(table) == info["total_frames"]
    assert [row[0] for row in table["action"].to_pylist()] == [1.0, 1.0, 0.0] * 2  # remove, remove, grasp
    seen = run.cycles[0].scene.observation
    picture = table["observation.images.camera"][3].as_py()["bytes"]  # the first of the second episode
    assert np.array_equal(decode_photograph(picture, "first")[0], seen.rgb)
    deep = decode_grey(table["observation.images.depth"][3].as_py()["bytes"], "depth", GREY_DEPTH)
    assert np.array_equal(deep, np.rint(np.nan_to_num(seen.depth) * 1000.0))
    rows = parquet.read_table(made / "meta" / "episodes" / "chunk-000" / "file-000.parquet").to_pylist()
    assert [row["dataset_from_index"] for row in rows] == [0, len(run.cycles)]
    stats = json.loads((made / "meta" / "stats.json").read_text())
    actions = np.array(table["action"].to_pylist())
    assert np.allclose(stats["action"]["std"], actions.std(axis=0)) and stats["action"]["count"] == [
        len(table)
    ]
    assert stats["observation.images.depth"]["max"] == [[[float(deep.max())]]]
    with pytest.raises(ValueError, match=r"ends with \.mcap"):
        write_run_mcap(run, tmp_path / "run.bag")


def test_lerobot_doctor_finds_no_error_in_an_exported_run(tmp_path):
    pytest.importorskip("lerobot_doctor", reason="pip install lerobot-doctor; it is in no extra")
    robot = BoxTable()
    retrieve(robot, plain_system(TableMasks(robot)), 1, record=RunFolder(tmp_path / "run"))
    write_lerobot([read_run(tmp_path / "run")] * 3, tmp_path / "set")
    code = "from lerobot_doctor.cli import main; main()"
    command = [sys.executable, "-c", code, "check", str(tmp_path / "set"), "--json"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    counts = json.loads(ran.stdout)["summary"]
    assert counts["FAIL"] == 0 and counts["PASS"] > 0
