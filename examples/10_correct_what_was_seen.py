"""Correct what was seen, as the page does: delete a mask, say what lies on what, undo."""

from pathlib import Path

import cpor
from cpor.corrections import Corrections, Delete, Relate, correct_view

SCENE = Path(__file__).parent / "scenes" / "sim" / "scene_00007"


def main() -> None:
    """Decide before and after two corrections."""
    system = cpor.System()
    view = system.look(SCENE / "rgb.png", SCENE / "depth.png")
    first, second, third = view.seen.ids[:3]
    print("as seen:", system.decide(view, first).action)
    made = Corrections.of(view.scene).make(Relate(blocked=first, blocker=second, p=1.0))
    print(f"{second} lies on {first}:", system.decide(correct_view(view, made), first).action)
    made = made.make(Delete(object=third))
    print(f"and {third} is no object:", system.decide(correct_view(view, made), first).action)
    print("all undone:", system.decide(correct_view(view, made.undo().undo()), first).action)


if __name__ == "__main__":
    main()
