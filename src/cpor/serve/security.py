"""Who may ask: the gate before every request, and the headers after it.

Localhost is no protection against the pages that a person has open: a page of another site can post to it
(refused by origin), and a name that is pointed at 127.0.0.1 can read from it (refused by host).
"""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cpor.serve.refusals import Forbidden, Refusal, Unauthorised, say_refusal
from cpor.serve.settings import ServeSettings

COOKIE = "cpor_page"
"""Of the page; its value follows from the token, which cannot be told from it."""

OPEN_PATHS = ("/", "/live", "/healthz", "/favicon.ico")
"""Need no token: the page, which everybody may have from our package, and the sign of life."""

_OWN_HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]"})

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' blob: data:; connect-src 'self'; base-uri 'none'; frame-ancestors 'none'; "
    "form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


def refuse(refusal: Refusal, headers: Mapping[str, str] | None = None) -> Response:
    """An error reply, with these headers besides."""
    headers = {"Cache-Control": "no-store", **(headers or {})}
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
        if self.settings.is_local and _name(host) not in _OWN_HOSTS:
            raise Refusal("this service answers on this machine only; ask for localhost or 127.0.0.1")
        if scope["method"] not in ("GET", "HEAD"):
            _refuse_other_sites(headers, host)
        token = self.settings.token
        if token is None:
            return None
        if path in ("/", "/live") and (shown := _token_in_link(scope)) is not None:
            return self._hand_cookie(path, shown)
        if path in OPEN_PATHS or path.startswith("/static/"):
            return None
        if not (_bears(headers, token) or _has_cookie(headers, token)):
            raise Unauthorised("show the token: Authorization: Bearer TOKEN")
        return None

    def _hand_cookie(self, path: str, shown: str) -> Response:
        """Turn a token in a link into a cookie, and the link into one without."""
        assert self.settings.token is not None
        if not _same(shown, self.settings.token):
            raise Unauthorised("the token in this link is wrong; take the one that the service was given")
        response = RedirectResponse(path, 303, {"Cache-Control": "no-store"})
        value = _cookie_value(self.settings.token)
        response.set_cookie(COOKIE, value, path="/", httponly=True, samesite="strict")
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
    if origin is not None and (not host or urlsplit(origin).netloc.lower() != host.lower()):
        raise Forbidden("pages of other sites may not use this service")


def _token_in_link(scope: Scope) -> str | None:
    if scope["method"] != "GET" or not scope["query_string"]:
        return None
    values = parse_qs(scope["query_string"].decode("latin-1"), max_num_fields=16).get("token")
    return values[0] if values else None


def _bears(headers: Headers, token: str) -> bool:
    kind, _, shown = headers.get("authorization", "").partition(" ")
    return kind.lower() == "bearer" and _same(shown.strip(), token)


def _has_cookie(headers: Headers, token: str) -> bool:
    try:
        cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return False
    return cookie is not None and _same(cookie.value, _cookie_value(token))


def _cookie_value(token: str) -> str:
    return hmac.new(token.encode(), b"cpor page", hashlib.sha256).hexdigest()


def _same(shown: str, right: str) -> bool:
    """Compared in constant time."""
    return hmac.compare_digest(shown.encode(), right.encode())
