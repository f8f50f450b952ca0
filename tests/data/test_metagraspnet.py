"""MetaGraspNetV2 folders: built by hand, read, refused, and kept through our own scene folders."""

import numpy as np
import pytest
from PIL import Image

from cpor import CporError
from cpor.data.metagraspnet import list_views, read_metagraspnet
from cpor.data.scene_folder import read_scene_folder, write_scene_folder


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "scene0"
    root.mkdir()
    Image.fromarray(np.full((6, 8, 3), 9, np.uint8)).save(root / "3_rgb.png")
    ids = np.zeros((6, 8), np.uint8)
    ids[1:4, 1:4] = 1
    ids[2:5, 4:7] = 2
    hidden = np.zeros((2, 6, 8), np.uint8)
    hidden[0, 2:4, 4:6] = 1  # object 1 goes on behind object 2
    np.savez(root / "3.npz", instances_objects=ids, occlusion_objects=hidden, depth=np.full((6, 8), 140.0))
    (root / "3_order.csv").write_text("0,-1\n1,0\n")
    return root


def test_a_view_becomes_a_scene(folder):
    assert list_views(folder) == (3,)
    scene = read_metagraspnet(folder, 3)
    assert scene.ids == (1, 2)
    assert scene.true_occlusion.pairs == {(1, 2)}, "-1 at (1, 2): object 1 is occluded by object 2"
    assert scene.observation.depth[0, 0] == pytest.approx(1.4)
    assert scene.objects[0].amodal.to_mask((6, 8)).sum() == 9 + 4
    assert scene.objects[1].amodal.to_mask((6, 8)).sum() == 9
    assert scene.observation.camera.intrinsics is None


def test_it_survives_our_own_scene_folder(folder, tmp_path):
    scene = read_metagraspnet(folder, 3)
    write_scene_folder(scene, tmp_path / "ours")
    assert read_scene_folder(tmp_path / "ours") == scene


def test_a_photograph_may_lack_depth_and_hidden_parts(folder):
    with np.load(folder / "3.npz") as file:
        ids = file["instances_objects"]
    np.savez(folder / "3.npz", instances_objects=ids)
    scene = read_metagraspnet(folder, 3)
    assert scene.observation.depth is None
    assert all(o.amodal is None for o in scene.objects), "unknown, not 'nothing is hidden'"


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ("0,-1\n", "line 1: 2 numbers"),
        ("0,x\n1,0\n", "entry 2 is 'x'"),
        ("-1,0\n0,0\n", "cannot occlude itself"),
    ],
)
def test_bad_orders_are_refused(folder, order, message):
    (folder / "3_order.csv").write_text(order)
    with pytest.raises(CporError, match=message):
        read_metagraspnet(folder, 3)


def test_bad_folders_are_refused(folder, tmp_path):
    with pytest.raises(CporError, match="no view 1; it has: 3"):
        read_metagraspnet(folder, 1)
    with pytest.raises(CporError, match="there is no folder"):
        list_views(tmp_path / "absent")
    (folder / "3.npz").write_bytes(b"PK")
    with pytest.raises(CporError, match="cannot read"):
        read_metagraspnet(folder, 3)
    np.savez(folder / "3.npz", instances_objects=np.zeros((2, 2), np.uint8))
    with pytest.raises(CporError, match="the photograph"):
        read_metagraspnet(folder, 3)
    np.savez(folder / "3.npz", depth=np.zeros((6, 8)))
    with pytest.raises(CporError, match="no array 'instances_objects'"):
        read_metagraspnet(folder, 3)
