"""Uploads that went wrong on the way, or were made to do harm: endless, and the same for the same seed."""

import io
import json
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from PIL import Image

from cpor.io.folder_files import encode_masks
from cpor.io.images import encode_png
from cpor.scene import MaskCrop

Parts = dict[str, bytes]


@dataclass(frozen=True)
class Mutated:
    """A request: what was done to it, where it goes, its content type and its body."""

    kind: str
    path: str
    content_type: str
    body: bytes


def small_scene(width: int = 64, height: int = 48) -> Parts:
    """Parts of a scene that is in order: two boxes side by side."""
    ids = np.zeros((height, width), np.uint8)
    ids[height // 6 : -height // 6, width // 8 : width // 2] = 1
    ids[height // 6 : -height // 6, width // 2 : -width // 8] = 2
    rng = np.random.default_rng(width)
    colours = np.array([[90, 90, 90], [200, 40, 40], [40, 60, 200]], np.uint8)
    rgb = colours[ids] + rng.integers(0, 30, (height, width, 3), dtype=np.uint8)
    depth = np.where(ids == 0, 800, np.where(ids == 1, 760, 740)).astype(np.uint16)
    masks = {k: MaskCrop.from_mask(ids == k) for k in (1, 2)}
    return {
        "rgb": encode_png(rgb),
        "depth": encode_png(depth),
        "instances": encode_png(ids),
        "amodal": encode_masks(masks, (height, width)),
        "camera": json.dumps({"fx": 60, "fy": 60, "cx": 32, "cy": 24, "depth_unit_m": 0.001}).encode(),
        "target": b"1",
    }


def encode_multipart(parts: Parts, boundary: str = "cpor-boundary") -> tuple[str, bytes]:
    """Content type and body of a multipart request."""
    lines = []
    for name, data in parts.items():
        named = f'; filename="{name}"' if name in ("rgb", "depth", "instances", "amodal") else ""
        lines.append(
            f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"{named}\r\n\r\n'.encode()
            + data
            + b"\r\n"
        )
    return f"multipart/form-data; boundary={boundary}", b"".join(lines) + f"--{boundary}--\r\n".encode()


def mutated_uploads(seed: int) -> Iterator[Mutated]:
    """Mutated requests without end."""
    rng = np.random.default_rng(seed)
    good = small_scene()
    pixels = Image.open(io.BytesIO(good["rgb"]))
    pictures = [good["rgb"]]
    for kind in ("JPEG", "WEBP"):
        buffer = io.BytesIO()
        pixels.save(buffer, kind)
        pictures.append(buffer.getvalue())
    kinds: list[Callable[[Parts, np.random.Generator], Parts]] = [
        _cut, _cut, _flip, _flip, _flip, _swap, _foreign, _huge_header, _bomb, _zip_bomb, _bad_npy,
        _odd_npy, _odd_npy, _odd_chunks, _odd_chunks,
        _text, _empty, _other_pixels, _other_size, _damaged_body, _damaged_body, _many_parts,
    ]  # fmt: skip
    while True:
        parts = good | {"rgb": pictures[int(rng.integers(len(pictures)))]}
        mutate = kinds[int(rng.integers(len(kinds)))]
        path = ("/v1/decide/masks", "/v1/decide/masks", "/v1/decide/rgbd", "/v1/scenes")[int(rng.integers(4))]
        if path == "/v1/scenes":
            del parts["target"]
        parts = mutate(parts, rng)
        content_type, body = encode_multipart(parts)
        if mutate is _damaged_body:
            content_type, body = _damage(content_type, body, rng)
        yield Mutated(mutate.__name__.strip("_"), path, content_type, body)


def _pick(parts: Parts, rng: np.random.Generator) -> str:
    names = [name for name in ("rgb", "depth", "instances", "amodal") if name in parts]
    return names[int(rng.integers(len(names)))]


def _cut(parts: Parts, rng: np.random.Generator) -> Parts:
    name = _pick(parts, rng)
    return parts | {name: parts[name][: int(rng.integers(len(parts[name])))]}


def _flip(parts: Parts, rng: np.random.Generator) -> Parts:
    name = _pick(parts, rng)
    data = bytearray(parts[name])
    for _ in range(int(rng.integers(1, 12))):
        data[int(rng.integers(len(data)))] = int(rng.integers(256))
    return parts | {name: bytes(data)}


def _swap(parts: Parts, rng: np.random.Generator) -> Parts:
    return parts | {_pick(parts, rng): parts[_pick(parts, rng)]}


def _foreign(parts: Parts, rng: np.random.Generator) -> Parts:
    starts = (
        b"GIF89a",
        b"II*\0",
        b"%PDF-1.7",
        b"<svg>",
        b"BM",
        b"\x7fELF",
        b"RIFF\0\0\0\0AVI ",
        b"PK\x03\x04",
    )
    junk = starts[int(rng.integers(len(starts)))] + rng.bytes(int(rng.integers(4, 4000)))
    return parts | {_pick(parts, rng): junk}


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _png(width: int, height: int, bits: int, colour: int, data: bytes) -> bytes:
    header = struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", data) + _chunk(b"IEND", b"")


def _huge_header(parts: Parts, rng: np.random.Generator) -> Parts:
    """Sizes that no picture has, or none at all, with a right checksum."""
    sides = (0, 1, 64, 5_000, 65_535, 100_000, 2**31 - 1)
    width, height = (sides[int(rng.integers(len(sides)))] for _ in range(2))
    name = ("rgb", "depth", "instances")[int(rng.integers(3))]
    bits, colour = ((8, 2), (16, 0), (8, 0))[int(rng.integers(3))]
    return parts | {name: _png(width, height, bits, colour, zlib.compress(bytes(1000)))}


def _bomb(parts: Parts, rng: np.random.Generator) -> Parts:
    """A few kilobytes that unpack to as many pixels as are allowed, and to more."""
    side = (4_400, 4_500, 12_000)[int(rng.integers(3))]
    squeeze = zlib.compressobj(9)
    row = squeeze.compress(bytes(1 + 3 * side))
    data = row + b"".join(squeeze.compress(bytes(1 + 3 * side)) for _ in range(min(side, 4_500) - 1))
    name = ("rgb", "depth", "instances")[int(rng.integers(3))]
    bits, colour = ((8, 2), (16, 0), (8, 0))[int(rng.integers(3))]
    return parts | {name: _png(side, side, bits, colour, data + squeeze.flush())}


def _zip_bomb(parts: Parts, rng: np.random.Generator) -> Parts:
    """An npz that is small, and unpacks to gigabytes."""
    n = int(rng.integers(1, 60_000))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("ids.npy", "w") as stream:
            np.lib.format.write_array(stream, np.arange(1, n + 1))
        with archive.open("masks.npy", "w", force_zip64=True) as stream:
            header = {"descr": "|b1", "fortran_order": False, "shape": (n, 48, 64)}
            np.lib.format.write_array_header_1_0(stream, header)
            for _ in range(int(rng.integers(1, 20))):
                stream.write(bytes(2**20))
    data = buffer.getvalue()
    if rng.random() < 0.5:  # the directory lies about the size
        at = data.rfind(b"PK\x01\x02")
        data = data[: at + 24] + struct.pack("<I", 100) + data[at + 28 :]
    return parts | {"amodal": data}


def _bad_npy(parts: Parts, rng: np.random.Generator) -> Parts:
    """Arrays of other types and shapes, objects among them."""
    choices = [
        {"ids": np.array([1, 2]), "masks": np.zeros((2, 48, 64), np.float64)},
        {"ids": np.array([1, 2]), "masks": np.zeros((3, 48, 64), bool)},
        {"ids": np.array([1, 1]), "masks": np.zeros((2, 48, 64), bool)},
        {"ids": np.array([-1, 2**40]), "masks": np.zeros((2, 48, 64), bool)},
        {"ids": np.array(["a", "b"]), "masks": np.zeros((2, 48, 64), bool)},
        {"ids": np.array([1, None], object), "masks": np.zeros((2, 48, 64), bool)},
        {"other": np.zeros(3)},
        {"ids": np.array([1, 2]), "masks": np.asfortranarray(np.zeros((2, 48, 64), bool))},
    ]
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **choices[int(rng.integers(len(choices)))])
    return parts | {"amodal": buffer.getvalue()}


def npy_file(header: bytes, data: bytes) -> bytes:
    """An array file with a header that may be anything."""
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


def npz_file(ids: bytes, masks: bytes, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """An archive of two array files, with checksums that are right whatever they hold."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        archive.writestr("ids.npy", ids)
        archive.writestr("masks.npy", masks)
    return buffer.getvalue()


IDS_HEADER = b"{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }\n"
MASKS_HEADER = b"{'descr': '|b1', 'fortran_order': False, 'shape': (2, 48, 64), }\n"
BAD_HEADERS = (
    b"{'descr': (), 'fortran_order': False, 'shape': (2,), }",
    b"{1:2,'a':3}",
    b"{[]:1}",
    b"(" * 4000,
    b"-" * 9000 + b"1",
    b"{'a':{}}|1",
    b"{'descr': '<i8', 'fortran_order': False, 'shape': (99999999999999999999999999,), }",
    b"{'descr': '<U9999', 'fortran_order': False, 'shape': (65000,), }",
    b"",
)
"""Headers that NumPy's own reader fails at in its own ways."""


def _odd_npy(parts: Parts, rng: np.random.Generator) -> Parts:
    """Headers of arrays with wrong signs in them, packed in known and in rare ways."""
    headers = [bytearray(IDS_HEADER), bytearray(MASKS_HEADER)]
    changed = int(rng.integers(2))
    if rng.random() < 0.3:
        headers[changed] = bytearray(BAD_HEADERS[int(rng.integers(len(BAD_HEADERS)))])
    signs = b"'(){}[],:0129-|<OiU\0\xff"
    for _ in range(int(rng.integers(0, 6)) if headers[changed] else 0):
        headers[changed][int(rng.integers(len(headers[changed])))] = signs[int(rng.integers(len(signs)))]
    ids = npy_file(bytes(headers[0]), np.array([1, 2]).tobytes())
    masks = npy_file(bytes(headers[1]), bytes(2 * 48 * 64))
    methods = (zipfile.ZIP_DEFLATED, zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED, zipfile.ZIP_LZMA)
    return parts | {"amodal": npz_file(ids, masks, methods[int(rng.integers(4))])}


def with_chunk(png: bytes, kind: bytes, data: bytes) -> bytes:
    """A PNG with one chunk more, right after its header."""
    return png[:33] + _chunk(kind, data) + png[33:]


def _odd_chunks(parts: Parts, rng: np.random.Generator) -> Parts:
    """Pictures with chunks that do not belong there: a second header, an animation, colours, orientations."""
    name = ("rgb", "depth", "instances")[int(rng.integers(3))]
    if not parts[name].startswith(b"\x89PNG"):
        name = "depth"
    sides = (1, 48, 64, 6_000, 13_000, 20_000)
    width, height = (sides[int(rng.integers(len(sides)))] for _ in range(2))
    bits, colour = ((8, 2), (16, 0), (8, 0), (8, 6), (1, 3))[int(rng.integers(5))]
    orientation = b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01" + struct.pack(
        ">HHI", int(rng.integers(12)), 0, 0
    )
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, int(rng.integers(2)))),
        (b"acTL", struct.pack(">II", int(rng.integers(3)), 0)),
        (b"eXIf", orientation),
        (b"tRNS", rng.bytes(int(rng.integers(300)))),
        (b"PLTE", rng.bytes(int(rng.integers(300)))),
        (b"zTXt", b"a\0\0" + zlib.compress(bytes(2_000_000))),
        (b"IDAT", rng.bytes(20)),
    )
    return parts | {name: with_chunk(parts[name], *chunks[int(rng.integers(len(chunks)))])}


def _text(parts: Parts, rng: np.random.Generator) -> Parts:
    """Texts that are no numbers, no JSON, too long, or not text."""
    wrong = (
        b"NaN", b"-1", b"1e999", b"9" * 5000, b"\xff\xfe\x00", b"{" * 9000, b"[" * 9000, b'{"fx": NaN}',
        b'{"fx": 1}', b'{"width": 3, "height": 4}', b'{"fx": 1, "fx": 2}', b"null", b"0x10", b"../../x",
        b'{"T_world_camera": [[1,0,0,0],[0,1,0,0],[0,0,2,0],[0,0,0,1]]}', b"1,2,3", b"nan,nan", b"1e400,5",
    )  # fmt: skip
    names = ("camera", "depth_unit_m", "target", "point", "request", "tau")
    changed = {k: v for k, v in parts.items() if k != "target"} if rng.random() < 0.5 else dict(parts)
    return changed | {names[int(rng.integers(len(names)))]: wrong[int(rng.integers(len(wrong)))]}


def _empty(parts: Parts, rng: np.random.Generator) -> Parts:
    name = _pick(parts, rng)
    if rng.random() < 0.5:
        return {k: v for k, v in parts.items() if k != name}
    return parts | {name: b""}


def _other_pixels(parts: Parts, rng: np.random.Generator) -> Parts:
    """Pictures with other kinds of pixel than wanted."""
    mode = ("1", "L", "LA", "P", "RGB", "RGBA", "I;16")[int(rng.integers(7))]
    buffer = io.BytesIO()
    if mode == "I;16":
        Image.fromarray(np.full((48, 64), 70_000 % 65_536, np.uint16)).save(buffer, "PNG")
    else:
        Image.new("RGBA", (64, 48), (10, 200, 30, 9)).convert(mode).save(buffer, "PNG")
    return parts | {("rgb", "depth", "instances")[int(rng.integers(3))]: buffer.getvalue()}


def _other_size(parts: Parts, rng: np.random.Generator) -> Parts:
    other = small_scene(int(rng.integers(16, 200)), int(rng.integers(16, 200)))
    name = _pick(parts, rng)
    return parts | {name: other[name]}


def _damaged_body(parts: Parts, rng: np.random.Generator) -> Parts:
    return parts


def _many_parts(parts: Parts, rng: np.random.Generator) -> Parts:
    if rng.random() < 0.5:
        return parts | {f"part{k}": b"x" for k in range(int(rng.integers(1, 60)))}
    return parts | {"camera": b" " * int(rng.integers(10_000, 300_000))}


def _damage(content_type: str, body: bytes, rng: np.random.Generator) -> tuple[str, bytes]:
    """A multipart body that is none, or not all of one."""
    choice = int(rng.integers(6))
    if choice == 0:
        return content_type, body[: int(rng.integers(len(body)))]
    if choice == 1:
        return "multipart/form-data", body
    if choice == 2:
        return "multipart/form-data; boundary=other", body
    if choice == 3:
        return "application/json", body
    if choice == 4:
        return content_type, body.replace(b"Content-Disposition", rng.bytes(8), 1)
    damaged = bytearray(body)
    for _ in range(20):
        damaged[int(rng.integers(min(len(damaged), 300)))] = int(rng.integers(256))
    return content_type, bytes(damaged)
