"""It asks, a person answers, it decides anew: the answer is a relation that is known now."""

from pathlib import Path

import cpor

SCENES = Path(__file__).parent / "scenes" / "sim"


def main() -> None:
    """Find a target for which it asks, and answer its question both ways."""
    system = cpor.System()
    for scene in sorted(SCENES.glob("scene_*")):
        view = system.look(scene / "rgb.png", scene / "depth.png")
        for target in view.seen.ids:
            answer = system.decide(view, target)
            asks = isinstance(answer.action, cpor.Defer) and answer.posterior is not None
            pair = cpor.explain(answer.posterior).ask_next if asks else None
            if pair is not None:
                print(f"{scene.name}, object {target}: {answer.action.reason}")
                print(f"Does object {pair.blocker} obstruct object {pair.blocked}?")
                for reply, p in (("yes", 1.0), ("no", 0.0)):
                    now = system.decide(view, target, relations={(pair.blocked, pair.blocker): p})
                    print(f"  {reply}: {now.action}")
                return


if __name__ == "__main__":
    main()
