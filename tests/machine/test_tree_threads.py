"""One writer and several readers inside one tree at the same time: nothing torn, nothing freed too early."""

from __future__ import annotations

import threading

from tests.faces.tree import TreeHandle


def test_a_reader_that_stops_anywhere_delays_only_the_freeing() -> None:
    """Init: readers preempted in the middle of a short read and of seven
    pins. Act: write, publish, reclaim, pin. Check: nothing waits; what they may see is kept until they go on."""
    tree = TreeHandle(fanout=8)
    seed = tree.run_rounds(50, batch=20, keys=300, seed=3)
    tree.reclaim()
    calm = tree.used_bytes
    tree.stop_in_short_read()
    for slot in range(7):
        tree.stop_in_pin(slot)
        seed = tree.run_rounds(20, batch=20, keys=300, seed=seed)
    with tree.pin() as root:
        root.verify()
    tree.reclaim()
    held = tree.used_bytes
    for slot in range(7):
        tree.leave_pin(slot)
    tree.reclaim()
    still_held = tree.used_bytes
    tree.leave_short_read()
    tree.reclaim()
    assert calm + 50_000 < still_held < held
    assert abs(tree.used_bytes - calm) < 5_000


def test_readers_never_see_a_torn_root_while_the_writer_runs() -> None:
    """Act: 60,000 changes with deletes, cut chains and reclaiming, natively, while two threads pin, verify every
    hash and compare, and one makes short reads. Check: every pinned root is whole; all memory comes back at the end."""
    tree = TreeHandle(fanout=8)
    tree.run_rounds(50, batch=40, keys=400, value_length=40, history=50, seed=5)
    stop = threading.Event()
    failures: list[BaseException] = []
    verified = [0, 0]
    short_reads = [0]

    def verify_pins(place: int) -> None:
        try:
            while not stop.is_set() or verified[place] < 20:
                with tree.pin() as older, tree.pin() as newer:
                    older.verify()
                    newer.verify()
                    changed, _ = older.difference(newer)
                    assert older.revision <= newer.revision
                    assert (older.revision == newer.revision) <= (not changed)
                    assert newer.scan() >= newer.count
                verified[place] += 1
        except BaseException as error:
            failures.append(error)

    def read_shortly() -> None:
        try:
            while not stop.is_set() or short_reads[0] < 1000:
                value = tree.get(b"key-%010d" % (short_reads[0] % 400))
                assert value is None or (len(value) == 40 and value[8:] == b"\0" * 32)
                short_reads[0] += 1
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=verify_pins, args=(place,)) for place in (0, 1)]
    threads.append(threading.Thread(target=read_shortly))
    for thread in threads:
        thread.start()
    seed = 9
    for _ in range(60):
        seed = tree.run_rounds(100, batch=10, keys=400, value_length=40, delete_share=40, history=50, seed=seed)
    stop.set()
    for thread in threads:
        thread.join()
    assert failures == []
    with tree.pin() as root:
        root.verify()
        records, revision = root.range(), root.revision
    for record in records:
        revision += 1
        if not record[6] & 1:
            tree.delete(record[0], revision=revision)
    tree.publish(revision)
    for record in records:
        tree.remove(record[0])
    tree.publish(revision)
    tree.reclaim()
    assert tree.used_bytes < 8192, "a root, an empty leaf and a spare list block"
