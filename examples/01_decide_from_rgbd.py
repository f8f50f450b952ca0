"""From an RGB-D photograph and a request in words to a decision, with nothing configured.

Our own networks find the objects and score their relations on a CPU: pip install 'cpor-grasp[perception]'.
Call it with your own files: 01_decide_from_rgbd.py rgb.png depth.png "the red mug".
"""

import sys
from pathlib import Path

import cpor
from cpor.data.frame_files import read_frame
from cpor.perception.grounding import Found

SCENE = Path(__file__).parent / "scenes" / "sim" / "scene_00007"


def main() -> None:
    """Decide for one photograph; depth in steps of a millimetre."""
    given = sys.argv[1:] or [SCENE / "rgb.png", SCENE / "depth.png", "the purple aubergine"]
    rgb, depth, words = Path(given[0]), Path(given[1]), str(given[2])
    answer = cpor.rgbd_pipeline().run(read_frame(rgb, depth), words)
    print(f"{len(answer.scene.objects)} objects; asked for: {words}")
    if not isinstance(answer.meant, Found) or answer.result is None:
        print("not clear:", getattr(answer.meant, "question", None) or answer.meant.reason)
        return
    decision = answer.result.decision
    print(f"that is object {answer.meant.id}; words that could not be checked: {answer.meant.unchecked}")
    print(decision.action)
    likely = sorted(decision.scores.items(), key=lambda each: -each[1])[:3]
    print("right next:", ", ".join(f"object {k} with {p:.2f}" for k, p in likely))
    print(f"{sum(answer.times_ms.values()):.0f} ms, the networks' loading among them")


if __name__ == "__main__":
    main()
