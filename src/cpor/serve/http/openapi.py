"""What the OpenAPI description says besides the messages: error replies, and parts of multipart bodies."""

from typing import Any

from starlette.responses import Response

from cpor.learn.modes import MODES
from cpor.serve.api.answered import ErrorReply

_SAID = {
    400: "Not a scene, a picture or a setting that can be used.",
    401: "No token, or a wrong one.",
    403: "Asked by a page of another site.",
    404: "Not there, or not any more.",
    405: "Another method is taken here.",
    409: "Does not go with the present state.",
    413: "More than is taken.",
    415: "A file or a body of another kind.",
    422: "The body is not what is expected.",
    500: "A fault of the service.",
    501: "A part of the package is not installed there.",
    503: "Busy; Retry-After says when to come back.",
    504: "Not answered within the time limit.",
}

ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorReply, "description": said} for status, said in _SAID.items()
}
"""Error replies that any route may give."""

_FILE = {"type": "string", "format": "binary"}
_PARTS: dict[str, dict[str, Any]] = {
    "rgb": {**_FILE, "description": "The picture: PNG, JPEG or WebP."},
    "depth": {**_FILE, "description": "Depth registered to it: 16-bit PNG, 0 where there is no reading."},
    "instances": {**_FILE, "description": "PNG of the id that each pixel shows, 0 for background."},
    "amodal": {**_FILE, "description": "npz with ids (n,) and masks (n, h, w): visible and hidden part."},
    "camera": {"type": "string", "description": "JSON: fx, fy, cx, cy, width, height, depth_unit_m."},
    "depth_unit_m": {"type": "number", "description": "Metres of one step of depth. [default: guessed]"},
    "objects": {"type": "string", "description": "JSON as objects.json of a scene folder has it."},
    "scores": {"type": "string", "description": "JSON as scores.json has it: what a scorer said."},
    "sources": {
        "type": "string",
        "description": "JSON as sources.json has it: the makers of masks and scores.",
    },
    "target": {"type": "integer", "description": "Id of the object asked for."},
    "point": {"type": "string", "description": "A pixel that shows it: X,Y."},
    "request": {"type": "string", "description": "What it looks like, in words."},
    "mode": {"type": "string", "enum": list(MODES), "description": "How sure it must be before it acts."},
    "tau": {"type": "number", "minimum": 0, "maximum": 1, "description": "Act above this score instead."},
}


def multipart_body(parts: tuple[str, ...], required: tuple[str, ...]) -> dict[str, Any]:
    """`openapi_extra` of a route that takes these parts."""
    schema = {
        "type": "object",
        "properties": {name: _PARTS[name] for name in parts},
        "required": list(required),
        "additionalProperties": False,
    }
    return {"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": schema}}}}


def gives(kind: str, what: str) -> dict[str, Any]:
    """Arguments of a route that answers with a file of this media type."""
    return {
        "response_class": Response,
        "responses": {200: {"content": {each: {} for each in kind.split()}, "description": what}},
    }
