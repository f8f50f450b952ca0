"""One frame in the many forms in which people have theirs, and in forms that are broken.

Each form writes files into a folder and gives what to put after `cpor decide`.
"""

import json
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

Form = Callable[[Path, "Shot"], list[Path]]


@dataclass(frozen=True)
class Shot:
    """A frame: photograph (h, w, 3), depth in whole millimetres (h, w), fx, fy, cx, cy."""

    rgb: np.ndarray
    mm: np.ndarray
    k: tuple[float, float, float, float]

    @property
    def metres(self) -> np.ndarray:
        return (self.mm * 0.001).astype(np.float32)

    @property
    def matrix(self) -> np.ndarray:
        fx, fy, cx, cy = self.k
        return np.array([[fx, 0.0, cx], [0.0, fy, cy], [0.0, 0.0, 1.0]])


def picture(path: Path, pixels: np.ndarray, **options) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, **options)
    return path


def array(path: Path, values: np.ndarray) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, values)
    return path


def text(path: Path, words: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(words)
    return path


def raw(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def exr(path: Path, z: np.ndarray, zipped: bool = True, name: str = "Z", coding: int | None = None) -> Path:
    """One channel, in blocks of 16 zipped lines or in plain lines."""
    kind, z = (1, z) if z.dtype == np.float16 else (2, z.astype("<f4"))
    height, width = z.shape
    channels = name.encode() + b"\0" + struct.pack("<iIii", kind, 0, 1, 1) + b"\0"
    window = struct.pack("<4i", 0, 0, width - 1, height - 1)
    fields = [
        ("channels", "chlist", channels),
        ("compression", "compression", bytes([coding if coding is not None else 3 if zipped else 0])),
        ("dataWindow", "box2i", window),
        ("displayWindow", "box2i", window),
        ("lineOrder", "lineOrder", b"\0"),
    ]
    head = b"\x76\x2f\x31\x01" + struct.pack("<I", 2)
    for key, type_name, value in fields:
        head += key.encode() + b"\0" + type_name.encode() + b"\0" + struct.pack("<I", len(value)) + value
    head += b"\0"
    blocks = []
    for top in range(0, height, 16 if zipped else 1):
        plain = z[top : top + (16 if zipped else 1)].tobytes()
        if zipped:
            split = np.frombuffer(plain[0::2] + plain[1::2], np.uint8).astype(np.int64)
            steps = split.copy()
            steps[1:] = (np.diff(split) + 128) % 256
            packed = zlib.compress(steps.astype(np.uint8).tobytes())
            plain = packed if len(packed) < len(plain) else plain
        blocks.append(struct.pack("<ii", top, len(plain)) + plain)
    places, at = b"", len(head) + 8 * len(blocks)
    for block in blocks:
        places += struct.pack("<Q", at)
        at += len(block)
    return raw(path, head + places + b"".join(blocks))


def files(rgb: Callable[[Path, Shot], Path], depth: Callable[[Path, Shot], Path]) -> Form:
    return lambda folder, shot: [rgb(folder, shot), depth(folder, shot)]


def png(folder: Path, shot: Shot) -> Path:
    return picture(folder / "a.png", shot.rgb)


def steps(folder: Path, shot: Shot) -> Path:
    return picture(folder / "b.png", shot.mm)


def with_rgb(name: str, **options) -> Form:
    return files(lambda folder, shot: picture(folder / name, shot.rgb, **options), steps)


def with_depth(name: str, change: Callable[[Shot], np.ndarray]) -> Form:
    write = array if name.endswith("npy") else picture
    return files(png, lambda folder, shot: write(folder / name, change(shot)))


def with_beside(name: str, content: Callable[[Shot], object]) -> Form:
    def form(folder: Path, shot: Shot) -> list[Path]:
        text(folder / name, json.dumps(content(shot)))
        return [png(folder, shot), steps(folder, shot)]

    return form


def in_folder(rgb: str, depth: str, *others: tuple[str, Callable[[Shot], str]], count: int = 1) -> Form:
    """Files side by side or in folders; `{}` in a name is the number of a frame."""

    def form(folder: Path, shot: Shot) -> list[Path]:
        for k in range(count):
            picture(folder / rgb.format(k), shot.rgb)
            name = folder / depth.format(k)
            if name.suffix == ".npy":
                array(name, shot.metres)
            elif name.suffix == ".raw":
                raw(name, shot.mm.tobytes())
            else:
                picture(name, shot.mm)
        for name, words in others:
            text(folder / name, words(shot))
        return [folder]

    return form


def _npz(**arrays: Callable[[Shot], np.ndarray]) -> Form:
    def form(folder: Path, shot: Shot) -> list[Path]:
        np.savez_compressed(folder / "both.npz", **{name: make(shot) for name, make in arrays.items()})
        return [folder / "both.npz"]

    return form


def _npz_depth(name: str) -> Form:
    def form(folder: Path, shot: Shot) -> list[Path]:
        np.savez(folder / "d.npz", **{name: shot.metres})
        return [png(folder, shot), folder / "d.npz"]

    return form


def rows(matrix: np.ndarray) -> str:
    return "\n".join(" ".join(f"{x:.6f}" for x in row) for row in matrix)


def four(matrix: np.ndarray) -> str:
    whole = np.eye(4)
    whole[:3, :3] = matrix
    return rows(whole)


def metadata(shot: Shot, kind: str, wrong: float = 1.0) -> str:
    fx, fy, cx, cy = shot.k
    return (
        f"Frame Info: \nType,{kind}\nFormat,Z16\nFrame Number,7\nResolution x,{shot.rgb.shape[1]}\n"
        f"Resolution y,{shot.rgb.shape[0]}\nBytes per pixel,2\n\nIntrinsic:,\nFx,{fx * wrong:.6f}\n"
        f"Fy,{fy:.6f}\nPPx,{cx:.6f}\nPPy,{cy:.6f}\nDistorsion,Brown Conrady\n"
    )


def _bop(scale: float) -> Form:
    def form(folder: Path, shot: Shot) -> list[Path]:
        picture(folder / "rgb" / "000003.png", shot.rgb)
        picture(folder / "depth" / "000003.png", (shot.mm / scale).astype(np.uint16))
        entry = {"cam_K": shot.matrix.reshape(-1).tolist(), "depth_scale": scale}
        text(folder / "scene_camera.json", json.dumps({"3": entry}))
        return [folder]

    return form


def _tum(times: str, listed: bool) -> Form:
    def form(folder: Path, shot: Shot) -> list[Path]:
        one, other = "1305031102.175304", times
        picture(folder / "rgb" / f"{one}.png", shot.rgb)
        picture(folder / "depth" / f"{other}.png", (shot.mm * 5).astype(np.uint16))
        if listed:
            text(folder / "associations.txt", f"{one} rgb/{one}.png {other} depth/{other}.png\n")
        else:
            text(folder / "rgb.txt", f"# color images\n{one} rgb/{one}.png\n")
        return [folder]

    return form


def _scannet_half(folder: Path, shot: Shot) -> list[Path]:
    """Depth of half the size, of a camera of its own at the same place."""
    picture(folder / "color" / "0.jpg", shot.rgb, quality=98)
    picture(folder / "depth" / "0.png", np.ascontiguousarray(shot.mm[::2, ::2]))
    # Every second pixel: index 2 i becomes i.
    half = np.diag([0.5, 0.5, 1.0]) @ shot.matrix
    text(folder / "intrinsic" / "intrinsic_color.txt", four(shot.matrix))
    text(folder / "intrinsic" / "intrinsic_depth.txt", four(half))
    for role in ("color", "depth"):
        text(folder / "intrinsic" / f"extrinsic_{role}.txt", rows(np.eye(4)))
    return [folder]


def _drawn_beside(folder: Path, shot: Shot) -> list[Path]:
    picture(folder / "color.png", shot.rgb)
    picture(folder / "depth.png", np.repeat((shot.mm // 8).astype(np.uint8)[..., None], 3, axis=2))
    array(folder / "depth.npy", shot.metres)
    return [folder]


def camera_values(shot: Shot, **more: object) -> dict[str, object]:
    return dict(zip(("fx", "fy", "cx", "cy"), shot.k, strict=True)) | more


def _theirs(shot: Shot) -> dict[str, object]:
    fx, fy, cx, cy = shot.k
    return {"fx": fx, "fy": fy, "ppx": cx, "ppy": cy, "depth_scale": 0.001}


def _open3d(shot: Shot) -> str:
    size = {"width": shot.rgb.shape[1], "height": shot.rgb.shape[0]}
    return json.dumps(size | {"intrinsic_matrix": shot.matrix.T.reshape(-1).tolist()})


def _graspnet(folder: Path, shot: Shot) -> list[Path]:
    in_folder("rgb/{:04d}.png", "depth/{:04d}.png", count=2)(folder, shot)
    array(folder / "camK.npy", shot.matrix)
    return [folder]


EXACT: dict[str, Form] = {
    "two PNG": files(png, steps),
    "WebP, lossless": with_rgb("a.webp", lossless=True),
    "TIFF photograph": with_rgb("a.tiff"),
    "capital ending": with_rgb("A.PNG"),
    "a PNG called .jpg": with_rgb("a.jpg", format="PNG"),
    "RGBA photograph": files(
        lambda folder, shot: picture(folder / "a.png", np.dstack([shot.rgb, shot.rgb[..., 0] | 255])),
        steps,
    ),
    "photograph as npy": files(lambda folder, shot: array(folder / "a.npy", shot.rgb), steps),
    "photograph as npy, channels first": files(
        lambda folder, shot: array(folder / "a.npy", np.moveaxis(shot.rgb, 2, 0)), steps
    ),
    "npy uint16 mm": with_depth("d.npy", lambda shot: shot.mm),
    "npy int32 mm": with_depth("d.npy", lambda shot: shot.mm.astype(np.int32)),
    "npy float32 m": with_depth("d.npy", lambda shot: shot.metres),
    "npy float32 mm": with_depth("d.npy", lambda shot: shot.mm.astype(np.float32)),
    "npy float64 m": with_depth("d.npy", lambda shot: shot.mm * 0.001),
    "npy NaN for no reading": with_depth(
        "d.npy", lambda shot: np.where(shot.mm > 0, shot.metres, np.float32(np.nan))
    ),
    "npy (1, h, w)": with_depth("d.npy", lambda shot: shot.metres[None]),
    "npy (h, w, 1)": with_depth("d.npy", lambda shot: shot.metres[..., None]),
    "npy columns first": with_depth("d.npy", lambda shot: np.asfortranarray(shot.metres)),
    "npy big-endian": with_depth("d.npy", lambda shot: shot.metres.astype(">f4")),
    "npz depth": _npz_depth("depth"),
    "npz arr_0": _npz_depth("arr_0"),
    "npz of both": _npz(rgb=lambda shot: shot.rgb, depth=lambda shot: shot.metres),
    "npz color and depth_image": _npz(color=lambda shot: shot.rgb, depth_image=lambda shot: shot.mm),
    "TIFF uint16 mm": with_depth("d.tiff", lambda shot: shot.mm),
    "TIFF float32 m": with_depth("d.tif", lambda shot: shot.metres),
    "TIFF float32 mm": with_depth("d.tif", lambda shot: shot.mm.astype(np.float32)),
    "EXR zipped m": files(png, lambda folder, shot: exr(folder / "d.exr", shot.metres)),
    "EXR plain mm": files(
        png, lambda folder, shot: exr(folder / "d.exr", shot.mm.astype("f4"), False, "ViewLayer.Depth.Z")
    ),
    "PNG of 0.1 mm": with_depth("d.png", lambda shot: (shot.mm * 10).astype(np.uint16)),
    "camera.json beside": with_beside("camera.json", lambda shot: camera_values(shot, depth_unit_m=0.001)),
    "camera.json of others": with_beside("camera.json", _theirs),
    "folder rgb, depth": in_folder("rgb.png", "depth.png"),
    "folder rgb, depth.npy": in_folder("rgb.png", "depth.npy"),
    "folder color, depth.npy": in_folder("color.png", "depth.npy"),
    "folder image, depth": in_folder("image.tiff", "depth.png"),
    "folder color_0000": in_folder("color_{:04d}.png", "depth_{:04d}.png", count=3),
    "folder 0003000_color": in_folder("0003000_color.png", "0003000_depth.png"),
    "folder 2c, 2d": in_folder("2c.png", "2d.png"),
    "folder frame-000000.color": in_folder("frame-{:06d}.color.png", "frame-{:06d}.depth.png", count=2),
    "folder aligned_depth_to_color": in_folder("color_{}.png", "aligned_depth_to_color_{}.png", count=2),
    "folder with drawn depth": _drawn_beside,
    "folders rgb, depth": in_folder("rgb/{:04d}.png", "depth/{:04d}.png", count=2),
    "folders images, depth": in_folder("images/img_{}.png", "depth/img_{:04d}.png", count=2),
    "BOP": _bop(1.0),
    "BOP, depth_scale 0.1": _bop(0.1),
    "TUM with associations": _tum("1305031102.160407", True),
    "TUM by time": _tum("1305031102.160407", False),
    "ScanNet": in_folder(
        "color/{}.png", "depth/{}.png", ("intrinsic/intrinsic_color.txt", lambda shot: four(shot.matrix))
    ),
    "GraspNet": _graspnet,
    "FoundationPose": in_folder(
        "rgb/{:06d}.png", "depth/{:06d}.png", ("cam_K.txt", lambda shot: rows(shot.matrix)), count=2
    ),
    "Open3D recorder": in_folder(
        "color/{:06d}.png", "depth/{:06d}.png", ("camera_intrinsic.json", _open3d), count=2
    ),
    "RealSense viewer": in_folder(
        "shot_Color.png", "shot_Depth.raw", ("shot_Color_metadata.csv", lambda shot: metadata(shot, "Color")),
        ("shot_Depth_metadata.csv", lambda shot: metadata(shot, "Depth")),
    ),
    "RealSense by time": in_folder("x_Color_1548232451235.23.png", "x_Depth_1548232451240.11.png"),
}  # fmt: skip
"""These give the very same frame."""

LOSSY: dict[str, Form] = {
    "JPEG": with_rgb("a.jpg", quality=95),
    "WebP": with_rgb("a.webp", quality=95),
    "npy float16 m": with_depth("d.npy", lambda shot: shot.metres.astype(np.float16)),
    "EXR half m": files(png, lambda folder, shot: exr(folder / "d.exr", shot.metres.astype(np.float16))),
    "ScanNet, depth of half the size": _scannet_half,
}
"""These lose a little."""
