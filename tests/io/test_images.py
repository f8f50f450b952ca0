"""One image reads the same wherever it is read."""

import io

import numpy as np
import pytest
from PIL import ExifTags, Image

from cpor.errors import SceneFileError
from cpor.io.frame_files import read_frame
from cpor.io.images import (
    DEPTH,
    IDS,
    ImageKindError,
    ImageSizeError,
    decode_grey,
    decode_photograph,
    encode_png,
)
from cpor.io.scene_folder import read_scene_folder
from cpor.serve.http.uploads import read_upload

LIMITS = (1_000_000, 1_000_000)


def photograph(orientation=None, kind="JPEG", shape=(40, 60)):
    """A picture with a bright upper left corner, stored as a camera that was held otherwise stores it."""
    pixels = np.full((*shape, 3), 40, np.uint8)
    pixels[: shape[0] // 4, : shape[1] // 4] = 230
    exif = Image.Exif()
    if orientation:
        exif[ExifTags.Base.Orientation] = orientation
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, format=kind, exif=exif)
    return buffer.getvalue()


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize(
    ("orientation", "shape", "corner"),
    [(None, (40, 60), (0, 0)), (1, (40, 60), (0, 0)), (3, (40, 60), (-1, -1)), (6, (60, 40), (0, -1))],
)
def test_a_turned_photograph_reads_the_same_everywhere(tmp_path, kind, orientation, shape, corner):
    data = photograph(orientation, kind)
    (tmp_path / "rgb.png").write_bytes(data)  # the content counts, not the name
    everywhere = [
        decode_photograph(data, "it")[0],
        read_frame(tmp_path / "rgb.png", None)[0].rgb,
        read_scene_folder(tmp_path).observation.rgb,
        read_upload({"rgb": data}, LIMITS).scene.observation.rgb,
    ]
    for pixels in everywhere:
        assert pixels.shape == (*shape, 3) and pixels[corner].min() > 200
        assert (pixels == everywhere[0]).all()


def test_depth_is_not_turned_with_it_so_both_are_refused(tmp_path):
    (tmp_path / "rgb.png").write_bytes(photograph(6))
    depth = encode_png(np.full((40, 60), 800, np.uint16))
    (tmp_path / "depth.png").write_bytes(depth)
    (tmp_path / "camera.json").write_text('{"depth_unit_m": 0.001}')
    for read in (
        lambda: read_frame(tmp_path / "rgb.png", tmp_path / "depth.png"),
        lambda: read_scene_folder(tmp_path),
        lambda: read_upload({"rgb": photograph(6), "depth": depth}, LIMITS),
    ):
        with pytest.raises(SceneFileError, match="on its side or mirrored"):
            read()


def test_grey_images_keep_their_numbers():
    steps = np.arange(6, dtype=np.uint16).reshape(2, 3) * 10_000
    assert (decode_grey(encode_png(steps), "depth", DEPTH) == steps).all()
    ids = np.arange(6, dtype=np.uint8).reshape(2, 3)
    assert (decode_grey(encode_png(ids), "ids", IDS) == ids).all()
    assert (decode_grey(encode_png(steps), "ids", IDS) == steps).all()
    with pytest.raises(SceneFileError, match="depth holds L pixels; depth needs 16 bits"):
        decode_grey(encode_png(ids), "depth", DEPTH)


def test_what_is_too_large_is_refused_before_it_is_decoded():
    data = photograph(kind="PNG", shape=(300, 400))
    with pytest.raises(ImageSizeError, match="400 x 300 pixels; at most 1,000"):
        decode_photograph(data[:100], "it", most_pixels=1000)  # nothing behind the header is needed
    with pytest.raises(ImageSizeError, match="400 x 300 pixels"):
        decode_photograph(photograph(shape=(300, 400)), "it", most_pixels=1000)


def test_a_large_photograph_shrinks_where_asked():
    pixels, shape, step = decode_photograph(photograph(6, shape=(300, 400)), "it", shrink_above=40_000)
    assert shape == (400, 300) and step == 2 and pixels.shape == (200, 150, 3)


@pytest.mark.parametrize("data", [b"", b"GIF89a" + bytes(50), b"RIFF" + bytes(20)])
def test_other_files_are_refused(data):
    with pytest.raises(ImageKindError, match="not a PNG, JPEG or WebP"):
        decode_photograph(data, "it")


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_damage_is_said(kind):
    data = photograph(kind=kind)
    with pytest.raises(SceneFileError, match="it is damaged"):
        decode_photograph(data[: len(data) // 2], "it")
