"""The words of four letters: which bytes are one, which are allowed, and what programs read in the answers."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.faces.zookeeper import rows, short_name, word_answer, word_find, words_allowed

WORDS = [
    b"ruok",
    b"srvr",
    b"stat",
    b"mntr",
    b"conf",
    b"cons",
    b"envi",
    b"isro",
    b"wchs",
    b"wchc",
    b"wchp",
    b"dump",
    b"dirs",
]
OTHER = [b"crst", b"srst", b"gtmk", b"stmk", b"hash", b"icfg", b"lead", b"orst", b"obsr", b"sysp"]
LEADER, FOLLOWER, OBSERVER, READ_ONLY, STANDALONE = range(5)
ALL = (1 << 14) - 2

CONNECTION = {
    "address": b"127.0.0.1:50000",
    "session": 0x100AB,
    "queued": 0,
    "received": 8,
    "sent": 9,
    "timeout_ms": 4000,
    "established_ms": 1_764_000_000_000,
    "last_xid": 6,
    "last_zxid": 0x20,
    "last_response_ms": 1_764_000_000_500,
    "last_latency_ms": 0,
    "least_latency_ms": 0,
    "sum_latency_ms": 18,
    "most_latency_ms": 5,
    "last_opcode": 4,
}
SERVER: dict[str, Any] = {
    "mode": FOLLOWER,
    "is_ready": True,
    "wall_ms": 1_764_000_000_000,
    "zxid": 0x2A,
    "received": 100,
    "sent": 101,
    "outstanding": 2,
    "least_latency_ms": 0,
    "sum_latency_ms": 7,
    "count_latency": 3,
    "most_latency_ms": 5,
    "node_count": 12,
    "data_bytes": 345,
    "ephemeral_count": 2,
    "session_count": 3,
    "watch_count": 4,
    "watcher_count": 2,
    "watched_paths": 3,
    "follower_count": 2,
    "voter_count": 3,
    "uptime_ms": 60_000,
    "open_descriptors": 40,
    "descriptors_max": 1024,
    "folder_bytes": 4096,
    "log_bytes": 8192,
    "port": 2181,
    "tick_ms": 2000,
    "timeout_least_ms": 4000,
    "timeout_most_ms": 40_000,
    "connections_max": 60,
    "server_id": 1,
    "address": b"127.0.0.1:2181",
    "host": b"broker-a",
    "folder": b"/var/lib/a",
    "connections": [CONNECTION, {**CONNECTION, "session": 0, "address": b"[::1]:7"}],
    "sessions": [(0x100AB, 2500)],
    "paths": [(0x100AB, b"/a"), (0x100AB, b"/b"), (0x100AC, b"/c")],
}


def answer(word: bytes, allowed: int = ALL, **changed: Any) -> str:
    return word_answer(word_find(word), allowed, SERVER | changed).decode()


def numbers(text: str, between: str) -> dict[str, str]:
    return dict(line.split(between, 1) for line in text.splitlines() if between in line)


def test_a_word_is_told_from_the_length_of_a_frame() -> None:
    """Those of ZooKeeper, and nothing else."""
    assert [word_find(word) for word in WORDS] == list(range(1, 14))
    assert {word_find(word) for word in OTHER} == {14}
    for bytes_ in (b"\0\0\0\x2d", b"ruok"[::-1], b"RUOK", b"abcd", b"koru", b"okst"):
        assert word_find(bytes_) == 0


def test_a_setting_lists_words() -> None:
    """As 4lw.commands.whitelist has them."""
    assert words_allowed(b"") == 0
    assert words_allowed(b"ruok, srvr") == 1 << 1 | 1 << 2
    assert words_allowed(b"*") == ALL
    for wrong in (b"rouk", b"ruok;srvr", b"ruoksrvr", b"crst", b"ruo", b"srvr,x"):
        assert words_allowed(wrong) is None


@pytest.mark.parametrize("word", [*WORDS, *OTHER])
def test_a_word_that_is_not_allowed_is_answered_so(word: bytes) -> None:
    """Also those that no setting allows."""
    assert "is not executed because it is not in the whitelist" in answer(word, allowed=0)


def test_ruok_and_isro_are_answered_always() -> None:
    """imok; rw, ro, or null while the node serves nobody."""
    assert answer(b"ruok") == answer(b"ruok", is_ready=False) == "imok"
    assert answer(b"isro") == "rw"
    assert answer(b"isro", mode=READ_ONLY) == "ro"
    assert answer(b"isro", is_ready=False) == "null"


@pytest.mark.parametrize("word", [word for word in WORDS if word not in (b"ruok", b"isro", b"envi")])
def test_a_node_that_serves_nobody_says_so(word: bytes) -> None:
    assert answer(word, is_ready=False) == "This ZooKeeper instance is not currently serving requests\n"


def test_envi_tells_a_version_that_kazoo_understands() -> None:
    """kazoo takes the digits and dots at its beginning (client.server_version)."""
    version = numbers(answer(b"envi"), "=")["zookeeper.version"]
    found = re.match(r"([\d.]*).*", version)
    assert found is not None and tuple(map(int, found.group(1).split("."))) == (3, 9, 5)


def test_srvr_has_the_lines_that_scripts_look_for() -> None:
    """Mean latency as Java writes it, zxid in hexadecimal digits."""
    text = answer(b"srvr")
    assert text.splitlines()[1:] == [
        "Latency min/avg/max: 0/2.3333/5",
        "Received: 100",
        "Sent: 101",
        "Connections: 2",
        "Outstanding: 2",
        "Zxid: 0x2a",
        "Mode: follower",
        "Node count: 12",
    ]
    assert text.startswith("Zookeeper version: 3.9.5")
    assert answer(b"srvr", mode=LEADER).endswith("Proposal sizes last/min/max: -1/-1/-1\n")
    assert "READ-ONLY mode; serving only read-only clients\n" in answer(b"srvr", mode=READ_ONLY)


@pytest.mark.parametrize(
    ("total", "count", "text"),
    [(0, 0, "0.0"), (3, 3, "1.0"), (5, 4, "1.25"), (1, 3, "0.3333"), (2, 3, "0.6667")],
)
def test_a_mean_is_written_as_java_writes_it(total: int, count: int, text: str) -> None:
    assert f"0/{text}/5" in answer(b"srvr", sum_latency_ms=total, count_latency=count)


def test_stat_lists_connections_before_the_numbers() -> None:
    """Shorter than `cons`, which has more of each that has a session."""
    lines = answer(b"stat").splitlines()
    assert lines[1:5] == [
        "Clients:",
        " /127.0.0.1:50000[1](queued=0,recved=8,sent=9)",
        " /[::1]:7[1](queued=0,recved=8,sent=9)",
        "",
    ]
    assert answer(b"cons").splitlines() == [
        " /127.0.0.1:50000[1](queued=0,recved=8,sent=9,sid=0x100ab,lop=GETD,est=1764000000000,to=4000,lcxid=0x6,"
        "lzxid=0x20,lresp=1764000000500,llat=0,minlat=0,avglat=2,maxlat=5)",
        " /[::1]:7[1](queued=0,recved=8,sent=9)",
        "",
    ]


def test_mntr_has_what_exporters_read() -> None:
    """A tab between name and number; those of a leader only there."""
    found = numbers(answer(b"mntr"), "\t")
    assert found["zk_server_state"] == "follower" and found["zk_version"].startswith("3.9.5")
    expected = {
        "zk_znode_count": "12",
        "zk_watch_count": "4",
        "zk_ephemerals_count": "2",
        "zk_approximate_data_size": "345",
        "zk_num_alive_connections": "2",
        "zk_outstanding_requests": "2",
        "zk_packets_received": "100",
        "zk_packets_sent": "101",
        "zk_avg_latency": "2.3333",
        "zk_max_latency": "5",
        "zk_min_latency": "0",
        "zk_open_file_descriptor_count": "40",
        "zk_max_file_descriptor_count": "1024",
        "zk_uptime": "60000",
        "zk_global_sessions": "3",
    }
    assert {name: found[name] for name in expected} == expected
    assert "zk_synced_followers" not in found
    assert numbers(answer(b"mntr", mode=LEADER), "\t")["zk_synced_followers"] == "2"


def test_conf_and_dirs_tell_settings_and_sizes() -> None:
    found = numbers(answer(b"conf"), "=")
    expected = {"clientPort": "2181", "tickTime": "2000", "minSessionTimeout": "4000", "maxSessionTimeout": "40000"}
    assert {name: found[name] for name in expected} == expected
    assert answer(b"dirs") == "datadir_size: 4096\nlogdir_size: 8192\n"


def test_watches_are_counted_and_listed_both_ways() -> None:
    assert answer(b"wchs") == "2 connections watching 3 paths\nTotal watches:4\n"
    assert answer(b"wchc") == "0x100ab\n\t/a\n\t/b\n0x100ac\n\t/c\n\n"
    by_path = [(0x100AB, b"/a"), (0x100AC, b"/a"), (0x100AB, b"/b")]
    assert answer(b"wchp", paths=by_path) == "/a\n\t0x100ab\n\t0x100ac\n/b\n\t0x100ab\n\n"


def test_dump_lists_sessions_and_their_ephemerals() -> None:
    """With the time at which a session ends if nothing is heard of it."""
    text = answer(b"dump")
    assert "Session Sets (1)/(1):\n1 expire at Mon Nov 24 16:00:02 UTC 2025:\n\t0x100ab\n" in text
    assert "Sessions with Ephemerals (2):\n0x100ab:\n\t/a\n\t/b\n0x100ac:\n\t/c\n" in text
    assert "Connections Sets (2)/(2):\n1 expire at Mon Nov 24 16:00:04 UTC 2025:\n" in text
    assert text.endswith("\tip: /[::1]:7 sessionId: 0x0\n")


def test_each_request_has_a_name_in_cons() -> None:
    """But those that are no request of the tree."""
    unnamed = {name for opcode, name, *_ in rows() if short_name(opcode) == "NA"}
    assert unnamed == {"auth", "sasl"}
