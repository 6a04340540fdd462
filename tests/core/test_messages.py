"""What each message vouches for: the table of docs/invariants.md "Messages", row by row, and that of _core.pyx.

Member 1 is real, 2 and 3 are played by the test; 9 is a stranger, whom no membership names.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.core.cluster import Cluster, membership_of
from tests.core.scenes import alone, answers, led, role, sent
from tests.faces.core import CoreBroken, HardState, LogRead, Message, encode_membership, make_records

CORE = Path(__file__).parents[2] / "raftmeta" / "_core.pyx"
ROLES = ("FOLLOWER", "PRE_CANDIDATE", "CANDIDATE", "LEADER")
STRANGER = 9
MEMBERSHIP = encode_membership(membership_of([1, 2]))


# --- the table of _core.pyx: each message in each role ----------------------------------------------------------------


def table() -> dict[str, dict[str, str]]:
    """Cells of the two tables at the head of _core.pyx, by message and role."""
    cells: dict[str, dict[str, str]] = {}
    for line in CORE.read_text().split('"""')[1].splitlines():
        words = re.split(r"\s{2,}", line.strip())
        if not line.startswith("    ") or not re.fullmatch(r"[A-Z_]{4,}", words[0]):
            continue
        if len(words) == 3:  # a member that does not lead, LEADER
            words = [words[0], words[1], words[1], words[1], words[2]]
        assert len(words) == 5, line
        cells[words[0]] = dict(zip(ROLES, words[1:], strict=True))
    return cells


TABLE = table()
ASKED = ("PRE_VOTE", "VOTE", "APPEND", "HEARTBEAT", "SNAPSHOT")  # their senders hear of the term of now
TERMLESS = ("PROPOSE", "PROPOSE_RESPONSE", "READ_INDEX", "ENTRY_REQUEST", "ENTRY_RESPONSE", "MEMBERSHIP_PROPOSE",
            "FEED_REQUEST", "FEED_MEMBERSHIP")  # fmt: skip


def in_role(wanted: str) -> Cluster:
    """Member 1 in this role, with entry 1 of term 1; a follower follows 2."""
    cluster = alone((1,), term=2)
    if wanted == "FOLLOWER":
        cluster.give(heartbeat())
    else:
        cluster.act(1, "campaign")
    if wanted in ("CANDIDATE", "LEADER"):
        cluster.give(Message("PRE_VOTE_RESPONSE", 2, 1, 3))
    if wanted == "LEADER":
        cluster.give(Message("VOTE_RESPONSE", 2, 1, 3))
    assert role(cluster) == wanted
    cluster.network.clear()
    return cluster


def heartbeat() -> Message:
    return Message("HEARTBEAT", 2, 1, 2, context=1)


def message(type: str, cluster: Cluster) -> Message:
    """One of this type from 2, of the term of member 1, that makes sense to the one it is meant for."""
    status = cluster[1].status()
    chain = cluster[1].log()[-1].chain
    plain: dict[str, dict[str, object]] = {
        "APPEND": {
            "index": status.last,
            "log_term": status.last_term,
            "count": 1,
            "records": make_records([(status.term, b"x")], index=status.last, chain=chain),
        },
        "APPEND_RESPONSE": {"index": status.last},
        "HEARTBEAT": {"context": 1},
        "HEARTBEAT_RESPONSE": {"context": 1},
        "SNAPSHOT": {"index": 100, "log_term": 1},
        "SNAPSHOT_RESPONSE": {"index": 1},
        "PRE_VOTE": {"index": 100, "log_term": status.term},
        "VOTE": {"index": 100, "log_term": status.term},
        "PROPOSE": {"context": 5, "count": 1, "records": (4).to_bytes(4, "little") + b"data"},
        "PROPOSE_RESPONSE": {"reject": True, "context": 5, "hint": 32},
        "READ_INDEX": {"context": 5},
        "READ_INDEX_RESPONSE": {"context": 5, "index": 1},
        "TRANSFER": {"context": 2},
        "MEMBERSHIP_PROPOSE": {"context": 5, "index": 0, "records": MEMBERSHIP},
        "FEED_REQUEST": {"index": 1, "log_term": 1, "hint": 1, "context": chain},
        "FEED_MEMBERSHIP": {"index": 0, "hint": 1, "records": MEMBERSHIP},
        "FEED": {"index": 1, "log_term": 1, "hint": 1},
        "ENTRY_REQUEST": {"index": 1, "context": cluster[1].log()[0].chain},
        "ENTRY_RESPONSE": {
            "index": 1,
            "context": cluster[1].log()[0].chain,
            "count": 1,
            "records": cluster[1].log_bytes(1, 1),
        },
    }
    term = 0 if type in TERMLESS else status.term
    if type in ("PRE_VOTE", "PRE_VOTE_RESPONSE"):
        term += 1
    return Message(type, 2, 1, term, **plain.get(type, {}))


def view(cluster: Cluster) -> tuple[object, ...]:
    """All that a message may change, but clocks."""
    core = cluster[1]
    return core.status(), core.membership(), core.log(), core.progress() if role(cluster) == "LEADER" else None


def gives(cluster: Cluster, type: str) -> list[tuple[str, int, bool]]:
    """What member 1 says to this message."""
    cluster.network.clear()
    cluster.give(message(type, cluster))
    return [(said.type, said.target, said.reject) for said in cluster.network]


def is_stale(cluster: Cluster, type: str) -> None:
    before = view(cluster)
    assert cluster.give(message(type, cluster)) in ("STALE", "OK")
    assert view(cluster) == before and not cluster.network
    assert not cluster.nodes[1].reads


def follows(cluster: Cluster) -> None:
    status = cluster[1].status()
    assert (status.role, status.leader) == ("FOLLOWER", 2)


def takes_records(cluster: Cluster, type: str) -> None:
    assert gives(cluster, type) == [("APPEND_RESPONSE", 2, False)]
    follows(cluster)
    assert cluster[1].status().last == 2


def answers_round(cluster: Cluster, type: str) -> None:
    assert gives(cluster, type) == [("HEARTBEAT_RESPONSE", 2, False)]
    follows(cluster)


def waits_for_chunks(cluster: Cluster, type: str) -> None:
    assert gives(cluster, type) == []
    follows(cluster)


def is_impossible(cluster: Cluster, type: str) -> None:
    with pytest.raises(CoreBroken, match="INVARIANT_BROKEN"):
        cluster.give(message(type, cluster))


def advances_commit(cluster: Cluster, type: str) -> None:
    cluster.give(message(type, cluster))
    assert cluster[1].progress()[1].match == cluster[1].status().committed == 2


def confirms_round(cluster: Cluster, type: str) -> None:
    cluster.give(Message("APPEND_RESPONSE", 2, 1, 3, index=2))
    cluster.act(1, "read_index", 7)
    assert not cluster.nodes[1].reads
    asked = sent(cluster, "HEARTBEAT")[-1].context
    assert cluster.give(message(type, cluster)._replace(context=asked)) == "OK"
    assert [read.status for read in cluster.nodes[1].reads] == ["OK"]


def ends_snapshot(cluster: Cluster, type: str) -> None:
    installed = message(type, cluster)._replace(index=2)
    cluster.give(Message("APPEND_RESPONSE", 3, 1, 3, index=2))
    cluster.compact(1, 2)
    cluster.give(Message("APPEND_RESPONSE", 2, 1, 3, index=1, reject=True))
    assert cluster[1].progress()[1].state == "SNAPSHOT_WAIT"
    assert cluster.give(installed) == "OK"
    assert (cluster[1].progress()[1].state, cluster[1].progress()[1].match) == ("PROBE", 2)


def judges(cluster: Cluster, type: str) -> None:
    """Refused while a leader is heard, else by term, vote and log."""
    response = type + "_RESPONSE"
    if role(cluster) == "FOLLOWER":
        assert gives(cluster, type) in ([(response, 2, True)], [])
        cluster.tick(1, 9)  # less than its own time-out, which is 10 to 19 ticks
        cluster.act(1, "peer_event", "PEER_REFUSED", 2)
        asked = message(type, cluster)._replace(term=3)
    else:
        asked = message(type, cluster)._replace(term=cluster[1].status().term + 1)
    said = [(one.type, one.reject) for one in answers(cluster, asked)]
    assert said == [(response, False)]
    behind = asked._replace(source=3, index=0, log_term=0, term=cluster[1].status().term + 1)
    assert [(one.type, one.reject) for one in answers(cluster, behind)] == [(response, True)]


def refuses_vote(cluster: Cluster, type: str) -> None:
    said = answers(cluster, message(type, cluster)._replace(term=cluster[1].status().term))
    assert [(one.type, one.reject) for one in said] == [(type + "_RESPONSE", True)]
    assert cluster[1].status().vote == 1


def counts(cluster: Cluster, type: str) -> None:
    cluster.give(message(type, cluster))
    assert role(cluster) == {"PRE_VOTE_RESPONSE": "CANDIDATE", "VOTE_RESPONSE": "LEADER"}[type]


def campaigns(cluster: Cluster, type: str) -> None:
    assert [said[0] for said in gives(cluster, type)] == ["VOTE", "VOTE"]
    assert role(cluster) == "CANDIDATE"


def commits_and_tells(cluster: Cluster, type: str) -> None:
    cluster.give(Message("APPEND", 2, 1, 2, index=1, log_term=1))
    cluster.act(1, "read_index", 7)
    (asked,) = sent(cluster, "READ_INDEX")
    cluster.give(message(type, cluster)._replace(context=asked.context))
    assert [(read.context, read.index, read.status) for read in cluster.nodes[1].reads] == [(7, 1, "OK")]
    assert cluster[1].status().committed == 1


def hands_over(cluster: Cluster, type: str) -> None:
    cluster.give(message(type, cluster))
    assert cluster[1].status().transferring == 2


def refuses_as_no_leader(cluster: Cluster, type: str) -> None:
    before = view(cluster)
    assert gives(cluster, type) == [("READ_INDEX_RESPONSE" if type == "READ_INDEX" else "PROPOSE_RESPONSE", 2, True)]
    assert view(cluster) == before


def tells_refusal(cluster: Cluster, type: str) -> None:
    before = view(cluster)
    cluster.watcher = lambda node, ready: refusals.extend(ready.refusals)
    refusals: list[object] = []
    assert cluster.give(message(type, cluster)) == "OK"
    assert len(refusals) == 1 and view(cluster) == before


def appends(cluster: Cluster, type: str) -> None:
    last = cluster[1].status().last
    cluster.give(message(type, cluster))
    assert cluster[1].status().last == last + 1
    cluster.act(1, "transfer", 2)
    assert gives(cluster, type) == [("PROPOSE_RESPONSE", 2, True)]


def changes(cluster: Cluster, type: str) -> None:
    assert gives(cluster, type) == [("PROPOSE_RESPONSE", 2, True)]  # before its own commit
    cluster.give(Message("APPEND_RESPONSE", 2, 1, 3, index=2))
    cluster.give(message(type, cluster))
    assert cluster[1].membership().is_joint


def joins_round(cluster: Cluster, type: str) -> None:
    cluster.give(Message("APPEND_RESPONSE", 2, 1, 3, index=2))
    cluster.give(message(type, cluster))
    round_sent = sent(cluster, "HEARTBEAT")[-1].context
    said = answers(cluster, Message("HEARTBEAT_RESPONSE", 3, 1, 3, context=round_sent))
    assert [(one.type, one.target, one.term, one.index) for one in said if one.type != "APPEND"] == [
        ("READ_INDEX_RESPONSE", 2, 3, 2)
    ]


def gives_record(cluster: Cluster, type: str) -> None:
    assert gives(cluster, type) == [("ENTRY_RESPONSE", 2, False)]


def mends_nothing_sound(cluster: Cluster, type: str) -> None:
    """tests/core/testdata/repair_of_damaged_record.txt has a damaged one."""
    is_stale(cluster, type)


CELLS: dict[str, Callable[[Cluster, str], None]] = {
    "take records": takes_records,
    "follow, take": takes_records,
    "answer": answers_round,
    "follow, answer": answers_round,
    "wait for chunks": waits_for_chunks,
    "follow, wait": waits_for_chunks,
    "impossible (asserted)": is_impossible,
    "stale": is_stale,
    "ignore": is_stale,
    "of a member: stale": is_stale,
    "progress, commit": advances_commit,
    "round, progress": confirms_round,
    "progress": ends_snapshot,
    "judge": judges,
    "refuse": refuses_vote,
    "count": counts,
    "campaign at once": campaigns,
    "commit, tell": commits_and_tells,
    "hand over": hands_over,
    "refuse: NO_LEADER": refuses_as_no_leader,
    "tell the caller": tells_refusal,
    "append or refuse": appends,
    "join the next round": joins_round,
    "change or refuse": changes,
    "give the record": gives_record,
    "mend": mends_nothing_sound,
    "mend (never damaged itself: stale)": mends_nothing_sound,
}


def test_the_table_has_every_message() -> None:
    """raftmeta/raft/types.pxd MessageType: 22 types, and each is in one of the two tables of _core.pyx."""
    types = re.findall(r"^    ([A-Z_]+) = \d+", (CORE.parent / "raft" / "types.pxd").read_text(), re.MULTILINE)
    types = types[types.index("APPEND") : types.index("FEED_MEMBERSHIP") + 1]
    assert len(types) == 22
    assert set(TABLE) == set(types)


@pytest.mark.parametrize("wanted", ROLES)
@pytest.mark.parametrize("type", sorted(TABLE))
def test_each_role_meets_each_message_as_the_table_says(type: str, wanted: str) -> None:
    """_core.pyx: init, member 1 in the role; act, one message of its term; check, what the cell says."""
    CELLS[TABLE[type][wanted]](in_role(wanted), type)


# --- terms ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("type", [type for type in sorted(TABLE) if type not in TERMLESS + ASKED])
@pytest.mark.parametrize("wanted", ROLES)
def test_a_message_of_an_earlier_term_vouches_for_nothing(type: str, wanted: str) -> None:
    """Paper 5.1: requests of an old term are rejected, and an answer of one says nothing about this one."""
    cluster = in_role(wanted)
    late = message(type, cluster)._replace(term=1)
    before = view(cluster)
    assert cluster.give(late) == "STALE"
    assert view(cluster) == before and not cluster.network


@pytest.mark.parametrize("type", ["APPEND", "HEARTBEAT", "SNAPSHOT"])
@pytest.mark.parametrize("wanted", ROLES)
def test_a_leader_of_an_earlier_term_hears_of_this_one(type: str, wanted: str) -> None:
    """Paper 5.1: what a deposed leader sends changes nothing, and is refused with the term of now."""
    cluster = in_role(wanted)
    before = view(cluster)
    term = cluster[1].status().term
    (refusal,) = answers(cluster, message(type, cluster)._replace(term=1, records=b"", count=0))
    assert (refusal.type, refusal.reject, refusal.term) == ("APPEND_RESPONSE", True, term)
    assert view(cluster) == before


def test_a_read_index_of_another_term_commits_nothing() -> None:
    """thesis 6.4; docs/divergence.md "Reads".

    Init: member 1 follows 2 in term 2 and holds an uncommitted entry that 2 replicated. 2 is deposed, loses that entry
    and leads term 4. Act: 2 answers a read of member 1 with an index at or above that entry. Check: member 1 commits
    nothing, and follows the later term.
    """
    cluster = in_role("FOLLOWER")
    cluster.give(message("APPEND", cluster))
    assert cluster[1].status().last == 2 and cluster[1].status().committed == 0
    cluster.act(1, "read_index", 7)
    (asked,) = sent(cluster, "READ_INDEX")
    cluster.give(Message("READ_INDEX_RESPONSE", 2, 1, 4, index=5, context=asked.context))
    status = cluster[1].status()
    assert (status.committed, status.term, status.leader) == (0, 4, 0)
    assert [read.status for read in cluster.nodes[1].reads] == ["NO_LEADER"]


def test_a_read_index_of_one_who_does_not_lead_here_is_ignored() -> None:
    """Only the leader that a member follows knows how much of the member's log is its own."""
    cluster = in_role("FOLLOWER")
    cluster.give(message("APPEND", cluster))
    cluster.act(1, "read_index", 7)
    (asked,) = sent(cluster, "READ_INDEX")
    late = Message("READ_INDEX_RESPONSE", 3, 1, 2, index=2, context=asked.context)
    assert cluster.give(late) == "STALE"
    assert cluster[1].status().committed == 0 and not cluster.nodes[1].reads


def test_a_lie_about_a_read_index_commits_nothing_that_the_leader_did_not_send() -> None:
    """SECURITY.md A5: who speaks as the leader may commit what it sent too early, and no more.

    Init: member 1 holds an uncommitted entry from its leader. Act: an answer to no question says a far index, then an
    answer to a question does. Check: the commit index stays within the log; the read waits for that index, and is not
    answered by an earlier state.
    """
    cluster = in_role("FOLLOWER")
    cluster.give(message("APPEND", cluster))
    far = 1 << 62
    cluster.give(Message("READ_INDEX_RESPONSE", 2, 1, 2, index=far, context=9))
    assert cluster[1].status().committed <= cluster[1].status().last == 2
    cluster.act(1, "read_index", 7)
    (asked,) = sent(cluster, "READ_INDEX")
    cluster.give(Message("READ_INDEX_RESPONSE", 2, 1, 2, index=far, context=asked.context))
    assert cluster[1].status().committed <= cluster[1].status().last == 2
    assert [(read.status, read.index) for read in cluster.nodes[1].reads] == [("OK", far)]


def test_a_transfer_of_an_earlier_term_deposes_nobody() -> None:
    """thesis 3.10: a wish that was late on its way was meant for another leader, or for an earlier lead of this one."""
    cluster = led()
    cluster.act(3, "transfer", 2)
    (wish,) = sent(cluster, "TRANSFER")
    cluster.drop()
    cluster.elect(2)
    cluster.elect(1)
    assert cluster.give(wish) == "STALE"
    assert cluster[1].status().transferring == 0


# --- strangers --------------------------------------------------------------------------------------------------------


def led_alone() -> Cluster:
    """Member 1 leads term 3, with an own-term commit."""
    cluster = in_role("LEADER")
    cluster.give(Message("APPEND_RESPONSE", 2, 1, 3, index=2))
    assert cluster[1].status().committed == 2
    cluster.network.clear()
    return cluster


@pytest.mark.parametrize("type", ["PROPOSE", "MEMBERSHIP_PROPOSE", "READ_INDEX"])
def test_a_request_of_a_stranger_is_refused(type: str) -> None:
    """Who is not named is sent no log, so what it asked for would never show there: it must ask elsewhere."""
    cluster = led_alone()
    before = view(cluster)
    (refusal,) = answers(cluster, message(type, cluster)._replace(source=STRANGER, flags=0))
    assert refusal.target == STRANGER and refusal.reject
    assert refusal.type == ("READ_INDEX_RESPONSE" if type == "READ_INDEX" else "PROPOSE_RESPONSE")
    assert view(cluster) == before


def test_a_stranger_deposes_nobody() -> None:
    """thesis 3.10: only members may ask for a transfer."""
    cluster = led_alone()
    assert cluster.give(message("TRANSFER", cluster)._replace(source=STRANGER)) == "STALE"
    assert cluster[1].status().transferring == 0


@pytest.mark.parametrize("type", ["APPEND_RESPONSE", "HEARTBEAT_RESPONSE", "SNAPSHOT_RESPONSE"])
def test_an_answer_of_a_stranger_counts_for_nothing(type: str) -> None:
    """Paper 5.3: only members of the membership in force are counted."""
    cluster = in_role("LEADER")
    before = view(cluster)
    assert cluster.give(message(type, cluster)._replace(source=STRANGER)) == "STALE"
    assert view(cluster) == before


@pytest.mark.parametrize(("type", "wanted"), [("VOTE_RESPONSE", "CANDIDATE"), ("PRE_VOTE_RESPONSE", "PRE_CANDIDATE")])
def test_a_vote_of_a_stranger_counts_for_nothing(type: str, wanted: str) -> None:
    """Paper 5.2: a majority of the members."""
    cluster = in_role(wanted)
    assert cluster.give(message(type, cluster)._replace(source=STRANGER)) == "STALE"
    assert role(cluster) == wanted


def test_an_order_to_campaign_comes_from_the_leader_alone() -> None:
    """thesis 3.10: neither from a stranger nor from another member."""
    cluster = in_role("FOLLOWER")
    for source in (3, STRANGER):
        assert cluster.give(message("TIMEOUT_NOW", cluster)._replace(source=source)) == "STALE"
    assert role(cluster) == "FOLLOWER"


def test_a_record_for_repair_proves_itself() -> None:
    """docs/divergence.md "Repair": anybody may ask and answer, for the chain hash names exactly one record."""
    cluster = in_role("LEADER")
    asked = message("ENTRY_REQUEST", cluster)
    (given,) = answers(cluster, asked._replace(source=STRANGER))
    assert (given.type, given.target, given.reject) == ("ENTRY_RESPONSE", STRANGER, False)
    assert answers(cluster, asked._replace(context=asked.context ^ 1))[0].reject


def test_a_change_names_the_membership_it_was_made_from() -> None:
    """docs/divergence.md "Membership": one that is not in force any more, or not yet, is refused."""
    cluster = led_alone()
    other = message("MEMBERSHIP_PROPOSE", cluster)._replace(index=1)
    (refusal,) = answers(cluster, other)
    assert refusal.reject and not cluster[1].membership().is_joint


def test_an_answer_serves_reads_asked_before_it_only() -> None:
    """thesis 6.4: a read that came after READ_INDEX left is not served by its answer."""
    cluster = in_role("FOLLOWER")
    cluster.give(Message("APPEND", 2, 1, 2, index=1, log_term=1))
    cluster.act(1, "read_index", 7)
    (first,) = sent(cluster, "READ_INDEX")
    cluster.act(1, "read_index", 8)
    cluster.give(Message("READ_INDEX_RESPONSE", 2, 1, 2, index=1, context=first.context))
    assert [read.context for read in cluster.nodes[1].reads] == [7]


def test_an_answer_to_a_round_serves_reads_of_that_round_only() -> None:
    """thesis 6.4: a read that came after a round was sent waits for the next one."""
    cluster = led_alone()
    cluster.act(1, "read_index", 7)
    first = sent(cluster, "HEARTBEAT")[-1].context
    cluster.act(1, "read_index", 8)
    cluster.give(Message("HEARTBEAT_RESPONSE", 2, 1, 3, context=first))
    assert [read.context for read in cluster.nodes[1].reads] == [7]


def test_records_of_an_earlier_term_are_not_sent_in_this_one() -> None:
    """Paper 5.3: a read of the log file that began before the tail was cut says nothing about the log of now.

    Init: member 1 leads term 3, its entries of term 1 are on the disk alone, and it reads them for member 2. Act: the
    read brings entries of term 2, which stood there once. Check: nothing of them is sent; the file is read again.
    """
    reads: list[LogRead] = []
    cluster = Cluster()
    cluster.add_with_log(1, (1, 2, 3), (1, 1), term=2, log_memory_bytes_max=0)
    cluster.nodes[1].disk.hard_state = HardState(2, 0, 2)
    cluster.answer_log_reads = lambda node, log_reads: reads.extend(log_reads)  # type: ignore[method-assign]
    cluster.start(1)
    (for_apply,) = reads
    expected = cluster.nodes[1].disk.records[1] + cluster.nodes[1].disk.records[2]
    cluster.act(1, "log_read", for_apply, expected)
    cluster.act(1, "campaign")
    cluster.give(Message("PRE_VOTE_RESPONSE", 2, 1, 3))
    cluster.give(Message("VOTE_RESPONSE", 2, 1, 3))
    assert role(cluster) == "LEADER"
    cluster.give(Message("APPEND_RESPONSE", 2, 1, 3, index=2, reject=True))
    asked = reads[-1]
    assert (asked.peer, asked.first) == (2, 1)
    cluster.network.clear()
    assert cluster.act(1, "log_read", asked, make_records([(2, b"x"), (2, b"y")])) == "STALE"
    assert not sent(cluster, "APPEND")
    assert reads[-1] == asked and len(reads) == 3
    assert cluster.act(1, "log_read", asked, expected) == "OK"
    assert [append.count for append in sent(cluster, "APPEND")] == [2]
