"""One frame in fifty forms reads as one frame; broken ones give one error that says what to do."""

import json

import numpy as np
import pytest
from PIL import Image
from support.broken_forms import REFUSED
from support.data import DATA
from support.input_forms import EXACT, LOSSY, Shot, files, picture, png, steps

from cpor.errors import CporError, InvalidSceneError, SceneFileError
from cpor.gate.frame import check_frame
from cpor.io.depth import DepthCamera, align_depth
from cpor.io.frame_files import make_observation, read_input
from cpor.io.scene_folder import write_scene_folder
from cpor.scene import Intrinsics


@pytest.fixture(scope="module")
def shot():
    rng = np.random.default_rng(3)
    rgb = rng.integers(60, 200, (96, 128, 3), dtype=np.uint8)
    mm = (700 + rng.integers(0, 60, (96, 128))).astype(np.uint16)
    mm[10:20, 30:50] = 0
    return Shot(rgb, mm, (110.0, 110.0, 63.5, 47.5))


@pytest.mark.parametrize("form", EXACT)
def test_forms_of_one_frame_read_the_same(tmp_path, shot, form):
    seen = read_input(*EXACT[form](tmp_path, shot))[0].observation
    assert np.array_equal(seen.rgb, shot.rgb)
    assert np.array_equal(np.rint(np.nan_to_num(seen.depth) * 1000), shot.mm)
    if (known := seen.camera.intrinsics) is not None:
        assert np.allclose(known, shot.k)


@pytest.mark.parametrize("form", LOSSY)
def test_forms_that_lose_a_little_read_nearly_the_same(tmp_path, shot, form):
    seen = read_input(*LOSSY[form](tmp_path, shot))[0].observation
    assert np.abs(seen.rgb.astype(int) - shot.rgb).mean() < 30  # noise is the worst there is for JPEG
    both = np.isfinite(seen.depth) & (shot.mm > 0)
    assert both.mean() > 0.9 and np.abs(seen.depth[both] - shot.metres[both]).mean() < 0.02


@pytest.mark.parametrize("form", REFUSED)
def test_broken_forms_are_refused_with_a_remedy(tmp_path, shot, form):
    arguments = REFUSED[form](tmp_path, shot)
    with pytest.raises(CporError) as refused:
        read_input(*arguments)
    said = str(refused.value)
    assert ";" in said or "should be" in said, said
    assert "\n" not in said and len(said) < 500


def test_a_frame_of_a_folder_is_chosen_by_number(tmp_path, shot):
    EXACT["folder color_0000"](tmp_path, shot)
    (tmp_path / "depth_0002.png").unlink()
    assert "has 2 frames; this is 0, color_0000.png; --frame 0 to 1" in read_input(tmp_path)[1][0]
    assert "this is 1, color_0001.png." in read_input(tmp_path, frame=1)[1][0]
    with pytest.raises(SceneFileError, match="frames 0 to 1, not 7"):
        read_input(tmp_path, frame=7)


def test_a_folder_of_scenes_names_one_of_them(tmp_path, shot):
    for name in ("a", "b"):
        EXACT["folder rgb, depth"](tmp_path / name, shot)
    with pytest.raises(SceneFileError, match=r"2 folders that do; give one of them, such as .*/a"):
        read_input(tmp_path)


def test_what_a_user_says_of_the_unit_counts_most(tmp_path, shot):
    seen, notes = read_input(*EXACT["camera.json beside"](tmp_path, shot), depth_unit_m=0.0005)
    assert np.nanmedian(seen.observation.depth) == pytest.approx(0.0005 * np.median(shot.mm[shot.mm > 0]))
    assert not notes


@pytest.mark.parametrize(("scale", "unit"), [(0.001, 0.001), (0.1, 0.0001), (1.0, 0.001), (5000.0, 0.0002)])
def test_a_depth_scale_of_others_is_understood(tmp_path, shot, scale, unit):
    arguments = files(png, steps)(tmp_path, shot)
    (tmp_path / "camera.json").write_text(f'{{"depth_scale": {scale}}}')
    assert f"One step of depth is {unit:g} m, by camera.json." in read_input(*arguments)[1]


def test_a_unit_that_may_be_another_one_is_doubted(tmp_path, shot):
    """Steps of 0.2 mm look like steps of 0.25 mm."""
    for name in ("a.png", "rgb.png"):
        picture(tmp_path / name, shot.rgb)
    depth = picture(tmp_path / "depth.png", shot.mm * 5)
    for source in ((tmp_path / "a.png", depth), (tmp_path,)):
        checks = {check.name: check for check in check_frame(read_input(*source)[0].observation)}
        assert checks["depth_unit"].state == "doubt" and "--depth-unit-m" in checks["depth_unit"].remedy
    write_scene_folder(read_input(tmp_path)[0], tmp_path / "kept")  # what was guessed once stays a guess
    kept = check_frame(read_input(tmp_path / "kept")[0].observation)
    assert "depth_unit" in {check.name for check in kept}
    sure = read_input(tmp_path / "kept", depth_unit_m=0.0002)[0].observation
    assert "depth_unit" not in {check.name for check in check_frame(sure)}
    sure = read_input(tmp_path / "a.png", depth, depth_unit_m=0.0002)[0].observation
    assert "depth_unit" not in {check.name for check in check_frame(sure)}


@pytest.mark.parametrize("shape", [(48, 64), (192, 256), (32, 43)])
def test_depth_of_another_size_but_the_same_aspect_is_taken(tmp_path, shot, shape):
    small = (600 + np.arange(shape[0] * shape[1]).reshape(shape) % 200).astype(np.uint16)
    Image.fromarray(shot.rgb).save(tmp_path / "rgb.png")
    np.save(tmp_path / "depth.npy", small[..., None])
    scene, notes = read_input(tmp_path / "rgb.png", tmp_path / "depth.npy", depth_unit_m=0.001)
    assert any("each pixel takes the nearest reading" in note for note in notes)
    depth = scene.observation.depth
    for row, col in ((0, 0), (95, 127), (40, 71), (13, 99)):
        at = int((row + 0.5) * shape[0] / 96), int((col + 0.5) * shape[1] / 128)
        assert depth[row, col] == pytest.approx(small[at] / 1000)
    assert set(np.unique(np.rint(depth * 1000))) <= set(np.unique(small)), "readings are never mixed"


@pytest.mark.parametrize("shape", [(48, 80), (96, 120), (128, 96), (9, 12), (4, 5)])
def test_depth_of_another_aspect_is_refused(shot, shape):
    with pytest.raises(InvalidSceneError, match="register depth"):
        make_observation(shot.rgb, np.full(shape, 700, np.uint16), depth_unit_m=0.001)


def test_depth_of_another_camera_lands_where_the_photograph_shows_it():
    """A plane and a nearer square, seen from 6 cm to the left, at half the size."""
    depth = np.full((60, 80), 1.0, np.float32)
    depth[20:30, 30:45] = 0.5
    pose = np.eye(4)
    pose[0, 3] = 0.06  # the depth camera stands to the right of colour
    sensor = DepthCamera(Intrinsics(100.0, 100.0, 39.5, 29.5), pose)
    colour = Intrinsics(200.0, 200.0, 79.5, 59.5)
    out = align_depth(depth, sensor, colour, (120, 160))
    # Twice the pixels, and 200 * 0.06 / z to the right: 12 at one metre, 24 at half.
    near = np.argwhere(out == 0.5)
    assert near.min(axis=0).tolist() == [40, 84] and near.max(axis=0).tolist() == [59, 113]
    assert np.isnan(out[:, :11]).all()  # nobody looked there
    beside = out[45, 72:84]
    assert np.isnan(beside).all()  # in the shadow of the square
    assert (out[70, 12:] == 1.0).all()
    with pytest.raises(InvalidSceneError, match="not that of the photograph"):
        align_depth(depth, sensor, None, (120, 160))


def test_camera_json_may_describe_the_depth_camera(tmp_path, shot):
    for name in ("rgb.png", "a.png"):
        folder = tmp_path / name[0]
        picture(folder / name, shot.rgb)
        picture(folder / "depth.png", np.ascontiguousarray(shot.mm[::2, ::2]))
        fx, fy, cx, cy = shot.k
        own = {"fx": fx / 2, "fy": fy / 2, "cx": cx / 2, "cy": cy / 2, "T_colour_depth": np.eye(4).tolist()}
        known = {"fx": fx, "fy": fy, "cx": cx, "cy": cy, "depth_unit_m": 0.001, "depth_camera": own}
        (folder / "camera.json").write_text(json.dumps(known))
        arguments = [folder] if name == "rgb.png" else [folder / name, folder / "depth.png"]
        seen = read_input(*arguments)[0].observation
        # Even pixels were measured themselves, up to what their nearer neighbours cover.
        both = seen.depth[::2, ::2][shot.mm[::2, ::2] > 0] - shot.metres[::2, ::2][shot.mm[::2, ::2] > 0]
        assert (
            seen.depth.shape == shot.mm.shape and (both < 1e-6).all() and np.median(both) == pytest.approx(0)
        )


@pytest.mark.parametrize(
    ("arguments", "median_m"),
    [
        (("kpick_bin",), 0.49),
        (("m2t2_00",), 1.07),
        (("thinkgrasp_2",), 0.62),
        (("vlgrasp_3000",), 0.52),
    ],
)
def test_each_camera_works_from_its_own_files(arguments, median_m):
    folder = DATA / "raw_frames"
    if not folder.is_dir():
        pytest.skip("the frames of raw_frames are not here; set CPOR_DATA")
    seen = read_input(*(folder / each for each in arguments))[0].observation
    assert abs(np.nanmedian(seen.depth) - median_m) < 0.05
    assert all(check.state == "pass" for check in check_frame(seen))


def test_stray_readings_count_as_missing_and_edges_and_small_things_stay(shot):
    depth = np.full((96, 128), 0.8, np.float32)
    depth[40:, 60:] = 0.3  # an edge of more than a factor of two
    depth[70:73, 90:93] = 0.9  # a small thing
    depth[60:70, 10:20] = np.nan
    clean = depth.copy()
    seen, notes = make_observation(shot.rgb, depth, depth_unit_m=1.0)
    assert np.array_equal(seen.depth, clean, equal_nan=True) and notes == ()
    depth[10, 10], depth[65, 15], depth[20:22, 50] = 15.0, 0.1, 5.0
    seen, notes = make_observation(shot.rgb, depth, depth_unit_m=1.0)
    assert np.isnan(seen.depth[[10, 20, 21], [10, 50, 50]]).all() and "3 stray readings" in notes[0]
    assert seen.depth[65, 15] == np.float32(0.1), "alone in a hole: nothing around contradicts it"
    seen.depth.flags.writeable = True
    seen.depth[[10, 65, 20, 21], [10, 15, 50, 50]] = clean[[10, 65, 20, 21], [10, 15, 50, 50]]
    assert np.array_equal(seen.depth, clean, equal_nan=True)
