"""From an RGB-D photograph and a request in words to a decision, with nothing configured.

Our own networks find the objects and score their relations on a CPU: pip install 'cpor-grasp[perception]'.
Call it with your own files: 01_decide_from_rgbd.py rgb.png depth.png "the red one on the left".
"""

import sys
from pathlib import Path

import cpor

SCENE = Path(__file__).parent / "scenes" / "sim" / "scene_00007"


def main() -> None:
    """Decide for one photograph and its depth."""
    given = sys.argv[1:] or [SCENE / "rgb.png", SCENE / "depth.png", "the purple one"]
    rgb, depth, words = Path(given[0]), Path(given[1]), str(given[2])
    system = cpor.System()
    view = system.look(rgb, depth)
    answer = system.decide(view, request=words)
    print(f"{len(view.scene.objects)} objects; asked for: {words}")
    for check in answer.checks:
        if check.state != "pass":
            print(f"{check.state}: {check.says} {check.remedy}")
    if answer.question is not None:
        print(answer.question)
        return
    print(f"that is object {answer.target}; mode {answer.mode}: acts above {answer.tau:.2f}")
    print(answer.action)
    likely = sorted(answer.scores.items(), key=lambda each: -each[1])[:3]
    print("right next:", ", ".join(f"object {k} with {p:.2f}" for k, p in likely))
    print(*answer.notes, sep="\n")
    print(f"{sum(answer.times_ms.values()):.0f} ms, the networks' loading among them")


if __name__ == "__main__":
    main()
