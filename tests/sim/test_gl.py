"""The optional OpenGL path: equal to the ray caster where it is there, a plain error where it is not."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.hand_made import thrown

from cpor.errors import SimulationError
from cpor.sim.camera.gl import render_gl
from cpor.sim.camera.views import cast_views, overhead_camera


def rendered(world, camera):
    try:
        return render_gl(world, camera)
    except SimulationError as error:
        pytest.skip(f"no OpenGL here: {error}")


def test_labels_and_depth_equal_the_ray_casters(evidence):
    equal, off = [], []
    for seed in range(20):
        world = thrown(seed, count=12)
        camera = overhead_camera(tilt_deg=12.0 * (seed % 3), azimuth_deg=30.0 * seed)
        shown, views = rendered(world, camera), cast_views(world, camera)
        equal.append(float((shown.visible_ids == views.visible_ids).mean()))
        same = (shown.geoms == views.geoms) & (views.geoms >= 0)
        off.append(float(np.percentile(np.abs(shown.depth - views.depth)[same], 99)))
    evidence(
        "acts",
        "labels of ray casting equal to OpenGL's, 20 heaps, least",
        ">= 99.5%",
        f"{100 * min(equal):.3f}%",
    )
    evidence("acts", "depth of ray casting against OpenGL's, 99th percentile [mm]", "", 1e3 * max(off))
    assert min(equal) > 0.995
    assert max(off) < 0.0005


def test_where_opengl_is_missing_the_error_says_what_to_do():
    # MuJoCo decides on OpenGL when it is imported, so another process must try without.
    script = "\n".join(
        (
            "from support.hand_made import thrown",
            "from cpor.sim.camera.views import overhead_camera",
            "from cpor.sim.camera.gl import render_gl",
            "render_gl(thrown(0, count=2, steps=0), overhead_camera(64, 48))",
        )
    )
    tests = str(Path(__file__).parents[1])
    environment = {**os.environ, "MUJOCO_GL": "disable", "PYTHONPATH": tests}
    ended = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    last = ended.stderr.strip().splitlines()[-1]
    assert last.startswith("cpor.errors.SimulationError") and "cast_views" in last and "libegl1" in last
