"""The objects that a call of the asyncio face gives back, and for which a task waits meanwhile."""

from asyncio import AbstractEventLoop
from collections.abc import Callable
from contextvars import Context
from types import TracebackType
from typing import Any, Self

class Submitted:
    """An operation that is submitted; await it for its answer, once or more often.

    To asyncio it is a coroutine that has begun: create_task, gather, wait_for and run_coroutine_threadsafe take it. The
    submitted operation goes on when the coroutine is cancelled or forgotten.
    """

    def __await__(self) -> Call: ...
    def send(self, _value: None) -> Call:
        """The step of a coroutine. Raises StopIteration with the answer."""
    def throw(
        self,
        kind: type[BaseException] | BaseException,
        value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        """Raise it, as a coroutine would that waits for this."""
    def close(self) -> None:
        """Nothing: the operation goes on."""

class Call:
    """An answer that a task waits for: a future as asyncio.Future is one."""

    def __await__(self) -> Self: ...
    def __next__(self) -> Self: ...
    def get_loop(self) -> AbstractEventLoop:
        """The event loop of its face."""
    def done(self) -> bool:
        """Whether it was answered, failed, or was cancelled."""
    def cancelled(self) -> bool:
        """Whether it was cancelled; its operation may have been executed all the same."""
    def result(self) -> Any:
        """The answer, or what awaiting it would raise. Raises asyncio.InvalidStateError while it is pending."""
    def exception(self) -> BaseException | None:
        """The exception that awaiting would raise; None: an answer. Raises asyncio.InvalidStateError while pending."""
    def cancel(self, msg: object = None) -> bool:
        """Stop waiting. Returns False if it has ended before. The operation is not undone."""
    def add_done_callback(self, callback: Callable[[Self], object], *, context: Context | None = None) -> None:
        """Call it with this, in a turn of the event loop, when it has ended."""
    def remove_done_callback(self, callback: Callable[[Self], object]) -> int:
        """Forget it, and say how often it was there."""
