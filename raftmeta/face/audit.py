"""Lines of the audit trail about a node's own process: its changes of users, members and snapshots.

Requests of clients are told by native threads (server/audit). Calls of the process itself are not recorded one by one:
it could write into the files as well. Its changes of rights and members are, under the principal "process".
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from raftmeta.bindings.revision import Revision
from raftmeta.bindings.verbs import Request
from raftmeta.common import numbers
from raftmeta.verbs.rights import AioAuth, BlockingAuth

if TYPE_CHECKING:
    from raftmeta.security.audit import Audit
    from raftmeta.security.audit_writer import AuditWriter

__all__ = ["AioTold", "Told", "telling", "trail_metrics", "writer_of"]

METRICS = ("audit_lines", "audit_records", "audit_dropped", "audit_suppressed", "audit_failing")
_VERBS = {
    numbers.RIGHTS_ENABLE: "auth_enable",
    numbers.RIGHTS_DISABLE: "auth_disable",
    numbers.RIGHTS_USER_PUT: "auth_user_put",
    numbers.RIGHTS_USER_REMOVE: "auth_user_remove",
    numbers.RIGHTS_ROLE_PUT: "auth_role_put",
    numbers.RIGHTS_ROLE_REMOVE: "auth_role_remove",
    numbers.RIGHTS_GRANT: "auth_grant",
    numbers.RIGHTS_REVOKE: "auth_revoke",
    numbers.RIGHTS_BIND: "auth_bind",
    numbers.RIGHTS_UNBIND: "auth_unbind",
    numbers.RIGHTS_FOUND: "auth_found",
    numbers.RIGHTS_FOUND_AGAIN: "auth_found_again",
    numbers.RIGHTS_CLAIM: "auth_claim",
    numbers.RIGHTS_TOKEN_PUT: "auth_token_put",
    numbers.RIGHTS_TOKEN_REMOVE: "auth_token_remove",
}
_OF_ROLES = {numbers.RIGHTS_BIND, numbers.RIGHTS_UNBIND}


def writer_of(audit: Audit | None, words: dict[int, str]) -> AuditWriter | None:
    """The writer of a run of a node; None: it keeps no trail. words: verdicts of TLS, by status."""
    if audit is None:
        return None
    from raftmeta.security.audit_writer import AuditWriter  # loads hashlib, and with it OpenSSL

    return AuditWriter(audit, words)


def trail_metrics(writer: AuditWriter | None) -> dict[str, int]:
    """The metrics of a trail; all 0 without one."""
    return dict.fromkeys(METRICS, 0) if writer is None else writer.metrics


def telling(
    writer: AuditWriter | None, operation: str, facts: dict[str, str]
) -> contextlib.AbstractContextManager[None]:
    """The block is an operation of the process: its line says how it ended."""
    return contextlib.nullcontext() if writer is None else writer.telling(operation, **facts)


def _facts(verb: int, name: bytes, data: bytes) -> dict[str, str]:
    facts = {"name": name.decode()} if name else {}
    return {**facts, "role": data.decode()} if verb in _OF_ROLES else facts


class Told(BlockingAuth):
    """The verbs of rights of a node that keeps a trail."""

    __slots__ = ("_writer",)

    def __init__(
        self,
        ask: Callable[[Request[Revision], float | None], Revision],
        page: Callable[[int, bytes, int, float | None], list[Any]],
        writer: AuditWriter,
    ) -> None:
        super().__init__(ask, page)
        self._writer = writer

    def _change(self, verb: int, name: bytes, data: bytes, timeout_s: float | None) -> Revision:
        with telling(self._writer, _VERBS[verb], _facts(verb, name, data)):
            return super()._change(verb, name, data, timeout_s)


class AioTold(AioAuth):
    """The same as coroutines."""

    __slots__ = ("_writer",)

    def __init__(
        self,
        ask: Callable[[Request[Revision], float | None], Coroutine[Any, Any, Revision]],
        page: Callable[[int, bytes, int, float | None], Coroutine[Any, Any, list[Any]]],
        writer: AuditWriter,
    ) -> None:
        super().__init__(ask, page)
        self._writer = writer

    async def _change(self, verb: int, name: bytes, data: bytes, timeout_s: float | None) -> Revision:
        with telling(self._writer, _VERBS[verb], _facts(verb, name, data)):
            return await super()._change(verb, name, data, timeout_s)
