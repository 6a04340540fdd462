"""Rounds of linearizable reads at a follower whose leader answers too much (raftmeta/engine/callers)."""

from __future__ import annotations

from tests.faces.reads import ReadsHandle

FAR = 1 << 40


def test_an_index_that_no_log_has_holds_up_reads_for_an_election_timeout_only() -> None:
    """A false answer is asked for again, and a true one to the same round takes its place; later rounds follow."""
    reads = ReadsHandle()
    first = reads.read()
    reads.answer(first, FAR)
    second = reads.read()
    reads.answer(second, 7)
    reads.know(7, 7)
    assert reads.served == 0, "rounds are served in order"
    again = reads.pass_time(1)
    assert again > second
    reads.answer(again, 8)
    assert reads.served == 0, "8 is not applied yet"
    reads.know(8, 8)
    assert reads.served == 2


def test_an_answer_that_was_asked_for_again_still_counts() -> None:
    """A follower that is far behind asks again, too; the lowest of all answers is enough, and a refusal takes none."""
    reads = ReadsHandle()
    first = reads.read()
    reads.answer(first, 7)
    again = reads.pass_time(1)
    assert again > first
    reads.answer(again, FAR)
    reads.refuse(again)
    reads.know(7, 7)
    assert reads.served == 1


def test_an_answer_that_only_waits_to_be_applied_is_not_asked_for_again() -> None:
    """Its entries are known to be committed, so it is served whatever time that takes."""
    reads = ReadsHandle()
    reads.answer(reads.read(), 7)
    reads.know(7, 3)
    assert reads.pass_time(3) == 0
    reads.know(7, 7)
    assert reads.served == 1
