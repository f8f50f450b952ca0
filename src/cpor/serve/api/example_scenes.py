"""Scenes that come with the service, to try it on."""

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from PIL import Image

from cpor.serve.api.answered import ExampleMessage
from cpor.serve.http.refusals import NotKept
from cpor.serve.http.uploads import Upload
from cpor.viz.overlay import encode_picture

FOLDER = Path(__file__).parents[1] / "examples"

SMALL = (320, 320)
"""Largest width and height of a picture in a list. [px]"""


@dataclass(frozen=True)
class Examples:
    """The scene folders of a folder, listed in its `examples.json`."""

    folder: Path = FOLDER

    @cached_property
    def listed(self) -> tuple[ExampleMessage, ...]:
        """Every example."""
        content = json.loads((self.folder / "examples.json").read_text(encoding="utf-8"))
        return tuple(ExampleMessage.model_validate(each) for each in content)

    def picture(self, name: str) -> bytes:
        """The photograph of an example, a PNG file."""
        return (self._find(name) / "rgb.png").read_bytes()

    def small_picture(self, name: str) -> bytes:
        """The photograph of an example for a list of them, a JPEG file."""
        with Image.open(self._find(name) / "rgb.png") as picture:
            small = picture.convert("RGB")
        small.thumbnail(SMALL)
        return encode_picture(small, 80, "JPEG")

    def upload(self, name: str, with_masks: bool) -> Upload:
        """An example in the form of an upload, with or without its masks."""
        folder = self._find(name)
        return Upload(
            rgb=(folder / "rgb.png").read_bytes(),
            depth=(folder / "depth.png").read_bytes(),
            instances=(folder / "instances.png").read_bytes() if with_masks else None,
            amodal=(folder / "amodal.npz").read_bytes() if with_masks else None,
            camera=(folder / "camera.json").read_text(encoding="utf-8"),
            objects=(folder / "objects.json").read_text(encoding="utf-8") if with_masks else None,
        )

    def _find(self, name: str) -> Path:
        """Folder of an example; names are looked up in the list, so no path of a caller's is opened."""
        for each in self.listed:
            if each.name == name:
                return self.folder / each.name
        known = ", ".join(each.name for each in self.listed)
        raise NotKept(f"there is no such example; there are: {known}")
