"""The routes of the REST server, and the OpenAPI document that describes them. One table has both."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from raftmeta.rest.call import Call, json_response
from raftmeta.rest.changes import get_changes
from raftmeta.rest.keys import delete_key, get_key, list_keys, put_key, transact
from raftmeta.rest.places import get_election, get_group, join_group, leave_group, nominate, withdraw
from raftmeta.rest.sessions import begin_session, end_session, keep_session
from raftmeta.version import VERSION

__all__ = ["ROUTES", "Route", "document"]

Handler = Callable[[Call], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Route:
    """One method of one path. query, headers: that it knows beside the common ones, with what they mean.

    body: "bytes", "json" or none; fields: of a body in JSON. answers: statuses beside those of errors.
    """

    method: str
    path: str
    handler: Handler
    query: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    body: str = ""
    fields: tuple[str, ...] = ()
    answers: tuple[int, ...] = (200,)
    errors: tuple[int, ...] = ()

    @property
    def starlette_path(self) -> str:
        return re.sub(r"{(key|member|candidate)}", r"{\1:path}", self.path)

    @property
    def summary(self) -> str:
        return (self.handler.__doc__ or "").partition("\n")[0]


async def get_status(call: Call) -> Response:
    """How the node sees itself and the cluster."""
    status = await call.principal.client.status(timeout_s=call.timeout_s)
    names = ("name", "cluster", "cluster_id", "is_ready", "leader", "term", "revision", "compacted", "version")
    return json_response({name: getattr(status, name) for name in names})


async def get_document(_call: Call) -> Response:
    """This document."""
    return json_response(document())


_QUERY: dict[str, tuple[str, dict[str, Any]]] = {
    "after": ("the revision after which changes are told", {"type": "integer"}),
    "election": ("all candidates of this service", {"type": "string"}),
    "ephemeral": ("the key belongs to the session of the request", {"type": "boolean"}),
    "group": ("all members of this group", {"type": "string"}),
    "key": ("this key", {"type": "string"}),
    "keys_only": ("without values", {"type": "boolean"}),
    "limit": ("at most so many; 0: all", {"type": "integer"}),
    "local": ("what this node has applied, without asking a majority", {"type": "boolean"}),
    "owner": ("a name whose later session takes its places over at once", {"type": "string"}),
    "prefix": ("all keys that begin with it", {"type": "string"}),
    "revision": ("as of this revision", {"type": "integer"}),
    "start": ("from this key on: next_start of the page before", {"type": "string"}),
    "timeout_s": ("seconds for the whole request, 5 by default", {"type": "number"}),
    "wait_s": ("seconds until a long poll ends without a change, 30 by default", {"type": "number"}),
}
_HEADERS: dict[str, str] = {
    "Idempotency-Key": "SLOT/NUMBER; with a session: the request is done at most once, however often it is sent",
    "If-Match": "the ETag that the key must have; *: it must exist",
    "If-None-Match": "*: the key must not exist; of a read: the ETag that is known",
    "Last-Event-ID": "the id of the last event of a stream; in the place of after",
    "Raftmeta-Fence": "the fence of a member or candidate: refused when it is not held any more",
    "Raftmeta-Namespace": "a prefix, percent-encoded, of all keys of the request",
    "Raftmeta-Session": "a session",
}
_ERRORS = {
    400: "an argument is wrong",
    401: "nobody proved who asks",
    403: "no right to it",
    404: "it does not exist",
    409: "refused: the fence or session is gone, or somebody else has the place",
    410: "the history after that revision is gone: read the state again",
    412: "a precondition does not hold",
    413: "the body is too large",
    415: "the body must be application/json",
    422: "it makes no sense, or another request had this idempotency key",
    429: "over a quota, or too much is under way",
    501: "not supported",
    503: "not executed: safe to send again",
    504: "the outcome is unknown: send it again with the same idempotency key",
    507: "no quorum has room",
}
_ALWAYS = (400, 401, 403, 429, 503, 504)
_WRITES = (409, 422, 507)
_GUARDS = ("Idempotency-Key", "Raftmeta-Fence", "Raftmeta-Session")
_FIELDS: dict[str, dict[str, Any]] = {
    "checks": {"type": "array", "items": {"$ref": "#/components/schemas/Check"}},
    "operations": {"type": "array", "items": {"$ref": "#/components/schemas/Operation"}},
    "ttl_s": {"type": "number"},
}

ROUTES: tuple[Route, ...] = (
    Route("GET", "/v1/openapi.json", get_document),
    Route("GET", "/v1/status", get_status),
    Route(
        "POST", "/v1/sessions", begin_session, body="json", fields=("ttl_s",), answers=(201,), errors=(415,),
    ),
    Route("PUT", "/v1/sessions/{session}", keep_session, errors=(404,)),
    Route("DELETE", "/v1/sessions/{session}", end_session, answers=(204,)),
    Route("GET", "/v1/keys", list_keys, query=("prefix", "start", "limit", "keys_only", "revision", "local")),
    Route(
        "GET", "/v1/keys/{key}", get_key, query=("revision", "local"), headers=("If-None-Match",),
        answers=(200, 304), errors=(404, 410),
    ),
    Route(
        "PUT", "/v1/keys/{key}", put_key, query=("ephemeral",), headers=("If-Match", "If-None-Match", *_GUARDS),
        body="bytes", answers=(200, 201), errors=(404, 412, 413, *_WRITES),
    ),
    Route("DELETE", "/v1/keys/{key}", delete_key, headers=("If-Match", *_GUARDS), errors=(404, 412, *_WRITES)),
    Route(
        "POST", "/v1/transactions", transact, headers=_GUARDS, body="json", fields=("checks", "operations"),
        errors=(404, 412, 413, 415, *_WRITES),
    ),
    Route(
        "GET", "/v1/changes", get_changes, query=("key", "prefix", "group", "election", "after", "wait_s"),
        headers=("Last-Event-ID",), errors=(410,),
    ),
    Route("GET", "/v1/groups/{group}", get_group, query=("local",)),
    Route(
        "PUT", "/v1/groups/{group}/members/{member}", join_group, query=("owner",),
        headers=("Raftmeta-Session", "Raftmeta-Fence"), body="bytes", answers=(200, 201), errors=(413, *_WRITES),
    ),
    Route(
        "DELETE", "/v1/groups/{group}/members/{member}", leave_group, headers=("Raftmeta-Session",),
        answers=(204,), errors=(409,),
    ),
    Route("GET", "/v1/elections/{service}", get_election, query=("local",)),
    Route(
        "PUT", "/v1/elections/{service}/candidates/{candidate}", nominate, query=("owner",),
        headers=("Raftmeta-Session", "Raftmeta-Fence"), body="bytes", answers=(200, 201), errors=(413, *_WRITES),
    ),
    Route(
        "DELETE", "/v1/elections/{service}/candidates/{candidate}", withdraw, headers=("Raftmeta-Session",),
        answers=(204,), errors=(409,),
    ),
)  # fmt: skip

_REVISION = {"type": "integer", "minimum": 0}
_SCHEMAS: dict[str, Any] = {
    "Error": {
        "type": "object",
        "required": ["error", "fate", "message"],
        "properties": {
            "error": {"type": "string"},
            "fate": {"enum": ["not_executed", "refused", "outcome_unknown"]},
            "message": {"type": "string"},
            "advice": {"type": "string"},
            "revision": _REVISION,
            "field": {"type": "string"},
            "right": {"type": "string"},
            "retry_after_s": {"type": "number"},
            "found": {"type": "array", "items": {"$ref": "#/components/schemas/Record"}},
        },
    },
    "Record": {
        "type": "object",
        "required": ["revision", "create_revision", "version"],
        "properties": {
            "key": {"type": "string"},
            "key_base64": {"type": "string", "contentEncoding": "base64"},
            "value": {"type": "string", "contentEncoding": "base64"},
            "revision": _REVISION,
            "create_revision": _REVISION,
            "version": {"type": "integer"},
            "session": {"type": "string"},
        },
    },
    "Check": {
        "type": "object",
        "required": ["key"],
        "properties": {
            "key": {"type": "string"},
            "revision": _REVISION,
            "create_revision": _REVISION,
            "exists": {"type": "boolean"},
        },
    },
    "Operation": {
        "type": "object",
        "required": ["op", "key"],
        "properties": {
            "op": {"enum": ["create", "delete", "put", "update"]},
            "key": {"type": "string"},
            "value": {"type": "string", "contentEncoding": "base64"},
            "session": {"type": "string"},
            "expected_revision": _REVISION,
            "must_exist": {"type": "boolean"},
        },
    },
}


def _parameters(route: Route) -> list[dict[str, Any]]:
    in_path = [part[1:-1] for part in route.path.split("/") if part.startswith("{")]
    found: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in in_path
    ]
    for name in (*route.query, "timeout_s"):
        text, schema = _QUERY[name]
        found.append({"name": name, "in": "query", "description": text, "schema": schema})
    for name in (*route.headers, "Raftmeta-Namespace"):
        found.append({"name": name, "in": "header", "description": _HEADERS[name], "schema": {"type": "string"}})
    return found


def _operation(route: Route) -> dict[str, Any]:
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    told: dict[str, Any] = {
        "operationId": route.handler.__name__,
        "summary": route.summary,
        "parameters": _parameters(route),
        "responses": {
            **{str(status): {"description": route.summary} for status in route.answers},
            **{
                str(status): {"description": _ERRORS[status], "content": error}
                for status in sorted({*_ALWAYS, *route.errors})
            },
        },
    }
    if route.body == "bytes":
        told["requestBody"] = {"content": {"application/octet-stream": {}}}
    elif route.body:
        schema = {"type": "object", "properties": {name: _FIELDS[name] for name in route.fields}}
        told["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    return told


def document() -> dict[str, Any]:
    """The OpenAPI 3.1 document of all routes."""
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    schemes = {"token": {"type": "http", "scheme": "bearer"}, "password": {"type": "http", "scheme": "basic"}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "raftmeta", "version": VERSION, "license": {"name": "Apache-2.0"}},
        "paths": paths,
        "components": {"schemas": _SCHEMAS, "securitySchemes": schemes},
        "security": [{}, {"token": []}, {"password": []}],
    }
