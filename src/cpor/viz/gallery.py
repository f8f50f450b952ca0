"""What a segmenter found, in pictures: objects outlined, hidden parts striped; and a page of many scenes."""

import base64
from collections.abc import Iterable
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path

import numpy as np
from PIL import Image

from cpor.scene import Observation, Scene
from cpor.viz.overlay import Marks, draw_scene, encode_picture
from cpor.viz.overlay_marks import DARK, WHITE

_WIDEST = 1280
"""Pictures on the page are shrunk to this. [px]"""

_STYLE = """
:root{color-scheme:light dark}
body{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:1500px;padding:0 1rem}
main{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,640px),1fr));gap:1.5rem}
figure{margin:0}img{width:100%;height:auto;display:block;border-radius:6px}
figcaption{margin-top:.4rem}.problem{color:#b3261e}
@media(prefers-color-scheme:dark){.problem{color:#ff8a80}}
"""


@dataclass(frozen=True)
class Exhibit:
    """One scene of a gallery.

    Attributes:
        name: Name of the scene.
        scene: With what was found; None where finding failed.
        note: What to say below the picture.
        problem: Why there is no picture.
    """

    name: str
    scene: Scene | None
    note: str = ""
    problem: str | None = None


def draw_found(scene: Scene) -> Image.Image:
    """The photograph in its own colours, every object outlined and numbered, its hidden part striped."""
    if scene.visible_ids is None:
        return draw_scene(scene, Marks())
    rgb = scene.observation.rgb.copy()
    period = max(6, scene.observation.shape[1] // 60)
    for o in scene.objects:
        if o.amodal is None or not o.amodal.pixels.any():
            continue
        rows, cols = o.amodal.pixels.shape
        here = np.s_[o.amodal.top : o.amodal.top + rows, o.amodal.left : o.amodal.left + cols]
        y, x = np.ogrid[here]
        hidden = o.amodal.pixels & (scene.visible_ids[here] != o.id)
        place = (x + y + 3 * o.id) % period
        for ink, stripe in ((DARK, place < 2), (WHITE, place == 0)):
            rgb[here] = np.where((hidden & stripe)[..., None], np.array(ink, np.uint8), rgb[here])
    seen = scene.observation
    striped = Observation(rgb, seen.depth, seen.camera)
    return draw_scene(replace(scene, observation=striped), Marks())


def gallery_page(exhibits: Iterable[Exhibit], title: str) -> str:
    """A page that needs nothing else: no script, no font, no other host."""
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    return "\n".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>",
            f"<h1>{escape(title)}</h1>",
            "<p>Each object has an outline and a number; stripes show what is hidden.</p><main>",
            *(_figure(each) for each in exhibits),
            "</main></body></html>\n",
        ]
    )


def write_gallery(exhibits: Iterable[Exhibit], path: Path, title: str) -> None:
    """Write the page, all of it or nothing."""
    # Imported here because it brings the whole of the experiments, which a single picture does not need.
    from cpor.io.whole_files import write_text

    write_text(path, gallery_page(exhibits, title))


def _figure(exhibit: Exhibit) -> str:
    name = escape(exhibit.name)
    if exhibit.scene is None:
        problem = f'<span class="problem">{escape(exhibit.problem or "")}</span>'
        return f"<figure><figcaption><b>{name}</b> {problem}</figcaption></figure>"
    picture = draw_found(exhibit.scene)
    if picture.width > _WIDEST:
        picture = picture.resize((_WIDEST, round(picture.height * _WIDEST / picture.width)))
    data = base64.b64encode(encode_picture(picture, quality=80)).decode()
    size = f'width="{picture.width}" height="{picture.height}"'
    count = len(exhibit.scene.objects)
    words = f"{count} object{'' if count == 1 else 's'} found in {name}"
    return (
        f'<figure><img {size} loading="lazy" alt="{words}" src="data:image/webp;base64,{data}">'
        f"<figcaption><b>{name}</b> {escape(exhibit.note)}</figcaption></figure>"
    )
