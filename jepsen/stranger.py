"""A client process without any right: it tries every verb, and each must be refused.

It has a certificate and a password, so a node knows who it is. An answer other than a refusal ends the process, and
with it the run. All that it writes has STRANGER in it, so the run can look for that at the end (broker.find).
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import Awaitable, Callable, Mapping
from random import Random
from typing import Any

import raftmeta
from jepsen.client import TIMEOUT_S, UNSURE
from jepsen.papers import STRANGER
from jepsen.worker import REPORT_S, client_of
from jepsen.workloads import WORKLOADS
from raftmeta.operations import Get, Put, Txn, Version
from tests.processes.child import Parent

PAUSE_S = 0.05
VALUE = STRANGER.encode()

Verb = Callable[[raftmeta.aio.Client, str], Awaitable[Any]]


async def _watched(client: raftmeta.aio.Client, key: str) -> Any:
    async with client.watch(key, start_revision=1) as watch:
        async for event in watch:
            return event


async def _saved(client: raftmeta.aio.Client, _key: str) -> Any:
    return await client.fetch_snapshot(io.BytesIO(), timeout_s=TIMEOUT_S)


VERBS: Mapping[str, Verb] = {
    "get": lambda client, key: client.get(key, timeout_s=TIMEOUT_S),
    "get of this node": lambda client, key: client.get(key, local=True, timeout_s=TIMEOUT_S),
    "range": lambda client, key: client.range(prefix=key, timeout_s=TIMEOUT_S),
    "range of all": lambda client, _key: client.range(keys_only=True, limit=1, timeout_s=TIMEOUT_S),
    "put": lambda client, key: client.put(key, VALUE, timeout_s=TIMEOUT_S),
    "create": lambda client, key: client.create(f"{key}/{STRANGER}", VALUE, timeout_s=TIMEOUT_S),
    "update": lambda client, key: client.update(key, VALUE, expected_revision=1, timeout_s=TIMEOUT_S),
    "delete": lambda client, key: client.delete(key, timeout_s=TIMEOUT_S),
    "delete_range": lambda client, key: client.delete_range(prefix=key, timeout_s=TIMEOUT_S),
    "add": lambda client, key: client.add(f"{key}/{STRANGER}", timeout_s=TIMEOUT_S),
    "txn": lambda client, key: client.txn([Version(key) == 0], [Put(key, VALUE)], [Get(key)], timeout_s=TIMEOUT_S),
    "nested txn": lambda client, key: client.txn((), [Txn([], [Put(key, VALUE)], [])], timeout_s=TIMEOUT_S),
    "watch": _watched,
    "lease": lambda client, _key: client.lease(5.0, timeout_s=TIMEOUT_S),
    "compact": lambda client, _key: client.compact(1, timeout_s=TIMEOUT_S),
    "fetch_snapshot": _saved,
    "transfer": lambda client, _key: client.transfer(timeout_s=TIMEOUT_S),
    "add_member": lambda client, _key: client.add_member(STRANGER, address="127.0.0.1:1", timeout_s=TIMEOUT_S),
    "auth.grant": lambda client, _key: client.auth.grant(STRANGER, "admin", timeout_s=TIMEOUT_S),
    "auth.disable": lambda client, _key: client.auth.disable(timeout_s=TIMEOUT_S),
}


class Program:
    """denied: refusals by verb, as the run is told them."""

    def __init__(self, parent: Parent, settings: dict[str, Any]) -> None:
        self._parent = parent
        self._random = Random(f"{settings['seed']} {STRANGER}")
        self._client = client_of(settings, STRANGER)
        self.denied = dict.fromkeys(VERBS, 0)

    async def run(self) -> None:
        self._parent.serve(self, asyncio.get_running_loop())
        async with asyncio.TaskGroup() as group:
            group.create_task(self._report_on())
            group.create_task(self._try_on())

    async def _try_on(self) -> None:
        while True:
            await self._try(*self._random.choice(list(VERBS.items())))
            await asyncio.sleep(PAUSE_S)

    async def _try(self, word: str, verb: Verb) -> None:
        workload = self._random.choice(list(WORKLOADS))
        try:
            async with asyncio.timeout(2 * TIMEOUT_S):
                answer = await verb(self._client, f"{workload}/{self._random.randrange(2)}/")
        except raftmeta.PermissionDenied:
            self.denied[word] += 1
        except (*UNSURE, TimeoutError):
            pass  # nobody answered: nothing is known, and nothing may be seen of it
        else:
            raise AssertionError(f"{STRANGER} has no right, and {word} was answered: {answer!r}")

    async def _report_on(self) -> None:
        while True:
            self._parent.report({"denied": self.denied})
            await asyncio.sleep(REPORT_S)


async def live(parent: Parent, settings: dict[str, Any]) -> None:
    """The life of the process."""
    await Program(parent, settings).run()
