"""Causes out of records that are written here: each story, and what must not be called certain."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from raftmeta.explain import words
from raftmeta.explain.causes import Incident, incidents_of
from raftmeta.explain.rings import Alive, Record, Ring
from raftmeta.explain.timeline import timeline_of

SECOND = 1_000_000_000
WALL_NS = 1_800_000_000 * SECOND  # at CLOCK_BOOTTIME 0 of every machine here
MEMBERS = {"a": 10, "b": 11, "c": 12}


class Story:
    """The records of nodes, one call each. Times in seconds. Each node has a machine of its own if `apart`."""

    def __init__(self, *, apart: bool = False) -> None:
        self.records: dict[str, list[Record]] = {name: [] for name in MEMBERS}
        self.running: dict[str, bool | None] = dict.fromkeys(MEMBERS, True)
        self.alive: dict[str, Alive | None] = dict.fromkeys(MEMBERS)
        self.late_s: dict[str, float] = dict.fromkeys(MEMBERS, 0.0)
        self.life = dict.fromkeys(MEMBERS, 0)
        self.machine = {name: 100 + number if apart else 100 for number, name in enumerate(MEMBERS)}
        for name in MEMBERS:
            self.start(name, 1.0)

    def tell(self, name: str, at_s: float, kind: int, *numbers: int, part: int = 0, text: str = "") -> None:
        a, b, c, d = (*numbers, 0, 0, 0, 0)[:4]
        boot_ns = round(at_s * SECOND)
        wall_ns = WALL_NS + boot_ns - round(self.late_s[name] * SECOND)
        number = len(self.records[name]) + 1
        self.records[name].append(Record(name, part, number, self.life[name], kind, boot_ns, wall_ns, a, b, c, d, text))

    def start(self, name: str, at_s: float, *, last_alive_s: float = 0.0) -> None:
        self.life[name] += 1
        alive_ns = WALL_NS + round(last_alive_s * SECOND) if last_alive_s else 0
        self.tell(name, at_s, words.START, self.life[name], MEMBERS[name], 1, alive_ns)
        self.tell(name, at_s, words.MACHINE, self.machine[name], 0)

    def lead(self, name: str, term: int, at_s: float, *, followers: str = "") -> None:
        self.tell(name, at_s, words.BECAME_LEADER, 0, 0, 0, term)
        for other in followers:
            self.tell(other, at_s + 0.01, words.BECAME_FOLLOWER, MEMBERS[name], 0, 0, term)

    def campaign(self, name: str, term: int, at_s: float) -> None:
        self.tell(name, at_s, words.BECAME_PRE_CANDIDATE, 0, 0, 0, term - 1)
        self.tell(name, at_s + 0.005, words.BECAME_CANDIDATE, 0, 0, 0, term)

    def span(self, name: str, kind: int, begun_s: float, ended_s: float, *numbers: int, part: int = 0) -> None:
        length_ns = round((ended_s - begun_s) * SECOND)
        self.tell(name, ended_s, kind, round(begun_s * SECOND), length_ns, *numbers, part=part)

    def gone(self, name: str, alive_s: float) -> None:
        """It runs no more, and gave its last sign of life then."""
        self.running[name] = False
        self.alive[name] = Alive(round(alive_s * SECOND), WALL_NS + round(alive_s * SECOND), self.life[name])

    def rings(self, names: str = "abc") -> list[Ring]:
        return [
            Ring(name, Path(name), tuple(self.records[name]), self.alive[name], 0, self.running[name]) for name in names
        ]

    def incidents(self, kind: str, names: str = "abc") -> list[Incident]:
        return [one for one in incidents_of(timeline_of(self.rings(names))) if one.kind == kind]

    def change(self, names: str = "abc") -> tuple[str, str]:
        """Confidence and text of the only leader change."""
        (found,) = self.incidents("leader_change", names)
        return found.cause.confidence, found.cause.text


def from_a_to_b(**options: bool) -> Story:
    """a leads from 2 s on, b asks at 10 s and leads in term 2."""
    story = Story(**options)
    story.lead("a", 1, 2.0, followers="bc")
    story.campaign("b", 2, 10.0)
    story.lead("b", 2, 10.02, followers="c")
    return story


def test_nothing_recorded_is_unknown() -> None:
    assert from_a_to_b().change() == ("unknown", "nothing that was recorded explains it")


def test_a_leader_that_vanished_was_killed() -> None:
    """Certain only if others found its address refusing: it may have stood still before it was killed."""
    story = from_a_to_b()
    story.gone("a", 9.8)
    assert story.change() == ("likely", "a's process was killed or crashed")
    story.tell("c", 9.99, words.LEADER_LOST, MEMBERS["a"], 0, 0, 1)
    assert story.change() == ("certain", "a's process was killed or crashed")


def test_a_leader_that_vanished_and_came_back_was_killed() -> None:
    """Its next life knows the last sign of life of the one before."""
    story = from_a_to_b()
    story.tell("b", 9.99, words.LEADER_LOST, MEMBERS["a"], 0, 0, 1)
    story.start("a", 20.0, last_alive_s=9.9)
    assert story.change() == ("certain", "a's process was killed or crashed")


def test_a_leader_that_died_long_after_is_not_the_cause() -> None:
    story = from_a_to_b()
    story.gone("a", 30.0)
    assert story.change()[0] == "unknown"


def test_a_machine_that_went_is_likely() -> None:
    story = from_a_to_b(apart=True)
    story.tell("b", 9.99, words.LEADER_LOST, MEMBERS["a"], 0, 0, 1)
    story.machine["a"] = 999
    story.start("a", 20.0, last_alive_s=9.9)
    assert story.change() == ("likely", "a's machine lost power or was started anew")


def test_a_pause_of_all_threads_is_certain_and_of_one_is_likely() -> None:
    story = from_a_to_b()
    story.span("a", words.PAUSE, 9.0, 12.1)
    assert story.change() == ("likely", "a thread of a did not run for 3.1 s")
    story.span("a", words.PAUSE, 9.01, 12.1, part=3)
    assert story.change() == ("certain", "a was paused 3.1 s")


def test_a_pause_that_ended_before_is_not_the_cause() -> None:
    story = from_a_to_b()
    for part in (0, 3):
        story.span("a", words.PAUSE, 7.0, 9.0, part=part)
    assert story.change()[0] == "unknown"


def test_a_transfer_names_its_target_and_an_end_behind_it() -> None:
    story = Story()
    story.lead("a", 1, 2.0, followers="bc")
    story.tell("a", 9.9, words.TRANSFER, MEMBERS["b"], 0, 0, 1)
    story.tell("b", 10.0, words.BECAME_CANDIDATE, 0, 0, 0, 2)
    story.lead("b", 2, 10.02)
    assert story.change() == ("certain", "a was asked to transfer its lead to b")
    story.tell("a", 10.5, words.STOP, 0, 0, 0, 2)
    assert story.change() == ("certain", "a was stopped in order")


def test_a_transfer_is_named_though_its_target_asked_in_vain_before() -> None:
    """As one does that was cut off, and then heard the leader again."""
    story = Story()
    story.lead("a", 1, 2.0, followers="bc")
    story.tell("b", 5.0, words.BECAME_PRE_CANDIDATE, MEMBERS["a"], 0, 0, 1)
    story.tell("b", 6.0, words.BECAME_FOLLOWER, MEMBERS["a"], 0, 0, 1)
    story.tell("a", 9.9, words.TRANSFER, MEMBERS["b"], 0, 0, 1)
    story.tell("b", 10.0, words.BECAME_CANDIDATE, 0, 0, 0, 2)
    story.lead("b", 2, 10.02)
    assert story.change() == ("certain", "a was asked to transfer its lead to b")


def test_a_transfer_to_another_is_not_the_cause() -> None:
    story = from_a_to_b()
    story.tell("a", 9.9, words.TRANSFER, MEMBERS["c"], 0, 0, 1)
    assert story.change()[0] == "unknown"


def test_a_disk_that_failed_is_told_in_the_words_of_the_system() -> None:
    story = from_a_to_b()
    story.tell("a", 9.9, words.FATAL, 96, 5, 4, 1)
    assert story.change() == ("certain", "a stopped by itself: its disk failed (sync: Input/output error)")


@pytest.mark.parametrize("noticed_s", [9.8, 10.5])
def test_a_leader_without_a_majority_was_cut_off(noticed_s: float) -> None:
    """It may notice before the others elect another one, or after."""
    story = from_a_to_b()
    story.tell("a", noticed_s, words.STEPPED_DOWN, words.STEPPED_DOWN_NO_QUORUM, 0, 0, 1)
    assert story.change() == ("likely", "a heard no majority of the others: it was cut off")


def test_a_leader_whose_followers_stood_still_was_not_cut_off() -> None:
    story = from_a_to_b()
    story.tell("a", 9.8, words.STEPPED_DOWN, words.STEPPED_DOWN_NO_QUORUM, 0, 0, 1)
    for name in "bc":
        story.span(name, words.PAUSE, 9.0, 9.9)
    assert story.change() == ("likely", "b and c did not answer a")


def test_without_the_old_leaders_records_nothing_is_certain() -> None:
    story = from_a_to_b()
    assert story.change("bc")[0] == "unknown"
    story.tell("b", 9.99, words.LEADER_LOST, MEMBERS["a"], 0, 0, 1)
    assert story.change("bc")[0] == "likely"


def test_a_follower_that_stood_still_is_named() -> None:
    story = from_a_to_b()
    story.span("b", words.PAUSE, 8.0, 9.9)
    assert story.change() == ("likely", "b did not run for 1.9 s")


def test_a_slow_write_has_the_disk_of_its_own_node_for_certain() -> None:
    """Another node's disk is only likely: a majority may do without it."""
    story = Story()
    story.lead("a", 1, 2.0)
    story.span("b", words.SYNC, 5.0, 6.9)
    story.span("a", words.WAITED, 5.0, 6.95)
    (write,) = story.incidents("slow_write")
    assert (write.cause.confidence, write.cause.text) == ("likely", "b's disk: fdatasync 1.9 s")
    story.span("a", words.SYNC, 5.0, 6.9)
    (write,) = story.incidents("slow_write")
    assert (write.cause.confidence, write.cause.text) == ("certain", "a's disk: fdatasync 1.9 s")


def test_a_slow_write_has_the_cause_of_its_leader_change() -> None:
    story = from_a_to_b()
    story.gone("a", 9.8)
    story.span("c", words.WAITED, 9.7, 10.1)
    (write,) = story.incidents("slow_write")
    assert write.cause.confidence == "likely"
    assert write.cause.text == "the leader changed (a -> b, term 1 -> 2): a's process was killed or crashed"


def test_a_short_sync_is_not_the_cause_of_a_long_wait() -> None:
    story = Story()
    story.span("a", words.SYNC, 5.0, 5.2)
    story.span("a", words.WAITED, 5.0, 7.0)
    (write,) = story.incidents("slow_write")
    assert write.cause.confidence == "unknown"


def test_a_holder_of_the_gil_is_certain_if_its_processor_time_proves_it() -> None:
    story = Story()
    begun_ns, held_ns = 5 * SECOND, 700_000_000
    story.tell("a", 5.7, words.GIL, begun_ns, held_ns, 600_000_000, 77, part=2, text="loads (json:1)")
    story.tell("b", 5.7, words.GIL, begun_ns, held_ns, 0, 77, part=2, text="loads (json:1)")
    one, other = sorted(story.incidents("gil"), key=lambda incident: incident.nodes)
    assert (one.cause.confidence, one.cause.text) == ("certain", "a's host held the GIL 700 ms in loads (json:1)")
    assert other.cause.confidence == "likely"


def test_lost_leases_have_the_holder_of_the_gil_or_a_process_that_is_gone() -> None:
    story = Story()
    story.tell("a", 5.7, words.GIL, 5 * SECOND, 700_000_000, 600_000_000, 77, part=2, text="loads (json:1)")
    story.tell("a", 5.5, words.HOST_STALLED, 500, 0, 0, 1)
    story.tell("b", 6.0, words.PROCESS_ENDED, MEMBERS["c"], 1, 0, 1)
    stalled, ended = story.incidents("leases_lost")
    assert stalled.cause.text == "a's host held the GIL 700 ms in loads (json:1)"
    assert (ended.nodes, ended.cause.confidence) == (("c",), "certain")


def test_leases_that_ended_by_time_are_never_certain() -> None:
    """One node in trouble is likely their holder; two, and nobody knows."""
    story = Story()
    story.tell("a", 50.0, words.LEASES_EXPIRED, 3, 0, 0, 1)
    assert story.incidents("leases_lost")[0].cause.confidence == "unknown"
    story.span("b", words.PAUSE, 10.0, 49.0)
    cause = story.incidents("leases_lost")[0].cause
    assert (cause.confidence, cause.text) == ("likely", "b was paused 39.0 s")
    story.span("c", words.PAUSE, 10.0, 49.0)
    assert story.incidents("leases_lost")[0].cause.confidence == "unknown"


def test_a_clock_between_machines_is_moved_so_that_nobody_follows_too_early() -> None:
    """b's clock is 5 s late: it seems to follow a before a leads. Nodes of one machine share a clock."""
    story = Story(apart=True)
    story.late_s["b"] = 5.0
    story.records["b"].clear()
    story.life["b"] = 0
    story.start("b", 1.0)
    story.lead("a", 1, 20.0, followers="bc")
    timeline = timeline_of(story.rings())
    assert timeline.shifts_s.keys() == {"b"}
    assert timeline.shifts_s["b"] == pytest.approx(4.99, abs=0.001)
    followed = timeline.of("b", words.BECAME_FOLLOWER)[0]
    led = timeline.of("a", words.BECAME_LEADER)[0]
    assert timeline.at(followed) >= timeline.at(led)


def test_a_life_that_left_no_sign_ends_with_its_last_record() -> None:
    story = Story()
    story.tell("a", 3.0, words.BECAME_CANDIDATE, 0, 0, 0, 1)
    story.start("a", 9.0)
    first = timeline_of(story.rings()).lives[0]
    assert first.end == "vanished"
    assert first.end_s == pytest.approx(WALL_NS / SECOND + 3.0)


def test_pauses_of_threads_at_one_time_are_one_incident() -> None:
    story = Story()
    for part in (0, 2, 3):
        story.span("a", words.PAUSE, 5.0 + part / 100, 8.0, part=part)
    story.span("a", words.PAUSE, 9.0, 9.2, part=3)
    pauses = story.incidents("pause")
    assert [round(one.ended_s - one.begun_s, 1) for one in pauses] == [3.0, 0.2]
    assert "all threads of a stood still" in pauses[0].cause.text


def test_a_copy_without_its_folder_says_nothing_of_an_end() -> None:
    """Nobody can tell whether its node runs."""
    story = from_a_to_b()
    story.running["a"] = None
    assert story.change()[0] == "unknown"
    assert [dataclasses.replace(life, end_s=None) for life in timeline_of(story.rings()).lives if life.end_s] == []
