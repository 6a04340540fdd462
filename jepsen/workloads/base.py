"""What a workload is: what one client asks when it is its turn, and the model that its history must obey."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar

from jepsen.client import Client

TTL_S = 1.0  # of leases: short, so that many of them expire while a fault lasts

Ask = Callable[[str], Awaitable[Any]]  # about one key
Grant = tuple[tuple[str, ...], str]  # rights, and the prefix of the keys over which


class Workload(ABC):
    """One client's part of a workload.

    name: on the command line, in keys and in the run's files. model: of its history (docs/checker.md "Models"); None:
    it has none, and only what it observes is checked. protocol: of the doors by which its clients ask, who then stand
    outside of the brokers; "" for those that ask by raftmeta's own verbs.
    """

    name: ClassVar[str]
    model: ClassVar[str | None]
    protocol: ClassVar[str] = ""

    def __init__(self, client: Client) -> None:
        self.client = client

    @classmethod
    def grants(cls) -> tuple[Grant, ...]:
        """The rights that its clients need in a secure run, and no other."""
        return ((("read", "write"), f"{cls.name}/"),)

    @abstractmethod
    async def step(self) -> None:
        """Ask once. Called whenever it is this client's turn; what is held may be kept from step to step."""

    async def one_of(self, key: str, *shares: tuple[float, Ask]) -> None:
        """Ask one of these about the key. Each stands with the share of steps that it and those before it have."""
        choice = self.client.random.random()
        await next(ask for share, ask in shares if choice < share)(key)

    async def follow(self) -> None:  # noqa: B027  # most follow nothing
        """What goes on beside the steps until it is cancelled, such as a watch. By default nothing."""

    async def close(self) -> None:  # noqa: B027  # most have nothing
        """The end of what the workload has opened for itself. By default nothing."""


def encoded(value: Any) -> bytes:
    """A JSON value as the store keeps it."""
    return json.dumps(value, separators=(",", ":")).encode()


def decoded(raw: bytes) -> Any:
    return json.loads(raw)
