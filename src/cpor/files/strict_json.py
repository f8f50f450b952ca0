"""JSON read strictly: a key given twice, or a number that is none, is refused, not guessed at."""

import json
from functools import partial
from typing import Any, NoReturn


class StrictJsonError(ValueError):
    """A text that is no JSON, or no JSON that means one thing only; callers say where it stood."""


def parse_strict(text: str | bytes, most_keys: int | None = None) -> Any:
    """What a JSON text says.

    Args:
        text: The text; bytes are UTF-8.
        most_keys: Of one object; None: any number.

    Raises:
        StrictJsonError: It is not JSON, not UTF-8, nested too deeply, or has too many keys, a key twice, or
            NaN or Infinity for a number.
    """
    try:
        return json.loads(
            text, object_pairs_hook=partial(_refuse_repeats, most_keys), parse_constant=_refuse_constant
        )
    except StrictJsonError:
        raise
    except UnicodeDecodeError as error:
        raise StrictJsonError(f"it is not UTF-8 text ({error.reason}); save it as UTF-8") from None
    except ValueError as error:
        raise StrictJsonError(f"it is not JSON ({error})") from None
    except RecursionError:
        raise StrictJsonError("it is nested too deeply") from None


def _refuse_repeats(most_keys: int | None, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Of a key given twice, JSON readers keep the last in silence; a lost relation must not read as none."""
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
