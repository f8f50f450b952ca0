"""JSON bodies read strictly; see `cpor.files.strict_json`."""

import json
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from cpor.files.strict_json import StrictJsonError, parse_strict


class StrictRequest(Request):
    """A request whose JSON means one thing only."""

    async def json(self) -> Any:
        """The body; of a key given twice, readers keep the last in silence, and a relation may be lost."""
        try:
            return parse_strict(await self.body(), _MOST_KEYS)
        except StrictJsonError as error:
            raise json.JSONDecodeError(str(error), "", 0) from None


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
