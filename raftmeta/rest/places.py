"""Groups and elections by REST: members and candidates, under the same keys as those of every other client.

A place is a key that belongs to a session (recipes/places). Its create revision is its epoch, and the candidate with
the lowest one leads. To ask for a place that one's session has already is answered like the first time.
"""

from __future__ import annotations

import base64
from http import HTTPStatus
from typing import Any

from starlette.responses import Response

from raftmeta.errors import IdConflict
from raftmeta.interfaces import Owner
from raftmeta.operations import Create, Delete, Get, KeyRecord, LeaseId, ModRevision, Operation, Version
from raftmeta.recipes.keys import name_in, pack_holder, part_of, prefix_of, unpack_holder
from raftmeta.rest.call import Call, json_response
from raftmeta.rest.shapes import fence_text, session_text

__all__ = ["get_election", "get_group", "join_group", "leave_group", "nominate", "withdraw"]


def group_prefix(call: Call) -> str:
    return prefix_of("groups", call.path["group"], "group")


def election_prefix(call: Call) -> str:
    return prefix_of("elections", call.path["service"], "service")


def _place_shape(record: KeyRecord, prefix: str) -> dict[str, Any]:
    holder = unpack_holder(record.value)
    return {
        "id": holder.id or name_in(record.key, prefix),
        "data": base64.b64encode(holder.data).decode(),
        "epoch": record.create_revision,
        "fence": fence_text(record.key, record.create_revision),
    }


async def _places(call: Call, prefix: str) -> tuple[list[dict[str, Any]], int]:
    """In the order in which they were taken, and the revision."""
    found = await call.store.range(prefix=prefix, local=call.truth("local"), timeout_s=call.timeout_s)
    records = sorted(found.records, key=lambda record: record.create_revision)
    return [_place_shape(record, prefix) for record in records], found.revision


async def get_group(call: Call) -> Response:
    """The members, as of one revision."""
    members, revision = await _places(call, group_prefix(call))
    return json_response({"group": call.path["group"], "members": members, "revision": revision})


async def get_election(call: Call) -> Response:
    """The leader, and all candidates in the order of their nominations."""
    candidates, revision = await _places(call, election_prefix(call))
    leader = candidates[0] if candidates else None
    told = {"service": call.path["service"], "leader": leader, "candidates": candidates, "revision": revision}
    return json_response(told)


async def join_group(call: Call) -> Response:
    """Become a member for as long as the session lives. Other data make a new member of another epoch."""
    status, shape = await _take(call, group_prefix(call), call.path["member"])
    return json_response(shape, status)


async def leave_group(call: Call) -> Response:
    """Stop being a member; one that is none is ignored."""
    return await _give_back(call, group_prefix(call), call.path["member"])


async def nominate(call: Call) -> Response:
    """Become a candidate for as long as the session lives, behind the others. The answer tells whether it leads."""
    prefix, candidate = election_prefix(call), call.path["candidate"]
    status, shape = await _take(call, prefix, candidate)
    candidates, _ = await _places(call, prefix)
    shape["is_leader"] = bool(candidates) and candidates[0]["epoch"] == shape["epoch"]
    return json_response(shape, status)


async def withdraw(call: Call) -> Response:
    """Be no candidate any more; a leader gives the lead back. One that is none is ignored."""
    return await _give_back(call, election_prefix(call), call.path["candidate"])


async def _take(call: Call, prefix: str, id: str) -> tuple[HTTPStatus, dict[str, Any]]:
    key, session, data, name = (
        prefix + part_of(id, "id"),
        call.needed_session,
        await call.body(),
        call.query.get("owner"),
    )
    owner = Owner(f"client {name}" if name else f"session {session_text(session)}", session, 0)
    value = pack_holder(owner, data, key=key, id=id)
    create = Create(key, value, lease=session)
    compare: Any = Version(key) == 0
    then: list[Operation] = [create]
    while True:
        reply = await call.store.txn([compare], then, [Get(key)], fence=call.fence, timeout_s=call.timeout_s)
        if reply.succeeded:
            record = KeyRecord(key.encode(), value, reply.revision, reply.revision, 1, session)
            return HTTPStatus.CREATED, _place_shape(record, prefix)
        found: KeyRecord | None = reply.results[0]
        if found is None:  # it went in between
            compare, then = Version(key) == 0, [create]
            continue
        if found.lease == session and found.value == value:
            return HTTPStatus.OK, _place_shape(found, prefix)
        holder = unpack_holder(found.value).owner
        if found.lease != session and not owner.succeeds(holder):
            raise IdConflict(f"{id!r} is held by {holder.name!r} until that one leaves", revision=reply.revision)
        compare, then = ModRevision(key) == found.mod_revision, [Delete(key), create]


async def _give_back(call: Call, prefix: str, id: str) -> Response:
    key, session = prefix + part_of(id, "id"), call.needed_session
    reply = await call.store.txn([LeaseId(key) == session], [Delete(key)], [Get(key)], timeout_s=call.timeout_s)
    if not reply.succeeded and reply.results[0] is not None:
        raise IdConflict(f"{id!r} belongs to another session", revision=reply.revision)
    return Response(status_code=HTTPStatus.NO_CONTENT)
