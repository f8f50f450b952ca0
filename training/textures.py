"""Printed textures and noise that surfaces are painted with, made once at the start."""

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

TILE = 128
_LETTERS = "ABCDEFGHIKLMNOPRSTUVWXYZ abcdefghiklmnoprstuvwxyz 0123456789 %&.-"


def make_atlas(rng: np.random.Generator, count: int) -> np.ndarray:
    """Pictures as printed on boxes, labels, cloths and floors. Shape (count, 128, 128, 3), uint8."""
    makers = (_print, _print, _print, _cloud, _grain, _tiles)
    return np.stack([makers[int(rng.integers(len(makers)))](rng) for _ in range(count)])


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
