"""The gate before every request, and the headers after it.

Localhost is no protection against the pages that a person has open: a page of another site can post to it
(refused by origin), and a name that is pointed at 127.0.0.1 can read from it (refused by host).
"""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cpor.serve.http.refusals import Forbidden, Refusal, Unauthorised, say_refusal
from cpor.serve.http.settings import ServeSettings

COOKIE = "cpor_page"
"""Cookie of the page, followed by the port: cookies ignore ports, and there may be two services. Its value
follows from the token, which cannot be derived from it."""

PAGES = ("/", "/live", "/docs")
"""Pages of ours: a link to one may carry the token."""

OPEN_PATHS = (*PAGES, "/healthz", "/favicon.ico")
"""Need no token: the pages, which are public in our package, and the sign of life."""

_OWN_HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]"})

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' blob: data:; connect-src 'self'; base-uri 'none'; frame-ancestors 'none'; "
    "form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(self), geolocation=(), microphone=()",
}


def refuse(refusal: Refusal, headers: Mapping[str, str] | None = None) -> Response:
    """An error reply, with these headers besides."""
    # Here too, since what answers a fault of ours stands outside the gate.
    headers = {**_HEADERS, "Cache-Control": "no-store", **(headers or {})}
    if refusal.retry_after_s is not None:
        headers["Retry-After"] = str(refusal.retry_after_s)
    if isinstance(refusal, Unauthorised):
        headers["WWW-Authenticate"] = "Bearer"
    content = say_refusal(refusal).model_dump_json()
    return Response(content, refusal.status, headers, "application/json")


@dataclass(frozen=True)
class Gate:
    """Lets requests through that may ask, and puts the headers on every reply."""

    app: ASGIApp
    settings: ServeSettings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                if "Cache-Control" not in headers:
                    headers["Cache-Control"] = "no-store"
            await send(message)

        try:
            answer = self._check(scope)
        except Refusal as refusal:
            answer = refuse(refusal)
        await (answer or self.app)(scope, receive, send_with_headers)

    def _check(self, scope: Scope) -> Response | None:
        """Refuse, or answer a link that carries the token, or let through."""
        headers, path = Headers(scope=scope), scope["path"]
        host = headers.get("host", "")
        if self.settings.is_local and _name(host) not in self._own_hosts:
            raise Refusal("this service answers on this machine only; ask for localhost or its address")
        if scope["method"] not in ("GET", "HEAD"):
            _refuse_other_sites(headers, host)
        token = self.settings.token
        if token is None:
            return None
        cookie = f"{COOKIE}_{(scope.get('server') or ('', 0))[1]}"
        if path in PAGES and "token" in (fields := _fields_of_link(scope)):
            secure = _name(host) == self.settings.public_host
            return self._hand_cookie(path, fields, cookie, secure)
        if path in OPEN_PATHS or path.startswith("/static/"):
            return None
        if not (_bears(headers, token) or _has_cookie(headers, cookie, token)):
            raise Unauthorised("show the token: Authorization: Bearer TOKEN")
        return None

    @property
    def _own_hosts(self) -> frozenset[str]:
        own = f"[{self.settings.host}]" if ":" in self.settings.host else self.settings.host
        return _OWN_HOSTS | {own, self.settings.public_host or own}

    def _hand_cookie(self, path: str, fields: dict[str, str], cookie: str, secure: bool) -> Response:
        """Turn a token in a link into a cookie, and the link into one without."""
        assert self.settings.token is not None
        if not _same(fields.pop("token"), self.settings.token):
            raise Unauthorised("the token in this link is wrong; take the one that the service was given")
        kept = f"{path}?{urlencode(fields)}" if fields else path
        response = RedirectResponse(kept, 303, {"Cache-Control": "no-store"})
        value = _cookie_value(self.settings.token)
        response.set_cookie(cookie, value, path="/", secure=secure, httponly=True, samesite="strict")
        return response


def _name(host: str) -> str:
    """The host without its port: a tunnel may have another."""
    bracket = host.rfind("]")
    colon = host.rfind(":")
    return (host[:colon] if colon > bracket else host).lower()


def _refuse_other_sites(headers: Headers, host: str) -> None:
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None and site not in ("same-origin", "none"):
        raise Forbidden("pages of other sites may not use this service")
    if origin is not None and (not host or _place(origin) != host.lower()):
        raise Forbidden("pages of other sites may not use this service")


def _place(origin: str) -> str | None:
    """Host and port of an origin; None where it is none."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


def _fields_of_link(scope: Scope) -> dict[str, str]:
    """What stands behind the question mark of a link; nothing where that is more than our links have."""
    if scope["method"] != "GET" or not scope["query_string"]:
        return {}
    try:
        query = scope["query_string"].decode("latin-1")
        return dict(parse_qsl(query, keep_blank_values=True, max_num_fields=16))
    except ValueError:
        return {}


def _bears(headers: Headers, token: str) -> bool:
    kind, _, shown = headers.get("authorization", "").partition(" ")
    return kind.lower() == "bearer" and _same(shown.strip(), token)


def _has_cookie(headers: Headers, name: str, token: str) -> bool:
    """Whether ours is among the cookies; those of other services on this machine may hold anything."""
    pairs = (cookie.strip().partition("=") for cookie in headers.get("cookie", "").split(";"))
    right = _cookie_value(token)
    return any(found == name and _same(value, right) for found, _, value in pairs)


def _cookie_value(token: str) -> str:
    return hmac.new(token.encode(), b"cpor page", hashlib.sha256).hexdigest()


def _same(shown: str, right: str) -> bool:
    """Compared in constant time."""
    return hmac.compare_digest(shown.encode(), right.encode())
