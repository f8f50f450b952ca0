"""One frame, one target, ten surfaces: photographs and simulated scenes, three targets each.

Run: PYTHONPATH=tests python benchmarks/evidence_agreement.py [--frames 20] [--out out/agreement.json]
"""

import argparse
import json
import tempfile
from pathlib import Path

from support.data import DATA
from support.served import served
from support.surfaces import ask_everywhere, bare_frame

import cpor
from cpor.io.scene_folder import write_scene_folder
from cpor.serve.client import Client
from cpor.sim.dataset.make import DatasetSettings, plan_dataset, simulate_case

SEED = 1311
"""Of the simulated frames."""


def sources(frames: int, scratch: Path) -> dict[str, list[Path]]:
    """Scene folders of both kinds."""
    photographs = sorted((DATA / "osd_learn").glob("*/"))[:frames]
    simulated = []
    for case in plan_dataset(frames, SEED).cases:
        scene, _ = simulate_case(case, DatasetSettings())
        write_scene_folder(scene, scratch / case.name)
        simulated.append(scratch / case.name)
    return {"photographs": photographs, "simulated": simulated}


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=20)
    parser.add_argument("--targets", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("out/agreement.json"))
    asked = parser.parse_args()
    told: dict[str, dict[str, object]] = {}
    system = cpor.System()
    with tempfile.TemporaryDirectory() as name, served() as address, Client(address) as client:
        for kind, folders in sources(asked.frames, Path(name) / "made").items():
            asked_in_all, surfaces, differ = 0, set(), []
            for k, folder in enumerate(folders):
                place = Path(name) / kind / str(k)
                frame = bare_frame(folder, place / "frame")
                targets = system.look(frame).scene.ids[: asked.targets]
                first: dict[int, object] = {}
                for surface, target, said in ask_everywhere(frame, targets, client, place):
                    surfaces.add(surface)
                    asked_in_all += 1
                    why = said.why_not(first.setdefault(target, said))  # type: ignore[arg-type]
                    if why is not None:
                        differ.append(f"{folder.name}, object {target}, {surface}: {why}")
                print(f"{kind} {k + 1} of {len(folders)}: {len(differ)} differ", flush=True)
            told[kind] = {
                "frames": len(folders),
                "surfaces": sorted(surfaces),
                "answers": asked_in_all,
                "differ": differ,
            }
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    asked.out.write_text(json.dumps(told, indent=1) + "\n")
    print(json.dumps({kind: (row["answers"], len(row["differ"])) for kind, row in told.items()}))  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
