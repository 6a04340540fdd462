"""A set and a list that many add to: what was acknowledged must stay there, once, and in its place."""

from __future__ import annotations

from jepsen.client import TIMEOUT_S, Answer, Client
from jepsen.workloads.base import Workload, decoded, encoded
from raftmeta import KeyExists, KeyMissing
from raftmeta.operations import Add, Operation, Put, Range, RangeResult

LENGTH_MAX = 120  # of a list or set that is read whole, again and again


class Set(Workload):
    """One key for each element: add is a create, remove a delete that must find it, read a range."""

    name = "set"
    model = "set"

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self._mine: list[int] = []  # elements that this client added since the keys rotated
        self._prefix = ""

    async def step(self) -> None:
        if self._prefix != self.client.prefix():
            self._prefix, self._mine = self.client.prefix(), []
        choice = self.client.random.random()
        if choice < 0.35 and len(self._mine) < LENGTH_MAX // 8:
            await self._add()
        elif choice < 0.5 and self._mine:
            await self._remove(self._mine.pop(self.client.random.randrange(len(self._mine))))
        elif choice < 0.7 and self._mine:
            await self._contains(self.client.random.choice(self._mine))
        else:
            await self._read()

    async def _add(self) -> None:
        element = self.client.new_value()
        prefix = self._prefix
        self._mine.append(element)

        async def act() -> Answer:
            try:
                return Answer(True, int(await self.client.store.create(f"{prefix}{element}", b"", timeout_s=TIMEOUT_S)))
            except KeyExists as error:
                return Answer(False, error.revision)

        await self.client.ask("add", prefix, element, act)

    async def _remove(self, element: int) -> None:
        key = f"{self._prefix}{element}"

        async def act() -> Answer:
            try:
                return Answer(True, int(await self.client.store.delete(key, must_exist=True, timeout_s=TIMEOUT_S)))
            except KeyMissing as error:
                return Answer(False, error.revision)

        await self.client.ask("remove", self._prefix, element, act)

    async def _contains(self, element: int) -> None:
        key = f"{self._prefix}{element}"

        async def act() -> Answer:
            return Answer(await self.client.store.get(key, timeout_s=TIMEOUT_S) is not None)

        await self.client.ask("contains", self._prefix, element, act)

    async def _read(self) -> None:
        prefix = self._prefix

        async def act() -> Answer:
            found = await self.client.store.range(prefix=prefix, keys_only=True, timeout_s=TIMEOUT_S)
            return Answer([int(record.key.decode().removeprefix(prefix)) for record in found.records])

        await self.client.ask("read", prefix, None, act)


class AppendList(Workload):
    """One key for each place of the list, numbered by a counter in the same transaction; a read is a range."""

    name = "append"
    model = "append-list"

    async def step(self) -> None:
        prefix = self.client.prefix()
        if self.client.random.random() < 0.4:
            await self._append(prefix)
        else:
            await self._read(prefix)

    async def _append(self, prefix: str) -> None:
        value = self.client.new_value()

        async def act() -> Answer:
            then: list[Operation] = [Add(f"{prefix}length"), Put(f"{prefix}at/", encoded(value), number_from=0)]
            reply = await self.client.store.txn((), then, timeout_s=TIMEOUT_S)
            return Answer(reply.results[0], reply.revision)

        await self.client.ask("append", prefix, value, act)

    async def _read(self, prefix: str) -> None:
        async def act() -> Answer:
            if self.client.random.random() < 0.5:
                reply = await self.client.store.txn((), [Range.prefix(f"{prefix}at/")], timeout_s=TIMEOUT_S)
                (inside,) = reply.results
                assert isinstance(inside, RangeResult), inside
                return Answer([decoded(record.value) for record in inside.records], reply.revision)
            found = await self.client.store.range(prefix=f"{prefix}at/", timeout_s=TIMEOUT_S)
            return Answer([decoded(record.value) for record in found.records])

        await self.client.ask("read", prefix, None, act)
