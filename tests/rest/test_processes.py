"""Three processes of `raftmeta serve --http`; one is killed, and a program of the back end http:// goes on."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import raftmeta
from tests.processes.program import Program
from tests.processes.waiting import free_addresses, wait_until
from tests.rest.servers import asking

NAMES = "abc"


def test_a_back_end_goes_on_when_the_server_it_uses_is_killed(tmp_path: Path) -> None:
    peers, places = free_addresses(len(NAMES)), free_addresses(len(NAMES))
    named = [word for name, peer in zip(NAMES, peers, strict=True) for word in ("--peer", f"{name}={peer}")]
    with contextlib.ExitStack() as stack:
        programs = []
        for name, place in zip(NAMES, places, strict=True):
            own = ["--name", name, *named, "--data", tmp_path / name, "--http", place]
            words = [sys.executable, "-m", "raftmeta.cli", "serve", *own]
            programs.append(stack.enter_context(Program(words, log=tmp_path / f"{name}.log")))
        for place in places:
            stack.enter_context(asking(place))
        backend = stack.enter_context(raftmeta.connect(f"http://{','.join(places)}?ttl_s=5", timeout_s=20))
        election = backend.election("controller")
        election.nominate("broker", timeout_s=20)
        wait_until(lambda: election.lead("broker") is not None, timeout_s=20, what="the lead")
        lead = election.lead("broker")
        store = backend.storage
        before = store.put("key", b"1", fence=lead, timeout_s=20)
        programs[0].kill()
        assert store.update("key", b"2", fence=lead, timeout_s=20) > before
        found = store.get("key", timeout_s=20)
        assert found is not None and found.data == b"2"
        assert lead is not None and lead.held
