"""A back end in a process of its own, obeying lines of JSON.

    python -m raftmeta.conformance.participant [--aio] [--backend MODULE:OBJECT] URL

It ends when its standard input does.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import raftmeta
from raftmeta.conformance.aio_kit import DrivenBackend, EventLoop
from raftmeta.interfaces import Backend, Held

READY_S = 30.0


class Participant:
    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._held: dict[str, Held] = {}
        self._lost: list[str] = []
        self._pool = ThreadPoolExecutor(1)
        self._lease: Any = None
        self._group = ""
        self._joining: Any = None
        self._work: Any = None

    def join(self, group: str, id: str) -> int:
        held = self._backend.group(group).join(id, on_lost=lambda held: self._lost.append(held.id))
        self._held[id] = held
        return held.epoch

    def nominate(self, service: str, candidate: str) -> bool:
        election = self._backend.election(service)
        is_leader = election.nominate(candidate, on_lost=lambda held: self._lost.append(held.id))
        lead = election.lead(candidate)
        if lead is not None:
            self._held[candidate] = lead
        return is_leader

    def held(self, id: str) -> bool:
        return self._held[id].held()

    def remaining_s(self, id: str) -> float:
        return self._held[id].remaining_s()

    def lost(self) -> list[str]:
        return self._lost

    def put(self, key: str, data: str) -> int:
        return self._backend.storage.put(key, data)

    def fenced_put(self, id: str, key: str) -> str:
        """The name of the error for a write with the fence of the held object, "" for none."""
        try:
            self._backend.storage.put(key, "late", fence=self._held[id])
        except raftmeta.RaftmetaError as error:
            return type(error).__name__
        return ""

    def work_begin(self, group: str, session_s: float) -> None:
        """Join a worker group beside the next lines."""
        store: Any = self._backend
        self._lease = store.lease(session_s)
        self._group = group
        self._joining = self._pool.submit(
            store.groups.join, group, {"any": b"words"}, lease=self._lease, initial_delay_s=0, timeout_s=READY_S
        )

    def work_joined(self) -> dict[str, Any]:
        self._work = self._joining.result(READY_S)
        return {"id": self._work.member_id, "is_leader": self._work.is_leader}

    def work_assign(self, assignments: dict[str, str]) -> None:
        self._sync({id: share.encode() for id, share in assignments.items()})

    def work_synced(self) -> str:
        """The assignment."""
        return str(self._sync(None).assignment.decode())

    def _sync(self, assignments: dict[str, bytes] | None) -> Any:
        store: Any = self._backend
        return store.groups.sync(
            self._group, self._work.generation, self._work.member_id, assignments, timeout_s=READY_S
        )

    def now_ns(self) -> int:
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def say(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)


def opened(stack: ExitStack, url: str, *, is_aio: bool, plugin: str) -> Any:
    """The back end behind the URL, closed with the stack."""
    if plugin:
        raftmeta.backends.register(url.partition("://")[0], plugin)
    if not is_aio:
        return stack.enter_context(raftmeta.connect(url, timeout_s=READY_S))
    loop = EventLoop()
    stack.callback(loop.close)
    return stack.enter_context(DrivenBackend(url, loop, timeout_s=READY_S))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--aio", action="store_true")
    parser.add_argument("--backend", default="")
    parser.add_argument("url")
    asked = parser.parse_args()
    with ExitStack() as stack:
        participant = Participant(opened(stack, asked.url, is_aio=asked.aio, plugin=asked.backend))
        say({"result": None})
        for line in sys.stdin:
            verb, *arguments = json.loads(line)
            try:
                say({"result": getattr(participant, verb)(*arguments)})
            except Exception as error:
                say({"error": repr(error)})


if __name__ == "__main__":
    main()
