"""A process that has lost its quorum looks at what it knows, is told so, and waits no longer than it said."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import raftmeta
from raftmeta.interfaces import State
from tests.client.nodes import serving
from tests.node.nodes import running
from tests.processes.waiting import wait_until


@pytest.fixture(scope="module")
def cut_off(tmp_path_factory: pytest.TempPathFactory) -> Iterator[raftmeta.Node]:
    """One of three; a member, a leader and a key are known to it. The others are closed."""
    with running(tmp_path_factory.mktemp("cut-off")) as nodes:
        nodes["a"].group("g", ttl_s=3600).join("m", b"data")
        nodes["a"].election("s", ttl_s=3600).nominate("m", b"data")
        nodes["a"].storage.put("k", b"value")
        nodes["a"].storage.put("ns/1", b"")
        for name in "bc":
            nodes[name].close(transfer=False)
        wait_until(lambda: not nodes["a"].status().leader, timeout_s=30, what="the last one to notice")
        yield nodes["a"]


def test_local_reads_need_nobody(cut_off: raftmeta.Node) -> None:
    group, election, storage = cut_off.group("g", ttl_s=3600), cut_off.election("s", ttl_s=3600), cut_off.storage
    members = group.members(local=True)
    assert {id: member.data for id, member in members.items()} == {"m": b"data"}
    assert 0 < members.revision <= cut_off.status().revision
    assert group.membership_list(local=True) == {"m"}
    assert group.membership(local=True) == {"m": b"data"}
    assert election.get_leader(local=True) == "m"
    leader = election.leader(local=True)
    assert leader is not None and leader.revision >= leader.epoch
    assert storage.fetch("k", local=True).result(0) == b"value"
    stored = storage.get("k", local=True)
    assert stored is not None and stored.data == b"value"
    assert storage.children("ns/", local=True) == {"ns/1"}


def test_local_reads_need_nobody_on_asyncio(cut_off: raftmeta.Node) -> None:
    async def look() -> None:
        async with cut_off.aio() as face:
            members = await face.group("g").members(local=True)
            assert set(members) == {"m"}
            assert members.revision > 0
            assert await face.election("s").get_leader(local=True) == "m"
            assert await face.storage.fetch("k", local=True) == b"value"
            assert await face.storage.children("ns/", local=True) == {"ns/1"}

    asyncio.run(look())


def test_calls_end_in_the_time_that_they_were_given(cut_off: raftmeta.Node) -> None:
    """A read is not told that it was "certainly not applied"."""
    group, election = cut_off.group("g", ttl_s=3600), cut_off.election("s", ttl_s=3600)
    storage = cut_off.storage
    reads: list[Callable[[], Any]] = [
        lambda: group.members(timeout_s=0.05),
        lambda: group.membership_list(timeout_s=0.05),
        lambda: election.get_leader(timeout_s=0.05),
        lambda: storage.get("k", timeout_s=0.05),
        lambda: storage.children("ns/", timeout_s=0.05),
        lambda: storage.fetch("k", timeout_s=0.05).result(20),
    ]
    writes: list[Callable[[], Any]] = [
        lambda: group.join("n", timeout_s=0.05),
        lambda: election.nominate("n", timeout_s=0.05),
        lambda: storage.put("n", b"", timeout_s=0.05),
        lambda: storage.update("k", b"", timeout_s=0.05),
        lambda: storage.delete("k", timeout_s=0.05),
        lambda: storage.multi([raftmeta.operations.Delete("k")], timeout_s=0.05),
    ]
    begin_s = time.monotonic()
    for call in reads:
        with pytest.raises(raftmeta.Withdrawn, match="local=True"):
            call()
    for call in writes:
        with pytest.raises(TimeoutError):
            call()
    assert time.monotonic() - begin_s < 5.0  # one call of the default time-out would be as long


def test_listeners_may_be_added(cut_off: raftmeta.Node) -> None:
    """KIP-30's observing mode: what this node knows is followed; there is only nothing new."""
    told: list[Any] = []
    cut_off.listeners.add_value_change_listener("k", told.append)
    cut_off.group("new").add_listener(told.append)
    cut_off.election("new").add_listener(told.append)
    assert cut_off.group("new").members(local=True) == {}
    assert told == []


def test_states_are_told(tmp_path: Path) -> None:
    """Suspended while there is no quorum, connected again, lost when the node is closed; by a KIP-273 object, too."""

    class Handler:
        def __init__(self) -> None:
            self.states: list[State] = []

        def onStateChange(self, state: State) -> None:
            self.states.append(state)

    told: list[State] = []
    handler = Handler()
    with running(tmp_path) as nodes:
        node = nodes["a"]
        assert node.cluster_state == State.CONNECTED
        node.add_state_listener(told.append)
        node.add_state_listener(handler)  # type: ignore[arg-type]
        with pytest.raises(raftmeta.InvalidArgument):
            node.add_state_listener(42)  # type: ignore[arg-type]
        peers = {name: str(address) for name, address in node.identity.peers.items()}
        for name in "bc":
            nodes[name].close(transfer=False)
        wait_until(lambda: told == [State.SUSPENDED], timeout_s=30, what="suspended")
        assert node.cluster_state == State.SUSPENDED
        nodes["b"] = raftmeta.Node("b", peers=peers, data_dir=tmp_path / "b", config=node.config).start()
        try:
            wait_until(lambda: told[-1] == State.CONNECTED, timeout_s=30, what="connected")
        finally:
            nodes["b"].close(transfer=False)
    wait_until(lambda: told[-1] == State.LOST, timeout_s=30, what="lost")
    assert node.cluster_state == State.LOST
    assert handler.states == told


def test_a_client_tells_its_state_and_its_mirror(tmp_path: Path) -> None:
    """With no node to ask, it still has the group that it follows."""
    told: list[State] = []
    with serving(tmp_path) as (nodes, url), raftmeta.Client(url) as client:
        client.ready(20)
        client.add_state_listener(told.append)
        client.group("g").add_listener(lambda _: None)
        client.group("g").join("m", b"data")
        wait_until(lambda: client.group("g").members(local=True), timeout_s=20, what="the mirror")
        nodes["a"].close(transfer=False)
        wait_until(lambda: told == [State.SUSPENDED], timeout_s=30, what="suspended")
        members = client.group("g").members(local=True)
        assert members["m"].data == b"data"
        assert members.revision >= members["m"].epoch
