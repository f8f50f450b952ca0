"""Forms of one frame that are broken: refused with one clear error, or held back by a check."""

import struct
import zipfile
import zlib
from pathlib import Path

import numpy as np
from PIL import ExifTags, Image

from support.input_forms import (
    EXACT,
    Form,
    Shot,
    camera_values,
    exr,
    files,
    in_folder,
    metadata,
    picture,
    png,
    raw,
    steps,
    text,
    with_beside,
    with_depth,
)


def cut(name: str, make: Form, which: int, share: float = 0.5) -> Form:
    def form(folder: Path, shot: Shot) -> list[Path]:
        made = make(folder, shot)
        data = made[which].read_bytes()
        made[which].write_bytes(data[: int(len(data) * share)])
        return made

    return form


def instead(which: int, data: bytes, ending: str = ".png") -> Form:
    def form(folder: Path, shot: Shot) -> list[Path]:
        made = [png(folder, shot), steps(folder, shot)]
        made[which] = raw(folder / f"other{ending}", data)
        return made

    return form


def _on_its_side(folder: Path, shot: Shot) -> list[Path]:
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6
    return [picture(folder / "a.jpg", shot.rgb, exif=exif), steps(folder, shot)]


def _wrong_checksum(folder: Path, shot: Shot) -> list[Path]:
    made = [png(folder, shot), steps(folder, shot)]
    data = bytearray(made[1].read_bytes())
    data[len(data) // 2] ^= 0xFF
    made[1].write_bytes(bytes(data))
    return made


def _bomb(folder: Path, shot: Shot) -> list[Path]:
    header = struct.pack(">IIBBBBB", 60_000, 60_000, 16, 0, 0, 0, 0)
    chunk = b"IHDR" + header
    data = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + chunk + struct.pack(">I", zlib.crc32(chunk))
    return [png(folder, shot), raw(folder / "d.png", data)]


def _huge_npy(folder: Path, shot: Shot) -> list[Path]:
    head = b"{'descr': '<f4', 'fortran_order': False, 'shape': (900000, 900000), }\n"
    data = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head
    return [png(folder, shot), raw(folder / "d.npy", data)]


def _pickled(folder: Path, shot: Shot) -> list[Path]:
    np.save(folder / "d.npy", np.array([{"depth": 1}], object), allow_pickle=True)
    return [png(folder, shot), folder / "d.npy"]


def _npz_without(folder: Path, shot: Shot) -> list[Path]:
    np.savez(folder / "d.npz", normals=shot.rgb, flow=shot.rgb)
    return [png(folder, shot), folder / "d.npz"]


def _zip_of_nothing(folder: Path, shot: Shot) -> list[Path]:
    with zipfile.ZipFile(folder / "d.npz", "w") as archive:
        archive.writestr("readme.txt", "no arrays")
    return [png(folder, shot), folder / "d.npz"]


def _unaligned(folder: Path, shot: Shot) -> list[Path]:
    return in_folder(
        "s_Color.png", "s_Depth.png", ("s_Color_metadata.csv", lambda one: metadata(one, "Color")),
        ("s_Depth_metadata.csv", lambda one: metadata(one, "Depth", 0.7)),
    )(folder, shot)  # fmt: skip


def _camera_says(words: str) -> Form:
    def form(folder: Path, shot: Shot) -> list[Path]:
        text(folder / "camera.json", words)
        return [png(folder, shot), steps(folder, shot)]

    return form


REFUSED: dict[str, Form] = {
    "photograph cut short": cut("a", files(png, steps), 0),
    "depth cut short": cut("b", files(png, steps), 1),
    "npy cut short": cut("c", with_depth("d.npy", lambda shot: shot.metres), 1),
    "EXR cut short": cut("d", EXACT["EXR zipped m"], 1),
    "TIFF cut short": cut("e", EXACT["TIFF float32 m"], 1),
    "npz cut short": cut("f", EXACT["npz depth"], 1),
    "depth with a flipped byte": _wrong_checksum,
    "empty photograph": instead(0, b""),
    "empty depth": instead(1, b""),
    "a web page for a photograph": instead(0, b"<!doctype html><title>404</title>", ".jpg"),
    "text for depth": instead(1, b"0.5 0.6 0.7", ".npy"),
    "absent depth": lambda folder, shot: [png(folder, shot), folder / "absent.png"],
    "absent folder": lambda folder, shot: [folder / "absent"],
    "empty folder": lambda folder, shot: [folder],
    "depth before the photograph": lambda folder, shot: [steps(folder, shot), png(folder, shot)],
    "depth as JPEG": with_depth("d.jpg", lambda shot: (shot.mm // 8).astype(np.uint8)),
    "depth of 8 bits": with_depth("d.png", lambda shot: (shot.mm // 8).astype(np.uint8)),
    "depth in false colours": with_depth("d.png", lambda shot: shot.rgb),
    "depth of 60,000 x 60,000": _bomb,
    "npy that claims 900,000 x 900,000": _huge_npy,
    "pickled npy": _pickled,
    "npy of three channels": with_depth("d.npy", lambda shot: shot.rgb.astype(np.float32)),
    "npy of one row": with_depth("d.npy", lambda shot: shot.metres.reshape(-1)),
    "npy of complex numbers": with_depth("d.npy", lambda shot: shot.metres.astype(np.complex64)),
    "npz without depth": _npz_without,
    "npz of nothing": _zip_of_nothing,
    "EXR of another compression": files(
        png, lambda folder, shot: exr(folder / "d.exr", shot.metres, coding=4)
    ),
    "EXR for a photograph": files(lambda folder, shot: exr(folder / "a.exr", shot.metres), steps),
    "depth of another shape": with_depth("d.png", lambda shot: np.ascontiguousarray(shot.mm[::2])),
    "photograph on its side": _on_its_side,
    "camera.json that is no JSON": _camera_says("{fx: 500"),
    "camera.json with NaN": _camera_says('{"fx": NaN, "fy": 1, "cx": 1, "cy": 1}'),
    "camera.json of another size": _camera_says('{"width": 64, "height": 48}'),
    "camera.json with half the intrinsics": _camera_says('{"fx": 500.0}'),
    "camera.json with a negative unit": _camera_says('{"depth_unit_m": -0.001}'),
    "BOP without this frame": in_folder(
        "rgb/{:06d}.png", "depth/{:06d}.png", ("scene_camera.json", lambda shot: '{"77": {}}')
    ),
    "TUM list of nonsense": in_folder("rgb/1.png", "depth/1.png", ("associations.txt", lambda shot: "a b c")),
    "ScanNet with words for numbers": in_folder(
        "color/0.png", "depth/0.png", ("intrinsic/intrinsic_color.txt", lambda shot: "not a matrix")
    ),
    "RealSense not aligned": _unaligned,
    "names that do not match": in_folder("color_{}_left.png", "depth_{}_right.png", count=2),
    "raw depth of another size": lambda folder, shot: [
        png(folder, shot), raw(folder / "d.raw", shot.mm[:-3].tobytes())
    ],
}  # fmt: skip
"""One error that names the file and says what to do."""

HELD: dict[str, Form] = {
    "depth all zero": with_depth("d.png", lambda shot: np.zeros_like(shot.mm)),
    "depth constant": with_depth("d.png", lambda shot: np.full_like(shot.mm, 700)),
    "depth all NaN": with_depth("d.npy", lambda shot: np.full(shot.mm.shape, np.nan, np.float32)),
    "depth negative": with_depth("d.npy", lambda shot: -shot.metres - 1.0),
    "depth turned upside down": with_depth("d.png", lambda shot: np.ascontiguousarray(shot.mm[::-1])),
    "unit ten times too large": with_beside(
        "camera.json", lambda shot: camera_values(shot, depth_unit_m=0.01)
    ),
    "unit of a metre": with_beside("camera.json", lambda shot: camera_values(shot, depth_unit_m=1.0)),
    "black photograph": files(lambda folder, shot: picture(folder / "a.png", shot.rgb // 64), steps),
    "photograph of one colour": files(
        lambda folder, shot: picture(folder / "a.png", np.full_like(shot.rgb, 120)), steps
    ),
}
"""Files that can be read and must not be acted on: a check fails."""
