"""The queue: every item is done once and in order, whoever dies, is slow, or gives it back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

import raftmeta
from raftmeta import recipes
from raftmeta.operations import Add, Put
from raftmeta.recipes.keys import prefix_of
from tests.node.nodes import running
from tests.processes.waiting import wait_until
from tests.recipes.faces import Face
from tests.recipes.test_group import crash
from tests.recipes.test_line import Waiter

Nodes = dict[str, raftmeta.Node]
MakeFace = Callable[[raftmeta.Node], Face]


def test_items_are_taken_in_order_and_done_once(nodes: Nodes, face: MakeFace, name: str) -> None:
    producer, worker = face(nodes["a"]).recipe("Queue", name), face(nodes["b"]).recipe("Queue", name)
    numbers = [producer.put(f"item {number}") for number in range(5)]
    assert numbers == [1, 2, 3, 4, 5]
    assert worker.count() == 5
    for number in range(5):
        with worker.take(timeout_s=5) as item:
            assert item.data == b"item %d" % number
            assert item.held()
        assert not item.held()
    assert producer.count() == 0
    with pytest.raises(raftmeta.Withdrawn):
        worker.take(timeout_s=0.1)
    assert producer.put(b"later") == 6


def test_an_item_that_is_given_back_keeps_its_place(nodes: Nodes, face: MakeFace, name: str) -> None:
    """By give_back, and by an exception that leaves the block."""
    make = face(nodes["a"]).recipe
    one, two = make("Queue", name), make("Queue", name)
    for data in "123":
        one.put(data)
    first, second = one.take(), two.take()
    assert (first.data, second.data) == (b"1", b"2")
    first.give_back()
    first.give_back()
    assert two.take(timeout_s=5).data == b"1"
    with pytest.raises(ZeroDivisionError), two.take(timeout_s=5) as third:
        assert third.data == b"3"
        raise ZeroDivisionError
    second.give_back()
    assert [one.take(timeout_s=5).data for _ in range(2)] == [b"2", b"3"]
    two.close()
    assert one.take(timeout_s=5).data == b"1"
    one.close()
    assert nodes["a"].range(prefix=third.fence.key.rsplit("/", 1)[0] + "/").records == []


def test_what_an_item_leads_to_is_written_with_its_end(nodes: Nodes, face: MakeFace, name: str) -> None:
    """In one transaction: exactly once. Who lost the item is Fenced, and nothing it did is there."""
    queue = face(nodes["a"]).recipe("Queue", name)
    queue.put(b"work")
    queue.put(b"work")
    queue.take().done([Add(f"done/{name}"), Put(f"result/{name}", b"1")])
    item = queue.take()
    nodes["b"].delete(item.fence.key)  # as if its lease had expired
    with pytest.raises(raftmeta.Fenced):
        item.done([Add(f"done/{name}"), Put(f"result/{name}", b"2")])
    assert nodes["c"].get(f"result/{name}").value == b"1"  # type: ignore[union-attr]
    with queue.take(timeout_s=5) as again:
        again.done([Add(f"done/{name}")])
    assert nodes["c"].add(f"done/{name}", 0).result == 2
    queue.put(b"lost")
    with pytest.raises(raftmeta.Fenced), queue.take(timeout_s=5) as lost:  # a block that ends as if it were done
        nodes["b"].delete(lost.fence.key)
    queue.close()


def test_waiting_workers_are_served_in_order(nodes: Nodes, face: MakeFace, name: str) -> None:
    """One item wakes the one who waited longest; whoever comes later does not overtake."""
    make = face(nodes["a"]).recipe
    waiters = []
    for count in (1, 2, 3):
        worker = make("Queue", name)
        waiters.append(Waiter(lambda worker=worker: worker.take(timeout_s=30)))  # type: ignore[misc]
        wait_until(
            lambda count=count: nodes["a"].range(prefix=line_of(name)).count == count,  # type: ignore[misc]
            timeout_s=20,
            what="it to stand in line",
        )
    producer = make("Queue", name)
    for place, waiter in enumerate(waiters):
        assert all(other.permit is None for other in waiters[place:])
        producer.put(f"{place}")
        assert waiter.join().data == b"%d" % place
        waiter.permit.done()


def line_of(name: str) -> str:
    from raftmeta.recipes.keys import prefix_of

    return prefix_of("queues", name) + "line/"


def test_items_of_a_crashed_worker_return(tmp_path: Path) -> None:
    with running(tmp_path) as nodes:
        worker, other = recipes.Queue(nodes["a"], "q", ttl_s=0.6), recipes.Queue(nodes["b"], "q")
        other.put(b"1")
        other.put(b"2")
        item = worker.take()
        assert other.take().data == b"2"
        crash(nodes["a"])
        assert other.take(timeout_s=20).data == item.data == b"1"


def test_a_worker_cut_off_loses_its_items_and_goes_on_with_others(tmp_path: Path, face: MakeFace) -> None:
    """What it had is lost to it; when it is back, the item is somebody's again, and the old claim is Fenced."""
    with running(tmp_path, names="a") as nodes:
        worker = face(nodes["a"]).recipe("Queue", "q", ttl_s=0.5)
        worker.put(b"1")
        item = worker.take()
        nodes["a"].txn(then=[raftmeta.operations.Delete(item.fence.key)])
        with pytest.raises(raftmeta.Fenced):
            item.done()
        with worker.take(timeout_s=5) as again:
            assert again.data == b"1"
            assert again.epoch > item.epoch


def test_a_claim_whose_outcome_was_unknown_is_found_again(nodes: Nodes, name: str) -> None:
    """The call failed after the claim was made: the next take of this worker has that item, not the one behind it."""
    queue = recipes.Queue(nodes["a"], name)
    for data in "12":
        queue.put(data)
    txn, calls = nodes["a"].txn, []

    class Unlucky:
        """The first claim is made, and its answer lost."""

        def txn(self, *arguments: Any, **options: Any) -> Any:
            reply = txn(*arguments, **options)
            calls.append(reply)
            if len(calls) == 1:
                raise raftmeta.OutcomeUnknown("on purpose")
            return reply

        def __getattr__(self, word: str) -> Any:
            return getattr(nodes["a"], word)

    worker = recipes.Queue(Unlucky(), name)  # type: ignore[arg-type]
    with pytest.raises(raftmeta.OutcomeUnknown):
        worker.take()
    assert [worker.take(timeout_s=5).data for _ in range(2)] == [b"1", b"2"]
    worker.close()


def test_many_workers_do_every_item_once(nodes: Nodes, name: str) -> None:
    """Workers of three nodes, some of which give items back; each item's end counts once."""
    items, total = 60, f"total/{name}"
    producer = recipes.Queue(nodes["a"], name)
    failures: list[BaseException] = []

    def work(node: raftmeta.Node, number: int) -> None:
        queue = recipes.Queue(node, name)
        try:
            for turn in range(1000):
                item = queue.take(timeout_s=1.0)
                if (turn + number) % 7 == 3:
                    item.give_back()
                else:
                    item.done([Add(total), Add(f"{total}/{item.data.decode()}")])
        except raftmeta.Withdrawn:
            pass  # no more items
        except BaseException as error:
            failures.append(error)
        finally:
            queue.close()

    threads = [threading.Thread(target=work, args=(node, number)) for number in range(2) for node in nodes.values()]
    for thread in threads:
        thread.start()
    for number in range(items):
        producer.put(f"{number}")
    for thread in threads:
        thread.join(60)
    assert failures == []
    assert producer.count() == 0
    assert nodes["b"].add(total, 0).result == items
    assert all(nodes["b"].add(f"{total}/{number}", 0).result == 1 for number in range(items))


class QueueHistory(RuleBasedStateMachine):
    """Three workers against a list: the first item that nobody has is the one that is taken."""

    node: raftmeta.Node

    def __init__(self) -> None:
        super().__init__()
        name = f"history {time.monotonic_ns()}"
        self.workers = [recipes.Queue(self.node, name) for _ in range(3)]
        self.free: list[int] = []
        self.taken: dict[int, tuple[int, Any]] = {}
        self.numbers = 0

    @rule(worker=st.integers(0, 2))
    def put(self, worker: int) -> None:
        self.numbers += 1
        assert self.workers[worker].put(f"{self.numbers}") == self.numbers
        self.free.append(self.numbers)

    @rule(worker=st.integers(0, 2))
    def take(self, worker: int) -> None:
        if not self.free:
            return
        item = self.workers[worker].take(timeout_s=5)
        number = self.free.pop(0)
        assert item.data == b"%d" % number
        self.taken[number] = (worker, item)

    @rule(choice=st.integers(0, 99))
    def done(self, choice: int) -> None:
        if self.taken:
            _, item = self.taken.pop(sorted(self.taken)[choice % len(self.taken)])
            item.done()

    @rule(choice=st.integers(0, 99))
    def give_back(self, choice: int) -> None:
        if self.taken:
            number = sorted(self.taken)[choice % len(self.taken)]
            self.taken.pop(number)[1].give_back()
            self.free = sorted([*self.free, number])

    @rule(choice=st.integers(0, 99))
    def lose(self, choice: int) -> None:
        """The claim goes as with an expired lease; its holder cannot be done with it any more."""
        if self.taken:
            number = sorted(self.taken)[choice % len(self.taken)]
            _, item = self.taken.pop(number)
            self.node.delete(item.fence.key)
            with pytest.raises(raftmeta.Fenced):
                item.done()
            item.give_back()
            self.free = sorted([*self.free, number])

    @invariant()
    def holds_what_is_not_done(self) -> None:
        assert self.workers[0].count() == len(self.free) + len(self.taken)

    def teardown(self) -> None:
        for worker in self.workers:
            worker.close()


def test_histories_of_a_queue(nodes: Nodes) -> None:
    QueueHistory.node = nodes["a"]
    run_state_machine_as_test(QueueHistory, settings=settings(max_examples=8, stateful_step_count=15, deadline=None))


def test_an_item_whose_number_is_no_text_is_worked_on_like_any_other(nodes: Nodes, face: MakeFace, name: str) -> None:
    """Anybody may put such a key below the prefix: it ended every take with UnicodeDecodeError."""
    worker = face(nodes["a"]).recipe("Queue", name)
    prefix = prefix_of("queues", name)
    foreign = prefix.encode() + b"items/\xff\xfe"
    nodes["a"].put(foreign, b"foreign")
    worker.put("own")
    with worker.take(timeout_s=5) as first, worker.take(timeout_s=5) as second:
        assert (first.data, second.data) == (b"own", b"foreign")
        assert second.id
    assert worker.count() == 0
    assert nodes["b"].range(prefix=f"{prefix}claims/").count == 0
