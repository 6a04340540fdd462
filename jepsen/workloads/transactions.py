"""Transactions over several keys: all of it at one moment, or nothing."""

from __future__ import annotations

from typing import Any

from jepsen.client import TIMEOUT_S, Answer
from jepsen.workloads.base import Workload, decoded, encoded
from raftmeta.operations import Compare, Get, KeyRecord, Operation, Put, Value, Version

KEYS = 3
STEPS_MAX = 4


class Transactions(Workload):
    """Reads and writes of three keys in one transaction, some of them only if a key has the value it was seen with."""

    name = "txn"
    model = "kv"

    async def step(self) -> None:
        random = self.client.random
        keys = [f"{self.client.prefix()}{number}" for number in range(KEYS)]
        steps: list[list[Any]] = []
        for key in random.choices(keys, k=random.randint(1, STEPS_MAX)):
            steps.append(["r", key, None] if random.random() < 0.5 else ["w", key, self.client.new_value()])
        if random.random() < 0.3:
            seen = await self._execute([["r", key, None] for key in keys])
            if seen is not None:
                _, key, value = random.choice(seen)
                steps = [["if", key, value], *steps, ["else"], ["r", key, None]]
        await self._execute(steps)

    async def _execute(self, steps: list[list[Any]]) -> list[Any] | None:
        """One transaction, as Jepsen writes it; the same list with what was read."""
        compares = [_compare(key, value) for word, *rest in steps if word == "if" for key, value in [rest]]
        begin, middle = len(compares), next((n for n, step in enumerate(steps) if step == ["else"]), len(steps))
        then, otherwise = steps[begin:middle], steps[middle + 1 :]

        async def act() -> Answer:
            reply = await self.client.store.txn(
                compares, map(_operation, then), map(_operation, otherwise), timeout_s=TIMEOUT_S
            )
            branch = then if reply.succeeded else otherwise
            told = [_told(step, result) for step, result in zip(branch, reply.results, strict=True)]
            return Answer([["if", reply.succeeded], *told] if compares else told, reply.revision)

        answer = await self.client.ask("txn", None, steps, act)
        return None if answer is None else answer.result


def _compare(key: str, value: Any) -> Compare:
    return Version(key) == 0 if value is None else Value(key) == encoded(value)


def _operation(step: list[Any]) -> Operation:
    word, key, value = step
    return Get(key) if word == "r" else Put(key, encoded(value))


def _told(step: list[Any], result: Any) -> list[Any]:
    """A step with what it read."""
    word, key, value = step
    if word == "w":
        return [word, key, value]
    return [word, key, decoded(result.value) if isinstance(result, KeyRecord) else None]
