"""JSON read strictly: a key given twice, or a number that is none, is refused, not guessed at."""

import json
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from cpor.errors import SceneFileError


class StrictJsonError(SceneFileError):
    """A text that is no JSON, or no JSON that means one thing only."""


def parse_strict(
    text: str | bytes, most_keys: int | None = None, *, name: Path | str | None = None, remedy: str = ""
) -> Any:
    """What a JSON text says.

    Args:
        text: The text; bytes are UTF-8.
        most_keys: Limit for one object; None: no limit.
        name: What errors call the text; None: the caller says where it stood.
        remedy: What errors advise besides.

    Raises:
        StrictJsonError: It is not JSON, not UTF-8, nested too deeply, or has too many keys, a key twice, or
            NaN or Infinity for a number.
    """
    try:
        return json.loads(
            text, object_pairs_hook=partial(_refuse_repeats, most_keys), parse_constant=_refuse_constant
        )
    except StrictJsonError as error:
        fault = str(error)
    except UnicodeDecodeError as error:
        fault = f"it is not UTF-8 text ({error.reason}); save it as UTF-8"
    except ValueError as error:
        fault = f"it is not JSON ({error})"
    except RecursionError:
        fault = "it is nested too deeply"
    advice = f"{fault}; {remedy}" if remedy else fault
    raise StrictJsonError(advice if name is None else f"{name}: {advice}")


def _refuse_repeats(most_keys: int | None, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Reject duplicate keys: JSON readers keep the last one, and a lost relation would read as none."""
    if most_keys is not None and len(pairs) > most_keys:
        raise StrictJsonError(f"an object has more than {most_keys} keys")
    content = dict(pairs)
    if len(content) < len(pairs):
        names = [name for name, _ in pairs]
        twice = max(names, key=names.count)
        raise StrictJsonError(f"{json.dumps(twice)} is given twice in one object; keep one")
    return content


def _refuse_constant(name: str) -> NoReturn:
    raise StrictJsonError(f"{name} is not a JSON number; write null where there was no answer")
