"""Counting exactly once: an operation whose outcome is not known is gone on with, and must count once or not at all."""

from __future__ import annotations

from jepsen.client import TIMEOUT_S, Answer, Client, settled
from jepsen.workloads.base import Workload

ADD_MAX = 5


class Counter(Workload):
    """A number that all add to. Retries are those of the session; a sum tells exactly which additions went before."""

    name = "counter"
    model = "counter"

    async def step(self) -> None:
        key = f"{self.client.prefix()}number"
        if self.client.random.random() < 0.6:
            await self._add(key, self.client.random.randint(1, ADD_MAX))
        else:
            await self._read(key)

    async def _add(self, key: str, number: int) -> None:
        async def act() -> Answer:
            done = await settled(self.client.store.add(key, number, timeout_s=TIMEOUT_S))
            return Answer(done.result, int(done))

        await self.client.ask("add", key, number, act)

    async def _read(self, key: str) -> None:
        async def act() -> Answer:
            record = await self.client.store.get(key, timeout_s=TIMEOUT_S)
            if record is None:
                return Answer(0, 0)
            return Answer(int.from_bytes(record.value, "big", signed=True), record.mod_revision)

        await self.client.ask("read", key, None, act)


class Session(Workload):
    """A counter of this client alone, added to one by one: the answer must be how many additions were executed.

    It says session_answer: the count that this client expects as the token, what the store answered as the value.
    """

    name = "session"
    model = None

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._key = f"session/{self.client.name}/{self.client.new_value()}"
        self._executed = 0

    async def step(self) -> None:
        async def act() -> object:
            return await settled(self.client.store.add(self._key, timeout_s=TIMEOUT_S))

        process = self.client.process
        done = await self.client.attempt(act)
        if self.client.process != process:
            self._begin_anew()  # nobody can tell what became of it, so nothing can be expected of this key
        elif done is not None:
            self._executed += 1
            self.client.spool.observe(
                "session_answer",
                self._key,
                process=self.client.process,
                revision=int(done),
                token=self._executed,
                value=str(done.result),
            )
