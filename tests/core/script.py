"""The vocabulary of tests/core/testdata: one command per line, driving a Cluster; what happened comes back as lines.

    add-nodes 3 learners=1 option=value     members 1 to 4, the last one a learner; options are those of CoreHandle
    add-node 5                              one more process that no membership names yet
    new-node 1 of=1,2,3 log=1,1,4 term=6 vote=2    a member whose disk holds entries of these terms; then: start
    campaign 1 | elect 1 | tick 1 2 | wait all 10 | live 12 | beat 1
    propose 1 a b urgent waiting | read 1 7 | transfer 1 2 | change-membership 1 voters=1,2,4 learners=3,5:n2
    messages | deliver | deliver 1>2 >3 APPEND | drop 1>2 | duplicate 1>2 | reverse 1>2 | settle
    partition 1,2 3 | heal | peer 1 PEER_REFUSED 2
    slow-disk 1 | fast-disk 1 | persist 1 | crash 1 | start 1 | damage 1 3 | free-bytes 1 100
    compact 1 5 | send-snapshot 1 3 | fail-snapshot 1 3
    status | log 2 | progress 1 | applied 2 | membership 1 | lease-clock 1

`live` is ticks of everybody with all messages delivered, `wait` is ticks alone. These two, `settle` and `beat` tell
decisions and reads only, `elect` its result; all others also tell messages and applied entries. "--" stands before a
message that is delivered.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.core.cluster import NO_LIMIT, Cluster, Node
from tests.core.names import Status, StepDownReason, VoteRefusal
from tests.faces.core import (
    LEARNER,
    VOTER,
    Entry,
    Member,
    Membership,
    Message,
    Ready,
    Trace,
    Write,
    read_records,
)

QUIET = ("settle", "elect", "beat", "wait", "live")
DECISIONS = {
    "BECAME_FOLLOWER": "becomes follower{of_leader} in term {term}",
    "BECAME_PRE_CANDIDATE": "becomes pre-candidate in term {term}",
    "BECAME_CANDIDATE": "becomes candidate in term {term}",
    "BECAME_LEADER": "becomes leader in term {term}",
    "COMMITTED": "commits up to {a}",
    "TRUNCATED": "removes entries {a} to {b}",
    "MEMBERSHIP": "has the membership of entry {a} in force",
    "VOTE_REFUSED": "refuses {a} its vote: {refusal}",
    "TRANSFER": "hands leadership to {a}",
    "SNAPSHOT_NEEDED": "says that {a} needs a snapshot",
    "STEPPED_DOWN": "steps down: {reason}",
    "REPAIR": "repairs entry {a} with the record of {b}",
    "TRANSFER_ABORTED": "gives up the transfer to {a}",
    "PROMOTED": "promotes {a}",
    "LEADER_LOST": "takes leader {a} for gone",
    "READS_VOID": "voids {a} reads",
}


class Script:
    """One cluster and the lines it has told since the last command."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.is_quiet = False
        self.cluster = Cluster(self.watch)

    def run(self, command: str) -> list[str]:
        """Carry out one command and return what it told."""
        verb, *words = command.split()
        options = dict(word.split("=", 1) for word in words if "=" in word)
        words = [word for word in words if "=" not in word]
        self.told, self.is_quiet = [], verb in QUIET
        handler: Callable[..., None] = getattr(self, "do_" + verb.replace("-", "_"))
        handler(*words, **{name.replace("-", "_"): value for name, value in options.items()})
        return self.told or ["ok"]

    # --- what cores tell ----------------------------------------------------------------------------------------------

    def watch(self, node: Node, ready: Ready) -> None:
        tell = self.told.append
        for trace in ready.traces:
            tell(f"{node.id} {describe_trace(trace)}")
        if node.is_slow and ready.write is not None:
            tell(f"{node.id} begins {describe_write(ready.write)}")
        for read in ready.reads:
            tell(f"{node.id} read {read.context}: " + (f"at {read.index}" if read.status == "OK" else read.status))
        for refusal in ready.refusals:
            tell(f"{node.id} proposal {refusal.context}: {refusal.status}")
        if self.is_quiet:
            return
        if ready.apply is not None:
            tell(f"{node.id} applies {describe_entries(read_records(ready.apply.records))}")
        for message in ready.messages:
            tell(describe_message(message))

    def tell_status(self, status: str) -> None:
        if status != "OK":
            self.told.append(status)

    # --- members ------------------------------------------------------------------------------------------------------

    def do_add_nodes(self, count: str, learners: str = "0", **options: str) -> None:
        voters = int(count)
        self.cluster.add(range(1, voters + 1), range(voters + 1, voters + int(learners) + 1), **numbers(options))

    def do_add_node(self, member_id: str, **options: str) -> None:
        self.cluster.add_blank(int(member_id), **numbers(options))

    def do_new_node(
        self, member_id: str, of: str, log: str = "", term: str = "0", vote: str = "0", **options: str
    ) -> None:
        self.cluster.add_with_log(int(member_id), ids(of), ids(log), term=int(term), vote=int(vote), **numbers(options))

    def do_start(self, *member_ids: str) -> None:
        for member_id in self.chosen(member_ids):
            self.cluster.start(member_id)

    def do_crash(self, *member_ids: str) -> None:
        for member_id in self.chosen(member_ids):
            self.cluster.crash(member_id)

    def chosen(self, words: tuple[str, ...]) -> list[int]:
        return [int(word) for word in words] if words and words != ("all",) else list(self.cluster.nodes)

    # --- inputs of one core -------------------------------------------------------------------------------------------

    def do_campaign(self, member_id: str) -> None:
        self.tell_status(self.cluster.act(int(member_id), "campaign"))

    def do_elect(self, member_id: str) -> None:
        self.cluster.elect(int(member_id))
        self.told = [f"{member_id} leads term {self.cluster[int(member_id)].status().term}"]

    def do_tick(self, member_id: str, count: str = "1") -> None:
        for _ in range(int(count)):
            for node in self.cluster.running if member_id == "all" else [self.cluster.nodes[int(member_id)]]:
                self.cluster.tick(node.id)

    def do_wait(self, member_id: str, count: str) -> None:
        self.do_tick(member_id, count)

    def do_live(self, ticks: str) -> None:
        for _ in range(int(ticks)):
            self.cluster.tick_all()
            self.cluster.settle()

    def do_beat(self, leader: str) -> None:
        self.cluster.beat(int(leader))

    def do_propose(self, member_id: str, *words: str, context: str = "0") -> None:
        payloads = [word.encode() for word in words if word not in ("urgent", "waiting")]
        status = self.cluster.act(
            int(member_id),
            "propose",
            payloads,
            context=int(context),
            is_urgent="urgent" in words,
            is_waiting="waiting" in words,
        )
        self.tell_status(status)

    def do_read(self, member_id: str, context: str) -> None:
        self.tell_status(self.cluster.act(int(member_id), "read_index", int(context)))

    def do_transfer(self, member_id: str, target: str = "0") -> None:
        self.tell_status(self.cluster.act(int(member_id), "transfer", int(target)))

    def do_change_membership(self, member_id: str, voters: str, learners: str = "") -> None:
        membership = Membership(tuple(members(voters, VOTER) + members(learners, LEARNER)))
        self.tell_status(self.cluster.act(int(member_id), "change_membership", membership))

    def do_peer(self, member_id: str, event: str, peer: str = "0") -> None:
        self.tell_status(self.cluster.act(int(member_id), "peer_event", event, int(peer)))

    def do_free_bytes(self, member_id: str, free_bytes: str) -> None:
        self.cluster[int(member_id)].set_free_bytes(int(free_bytes))
        self.cluster.run(self.cluster.nodes[int(member_id)])

    # --- network ------------------------------------------------------------------------------------------------------

    def do_messages(self, *filters: str) -> None:
        under_way = [message for message in self.cluster.network if matches(message, filters)]
        self.told += [describe_message(message) for message in under_way] or ["none"]

    def do_deliver(self, *filters: str) -> None:
        for message in [message for message in self.cluster.network if matches(message, filters)]:
            self.cluster.network.remove(message)
            self.told.append(f"-- {describe_message(message)}")
            status = self.cluster.give(message)
            if status != "OK":
                self.told.append(f"{message.target} {status}" if status != "LOST" else "lost")

    def do_drop(self, *filters: str) -> None:
        self.cluster.drop(lambda message: matches(message, filters))

    def do_duplicate(self, *filters: str) -> None:
        self.cluster.network += [message for message in self.cluster.network if matches(message, filters)]

    def do_reverse(self, *filters: str) -> None:
        chosen = [message for message in self.cluster.network if matches(message, filters)]
        self.cluster.drop(lambda message: matches(message, filters))
        self.cluster.network += reversed(chosen)

    def do_settle(self) -> None:
        self.cluster.settle()

    def do_partition(self, *sides: str) -> None:
        self.cluster.partition(*(ids(side) for side in sides))

    def do_heal(self) -> None:
        self.cluster.heal()

    # --- disks --------------------------------------------------------------------------------------------------------

    def do_slow_disk(self, member_id: str) -> None:
        self.cluster.nodes[int(member_id)].is_slow = True

    def do_fast_disk(self, member_id: str) -> None:
        node = self.cluster.nodes[int(member_id)]
        node.is_slow = False
        self.cluster.finish_writes(node)
        self.cluster.run(node)

    def do_persist(self, member_id: str) -> None:
        self.cluster.persist(int(member_id))

    def do_damage(self, member_id: str, index: str) -> None:
        self.cluster.damage(int(member_id), int(index))

    def do_compact(self, member_id: str, index: str) -> None:
        self.tell_status(self.cluster.compact(int(member_id), int(index)))

    def do_send_snapshot(self, source: str, target: str) -> None:
        self.cluster.send_snapshot(int(source), int(target))

    def do_fail_snapshot(self, source: str, target: str) -> None:
        self.tell_status(self.cluster.act(int(source), "peer_event", "PEER_SNAPSHOT_FAILED", int(target)))

    # --- looking ------------------------------------------------------------------------------------------------------

    def do_status(self, *member_ids: str) -> None:
        for member_id in self.chosen(member_ids):
            node = self.cluster.nodes[member_id]
            if node.core is None:
                self.told.append(f"{member_id} down")
                continue
            status = node.core.status()
            self.told.append(
                f"{member_id} {status.role.lower().replace('_', '-')} term={status.term} vote={status.vote}"
                f" leader={status.leader} committed={status.committed} last={status.last}/{status.last_term}"
            )

    def do_log(self, member_id: str) -> None:
        self.told.append(describe_entries(self.cluster[int(member_id)].log()))

    def do_applied(self, member_id: str) -> None:
        self.told.append(describe_entries(self.cluster.nodes[int(member_id)].applied))

    def do_lease_clock(self, member_id: str) -> None:
        self.told.append(f"{self.cluster[int(member_id)].status().lease_ms} ms")

    def do_progress(self, member_id: str) -> None:
        for view in self.cluster[int(member_id)].progress():
            if view.id != int(member_id):
                line = f"{view.id} {view.state.lower().replace('_', '-')} match={view.match} next={view.next}"
                self.told.append(line + (f" inflight={view.inflight_count}" if view.inflight_count else ""))

    def do_membership(self, member_id: str) -> None:
        membership = self.cluster[int(member_id)].membership()
        roles = {1: "voter", 2: "leaving", 3: "voter", 4: "learner", 10: "learner next"}
        if membership.is_joint:
            roles.update({1: "entering"})
        members = ", ".join(f"{member.id} {roles[member.roles]}" for member in membership.members)
        self.told.append(f"{'joint: ' if membership.is_joint else ''}{members}")


# --- words ------------------------------------------------------------------------------------------------------------


def ids(text: str) -> list[int]:
    return [int(word) for word in text.split(",") if word]


def members(text: str, roles: int) -> list[Member]:
    """Members named as "4" or, for a new incarnation of the node n3, "4:n3"."""
    parts = [word.partition(":") for word in text.split(",") if word]
    return [Member(int(member_id), roles, name) for member_id, _, name in parts]


def numbers(options: dict[str, str]) -> dict[str, object]:
    return {name: int(value) for name, value in options.items()}


def matches(message: Message, filters: tuple[str, ...]) -> bool:
    """Does one of the words 1>2, 1>, >2 name this message's link, or APPEND its type? No word: every message."""
    words = [word for word in filters if ">" not in word]
    links = [word for word in filters if ">" in word]
    link = f"{message.source}>{message.target}"
    is_link = any(link == word or link.startswith(word) or link.endswith(word) for word in links)
    return (not words or message.type in words) and (not links or is_link)


def describe_entry(entry: Entry) -> str:
    text = {"NOOP": "noop", "MEMBERSHIP": "membership"}.get(entry.type) or entry.payload.decode()
    return f"{entry.index}/{entry.term} {text}"


def describe_entries(entries: list[Entry]) -> str:
    return ", ".join(describe_entry(entry) for entry in entries) or "nothing"


def describe_message(message: Message) -> str:
    """One line: link, type, and the fields that this type uses (raft/types.pxd)."""
    words = [f"{message.source}>{message.target} {message.type}"]
    if message.term:
        words.append(f"term={message.term}")
    words += describe_position(message)
    if message.context:
        words.append(f"context={message.context}")
    if message.commit or message.type == "APPEND":
        words.append(f"commit={message.commit}")
    if message.free_bytes not in (0, NO_LIMIT):
        words.append(f"free={message.free_bytes}")
    for bit, word in ((1, "transfer"), (2, "waiting"), (4, "repairing"), (8, "urgent")):
        if message.flags & bit:
            words.append(word)
    return " ".join(words)


def describe_position(message: Message) -> list[str]:
    at = f"{message.index}/{message.log_term}"
    if message.type == "APPEND":
        entries = describe_entries(read_records(message.records))
        return [f"after={at}", f"[{entries}]"]
    if message.type == "APPEND_RESPONSE":
        if message.reject:
            return ["refused", f"at={message.index}", f"try={message.hint}/{message.log_term}"]
        return [f"match={message.index}"]
    if message.type in ("PROPOSE", "MEMBERSHIP_PROPOSE"):
        return [f"count={message.count}"]
    words = ["refused"] if message.reject else []
    if message.type == "PROPOSE_RESPONSE":
        words.append(Status(message.hint).name)
    elif message.type in ("VOTE", "PRE_VOTE", "SNAPSHOT"):
        words.append(f"{'point' if message.type == 'SNAPSHOT' else 'last'}={at}")
    elif message.index:
        words.append(f"index={message.index}")
    return words


def describe_trace(trace: Trace) -> str:
    facts: dict[str, object] = {"term": trace.term, "a": trace.a, "b": trace.b}
    facts["of_leader"] = f" of {trace.a}" if trace.a else ""
    if trace.type == "VOTE_REFUSED":
        facts["refusal"] = in_words(VoteRefusal(trace.b).name.removeprefix("REFUSED_"))
    if trace.type == "STEPPED_DOWN":
        facts["reason"] = in_words(StepDownReason(trace.a).name.removeprefix("STEPPED_DOWN_"))
    return DECISIONS[trace.type].format(**facts)


def describe_write(write: Write) -> str:
    words = [f"write #{write.id}:"]
    if write.hard_state is not None:
        words.append(f"term={write.hard_state.term} vote={write.hard_state.vote}")
    if write.first <= write.last:
        words.append(f"[{describe_entries(read_records(write.records))}]")
    if write.truncates:
        words.append("over older ones")
    return " ".join(words)


def in_words(name: str) -> str:
    return name.lower().replace("_", " ")
