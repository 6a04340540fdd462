"""The state tree by example: keys, memory, limits. The model test is in test_tree_model.py, threads in
test_tree_threads.py."""

from __future__ import annotations

import contextlib
import os
import random
import struct
from pathlib import Path

import pytest

from raftmeta.common.invariants import NAMES
from tests.faces.tree import TreeHandle
from tests.processes.waiting import wait_until

FANOUTS = [4, 8, 64]
MASK_64 = (1 << 64) - 1
STATE_HASH_VECTOR = "cd4d87aa21ee58394a2eaa914262fe19"


def filled(*, fanout: int, keys: int) -> TreeHandle:
    tree = TreeHandle(fanout=fanout)
    for number in range(keys):
        tree.put(b"key/%06d" % number, b"%d" % number, revision=number + 1)
    tree.publish(keys)
    return tree


def told(tree: TreeHandle) -> tuple[str, int, int]:
    what, a, b = tree.broken
    return NAMES.get(what, "nothing"), a, b


def fold(left: int, right: int) -> int:
    product = left * right
    return (product & MASK_64) ^ (product >> 64)


def hash128(seed: int, data: bytes) -> int:
    """docs/formats.md "Checksums", written a second time from the page."""
    k0, k1, k2, k3 = 0xA0761D6478BD642F, 0xE7037ED1A0B428DB, 0x8EBC6AF09C88C6E3, 0x589965CC75374CC3
    a, b, rest = seed ^ k0, (seed + k1) & MASK_64, data
    while len(rest) >= 16:
        x, y = struct.unpack_from("<QQ", rest)
        a = fold(a ^ x ^ k2, y ^ k3)
        b = (fold(b ^ y ^ k0, x ^ k1) + a) & MASK_64
        rest = rest[16:]
    x, y = struct.unpack("<QQ", rest.ljust(16, b"\0"))
    a = fold(a ^ x ^ k2, y ^ k3 ^ len(data))
    b = (fold(b ^ y ^ k0, x ^ k1 ^ (len(data) << 1)) + a) & MASK_64
    low = fold(a ^ k1, b ^ k2)
    high = (fold(b ^ k3, a ^ k0) + low) & MASK_64
    return high << 64 | low


def entry_hash(record: tuple[bytes, bytes, int, int, int, int, int]) -> int:
    key, value, create, mod, version, lease, flags = record
    head = struct.pack("<QQQQIHH", create, mod, version, lease, len(value), len(key), flags)
    return hash128(0x656E747279, head + key + value)


@pytest.mark.parametrize("fanout", FANOUTS)
def test_runs_of_new_keys_stand_between_the_others(fanout: int) -> None:
    """Init: keys with gaps. Act: runs of keys into gaps, each looked for first, beside looks far away, removals of
    neighbours and publications. Check: each look is that of a dictionary, and a pinned root shows what was published.
    """
    draw = random.Random(fanout)
    tree = TreeHandle(fanout=fanout)
    known: dict[bytes, int] = {}
    revision = 0

    def put(key: bytes) -> None:
        nonlocal revision
        revision += 1
        tree.put(key, b"", revision=revision)
        known[key] = revision

    def look(key: bytes) -> None:
        found = tree.find(key)
        assert (found[3] if found else None) == known.get(key), key

    def check_pinned() -> None:
        with tree.pin() as root:
            root.verify()
            assert [record[0] for record in root.range()] == published

    for number in range(0, 90, 3):
        put(b"%02d" % number)
    tree.publish(revision)
    published = sorted(known)
    for _ in range(300):
        parent = b"%02d" % draw.randrange(90)
        for child in range(draw.randrange(9)):
            key = b"%s/%d" % (parent, child)
            look(key)
            for other in draw.sample(sorted(known), 2):
                if draw.random() < 0.2:
                    look(other + draw.choice([b"", b"0", b"~"]))
            put(key)
            look(b"%s/%d" % (parent, child + draw.randrange(2)))
        if draw.random() < 0.3:
            gone = draw.choice(sorted(known))
            revision += 1
            tree.delete(gone, revision=revision)
            tree.remove(gone)
            del known[gone]
            look(gone)
        if draw.random() < 0.4:
            check_pinned()
            tree.publish(revision)
            tree.reclaim()
            published = sorted(known)
    check_pinned()


@pytest.mark.parametrize("fanout", FANOUTS)
def test_keys_come_back_in_order_whatever_order_they_came_in(fanout: int) -> None:
    """Init: ascending, descending and interleaved insertion. Act: range. Check: sorted, whole, verified."""
    keys = [b"%05d" % number for number in range(700)]
    for order in (keys, keys[::-1], keys[::2] + keys[1::2]):
        tree = TreeHandle(fanout=fanout)
        for number, key in enumerate(order):
            tree.put(key, key * 2, revision=number + 1)
        tree.publish(len(order))
        with tree.pin() as root:
            root.verify()
            assert [record[0] for record in root.range()] == keys
            assert [record[0] for record in root.range(b"00350", 3)] == [b"00350", b"00351", b"00352"]


@pytest.mark.parametrize("fanout", FANOUTS)
def test_keys_of_every_shape_are_told_apart(fanout: int) -> None:
    """Keys that differ only in trailing zeros, after a long common beginning, or at 480 bytes."""
    long = b"cluster/service/a/rather/long/common/beginning/"
    keys = [b"\0" * length for length in range(1, 20)]
    keys += [long + bytes([byte]) for byte in range(60)] + [long[:length] for length in range(1, len(long))]
    keys += [b"x" * 479 + bytes([byte]) for byte in range(0, 256, 5)] + [b"\xff" * length for length in range(1, 24)]
    tree = TreeHandle(fanout=fanout)
    for number, key in enumerate(keys):
        tree.put(key, b"%d" % number, revision=number + 1)
    tree.publish(len(keys))
    with tree.pin() as root:
        root.verify()
        for number, key in enumerate(keys):
            record = root.get(key)
            assert record is not None and record[1] == b"%d" % number
        assert [record[0] for record in root.range()] == sorted(keys)
        for absent in (b"\0" * 30, long + b"\x01\x00", b"x" * 478, b"y", b"\xff" * 30, b"a"):
            assert root.get(absent) is None


@pytest.mark.parametrize("fanout", FANOUTS)
def test_a_key_is_found_wherever_it_moved_since_it_was_last_met(fanout: int) -> None:
    """The writer looks first where it met a key before. Init: keys in order. Act: meet one; then copy its leaf, split
    it, shift its slots, empty it and join it with its neighbour. Check: the newest version of it and of the next."""
    tree = filled(fanout=fanout, keys=100)
    revision = 100
    for number in range(10, 90):
        met, behind = b"key/%06d" % number, b"key/%06d" % (number + 1)
        assert tree.find(met) is not None
        for key in (met, met + b"+", met + b"++", behind, met):
            revision += 1
            tree.put(key, b"%d" % revision, revision=revision)
            assert tree.get(met + b"-") is None
            found = tree.find(key)
            assert found is not None and (found[1], found[3]) == (b"%d" % revision, revision)
        if number % 3 == 0:
            tree.publish(revision)
        for key in (met + b"+", met + b"++"):
            revision += 1
            tree.delete(key, revision=revision)
            tree.remove(key)
            assert tree.find(key) is None
        assert tree.get(behind) is not None
    for number in range(99):
        revision += 1
        tree.delete(b"key/%06d" % number, revision=revision)
        tree.remove(b"key/%06d" % number)
        assert tree.find(b"key/%06d" % number) is None
        assert tree.get(b"key/%06d" % (number + 1)) is not None
    tree.publish(revision)
    with tree.pin() as root:
        root.verify()


def test_values_from_nothing_to_a_mebibyte_are_kept() -> None:
    """Sizes on both sides of the slab's largest object."""
    tree = TreeHandle()
    sizes = [0, 1, 7, 8, 2000, 2200, 2231, 2232, 2233, 2240, 4096, 1 << 20]
    for number, size in enumerate(sizes):
        tree.put(b"size/%07d" % size, bytes([number]) * size, revision=number + 1)
    tree.publish(len(sizes))
    assert [tree.get(b"size/%07d" % size) for size in sizes] == [bytes([n]) * s for n, s in enumerate(sizes)]


def test_the_next_piece_of_memory_lies_ready_once_a_state_is_large() -> None:
    """Its pages are touched by a thread, or a put would wait for them; a small state holds no memory ahead."""
    tree = TreeHandle(prepares=True)
    puts = iter(range(1, 1_000_000))

    def grow_to(retained_bytes: int) -> None:
        while tree.retained_bytes < retained_bytes:
            revision = next(puts)
            tree.put(b"grows/%07d" % revision, b"v" * 2000, revision=revision)

    grow_to(1 << 20)
    assert not tree.has_piece_ready
    for size_bytes in (4 << 20, 8 << 20, 16 << 20):
        grow_to(size_bytes)
        wait_until(lambda: tree.has_piece_ready, timeout_s=20, what="a piece that lies ready")
    last = next(puts) - 1
    tree.publish(last)
    assert tree.get(b"grows/%07d" % last) == b"v" * 2000
    with tree.pin() as root:
        root.verify()


def test_no_thread_stays_behind_all_others() -> None:
    """The last thread of a process that is killed closes its sockets. Behind all others, on a busy machine, that takes
    seconds, and so long nobody knows that the process is gone."""
    tree = TreeHandle(prepares=True)
    for revision in range(1, 4000):
        tree.put(b"grows/%07d" % revision, b"v" * 2000, revision=revision)
    wait_until(lambda: tree.has_piece_ready, timeout_s=20, what="a piece that lies ready")
    wait_until(lambda: max(nicenesses()) <= os.nice(0), timeout_s=20, what="the end of the thread that made it")
    assert "raftmeta-memory" in names_of_threads()


def of_threads(file: str) -> list[str]:
    """That file of each thread of this process; one that ended meanwhile is left out."""
    found = []
    for path in Path("/proc/self/task").glob(f"*/{file}"):
        with contextlib.suppress(OSError):
            found.append(path.read_text())
    return found


def names_of_threads() -> list[str]:
    return [name.strip() for name in of_threads("comm")]


def nicenesses() -> list[int]:
    """Of all threads of this process (proc_pid_stat(5), field 19)."""
    return [int(stat.rpartition(")")[2].split()[16]) for stat in of_threads("stat")]


def test_state_hash_is_the_sum_of_the_documented_entry_hashes() -> None:
    """docs/formats.md "Checksums": live newest entries only; tombstones and old versions do not count."""
    tree = TreeHandle()
    tree.put(b"a", b"1", revision=1)
    tree.put(b"a", b"2" * 40, revision=2, lease=77)
    tree.put(b"b", b"", revision=3)
    tree.delete(b"b", revision=4)
    tree.put(b"counter", b"\0" * 16, revision=5)
    tree.publish(5)
    with tree.pin() as root:
        live = [record for record in root.range() if not record[6] & 1]
        assert [record[0] for record in live] == [b"a", b"counter"]
        assert root.hash == tree.hash == sum(map(entry_hash, live)) % (1 << 128)
        assert root.count == tree.count == 2


def test_state_hash_vector_never_changes() -> None:
    """FORMAT_: the number that stands in docs/formats.md."""
    tree = TreeHandle()
    tree.put(b"key", b"value", revision=9, lease=5)
    assert tree.hash == entry_hash((b"key", b"value", 9, 9, 1, 5, 0))
    assert f"{tree.hash:032x}" == STATE_HASH_VECTOR


def test_a_pinned_root_keeps_its_state_while_everything_changes() -> None:
    """Init: pin. Act: overwrite, delete, remove and reclaim all. Check: the pinned root answers as before."""
    tree = filled(fanout=8, keys=300)
    with tree.pin() as root:
        before = root.range()
        for number in range(300):
            tree.put(b"key/%06d" % number, b"new", revision=301 + number)
            tree.cut(b"key/%06d" % number, 301 + number)
            tree.publish(301 + number)
            tree.reclaim()
        for number in range(300):
            tree.delete(b"key/%06d" % number, revision=601 + number)
            tree.publish(601 + number)
            tree.remove(b"key/%06d" % number)
            tree.publish(601 + number)
            tree.reclaim()
        root.verify()
        assert root.range() == before
    assert tree.count == 0


def test_an_unpublished_change_is_seen_by_the_writer_only() -> None:
    """tree_publish: all changes since the last call appear at once."""
    tree = filled(fanout=8, keys=3)
    tree.put(b"key/000001", b"new", revision=4)
    assert tree.get(b"key/000001") == b"1"
    found = tree.find(b"key/000001")
    assert found is not None and found[1:5] == (b"new", 2, 4, 2)
    tree.publish(4)
    assert tree.get(b"key/000001") == b"new"


def test_a_root_holds_whole_revisions_only() -> None:
    """A publish below a revision already in the tree is a broken invariant, not a torn root."""
    tree = filled(fanout=8, keys=3)
    tree.put(b"a", b"", revision=5)
    with pytest.raises(ValueError, match="98"):
        tree.publish(4)
    assert told(tree) == ("BROKEN_TREE_PUBLISHED_BACK", 4, 5)
    tree.publish(5)
    with pytest.raises(ValueError, match="98"):
        tree.publish(4)


def test_versions_of_a_key_come_in_the_order_of_their_revisions() -> None:
    """The chain behind a key is its history: a version below the one that it replaces is a broken invariant."""
    tree = filled(fanout=4, keys=3)
    with pytest.raises(ValueError, match="98"):
        tree.put(b"key/000002", b"late", revision=2)
    assert told(tree) == ("BROKEN_TREE_PUT_BACK", 2, 3)
    assert tree.get(b"key/000002") == b"2"
    tree.publish(3)


@pytest.mark.parametrize("fanout", FANOUTS)
def test_all_memory_comes_back_when_all_keys_are_gone(fanout: int) -> None:
    """Two full lives of a tree end with the same bytes in use; deaths while a root is pinned are only later."""
    tree = TreeHandle(fanout=fanout)
    revision, ends = 0, []
    for _ in range(2):
        pins = []
        for number in range(500):
            revision += 1
            tree.put(b"%d" % (number * 7919 % 500), b"v" * (number % 50) * 60, revision=revision)
            if number % 50 == 0:
                tree.publish(revision)
                pins.append(tree.pin())
        for number in range(500):
            revision += 1
            tree.delete(b"%d" % number, revision=revision)
        tree.publish(revision)
        for number in range(500):
            tree.remove(b"%d" % number)
        tree.publish(revision)
        tree.reclaim()
        for pinned in pins[::2] + pins[1::2]:
            pinned.verify()
            pinned.release()
            tree.reclaim()
        ends.append(tree.used_bytes)
        assert tree.count == 0 and tree.hash == 0
        with tree.pin() as root:
            assert root.range() == []
    assert ends[0] == ends[1] < 8192


def test_reclaiming_in_small_steps_frees_as_much_as_one_large_step() -> None:
    """tree_reclaim is bounded by its argument: calls of three objects reach the same end."""
    ends = []
    for step in (3, 1_000_000):
        tree = filled(fanout=8, keys=200)
        pins = [tree.pin()]
        for revision in range(201, 401):
            tree.put(b"key/%06d" % (revision % 200), b"x" * 100, revision=revision)
            tree.cut(b"key/%06d" % (revision % 200), revision)
            tree.publish(revision)
            if revision in (250, 300):
                pins.append(tree.pin())
        pins[1].release()
        tree.reclaim(step)
        pins[0].release()
        pins[2].release()
        before = tree.used_bytes
        tree.reclaim(step)
        calls = 1
        while tree.used_bytes < before:
            before = tree.used_bytes
            tree.reclaim(step)
            calls += 1
        assert (calls > 50) == (step == 3)
        ends.append(tree.used_bytes)
    assert ends[0] == ends[1]


@pytest.mark.parametrize("fanout", FANOUTS)
def test_memory_that_runs_out_anywhere_leaves_the_tree_as_it_was(fanout: int) -> None:
    """Init: limits that strike at every allocation in turn. Act: a put. Check: it failed whole, or it is there whole;
    the tree goes on once there is room."""
    full = filled(fanout=fanout, keys=120)
    base, fates = full.used_bytes, set()
    for room in range(-400, 16_000, 40):
        tree = TreeHandle(fanout=fanout, bytes_max=base + room)
        try:
            for number in range(120):
                tree.put(b"key/%06d" % number, b"%d" % number, revision=number + 1)
            tree.publish(120)
        except MemoryError:
            fates.add("filling")
            continue
        with tree.pin() as root:
            before = root.range()
        try:
            for number in range(0, 120, 3):
                tree.put(b"key/%06dx" % number, b"y" * 30, revision=121)
            fates.add("done")
        except MemoryError:
            fates.add("putting")
            put = [number for number in range(0, 120, 3) if tree.find(b"key/%06dx" % number)]
            assert put == list(range(0, 3 * len(put), 3)), "the first ones, each of them whole"
            assert all(tree.find(record[0]) == record for record in before)
        with tree.pin() as root:
            root.verify()
    assert fates == {"filling", "putting", "done"}


def test_a_tree_for_which_there_is_no_memory_is_refused() -> None:
    """tree_create_with gives NULL when not even the empty tree fits."""
    with pytest.raises(MemoryError):
        TreeHandle(bytes_max=100)
    with pytest.raises(MemoryError):
        TreeHandle(fanout=3)


@pytest.mark.parametrize("fanout", FANOUTS)
@pytest.mark.parametrize("count", [0, 1, 4, 60, 61, 1000])
def test_bulk_load_gives_the_same_state_as_puts(fanout: int, count: int) -> None:
    """Hash, order and later changes agree with a tree filled one by one."""
    rows = [(b"key/%06d" % n, b"%d" % n, n + 1, n + 1, 1, 0, 0) for n in range(count)]
    loaded = TreeHandle(fanout=fanout)
    loaded.load(rows, count)
    with loaded.pin() as root:
        root.verify()
        assert root.range() == rows
    assert loaded.hash == filled(fanout=fanout, keys=count).hash
    for number in range(count):
        loaded.put(b"key/%06d" % number, b"again", revision=count + 1)
        loaded.put(b"key/%06d+" % number, b"between", revision=count + 1)
    loaded.publish(count + 1)
    with loaded.pin() as root:
        root.verify()
        assert root.count == 2 * count


def test_bulk_load_refuses_disorder_and_a_tree_in_use() -> None:
    """BAD_FIELD (69): not ascending; ALREADY (74): not empty."""
    row = (b"b", b"", 1, 1, 1, 0, 0)
    for second in (b"a", b"b"):
        with pytest.raises(ValueError, match="69"):
            TreeHandle().load([row, (second, b"", 1, 1, 1, 0, 0)], 1)
    tree = TreeHandle()
    tree.load([row], 1)
    with pytest.raises(ValueError, match="74"):
        tree.load([row], 1)


def test_only_a_tombstone_can_be_taken_out() -> None:
    """tree_remove of a live key is a broken invariant (98), of no key NOT_FOUND (73)."""
    tree = filled(fanout=4, keys=2)
    with pytest.raises(ValueError, match="98"):
        tree.remove(b"key/000001")
    assert told(tree) == ("BROKEN_TREE_REMOVED_LIVE", 2, 2)
    with pytest.raises(ValueError, match="73"):
        tree.remove(b"none")


def test_a_chain_answers_for_every_revision_down_to_its_cut() -> None:
    """History by chain: a read inside a batch is answered; below the floor nothing is promised."""
    tree = TreeHandle()
    for revision in range(1, 101):
        tree.put(b"hot", b"%d" % revision, revision=revision)
    tree.delete(b"hot", revision=101)
    tree.put(b"hot", b"born again", revision=102)
    tree.publish(102)
    with tree.pin() as root:
        assert [r[3] for r in root.versions(b"hot")] == list(range(102, 0, -1))
        for revision in range(1, 101):
            record = root.get_at(b"hot", revision)
            assert record is not None and record[1] == b"%d" % revision
        deleted, born = root.get_at(b"hot", 101), root.get_at(b"hot", 102)
        assert deleted is not None and deleted[6] & 1 and deleted[4] == 0
        assert born is not None and born[2:5] == (102, 102, 1)
        assert root.get_at(b"hot", 0) is None
        tree.cut(b"hot", 60)
        assert [r[3] for r in root.versions(b"hot")] == list(range(102, 59, -1))


def test_difference_sees_each_change_once_and_skips_what_is_shared() -> None:
    """Changes in both directions, in pages, between roots of different depth."""
    tree = filled(fanout=4, keys=500)
    old = tree.pin()
    tree.put(b"key/000100", b"changed", revision=501)
    tree.put(b"key/000250x", b"new", revision=502)
    tree.delete(b"key/000499", revision=503)
    tree.publish(503)
    tree.remove(b"key/000499")
    for number in range(500, 900):
        tree.put(b"key/%06d" % number, b"more", revision=504)
    tree.publish(504)
    new = tree.pin()
    changed, more = old.difference(new)
    assert not more
    expected = [b"key/000100", b"key/000250x", b"key/000499"] + [b"key/%06d" % n for n in range(500, 900)]
    assert [(left or right or (b"",))[0] for left, right in changed] == expected
    assert changed[0][0] is not None and changed[0][1] is not None and changed[1][0] is None and changed[2][1] is None
    paged, start, more = [], b"", True
    while more:
        page, more = old.difference(new, start, 7)
        assert len(page) <= 7
        paged += page
        start = (page[-1][0] or page[-1][1] or (b"",))[0] + b"\0"
    assert paged == changed
    assert new.difference(old)[0] == [(right, left) for left, right in changed]
    assert new.difference(new) == ([], False)
    old.release()
    new.release()


@pytest.mark.parametrize("is_random", [False, True])
def test_memory_of_a_version_that_was_pinned_goes_back_to_the_system(is_random: bool) -> None:
    """Of 150,000 keys overwritten under a pin: about twice as much, and no more than before when the pin is gone."""
    tree = TreeHandle()
    order = list(range(150_000))
    revision = overwritten(tree, order, 1)
    before = tree.retained_bytes
    with tree.pin():
        if is_random:
            random.Random(1).shuffle(order)
        revision = overwritten(tree, order, revision)
        pinned = tree.retained_bytes
    tree.reclaim()
    used = tree.used_bytes
    assert pinned > 1.5 * before
    assert tree.retained_bytes < before + (pinned - before) // 2
    # What went back is memory again when it is needed.
    overwritten(tree, order, revision)
    assert abs(tree.used_bytes - used) < used // 50
    assert all(tree.get(key_of(number)) == bytes(64) for number in order)
    with tree.pin() as root:
        root.verify()


def overwritten(tree: TreeHandle, order: list[int], revision: int) -> int:
    """Put all keys once, 256 a root; only the newest versions stay. Returns the next revision."""
    for number in order:
        tree.put(key_of(number), bytes(64), revision=revision)
        tree.cut(key_of(number), revision)
        if revision % 256 == 0:
            tree.publish(revision)
            tree.reclaim()
        revision += 1
    tree.publish(revision - 1)
    tree.reclaim()
    return revision


def key_of(number: int) -> bytes:
    return b"key-%07d" % number
