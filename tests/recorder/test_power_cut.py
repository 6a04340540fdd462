"""The recorder's file when the machine loses its power: what was not synced is taken back, the rest is read."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from jepsen.faults.shim import Action, Calls, Page
from jepsen.faults.unsynced import Unsynced
from raftmeta.explain import words
from raftmeta.explain.rings import read_ring
from tests.processes.cluster import Cluster, close, get, put
from tests.processes.waiting import wait_until
from tests.recorder.incidents import seen_step


@pytest.mark.parametrize("seed", [None, 7], ids=["all", "torn"])
def test_what_was_synced_is_read_after_a_power_cut(tmp_path: Path, seed: int | None) -> None:
    """Records before the last sync are whole, torn ones are left out, and the node goes on with its data.

    A step of the clock is an event that can be made at any time. The sync that follows the first one has it.
    """
    page = Page.make(tmp_path / "a.page")
    unsynced = Unsynced(tmp_path / "journal", root=tmp_path / "a", stash=tmp_path / "stash")
    page.keep_unsynced(unsynced.journal, unsynced.root, unsynced.stash)
    syncs = page.strike(Calls.SYNC, Action.COUNT, path="flight.ring")
    cluster = Cluster(tmp_path, names="a")
    node = cluster.nodes["a"]
    node.environment.update(page.environment())
    with cluster:
        node.call(put, "k", b"v")
        seen_step(node, 5.0)
        durable = [record for record in read_ring(node.folder).records if record.kind != words.GIL]
        begun = syncs.seen
        steps = count(1)

        def synced() -> bool:
            seen_step(node, 5.0 + next(steps) % 7)
            return syncs.seen > begun

        wait_until(synced, timeout_s=60, what="a sync of the recorder's file")
        node.kill()
        assert unsynced.take_back(seed=seed)
        found = read_ring(node.folder)
        kinds = {record.kind for record in durable}
        assert {words.START, words.BECAME_LEADER, words.CLOCK} <= kinds
        assert set(durable) <= set(found.records)
        node.start()
        cluster.wait_ready()
        assert node.call(get, "k") == b"v"
        node.call(close)
        after = read_ring(node.folder)
        assert set(durable) <= set(after.records)
        lives = [record.life for record in after.records if record.kind == words.START]
        assert len(lives) == 2
        assert lives[0] < lives[1]
