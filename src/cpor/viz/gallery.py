"""What a segmenter found in many scenes, as one page: objects outlined, hidden parts hatched."""

from collections.abc import Iterable
from html import escape
from pathlib import Path

from cpor.io.whole_files import write_text
from cpor.scene import Scene
from cpor.viz.overlay import Marks, draw_scene, encode_picture
from cpor.viz.page_parts import image, whole_page


def write_gallery(exhibits: Iterable[tuple[str, Scene | None, str]], path: Path, title: str) -> None:
    """Write the page, all of it or nothing.

    Args:
        exhibits: Name of each scene, with what was found (None where finding failed), and a note.
        path: The file.
        title: Heading.
    """
    head = (
        f"<h1>{escape(title)}</h1><p>Each object has an outline and a number; hidden parts are hatched.</p>"
    )
    figures = (_figure(*each) for each in exhibits)
    write_text(path, whole_page(title, [head, '<main class="scenes">', *figures, "</main>"]))


def _figure(name: str, scene: Scene | None, note: str) -> str:
    if scene is None:
        said = f'<b>{escape(name)}</b> <span class="bad">{escape(note)}</span>'
        return f"<figure><figcaption>{said}</figcaption></figure>"
    count = len(scene.objects)
    words = f"{count} object{'' if count == 1 else 's'} found in {name}"
    shown = image(encode_picture(draw_scene(scene, Marks(all_hidden=True)), quality=80), words)
    return f"<figure>{shown}<figcaption><b>{escape(name)}</b> {escape(note)}</figcaption></figure>"
