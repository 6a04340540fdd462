"""What paper Figure 2 says each message does, as plainly as Python can say it: a witness beside the real core.

For every member the model keeps a log and a commit index of its own and works them out from the messages alone; time,
disks, batches, windows and chunks do not exist here. Whatever Raft leaves open (who campaigns when, who is asked for a
vote, what is sent in which message) it takes from the core and only judges: was this allowed?
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.core.cluster import Node, electorates
from tests.faces.core import CoreStatus, Entry, Message, read_records

Item = tuple[int, str, bytes]
"""An entry without its place: term, type, payload."""


@dataclass
class ModelMember:
    term: int = 0
    vote: int = 0
    role: str = "FOLLOWER"
    log: list[Item] = field(default_factory=list)
    commit: int = 0
    matched: int = 0
    acknowledged: dict[int, int] = field(default_factory=dict)

    def term_at(self, index: int) -> int:
        return self.log[index - 1][0] if 0 < index <= len(self.log) else 0

    def last(self) -> tuple[int, int]:
        """Last term and length: the order in which logs are more or less up to date (paper 5.4.1)."""
        return self.term_at(len(self.log)), len(self.log)


class RaftModel:
    def __init__(self) -> None:
        self.members: dict[int, ModelMember] = {}
        self.votes: dict[int, dict[int, int]] = {}
        self.truth: list[Item] = []

    # --- what a core was told -----------------------------------------------------------------------------------------

    def observe(self, node: Node, verb: str, arguments: tuple[object, ...], status: str) -> None:
        assert node.core is not None
        member = self.members[node.id]
        now = node.core.status()
        message = arguments[0] if verb == "step" and status == "OK" else None
        self.judge_term(node, member, now, message)
        if isinstance(message, Message) and message.term in (0, now.term):
            self.receive(member, message, now.compacted)
        if verb == "snapshot_installed" and status == "OK":
            self.install(member, node, arguments[0].index)
        self.lead(node, member, now, is_counted=verb == "persisted" or isinstance(message, Message))
        self.compare(node, member, now)

    def restart(self, node: Node) -> None:
        """Only the disk is left; the commit index on it is a hint that may only be too small."""
        assert node.core is not None
        status = node.core.status()
        disk = node.disk
        log = self.truth[: disk.point.index] + [item(disk.entry(i)) for i in range(disk.point.index + 1, disk.last + 1)]
        self.members[node.id] = ModelMember(status.term, status.vote, "FOLLOWER", log, status.committed)
        self.compare(node, self.members[node.id], status)

    # --- terms and votes (paper 5.1, 5.2, 5.4.1) ----------------------------------------------------------------------

    def judge_term(self, node: Node, member: ModelMember, now: CoreStatus, message: object) -> None:
        assert now.term >= member.term
        if now.term > member.term:
            member.matched = 0
        is_vote = isinstance(message, Message) and message.type == "VOTE" and now.term == message.term
        if is_vote and now.vote == message.source and (now.term, now.vote) != (member.term, member.vote):
            assert (message.log_term, message.index) >= member.last(), "a vote for an older log"
        member.term, member.vote = now.term, now.vote
        durable = node.disk.hard_state
        if durable.vote:
            votes = self.votes.setdefault(durable.term, {})
            assert votes.setdefault(node.id, durable.vote) == durable.vote, "two votes in one term"

    def judge_leader(self, node: Node, now: CoreStatus) -> None:
        assert node.core is not None
        voters = {voter for voter, candidate in self.votes[now.term].items() if candidate == node.id}
        for electorate in electorates(node.core.membership()):
            assert 2 * len(voters & electorate) > len(electorate), "a leader without a majority"

    # --- messages (paper 5.3) -----------------------------------------------------------------------------------------

    def receive(self, member: ModelMember, message: Message, compacted: int) -> None:
        if message.type == "APPEND":
            # What begins before a snapshot is answered and not taken: it comes again from behind it.
            if message.index >= compacted:
                self.append(member, message)
        elif message.type == "HEARTBEAT":
            member.commit = max(member.commit, min(message.commit, member.matched))
        elif message.type == "READ_INDEX_RESPONSE" and not message.reject:
            member.commit = max(member.commit, min(message.index, member.matched))
        elif message.type in ("APPEND_RESPONSE", "SNAPSHOT_RESPONSE") and not message.reject:
            index = max(member.acknowledged.get(message.source, 0), message.index)
            member.acknowledged[message.source] = index

    def append(self, member: ModelMember, message: Message) -> None:
        if message.index > len(member.log) or (
            member.term_at(message.index) != message.log_term and message.index > member.commit
        ):
            return
        index = message.index
        for entry in read_records(message.records):
            index += 1
            if member.term_at(index) != entry.term:
                assert index > member.commit, "a committed entry would be removed"
                del member.log[index - 1 :]
                member.log.append(item(entry))
        member.matched = max(member.matched, index)
        member.commit = max(member.commit, min(message.commit, index))

    def install(self, member: ModelMember, node: Node, index: int) -> None:
        assert node.core is not None
        kept = member.log[index:] if node.core.status().last > index else []
        member.log = self.truth[:index] + kept
        member.commit = max(member.commit, index)

    # --- leading (paper 5.4.2) ----------------------------------------------------------------------------------------

    def lead(self, node: Node, member: ModelMember, now: CoreStatus, *, is_counted: bool) -> None:
        assert node.core is not None
        was_leader, member.role = member.role == "LEADER", now.role
        if now.role != "LEADER" and not was_leader:
            return
        if not was_leader:
            self.judge_leader(node, now)
            member.acknowledged = {}
        entries = [item(entry) for entry in node.core.log()]
        first = now.last - len(entries)
        for entry in entries[len(member.log) - first :]:
            assert entry[0] == now.term or not was_leader, "a leader appends only in its own term"
            member.log.append(entry)
        if now.role != "LEADER":
            member.commit = max(member.commit, now.committed)
            return
        counted = self.count(node, member)
        assert now.committed <= max(member.commit, counted), "committed without a majority"
        assert now.committed >= member.commit
        if is_counted and not node.core.membership().is_joint:
            assert now.committed == max(member.commit, counted), "a majority has it, and it is not committed"
        member.commit = now.committed

    def count(self, node: Node, member: ModelMember) -> int:
        """The last entry of its own term that a majority of each electorate holds on disk; 0: none."""
        assert node.core is not None
        durable = 0
        while durable < len(member.log) and self.is_on_disk(node, member, durable + 1):
            durable += 1
        matches = {**member.acknowledged, node.id: durable}
        for index in range(len(member.log), member.commit, -1):
            holders = {holder for holder, match in matches.items() if match >= index}
            is_majority = all(2 * len(holders & voters) > len(voters) for voters in electorates(node.core.membership()))
            if is_majority and member.term_at(index) == member.term:
                return index
        return 0

    def is_on_disk(self, node: Node, member: ModelMember, index: int) -> bool:
        if index <= node.disk.point.index:
            return True
        entry = node.disk.entry(index)
        return entry is not None and item(entry) == member.log[index - 1]

    # --- the comparison -----------------------------------------------------------------------------------------------

    def compare(self, node: Node, member: ModelMember, now: CoreStatus) -> None:
        assert node.core is not None
        entries = [item(entry) for entry in node.core.log()]
        assert now.last == len(member.log)
        assert entries == member.log[now.last - len(entries) :], "the logs differ"
        assert now.committed == member.commit, "the commit indexes differ"
        committed = member.log[: member.commit]
        self.truth += committed[len(self.truth) :]
        assert committed == self.truth[: member.commit], "two members committed different entries"
        assert [item(entry) for entry in node.applied] == self.truth[: len(node.applied)]


def item(entry: Entry | None) -> Item:
    assert entry is not None
    return entry.term, entry.type, entry.payload
