"""kill -9 of a node that keeps an audit trail, again and again under load: the trail goes on, and every line fits."""

from __future__ import annotations

from pathlib import Path

import raftmeta
from raftmeta.security.audit_trail import lines_of, verify
from tests.processes.cluster import Cluster
from tests.processes.waiting import wait_until

KILLS = 4


def numbers_of(folder: Path) -> list[int]:
    return [line.number for _, _, line in lines_of(folder) if line is not None]


def test_no_kill_breaks_a_trail(tmp_path: Path) -> None:
    """Each life writes under load and is killed in the middle of it; the next one goes on where the files end.

    Files are small, so that kills meet rotations too. A kill takes nothing out of a file.
    """
    trail = tmp_path / "a.audit"
    audit = {"writes": True, "reads": True, "file_bytes": 64 * 1024, "files": 1000}
    with Cluster(tmp_path, names=("a",), serves_clients=True, audit=audit) as cluster:
        node = cluster.nodes["a"]
        for life in range(KILLS):
            before = len(numbers_of(trail))
            with raftmeta.Client(cluster.url) as client:

                def put_more(client: raftmeta.Client = client, life: int = life, before: int = before) -> bool:
                    for number in range(100):
                        client.put(f"life/{life}/{number}", b"value", timeout_s=30)
                    return len(numbers_of(trail)) > before + 300 + 150 * life

                wait_until(put_more, timeout_s=60, what="lines of this life")
                node.kill()
            seen = numbers_of(trail)
            assert verify(trail, may_be_open=True).is_whole, verify(trail, may_be_open=True).problems
            cluster.start()
            cluster.wait_ready()
            assert numbers_of(trail)[: len(seen)] == seen
        node.close()
    found = verify(trail)
    assert found.is_whole and found.is_closed and found.files > 2, found.problems
    assert numbers_of(trail) == list(range(1, found.number + 1))
    begun = [line.facts for _, _, line in lines_of(trail) if line and line.facts.get("audit") == "begin"]
    lives = [facts for facts in begun if facts["cause"] != "rotation"]
    assert [facts["cause"] for facts in lives] == ["new", *["crash"] * KILLS]
    assert [facts["boot"] for facts in lives] == list(range(1, KILLS + 2))
