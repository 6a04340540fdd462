"""Transfers by multi through the ZooKeeper door: all or nothing, and the sum stays."""

from __future__ import annotations

from typing import Any

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

from jepsen.client import UNSURE, Answer
from jepsen.door_session import DoorRefused
from jepsen.workloads.base import decoded, encoded
from jepsen.workloads.doors import DoorWorkload, expect, path_of

ACCOUNTS = 3
BEGIN = 100  # in each account
AMOUNT_MAX = 20
NO_VERSION = 2_000_000_000
NEVER = [0, 0]  # no account ever holds this: every balance has a number of its own, and none is 0

Seen = dict[str, tuple[list[int], int]]  # by key: [balance, number], and the version of the node


class ZookeeperMulti(DoorWorkload):
    """Money goes from account to account by multis that check versions; a multi that fails leaves nothing behind.

    A value stands for its version, because each is written once. So a multi is a transaction that compares values.
    """

    name = "zookeeper-multi"
    model = "kv"

    async def act(self) -> None:
        keys = [f"{self.client.prefix()}{number}" for number in range(ACCOUNTS)]
        seen = await self._look(keys)
        choice = self.client.random.random()
        if seen is None:
            return
        if not seen:
            await self._open(keys)
        elif choice < 0.5:
            await self._transfer(seen)
        elif choice < 0.75:
            await self._sum(seen)
        elif choice < 0.9:
            await self._fail(keys)
        else:
            await self._read(self.client.random.choice([*keys, f"{keys[0]}x"]))

    async def _look(self, keys: list[str]) -> Seen | None:
        """Read the accounts as this node shows them. Empty: not all accounts exist. None: the node did not answer."""
        found: Seen = {}
        for key in keys:
            try:
                reply = await self.get(path_of(key))
            except UNSURE:
                return None
            if reply is not None:
                data, stat = reply.value
                found[key] = decoded(data), stat.version
        return found if len(found) == len(keys) else {}

    def _new(self, balance: int) -> list[int]:
        return [balance, self.client.new_value()]

    async def _open(self, keys: list[str]) -> None:
        """All accounts, or none because there are some."""
        values = {key: self._new(BEGIN) for key in keys}

        def build(transaction: Any) -> None:
            for key, value in values.items():
                transaction.create(path_of(key), encoded(value))

        writes = [["w", key, value] for key, value in values.items()]
        await self._txn([["if", key, None] for key in keys], writes, build, NodeExistsError)

    async def _transfer(self, seen: Seen) -> None:
        source, target = self.client.random.sample(sorted(seen), 2)
        amount = self.client.random.randint(1, AMOUNT_MAX)
        after = {source: self._new(seen[source][0][0] - amount), target: self._new(seen[target][0][0] + amount)}

        def build(transaction: Any) -> None:
            for key, value in after.items():
                transaction.set_data(path_of(key), encoded(value), seen[key][1])

        writes = [["w", key, value] for key, value in after.items()]
        await self._txn([["if", key, seen[key][0]] for key in after], writes, build, BadVersionError)

    async def _sum(self, seen: Seen) -> None:
        """A multi of checks: if it is carried out, all that was seen stood there at one moment."""

        def build(transaction: Any) -> None:
            for key, (_, version) in seen.items():
                transaction.check(path_of(key), version)

        if await self._txn([["if", key, value] for key, (value, _) in seen.items()], [], build, BadVersionError):
            total = sum(value[0] for value, _ in seen.values())
            self.say("total", self.client.prefix(), token=ACCOUNTS * BEGIN, value=str(total))

    async def _fail(self, keys: list[str]) -> None:
        """Its last operation cannot be carried out, so neither can the two before it."""
        source, other, made = keys[0], keys[1], f"{keys[0]}x"
        value = self._new(BEGIN)

        def build(transaction: Any) -> None:
            transaction.create(path_of(made), encoded(value))
            transaction.set_data(path_of(source), encoded(value))
            transaction.check(path_of(other), NO_VERSION)

        writes = [["w", made, value], ["w", source, value]]
        await self._txn([["if", other, NEVER]], writes, build, BadVersionError)

    async def _read(self, key: str) -> None:
        async def act() -> Answer:
            reply = await self.get_latest(path_of(key))
            return Answer(None) if reply is None else Answer(decoded(reply.value[0]), reply.value[1].mzxid)

        await self.client.ask("read", key, None, act)

    async def _txn(self, compares: list[Any], writes: list[Any], build: Any, refusal: type[Exception]) -> bool:
        """A multi, as a transaction of the history; whether it was carried out."""

        async def act() -> Answer:
            try:
                reply = await self.multi(build)
            except DoorRefused as refused:
                expect(refused, (refusal, NoNodeError))
                return Answer([["if", False]], refused.revision)
            return Answer([["if", True], *writes], reply.zxid)

        answer = await self.client.ask("txn", None, [*compares, *writes, ["else"]], act)
        return answer is not None and answer.result[0] == ["if", True]
