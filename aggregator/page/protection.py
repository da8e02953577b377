"""Puts protective headers on every answer of the page, and decides who gets an answer.

Invariants: the browser loads no script, style, picture or connection but the page's own. No browser stores an answer or
shows it inside another page. Where a token is needed, a reader without it gets only the sign-in page.
"""

import time

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from aggregator.web.access import TokenAuth

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}
SIGN_IN = "/sign-in"
_ASSETS = "/assets/"


class SecurityHeadersMiddleware:
    """Puts the headers on every answer of an application, errors included."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request with the protective headers."""

        async def protected(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        await self._app(scope, receive, protected)


class AuthMiddleware:
    """Lets only those requests pass that the auth admits. The sign-in page and its assets are open."""

    def __init__(self, app: ASGIApp, auth: TokenAuth) -> None:
        self._app, self._gate = app, auth

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request if the auth admits it, else ask to sign in."""
        headers = Headers(scope=scope)
        is_open = scope["path"] == SIGN_IN or scope["path"].startswith(_ASSETS)
        if is_open or self._gate.admits(headers, int(time.time())):
            await self._app(scope, receive, send)
        elif "text/html" in headers.get("accept", ""):
            await RedirectResponse(SIGN_IN, status_code=303)(scope, receive, send)
        else:
            refused = PlainTextResponse(
                "This page asks for its token: Authorization: Bearer …\n",
                status_code=401,
                headers={"WWW-Authenticate": "Bearer"},
            )
            await refused(scope, receive, send)
