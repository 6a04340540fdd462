"""What the engine and those behind its ports promise each other: each broken promise is named with its two numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from raftmeta.common.invariants import NAMES
from raftmeta.errors import InvariantBroken
from tests.faces.promises import PromisesHandle, make_published_wrong
from tests.faces.storage import make_record
from tests.node.nodes import leader_of, running
from tests.processes.waiting import wait_until

OK, INVARIANT_BROKEN = 0, 98
WRITE, READ, LOOK, PIECE = 1, 2, 7, 9  # DiskJobKind
MEMBERS_MAX = 32


def told(engine: PromisesHandle) -> tuple[str, int, int]:
    what, a, b = engine.broken
    return NAMES.get(what, "nothing"), a, b


# --- DiskJobPort ------------------------------------------------------------------------------------------------------
def test_jobs_of_the_log_come_back_in_order_and_others_when_they_are_done() -> None:
    engine = PromisesHandle()
    first, read, second = engine.job(WRITE), engine.job(READ), engine.job(WRITE)
    for job in (first, read, second):
        engine.submit(job)
    assert [engine.back(job) for job in (first, second, read)] == [OK, OK, OK]
    engine.submit(second)  # it found no room, and is tried again
    assert engine.back(second) == OK
    assert engine.look() == OK
    assert told(engine) == ("nothing", 0, 0)


def test_a_job_of_the_log_that_overtakes_another_is_named() -> None:
    engine = PromisesHandle()
    first, second = engine.job(WRITE), engine.job(WRITE)
    engine.submit(first)
    engine.submit(second)
    assert engine.back(second) == OK
    assert engine.back(first) == INVARIANT_BROKEN
    assert told(engine) == ("BROKEN_JOB_ORDER", 1, 2)
    assert engine.look() == INVARIANT_BROKEN


def test_a_job_comes_back_once() -> None:
    engine = PromisesHandle()
    job, other = engine.job(LOOK), engine.job(LOOK)
    engine.submit(job)
    engine.submit(other)
    assert engine.back(job) == OK
    assert engine.back(job) == INVARIANT_BROKEN
    assert told(engine) == ("BROKEN_JOB_BACK_TWICE", LOOK, 1)


def test_a_job_goes_out_once() -> None:
    engine = PromisesHandle()
    job = engine.job(READ)
    engine.submit(job)
    engine.submit(job)
    assert told(engine) == ("BROKEN_JOB_OUT_TWICE", READ, 1)


def test_a_read_gives_the_records_that_were_asked_for() -> None:
    engine = PromisesHandle()
    job, other = engine.job(READ), engine.job(READ)
    engine.submit(job)
    engine.submit(other)
    assert engine.back(job, records=make_record(5, 1, b"x")[0], first=5) == OK
    assert engine.look() == OK
    assert engine.back(other, records=make_record(5, 1, b"x")[0], first=4) == OK
    assert told(engine) == ("BROKEN_JOB_READ", 5, 4)
    assert engine.look() == INVARIANT_BROKEN


def test_a_piece_of_a_file_is_no_longer_than_was_asked_for() -> None:
    engine = PromisesHandle()
    job, other = engine.job(PIECE), engine.job(PIECE)
    engine.submit(job)
    engine.submit(other)
    assert engine.back(job, records=bytes(64), bytes_max=64) == OK
    assert engine.look() == OK
    assert engine.back(other, records=bytes(65), bytes_max=64) == OK
    assert told(engine) == ("BROKEN_JOB_PIECE", 65, 64)


def test_no_more_jobs_of_the_log_come_back_than_went() -> None:
    engine = PromisesHandle()
    assert engine.refused(engine.job(WRITE)) == (False, INVARIANT_BROKEN)
    assert told(engine) == ("BROKEN_ROOM_JOBS", WRITE, 0)


# --- NetworkPort and CallerPort ---------------------------------------------------------------------------------------
def test_a_frame_goes_to_a_peer_and_has_its_header() -> None:
    engine = PromisesHandle()
    engine.use_link(3)
    assert engine.frame(3, 200)
    assert not engine.frame(3, 1)
    name, length, header = told(engine)
    assert (name, length) == ("BROKEN_FRAME_SHORT", 1)
    assert 1 < header <= 200


@pytest.mark.parametrize("place", [0, 3, MEMBERS_MAX])
def test_a_frame_never_goes_to_a_free_place_or_to_this_node(place: int) -> None:
    engine = PromisesHandle()
    engine.use_link(0, is_self=True)
    assert not engine.frame(place, 200)
    assert told(engine) == ("BROKEN_LINK_UNUSED", place, MEMBERS_MAX)


def test_a_message_names_its_sender() -> None:
    engine = PromisesHandle()
    assert engine.message(7, id=7)
    assert not engine.message(8, id=7)
    assert told(engine) == ("BROKEN_MESSAGE_SENDER", 8, 7)


def test_a_round_has_its_readers() -> None:
    engine = PromisesHandle()
    engine.serve(2, 2)
    assert told(engine) == ("nothing", 0, 0)
    engine.serve(3, 1)
    assert told(engine) == ("BROKEN_READERS_GONE", 3, 1)


# --- the applier ------------------------------------------------------------------------------------------------------
def test_entries_are_applied_without_a_gap() -> None:
    engine = PromisesHandle()
    assert engine.take([1, 2]) == OK
    assert engine.take([2, 3]) == OK  # what is known is passed over
    assert engine.take([5]) == INVARIANT_BROKEN
    assert told(engine) == ("BROKEN_APPLY_GAP", 5, 4)


def test_a_slice_holds_whole_records() -> None:
    engine = PromisesHandle()
    assert engine.take([1, 2]) == OK
    assert engine.take([1, 2], missing_bytes=8) == INVARIANT_BROKEN
    name, whole, length = told(engine)
    assert (name, whole - length) == ("BROKEN_APPLY_TORN", 8)


def test_the_core_gives_all_that_it_names() -> None:
    engine = PromisesHandle()
    assert engine.take([1, 2], last=2) == OK
    assert engine.take([2], last=3) == INVARIANT_BROKEN
    assert told(engine) == ("BROKEN_APPLY_LAST", 2, 3)


def test_no_more_is_applied_than_the_core_gave() -> None:
    engine = PromisesHandle()
    assert engine.publish(3, 1) == INVARIANT_BROKEN
    assert told(engine) == ("BROKEN_APPLIED_AHEAD", 3, 0)


def test_what_is_published_never_goes_back() -> None:
    engine = PromisesHandle()
    assert engine.publish(4, 7) == INVARIANT_BROKEN
    assert told(engine) == ("BROKEN_PUBLISHED_BACK", 4, 7)


def test_the_caller_is_told_which_belief_proved_wrong(tmp_path: Path) -> None:
    """The name and both numbers reach the error of every later call, and the others go on."""
    with running(tmp_path) as nodes:
        leader = leader_of(nodes)
        leader.put("key", b"value")
        wrong = nodes[min(set(nodes) - {leader.name})]
        make_published_wrong(wrong, 1_000_000)
        leader.put("key", b"another")
        wait_until(lambda: wrong.status().state == "stopped", timeout_s=30, what="the wrong one to stop")
        with pytest.raises(InvariantBroken, match="BROKEN_PUBLISHED_BACK") as error:
            wrong.put("key", b"value")
        assert error.value.belief == "BROKEN_PUBLISHED_BACK"
        applied, published = error.value.facts
        assert applied < 1_000_000 <= published
        assert f"{applied} and {published} contradict each other" in str(error.value)
        leader.put("key", b"still here")
