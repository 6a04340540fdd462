"""The four interfaces while one of several servers is killed, or frozen and woken again.

The commands belong to the user (Servers.kill, freeze and heal). The others are a majority. So calls are answered again
after a while, nothing that was answered is lost, and a lead is kept, or its loss is told before another one can lead.
"""

from __future__ import annotations

import threading
import time
from typing import Any

from raftmeta import NotExecuted, OutcomeUnknown, RaftmetaError
from raftmeta.conformance.kit import CheckFailed, Kit, Told, check, equal, eventually
from raftmeta.conformance.waiting import BACK_S, is_back

AREA = "one server"
WRITES = 20
LOOK_S = 0.005


def _goes_on(kit: Kit, fault: str) -> None:
    keys = [kit.name("key") for _ in range(2 * WRITES)]
    for key in keys[:WRITES]:
        kit.first.storage.put(key, key)
    assert kit.servers is not None
    with kit.servers.one(fault):
        is_back(kit)
        for number, key in enumerate(keys[WRITES:]):
            _put(kit.backends[number % len(kit.backends)].storage, key)
        _all_there(kit, keys)
    is_back(kit)
    _all_there(kit, keys)


def _put(storage: Any, key: str) -> None:
    """Put until it is certain; a call may be of unknown outcome, because its server was the one."""
    end_s = time.monotonic() + BACK_S
    while time.monotonic() < end_s:
        try:
            storage.put(key, key)
            return
        except (OutcomeUnknown, NotExecuted):
            pass
        except RaftmetaError:
            if _get(storage, key) == key.encode():
                return  # the put before was made
            raise
    raise CheckFailed(f"no put was answered within {BACK_S:g} s")


def _get(storage: Any, key: str) -> bytes | None:
    stored = storage.get(key, timeout_s=BACK_S)
    return None if stored is None else bytes(stored.data)


def _all_there(kit: Kit, keys: list[str]) -> None:
    for backend in kit.backends:
        equal([key for key in keys if _get(backend.storage, key) != key.encode()], [], "what was answered and is gone")


@check(AREA, "while one server is killed the others answer, and nothing is lost", parties=2, one_server="kill")
def _(kit: Kit) -> None:
    _goes_on(kit, "kill")


@check(AREA, "while one server is frozen the others answer, and nothing is lost", parties=2, one_server="freeze")
def _(kit: Kit) -> None:
    _goes_on(kit, "freeze")


class _Leaders:
    """Looks at two candidates until it is stopped, and keeps each moment in which both held a lead."""

    def __init__(self, first: Any, second: Any) -> None:
        self._first, self._second = first, second
        self.both: list[str] = []
        self.epochs: list[int] = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> _Leaders:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._is_over.wait(LOOK_S):
            lead = self._first.lead("a")
            other = self._second.lead("b")
            for one in (lead, other):
                if one is not None and one.epoch not in self.epochs:
                    self.epochs.append(one.epoch)
            # Held before and after the look at the other one, so it was held at that moment, too.
            if lead is not None and other is not None and other.held() and lead.held():
                self.both.append(f"epochs {lead.epoch} and {other.epoch}")


def _leads_alone(kit: Kit, fault: str) -> None:
    name, told = kit.name("service"), Told()
    first, second = kit.first.election(name), kit.second.election(name)
    second.add_listener(told)
    first.nominate("a")
    second.nominate("b")
    assert kit.servers is not None
    with _Leaders(first, second) as leaders:
        with kit.servers.one(fault):
            is_back(kit)
            eventually(lambda: _is_led(first, second), "somebody leads", timeout_s=BACK_S)
        is_back(kit)
        eventually(lambda: _is_led(first, second), "somebody leads afterwards", timeout_s=BACK_S)
    equal(leaders.both, [], "moments with two leaders")
    equal(leaders.epochs, sorted(leaders.epochs), "epochs in the order in which they led")
    leader = second.leader(timeout_s=BACK_S)
    told.until(lambda change: change.leader == leader, "the leader")


def _is_led(first: Any, second: Any) -> bool:
    return first.lead("a") is not None or second.lead("b") is not None


@check(AREA, "while one server is killed never two lead, and somebody does", parties=2, one_server="kill")
def _(kit: Kit) -> None:
    _leads_alone(kit, "kill")


@check(AREA, "while one server is frozen never two lead, and somebody does", parties=2, one_server="freeze")
def _(kit: Kit) -> None:
    _leads_alone(kit, "freeze")


def _is_told(kit: Kit, fault: str) -> None:
    key, told = kit.name("key"), Told()
    kit.first.listeners.add_value_change_listener(key, told)
    kit.second.storage.put(key, "before")
    told.until(lambda change: change.value == b"before", "the change before")
    assert kit.servers is not None
    with kit.servers.one(fault):
        is_back(kit)
        _update(kit.second.storage, key, "inside")
        eventually(lambda: _has_heard(told, b"inside"), "the change meanwhile", timeout_s=BACK_S)
    is_back(kit)
    _update(kit.second.storage, key, "behind")
    eventually(lambda: _has_heard(told, b"behind"), "the change afterwards", timeout_s=BACK_S)
    heard = [change.revision for change in told.changes]
    equal(heard, sorted(set(heard)), "revisions in order, each once")


def _update(storage: Any, key: str, text: str) -> None:
    eventually(lambda: _is_updated(storage, key, text), "an update was answered", timeout_s=BACK_S)


def _is_updated(storage: Any, key: str, text: str) -> bool:
    try:
        storage.update(key, text)
    except (OutcomeUnknown, NotExecuted):
        return False
    return True


def _has_heard(told: Told, value: bytes) -> bool:
    return any(change.value == value for change in list(told.changes))


@check(AREA, "while one server is killed listeners hear of every change", parties=2, one_server="kill")
def _(kit: Kit) -> None:
    _is_told(kit, "kill")


@check(AREA, "while one server is frozen listeners hear of every change", parties=2, one_server="freeze")
def _(kit: Kit) -> None:
    _is_told(kit, "freeze")
