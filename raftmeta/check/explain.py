"""Why a component has no linearization: the shortest window that shows it.

1. The breadth-first engine goes through the component and stops at the first completion that fits none of the
   configurations that were possible before it.
2. The window begins at the last moment before, at which no operation was under way that completes: all that the past
   can still do to it are the states that were possible then.
3. Operations are taken out of the window as long as it stays illegal, but only those without which a legal history
   stays legal: operations that change nothing, and writes of values that nobody noticed. So what is left is illegal for
   a reason that is in the history.

It decides what to show. It never decides a verdict.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from raftmeta.check.check_handle import ASKS, ILLEGAL, RUNNING
from raftmeta.check.prepared import Prepared

__all__ = ["Counterexample", "WindowOperation", "explain"]

SHRINK_OPERATIONS_MAX = 400  # a longer window is shown as it is
SHRINK_CONFIGURATIONS_MAX = 64
STATES_MAX = 32  # shown; more are counted
KEYS_MAX = 8  # of a state that are shown when no operation of the window touches them
EXPLAIN_TIME_S = 10.0  # at most, within the limits of the check: the verdict is already known
SLICE_S = 0.05

Configuration = tuple[int, list[int]]  # a state, and the operations under way that have taken effect in it


@dataclass(frozen=True, slots=True)
class WindowOperation:
    """An operation of the window. completed_seq is None for one that crashed; times are None if none were recorded."""

    process: int | str
    operation: str
    key: Any
    arguments: Any
    result: Any
    called_seq: int
    completed_seq: int | None
    called_ns: int | None
    completed_ns: int | None
    is_culprit: bool


@dataclass(frozen=True, slots=True)
class Counterexample:
    """A part of the history that has no linearization.

    keys: of the component. states_before: those that were possible when the window began. operations: the window, in
    the order of their invocations. states_at_culprit: those that were possible when the culprit, the first operation
    that fits none, completed. left_out: operations of the window that are not shown, as it is illegal without them.
    is_shortened: false when the search for the window reached a limit; operations are then all of the component, at
    most 1,000.
    """

    model: str
    keys: tuple[str, ...]
    states_before: tuple[str, ...]
    states_at_culprit: tuple[str, ...]
    operations: tuple[WindowOperation, ...]
    left_out: int
    is_shortened: bool

    @property
    def culprit(self) -> WindowOperation | None:
        """The first operation that fits none of the possible states."""
        return next((operation for operation in self.operations if operation.is_culprit), None)


def explain(prepared: Prepared, component: int) -> Counterexample:
    """The counterexample of a component whose verdict is `violation`."""
    window = _Window(prepared, component)
    return window.counterexample()


class _Window:
    def __init__(self, prepared: Prepared, component: int) -> None:
        self.prepared = prepared
        self.handle = prepared.handle
        self.component = component
        self.ends = min(prepared.ends, time.monotonic() + EXPLAIN_TIME_S)
        self.touched: set[int] = set()

    def counterexample(self) -> Counterexample:
        count = self.handle.outcome(self.component)[5]
        start = self.handle.begin(self.component)
        if not self._is_illegal(list(range(count)), start):
            return self._told([], [], list(range(min(count, 1000))), None, 0, is_shortened=False)
        numbers, configurations = self.handle.search_window()
        culprit: int | None = self.handle.search_failed()
        before = self.handle.search_before()
        kept = numbers
        if len(numbers) <= SHRINK_OPERATIONS_MAX and len(configurations) <= SHRINK_CONFIGURATIONS_MAX:
            fewer = self._shrink(numbers, configurations)
            again = self._search_again(fewer, configurations)
            if again[0] is not None:  # else time is over: the window is shown as it was found
                kept = fewer
                culprit, before = again
        return self._told(configurations, before, kept, culprit, len(numbers) - len(kept), is_shortened=True)

    # --- searches -----------------------------------------------------------------------------------------------------
    def _is_illegal(self, numbers: list[int], state: int) -> bool:
        """Do these operations have no linearization from this state? False also when that takes too long."""
        self.handle.search_begin(self.component, numbers, [state])
        answer = RUNNING
        while answer in (RUNNING, ASKS) and time.monotonic() < self.ends:
            answer = self.handle.search_run(SLICE_S)
            if answer == ASKS:
                self.prepared.answer()
        return answer == ILLEGAL

    def _is_still_illegal(self, numbers: list[int], configurations: Sequence[Configuration]) -> bool:
        return all(
            self._is_illegal([number for number in numbers if number not in taken], state)
            for state, taken in configurations
        )

    def _shrink(self, numbers: list[int], configurations: Sequence[Configuration]) -> list[int]:
        """From the last to the first: what is near the culprit was tried to be explained by what is before it."""
        kept = list(numbers)
        for number in reversed(numbers):
            if time.monotonic() >= self.ends:
                break
            if number not in self.handle.removable(self.component, kept):
                continue
            fewer = [other for other in kept if other != number]
            if self._is_still_illegal(fewer, configurations):
                kept = fewer
        return kept

    def _search_again(
        self, numbers: list[int], configurations: Sequence[Configuration]
    ) -> tuple[int | None, list[Configuration]]:
        """Of the window as it is shown: the operation that fits none, and what was possible before it."""
        culprit: int | None = None
        before: list[Configuration] = []
        for state, taken in configurations:
            if self._is_illegal([number for number in numbers if number not in taken], state):
                failed = self.handle.search_failed()
                if culprit is None or self._completed(failed) > self._completed(culprit):
                    culprit, before = failed, []
                if failed == culprit:
                    before += self.handle.search_before()
        return culprit, before

    def _completed(self, number: int) -> int:
        completed = self.handle.operation(self.component, number)[1]
        return -1 if completed is None else completed

    # --- words --------------------------------------------------------------------------------------------------------
    def _told(
        self,
        configurations: Sequence[Configuration],
        before: Sequence[Configuration],
        numbers: list[int],
        culprit: int | None,
        left_out: int,
        *,
        is_shortened: bool,
    ) -> Counterexample:
        operations = tuple(self._operation(number, number == culprit) for number in numbers)
        return Counterexample(
            model=self.prepared.model.name,
            keys=tuple(key.decode() for key in self.handle.keys(self.component)),
            states_before=self._states(configurations),
            states_at_culprit=self._states(before),
            operations=operations,
            left_out=left_out,
            is_shortened=is_shortened,
        )

    def _operation(self, number: int, is_culprit: bool) -> WindowOperation:
        called, completed, _ = self.handle.operation(self.component, number)
        history = self.prepared.history
        invocation = history.event(called)
        completion = None if completed is None else history.event(completed)
        return WindowOperation(
            process=invocation.process,
            operation=invocation.operation or "?",
            key=invocation.key,
            arguments=invocation.arguments,
            result=invocation.result if completion is None else completion.result,
            called_seq=invocation.seq,
            completed_seq=None if completion is None else completion.seq,
            called_ns=invocation.time_ns,
            completed_ns=None if completion is None else completion.time_ns,
            is_culprit=is_culprit,
        )

    def _states(self, configurations: Sequence[Configuration]) -> tuple[str, ...]:
        words = list(dict.fromkeys(self._state(state) for state, _ in configurations))
        if len(words) > STATES_MAX:
            words[STATES_MAX:] = [f"and {len(words) - STATES_MAX} more"]
        return tuple(words)

    def _state(self, state: int) -> str:
        if self.prepared.table is not None:
            return _plain(self.prepared.table.states[state])
        if self.prepared.is_object:
            return self._object(state)
        values = [value.decode() for value in self.handle.state_values(self.component, state)]
        if len(values) == 1:
            return values[0]
        keys = [key.decode() for key in self.handle.keys(self.component)]
        pairs = [f"{key}: {value}" for key, value in zip(keys, values, strict=True) if value != "null"]
        more = [f"and {len(pairs) - KEYS_MAX} more keys"] if len(pairs) > KEYS_MAX else []
        return "{" + ", ".join(pairs[:KEYS_MAX] + more) + "}"

    def _object(self, state: int) -> str:
        """A state of a native object, as its definition in models.py would be shown."""
        values = [value.decode() for value in self.handle.object_state(state)]
        name = self.prepared.model.name
        if name == "set":
            return "{" + ", ".join(sorted(values)) + "}"
        if name in ("queue", "append-list"):
            return "[" + ", ".join(values) + "]"
        return values[0] if values else "nobody"


def _plain(state: object) -> str:
    """A state of one of our own models holds canonical texts; of another, whatever it says of itself."""
    if isinstance(state, bytes):
        return state.decode() or "nobody"
    if isinstance(state, frozenset):
        return "{" + ", ".join(sorted(map(_plain, state))) + "}"
    if isinstance(state, tuple):
        return "[" + ", ".join(map(_plain, state)) + "]"
    return str(state)
