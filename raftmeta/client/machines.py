"""User machines as a client sees them: the methods of a class, called on the copies that nodes run.

    board = client.replicated("board", Board)
    board.move("x", 3)

It decides which methods there are; the class is only looked at, never made, and this process has no copy. A
command is one command of the client's session, so applied once; its outcome comes from the copy of the node that
serves the client. It must never run a method.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

from raftmeta.bindings.requests import OUTCOME
from raftmeta.bindings.verbs import Request, machine_call
from raftmeta.client.channel import Channel
from raftmeta.errors import InvalidArgument, OutcomeTimeout
from raftmeta.user_machines.calls import (
    COMMAND_OPTIONS,
    READ_OPTIONS,
    check_options,
    check_version,
    no_method,
    packed_call,
    packed_upgrade,
    split_options,
    value_of,
)
from raftmeta.user_machines.classes import machine_class_of

__all__ = ["AioClientMachine", "ClientMachine"]

NAME_BYTES_MAX = 64

Answer = TypeVar("Answer")


class AioCaller(Protocol):
    """The part of the asyncio client that a machine needs."""

    @property
    def channel(self) -> Channel: ...
    async def _ask(self, request: Request[Answer], timeout_s: float | None) -> Answer: ...


class Caller(Protocol):
    """The part of the blocking client that a machine needs."""

    def wait(self, call: Any) -> Any: ...


class PendingCall:
    """A command whose caller ran out of time: OutcomeUnknown.ticket. It goes on, and is applied at most once."""

    def __init__(self, pending: Any) -> None:
        self._pending = pending

    async def result(self, timeout_s: float | None = 5.0) -> Any:
        """Return the answer of the command. Raises Rejected, CommandFailed, OutcomeTimeout: ask again."""
        try:
            return value_of(await self._pending.result(timeout_s))
        except OutcomeTimeout as error:
            error.ticket = self
            raise


class AioClientMachine:
    """A user machine as callers on an event loop see it: the methods of its class as coroutines.

    Commands and reads take the options timeout_s (5 seconds), commands also fence, reads also local.
    Raise MachineStopped, with what to do, where the node that serves the client runs no copy; then nothing was done.
    """

    def __init__(self, client: AioCaller, name: str, cls: type) -> None:
        self._client = client
        self._class = machine_class_of(cls)
        self._raw_name = name.encode()
        self._name = name
        if not 1 <= len(self._raw_name) <= NAME_BYTES_MAX:
            raise InvalidArgument(
                f"name: must be 1 to {NAME_BYTES_MAX} bytes of UTF-8, not {len(self._raw_name)}", field="name"
            )

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        if name not in self._class.commands and name not in self._class.reads:
            raise no_method(self._class, name)

        async def method(*args: Any, **kwargs: Any) -> Any:
            return await self.run(name, args, kwargs)

        method.__name__ = name
        method.__doc__ = getattr(self._class.cls, name).__doc__
        return method

    async def run(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a command or read by name, with options among its keywords."""
        options = split_options(kwargs)
        call = packed_call(name, args, kwargs)
        timeout_s = options.get("timeout_s", 5.0)
        if name in self._class.commands:
            check_options(name, options, COMMAND_OPTIONS)
            return await self._command(call, options.get("fence"), timeout_s)
        check_options(name, options, READ_OPTIONS)
        channel = self._client.channel
        channel.check_open()
        frame = channel.encoder.machine_read(self._raw_name, call, local=bool(options.get("local", False)))
        return value_of(await channel.submit(frame, OUTCOME, channel.deadline(timeout_s)))

    async def upgrade(self, version: int | None = None, *, timeout_s: float | None = 5.0) -> int:
        """Raise the version of the machine, by default to that of the class here; return what it is then.

        Call it when every node runs a class that has the version: the copy of a node with an older one stops.
        """
        wanted = self._class.version if version is None else version
        check_version(self._class, wanted)
        upgraded: int = await self._command(packed_upgrade(wanted), None, timeout_s)
        return upgraded

    async def _command(self, call: bytes, fence: Any, timeout_s: float | None) -> Any:
        try:
            outcome = await self._client._ask(machine_call(self._raw_name, call, fence), timeout_s)
        except OutcomeTimeout as error:
            error.ticket = PendingCall(error.ticket)
            raise
        return value_of(outcome)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name!r} of {self._class.cls.__qualname__}>"


class ClientMachine:
    """A user machine as callers of a blocking client see it: the methods of its class.

    Commands and reads take the options timeout_s (5 seconds), commands also fence, reads also local.
    Raise MachineStopped, with what to do, where the node that serves the client runs no copy; then nothing was done.
    """

    def __init__(self, client: Caller, machine: AioClientMachine) -> None:
        self._client = client
        self._machine = machine

    def __getattr__(self, name: str) -> Callable[..., Any]:
        awaited = getattr(self._machine, name)

        def method(*args: Any, **kwargs: Any) -> Any:
            return self._wait(awaited(*args, **kwargs))

        method.__name__ = name
        method.__doc__ = awaited.__doc__
        return method

    def upgrade(self, version: int | None = None, *, timeout_s: float | None = 5.0) -> int:
        """Raise the version of the machine, by default to that of the class here; return what it is then.

        Call it when every node runs a class that has the version: the copy of a node with an older one stops.
        """
        upgraded: int = self._wait(self._machine.upgrade(version, timeout_s=timeout_s))
        return upgraded

    def _wait(self, call: Any) -> Any:
        try:
            return self._client.wait(call)
        except OutcomeTimeout as error:
            if isinstance(error.ticket, PendingCall):
                error.ticket = _BlockingPendingCall(self, error.ticket)
            raise

    def __repr__(self) -> str:
        return repr(self._machine).replace("AioClientMachine", "ClientMachine")


class _BlockingPendingCall:
    """As PendingCall, for threads."""

    def __init__(self, machine: ClientMachine, pending: PendingCall) -> None:
        self._machine = machine
        self._pending = pending

    def result(self, timeout_s: float | None = 5.0) -> Any:
        """Return the answer of the command. Raises Rejected, CommandFailed, OutcomeTimeout: ask again."""
        return self._machine._wait(self._pending.result(timeout_s))
