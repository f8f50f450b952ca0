"""Pictures as they go over the wire."""

import io

from PIL import Image


def encode_jpeg(picture: Image.Image, quality: int = 82) -> bytes:
    """Bytes of a JPEG image."""
    buffer = io.BytesIO()
    picture.convert("RGB").save(buffer, format="JPEG", quality=quality)
    return buffer.getvalue()
