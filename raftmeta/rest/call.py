"""One request: who asks, below which namespace, for how long, and once however often it is sent.

It decides how a write is done at most once. A request with a session and the header `Idempotency-Key: SLOT/NUMBER`
writes a record of itself in the same transaction, under a key of its session. The request that comes again finds the
record, on any node, and gets the answer of the first one, with `Idempotency-Replayed: true`. A slot has one record, of
its newest number, and goes with its session. So the records of a client stay as few as its slots.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import unquote

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from raftmeta.errors import CommandRefused, Fenced, InvalidArgument
from raftmeta.operations import CompareOperator, CreateRevision, Fence, Get, KeyRecord, Operation, Put, Txn, Value
from raftmeta.rest.fates import HttpRefused, Superseded
from raftmeta.rest.principals import Principal
from raftmeta.rest.shapes import fence_of, session_of, whole_number

__all__ = ["Call", "Done", "json_response"]

BODY_BYTES_MAX = 16 << 20
TIMEOUT_S = 5.0
TIMEOUT_S_MAX = 60.0
RECORDS = "_raftmeta/rest/"  # a slot of idempotency keys is RECORDS SESSION/SLOT
NAMESPACE_CHARACTERS_MAX = 200
_IDEMPOTENCY = re.compile(r"([0-9]{1,6})/([0-9]{1,19})")


def json_response(shape: Any, status: int = HTTPStatus.OK, headers: dict[str, str] | None = None) -> Response:
    """An answer in JSON."""
    return Response(json.dumps(shape, separators=(",", ":")), status, headers, "application/json")


class Done(NamedTuple):
    """A write that was done, or whose checks do not hold. found: then the records that were read in their place."""

    holds: bool
    revision: int
    is_replay: bool = False
    found: tuple[KeyRecord | None, ...] = ()


class Call:
    """A request on its way. path: the variables of its path. is_ending: whether the server is being closed."""

    def __init__(self, request: Request, principal: Principal, ending: Callable[[], bool]) -> None:
        self._ending = ending
        self.request = request
        self.principal = principal
        self.path: dict[str, str] = request.path_params
        self.query = request.query_params
        self.store: Any = principal.client
        namespace = request.headers.get("Raftmeta-Namespace")
        if namespace:
            if len(namespace) > NAMESPACE_CHARACTERS_MAX:
                raise InvalidArgument("Raftmeta-Namespace: is too long", field="Raftmeta-Namespace")
            self.store = principal.client.prefixed(unquote(namespace))

    @property
    def is_ending(self) -> bool:
        return self._ending()

    # --- what it says -------------------------------------------------------------------------------------------------
    @property
    def timeout_s(self) -> float:
        return self.seconds("timeout_s", TIMEOUT_S)

    def seconds(self, name: str, default: float) -> float:
        """A number of seconds in the query. Raises InvalidArgument."""
        text = self.query.get(name)
        try:
            seconds = default if text is None else float(text)
        except ValueError:
            seconds = -1.0
        if not 0 <= seconds <= TIMEOUT_S_MAX:
            raise InvalidArgument(f"{name}: must be from 0 to {TIMEOUT_S_MAX:g} seconds", field=name)
        return seconds

    def truth(self, name: str) -> bool:
        """A flag in the query. Raises InvalidArgument."""
        text = self.query.get(name, "false")
        if text not in ("true", "false"):
            raise InvalidArgument(f"{name}: must be true or false, not {text!r:.100}", field=name)
        return text == "true"

    def number(self, name: str, default: int = 0) -> int:
        """A whole number in the query. Raises InvalidArgument."""
        text = self.query.get(name)
        return default if text is None else whole_number(text, name)

    @property
    def session(self) -> int:
        """The lease of the header Raftmeta-Session, 0 without one. Raises InvalidArgument."""
        text = self.request.headers.get("Raftmeta-Session")
        return 0 if text is None else session_of(text, "Raftmeta-Session")

    @property
    def needed_session(self) -> int:
        """The same, of a request that needs one."""
        if not (session := self.session):
            raise InvalidArgument("Raftmeta-Session: this request needs a session", field="Raftmeta-Session")
        return session

    @property
    def fence(self) -> Fence | None:
        return fence_of(self.request.headers.get("Raftmeta-Fence"))

    async def body(self) -> bytes:
        """Raises HttpRefused: it is too large."""
        parts: list[bytes] = []
        size = 0
        try:
            async for part in self.request.stream():
                size += len(part)
                if size > BODY_BYTES_MAX:
                    raise HttpRefused(
                        f"the body has more than {BODY_BYTES_MAX} bytes", HTTPStatus.REQUEST_ENTITY_TOO_LARGE
                    )
                parts.append(part)
        except ClientDisconnect:
            raise HttpRefused("the body did not come whole", HTTPStatus.BAD_REQUEST) from None
        return b"".join(parts)

    async def object(self) -> tuple[dict[str, Any], bytes]:
        """The body, an object in JSON, and its bytes. Raises HttpRefused, InvalidArgument."""
        kind = self.request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if kind != "application/json":  # a page of another origin could send any other type without asking
            raise HttpRefused("Content-Type: must be application/json", HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
        try:
            raw = await self.body()
            told = json.loads(raw or b"{}")
        except (ValueError, RecursionError):
            raise InvalidArgument("body: is no JSON", field="body") from None
        if not isinstance(told, dict):
            raise InvalidArgument("body: must be an object", field="body")
        return told, raw

    # --- what it does -------------------------------------------------------------------------------------------------
    async def write(
        self, compares: Sequence[CompareOperator], operations: Sequence[Operation], reads: Sequence[str], body: bytes
    ) -> Done:
        """Do the operations if all compares hold, else read the keys of reads; at most once for its idempotency key.

        body: of the request, which must be the same when it comes again.
        Raises Fenced, Superseded, and what a transaction raises.
        """
        fence, key = self.fence, self.request.headers.get("Idempotency-Key")
        gets: list[Operation] = [Get(key) for key in reads]
        if key is None:
            reply = await self.store.txn(compares, operations, gets, fence=fence, timeout_s=self.timeout_s)
            return Done(reply.succeeded, reply.revision, found=() if reply.succeeded else tuple(reply.results))
        slot, number, record = self._slot(key, body)
        if fence is not None:  # as a compare: a request that was done before the fence was lost is answered again
            compares = [*compares, CreateRevision(fence.key) == fence.create_revision]
            gets.append(Get(fence.key))
        inner = Txn(compares, [Put(slot, record, lease=self.needed_session), *operations], gets)
        reply = await self.store.txn([Value(slot) > number], [Get(slot)], [inner], timeout_s=self.timeout_s)
        if reply.succeeded:
            return self._replayed(reply.results[0], number, record)
        done = reply.results[0]
        if done.succeeded:
            return Done(True, reply.revision)
        found = tuple(done.results)
        if fence is not None and (found[-1] is None or found[-1].create_revision != fence.create_revision):
            raise Fenced(f"the fence {fence.key!r} is not held any more", revision=reply.revision)
        return Done(False, reply.revision, found=found[: len(reads)])

    def _slot(self, key: str, body: bytes) -> tuple[str, bytes, bytes]:
        """The key of the slot, its number as it is compared, and the record. Raises InvalidArgument."""
        parts = _IDEMPOTENCY.fullmatch(key)
        if parts is None:
            raise InvalidArgument("Idempotency-Key: must look like SLOT/NUMBER: 0/17", field="Idempotency-Key")
        request = self.request
        said = [request.method, str(request.url.path), request.url.query]
        said += [request.headers.get(name, "") for name in ("If-Match", "If-None-Match", "Raftmeta-Fence")]
        digest = hashlib.sha256(json.dumps(said).encode() + body).hexdigest()[:32]
        number = b"%020d" % int(parts[2])
        slot = f"{RECORDS}{self.request.headers.get('Raftmeta-Session', '')}/{int(parts[1])}"
        return slot, number, number + b" " + digest.encode()

    @staticmethod
    def _replayed(found: KeyRecord, number: bytes, record: bytes) -> Done:
        if found.value == record:
            return Done(True, found.mod_revision, is_replay=True)
        if found.value.startswith(number + b" "):
            raise CommandRefused("Idempotency-Key: another request had this key", revision=found.mod_revision)
        raise Superseded("Idempotency-Key: a request with a higher number used this slot")
