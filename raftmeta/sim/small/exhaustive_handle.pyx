"""All histories of a small world from Python: bounds in, the first violation or the proof that there is none out."""

from __future__ import annotations

from libc.stdint cimport uint32_t
from libc.string cimport memset

from raftmeta.native.containers cimport Vec
from raftmeta.raft.types cimport LEARNER, VOTER_INCOMING, Member, Membership, Message
from raftmeta.sim.small.exhaustive cimport exhaustive_create, exhaustive_destroy, exhaustive_path, exhaustive_run
from raftmeta.sim.small.exhaustive_state cimport (ACT_CHANGE, ACT_CRASH, ACT_CRASH_AFTER_WRITE, ACT_DELIVER,
                                                  ACT_HEARTBEAT, ACT_PERSIST, ACT_PROPOSE, ACT_TIME_OUT,
                                                  SMALL_NODES_MAX, SmallConfig)
from raftmeta.sim.small.node cimport SMALL_BEGINNING_MAX, SMALL_STOPPED, SmallBeginning

INVARIANTS = {
    1: "I1 election safety",
    2: "I2 log matching",
    3: "I3 leader completeness",
    4: "I4 state machine safety",
    5: "I5 acknowledged before durable",
    6: "I6 term or vote said before durable",
    7: "I7 committed without a durable quorum",
    9: "I9 a pointer went backwards",
    10: "I10 membership",
    100: "a node stopped itself",
    101: "no memory",
}
MARKS = (
    "", "became_follower", "became_pre_candidate", "became_candidate", "became_leader", "committed", "truncated",
    "membership", "vote_refused", "transfer", "snapshot_needed", "stepped_down", "repair", "transfer_aborted",
    "promoted", "leader_lost", "reads_void",
)
_ROLES = {"v": VOTER_INCOMING, "l": LEARNER, "-": 0}
_ACTIONS = {
    <int>ACT_TIME_OUT: "time-out of {node}",
    <int>ACT_PERSIST: "{node} finishes its write",
    <int>ACT_PROPOSE: "proposal at {node}",
    <int>ACT_HEARTBEAT: "heartbeat of {node}",
    <int>ACT_CHANGE: "{node} begins the change of membership",
    <int>ACT_CRASH: "{node} crashes and returns",
    <int>ACT_CRASH_AFTER_WRITE: "{node} crashes after its write, and returns",
}
_MESSAGES = (
    "", "APPEND", "APPEND_RESPONSE", "HEARTBEAT", "HEARTBEAT_RESPONSE", "PRE_VOTE", "PRE_VOTE_RESPONSE", "VOTE",
    "VOTE_RESPONSE", "PROPOSE", "PROPOSE_RESPONSE", "READ_INDEX", "READ_INDEX_RESPONSE", "SNAPSHOT",
    "SNAPSHOT_RESPONSE", "TRANSFER", "TIMEOUT_NOW", "ENTRY_REQUEST", "ENTRY_RESPONSE", "MEMBERSHIP_PROPOSE",
)
_BOUND_MOST = {"time_outs": 6, "proposals": 3, "heartbeats": 3, "crashes": 3, "changes": 2}


cdef _set_membership(Membership* membership, str roles):
    cdef Member* member
    if not 1 <= len(roles) <= SMALL_NODES_MAX or set(roles) - set(_ROLES) or "v" not in roles:
        raise ValueError(f"members must be 1 to {SMALL_NODES_MAX} of v (voter), l (learner), - (none), not {roles!r}")
    memset(membership, 0, sizeof(Membership))
    for position, role in enumerate(roles):
        if role == "-":
            continue
        member = &membership.members[membership.count]
        member.id = position + 1
        member.roles = _ROLES[role]
        member.name_length = 1
        member.name[0] = 97 + position
        membership.count += 1


cdef _set_beginning(SmallBeginning* beginning, str log, str last_term):
    if len(log) > SMALL_BEGINNING_MAX or sorted(log) != list(log) or set(log) - set("12345"):
        raise ValueError(f"a log is up to {SMALL_BEGINNING_MAX} digits, terms 1 to 5 that do not fall, not {log!r}")
    beginning.length = len(log)
    for position, term in enumerate(log):
        beginning.log_terms[position] = int(term)
    beginning.term = int(last_term)


cdef str _message_text(const Message* message):
    text = f"{_MESSAGES[message.type]} of term {message.term}, {_name(message.source)} to {_name(message.target)}"
    if message.index or message.count:
        text += f", index {message.index}"
    if message.count:
        text += f" and {message.count} more"
    if message.commit:
        text += f", commit {message.commit}"
    return text + (", refused" if message.reject else "")


def _name(member: int) -> str:
    return "abcde"[member - 1]


cdef class Exhaustive:
    """A small world and the search through its states."""

    def __cinit__(self, founding: str = "vvv", *, target: str = "", time_outs: int = 2, proposals: int = 1,
                  heartbeats: int = 0, crashes: int = 1, changes: int = 0, logs: tuple[str, ...] = (),
                  has_pre_votes: bool = False, has_heartbeats: bool = False,
                  has_slow_disks: bool = True, is_plain: bool = False):
        cdef SmallConfig config
        target = target or founding
        memset(&config, 0, sizeof(config))
        if len(target) != len(founding):
            raise ValueError(f"target must say the role of each of the {len(founding)} nodes, not {target!r}")
        config.nodes = len(founding)
        _set_membership(&config.founding, founding)
        _set_membership(&config.target, target)
        if logs and len(logs) != len(founding):
            raise ValueError(f"logs must name one log for each of the {len(founding)} nodes, not {logs!r}")
        logs = logs or ("",) * len(founding)
        for position, log in enumerate(logs):
            _set_beginning(&config.beginnings[position], log, max("".join(logs), default="0"))
        kinds = list(zip(founding, target, logs))
        for position, kind in enumerate(kinds):
            config.kinds[position] = kinds.index(kind)
        bounds = {"time_outs": time_outs, "proposals": proposals, "heartbeats": heartbeats, "crashes": crashes,
                  "changes": changes}
        for name, bound in bounds.items():
            if not 0 <= bound <= _BOUND_MOST[name]:
                raise ValueError(f"{name} must be 0 to {_BOUND_MOST[name]}, not {bound}")
        if heartbeats and not has_heartbeats:
            raise ValueError("heartbeats are counted only with has_heartbeats=True")
        config.bounds = [time_outs, proposals, heartbeats, crashes, changes]
        config.has_pre_votes = has_pre_votes
        config.has_heartbeats = has_heartbeats
        config.has_slow_disks = has_slow_disks
        config.is_plain = is_plain
        self.native = exhaustive_create(&config)
        if self.native == NULL:
            raise ValueError("more than 8 terms or 15 entries could come: lower the bounds")

    def __dealloc__(self):
        exhaustive_destroy(self.native)

    def run(self, states: int) -> int:
        """Take up to `states` more states without the GIL; return how many. 0: none is left, or one is a violation."""
        cdef uint32_t most = states
        cdef uint32_t done
        with nogil:
            done = exhaustive_run(self.native, most)
        return done

    @property
    def violation(self) -> str | None:
        """The first invariant that did not hold; None: all held in what was taken."""
        if self.native.violation == <uint32_t>SMALL_STOPPED:
            return f"{INVARIANTS[self.native.violation]}: b={self.native.broken}"
        return INVARIANTS[self.native.violation] if self.native.violation else None

    def path(self) -> list[str]:
        """A short history that leads to the violation, one action a line; empty when there is none."""
        cdef Vec[uint32_t] actions
        cdef uint32_t number
        if not self.native.violation:
            return []
        memset(&actions, 0, sizeof(actions))
        lines = []
        try:
            if not exhaustive_path(self.native, self.native.violated_by, &actions):
                raise MemoryError
            for i in range(actions.size):
                number = actions.data[i] & 0x0FFFFFFF
                if actions.data[i] >> 28 == <uint32_t>ACT_DELIVER:
                    lines.append(_message_text(&self.native.messages.data[number]))
                else:
                    lines.append(_ACTIONS[actions.data[i] >> 28].format(node=_name(number + 1)))
        finally:
            actions.release()
        return lines

    @property
    def counts(self) -> dict[str, int]:
        """How far the search is."""
        return {
            "found": self.native.states.size,
            "covered": self.native.covered,
            "shapes": self.native.shapes.size,
            "taken": self.native.taken,
            "transitions": self.native.transitions,
            "depth": self.native.depth,
            "nodes": self.native.nodes.size - 1,
            "messages": self.native.messages.size - 1,
            "entries": self.native.entries.size - 1,
            "steps": self.native.steps.size,
        }

    @property
    def marks(self) -> dict[str, int]:
        """Decisions of members on the way: distinct steps of a node in which it happened."""
        return {name: self.native.traces[i] for i, name in enumerate(MARKS) if name}
