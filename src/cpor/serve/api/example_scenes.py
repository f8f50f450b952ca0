"""Scenes that come with the service, to try it on."""

import json
from functools import cache
from pathlib import Path

from PIL import Image

from cpor.serve.api.answered import ExampleMessage
from cpor.serve.http.refusals import NotKept
from cpor.serve.http.uploads import Upload
from cpor.viz.overlay import encode_picture

FOLDER = Path(__file__).parents[1] / "examples"

SMALL = (320, 320)
"""Largest width and height of a picture in a list. [px]"""


@cache
def list_examples() -> tuple[ExampleMessage, ...]:
    """Every example."""
    content = json.loads((FOLDER / "examples.json").read_text(encoding="utf-8"))
    return tuple(ExampleMessage.model_validate(each) for each in content)


def find_example(name: str) -> Path:
    """Folder of an example; names are looked up in the list, so no path of a caller's is opened."""
    known = [each.name for each in list_examples()]
    if name not in known:
        raise NotKept(f"there is no such example; there are: {', '.join(known)}")
    return FOLDER / name


def small_picture(name: str) -> bytes:
    """The photograph of an example for a list of them, a JPEG file."""
    with Image.open(find_example(name) / "rgb.png") as picture:
        small = picture.convert("RGB")
    small.thumbnail(SMALL)
    return encode_picture(small, 80, "JPEG")


def read_example(name: str, with_masks: bool) -> Upload:
    """An example in the form of an upload, with or without its masks."""
    masks = ("instances.png", "amodal.npz", "objects.json") if with_masks else ()
    files = ("rgb.png", "depth.png", "camera.json", *masks)
    return {file.partition(".")[0]: (find_example(name) / file).read_bytes() for file in files}
