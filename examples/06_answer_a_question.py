"""It asks, a person answers, it decides anew."""

from pathlib import Path

import cpor

SCENES = Path(__file__).parent / "scenes" / "sim"


def main() -> None:
    """Find a target for which it asks about a pair, and answer its question both ways."""
    system = cpor.System()
    for scene in sorted(SCENES.glob("scene_*")):
        view = system.look(scene / "rgb.png", scene / "depth.png")
        for target in view.seen.ids:
            answer = system.decide(view, target)
            if answer.asks is not None:
                print(f"{scene.name}, object {target}: {answer.action}")
                print(answer.asks.question)
                for reply in ("yes", "no"):
                    print(f"  {reply}: {answer.tell(reply).action}")
                return


if __name__ == "__main__":
    main()
