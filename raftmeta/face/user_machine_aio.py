"""The asyncio face of a user machine: the same copy and the same calls, awaited.

It decides nothing beyond raftmeta/face/user_machine. It must never block the event loop; a read whose
object is busy with a long command waits for it on another thread.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

from raftmeta.common.waiting import within
from raftmeta.errors import NotReady, OutcomeTimeout, RaftmetaError, ReadyTimeout, Withdrawn
from raftmeta.face.aio import Node
from raftmeta.face.user_machine import LocalCopy
from raftmeta.face.user_port import deadline_of, level_error, seconds_left
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

__all__ = ["AioPendingCall", "AioUserMachine"]


class _FutureWaiter:
    """A future that the copy's thread resolves."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.future: asyncio.Future[bytes | None] = self._loop.create_future()

    def tell(self, outcome: bytes | None, error: RaftmetaError | None) -> None:
        with contextlib.suppress(RuntimeError):  # its event loop was closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._resolve, outcome, error)

    def _resolve(self, outcome: bytes | None, error: RaftmetaError | None) -> None:
        if self.future.done():
            return  # cancelled, or its time was up
        if error is not None:
            self.future.set_exception(error)
        else:
            self.future.set_result(outcome)

    async def wait(self, deadline_ns: int) -> bytes | None:
        """Raises TimeoutError."""
        return await within(self.future, seconds_left(deadline_ns))


class AioPendingCall:
    """A command whose caller ran out of time; it goes on, and is applied at most once."""

    def __init__(self, local: LocalCopy, sequence: int, index: int, pending: Any = None) -> None:
        self._local = local
        self._sequence = sequence
        self._index = index
        self._pending = pending  # of the command in the log, while its index is not known

    async def result(self, timeout_s: float | None = 5.0) -> Any:
        """Return the command's answer. Raises Rejected, CommandFailed, OutcomeUnknown (OutcomeTimeout: ask again)."""
        deadline_ns = deadline_of(timeout_s)
        if self._pending is not None:
            try:
                self._index = await self._pending.result(timeout_s)
            except OutcomeTimeout as error:
                error.ticket = self
                raise
            self._pending = None
        waiter = _FutureWaiter()
        self._local.await_outcome(self._index, waiter)
        try:
            outcome = await waiter.wait(deadline_ns)
        except TimeoutError:
            raise OutcomeTimeout(
                f"the command is in the log; this node's copy of {self._local.name!r} has not run it yet", ticket=self
            ) from None
        self.forget()
        assert outcome is not None
        return value_of(outcome)

    def forget(self) -> None:
        """Its caller has seen the answer, or will never ask."""
        self._local.unseen.pop(self._sequence, None)

    def __del__(self) -> None:
        self.forget()


class AioUserMachine:
    """A user machine as callers on an event loop see it: the methods of its class as coroutines, and a few of its own.

    Commands and reads take the options timeout_s (5 seconds), commands also fence, reads also local.
    """

    def __init__(self, face: Node, local: LocalCopy) -> None:
        self._face = face
        self._local = local

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        machine_class = self._local.machine_class
        if name in machine_class.commands:
            method: Callable[..., Awaitable[Any]] = _Command(self._face, self._local, name)
        elif name in machine_class.reads:
            method = _Read(self._face, self._local, name)
        else:
            raise no_method(machine_class, name)
        self.__dict__[name] = method
        return method

    async def upgrade(self, version: int | None = None, *, timeout_s: float | None = 5.0) -> int:
        """Raise the version of the machine, by default to that of this node's class; return what it is then.

        Call it when every node runs a class that has the version: the copy of a node with an older one stops.
        """
        wanted = self._local.machine_class.version if version is None else version
        check_version(self._local.machine_class, wanted)
        upgraded: int = await _call(self._face, self._local, packed_upgrade(wanted), None, timeout_s)
        return upgraded

    def metrics(self) -> dict[str, int]:
        """Counters of this node's copy; `lag`: commands that it has fetched and not run."""
        return self._local.metrics()

    def __repr__(self) -> str:
        return f"<AioUserMachine {self._local.name!r} of {self._local.machine_class.cls.__qualname__}>"


async def _call(face: Node, local: LocalCopy, data: bytes, fence: Any, timeout_s: float | None) -> Any:
    deadline_ns = deadline_of(timeout_s)
    local.check()
    local.check_room()
    await _await_users(face, local, deadline_ns)
    while True:
        await _await_session(face, local, deadline_ns)
        sequence, future = local.port.submit_call(face, data, fence, local.unseen, deadline_ns)
        try:
            index = await future
            break
        except OutcomeTimeout as error:
            error.ticket = AioPendingCall(local, sequence, 0, error.ticket)
            raise
        except NotReady:
            # The session ended between encoding and arrival: certainly not executed, so it may be encoded anew.
            local.unseen.pop(sequence, None)
            if seconds_left(deadline_ns) == 0.0:
                raise
        except BaseException:
            local.unseen.pop(sequence, None)
            raise
    return await AioPendingCall(local, sequence, index).result(seconds_left(deadline_ns))


async def _await_session(face: Node, local: LocalCopy, deadline_ns: int) -> None:
    if local.port.has_session():
        return
    try:
        await local.port.submit_session(face, deadline_ns)
    except Withdrawn:
        raise local.port.not_ready(ReadyTimeout) from None


async def _await_users(face: Node, local: LocalCopy, deadline_ns: int) -> None:
    if local.port.has_users():
        return
    try:
        await local.port.submit_await(face, deadline_ns)
    except Withdrawn:
        raise level_error() from None


class _Command:
    """A command of a machine, bound to a face of its node."""

    def __init__(self, face: Node, local: LocalCopy, name: str) -> None:
        self._face = face
        self._local = local
        self.__name__ = name
        self.__doc__ = getattr(local.machine_class.cls, name).__doc__

    async def __call__(self, *args: Any, **kwargs: Any) -> Any:
        options = split_options(kwargs)
        check_options(self.__name__, options, COMMAND_OPTIONS)
        data = packed_call(self.__name__, args, kwargs)
        return await _call(self._face, self._local, data, options.get("fence"), options.get("timeout_s", 5.0))


class _Read:
    """A read of a machine, bound to a face of its node."""

    def __init__(self, face: Node, local: LocalCopy, name: str) -> None:
        self._face = face
        self._local = local
        self.__name__ = name
        self.__doc__ = getattr(local.machine_class.cls, name).__doc__

    async def __call__(self, *args: Any, **kwargs: Any) -> Any:
        options = split_options(kwargs)
        check_options(self.__name__, options, READ_OPTIONS)
        deadline_ns = deadline_of(options.get("timeout_s", 5.0))
        self._local.check()
        if not options.get("local", False):
            await self._catch_up(deadline_ns)
        if self._local.state_lock.acquire(blocking=False):
            return self._read(args, kwargs)
        return await asyncio.get_running_loop().run_in_executor(None, self._wait_and_read, args, kwargs, deadline_ns)

    def _wait_and_read(self, args: tuple[Any, ...], kwargs: dict[str, Any], deadline_ns: int) -> Any:
        if not self._local.state_lock.acquire(timeout_s=seconds_left(deadline_ns)):
            raise self._local.lag_error(self._local.copy.pointer + 1)
        return self._read(args, kwargs)

    def _read(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        try:
            return self._local.read(self.__name__, args, kwargs)
        finally:
            self._local.state_lock.release()

    async def _catch_up(self, deadline_ns: int) -> None:
        """Linearizable, as in the blocking face."""
        local = self._local
        await _await_session(self._face, local, deadline_ns)
        await local.port.submit_read(self._face, deadline_ns)
        pointer = int.from_bytes(await local.port.submit_last(self._face), "little")
        waiter = _FutureWaiter()
        local.await_pointer(pointer, waiter)
        try:
            await waiter.wait(deadline_ns)
        except TimeoutError:
            raise local.lag_error(pointer) from None
