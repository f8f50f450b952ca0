"""Printed textures and noise that surfaces are painted with, made once at the start."""

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

TILE = 128
PACKAGE = 192
"""Side of the pictures of packages. [px]"""
_LETTERS = "ABCDEFGHIKLMNOPRSTUVWXYZ abcdefghiklmnoprstuvwxyz 0123456789 %&.-"


def make_atlas(rng: np.random.Generator, count: int) -> np.ndarray:
    """Pictures as printed on boxes, labels, cloths and floors. Shape (count, 128, 128, 3), uint8."""
    makers = (_print, _print, _print, _cloud, _grain, _tiles)
    return np.stack([makers[int(rng.integers(len(makers)))](rng) for _ in range(count)])


def make_packages(rng: np.random.Generator, count: int) -> np.ndarray:
    """Packages as shops sell them: three sides each, in the same few colours.

    Returns:
        The sides of package k at 3 k, 3 k + 1 and 3 k + 2. Shape (3 count, 192, 192, 3), uint8.
    """
    return np.stack([side for _ in range(count) for side in _package(rng)])


def make_noise(rng: np.random.Generator, size: int = 48) -> Tensor:
    """Smooth noise in a cube, four kinds, mean 0 and deviation about 1. Shape (1, 4, size, size, size)."""
    noise = np.zeros((4, size, size, size), dtype=np.float32)
    for octave in (4, 8, 16, 48):
        coarse = torch.as_tensor(rng.normal(size=(1, 4, octave, octave, octave)).astype(np.float32))
        fine = torch.nn.functional.interpolate(
            coarse, size=(size, size, size), mode="trilinear", align_corners=True
        )
        noise += fine[0].numpy() / np.sqrt(octave / 4.0)
    noise /= noise.std(axis=(1, 2, 3), keepdims=True)
    return torch.as_tensor(noise)[None]


def _colour(rng: np.random.Generator) -> tuple[int, int, int]:
    if rng.random() < 0.3:
        grey = int(rng.integers(256))
        return grey, grey, grey
    r, g, b = rng.integers(0, 256, 3)
    return int(r), int(g), int(b)


def _print(rng: np.random.Generator) -> np.ndarray:
    picture = Image.new("RGB", (TILE, TILE), _colour(rng))
    draw = ImageDraw.Draw(picture)
    font = ImageFont.load_default()
    for _ in range(int(rng.integers(2, 14))):
        x, y = (int(v) for v in rng.integers(-20, TILE, 2))
        w, h = (int(v) for v in np.exp(rng.uniform(np.log(4), np.log(110), 2)))
        kind = rng.integers(5)
        if kind == 0:
            draw.rectangle((x, y, x + w, y + h), fill=_colour(rng))
        elif kind == 1:
            draw.ellipse((x, y, x + w, y + h), fill=_colour(rng))
        elif kind == 2:
            draw.line((x, y, x + w, y + h - 40), fill=_colour(rng), width=int(rng.integers(1, 9)))
        else:
            _write(rng, picture, font, x, y)
    return np.asarray(picture)


def _write(
    rng: np.random.Generator,
    picture: Image.Image,
    font: ImageFont.ImageFont | ImageFont.FreeTypeFont,
    x: int,
    y: int,
) -> None:
    """Some lines of text, of any size."""
    lines = [
        "".join(rng.choice(list(_LETTERS), int(rng.integers(3, 16)))) for _ in range(int(rng.integers(1, 6)))
    ]
    text = Image.new("L", (100, 12 * len(lines) + 4))
    ImageDraw.Draw(text).multiline_text((1, 1), "\n".join(lines), fill=255, font=font)
    zoom = rng.uniform(0.5, 3.0)
    text = text.resize((max(int(text.width * zoom), 4), max(int(text.height * zoom), 4)))
    picture.paste(_colour(rng), (x, y), text)


def _field(rng: np.random.Generator) -> np.ndarray:
    """Smooth noise from 0 to 1. Shape (128, 128)."""
    total = np.zeros((TILE, TILE), dtype=np.float32)
    for octave in (2, 4, 8, 16, 32, 64):
        coarse = Image.fromarray(rng.random((octave, octave)).astype(np.float32))
        total += np.asarray(coarse.resize((TILE, TILE), Image.Resampling.BICUBIC)) / octave ** rng.uniform(
            0.4, 1.0
        )
    span: np.ndarray = (total - total.min()) / max(float(np.ptp(total)), 1e-6)
    return span


def _blend(rng: np.random.Generator, share: np.ndarray) -> np.ndarray:
    a, b = np.array(_colour(rng)), np.array(_colour(rng))
    if rng.random() < 0.5:  # shades of one colour
        b = np.clip(a * rng.uniform(0.4, 1.6), 0, 255)
    mixed: np.ndarray = np.clip(a + (b - a) * share[..., None], 0, 255).astype(np.uint8)
    return mixed


def _cloud(rng: np.random.Generator) -> np.ndarray:
    return _blend(rng, _field(rng))


def _grain(rng: np.random.Generator) -> np.ndarray:
    y = np.linspace(0.0, 1.0, TILE)[:, None]
    return _blend(rng, 0.5 + 0.5 * np.sin(rng.uniform(20, 90) * (y + rng.uniform(0.05, 0.3) * _field(rng))))


def _tiles(rng: np.random.Generator) -> np.ndarray:
    across, down = (int(v) for v in rng.integers(2, 9, 2))
    shade = np.kron(rng.random((down, across)), np.ones((TILE // down + 1, TILE // across + 1)))[:TILE, :TILE]
    rows, cols = np.arange(TILE) % (TILE // down) < 2, np.arange(TILE) % (TILE // across) < 2
    shade[rows] = shade[:, cols] = rng.random()
    return _blend(rng, 0.8 * shade + 0.2 * _field(rng))


def _package(rng: np.random.Generator) -> list[np.ndarray]:
    """Three sides of one package: large fields of colour, a picture, a name, small print."""
    colours = [_colour(rng) for _ in range(int(rng.integers(2, 5)))]
    if rng.random() < 0.5:
        colours.append((255, 255, 255))
    turn = int(rng.integers(4))
    return [np.rot90(_side(rng, colours, front), turn) for front in (True, rng.random() < 0.4, False)]


def _side(rng: np.random.Generator, colours: list[tuple[int, int, int]], front: bool) -> np.ndarray:
    def any_colour() -> tuple[int, int, int]:
        return colours[int(rng.integers(len(colours)))] if rng.random() < 0.8 else _colour(rng)

    def place(least: float, most: float) -> tuple[int, int, int, int]:
        w, h = (rng.uniform(least, most, 2) * PACKAGE).astype(int)
        x, y = (int(v) for v in rng.uniform(-0.15, 0.9, 2) * PACKAGE)
        return x, y, int(x + w), int(y + h)

    picture = Image.new("RGB", (PACKAGE, PACKAGE), colours[0])
    draw = ImageDraw.Draw(picture)
    # Fields: a cut across, a large round, a frame, a wash from one colour to another.
    for _ in range(int(rng.integers(0, 4))):
        kind, cut = rng.integers(5), float(rng.uniform(0.15, 0.85)) * PACKAGE
        if kind == 0:
            draw.rectangle(
                (0, cut, PACKAGE, PACKAGE * (1.0 if rng.random() < 0.6 else 0.9)), fill=any_colour()
            )
        elif kind == 1:
            end = cut + rng.uniform(-0.4, 0.4) * PACKAGE
            draw.polygon([(0, cut), (PACKAGE, end), (PACKAGE, PACKAGE), (0, PACKAGE)], fill=any_colour())
        elif kind == 2:
            draw.ellipse(place(0.6, 1.6), fill=any_colour())
        elif kind == 3:
            margin = int(rng.integers(2, 14))
            draw.rectangle((0, 0, PACKAGE - 1, PACKAGE - 1), outline=any_colour(), width=margin)
        else:
            wash = Image.fromarray((255 * np.linspace(0, 1, PACKAGE)).astype(np.uint8)[:, None])
            picture.paste(any_colour(), (0, 0), wash.resize((PACKAGE, PACKAGE)))
    if rng.random() < (0.85 if front else 0.3):
        _still_life(rng, picture, place(0.35, 0.9))
    if rng.random() < (0.9 if front else 0.5):
        if rng.random() < 0.4:
            box = place(0.3, 0.9)
            (draw.ellipse if rng.random() < 0.5 else draw.rectangle)(box, fill=any_colour())
        x, y = (int(v) for v in rng.uniform(-0.05, 0.6, 2) * PACKAGE)
        _write(rng, picture, ImageFont.load_default(), x, y)
    for _ in range(int(rng.integers(0, 4 if front else 6))):
        _small_print(rng, draw, place(0.1, 0.5), any_colour())
    return np.asarray(picture)


def _still_life(rng: np.random.Generator, picture: Image.Image, box: tuple[int, int, int, int]) -> None:
    """What a package shows: a heap of shaded pieces, or something cloudy cut out."""
    x0, y0, x1, y1 = box
    if rng.random() < 0.35:
        size = (max(x1 - x0, 8), max(y1 - y0, 8))
        cloud = Image.fromarray(_cloud(rng)).resize(size)
        shape = Image.new("L", size)
        (ImageDraw.Draw(shape).ellipse if rng.random() < 0.6 else ImageDraw.Draw(shape).rectangle)(
            (0, 0, *size), fill=255
        )
        picture.paste(cloud, (x0, y0), shape)
        return
    draw = ImageDraw.Draw(picture)
    hue, spread = np.array(_colour(rng), dtype=float), float(rng.uniform(5, 60))
    long = np.exp(rng.uniform(np.log(5), np.log(60)))
    for _ in range(int(rng.integers(3, 45))):
        a, b = long * rng.uniform(0.5, 1.0, 2)
        x, y = rng.uniform(x0, x1), rng.uniform(y0, y1)
        shade = hue + rng.normal(0, spread, 3)
        dark, light = (tuple(int(v) for v in np.clip(shade * k, 0, 255)) for k in (0.6, 1.1))
        draw.ellipse((x, y, x + a, y + b), fill=dark)
        draw.ellipse((x + 0.1 * a, y + 0.05 * b, x + 0.8 * a, y + 0.75 * b), fill=light)


def _small_print(
    rng: np.random.Generator,
    draw: ImageDraw.ImageDraw,
    box: tuple[int, int, int, int],
    colour: tuple[int, int, int],
) -> None:
    """Lines of text too small to read, a table or a bar code."""
    x0, y0, x1, y1 = box
    if rng.random() < 0.35:
        draw.rectangle(box, fill=(245, 245, 245) if rng.random() < 0.7 else _colour(rng))
        colour = (20, 20, 20)
    step = int(rng.integers(3, 8))
    if rng.random() < 0.25:
        for x in range(x0, x1, step):
            draw.line((x, y0, x, y1), fill=colour, width=int(rng.integers(1, step)))
        return
    for y in range(y0 + 2, y1, step):
        draw.line(
            (x0 + 2, y, x0 + (x1 - x0) * rng.uniform(0.5, 0.97), y), fill=colour, width=max(step // 3, 1)
        )
