"""Sessions by REST. A session is a lease: its keys, places and idempotency keys go with it. No node keeps it alive by
itself; any node takes its keep-alives."""

from __future__ import annotations

import contextlib
from http import HTTPStatus

from starlette.responses import Response

from raftmeta.bindings.requests import NUMBER
from raftmeta.bindings.verbs import grant, revoke
from raftmeta.errors import InvalidArgument, LeaseExpired
from raftmeta.rest.call import Call, json_response
from raftmeta.rest.fates import Missing
from raftmeta.rest.shapes import session_of, session_text

__all__ = ["begin_session", "end_session", "keep_session"]

TTL_S_MIN, TTL_S_MAX = 0.1, 86_400.0


async def begin_session(call: Call) -> Response:
    """Begin a session, which lives ttl_s seconds from its last keep-alive on."""
    told, _ = await call.object()
    ttl_s = told.get("ttl_s")
    if isinstance(ttl_s, bool) or not isinstance(ttl_s, int | float) or not TTL_S_MIN <= ttl_s <= TTL_S_MAX:
        raise InvalidArgument(f"ttl_s: must be from {TTL_S_MIN} to {TTL_S_MAX:g} seconds", field="ttl_s")
    lease = await call.principal.client._ask(grant(0, round(ttl_s * 1000)), call.timeout_s)
    headers = {"Location": f"/v1/sessions/{session_text(lease)}"}
    return json_response({"session": session_text(lease), "ttl_s": ttl_s}, HTTPStatus.CREATED, headers)


async def keep_session(call: Call) -> Response:
    """Keep a session alive. Count its time from before the request was sent."""
    lease, channel = session_of(call.path["session"]), call.principal.client.channel
    deadline_s = channel.deadline(call.timeout_s)
    await channel.session(deadline_s)
    frame = channel.encoder.keep_alive([lease])
    (ttl_ms,) = await channel.submit(frame, NUMBER, deadline_s, is_command=True)
    if not ttl_ms:
        raise Missing(f"the session {session_text(lease)} has ended")
    return json_response({"session": session_text(lease), "ttl_s": ttl_ms / 1000})


async def end_session(call: Call) -> Response:
    """End a session at once, with all that belongs to it. One that has ended is ignored."""
    with contextlib.suppress(LeaseExpired):
        await call.principal.client._ask(revoke(session_of(call.path["session"])), call.timeout_s)
    return Response(status_code=HTTPStatus.NO_CONTENT)
