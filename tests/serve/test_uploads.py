import io
import re
import struct
import tracemalloc
import zipfile

import httpx
import numpy as np
import pytest
from PIL import Image
from serve.mutated_uploads import (
    BAD_HEADERS,
    IDS_HEADER,
    MASKS_HEADER,
    mutated_uploads,
    npy_file,
    npz_file,
    small_scene,
    with_chunk,
)
from support.sizes import sized

from cpor.errors import CporError, InvalidSettingError, SceneFileError, TooLargeError
from cpor.serve.api.answered import ErrorReply
from cpor.serve.api.asked import MOST_OBJECTS
from cpor.serve.http.refusals import Refusal, TooMuch, Unsupported, say_refusal
from cpor.serve.http.uploads import ANALYSED_PIXELS, read_upload

LIMITS = (20_000_000, 128_000_000)


def upload(**changes):
    parts = small_scene()
    parts.pop("target")
    given = {name: part.encode() if isinstance(part, str) else part for name, part in changes.items()}
    return {name: part for name, part in (parts | given).items() if part is not None}


def image_file(kind, pixels, **options):
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, kind, **options)
    return buffer.getvalue()


def test_a_whole_upload_is_a_scene():
    received = read_upload(upload(), LIMITS)
    scene = received.scene
    assert (received.size, received.shrunk) == ((64, 48), 1)
    assert scene.ids == (1, 2)
    assert scene.observation.camera.intrinsics.fx == 60
    assert np.nanmax(scene.observation.depth) == pytest.approx(0.8)
    assert scene.objects[0].amodal.pixels.all()


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_the_picture_is_known_by_its_content(kind, rng):
    pixels = np.full((30, 40, 3), (200, 30, 40), np.uint8)
    seen = read_upload({"rgb": image_file(kind, pixels)}, LIMITS).scene.observation
    assert seen.shape == (30, 40) and seen.depth is None
    assert np.abs(seen.rgb.astype(int) - pixels).max() < 12


def test_a_picture_on_its_side_is_turned_as_browsers_show_it():
    exif = Image.Exif()
    exif[0x0112] = 6
    data = image_file("JPEG", np.zeros((20, 40, 3), np.uint8), exif=exif)
    assert read_upload({"rgb": data}, LIMITS).size == (20, 40)


@pytest.mark.parametrize("orientation", range(2, 9))
def test_a_picture_is_not_turned_away_from_what_comes_with_it(orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    turned = image_file("PNG", np.zeros((48, 64, 3), np.uint8), exif=exif)
    whole = small_scene()
    for name in ("depth", "instances", "camera"):
        part = whole[name].decode() if name == "camera" else whole[name]
        with pytest.raises(SceneFileError, match=f"{name} is not; save rgb upright"):
            read_upload({"rgb": turned, name: part}, LIMITS)
    exif[0x0112] = 1
    upright = image_file("PNG", np.zeros((48, 64, 3), np.uint8), exif=exif)
    assert read_upload(upload(rgb=upright), LIMITS).size == (64, 48)


def test_large_pictures_are_analysed_smaller():
    pixels = np.zeros((2000, 3000, 3), np.uint8)
    pixels[:, 1500:] = 255
    ids = (pixels[..., 0] > 0).astype(np.uint8)
    camera = '{"fx": 1000, "fy": 1000, "cx": 1499.5, "cy": 999.5, "workspace": [[0, 0], [900, 0], [0, 90]]}'
    big = {"rgb": image_file("PNG", pixels), "instances": image_file("PNG", ids), "camera": camera.encode()}
    received = read_upload(big, LIMITS)
    assert received.shrunk == 2 and received.size == (3000, 2000)
    seen = received.scene
    assert seen.observation.shape == seen.visible_ids.shape == (1000, 1500)
    assert seen.observation.shape[0] * seen.observation.shape[1] <= ANALYSED_PIXELS
    assert (seen.visible_ids == (seen.observation.rgb[..., 0] > 0)).all()
    assert seen.observation.camera.intrinsics.cx == pytest.approx(749.5)
    assert seen.observation.camera.workspace == ((0, 0), (450, 0), (0, 45))


def test_what_is_too_thin_to_be_seen_smaller_does_not_vanish_in_silence():
    rgb = image_file("PNG", np.zeros((2000, 3000, 3), np.uint8))
    ids = np.zeros((2000, 3000), np.uint8)
    ids[:900] = 1
    ids[1001, 10:2000] = 7  # every second row is left
    with pytest.raises(SceneFileError, match="instances: object 7 is too thin"):
        read_upload({"rgb": rgb, "instances": image_file("PNG", ids)}, LIMITS)
    ids[1000, 10:2000] = 7
    assert read_upload({"rgb": rgb, "instances": image_file("PNG", ids)}, LIMITS).scene.ids == (1, 7)


def test_a_depth_unit_goes_before_that_of_the_camera():
    seen = read_upload(upload(depth_unit_m="0.0005"), LIMITS).scene.observation
    assert np.nanmax(seen.depth) == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"rgb": b"GIF89a" + bytes(40)}, Unsupported, "PNG, JPEG or WebP"),
        ({"rgb": b"RIFF\0\0\0\0AVI " + bytes(40)}, Unsupported, "PNG, JPEG or WebP"),
        ({"rgb": small_scene()["rgb"][:300]}, SceneFileError, "rgb is damaged"),
        ({"rgb": small_scene(50, 48)["rgb"]}, SceneFileError, "bring them to one size"),
        ({"depth": small_scene()["instances"]}, SceneFileError, "16 bits"),
        ({"depth": b"\xff\xd8\xff" + bytes(99)}, Unsupported, "depth is not a PNG"),
        ({"instances": small_scene()["rgb"]}, SceneFileError, "8- or 16-bit grey"),
        ({"amodal": b"no zip"}, Unsupported, "npz"),
        ({"amodal": b"PK" + bytes(99)}, SceneFileError, "amodal is damaged"),
        ({"instances": None}, InvalidSettingError, "send both"),
        ({"camera": '{"fx": NaN}'}, SceneFileError, "camera"),
        ({"camera": '{"fx": 1.0}'}, SceneFileError, "give all or none"),
        ({"camera": '{"width": 7}'}, SceneFileError, "camera of this picture"),
    ],
)
def test_what_cannot_be_used_is_refused_by_name(changes, error, says):
    with pytest.raises(error, match=says):
        read_upload(upload(**changes), LIMITS)


def test_pixels_are_counted_before_they_are_decoded():
    with pytest.raises(TooMuch, match="64 x 48"):
        read_upload(upload(), (3_000, 10**9))
    for kind in ("PNG", "JPEG", "WEBP"):
        data = image_file(kind, np.zeros((100, 100, 3), np.uint8))
        with pytest.raises(TooMuch, match="100 x 100"):
            read_upload({"rgb": data}, (9_999, 10**9))


def test_masks_are_counted_before_they_are_unpacked():
    with pytest.raises((TooMuch, TooLargeError), match="amodal"):
        read_upload(upload(), (10**6, 6_000))


def test_objects_are_counted():
    ids = np.arange(64 * 48, dtype=np.uint16).reshape(48, 64) % (MOST_OBJECTS + 2)
    with pytest.raises(TooMuch, match=f"at most {MOST_OBJECTS}"):
        read_upload(upload(instances=image_file("PNG", ids), amodal=None), LIMITS)


@pytest.mark.parametrize("header", BAD_HEADERS)
def test_headers_of_arrays_are_not_left_to_a_parser(header):
    ids, masks = np.array([1, 2]).tobytes(), bytes(2 * 48 * 64)
    good = npz_file(npy_file(IDS_HEADER, ids), npy_file(MASKS_HEADER, masks))
    assert read_upload(upload(amodal=good), LIMITS).scene.ids == (1, 2)
    for bad in (
        npz_file(npy_file(header, ids), npy_file(MASKS_HEADER, masks)),
        npz_file(npy_file(IDS_HEADER, ids), npy_file(header, masks)),
    ):
        with pytest.raises(SceneFileError, match=r"^amodal"):
            read_upload(upload(amodal=bad), LIMITS)


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_rare_packings_are_refused(method):
    ids = npy_file(IDS_HEADER, np.array([1, 2]).tobytes())
    packed = npz_file(ids, npy_file(MASKS_HEADER, bytes(2 * 48 * 64)), method)
    with pytest.raises(SceneFileError, match="unknown compression"):
        read_upload(upload(amodal=packed), LIMITS)


@pytest.mark.parametrize("size", [(6_000, 5_000), (13_000, 12_000), (20_000, 20_000)])
def test_a_second_header_does_not_raise_the_number_of_pixels(size):
    for name in ("depth", "instances"):
        header = struct.pack(">IIBBBBB", *size, 8, 6, 0, 0, 0)
        two_sizes = with_chunk(small_scene()[name], b"IHDR", header)
        tracemalloc.start()
        with pytest.raises(SceneFileError, match="two sizes"):
            read_upload(upload(**{name: two_sizes}), LIMITS)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 5_000_000


def test_messages_name_no_place_in_memory():
    said = say_refusal(
        Refusal("malformed node <ast.BinOp object at 0x7f80aa> in <_io.BytesIO object at 0x1>")
    )
    assert "0x" not in said.message and "malformed node" in said.message


def test_pickles_are_never_loaded():
    buffer = io.BytesIO()
    np.savez(buffer, ids=np.array([1, None], object), masks=np.zeros((2, 48, 64), bool))
    with pytest.raises(CporError, match="pickled objects"):
        read_upload(upload(amodal=buffer.getvalue()), LIMITS)


def test_mutated_uploads_are_refused_clearly(service, evidence):
    statuses: dict[int, int] = {}
    n = sized(120, 500)
    mutated = mutated_uploads(seed=1)
    with httpx.Client(base_url=service, timeout=60.0, trust_env=False) as http:
        for _ in range(n):
            sent = next(mutated)
            reply = http.post(sent.path, content=sent.body, headers={"Content-Type": sent.content_type})
            statuses[reply.status_code] = statuses.get(reply.status_code, 0) + 1
            assert reply.status_code == 200 or 400 <= reply.status_code < 500, (sent.kind, reply.text)
            if reply.status_code != 200:
                message = ErrorReply.model_validate_json(reply.content).message
                assert len(message) > 10 and "0x" not in message and "Traceback" not in message
                ours = re.sub(r"'[^']*'", "", message)  # what stands in quotes the client sent itself
                assert "/" not in ours.replace("multipart/form-data", "").replace("/openapi.json", "")
        assert http.get("/healthz").json()["status"] == "ok"
    refused = sum(count for status, count in statuses.items() if status != 200)
    assert refused > 0.6 * n
    evidence(
        "serves", f"{n} mutated uploads in the tests", "clear 4xx, alive", f"{refused} refused, rest harmless"
    )
