"""Per-key registers: read, write, compare-and-set. The plainest question that a store can be asked."""

from __future__ import annotations

from jepsen.client import TIMEOUT_S, Answer
from jepsen.workloads.base import Workload, decoded, encoded
from raftmeta.operations import Get, Put, Value


class Register(Workload):
    """Every written value is new, so that a read tells exactly which write it saw."""

    name = "register"
    model = "cas-register"

    async def step(self) -> None:
        key = f"{self.client.prefix()}{self.client.random.randrange(2)}"
        await self.one_of(key, (0.4, self._read), (0.75, self._write), (1.0, self._cas))

    async def _read(self, key: str) -> object:
        async def act() -> Answer:
            record = await self.client.store.get(key, timeout_s=TIMEOUT_S)
            return Answer(None, 0) if record is None else Answer(decoded(record.value), record.mod_revision)

        answer = await self.client.ask("read", key, None, act)
        return None if answer is None else answer.result

    async def _write(self, key: str) -> None:
        value = self.client.new_value()

        async def act() -> Answer:
            return Answer(None, int(await self.client.store.put(key, encoded(value), timeout_s=TIMEOUT_S)))

        await self.client.ask("write", key, value, act)

    async def _cas(self, key: str) -> None:
        """From a value that was just read, so that it often succeeds, and fails when somebody else was faster."""
        old, new = await self._read(key), self.client.new_value()
        if old is None:
            return

        async def act() -> Answer:
            compares, then = [Value(key) == encoded(old)], [Put(key, encoded(new))]
            reply = await self.client.store.txn(compares, then, [Get(key)], timeout_s=TIMEOUT_S)
            return Answer(reply.succeeded, reply.revision)

        await self.client.ask("cas", key, [old, new], act)
