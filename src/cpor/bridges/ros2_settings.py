"""What the ROS 2 node is told to hear and to say; its ROS parameters."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from cpor.bridges.ros2_parameters import Value
from cpor.errors import InvalidSettingError
from cpor.learn.modes import parse_mode
from cpor.scene import PixelPoint
from cpor.words.grounding_answers import Request

PARAMETERS = {
    "color": "Topic of photographs; .../compressed is a CompressedImage.",
    "depth": "Topic of depth aligned to them; empty: none.",
    "info": "Topic of the camera info; empty: none.",
    "request": "Decide on this object in every frame, in words; empty: not so. It replaces target and point.",
    "target": "Or on this one, by its id; 0: not so.",
    "point": "Or on what this pixel shows, x and y; empty: not so.",
    "mode": "Risk setting: robust, cautious, balanced or bold; empty: as the system has it.",
    "max_age_s": "Pictures that were sent longer ago are not answered from.",
}
"""Name and meaning of each."""

_WAYS = ("request", "target", "point")


@dataclass(frozen=True)
class NodeSettings:
    """What to hear and to say.

    Attributes:
        color: Topic of photographs; `.../compressed` is a CompressedImage.
        depth: Topic of depth registered to them; `.../compressedDepth` is compressed. None: none.
        info: Topic of the camera info; None: the camera is not known.
        prefix: Name of the node; its topics, services and actions begin with it.
        request, target, point: Which object is decided on in every frame; all None: none, on call alone.
        max_age_s: A frame that was sent longer ago is old. [s]
        mode: The risk setting; None: the system's.
    """

    color: str
    depth: str | None = None
    info: str | None = None
    prefix: str = "/cpor"
    request: str | None = None
    target: int | None = None
    point: tuple[float, float] | None = None
    max_age_s: float = 1.0
    mode: str | None = None

    def __post_init__(self) -> None:
        for topic in (self.color, self.depth, self.info, self.prefix):
            if topic is not None and not topic.startswith("/"):
                raise InvalidSettingError(f"the topic {topic!r} must begin with /")
        _ = self.asked  # refuses several ways
        if not self.max_age_s > 0.0:
            raise InvalidSettingError(f"max_age_s is {self.max_age_s}; it must be above 0")
        if self.mode is not None:
            parse_mode(self.mode)

    @property
    def topics(self) -> tuple[str, str | None, str | None]:
        """What is heard."""
        return self.color, self.depth, self.info

    @property
    def asked(self) -> Request:
        """The object to decide on in every frame."""
        return Request(self.target, None if self.point is None else PixelPoint(*self.point), self.request)

    @property
    def decides(self) -> bool:
        """Whether there is an object to decide on in every frame."""
        return self.asked.ways == 1

    def parameters(self) -> dict[str, Value]:
        """As ROS parameters: where nothing is set, the empty value of the type."""
        found: dict[str, Value] = {name: getattr(self, name) or "" for name in PARAMETERS}
        found["target"] = self.target or 0
        found["point"] = list(self.point or ())
        found["max_age_s"] = float(self.max_age_s)
        return found

    def with_parameters(self, values: Mapping[str, Any]) -> "NodeSettings":
        """With some of them changed; one way to say which object takes the place of the others.

        Raises:
            InvalidSettingError: They cannot be so.
        """
        told: dict[str, Any] = {name: value or None for name, value in values.items()}
        if "max_age_s" in told:
            told["max_age_s"] = values["max_age_s"]
        if told.get("color", self.color) is None:
            raise InvalidSettingError("color is empty; name the topic of the photographs")
        if told.get("point") is not None:
            if len(told["point"]) != 2:
                raise InvalidSettingError(f"point has {len(told['point'])} numbers; give x and y")
            told["point"] = tuple(told["point"])
        if any(told.get(way) is not None for way in _WAYS):
            told = dict.fromkeys(_WAYS) | told
        return replace(self, **told)
