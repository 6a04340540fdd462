"""Watches of the etcd door: etcd api/etcdserverpb rpc.proto Watch, seen through the gateway."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import raftmeta
from tests.etcd.gateway import WAIT_S, Gateway, Stream, create, doors, events_of, take_events, unb64


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[raftmeta.Node, int]]:
    """A node and its port; a feed has room for 1 MiB."""
    with doors(tmp_path_factory.mktemp("watch"), watch_queue_bytes_max=1 << 20) as (nodes, ports):
        yield nodes["a"], ports["a"]


@pytest.fixture
def port(running: tuple[raftmeta.Node, int]) -> int:
    return running[1]


@pytest.fixture
def etcd(port: int) -> Iterator[Gateway]:
    with Gateway(port) as gateway:
        yield gateway


@pytest.fixture
def key(request: pytest.FixtureRequest) -> bytes:
    return str(request.node.name).encode() + b"/"


def open_stream(port: int, *requests: dict[str, object]) -> Stream:
    """With the answer to each creation taken."""
    stream = Stream(port, "watch", *requests)
    for _ in requests:
        assert stream.take()["created"] is True
    return stream


def test_a_watch_tells_every_change_of_its_range_from_now_on(port: int, etcd: Gateway, key: bytes) -> None:
    etcd.put(key + b"before", b"0")
    with Stream(port, "watch", create(key, key[:-1] + b"0")) as stream:
        told = stream.take()
        assert (told["created"], told.get("watch_id", "0")) == (True, "0")
        assert int(told["header"]["revision"]) == etcd.revision()
        first = etcd.put(key + b"a", b"1")
        etcd.put(b"elsewhere", b"x")
        second = etcd.put(key + b"b", b"2")
        third = etcd.delete(key, key[:-1] + b"0")
        assert take_events(stream, 5) == [
            ("PUT", key + b"a", b"1", first),
            ("PUT", key + b"b", b"2", second),
            ("DELETE", key + b"a", b"", third),
            ("DELETE", key + b"b", b"", third),
            ("DELETE", key + b"before", b"", third),
        ]


def test_the_events_of_one_revision_come_in_one_answer(port: int, etcd: Gateway, key: bytes) -> None:
    with open_stream(port, create(key, key[:-1] + b"0")) as stream:
        for number in range(20):
            etcd.put(key + b"%02d" % number, b"")
        take_events(stream, 20)
        revision = etcd.delete(key, key[:-1] + b"0")
        answer = stream.take()
        assert len(events_of(answer)) == 20
        assert int(answer["header"]["revision"]) == revision


def test_the_past_is_told_before_the_present_without_a_gap(port: int, etcd: Gateway, key: bytes) -> None:
    revisions = [etcd.put(key, b"%d" % number) for number in range(10)]
    with open_stream(port, create(key, start_revision=str(revisions[3]))) as stream:
        revisions += [etcd.put(key, b"%d" % number) for number in range(10, 20)]
        told = take_events(stream, 17)
    assert told == [("PUT", key, b"%d" % number, revisions[number]) for number in range(3, 20)]


def test_a_watch_may_begin_in_the_future(port: int, etcd: Gateway, key: bytes) -> None:
    future = etcd.revision() + 3
    with open_stream(port, create(key, start_revision=str(future))) as stream:
        revisions = [etcd.put(key, b"%d" % number) for number in range(4)]
        assert revisions[2] == future
        assert [event[3] for event in take_events(stream, 2)] == revisions[2:]


def test_filters_and_previous_records(port: int, etcd: Gateway, key: bytes) -> None:
    with open_stream(
        port,
        create(key, filters=["NOPUT"], watch_id="7"),
        create(key, filters=["NODELETE"], prev_kv=True, watch_id="8"),
    ) as stream:
        etcd.put(key, b"1")
        second = etcd.put(key, b"2")
        third = etcd.delete(key)
        told: dict[str, list[dict[str, object]]] = {"7": [], "8": []}
        while sum(map(len, told.values())) < 3:
            answer = stream.take()
            told[answer["watch_id"]] += answer["events"]
    (delete,) = told["7"]
    assert (delete["type"], delete["kv"]["mod_revision"]) == ("DELETE", str(third))  # type: ignore[index]
    assert set(delete["kv"]) == {"key", "mod_revision"}  # type: ignore[call-overload]
    created, changed = told["8"]
    assert "prev_kv" not in created
    assert (changed["kv"]["mod_revision"], unb64(changed["prev_kv"]["value"])) == (str(second), b"1")  # type: ignore[index]


def test_many_watches_share_a_stream_and_end_one_by_one(port: int, etcd: Gateway, key: bytes) -> None:
    names = [key + b"%d" % number for number in range(5)]
    with Stream(port, "watch", *(create(name) for name in names)) as stream:
        assert [stream.take().get("watch_id", "0") for _ in names] == ["0", "1", "2", "3", "4"]
        stream.send({"cancel_request": {"watch_id": "2"}})
        ended = stream.take()
        assert (ended["canceled"], ended["watch_id"]) == (True, "2")
        assert "cancel_reason" not in ended
        for name in names:
            etcd.put(name, b"")
        assert [event[1] for event in take_events(stream, 4)] == [names[0], names[1], names[3], names[4]]


def test_a_given_id_is_kept_and_not_given_twice(port: int, key: bytes) -> None:
    with open_stream(port, create(key, watch_id="1")) as stream:
        stream.send(create(key, watch_id="1"))
        refused = stream.take()
        assert (refused["created"], refused["canceled"], refused["watch_id"]) == (True, True, "-1")
        assert refused["cancel_reason"] == "mvcc: duplicate watch ID provided on the WatchStream"
        stream.send(create(key))
        stream.send(create(key))
        assert [stream.take().get("watch_id", "0") for _ in range(2)] == ["0", "2"]


def test_ranges_that_hold_no_key_and_revisions_below_zero_are_refused(port: int, key: bytes) -> None:
    with Stream(port, "watch", create(b"b", b"a"), create(key, start_revision="-1")) as stream:
        assert stream.take()["cancel_reason"] == "mvcc: watcher range is empty"
        assert stream.take()["cancel_reason"] == "etcdserver: mvcc: required revision has been compacted"
        stream.send({"cancel_request": {"watch_id": "99"}})  # nobody knows it, and nothing is said
        stream.send(create(key))
        assert stream.take()["created"] is True


def test_progress_is_told_once_every_watch_is_up_to_date(port: int, etcd: Gateway, key: bytes) -> None:
    first = etcd.put(key + b"a", b"")
    for number in range(200):
        etcd.put(key + b"a", b"%d" % number)
    requests = (create(key + b"b"), create(key + b"a", start_revision=str(first)))
    with open_stream(port, *requests) as stream:
        newest = etcd.put(key + b"c", b"")
        stream.send({"progress_request": {}})
        count = 0
        while True:
            answer = stream.take()
            if answer.get("watch_id") == "-1":
                break
            count += len(answer["events"])
        assert count == 201
        assert int(answer["header"]["revision"]) >= newest
        assert "events" not in answer


def test_a_silent_watch_is_told_the_revision_once_in_a_while(tmp_path: Path) -> None:
    """Also on a store that was never written."""
    with (
        doors(tmp_path, etcd_progress_s=0.1) as (nodes, ports),
        open_stream(ports["a"], create(b"silent", progress_notify=True)) as stream,
    ):
        answer = stream.take()
        assert "events" not in answer and answer["header"]["revision"] == "1"
        stream.send({"progress_request": {}})
        while (answer := stream.take()).get("watch_id") != "-1":
            assert "events" not in answer
        nodes["a"].put("other", b"")
        while (answer := stream.take())["header"]["revision"] != "2":
            assert "events" not in answer


def test_an_old_revision_is_gone_once_it_was_compacted(port: int, etcd: Gateway, key: bytes) -> None:
    revisions = [etcd.put(key, b"%d" % number) for number in range(6)]
    etcd.ask("kv/compaction", revision=str(revisions[3]), physical=True)
    with open_stream(port, create(key, start_revision=str(revisions[1]))) as stream:
        ended = stream.take()
        assert ended["canceled"] is True
        resume = int(ended["compact_revision"])
        assert revisions[3] <= resume <= revisions[4]
        stream.send(create(key, start_revision=str(resume), watch_id="5"))
        assert stream.take()["created"] is True
        assert take_events(stream, 2)[-2:] == [("PUT", key, b"%d" % number, revisions[number]) for number in (4, 5)]


def test_a_slow_reader_costs_little_and_misses_nothing(running: tuple[raftmeta.Node, int], key: bytes) -> None:
    """12 MiB of changes while a client does not read, far more than sockets and its feed hold: the rest is history."""
    node, port = running
    with open_stream(port, create(key)) as slow:
        # Beside each other: one after the other they may take a busy disk longer than a client may leave its answers.
        with ThreadPoolExecutor(8) as pool:
            put = pool.map(lambda _: node.put(key.decode(), bytes(512 * 1024), timeout_s=WAIT_S), range(24))
            revisions = sorted(int(revision) + 1 for revision in put)
        assert node.metrics()["etcd_memory_bytes"] < 8 << 20
        assert [event[3] for event in take_events(slow, len(revisions))] == revisions


def test_fragments_cut_a_revision_that_is_large(port: int, etcd: Gateway, key: bytes) -> None:
    value = bytes(250_000)
    end = key[:-1] + b"0"
    for number in range(12):
        etcd.put(key + b"%02d" % number, value)
    with open_stream(port, create(key, end, prev_kv=True, fragment=True)) as stream:
        etcd.delete(key, end)
        answers = [stream.take()]
        while answers[-1].get("fragment"):
            answers.append(stream.take())
        assert len(answers) > 1
        assert sum(len(events_of(answer)) for answer in answers) == 12
        assert len({answer["header"]["revision"] for answer in answers}) == 1


def test_a_watch_of_one_request_goes_on_after_its_body_has_ended(port: int, etcd: Gateway, key: bytes) -> None:
    with open_stream(port, create(key)) as stream:
        stream.end()
        etcd.put(key, b"1")
        assert events_of(stream.take())[0][:3] == ("PUT", key, b"1")
