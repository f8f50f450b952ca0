"""Which everyday shape each object of the catalogue has: the words a person may use, the usual one first."""

from collections.abc import Mapping

SHAPE_WORDS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("green screwdriver", "red pliers", "orange hammer", "blue wrench", "black torch", "purple brush"),
        ("tool",),
    ),
    "yellow tape measure": ("box", "block", "tool"),
    **dict.fromkeys(
        (
            *("blue toy truck", "red toy car", "yellow toy bus", "green toy tractor", "white toy plane"),
            "purple toy train",
        ),
        ("vehicle",),
    ),
    "red mug": ("cup",),
    "white bowl": ("bowl",),
    "turquoise cup": ("cup",),
    "yellow tin can": ("can",),
    "green bottle": ("bottle",),
    "milk carton": ("box",),
    "pink jar": ("can",),
    **dict.fromkeys(("red apple", "orange tangerine", "yellow lemon"), ("fruit", "ball")),
    **dict.fromkeys(
        ("yellow banana", "green pear", "purple aubergine", "green cucumber", "orange carrot"), ("fruit",)
    ),
    "red cube": ("block", "box"),
    **dict.fromkeys(("blue L block", "green T block", "yellow arch", "purple wedge"), ("block",)),
    "orange cylinder": ("can", "block"),
    "white remote control": ("box",),
    "black computer mouse": ("thing",),
    "pink soap bar": ("box", "block"),
    "blue sponge": ("box", "block"),
    "yellow rubber duck": ("thing",),
    "grey stapler": ("tool", "thing"),
}
"""Words of `cpor.words.shapes.SHAPES` by the name of the object."""
