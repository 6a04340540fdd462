"""The answer to a request that was not done: a status, and a body that tells the fate of the request.

    {"error": "key_exists", "fate": "refused", "message": "...", "revision": 17}

fate: "not_executed", certainly not applied, to try again is safe; "refused", decided and nothing changed; or
"outcome_unknown", applied or not. It decides the statuses. An error's name is that of its class in raftmeta/errors.py.
"""

from __future__ import annotations

import json
import math
import re
from http import HTTPStatus
from typing import Any

from starlette.responses import Response

from raftmeta import errors
from raftmeta.errors import InvalidArgument, NotExecuted, OutcomeUnknown, RaftmetaError, Refused

__all__ = ["CheckFailed", "HttpRefused", "Missing", "Superseded", "body_of", "name_of", "response_of"]


class CheckFailed(Refused):
    """A check of a transaction does not hold. found: the records of the checked keys, as JSON."""

    def __init__(self, message: str, *, revision: int = 0, found: list[dict[str, Any]]) -> None:
        super().__init__(message, revision=revision)
        self.found = found


class Superseded(OutcomeUnknown):
    """A later request used the same slot of idempotency keys."""


class Missing(Refused):
    """The path names a thing that is not there."""


class HttpRefused(NotExecuted):
    """A rule of HTTP was broken: a wrong type of the body, one that is too large, another origin."""

    def __init__(self, message: str, status: HTTPStatus) -> None:
        super().__init__(message)
        self.status = status


# The first class that fits counts.
_STATUSES: tuple[tuple[type[RaftmetaError], HTTPStatus], ...] = (
    (Superseded, HTTPStatus.CONFLICT),
    (OutcomeUnknown, HTTPStatus.GATEWAY_TIMEOUT),
    (errors.AuthenticationFailed, HTTPStatus.UNAUTHORIZED),
    (errors.PermissionDenied, HTTPStatus.FORBIDDEN),
    (errors.Overloaded, HTTPStatus.TOO_MANY_REQUESTS),
    (errors.NoSpace, HTTPStatus.INSUFFICIENT_STORAGE),
    (errors.Unsupported, HTTPStatus.NOT_IMPLEMENTED),
    (NotExecuted, HTTPStatus.SERVICE_UNAVAILABLE),
    (CheckFailed, HTTPStatus.PRECONDITION_FAILED),
    (errors.KeyExists, HTTPStatus.PRECONDITION_FAILED),
    (errors.CompareFailed, HTTPStatus.PRECONDITION_FAILED),
    (errors.KeyMissing, HTTPStatus.NOT_FOUND),
    (Missing, HTTPStatus.NOT_FOUND),
    (errors.Compacted, HTTPStatus.GONE),
    (errors.CommandRefused, HTTPStatus.UNPROCESSABLE_ENTITY),
    (Refused, HTTPStatus.CONFLICT),
    (InvalidArgument, HTTPStatus.BAD_REQUEST),
    (errors.ConfigError, HTTPStatus.BAD_REQUEST),
)
_ADVICE: tuple[tuple[type[RaftmetaError], str], ...] = (
    (errors.Compacted, "read the state again, and ask for the changes after the revision of that answer"),
    (Superseded, "number the requests of a slot upwards, and send one at a time"),
    (OutcomeUnknown, "send the same request with the same Idempotency-Key again, or read what became of it"),
    (errors.LeaseExpired, "begin another session; its keys, places and idempotency keys went with it"),
    (errors.Fenced, "stop acting: the place of this fence belongs to somebody else, or to nobody"),
    (errors.Overloaded, "try again later"),
    (NotExecuted, "it is safe to send it again, to any node"),
)
_WITHOUT_ADVICE = (errors.AuthenticationFailed, errors.PermissionDenied, errors.Unsupported, HttpRefused)
_WORDS = re.compile(r"(?<!^)(?=[A-Z])")


def name_of(kind: type[BaseException]) -> str:
    """The name of an error in a body: key_exists of KeyExists."""
    return _WORDS.sub("_", kind.__name__).lower()


def _fate(error: RaftmetaError) -> str:
    if isinstance(error, Refused):
        return "refused"
    is_certain = isinstance(error, NotExecuted | InvalidArgument | errors.ConfigError)
    return "not_executed" if is_certain else "outcome_unknown"


def body_of(error: RaftmetaError) -> dict[str, Any]:
    """The body that tells what became of a request."""
    told: dict[str, Any] = {"error": name_of(type(error)), "fate": _fate(error), "message": str(error)}
    for name in ("revision", "field", "found", "retry_after_s", "right"):
        value = getattr(error, name, None)
        if value:
            told[name] = value
    for kind, advice in _ADVICE:
        if isinstance(error, kind) and not isinstance(error, _WITHOUT_ADVICE):
            told["advice"] = advice
            break
    return told


def response_of(error: RaftmetaError) -> Response:
    """The answer to a request that ended with an error."""
    if isinstance(error, HttpRefused):
        status = error.status
    else:
        fitting = (status for kind, status in _STATUSES if isinstance(error, kind))
        status = next(fitting, HTTPStatus.INTERNAL_SERVER_ERROR)
    headers = {}
    if status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = 'Bearer realm="raftmeta", Basic realm="raftmeta"'
    if status in (HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS):
        headers["Retry-After"] = str(max(1, math.ceil(getattr(error, "retry_after_s", None) or 0)))
    return Response(json.dumps(body_of(error)), status, headers, "application/json")
