"""Every transition of raft/progress, named by the arrow in its header."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.faces.raft_parts import ProgressHandle

WINDOW = 100


def replicating(match: int) -> ProgressHandle:
    progress = ProgressHandle(match)
    assert progress.on_accepted(match)
    return progress


def test_new_member_is_probed_from_the_end_of_the_log() -> None:
    """Paper Figure 2: nextIndex is initialized to the leader's last index + 1, matchIndex to 0."""
    pointers = ProgressHandle(9).pointers()
    assert (pointers.state, pointers.match, pointers.next) == ("PROBE", 0, 10)


def test_probe_sends_one_append_and_waits() -> None:
    progress = ProgressHandle(9)
    assert progress.can_send(WINDOW)
    progress.on_sent(9, 0)
    assert not progress.can_send(WINDOW)
    assert progress.pointers().next == 10
    progress.on_heartbeat_answered(1, 9)
    assert progress.can_send(WINDOW), "a heartbeat's answer shows that the member is there: try again"


def test_accepted_probe_begins_to_replicate() -> None:
    progress = ProgressHandle(9)
    progress.on_sent(9, 0)
    assert progress.on_accepted(9)
    pointers = progress.pointers()
    assert (pointers.state, pointers.match, pointers.next) == ("REPLICATE", 9, 10)


def test_replication_is_pipelined_up_to_its_bytes() -> None:
    """Thesis 10.2.1."""
    progress = replicating(1)
    progress.on_sent(3, 60)
    assert progress.pointers().next == 4
    assert progress.can_send(WINDOW)
    progress.on_sent(5, 60)
    assert not progress.can_send(WINDOW)
    assert progress.on_accepted(3)
    assert progress.can_send(WINDOW)
    assert (progress.pointers().inflight_count, progress.pointers().inflight_bytes) == (1, 60)


def test_old_acknowledgement_changes_nothing() -> None:
    progress = replicating(5)
    progress.on_sent(8, 10)
    before = progress.pointers()
    assert not progress.on_accepted(4)
    assert progress.pointers() == before


def test_refused_probe_goes_back_to_where_the_logs_may_meet() -> None:
    progress = ProgressHandle(9)
    assert progress.on_rejected(9, 4)
    assert (progress.pointers().state, progress.pointers().next) == ("PROBE", 5)
    assert progress.can_send(WINDOW)


def test_refusal_of_another_probe_is_of_the_past() -> None:
    progress = ProgressHandle(9)
    assert progress.on_rejected(9, 4)
    assert not progress.on_rejected(9, 2), "the same answer twice"
    assert progress.pointers().next == 5


def test_refusal_never_goes_below_what_matched() -> None:
    progress = replicating(5)
    progress.on_sent(9, 10)
    assert not progress.on_rejected(5, 0), "it acknowledged 5: a refusal of it is older"
    assert progress.on_rejected(9, 0)
    pointers = progress.pointers()
    assert (pointers.state, pointers.next, pointers.inflight_bytes) == ("PROBE", 6, 0)


def test_lost_append_is_found_out_by_an_empty_one() -> None:
    """The last APPENDs are lost and nothing follows them: the answer to a heartbeat makes the leader ask."""
    progress = replicating(5)
    progress.on_sent(9, 10)
    progress.on_heartbeat_answered(1, 9)
    assert progress.pointers().must_send_empty
    progress.on_sent(9, 0)
    assert not progress.pointers().must_send_empty
    progress.on_accepted(9)
    progress.on_heartbeat_answered(2, 9)
    assert not progress.pointers().must_send_empty, "nothing is missing any more"


def test_broken_connection_ends_pipelining() -> None:
    progress = replicating(5)
    progress.on_sent(9, 10)
    progress.on_lost()
    pointers = progress.pointers()
    assert (pointers.state, pointers.next, pointers.inflight_count) == ("PROBE", 6, 0)
    assert progress.can_send(WINDOW)


def test_nothing_is_sent_while_a_snapshot_is() -> None:
    progress = ProgressHandle(9)
    progress.on_snapshot_needed(7)
    assert progress.pointers().state == "SNAPSHOT_WAIT"
    assert not progress.can_send(WINDOW)
    assert not progress.on_rejected(9, 8), "of an APPEND sent before"
    progress.on_lost()
    assert progress.pointers().state == "SNAPSHOT_WAIT"


def test_lost_answer_to_a_snapshot_is_found_out_by_an_empty_append() -> None:
    """It asks whether the member holds the snapshot's point; a refusal only means: not yet."""
    progress = ProgressHandle(9)
    progress.on_snapshot_needed(7)
    progress.on_heartbeat_answered(1, 9)
    assert (progress.pointers().must_send_empty, progress.pointers().next) == (True, 8)
    progress.on_sent(7, 0)
    assert not progress.on_rejected(7, 3, 5)
    assert progress.pointers().state == "SNAPSHOT_WAIT"
    assert progress.on_accepted(7, 7)
    assert (progress.pointers().state, progress.pointers().next) == ("REPLICATE", 8)


def test_member_that_the_log_can_serve_waits_for_no_snapshot() -> None:
    """It has applied all of the snapshot's file, so it never asks for it, and refuses the point above it."""
    progress = ProgressHandle(9)
    progress.on_snapshot_needed(7)
    progress.on_heartbeat_answered(1, 9)
    progress.on_sent(7, 0)
    assert not progress.on_rejected(7, 4, 5), "5 is compacted: the log cannot follow on 4"
    assert progress.on_rejected(7, 5, 5)
    pointers = progress.pointers()
    assert (pointers.state, pointers.next, pointers.snapshot_index) == ("PROBE", 6, 0)
    assert progress.can_send(WINDOW)


def test_installed_snapshot_is_followed_by_a_probe_behind_it() -> None:
    progress = ProgressHandle(9)
    progress.on_snapshot_needed(7)
    progress.on_snapshot_over(7)
    pointers = progress.pointers()
    assert (pointers.state, pointers.match, pointers.next) == ("PROBE", 7, 8)
    assert progress.can_send(WINDOW)


def test_failed_snapshot_waits_for_a_sign_of_life() -> None:
    progress = ProgressHandle(9)
    progress.on_snapshot_needed(7)
    progress.on_snapshot_over(0)
    assert progress.pointers().state == "PROBE"
    assert not progress.can_send(WINDOW)
    progress.on_heartbeat_answered(3, 9)
    assert progress.can_send(WINDOW)


def test_acknowledgement_above_what_is_compacted_ends_the_snapshot() -> None:
    """The member got it elsewhere, or the snapshot's answer was lost."""
    progress = ProgressHandle(9)
    progress.on_snapshot_needed(7)
    progress.on_accepted(3, 5)
    assert progress.pointers().state == "SNAPSHOT_WAIT"
    progress.on_accepted(8, 5)
    assert (progress.pointers().state, progress.pointers().next) == ("REPLICATE", 9)


def test_learner_has_caught_up_when_a_round_is_quick() -> None:
    """Thesis 4.2.1: the last round took less than an election time-out."""
    progress = ProgressHandle(100, 0)
    progress.on_accepted(50)
    progress.on_tick(110, 5, 10)
    assert not progress.pointers().is_caught_up
    progress.on_accepted(100)
    progress.on_tick(120, 30, 10)
    assert not progress.pointers().is_caught_up, "the first round took 30 ticks"
    progress.on_accepted(120)
    progress.on_tick(130, 38, 10)
    assert progress.pointers().is_caught_up
    progress.on_tick(130, 60, 10)
    assert not progress.pointers().is_caught_up, "it is late again"


class ProgressInvariants(RuleBasedStateMachine):
    """Any order of events keeps match below next, match monotonic and the bytes in flight exact."""

    @initialize(last=st.integers(0, 20))
    def start(self, last: int) -> None:
        self.last = last
        self.progress = ProgressHandle(last)
        self.match = 0

    @rule(count=st.integers(0, 4))
    def send(self, count: int) -> None:
        if self.progress.can_send(WINDOW):
            self.last = max(self.last, self.progress.pointers().next - 1 + count)
            self.progress.on_sent(self.progress.pointers().next - 1 + count, 30 * count)

    @rule(back=st.integers(0, 10), compacted=st.integers(0, 20))
    def accept(self, back: int, compacted: int) -> None:
        self.progress.on_accepted(max(self.last - back, 0), compacted)

    @rule(index=st.integers(0, 30), meet=st.integers(0, 30))
    def reject(self, index: int, meet: int) -> None:
        self.progress.on_rejected(index, meet)

    @rule()
    def lose(self) -> None:
        self.progress.on_lost()

    @rule(round=st.integers(0, 9))
    def answer_heartbeat(self, round: int) -> None:
        self.progress.on_heartbeat_answered(round, self.last)

    @rule(index=st.integers(1, 20))
    def need_snapshot(self, index: int) -> None:
        self.progress.on_snapshot_needed(index)

    @rule(is_installed=st.booleans())
    def end_snapshot(self, is_installed: bool) -> None:
        self.progress.on_snapshot_over(self.progress.pointers().snapshot_index if is_installed else 0)

    @invariant()
    def match_is_below_next(self) -> None:
        pointers = self.progress.pointers()
        assert self.match <= pointers.match < pointers.next
        self.match = pointers.match
        assert (pointers.inflight_count == 0) == (pointers.inflight_bytes == 0)
        assert pointers.state == "REPLICATE" or pointers.inflight_count == 0
        assert (pointers.state == "SNAPSHOT_WAIT") or pointers.snapshot_index == 0


ProgressInvariants.TestCase.settings = settings(max_examples=60, deadline=None)
TestProgressInvariants = ProgressInvariants.TestCase
