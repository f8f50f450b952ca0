"""Every picture of a folder, every object in it: one row a decision, as CSV on standard output."""

import csv
import sys
from pathlib import Path

import cpor

SCENES = Path(__file__).parent / "scenes" / "sim"


def main() -> None:
    """Decide for all objects of the first pictures."""
    folder, most = (Path(sys.argv[1]), None) if len(sys.argv) > 1 else (SCENES, 1)
    table = csv.writer(sys.stdout)
    table.writerow(["picture", "target", "action", "object", "p_right", "promised"])
    system = cpor.System(mode="balanced")
    for scene in sorted(folder.glob("*/"))[:most]:
        view = system.look(scene / "rgb.png", scene / "depth.png")
        for target in view.seen.ids:
            answer = system.decide(view, target)
            record = answer.to_json()["action"]
            best = max(answer.scores[obj] for obj in view.seen.ids)
            row = record["type"], record["object"], f"{best:.3f}", answer.promise is not None
            table.writerow([scene.name, target, *row])


if __name__ == "__main__":
    main()
