"""The result codes of a metastore by ZooKeeper's names and numbers, and the errors that a program may make of them.

A response carries a code and never raises by itself (KIP-273, Kafka's AsyncResponse). `maybe_throw` makes one of these
errors of it, which also tells the fate of the request as every error of raftmeta does (raftmeta/errors.py).
"""

from __future__ import annotations

from enum import IntEnum

from raftmeta.errors import NotExecuted, OutcomeUnknown, RaftmetaError, Refused

__all__ = [
    "AuthFailed",
    "Code",
    "ConnectTimeout",
    "MetastoreError",
    "RequestFailed",
    "RequestLost",
    "RequestRefused",
    "SessionExpired",
    "code_of",
    "request_error",
]


class Code(IntEnum):
    """KeeperException.Code of ZooKeeper 3.9."""

    OK = 0
    SYSTEMERROR = -1
    RUNTIMEINCONSISTENCY = -2
    DATAINCONSISTENCY = -3
    CONNECTIONLOSS = -4
    MARSHALLINGERROR = -5
    UNIMPLEMENTED = -6
    OPERATIONTIMEOUT = -7
    BADARGUMENTS = -8
    NEWCONFIGNOQUORUM = -13
    RECONFIGINPROGRESS = -14
    APIERROR = -100
    NONODE = -101
    NOAUTH = -102
    BADVERSION = -103
    NOCHILDRENFOREPHEMERALS = -108
    NODEEXISTS = -110
    NOTEMPTY = -111
    SESSIONEXPIRED = -112
    INVALIDCALLBACK = -113
    INVALIDACL = -114
    AUTHFAILED = -115
    SESSIONMOVED = -118
    NOTREADONLY = -119
    EPHEMERALONLOCALSESSION = -120
    NOWATCHER = -121
    REQUESTTIMEOUT = -122
    RECONFIGDISABLED = -123
    SESSIONCLOSEDREQUIRESASLAUTH = -124
    QUOTAEXCEEDED = -125
    THROTTLEDOP = -127


def code_of(number: int) -> Code:
    """The code of this number; SYSTEMERROR for one that no ZooKeeper 3.9 knows."""
    try:
        return Code(number)
    except ValueError:
        return Code.SYSTEMERROR


# The request may have been executed all the same: nobody heard the answer.
_LOST = frozenset({Code.CONNECTIONLOSS, Code.OPERATIONTIMEOUT, Code.SESSIONEXPIRED, Code.REQUESTTIMEOUT})


class MetastoreError(RaftmetaError):
    """Base of the errors of a metastore."""


class RequestFailed(MetastoreError):
    """A response whose code is not OK. code, path: of the response; path None: of a multi."""

    def __init__(self, code: Code, path: str | None) -> None:
        super().__init__(f"{code.name} for {'a multi' if path is None else path}")
        self.code = code
        self.path = path


class RequestRefused(RequestFailed, Refused):
    """The store decided, and the answer is no: nothing was changed."""


class RequestLost(RequestFailed, OutcomeUnknown):
    """The answer was lost with its connection or session: the request may be executed or not."""


class SessionExpired(MetastoreError, NotExecuted):
    """The session ended and the next one has not begun, or the metastore was closed."""


class AuthFailed(MetastoreError, NotExecuted):
    """The store does not accept the credentials of this metastore."""


class ConnectTimeout(MetastoreError, NotExecuted, TimeoutError):
    """The store was not reached within the time given."""


def request_error(code: Code, path: str | None) -> RequestFailed:
    """The error that tells the fate of a request with this code."""
    return RequestLost(code, path) if code in _LOST else RequestRefused(code, path)
