"""Who holds what: groups, elections, locks and leases, with the time that is left to each.

The places of KIP-30's interfaces are keys below `_raftmeta/`, each with the lease of its holder. Worker groups come
from the verbs of groups. A part that the visitor may not see is told as `denied`, and the others are shown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any
from urllib.parse import unquote

from raftmeta.aio import Client
from raftmeta.bindings.requests import VALUES
from raftmeta.dashboard.shapes import key_text
from raftmeta.errors import PermissionDenied, Unsupported
from raftmeta.operations import KeyRecord
from raftmeta.recipes.keys import ROOT, unpack_holder
from raftmeta.results import GroupInfo

__all__ = ["holders_shape"]

TIMEOUT_S = 5.0
PLACES_MAX = 2000  # of one kind
LEASES_MAX = 1000
WORKER_GROUPS_MAX = 100
LINE_BYTES = 200
KINDS = ("elections", "groups", "locks", "rwlocks", "semaphores")  # docs/formats.md "Keys of the recipes"


async def holders_shape(client: Client) -> dict[str, Any]:
    """All of it, as of now."""
    places, workers, leases = await asyncio.gather(
        _or_denied(_places(client)), _or_denied(_worker_groups(client)), _or_denied(_leases(client))
    )
    left = {row["id"]: row["left_ms"] for row in leases.get("rows", ())}
    named: dict[str, list[str]] = {}
    for place in places.get("rows", ()):
        for holder in place["holders"]:
            holder["left_ms"] = left.get(holder["lease"])
            named.setdefault(holder["lease"], []).append(f"{place['kind']}/{place['name']}")
    for row in leases.get("rows", ()):
        row["holds"] = named.get(row["id"], [])[:8]
    return {"places": places, "workers": workers, "leases": leases}


async def _or_denied(asking: Awaitable[dict[str, Any]]) -> dict[str, Any]:
    try:
        return await asking
    except (PermissionDenied, Unsupported) as error:
        return {"denied": str(error)}


async def _places(client: Client) -> dict[str, Any]:
    rows, is_cut = [], False
    for kind in KINDS:
        prefix = f"{ROOT}{kind}/".encode()
        found = await client.range(prefix=prefix, limit=PLACES_MAX, timeout_s=TIMEOUT_S)
        is_cut = is_cut or found.more
        places: dict[bytes, list[KeyRecord]] = {}
        for record in found.records:
            places.setdefault(record.key[len(prefix) :].partition(b"/")[0], []).append(record)
        for name, records in places.items():
            holders = [_holder(record) for record in sorted(records, key=lambda record: record.create_revision)]
            rows.append({"kind": kind, "name": unquote(name.decode(errors="replace")), "holders": holders})
    return {"rows": rows, "is_cut": is_cut}


def _holder(record: KeyRecord) -> dict[str, Any]:
    holder = unpack_holder(record.value)
    name = holder.id or unquote(record.key.rpartition(b"/")[2].decode(errors="replace"))
    return {
        "name": name,
        "owner": holder.owner.name,
        "data": key_text(holder.data[:LINE_BYTES]),
        "epoch": record.create_revision,
        "lease": f"{record.lease:016x}",
    }


async def _worker_groups(client: Client) -> dict[str, Any]:
    listed = await client.groups.list("", timeout_s=TIMEOUT_S)
    rows = []
    for one in listed[:WORKER_GROUPS_MAX]:
        info = await client.groups.describe(one.group, timeout_s=TIMEOUT_S)
        if info is not None:
            rows.append(_worker_group(one.group, info))
    return {"rows": rows, "is_cut": len(listed) > WORKER_GROUPS_MAX}


def _worker_group(name: str, info: GroupInfo) -> dict[str, Any]:
    members = [
        {
            "id": member.member_id,
            "instance": member.instance,
            "client": member.client,
            "leads": member.member_id == info.leader_id,
            "assignment_bytes": len(member.assignment),
        }
        for member in info.members
    ]
    return {
        "group": name,
        "state": info.state,
        "generation": info.generation,
        "type": info.protocol_type,
        "protocol": info.protocol,
        "members": members,
    }


async def _leases(client: Client) -> dict[str, Any]:
    channel = client.channel
    rows: list[dict[str, Any]] = []
    least, more = 0, True
    while more and len(rows) < LEASES_MAX:
        more, *page = await channel.submit(channel.encoder.leases(least), VALUES, channel.deadline(TIMEOUT_S))
        for id, ttl_ms, left_ms, note in page:
            rows.append({"id": f"{id:016x}", "ttl_ms": ttl_ms, "left_ms": left_ms, "note": key_text(note[:LINE_BYTES])})
            least = id + 1
    return {"rows": rows[:LEASES_MAX], "is_cut": bool(more) or len(rows) > LEASES_MAX}
