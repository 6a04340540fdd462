"""The flight recorders of nodes that run, over the client protocol.

It decides which node counts as silent. All nodes are asked at one moment, each by a client of its own, and once: nobody
is asked again. An answer comes out of a node's memory, 1 MiB by default.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from raftmeta.client.aio import Client
from raftmeta.errors import AuthenticationFailed, PermissionDenied, RaftmetaError, Unsupported
from raftmeta.explain.rings import Ring, parse_ring

__all__ = ["Asked", "Silent", "ask"]


@dataclass(frozen=True, slots=True)
class Silent:
    """An address that gave no records. name: of the node there, "" if it did not say."""

    address: str
    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Asked:
    """rings: of those that answered. voters: names of the members that vote, as far as one that answered knows."""

    rings: tuple[Ring, ...]
    silent: tuple[Silent, ...]
    voters: tuple[str, ...]


async def ask(clients: Mapping[str, Client], *, timeout_s: float = 5.0) -> Asked:
    """Ask each node for its recorder. clients: by address, each with one node in its URL; the caller closes them.

    Raises PermissionDenied or AuthenticationFailed if a node refuses for that: nobody may see a part only.
    """
    answers = await asyncio.gather(*(_ask(address, client, timeout_s) for address, client in clients.items()))
    rings: dict[str, Ring] = {}
    silent = []
    voters: set[str] = set()
    for answer, known in answers:
        voters.update(known)
        if isinstance(answer, Silent):
            silent.append(answer)
        else:
            rings.setdefault(answer.node, answer)  # two addresses may be one node's
    return Asked(tuple(rings.values()), tuple(silent), tuple(sorted(voters)))


async def _ask(address: str, client: Client, timeout_s: float) -> tuple[Ring | Silent, tuple[str, ...]]:
    name = ""
    voters: tuple[str, ...] = ()
    try:
        status = await client.status(timeout_s=timeout_s)
        name = status.name
        voters = tuple(member.name for member in status.members if member.role == "voter")
        content = await client.flight_recorder(timeout_s=timeout_s)
    except (PermissionDenied, AuthenticationFailed):
        raise
    except Unsupported:
        return Silent(address, name, "its version of raftmeta gives no flight recorder"), voters
    except (RaftmetaError, OSError) as error:
        return Silent(address, name, " ".join(str(error).split()) or type(error).__name__), voters
    if not content:
        return Silent(address, name, "it has no flight recorder"), voters
    # On a thread: a full ring takes a tenth of a second.
    return await asyncio.to_thread(parse_ring, content, source=address, is_running=True), voters
