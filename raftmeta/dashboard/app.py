"""The ASGI application: the files of the page, its questions, and its streams.

Four things hold of a request before anything else looks at it:

    its Host is an address, localhost, or a name that was given   else a foreign name could be made to lead here
    it comes from no other origin                                  Origin and Sec-Fetch-Site, where a browser sends them
    a question has the cookie of a session                         but for the login itself
    a change has the token of its session in a header              which no page of another origin can send

Every answer forbids the browser to load, run or frame anything but the page's own files. `errors` are told as JSON.
"""

from __future__ import annotations

import contextlib
import hmac
import ipaddress
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from http import HTTPStatus
from importlib import resources
from typing import Any
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from raftmeta.dashboard.actions import act
from raftmeta.dashboard.browser import folder_shape, history_shape, key_page
from raftmeta.dashboard.place import Place, Proof
from raftmeta.dashboard.shapes import raw_of
from raftmeta.dashboard.streams import Ending, changes_of, cluster_of, holders_of, stream
from raftmeta.dashboard.visitors import Visitor, Visitors
from raftmeta.errors import (
    AuthenticationFailed,
    InvalidArgument,
    NotExecuted,
    OutcomeUnknown,
    PermissionDenied,
    RaftmetaError,
    Refused,
)
from raftmeta.version import VERSION

__all__ = ["FILES", "make_app"]

_LOG = logging.getLogger(__name__)

FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/parts.js": ("parts.js", "text/javascript; charset=utf-8"),
    "/plots.js": ("plots.js", "text/javascript; charset=utf-8"),
    "/topology.js": ("topology.js", "text/javascript; charset=utf-8"),
    "/keys.js": ("keys.js", "text/javascript; charset=utf-8"),
    "/holders.js": ("holders.js", "text/javascript; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
CSRF_HEADER = "Raftmeta-Csrf"
BODY_BYTES_MAX = 64 * 1024
SECRET_CHARACTERS_MAX = 1024
REVISION_MAX = 2**63 - 1

Answering = Callable[["Asked"], Awaitable[Response]]


class Asked:
    """A question of a visitor."""

    def __init__(self, request: Request, visitor: Visitor) -> None:
        self.request = request
        self.visitor = visitor
        self.client = visitor.watcher.client

    def key(self, name: str) -> bytes:
        """Bytes in the query. Raises InvalidArgument."""
        return raw_of(self.request.query_params.get(name, ""), name)

    @property
    def revision(self) -> int:
        """Of the query; 0: now. Raises InvalidArgument."""
        text = self.request.query_params.get("revision") or "0"
        if not (text.isascii() and text.isdecimal()) or int(text[:20]) > REVISION_MAX:
            raise InvalidArgument(f"revision: must be a whole number, not {text!r:.40}", field="revision")
        return int(text)


class Dashboard:
    """The state that all requests share. allows_changes: of members. hosts: names that lead to the page."""

    def __init__(
        self, place: Place, own: Proof, *, allows_changes: bool, is_secure: bool, hosts: Sequence[str], ending: Ending
    ) -> None:
        self._place = place
        self._own = own
        self._allows_changes = allows_changes
        self._is_secure = is_secure
        self._hosts = {host.lower().rstrip(".") for host in hosts} | {"localhost"}
        self._ending = ending
        self._visitors: Visitors

    @contextlib.asynccontextmanager
    async def lifespan(self, _app: Starlette) -> AsyncIterator[None]:
        self._visitors = Visitors(self._place, self._own)
        try:
            yield
        finally:
            await self._visitors.close()

    # --- who asks -----------------------------------------------------------------------------------------------------
    def check_origin(self, request: Request) -> None:
        """Raise HTTPException for a request that the page itself would not make."""
        host = urlsplit(f"//{request.headers.get('Host', '')}").hostname or ""
        if not (_is_address(host) or host.lower().rstrip(".") in self._hosts):
            raise HTTPException(HTTPStatus.MISDIRECTED_REQUEST, "this name does not lead here: see --host")
        origin, site = request.headers.get("Origin"), request.headers.get("Sec-Fetch-Site", "none")
        if origin is not None and urlsplit(origin).netloc != request.headers.get("Host"):
            raise HTTPException(HTTPStatus.FORBIDDEN, "a page of another origin asks")
        if request.url.path.startswith("/api/") and site not in ("same-origin", "none"):
            raise HTTPException(HTTPStatus.FORBIDDEN, "a page of another origin asks")

    def _cookie(self, request: Request) -> str:
        """Cookies know no ports: two dashboards of one machine must not take each other's."""
        return f"raftmeta_{request.url.port or 0}"

    @staticmethod
    def _has_token(request: Request, visitor: Visitor) -> bool:
        return hmac.compare_digest(request.headers.get(CSRF_HEADER, "").encode(), visitor.csrf.encode())

    def question(self, answering: Answering, *, changes: bool = False) -> Callable[[Request], Awaitable[Response]]:
        """A handler that is asked for a visitor. changes: it needs the token, and `allows_changes`."""

        async def answer(request: Request) -> Response:
            self.check_origin(request)
            visitor = self._visitors.of(request.cookies.get(self._cookie(request), ""))
            if visitor is None:
                return _told({"error": "no_session", "message": "log in"}, HTTPStatus.UNAUTHORIZED)
            if changes and not self._has_token(request, visitor):
                return _told({"error": "csrf", "message": f"{CSRF_HEADER} is wrong"}, HTTPStatus.FORBIDDEN)
            if changes and not self._allows_changes:
                message = "this dashboard changes nothing: start it with --allow-changes"
                return _told({"error": "read_only", "message": message}, HTTPStatus.FORBIDDEN)
            try:
                return await answering(Asked(request, visitor))
            except AuthenticationFailed as error:
                self._visitors.end(visitor)
                return _refusal(error)
            except RaftmetaError as error:
                return _refusal(error)

        return answer

    # --- sessions -----------------------------------------------------------------------------------------------------
    async def session(self, request: Request) -> Response:
        """Who the visitor is. While rights are off, a visitor without a session gets one."""
        self.check_origin(request)
        visitor = self._visitors.of(request.cookies.get(self._cookie(request), ""))
        if visitor is not None:
            return _told(self._session_shape(visitor))
        try:
            return await self._begin(request, Proof())
        except AuthenticationFailed:
            return _told({"user": None, "cluster": self._place.cluster, "version": VERSION})
        except RaftmetaError as error:
            return _refusal(error)

    async def login(self, request: Request) -> Response:
        """A session for a user and a password, or for a token."""
        self.check_origin(request)
        try:
            told = await body_of(request)
            user, password, token = (_secret(told, name) for name in ("user", "password", "token"))
            if (token is None) == (user is None) or (user is None) != (password is None):
                raise InvalidArgument("user: give user and password, or a token", field="user")
            return await self._begin(request, Proof(user, password, token))
        except RaftmetaError as error:
            return _refusal(error)

    async def logout(self, request: Request) -> Response:
        """End the session of the request."""
        self.check_origin(request)
        visitor = self._visitors.of(request.cookies.get(self._cookie(request), ""))
        if visitor is not None:
            if not self._has_token(request, visitor):
                return _told({"error": "csrf", "message": f"{CSRF_HEADER} is wrong"}, HTTPStatus.FORBIDDEN)
            self._visitors.end(visitor)
        response = _told({})
        response.delete_cookie(self._cookie(request), httponly=True, samesite="strict", secure=self._is_secure)
        return response

    async def _begin(self, request: Request, proof: Proof) -> Response:
        visitor, cookie = await self._visitors.login(proof)
        response = _told(self._session_shape(visitor))
        response.set_cookie(
            self._cookie(request), cookie, httponly=True, samesite="strict", secure=self._is_secure, path="/"
        )
        return response

    def _session_shape(self, visitor: Visitor) -> dict[str, Any]:
        return {
            "user": visitor.user,
            "csrf": visitor.csrf,
            "cluster": self._place.cluster,
            "version": VERSION,
            "allows_changes": self._allows_changes,
        }

    # --- questions ----------------------------------------------------------------------------------------------------
    async def cluster(self, asked: Asked) -> Response:
        return stream(asked.visitor, cluster_of(asked.visitor, self._ending))

    async def holders(self, asked: Asked) -> Response:
        return stream(asked.visitor, holders_of(asked.visitor, self._ending))

    async def changes(self, asked: Asked) -> Response:
        return stream(asked.visitor, changes_of(asked.visitor, asked.key("prefix"), self._ending))

    def routes(self) -> list[Route]:
        """All of them: a test asks each of those below /api/ without a session."""
        files = [Route(path, self._file(name, kind), methods=["GET"]) for path, (name, kind) in FILES.items()]
        return [
            *files,
            Route("/api/session", self.session, methods=["GET"]),
            Route("/api/login", self.login, methods=["POST"]),
            Route("/api/logout", self.logout, methods=["POST"]),
            Route("/api/live/cluster", self.question(self.cluster), methods=["GET"]),
            Route("/api/live/holders", self.question(self.holders), methods=["GET"]),
            Route("/api/live/keys", self.question(self.changes), methods=["GET"]),
            Route("/api/keys", self.question(_keys), methods=["GET"]),
            Route("/api/key", self.question(_key), methods=["GET"]),
            Route("/api/history", self.question(_history), methods=["GET"]),
            Route("/api/members", self.question(_act, changes=True), methods=["POST"]),
        ]

    def _file(self, name: str, kind: str) -> Callable[[Request], Awaitable[Response]]:
        content = (resources.files("raftmeta.dashboard") / "page" / name).read_bytes()

        async def answer(request: Request) -> Response:
            self.check_origin(request)
            return Response(content, media_type=kind)

        return answer


async def _keys(asked: Asked) -> Response:
    is_flat = asked.request.query_params.get("flat") == "true"
    shape = await folder_shape(
        asked.client, asked.key("prefix"), asked.key("start"), revision=asked.revision, flat=is_flat
    )
    return _told(shape)


async def _key(asked: Asked) -> Response:
    return _told(await key_page(asked.client, asked.key("key"), revision=asked.revision))


async def _history(asked: Asked) -> Response:
    return _told(await history_shape(asked.client, asked.key("key"), revision=asked.revision))


async def _act(asked: Asked) -> Response:
    told = await body_of(asked.request)
    done = await act(asked.client, told)
    _LOG.info("members changed action=%s member=%s user=%s", done["done"], done["name"], asked.visitor.user)
    return _told(done)


# --- bodies -----------------------------------------------------------------------------------------------------------
async def body_of(request: Request) -> dict[str, Any]:
    """The object in a body of JSON. Raises InvalidArgument."""
    if request.headers.get("Content-Type", "").partition(";")[0].strip() != "application/json":
        raise InvalidArgument("body: must be application/json", field="body")
    raw = bytearray()
    async for part in request.stream():
        raw += part
        if len(raw) > BODY_BYTES_MAX:
            raise InvalidArgument(f"body: has more than {BODY_BYTES_MAX} bytes", field="body")
    try:
        told = json.loads(raw)
    except ValueError:
        told = None
    if not isinstance(told, dict):
        raise InvalidArgument("body: must be an object in JSON", field="body")
    return told


def _secret(told: dict[str, Any], name: str) -> str | None:
    value = told.get(name)
    if value is not None and (not isinstance(value, str) or not 0 < len(value) <= SECRET_CHARACTERS_MAX):
        raise InvalidArgument(f"{name}: must be text of at most {SECRET_CHARACTERS_MAX} characters", field=name)
    return value


def _told(shape: Any, status: HTTPStatus = HTTPStatus.OK) -> Response:
    return Response(json.dumps(shape, separators=(",", ":")), status, media_type="application/json")


_STATUSES: tuple[tuple[type[RaftmetaError], HTTPStatus, str], ...] = (
    (AuthenticationFailed, HTTPStatus.UNAUTHORIZED, ""),
    (PermissionDenied, HTTPStatus.FORBIDDEN, ""),
    (InvalidArgument, HTTPStatus.BAD_REQUEST, ""),
    (OutcomeUnknown, HTTPStatus.GATEWAY_TIMEOUT, "It may have been done: look before you repeat it."),
    (NotExecuted, HTTPStatus.SERVICE_UNAVAILABLE, "Nothing was changed."),
    (Refused, HTTPStatus.CONFLICT, "Nothing was changed."),
    (RaftmetaError, HTTPStatus.BAD_GATEWAY, ""),
)


def _refusal(error: RaftmetaError) -> Response:
    status, advice = next((status, advice) for kind, status, advice in _STATUSES if isinstance(error, kind))
    return _told({"error": type(error).__name__, "message": str(error), "advice": advice}, status)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


# --- the application --------------------------------------------------------------------------------------------------
class _WithHeaders:
    """Puts HEADERS on every answer, also on those of Starlette itself."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def tell(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        await self._app(scope, receive, tell)


async def _missing(_request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else HTTPStatus.NOT_FOUND
    message = error.detail if isinstance(error, HTTPException) else ""
    return _told({"error": "refused", "message": message}, HTTPStatus(status))


def make_app(
    place: Place,
    *,
    own: Proof | None = None,
    allows_changes: bool = False,
    is_secure: bool = False,
    hosts: Sequence[str] = (),
    is_ending: Ending = lambda: False,
) -> ASGIApp:
    """The application of a dashboard. own: the principal as which it looks while nobody does.

    is_secure: it is served by https. is_ending: streams are to end.
    """
    dashboard = Dashboard(
        place, own or Proof(), allows_changes=allows_changes, is_secure=is_secure, hosts=hosts, ending=is_ending
    )
    app = Starlette(
        routes=dashboard.routes(), exception_handlers={HTTPException: _missing}, lifespan=dashboard.lifespan
    )
    return _WithHeaders(app)
