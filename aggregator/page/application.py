"""The page's web application: maps addresses to answers, and streams changes to readers.

Invariants: only GET is allowed, except for signing in with the token. A name in an address is looked up and never shown
as markup. No answer holds any content of a record.
"""

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from aggregator.errors import AggregatorError
from aggregator.observe.hub_status import EdgeStatus
from aggregator.page.edge_page import edge_page
from aggregator.page.explanations import ExplanationCache
from aggregator.page.frames import Frame, Frames
from aggregator.page.overview import overview
from aggregator.page.parts import edge_parts, overview_parts, snapshot_age
from aggregator.page.protection import SIGN_IN, AuthMiddleware, SecurityHeadersMiddleware
from aggregator.page.rendering import Pages, Parts
from aggregator.page.runbooks import runbooks
from aggregator.page.stripped_fields import by_schema
from aggregator.web.access import COOKIE, SESSION_S, TokenAuth

ASSETS = Path(__file__).parent / "assets"
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_MAX_TOKEN_BYTES = 4096
_TOKEN_S = 5.0
_WRONG_S = 1.0
# So many attempts to sign in run at a time, and a wrong token waits for a second. Readers with a session do not wait.
_MAX_SIGNING_IN = 32
_STREAM = "text/event-stream"


class Application:
    """Answers the requests of the page.

    Args:
        hub: The hub's name.
        frames: The frames that the page shows.
        explanations: Why topics are (not) replicated.
        auth: Decides who may read.
        hosts: Names by which it answers.
    """

    def __init__(
        self, hub: str, frames: Frames, explanations: ExplanationCache, auth: TokenAuth, hosts: list[str]
    ) -> None:
        self._hub, self._frames, self._explanations, self._gate = hub, frames, explanations, auth
        self._pages = Pages()
        self._signing_in = 0
        self.closing = False
        routes = [
            Route("/", self._overview),
            Route("/edges/{edge}", self._edge),
            Route("/edges/{edge}/topics/{topic}", self._topic),
            Route("/runbooks/{name}", self._runbook),
            Route("/changes", self._changes_of_overview),
            Route("/changes/edges/{edge}", self._changes_of_edge),
            Route(SIGN_IN, self._sign_in_form, methods=["GET"]),
            Route(SIGN_IN, self._sign_in, methods=["POST"]),
            Mount("/assets", StaticFiles(directory=ASSETS)),
        ]
        answering = Starlette(
            routes=routes,
            middleware=[
                Middleware(TrustedHostMiddleware, allowed_hosts=hosts, www_redirect=False),
                Middleware(AuthMiddleware, auth=auth),
            ],
            exception_handlers={HTTPException: self._error_page},
        )
        self.asgi = SecurityHeadersMiddleware(answering)

    def _overview_parts(self, frame: Frame) -> Parts:
        seen = frame.seen
        if seen is None:
            return self._pages.parts("/", frame.key, lambda: {"snapshot_age": snapshot_age(frame)})
        return self._pages.parts("/", frame.key, lambda: overview_parts(frame, overview(seen)))

    def _edge_parts(self, frame: Frame, name: str) -> Parts:
        seen = frame.seen
        edge = _edge_of(frame, name)
        if seen is None or edge is None:
            return self._pages.parts("/edges", frame.key, lambda: {"snapshot_age": snapshot_age(frame)})
        judged = self._explanations.rule_match
        place = f"/edges/{name}"
        return self._pages.parts(place, frame.key, lambda: edge_parts(frame, edge_page(seen, edge, judged)))

    async def _overview(self, _: Request) -> Response:
        frame = self._frames.newest()
        return self._page("overview.html", frame, self._overview_parts(frame), changes="/changes")

    async def _edge(self, request: Request) -> Response:
        name, frame = request.path_params["edge"], self._frames.newest()
        if frame.seen is not None and _edge_of(frame, name) is None:
            raise HTTPException(404, "The hub has no edge of this name.")
        parts = self._edge_parts(frame, name)
        return self._page("edge.html", frame, parts, changes=f"/changes/edges/{name}", title=name)

    async def _topic(self, request: Request) -> Response:
        name, topic, frame = request.path_params["edge"], request.path_params["topic"], self._frames.newest()
        if _edge_of(frame, name) is None or not _TOPIC.fullmatch(topic):
            raise HTTPException(404, "The hub has no such edge, or no topic can have this name.")
        assert frame.seen is not None
        try:
            explanation, trouble = await self._explanations.explain(name, topic), ""
        except AggregatorError as error:
            explanation, trouble = None, error.message
        known = frame.seen.fields.get((name, topic))
        return self._page(
            "topic.html",
            frame,
            {},
            changes="",
            title=f"{name}/{topic}",
            edge=name,
            topic=topic,
            explanation=explanation,
            trouble=trouble,
            met=by_schema(known),
        )

    async def _runbook(self, request: Request) -> Response:
        text = runbooks().get(request.path_params["name"])
        if text is None:
            raise HTTPException(404, "There is no such runbook.")
        heading, _, rest = text.partition("\n")
        frame, title = self._frames.newest(), heading.removeprefix("# ")
        return self._page("runbook.html", frame, {}, changes="", title=title, text=rest.strip())

    def _page(self, template: str, frame: Frame, parts: Parts, *, changes: str, **context: Any) -> Response:
        page = self._pages.page(
            template, hub=self._hub, frame=frame, seen=frame.seen, parts=parts, changes=changes, **context
        )
        return HTMLResponse(page)

    async def _changes_of_overview(self, request: Request) -> Response:
        return self._stream(request, self._overview_parts)

    async def _changes_of_edge(self, request: Request) -> Response:
        name = request.path_params["edge"]
        return self._stream(request, lambda frame: self._edge_parts(frame, name))

    def _stream(self, request: Request, parts: Callable[[Frame], Parts]) -> Response:
        if request.method == "HEAD":
            return Response(media_type=_STREAM)
        return StreamingResponse(
            self._changed(request.is_disconnected, parts),
            media_type=_STREAM,
            headers={"X-Accel-Buffering": "no"},
        )

    async def _changed(
        self, is_over: Callable[[], Awaitable[bool]], parts: Callable[[Frame], Parts]
    ) -> AsyncIterator[str]:
        """Parts that look different from what was sent before; all of them at first."""
        frame, sent = self._frames.newest(), dict[str, str]()
        yield "retry: 1000\n\n"
        while not self.closing and not await is_over():
            now = parts(frame)
            fresh = {id_: text for id_, text in now.items() if sent.get(id_) != text}
            sent = dict(now)
            yield f"event: parts\ndata: {json.dumps(fresh)}\n\n" if fresh else ": alive\n\n"
            frame = await self._frames.after(frame)

    async def _sign_in_form(self, _: Request) -> Response:
        return self._page("sign_in.html", Frame(None), {}, changes="", title="Sign in", wrong=False)

    async def _sign_in(self, request: Request) -> Response:
        """Check the posted token, and set the cookie of a session if it is right."""
        if self._signing_in >= _MAX_SIGNING_IN:
            raise HTTPException(503, "Too many sign-ins at once; try again in a second.")
        self._signing_in += 1
        try:
            token = await _posted_token(request)
            is_right = token is not None and self._gate.knows(token)
            if not is_right:
                await asyncio.sleep(_WRONG_S)
        finally:
            self._signing_in -= 1
        if not is_right:
            answer = self._page("sign_in.html", Frame(None), {}, changes="", title="Sign in", wrong=True)
            answer.status_code = 403
            return answer
        answer = RedirectResponse("/", status_code=303)
        answer.set_cookie(
            COOKIE,
            self._gate.session(int(time.time())),
            max_age=SESSION_S,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return answer

    async def _error_page(self, _: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        answer = self._page("refused.html", self._frames.newest(), {}, changes="", title="Not here", why=error.detail)
        answer.status_code = error.status_code
        return answer


def _edge_of(frame: Frame, name: str) -> EdgeStatus | None:
    edges = frame.seen.status.edges if frame.seen else ()
    return next((edge for edge in edges if edge.edge == name), None)


async def _posted_token(request: Request) -> str | None:
    """The token of a form; None where there is none, far too much, or too slowly."""
    body = bytearray()
    try:
        async with asyncio.timeout(_TOKEN_S):
            async for piece in request.stream():
                body += piece
                if len(body) > _MAX_TOKEN_BYTES:
                    return None
    except (TimeoutError, ClientDisconnect):
        return None
    return dict(parse_qsl(body.decode("ascii", "replace"))).get("token")
