"""Changes of the members that the page offers with `allow_changes`: nothing else on the page changes a cluster.

Each names a member twice: the second time as the person typed it, so that a wrong click changes nothing. The cluster
decides whether the visitor has the right "member", and whether the change leaves a quorum.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from raftmeta.aio import Client
from raftmeta.errors import InvalidArgument

__all__ = ["ACTIONS", "act"]

CHANGE_S = 30.0
TRANSFER_S = 10.0

ACTIONS: dict[str, Callable[[Client, str], Awaitable[object]]] = {
    "demote": lambda client, name: client.demote(name, timeout_s=CHANGE_S),
    "promote": lambda client, name: client.promote(name, timeout_s=CHANGE_S),
    "remove": lambda client, name: client.remove_member(name, timeout_s=CHANGE_S),
    "transfer": lambda client, name: client.transfer(name, timeout_s=TRANSFER_S),
}


async def act(client: Client, told: dict[str, Any]) -> dict[str, Any]:
    """Do what a body asks for. Raises InvalidArgument, or what became of the change."""
    action, name = told.get("action"), told.get("name")
    if not isinstance(action, str) or action not in ACTIONS:
        raise InvalidArgument(f"action: must be one of {', '.join(ACTIONS)}", field="action")
    if not isinstance(name, str) or not name:
        raise InvalidArgument("name: must be the name of a member", field="name")
    if told.get("confirmed") != name:
        raise InvalidArgument("confirmed: must repeat the name of the member", field="confirmed")
    await ACTIONS[action](client, name)
    return {"done": action, "name": name}
