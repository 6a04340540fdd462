"""Keys by REST: read, write, remove, list, and transactions."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from starlette.responses import Response

from raftmeta.errors import InvalidArgument
from raftmeta.operations import Create, Delete, KeyRecord, Operation, Put, Update
from raftmeta.rest.call import Call, Done, json_response
from raftmeta.rest.fates import CheckFailed, Missing
from raftmeta.rest.shapes import checks_of, operations_of, record_shape, session_text

__all__ = ["delete_key", "get_key", "list_keys", "put_key", "transact"]

ANY = "*"


def _etag(revision: int) -> str:
    return f'"{revision}"'


def _revision_of(etag: str, header: str) -> int:
    text = etag.strip().removeprefix('"').removesuffix('"')
    if not (text.isascii() and text.isdecimal()) or not 0 < int(text) < 2**64:
        raise InvalidArgument(f"{header}: must be * or the ETag of a key, not {etag!r:.100}", field=header)
    return int(text)


def _headers(done: Done) -> dict[str, str]:
    headers = {"ETag": _etag(done.revision), "Raftmeta-Revision": str(done.revision)}
    if done.is_replay:
        headers["Idempotency-Replayed"] = "true"
    return headers


async def get_key(call: Call) -> Response:
    """The value as it is, or with `Accept: application/json` the whole record."""
    key, known = call.path["key"], call.request.headers.get("If-None-Match")
    record: KeyRecord | None = await call.store.get(
        key, revision=call.number("revision"), local=call.truth("local"), timeout_s=call.timeout_s
    )
    if record is None:
        raise Missing(f"key {key!r} does not exist")
    headers = {"ETag": _etag(record.mod_revision), "Raftmeta-Create-Revision": str(record.create_revision)}
    if record.lease:
        headers["Raftmeta-Session"] = session_text(record.lease)
    if known is not None and known.strip() in (ANY, headers["ETag"]):
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    if "application/json" in call.request.headers.get("Accept", ""):
        return json_response(record_shape(record), headers=headers)
    return Response(record.value, headers=headers, media_type="application/octet-stream")


async def put_key(call: Call) -> Response:
    """Set a key: any, one that must not exist (If-None-Match: *), or one that must (If-Match)."""
    key, value = call.path["key"], await call.body()
    lease = call.needed_session if call.truth("ephemeral") else 0
    absent, expected = call.request.headers.get("If-None-Match"), call.request.headers.get("If-Match")
    if absent is not None and (absent.strip() != ANY or expected is not None):
        raise InvalidArgument("If-None-Match: a write knows * only, and no If-Match beside it", field="If-None-Match")
    operation: Operation = Put(key, value, lease)
    if absent is not None:
        operation = Create(key, value, lease)
    elif expected is not None:
        revision = 0 if expected.strip() == ANY else _revision_of(expected, "If-Match")
        operation = Update(key, value, lease, revision)
    done = await call.write([], [operation], [], value)
    status = HTTPStatus.CREATED if absent is not None else HTTPStatus.OK
    return json_response({"revision": done.revision}, status, _headers(done))


async def delete_key(call: Call) -> Response:
    """Remove a key that exists; with If-Match only one of that revision."""
    key, expected = call.path["key"], call.request.headers.get("If-Match")
    revision = 0 if expected is None or expected.strip() == ANY else _revision_of(expected, "If-Match")
    done = await call.write([], [Delete(key, revision, must_exist=True)], [], b"")
    headers = _headers(done)
    del headers["ETag"]
    return json_response({"revision": done.revision}, headers=headers)


async def list_keys(call: Call) -> Response:
    """The keys that begin with a prefix, in order, as of one revision."""
    keys_only, limit = call.truth("keys_only"), call.number("limit")
    found = await call.store.range(
        call.query.get("start", ""),
        prefix=call.query.get("prefix", ""),
        limit=limit,
        revision=call.number("revision"),
        keys_only=keys_only,
        local=call.truth("local"),
        timeout_s=call.timeout_s,
    )
    shape: dict[str, Any] = {
        "revision": found.revision,
        "keys": [record_shape(record, has_value=not keys_only) for record in found.records],
    }
    if found.more:
        shape["next_start"] = found.next_start.decode(errors="replace")
    return json_response(shape, headers={"Raftmeta-Revision": str(found.revision)})


async def transact(call: Call) -> Response:
    """All operations in one revision if every check holds, else none of them."""
    told, body = await call.object()
    if strange := told.keys() - {"checks", "operations"}:
        raise InvalidArgument(f"body: has no field {min(strange)!r:.100}", field="body")
    keys, compares = checks_of(told.get("checks", []))
    operations = operations_of(told.get("operations", []))
    done = await call.write(compares, operations, keys, body)
    if not done.holds:
        found = [record_shape(record) for record in done.found if record is not None]
        raise CheckFailed("a check does not hold, and nothing was changed", revision=done.revision, found=found)
    headers = _headers(done)
    del headers["ETag"]
    return json_response({"revision": done.revision}, headers=headers)
