"""Draw the rooms of the code, their sizes and imports: docs/pictures/rooms.svg.

A room imports only rooms above it, so all dots of a row lie left of the diagonal. The bar is the number of
lines of the room. A dot says that it imports the room of that column, darker for more modules.
`python benchmarks/rooms.py` draws the picture anew.
"""

import ast
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "cpor"
PICTURE = ROOT / "docs" / "pictures" / "rooms.svg"
ROW, LEFT, BAR = 17, 110, 150
"""Height of a row and width of a column; where the bars begin; the longest bar. [px]"""


def room_of(module: str) -> str:
    """The room of a module's dotted name, without `cpor`."""
    return module.split(".")[0]


def read_rooms() -> tuple[Counter[str], Counter[tuple[str, str]]]:
    """Lines by room, and how many modules of one room import another."""
    lines: Counter[str] = Counter()
    imports: Counter[tuple[str, str]] = Counter()
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        if parts == ("__init__",):
            continue
        text, here = path.read_text(encoding="utf-8"), parts[0]
        lines[here] += len(text.splitlines())
        seen = set()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("cpor."):
                seen.add(room_of(str(node.module).removeprefix("cpor.")))
        imports.update((here, there) for there in seen if there != here)
    return lines, imports


def order_rooms(lines: Counter[str], imports: Counter[tuple[str, str]]) -> list[str]:
    """The rooms, each below those it imports; those that stand free by name."""
    below = {room: {there for here, there in imports if here == room} for room in lines}
    ordered: list[str] = []
    while rest := [room for room in sorted(below) if room not in ordered]:
        free = [room for room in rest if below[room] <= set(ordered)]
        ordered += free or rest[:1]  # a circle of imports: test_architecture.py refuses it
    return ordered


def draw() -> str:
    """The picture, as SVG."""
    lines, imports = read_rooms()
    rooms = order_rooms(lines, imports)
    most_lines, most_imports = max(lines.values()), max(imports.values())
    start = LEFT + BAR + 56
    width, height = start + ROW * (len(rooms) + 1), ROW * (len(rooms) + 2)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        'font-size="11" role="img" aria-label="Rooms of the code, their lines and imports">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for k, room in enumerate(rooms):
        y, bar = ROW * (k + 1), max(BAR * lines[room] / most_lines, 1.0)
        out.append(f'<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end" fill="#1b1f24">{room}</text>')
        out.append(f'<rect x="{LEFT}" y="{y - 5}" width="{bar:.0f}" height="10" fill="#6a8caf"/>')
        out.append(f'<text x="{LEFT + bar + 4:.0f}" y="{y + 4}" fill="#57606a">{lines[room]:,}</text>')
        out.append(f'<path d="M{start} {y}H{start + ROW * k}" stroke="#d9dee4"/>')
        out.append(f'<text x="{start + ROW * k}" y="{y + 4}" fill="#8a939c">{room}</text>')
        for column, there in enumerate(rooms):
            if count := imports[room, there]:
                shade = 0.25 + 0.75 * (count / most_imports) ** 0.5
                dot = f'<circle cx="{start + ROW * column + ROW // 2}" cy="{y}" r="5" fill="#2b5c8a"'
                title = f"{room} imports {there}: {count} modules"
                out.append(f'{dot} fill-opacity="{shade:.2f}"><title>{title}</title></circle>')
    out.append("</svg>")
    return "\n".join(out) + "\n"


def main() -> None:
    """Write the picture."""
    PICTURE.write_text(draw(), encoding="utf-8")
    print(f"wrote {PICTURE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
