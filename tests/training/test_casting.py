import numpy as np
import torch

from cpor.sim.camera.views import cast_views, gather_geometry, overhead_camera
from cpor.sim.physics.build import build_world
from cpor.sim.physics.world import HEAP_CENTRE, Bin
from training.casting import Cameras, HeapStore, cast
from training.heaps import pack
from training.looks import Painter
from training.shapes import _MAKERS, random_object
from training.surroundings import _boxes, surroundings
from training.textures import PACKAGE, make_packages


def one_of_each():
    rng = np.random.default_rng(4)
    objects, poses = {}, {}
    for k in range(1, len(_MAKERS) + 1):
        parts = _MAKERS[k - 1][0](rng, 0.08)
        objects[k] = random_object(rng, f"thing {k}", 0.08).__class__(
            f"thing {k}", "procedural", tuple(parts), 0.1
        )
        quaternion = rng.normal(size=4)
        x, y = HEAP_CENTRE[0] + 0.07 * (k % 5 - 2.0), 0.07 * (k // 5 - 2.0)
        poses[k] = np.concatenate([[x, y, rng.uniform(0.05, 0.12)], quaternion / np.linalg.norm(quaternion)])
    return build_world(objects, poses, Bin((0.3, 0.3)))


def test_torch_sees_what_the_simulated_camera_sees(evidence):
    world = one_of_each()
    camera = overhead_camera(160, 120, tilt_deg=25.0, azimuth_deg=40.0, distance=0.7)
    views = cast_views(world, camera)
    packed = pack(gather_geometry(world), 0.2, world.bin, world.objects, {k: k for k in world.objects})
    store = HeapStore(packed, torch.device("cpu"))
    shapes = store.shapes(torch.tensor([0]))
    centre = camera.T_world_camera[:3, 3] - np.array([*HEAP_CENTRE, 0.0])
    eye = Cameras(
        torch.tensor(centre[None], dtype=torch.float32),
        torch.tensor(camera.T_world_camera[None, :3, :3], dtype=torch.float32),
        torch.tensor([camera.intrinsics.fx], dtype=torch.float32),
        camera.height,
        camera.width,
    )
    hits = cast(shapes, store.planes, eye)
    ids = torch.where(hits.shape >= 0, shapes.objects[hits.shape.clamp(min=0)], 0)[0].numpy()
    same = (ids == views.visible_ids) | (views.visible_ids == 0) & (ids == 0)
    evidence(
        "sees",
        "training pictures: labels equal to the simulated camera's",
        ">= 99.8 %",
        f"{100 * same.mean():.2f} %",
    )
    assert same.mean() > 0.998
    both = same & (ids > 0)
    assert np.median(np.abs(hits.depth[0].numpy() - views.depth)[both]) < 1e-4
    assert np.quantile(np.abs((hits.normal[0].numpy() * views.normals).sum(-1)[both]), 0.02) > 0.99
    # Hidden parts too: object 1's amodal pixels are those of the simulator.
    for obj, crop in views.amodal.items():
        mine = np.zeros(views.depth.size, dtype=bool)
        mine[hits.pair_pixel[shapes.objects[hits.pair_shape] == obj].numpy()] = True
        truth = crop.to_mask(views.depth.shape).ravel()
        assert (mine & truth).sum() >= 0.98 * (mine | truth).sum() - 3


def test_a_package_is_printed_once_over_a_whole_side():
    sides = torch.zeros((3, PACKAGE, PACKAGE, 3), dtype=torch.uint8)
    ramp = torch.arange(PACKAGE, dtype=torch.uint8)
    sides[2, :, :, 0], sides[2, :, :, 1] = ramp[None, :], ramp[:, None]
    painter = Painter(sides[:1], sides, torch.zeros(1), torch.Generator())
    half = torch.tensor([[0.1, 0.05, 0.02]])
    one = torch.zeros(1, dtype=torch.int64)
    box = _boxes(torch.zeros(1, 3), torch.eye(3)[None], half, one, one)
    at = torch.tensor([[-0.1, -0.05, 0.02], [0.0, 0.0, 0.02], [0.1, 0.05, 0.02]])
    up = torch.tensor([[0.0, 0.0, 1.0]]).expand(3, 3)
    none = torch.zeros(3, dtype=torch.int64)
    colour = painter._packed(at, up, none, box, none) ** (1 / 2.2) * 255.0
    last = PACKAGE - 1
    wanted = torch.tensor([[0, 0, 0], [PACKAGE // 2, PACKAGE // 2, 0], [last, last, 0]])
    assert torch.allclose(colour, wanted.float(), atol=0.01)


def test_packages_have_three_different_sides():
    sides = make_packages(np.random.default_rng(5), 4).reshape(4, 3, PACKAGE, PACKAGE, 3)
    for package in sides:
        assert all((package[a] != package[b]).any() for a, b in ((0, 1), (0, 2), (1, 2)))


def test_surroundings_are_no_objects_and_clutter_lies_below_the_table():
    generator = torch.Generator().manual_seed(3)
    radius = torch.full((6,), 0.2)
    made = surroundings(lambda *shape: torch.rand(shape, generator=generator), radius)
    assert (made.objects == 0).all()
    turned = (made.rotations - torch.eye(3)).abs().amax((1, 2)) > 1e-6
    assert turned.any()
    tops = made.positions[:, 2] + (made.rotations[:, 2].abs() * made.sizes).sum(1)
    assert (tops[turned] < 0.0).all()
    assert torch.allclose(torch.linalg.det(made.rotations), torch.ones(len(made.kinds)), atol=1e-4)
