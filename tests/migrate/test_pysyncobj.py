"""PySyncObj's files as PySyncObj writes them, and files that were made to run code: nothing of those is run."""

from __future__ import annotations

import collections
import gzip
import io
import json
import os
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pysyncobj import SyncObj, SyncObjConf
from pysyncobj.batteries import ReplCounter, ReplDict, ReplList, ReplLockManager, ReplQueue, ReplSet
from pysyncobj.journal import createJournal
from pysyncobj.node import TCPNode

from raftmeta import InvalidArgument
from raftmeta.migrate import NotMigratable, PySyncObjSource, SourceDamaged
from raftmeta.migrate.plain_data import NotData, read_data
from raftmeta.migrate.pysyncobj_journal import method_names, read_journal
from tests.processes.waiting import free_ports, wait_until

KINDS = ("counter", "list", "dict", "set")


def consumers() -> list[Any]:
    return [ReplCounter(), ReplList(), ReplDict(), ReplSet()]


def fill(objects: list[Any]) -> None:
    counter, items, keys, members = objects
    counter.add(5, sync=True)
    items.extend(["x", b"\xff\x00", {"a": [1, 2.5, None, True]}], sync=True)
    keys.set("text", "value", sync=True)
    keys.set(b"raw", b"\x00\x01", sync=True)
    keys.set(7, (1, 2), sync=True)
    keys.set("gone", 1, sync=True)
    members.update({"a", "b"}, sync=True)


def change(objects: list[Any]) -> None:
    """What stands in the journal only, errors among it."""
    counter, items, keys, members = objects
    counter.inc(sync=True)
    counter.sub(2, sync=True)
    items.append("y", sync=True)
    items.set(0, "X", sync=True)
    items.set(1, "second", sync=True)
    items.remove("y", sync=True)
    keys.pop("gone", sync=True)
    keys.setdefault("new", "n", sync=True)
    keys.update({"more": "m"}, sync=True)
    members.discard("a", sync=True)
    members.add("c", sync=True)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, list[Any]]:
    """Dump and journal of a real node that was stopped, and the objects as it had them."""
    folder = tmp_path_factory.mktemp("pysyncobj")
    dump, journal = folder / "dump.bin", folder / "journal.bin"
    address = f"127.0.0.1:{free_ports(1)[0]}"
    objects = consumers()
    places = {id(one): position for position, one in enumerate(objects)}
    configuration = SyncObjConf(
        fullDumpFile=str(dump), journalFile=str(journal), useFork=False, logCompactionMinTime=100_000
    )
    node = SyncObj(address, [], consumers=objects, conf=configuration)
    try:
        wait_until(node.isReady, timeout_s=20, what="PySyncObj")
        numbered = {number: (places[key[0]], key[1]) for key, number in node._methodToID.items()}
        assert dict(enumerate(method_names(KINDS))) == numbered
        fill(objects)
        node.forceLogCompaction()
        wait_until(dump.exists, timeout_s=20, what="a dump")
        change(objects)
        meta = Path(f"{journal}.meta")
        last = node.getStatus()["commit_idx"]
        wait_until(
            lambda: meta.exists() and read_data(meta.read_bytes()).get("raftCommitIndex") == last,
            timeout_s=20,
            what="the commit index to be noted",
        )
    finally:
        node.destroy()
    return dump, journal, objects


def items_of(source: PySyncObjSource) -> dict[bytes, bytes]:
    return {item.key: item.value for item in source.items()}


def test_a_dump_and_its_journal_are_what_the_node_had(files: tuple[Path, Path, list[Any]]) -> None:
    dump, journal, objects = files
    counter, items, keys, members = objects
    with PySyncObjSource(dump, journal=journal) as source:
        found = items_of(source)
        assert len(source.warnings) == 1
        assert source.applied >= 11
    assert found[b"counter-1/counter"] == counter.get().to_bytes(8, "big")
    assert [value for key, value in found.items() if key.startswith(b"list-2/")] == [
        b"X",
        b"second",
        b'{"a":[1,2.5,null,true]}',
    ]
    assert items.rawData() == ["X", "second", {"a": [1, 2.5, None, True]}]
    assert {key for key in found if key.startswith(b"dict-3/")} == {
        b"dict-3/" + (key if isinstance(key, bytes) else str(key).encode()) for key in keys.rawData()
    }
    assert found[b"dict-3/raw"] == b"\x00\x01"
    assert json.loads(found[b"dict-3/7"]) == {"tuple": [1, 2]}
    assert b"dict-3/gone" not in found
    assert {key for key in found if key.startswith(b"set-4/")} == {b"set-4/b", b"set-4/c"}
    assert members.rawData() == {"b", "c"}


def test_a_dump_alone_is_the_state_at_its_index(files: tuple[Path, Path, list[Any]]) -> None:
    with PySyncObjSource(files[0]) as source:
        assert b"dict-3/gone" in items_of(source)
        assert source.applied == 0


def test_commands_behind_the_noted_commit_index_are_counted(
    files: tuple[Path, Path, list[Any]], tmp_path: Path
) -> None:
    """They may or may not have been committed: not applied, and told."""
    journal = tmp_path / "journal.bin"
    journal.write_bytes(files[1].read_bytes())
    with PySyncObjSource(files[0], journal=journal) as source:
        assert source.applied == 0
        assert "are not applied" in source.warnings[0]


def dumped(path: Path, objects: Any, *, index: int = 3) -> Path:
    entry = (b"\x00", index, 1)
    with gzip.open(path, "wb") as file:
        pickle.dump((objects, entry, (b"\x00", index - 1, 1), {TCPNode("127.0.0.1:80")}), file, 2)
    return path


class Runs:
    """As an attacker writes it: made again, it runs a command."""

    def __init__(self, *arguments: str) -> None:
        self.arguments = arguments

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str, ...]]:
        return os.system, self.arguments


MALICIOUS = [
    pickle.dumps(Runs("touch /tmp/raftmeta-was-here"), 2),
    pickle.dumps(Runs("touch /tmp/raftmeta-was-here"), 4),
    b"cos\nsystem\n(S'id'\ntR.",
    b"(S'id'\nios\nsystem\n.",  # INST
    b"(cos\nsystem\nS'id'\no.",  # OBJ
    b"c__builtin__\neval\n(S'1'\ntR.",
    b"\x80\x02c_codecs\nencode\nX\x01\x00\x00\x00aX\x03\x00\x00\x00zip\x86R.",
    b"\x80\x02\x82\x01.",  # EXT1
    b"P0\n.",  # PERSID
    b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x02id\x85R.",
    b"\x80\x02]c__builtin__\nset\na.",  # a name as a value
    b"\x80\x02c__builtin__\nset\n.",
]


@pytest.mark.parametrize("data", MALICIOUS)
def test_a_file_that_would_run_code_is_refused(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is imported, nothing is called; the error says what it would have been."""
    called: list[object] = []
    monkeypatch.setattr(os, "system", called.append)
    with pytest.raises(NotData):
        read_data(data)
    assert not called


def test_a_dump_with_code_is_refused_with_its_place(tmp_path: Path) -> None:
    path = dumped(tmp_path / "dump.bin", [{}, {"_ReplDict__data": {"a": Runs("id")}}])
    with pytest.raises(SourceDamaged, match=r"dump.bin, byte \d+: .*posix system"):
        PySyncObjSource(path)


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text() | st.binary() | st.integers(), inner, max_size=4)
        | st.tuples(inner, inner)
    ),
    max_leaves=12,
) | st.sets(st.text() | st.integers(), max_size=5)


@given(PLAIN, st.sampled_from([0, 1, 2, 3, 4, 5]))
def test_data_of_every_protocol_is_read_as_it_was(value: Any, protocol: int) -> None:
    assert read_data(pickle.dumps(value, protocol)) == value


@given(PLAIN, st.integers(0, 10_000), st.integers(1, 255))
def test_broken_data_is_an_error_or_other_data(value: Any, position: int, mask: int) -> None:
    """The format has no checksum: what is read is data in any case, and never an exception of another kind."""
    data = bytearray(pickle.dumps(value, 2))
    data[position % len(data)] ^= mask
    for broken in (bytes(data), bytes(data[: position % len(data)])):
        try:
            assert isinstance(read_data(broken), (type(None), bool, int, float, str, bytes, list, tuple, dict, set))
        except NotData as error:
            assert 0 <= error.offset <= len(data)


def test_a_broken_dump_is_refused(files: tuple[Path, Path, list[Any]], tmp_path: Path) -> None:
    """Its gzip has a checksum: every bit and every length."""
    whole = files[0].read_bytes()
    with PySyncObjSource(files[0]) as source:
        right = items_of(source)
    path = tmp_path / "dump.bin"
    harmless = 0
    for position in range(0, 8 * len(whole), 11):
        changed = bytearray(whole)
        changed[position // 8] ^= 1 << position % 8
        path.write_bytes(changed)
        try:
            assert items_of(PySyncObjSource(path)) == right
            harmless += 1  # time and name in the head of gzip, bits that fill up its last byte
        except SourceDamaged as error:
            assert error.path == path
    assert harmless < 8 * 30 / 11
    for length in range(0, len(whole) - 1, 7):
        path.write_bytes(whole[:length])
        with pytest.raises(SourceDamaged):
            PySyncObjSource(path)


def test_a_broken_journal_is_refused(files: tuple[Path, Path, list[Any]], tmp_path: Path) -> None:
    """Sizes and indexes are all that it has to check."""
    journal = tmp_path / "journal.bin"
    whole = files[1].read_bytes()
    (end,) = struct.unpack_from("<I", whole, 36)
    third = [struct.pack("<Q", entry.number + more) for entry in list(read_journal(files[1]))[2:3] for more in (0, 9)]
    Path(f"{journal}.meta").write_bytes(Path(f"{files[1]}.meta").read_bytes())
    broken = {
        "too short": whole[:20],
        "should end at": whole[: end - 1],
        "no journal": b"x" + whole[1:],
        "does not end so": whole[:40] + b"\xff" + whole[41:],
        "follows entry": whole.replace(third[0], third[1], 1),
    }
    for message, data in broken.items():
        journal.write_bytes(data)
        with pytest.raises(SourceDamaged, match=message):
            PySyncObjSource(files[0], journal=journal)


def test_what_cannot_be_known_is_refused_in_words(tmp_path: Path) -> None:
    dump = dumped(tmp_path / "dump.bin", [{}, {"_MyOwn__state": 1}])
    journal = createJournal(str(tmp_path / "journal.bin"))
    for index in (3, 4):
        journal.add(b"\x00" + pickle.dumps((0, (1,)), 2), index, 1)
    journal.setRaftCommitIndex(4)
    journal.onOneSecondTimer()
    journal._destroy()
    with PySyncObjSource(dump) as source:
        assert items_of(source) == {b"_MyOwn__state": b"1"}
    with pytest.raises(NotMigratable, match="forceLogCompaction"):
        PySyncObjSource(dump, journal=tmp_path / "journal.bin")
    with pytest.raises(NotMigratable, match="signed 64-bit"):
        PySyncObjSource(dumped(tmp_path / "large", [{}, {"_ReplCounter__counter": 1 << 70}]))
    with pytest.raises(NotMigratable, match="two keys"):
        PySyncObjSource(dumped(tmp_path / "same", [{}, {"_ReplDict__data": {"1": 1, 1: 2}}]))
    with pytest.raises(InvalidArgument, match="there is no"):
        PySyncObjSource(tmp_path / "nothing")


def test_queues_and_locks_are_counted_and_left_out(tmp_path: Path) -> None:
    """A single object that is kept has its keys without a prefix."""
    queue = {"_ReplQueue__data": collections.deque([1, 2]), "_ReplQueue__maxsize": 0}
    locks = {"_ReplLockManagerImpl__locks": {"l": ("client", 1.0)}, "_ReplLockManagerImpl__autoUnlockTime": 9}
    path = dumped(tmp_path / "dump.bin", [{}, queue, locks, {"_ReplDict__data": {"k": "v"}}])
    with PySyncObjSource(path) as source:
        assert items_of(source) == {b"k": b"v"}
        assert source.dropped == {"queues": 1, "lock managers": 1}
    own = [vars(ReplQueue()).keys(), vars(ReplLockManager(9.0, "me")._consumer()).keys()]
    assert queue.keys() <= own[0] and locks.keys() <= own[1]


def test_raftmetas_own_back_end_on_pysyncobj_is_read(tmp_path: Path) -> None:
    """pysyncobj:// is what one moves from: its keys are kept, members and candidates are counted."""
    from raftmeta.backends.pysyncobj_state import Metastore, Place

    store = Metastore(lambda: None)
    store.keys = {"topics/t": (b"3", 7)}
    store.groups = {"g": {"m": Place("m", b"", "life", 1, 0.0, 10.0)}}
    with PySyncObjSource(dumped(tmp_path / "dump.bin", [{}, store._serialize() | {"lock": None}])) as source:
        assert [(item.key, item.value, item.metadata) for item in source.items()] == [
            (b"topics/t", b"3", '{"type":"bytes","revision":7}')
        ]
        assert source.dropped == {"members and candidates": 1}


def test_streams_are_read_like_bytes() -> None:
    assert read_data(io.BytesIO(pickle.dumps([1, 2], 2))) == [1, 2]
