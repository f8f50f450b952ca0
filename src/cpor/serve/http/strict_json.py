"""JSON bodies read strictly: a key given twice, or a number that is none, is refused, not guessed at."""

import json
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response


class StrictRequest(Request):
    """A request whose JSON means one thing only."""

    async def json(self) -> Any:
        """The body; of a key given twice, readers keep the last in silence, and a relation may be lost."""
        body = await self.body()
        try:
            return json.loads(body, object_pairs_hook=_refuse_repeats, parse_constant=_refuse_constant)
        except (RecursionError, UnicodeDecodeError) as error:
            what = "too deeply nested" if isinstance(error, RecursionError) else "not UTF-8"
            raise json.JSONDecodeError(what, "", 0) from None


class StrictRoute(APIRoute):
    """A route that reads JSON strictly."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler, given such requests."""
        handler = super().get_route_handler()

        async def strictly(request: Request) -> Response:
            return await handler(StrictRequest(request.scope, request.receive))

        return strictly


_MOST_KEYS = 32
"""Of one object; no message has as many. Each unknown one would cost time to be complained about."""


def _refuse_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(pairs) > _MOST_KEYS:
        raise json.JSONDecodeError(f"an object has more than {_MOST_KEYS} keys", "", 0)
    content = dict(pairs)
    if len(content) < len(pairs):
        raise json.JSONDecodeError("a key is given twice in one object; keep one", "", 0)
    return content


def _refuse_constant(name: str) -> NoReturn:
    raise json.JSONDecodeError(f"{name} is no number; write null where there was no answer", "", 0)
