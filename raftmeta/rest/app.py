"""The ASGI application: a request in, the answer of its route out, and every error as a fate."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from http import HTTPStatus
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as StarletteRoute

from raftmeta.errors import OutcomeUnknown, RaftmetaError
from raftmeta.rest.call import Call, json_response
from raftmeta.rest.fates import HttpRefused, response_of
from raftmeta.rest.principals import Principals
from raftmeta.rest.routes import ROUTES, Handler

__all__ = ["make_app"]

_LOG = logging.getLogger(__name__)


def make_app(url: str, *, cluster: str = "default", is_ending: Callable[[], bool] = lambda: False) -> Starlette:
    """The application over the nodes of a URL of raftmeta.Client. is_ending: streams are to end."""
    state: dict[str, Principals] = {}

    @contextlib.asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        state["principals"] = Principals(url, cluster)
        try:
            yield
        finally:
            await state["principals"].close()

    def endpoint(handler: Handler) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        async def answer(request: Request) -> Response:
            try:
                if "Origin" in request.headers:
                    raise HttpRefused("Origin: pages of other origins are not served", HTTPStatus.FORBIDDEN)
                async with state["principals"].of(request.headers.get("Authorization", "")) as principal:
                    return await handler(Call(request, principal, is_ending))
            except RaftmetaError as error:
                return response_of(error)
            except Exception:
                _LOG.exception("rest request failed method=%s path=%s", request.method, request.url.path)
                return response_of(OutcomeUnknown("the server made a mistake, and its log has it"))

        return answer

    async def missing(_request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else HTTPStatus.NOT_FOUND
        told = {"error": "no_route", "fate": "not_executed", "message": "GET /v1/openapi.json lists what there is"}
        return json_response(told, status, dict(getattr(error, "headers", None) or {}))

    return Starlette(
        routes=[StarletteRoute(one.starlette_path, endpoint(one.handler), methods=[one.method]) for one in ROUTES],
        exception_handlers={HTTPException: missing},
        lifespan=lifespan,
    )
