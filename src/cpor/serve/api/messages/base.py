"""What all messages share."""

from typing import Annotated, Any, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cpor.errors import InvalidSettingError

MOST_OBJECTS = 200
MOST_RELATIONS = 4_000
LONGEST_TEXT = 200

WireLabel: TypeAlias = (
    Annotated[str, Field(max_length=LONGEST_TEXT, strict=True)]
    | Annotated[int, Field(ge=-(2**53), le=2**53, strict=True)]
)
"""What a caller calls an object: a short text or a whole number."""

# Strict throughout: `false` would pass for "known not to obstruct", and "yes" for a number or a switch.
Probability: TypeAlias = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False, strict=True)]
_Coordinate: TypeAlias = Annotated[float, Field(strict=True)]
Point: TypeAlias = tuple[_Coordinate, _Coordinate]
"""x and y. [px]"""


class Message(BaseModel):
    """Base of all: unknown fields are refused, so that a misspelt setting cannot pass in silence."""

    model_config = ConfigDict(extra="forbid", frozen=True)


_Message = TypeVar("_Message", bound=BaseModel)


def validated(kind: type[_Message], content: dict[str, Any]) -> _Message:
    """A message from its content; the first fault is one sentence.

    Raises:
        InvalidSettingError: A field is wrong.
    """
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(step) for step in first["loc"])
        raise InvalidSettingError(f"{where}: {first['msg']}") from None
