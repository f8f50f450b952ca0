"""The files that README and site speak of, made with the wheel, and what their code takes for granted."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from support.bags import COLOR, DEPTH, FIRST_NS, BagMaker

PREAMBLES = {
    "docs/gate.md": """
from cpor.io.scene_folder import read_scene_folder
import numpy as np
scene = read_scene_folder("heap"); observation, previous = scene.observation, None
raw_depth = np.round(np.nan_to_num(observation.depth) * 1000).astype(np.uint16)
""",
    "docs/hand-eye.md": """
import numpy as np
from cpor.robot.hand_eye import *
fx = fy = 600.0; cx, cy = 320.0, 240.0
rng = np.random.default_rng(0)
def _pose():
    turn, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    T = np.eye(4)
    T[:3, :3], T[:3, 3] = turn * np.sign(np.linalg.det(turn)), rng.normal(size=3) / 4
    return T
_camera, _board = _pose(), _pose()
T_base_tool = [_pose() for _ in range(12)]
T_camera_board = [np.linalg.inv(_camera) @ each @ _board for each in T_base_tool]
T_world_base = np.eye(4)
""",
    "docs/perception.md": """
from cpor.io.scene_folder import read_scene_folder
observation = read_scene_folder("heap").observation
""",
    "docs/robot.md": """
import numpy as np
from cpor.pipeline import Pipeline
from cpor.perception.segmenter import make_segmenter
from cpor.robot.robot_file import make_robot
robot, segmenter = make_robot("simulated", seed=4, tier="easy"), make_segmenter("embedded")
T_world_camera = np.eye(4)
""",
    "docs/system.md": """
import cpor
system = cpor.System(); view = system.look("rgb.png", "depth.png")
""",
}
"""Names that a page explains in words, before its first block."""

ARRAYS = """
import csv
import numpy as np

grasp = np.zeros((1, 17))
grasp[0, :4], grasp[0, 4:13], grasp[0, 15] = (0.9, 0.08, 0.02, 0.02), np.eye(3).ravel(), 0.7
np.save("grasps.npy", grasp)
rng = np.random.default_rng(0)
with open("scores.csv", "w", newline="") as file:
    out = csv.writer(file)
    out.writerow(["image", "prob_edge", "N_cand", "label"])
    for k in range(400):
        p = rng.random()
        out.writerow([f"image_{k // 8}", round(p, 4), 8, int(rng.random() < p**2)])
"""

EXAMPLE = "touching-toys"
LABELLED = 24


def make_files(reader: Any, files: Path, root: Path) -> None:
    """Write all of them; `reader` has the wheel, `root` is the repository, for examples and pages."""

    def cpor(*words: str) -> None:
        status, said = reader.run(["cpor", *words], files, 900.0)
        if status != 0:
            raise SystemExit(f"cpor {' '.join(words)}: {said[-800:]}")

    shutil.rmtree(files, ignore_errors=True)
    files.mkdir(parents=True)
    cpor("examples", "cpor-examples")
    shutil.copytree(
        root / "examples", files / "examples", ignore=shutil.ignore_patterns("notebooks", "__pycache__")
    )
    scene = files / "cpor-examples" / EXAMPLE
    for name in ("rgb.png", "depth.png"):
        shutil.copy(scene / name, files / name)
    for name in ("SCENE_FOLDER", "heap", "FOLDER", "SCENE"):
        shutil.copytree(scene, files / name)
    shutil.copy(root / "examples" / "scenes" / "heap.json", files / "scene.json")
    for name in ("recording", "FRAMES"):
        (files / name).mkdir()
        for k in range(13):
            shutil.copy(scene / "rgb.png", files / name / f"color_{k:04d}.png")
            shutil.copy(scene / "depth.png", files / name / f"depth_{k:04d}.png")
    shutil.copytree(files / "cpor-examples", files / "frames")
    shutil.copytree(files / "cpor-examples", files / "PHOTOGRAPHS")
    shutil.copytree(files / "cpor-examples", files / "NEW_SCENES")
    cpor("perceive", "heap", "--ignore-given-masks", "--out", "seen_heap", "--coco", "masks.json")
    shutil.copy(files / "masks.json", files / "sam.json")
    cpor(
        "simulate", "--scenes", str(LABELLED), "--seed", "7", "--size", "256x192", "--out", "LABELLED_SCENES"
    )
    shutil.copytree(files / "LABELLED_SCENES", files / "labelled")
    cpor("fit", "LABELLED_SCENES", "--prior", "none", "--alpha", "0.3", "--out", "model.json")
    cpor("demo", "--seed", "4", "--tier", "easy", "--out", "DIR")
    shutil.copytree(files / "DIR" / "run", files / "RUN")
    cpor("export", "RUN", "--mcap", "lab.mcap")
    write_bag(scene, files / "lab.bag")
    status, said = reader.python(ARRAYS, files)
    assert status == 0, said
    write_modules(root, files)
    (files / "cell.toml").write_text('[robot]\naddress = "192.168.0.10"\n')
    data = Path(os.environ.get("CPOR_DATA") or root.parent / "shared" / "data")
    for path in data.glob("**/scores_synthetic.csv*"), data.glob("**/gt_synthetic.jsonl*"):
        for found in path:
            shutil.copy(found, files / found.name)
    (files / "token.txt").write_text("a-token-of-our-own-0123456789\n")
    (files / "made").touch()


def write_bag(scene: Path, file: Path) -> None:
    """A bag of ROS 1 that lasts 13 seconds, two frames in each."""
    maker = BagMaker(file, ros1=True)
    rgb, depth = (np.asarray(Image.open(scene / name)) for name in ("rgb.png", "depth.png"))
    unit_m = json.loads((scene / "camera.json").read_text())["depth_unit_m"]
    steps = np.rint(depth * (1000.0 * unit_m)).astype(np.uint16)
    for k in range(27):
        time_ns = FIRST_NS + k * 500_000_000
        maker.image(COLOR, rgb, "rgb8", time_ns)
        maker.image(DEPTH, steps, "16UC1", time_ns)
    maker.write()


def write_modules(root: Path, files: Path) -> None:
    """The classes of docs/extending.md as modules, as that page tells to save them."""
    text = (root / "docs" / "extending.md").read_text()
    for name in ("ColourSegmenter", "DepthScorer", "ToyRobot"):
        block = next(
            each.split("```")[0] for each in text.split("```python\n")[1:] if f"class {name}" in each
        )
        module = "".join(f"_{c.lower()}" if c.isupper() else c for c in name).strip("_")
        (files / f"{module}.py").write_text(block)
    names = {"colour_segmenter": "ColourSegmenter as MySegmenter", "depth_scorer": "DepthScorer as MyScorer"}
    (files / "my_lab.py").write_text("".join(f"from {k} import {v}\n" for k, v in names.items()))
