"""A node's report about itself, as its loop published it: status, metrics, events. Nothing here asks the loop."""

from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport uint32_t, uint64_t

from raftmeta._core cimport CANDIDATE, FOLLOWER, LEADER, PRE_CANDIDATE
from raftmeta.engine.state cimport (ENGINE_GENESIS, ENGINE_RUNNING, EVENT_COMPACTED, EVENT_DISK_RESUMED,
                                    EVENT_DISK_WAITS, EVENT_FATAL, EVENT_FOUNDED, EVENT_HOST_RESUMED,
                                    EVENT_HOST_STALLED, EVENT_JOINED, EVENT_LEASES_EXPIRED, EVENT_LEVEL_RISES,
                                    EVENT_LINK_DOWN, EVENT_LINK_UP, EVENT_LOG_COMPACTED, EVENT_LOG_OPENED, EVENT_NAMED,
                                    EVENT_PEER_REFUSED, EVENT_PROCESS_ENDED, EVENT_QUORUM_LOST, EVENT_READY,
                                    EVENT_REMOVED, EVENT_SESSION_LOST, EVENT_SNAPSHOT_DAMAGED, EVENT_SNAPSHOT_DUE,
                                    EVENT_SNAPSHOT_FAILED, EVENT_SNAPSHOT_INSTALLED, EVENT_SNAPSHOT_LOADED,
                                    EVENT_SNAPSHOT_OFFERED, EVENT_SNAPSHOT_TAKEN, EVENT_STATE_DIVERGED, EVENT_TRACE,
                                    EVENT_USER_DIVERGED, EVENT_USER_FAILED, EVENT_USER_STOPPED, EVENT_USER_UNDUMPED)
from raftmeta.face.answers cimport deadline_after
from raftmeta.face.base cimport LIFE_FORKED, NodeBase
from raftmeta.face.door cimport OpenDoor
from raftmeta.face.links cimport name_of_link, names_of_links
from raftmeta.face.listening cimport client_metrics, tls_metrics
from raftmeta.face.start cimport disk_call_name
from raftmeta.face.tls cimport refusal_word
from raftmeta.loop.event_log cimport EVENT_CERTIFICATE_EXPIRES, EVENT_TLS_RENEWED
from raftmeta.loop.event_log cimport NodeEvent as EventBlock
from raftmeta.loop.event_log cimport event_log_await, event_log_drop, event_log_hold, event_log_read
from raftmeta.loop.loop cimport LinkStatus, LinkTable, Loop, ObserverTable, loop_ring
from raftmeta.loop.loop cimport NodeStatus as StatusBlock
from raftmeta.native.atomics cimport load_acquire, load_shared, store_shared
from raftmeta.native.threads cimport boot_now_ns
from raftmeta.raft.ready cimport (TRACE_BECAME_CANDIDATE, TRACE_BECAME_FOLLOWER, TRACE_BECAME_LEADER,
                                  TRACE_BECAME_PRE_CANDIDATE, TRACE_LEADER_LOST, TRACE_MEMBERSHIP, TRACE_PROMOTED,
                                  TRACE_READS_VOID, TRACE_REPAIR, TRACE_SNAPSHOT_NEEDED, TRACE_STEPPED_DOWN,
                                  TRACE_TRANSFER, TRACE_TRANSFER_ABORTED, TRACE_TRUNCATED, TRACE_VOTE_REFUSED)
from raftmeta.raft.types cimport MEMBERS_MAX, Member, Membership
from raftmeta.status cimport DISK_FAILED
from raftmeta.wire.feed_messages cimport Observed

from raftmeta.face.audit import trail_metrics
from raftmeta.members.rows import LinkRow, MemberRow, ObserverRow, member_statuses, observer_statuses
from raftmeta.results import NodeEvent, NodeStatus
from raftmeta.common.text import shown
from raftmeta.version import VERSION
from raftmeta.bindings.members import role_name

cdef enum:
    SIGNALS_LOOKED_AT_NS = 50_000_000

_ROLES = {FOLLOWER: "follower", PRE_CANDIDATE: "pre-candidate", CANDIDATE: "candidate", LEADER: "leader"}

# Number of a core's Trace (raft/ready TraceType): its name, and what its numbers mean.
_TRACES = {
    TRACE_BECAME_FOLLOWER: ("became_follower", ()),
    TRACE_BECAME_PRE_CANDIDATE: ("became_pre_candidate", ()),
    TRACE_BECAME_CANDIDATE: ("became_candidate", ()),
    TRACE_BECAME_LEADER: ("became_leader", ()),
    TRACE_TRUNCATED: ("log_truncated", ("first", "last")),
    TRACE_MEMBERSHIP: ("membership_in_force", ("index",)),
    TRACE_VOTE_REFUSED: ("vote_refused", ("candidate", "reason")),
    TRACE_TRANSFER: ("transfer_began", ("target",)),
    TRACE_SNAPSHOT_NEEDED: ("snapshot_needed", ("member",)),
    TRACE_STEPPED_DOWN: ("stepped_down", ("reason",)),
    TRACE_REPAIR: ("record_repaired", ("index", "source")),
    TRACE_TRANSFER_ABORTED: ("transfer_aborted", ("target",)),
    TRACE_PROMOTED: ("learner_promoted", ("member",)),
    TRACE_LEADER_LOST: ("leader_lost", ("leader",)),
    TRACE_READS_VOID: ("reads_void", ("count",)),
}

# The same for events of the engine. "peer" is a link's number and becomes a name.
_EVENTS = {
    EVENT_READY: ("ready", ("leader", "term")),
    EVENT_LINK_UP: ("link_up", ("peer", "member")),
    EVENT_LINK_DOWN: ("link_down", ("peer", "was_refused")),
    EVENT_PEER_REFUSED: ("peer_refused", ("status", "peer")),
    EVENT_LOG_OPENED: ("log_opened", ("state", "last", "dropped_bytes")),
    EVENT_SESSION_LOST: ("session_lost", ()),
    EVENT_FATAL: ("stopped", ("status", "errno", "call")),
    EVENT_LEASES_EXPIRED: ("leases_expired", ("count",)),
    EVENT_PROCESS_ENDED: ("process_ended", ("member", "boot")),
    EVENT_COMPACTED: ("history_compacted", ("floor",)),
    EVENT_HOST_STALLED: ("host_stalled", ("silent_ms",)),
    EVENT_HOST_RESUMED: ("host_resumed", ()),
    EVENT_DISK_WAITS: ("disk_waits_for_descriptor", ("errno",)),
    EVENT_DISK_RESUMED: ("disk_has_descriptor", ()),
    EVENT_QUORUM_LOST: ("quorum_lost", ("names", "lost", "voters")),
    EVENT_STATE_DIVERGED: ("state_diverged", ("index", "is_wrong", "other_hash")),
    EVENT_LEVEL_RISES: ("feature_level_rises", ("level",)),
    EVENT_USER_FAILED: ("machine_command_failed", ("index", "", "machine")),
    EVENT_USER_DIVERGED: ("machine_diverged", ("index", "", "machine")),
    EVENT_USER_STOPPED: ("machine_stopped", ("index", "", "machine")),
    EVENT_USER_UNDUMPED: ("machine_not_dumped", ("index", "", "machine")),
    EVENT_REMOVED: ("removed", ("membership",)),
    EVENT_NAMED: ("became_member", ("membership",)),
    EVENT_SNAPSHOT_DUE: ("snapshot_due", ("index",)),
    EVENT_SNAPSHOT_TAKEN: ("snapshot_taken", ("index", "bytes")),
    EVENT_SNAPSHOT_FAILED: ("snapshot_failed", ("index", "status")),
    EVENT_SNAPSHOT_OFFERED: ("snapshot_offered", ("index", "peer")),
    EVENT_SNAPSHOT_INSTALLED: ("snapshot_installed", ("index", "applied_before")),
    EVENT_SNAPSHOT_LOADED: ("snapshot_loaded", ("index",)),
    EVENT_SNAPSHOT_DAMAGED: ("snapshot_damaged", ("index", "status")),
    EVENT_LOG_COMPACTED: ("log_compacted", ("index",)),
    EVENT_TLS_RENEWED: ("tls_renewed", ("expires_s",)),
    EVENT_CERTIFICATE_EXPIRES: ("certificate_expires", ("days", "expires_s")),
}


# --- status -----------------------------------------------------------------------------------------------------------
cdef tuple membership_rows(NodeBase node):
    cdef Membership membership
    cdef const Member* member
    cdef int i
    cdef list rows = []
    cdef Loop* loop = node.started()
    while not loop.membership.read(&membership):
        pass
    for i in range(membership.count):
        member = &membership.members[i]
        rows.append(MemberRow(shown(member.name[:member.name_length]), member.id,
                              shown(member.address[:member.address_length]), role_name(member.roles)))
    return tuple(rows), membership.index, membership.is_joint != 0


cdef list link_rows(NodeBase node):
    cdef LinkTable links
    cdef const LinkStatus* link
    cdef int i
    cdef list rows = []
    node.read_links(&links)
    for i in range(MEMBERS_MAX):
        link = &links.links[i]
        if link.name_length != 0:
            rows.append(LinkRow(shown(link.name[:link.name_length]), link.id, bool(link.is_up or link.is_self),
                                link.bytes_in, link.bytes_out))
    return rows


cdef object _state(const StatusBlock* block):
    if block.engine_state != ENGINE_RUNNING:
        return "starting" if block.engine_state == ENGINE_GENESIS else "stopped"
    if block.core.is_removed:
        return "removed"
    if block.core.is_observer:
        return "observing"
    return "running" if block.core.is_member else "joining"


cdef str _role(const StatusBlock* block):
    return "observer" if block.core.is_observer else _ROLES.get(block.core.role, "")


# By the names that connections to them are known by; "": it is not connected any more.
cdef str _name_of_id(const LinkTable* links, uint64_t id):
    cdef int i
    for i in range(MEMBERS_MAX):
        if id != 0 and links.links[i].id == id and links.links[i].name_length != 0:
            return name_of_link(links, i)
    return ""


cdef tuple _observers(NodeBase node, const StatusBlock* block, const LinkTable* links):
    cdef Loop* loop = node.started()
    cdef ObserverTable below
    cdef const Observed* one
    cdef uint32_t i
    cdef list rows = []
    while not loop.observers.read(&below):
        pass
    for i in range(block.core.feed_count):
        index = block.core.feeds[i].index
        rows.append(ObserverRow(block.core.feeds[i].id, _name_of_id(links, block.core.feeds[i].id), block.id, index,
                                max(0, block.core.committed - index)))
    for i in range(below.count):
        one = &below.observers[i]
        rows.append(ObserverRow(one.id, shown(one.name[:one.name_length]), one.feeder, one.last, one.lag))
    return observer_statuses(node.identity.name, block.id, rows)


cdef object status_of(NodeBase node):
    cdef StatusBlock block
    cdef LinkTable links
    node.read_status(&block)
    node.read_links(&links)
    members = member_statuses(node.identity.name, block.id, membership_rows(node)[0], link_rows(node),
                              {name: str(address) for name, address in node.identity.peers.items()})
    leader = next((each.name for each in members if each.id == block.core.leader and each.id), "")
    cluster_id = f"{block.cluster_high:016x}{block.cluster_low:016x}" if block.cluster_low | block.cluster_high else ""
    is_running = block.engine_state == ENGINE_RUNNING
    state_hash = f"{block.machine.state_hash.high:016x}{block.machine.state_hash.low:016x}"
    return NodeStatus(
        name=node.identity.name, id=block.id, boot=block.boot, cluster=node.identity.cluster,
        cluster_id=cluster_id,
        state=_state(&block),
        is_ready=is_running and not block.core.is_removed and block.session != 0 and block.core.leader != 0,
        role=_role(&block) if is_running else "", term=block.core.term, leader=leader,
        committed=block.core.committed, applied=block.core.applied, persisted=block.core.persisted,
        last=block.core.last, revision=block.machine.revision, compacted=block.machine.compacted,
        keys=block.machine.keys, state_hash=state_hash, feature_level=block.machine.feature_level,
        version=VERSION, lost_disks=tuple(names_of_links(&links, block.lost_links)),
        members=members, problems=node.problems(), feeder=_name_of_id(&links, block.core.feeder),
        observers=_observers(node, &block, &links))


cdef dict metrics_of(NodeBase node, bint restart_maxima):
    cdef StatusBlock block
    cdef OpenDoor door
    cdef Loop* loop = node.started()
    # First what is not copied at once: whatever runs Python code may end the node.
    cdef uint32_t in_flight = load_shared(&loop.in_flight)
    cdef uint64_t log_syncs = load_acquire(&loop.disk.counters.syncs)
    cdef uint64_t log_sync_time_ns = load_acquire(&loop.disk.counters.time_ns)
    cdef uint64_t log_sync_time_ns_max = load_acquire(&loop.disk.counters.time_ns_max)
    node.read_status(&block)
    if restart_maxima:          # only now: the loop may act at once, and the copy has the maxima that it forgets
        loop = node.started()
        store_shared(&loop.must_restart_maxima, <uint32_t>1)
        loop_ring(loop)
    metrics = {
        "term": block.core.term, "role": block.core.role, "observers_fed": block.core.feed_count,
        "is_leader": int(block.core.role == LEADER),
        "elections": block.counters.elections, "leader_changes": block.counters.leader_changes,
        "committed": block.core.committed,
        "applied": block.core.applied, "persisted": block.core.persisted, "last": block.core.last,
        "revision": block.machine.revision, "compacted": block.machine.compacted, "keys": block.machine.keys,
        "state_bytes": block.machine.state_bytes, "history_bytes": block.machine.history_bytes,
        "leases": block.machine.leases, "sessions": block.machine.sessions,
        "watches": block.watches, "watch_queue_bytes": block.watch_queue_bytes,
        "feature_level": block.machine.feature_level,
        "machine_commands": sum(machine.copy.executed for machine in node.user_machines.values()),
        "machine_commands_failed": sum(machine.copy.failed for machine in node.user_machines.values()),
        "machines_diverged": sum(machine.diverged for machine in node.user_machines.values()),
        "machines_stopped": sum(machine.is_stopped for machine in node.user_machines.values()),
        "operations_in_flight": in_flight,
        "turns": block.turns,
        "proposals": block.counters.proposals, "proposals_repeated": block.counters.proposals_repeated,
        "commands_completed": block.counters.commands_completed,
        "commit_gap_ns_max": block.counters.commit_gap_ns_max, "reads_served": block.counters.reads_served,
        "leases_expired": block.counters.leases_expired,
        "states_compared": block.counters.states_compared,
        "state_differences": block.counters.state_differences,
        "entries_applied": block.counters.entries_applied,
        "apply_time_ns": block.counters.apply_time_ns, "apply_time_ns_max": block.counters.apply_time_ns_max,
        "log_bytes": block.log_bytes, "log_free_bytes": block.log_free_bytes,
        "log_waits_for_descriptor": int(load_shared(&node.loop.disk_waits_for) != 0),
        "log_writes": block.counters.writes, "log_write_bytes": block.counters.write_bytes,
        "log_syncs": log_syncs,
        "log_sync_time_ns": log_sync_time_ns,
        "log_sync_time_ns_max": log_sync_time_ns_max,
        "frames_sent": block.counters.frames_sent, "frames_received": block.counters.frames_received,
        "frames_refused": block.counters.frames_refused, "frames_dropped": block.frames_dropped,
        "connections_accepted": block.connections_accepted, "connections_refused": block.connections_refused,
        "connections_evicted": block.connections_evicted,
        "log_first": block.core.compacted + 1, "snapshot_index": block.core.snapshotted,
        "snapshots_taken": block.counters.snapshots_taken, "snapshots_installed": block.counters.snapshots_installed,
        "snapshot_bytes_sent": block.counters.snapshot_bytes_sent,
        "snapshot_bytes_received": block.counters.snapshot_bytes_received,
        "bytes_in": block.bytes_in, "bytes_out": block.bytes_out,
        "tls_certificate_expires_s": block.certificate_expires_s,
    }
    metrics.update(tls_metrics(&block.tls))
    if node.clients != NULL:
        metrics.update(client_metrics(node.clients))
    for door in node.doors:     # one that ends meanwhile has none
        metrics.update(door.metrics())
    metrics.update(trail_metrics(node.trail))
    return metrics


# --- events -----------------------------------------------------------------------------------------------------------
cdef object _event(NodeBase node, const EventBlock* block):
    cdef LinkTable links
    term = ()
    if block.type == EVENT_TRACE:
        name, words = _TRACES.get(block.a & 0xFF, ("trace", ("type", "value")))
        numbers = (block.b, block.c)
        term = (("term", block.a >> 8),)
    elif block.type == EVENT_FOUNDED:
        return NodeEvent(block.number, block.wall_ms / 1000.0, "cluster_founded",
                         {"cluster_id": f"{block.b:016x}{block.a:016x}"})
    elif block.type == EVENT_JOINED:
        return NodeEvent(block.number, block.wall_ms / 1000.0, "joined",
                         {"cluster_id": f"{block.b:016x}{block.a:016x}", "incarnation": block.c})
    else:
        name, words = _EVENTS.get(block.type, ("event", ("a", "b", "c")))
        numbers = (block.a, block.b, block.c)
    facts = dict((*term, *zip(words, numbers, strict=False)))
    facts.pop("", None)
    if block.type == EVENT_FATAL:
        if block.a == DISK_FAILED:
            facts["call"] = disk_call_name(facts["call"])
        else:
            facts = {"status": block.a, "entry": block.b}       # of one that cannot be applied
        facts = {word: fact for word, fact in facts.items() if fact}
    if block.type == EVENT_PEER_REFUSED and refusal_word(block.a):
        facts["reason"] = refusal_word(block.a)
    if "machine" in facts:
        facts["machine"] = list(node.user_machines)[facts["machine"]]
    if "peer" in facts and node.loop != NULL:
        node.read_links(&links)
        facts["peer"] = name_of_link(&links, facts["peer"])
    if "names" in facts:
        has_links = node.loop != NULL
        if has_links:
            node.read_links(&links)
        facts["names"] = ",".join(names_of_links(&links, facts["names"])) if has_links else ""
    return NodeEvent(block.number, block.wall_ms / 1000.0, name, facts)


cdef class EventReader:
    def __cinit__(self, NodeBase node not None, timeout_s=None):
        self.node = node
        self.timeout_s = timeout_s
        self.log = node.started().event_log
        event_log_hold(self.log)

    def __dealloc__(self):
        if self.log != NULL:
            event_log_drop(self.log)

    def __iter__(self):
        return self

    def __next__(self):
        cdef EventBlock block
        cdef uint64_t deadline_ns = deadline_after(self.timeout_s)
        cdef uint64_t now_ns, pause_ns
        cdef bint is_closed
        while True:
            is_closed = load_acquire(&self.log.is_closed) != 0      # first: the last event is written before
            if event_log_read(self.log, self.seen, &block):
                break
            now_ns = boot_now_ns()
            if is_closed or self.node.life == LIFE_FORKED or now_ns >= deadline_ns:
                raise StopIteration
            pause_ns = min(deadline_ns - now_ns, <uint64_t>SIGNALS_LOOKED_AT_NS)
            with nogil:
                event_log_await(self.log, self.seen, pause_ns)
            PyErr_CheckSignals()
        self.seen = block.number
        return _event(self.node, &block)
