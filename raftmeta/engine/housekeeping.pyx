"""The engine's own proposals.

Every node: opens its session once a leader is known, renews it, and keeps its own leases alive, all without Python, so
that a host that holds the GIL loses none of them. The leader: proposes the expiry of leases and sessions that are due
on the lease clock, and moves the history floor. Every such entry is re-checked when it is applied; proposing one too
often or too early harms nobody.

When is a kept lease known to be held? A keep-alive is known in the log by its payload, which ends with an id that is
nobody's lease (a random number), so that no two are alike. When it is applied here, the lease lasts at least ttl
after the moment *before* that keep-alive was sent:
    1. the leader reads its clock when it has the keep-alive, and the entry carries the lease clock of that moment
    2. from then on, no leader's lease clock advances by more than time itself (docs/divergence.md "Time")
    3. entries carry whole milliseconds, so a deadline may come one too early: the leader proposes expiry a tick later
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from raftmeta._core cimport LEADER, core_change_membership, core_membership, core_propose, core_set_time
from raftmeta.engine.callers cimport callers_may_speak, callers_name_process, callers_session_lost
from raftmeta.engine.invariants cimport BROKEN_OWN_COMMAND
from raftmeta.engine.state cimport (EVENT_COMPACTED, EVENT_HOST_RESUMED, EVENT_HOST_STALLED, EVENT_LEASES_EXPIRED,
                                    EVENT_LEVEL_RISES, EVENT_SESSION_LOST, CommandQueue, Duties, Engine, EngineConfig,
                                    KeepAlive, KeptLease, Link, OwnLeases)
from raftmeta.machine.machine cimport (MachineStatus, machine_due_leases, machine_due_sessions, machine_has_rights,
                                       machine_lease, machine_session_exists, machine_session_has_process,
                                       machine_session_used, machine_status)
from raftmeta.machine.processes cimport processes_of_lease
from raftmeta.machine.state cimport FORMAT_FEATURE_LEVEL_MAX
from raftmeta.native.atomics cimport load_acquire
from raftmeta.native.buggify cimport (BUGGIFY_EXPIRY_POSTPONED, BUGGIFY_HISTORY_CUT_EARLY, BUGGIFY_KEEP_ALIVE_EXTRA,
                                      buggify)
from raftmeta.native.chunks cimport Slice
from raftmeta.native.intrinsics cimport hash64
from raftmeta.native.invariants cimport broken
from raftmeta.native.marks cimport (MARK_EXPIRY_UNDER_WAY, MARK_HISTORY_TOO_LARGE, MARK_KEEP_ALIVES_UNANSWERED,
                                    MARK_KEPT_LEASE_GONE_BY_INSTALL, MARK_KEPT_LEASE_LOST, MARK_LEASES_EXPIRE,
                                    MARK_LINK_OLDER_THAN_MEMBERSHIP, MARK_SESSIONS_EXPIRE,
                                    MARK_SESSION_LOST, MARK_SESSION_OPENED, MARK_WIPED_LEARNER_RETURNS, mark)
from raftmeta.raft.membership cimport membership_position
from raftmeta.raft.types cimport LEARNER, MEMBERS_MAX, VOTER_INCOMING, Member, Membership
from raftmeta.status cimport NO_MEMORY, OK, is_fatal, status_t
from raftmeta.wire.commands cimport (COMMAND_COMPACT, COMMAND_FEATURE_LEVEL, COMMAND_LEASE_EXPIRE,
                                     COMMAND_LEASE_KEEP_ALIVE, COMMAND_SESSION_EXPIRE, COMMAND_SESSION_OPEN,
                                     LEASES_MAX, SPEAKER_NODE, CommandKind, LeaseItem, command_clear, command_encode)

cdef enum:
    TUNE_DUE_MAX = 1000             # leases in one expiry entry
    KEEP_ALIVES_PER_TTL = 4         # a keep-alive may be lost twice before its lease is in danger
    KEEP_ALIVES_OPEN_MAX = 16       # under way at once, of each part; older ones are given up
    TUNE_LEASES_PER_PART = LEASES_MAX // 2      # on average; hashes of ids spread them by some hundred

# Bits of a session id: the highest is set, so that it never looks like a small number in a log.
cdef inline uint64_t _session_bit() noexcept nogil:
    return <uint64_t>1 << 63


# --- commands of the engine itself ------------------------------------------------------------------------------------
cdef void housekeeping_begin(Engine* engine, CommandKind kind) noexcept nogil:
    command_clear(&engine.scratch)      # a foreign command may have been decoded into it last (engine/peers)
    engine.scratch.kind = kind


# Propose engine.scratch; what cannot be proposed now is proposed by a later tick.
cdef status_t housekeeping_propose(Engine* engine) noexcept nogil:
    cdef Slice payload
    cdef status_t status
    engine.duties.payload.clear()
    status = command_encode(&engine.scratch, &engine.duties.payload)
    if status == NO_MEMORY:
        return status
    if status != OK:
        return broken(&engine.promises.broken, BROKEN_OWN_COMMAND, engine.scratch.kind, status)
    payload.chunk = NULL
    payload.data = engine.duties.payload.data
    payload.length = <uint32_t>engine.duties.payload.size
    # A keeper believes in its lease from when it looked at the clock (_send_keep_alive), so the entry may show no less.
    core_set_time(engine.core, engine.clock.now_ns(engine.clock.self))
    return core_propose(engine.core, &payload, 1, 0, True, engine.core_status.role != LEADER)


cdef bint _add_lease(Engine* engine, uint64_t lease, uint64_t deadline_ms) noexcept nogil:
    cdef LeaseItem item
    item.lease = lease
    item.deadline_ms = deadline_ms
    return engine.scratch.leases.push(item)


# --- this node's session ----------------------------------------------------------------------------------------------
cdef status_t _open_session(Engine* engine) noexcept nogil:
    if engine.session.opening == 0:
        engine.session.opening = engine.random.next(engine.random.self) | _session_bit()
    elif engine.ticks - engine.session.opening_tick < engine.config.core.election_timeout_ticks:
        return OK
    return _propose_session(engine, engine.session.opening)


cdef status_t _propose_session(Engine* engine, uint64_t id) noexcept nogil:
    engine.session.opening_tick = engine.ticks
    housekeeping_begin(engine, COMMAND_SESSION_OPEN)
    engine.scratch.id = id
    engine.scratch.ttl_ms = engine.config.session_ttl_ms
    engine.scratch.window = engine.config.session_window
    if callers_name_process(engine):
        engine.scratch.member = engine.id
        engine.scratch.boot = engine.boot
    if machine_has_rights(engine.machine):
        engine.scratch.speaker = SPEAKER_NODE
    return housekeeping_propose(engine)


# Once rights are configured, only a session that its node has made known as its own may speak for the node. To open it
# once more says so, and whose process it is, and changes nothing else.
cdef status_t _own_session(Engine* engine) noexcept nogil:
    if (callers_may_speak(engine)
            or engine.ticks - engine.session.opening_tick < engine.config.core.election_timeout_ticks):
        return OK
    return _propose_session(engine, engine.session.id)


# Somebody else speaks in this node's session: a command of it was applied that this node has not made yet. Results
# would be taken for those of other commands, or be said to be forgotten, for ever.
cdef bint _is_spoken_in(Engine* engine) noexcept nogil:
    cdef const CommandQueue* own = &engine.calls.own
    return machine_session_used(engine.machine, engine.session.id) >= max(own.base, <uint64_t>1) + own.commands.size


# How a node would have no session for the rest of its life:
#     1. its SESSION_OPEN is applied, and the end of that session with it, before this node looks: it was cut off for
#        longer than a session lives, or its process was reported dead,
#     2. a session that is over is never opened again, and this node asks for the same one.
cdef void housekeeping_look(Engine* engine) noexcept nogil:
    if engine.session.id != 0:
        if not machine_session_exists(engine.machine, engine.session.id) or _is_spoken_in(engine):
            engine.session.id = 0
            engine.session.opening = 0
            engine.callers.event(engine.callers.self, EVENT_SESSION_LOST, 0, 0, 0)
            mark(MARK_SESSION_LOST)
            callers_session_lost(engine)
            engine.leases.keep_alives.clear()
        elif engine.session.opening != 0 and machine_session_has_process(engine.machine, engine.session.id):
            engine.session.opening = 0
            _keep_alive_soon(engine)        # kept leases that no process is known to keep become this one's
    elif engine.session.opening != 0 and machine_session_exists(engine.machine, engine.session.opening):
        mark(MARK_SESSION_OPENED)
        engine.session.id = engine.session.opening
        # If it does not say yet whose it is, it does so at the next tick.
        engine.session.opening_tick = engine.ticks - engine.config.core.election_timeout_ticks
        engine.leases.keep_alive_tick = engine.ticks
    elif engine.session.opening != 0 and engine.machine.sessions.ended.find(engine.session.opening) != NULL:
        engine.session.opening = 0


# --- keep-alives ------------------------------------------------------------------------------------------------------
# Distance of keep-alives: a part of the shortest time to live among session and kept leases.
cdef uint64_t _keep_alive_ticks(OwnLeases* leases, const EngineConfig* config) noexcept nogil:
    cdef uint64_t shortest_ms = config.session_ttl_ms
    cdef size_t at = leases.kept.next(0)
    while at < leases.kept.end():
        shortest_ms = min(shortest_ms, leases.kept.value_at(at).ttl_ms)
        at = leases.kept.next(at + 1)
    return max(shortest_ms // KEEP_ALIVES_PER_TTL // config.tick_ms, <uint64_t>1)


cdef bint _keep_alive_is_due(Engine* engine) noexcept nogil:
    return (engine.ticks - engine.leases.keep_alive_tick
            >= _keep_alive_ticks(&engine.leases, &engine.config))


cdef void _keep_alive_soon(Engine* engine) noexcept nogil:
    engine.leases.keep_alive_tick = engine.ticks - engine.config.session_ttl_ms     # no distance is so long


# Whether the host's Python made progress lately; its leases end with it, if it was asked to be watched.
cdef bint _host_is_seen(Engine* engine) noexcept nogil:
    cdef uint64_t now_ns = engine.clock.now_ns(engine.clock.self)
    cdef uint64_t seen_ns = load_acquire(&engine.leases.host_ns)
    cdef uint64_t silent_ns = now_ns - min(seen_ns, now_ns)
    cdef bint is_stalled = engine.config.host_watchdog_ns != 0 and silent_ns > engine.config.host_watchdog_ns
    if is_stalled and not engine.leases.host_is_stalled:
        engine.callers.event(engine.callers.self, EVENT_HOST_STALLED, silent_ns // 1_000_000, 0, 0)
    elif engine.leases.host_is_stalled and not is_stalled:
        engine.callers.event(engine.callers.self, EVENT_HOST_RESUMED, 0, 0, 0)
    engine.leases.host_is_stalled = is_stalled
    return not is_stalled


# One entry has room for LEASES_MAX of them. Which part of several a lease is in, its id says.
cdef inline bint _covers(const KeepAlive* sent, uint64_t lease) noexcept nogil:
    return sent.parts == 1 or hash64(0, &lease, sizeof(lease)) % sent.parts == sent.part


cdef status_t _send_keep_alive(Engine* engine) noexcept nogil:
    cdef bint keeps_leases = _host_is_seen(engine)
    cdef KeepAlive fresh
    cdef status_t status = OK
    cdef uint32_t part
    memset(&fresh, 0, sizeof(fresh))
    fresh.parts = <uint32_t>(engine.leases.kept.size // TUNE_LEASES_PER_PART + 1) if keeps_leases else 1
    engine.leases.keep_alive_tick = engine.ticks
    for part in range(fresh.parts):
        fresh.part = part
        status = _send_part(engine, &fresh, keeps_leases)
        if status != OK:
            break
    return status


cdef status_t _send_part(Engine* engine, KeepAlive* fresh, bint keeps_leases) noexcept nogil:
    cdef size_t at = engine.leases.kept.next(0) if keeps_leases else engine.leases.kept.end()
    cdef status_t status
    housekeeping_begin(engine, COMMAND_LEASE_KEEP_ALIVE)
    engine.scratch.session = engine.session.id
    while at < engine.leases.kept.end():
        if _covers(fresh, engine.leases.kept.key_at(at)) and not _add_lease(engine, engine.leases.kept.key_at(at), 0):
            return NO_MEMORY
        at = engine.leases.kept.next(at + 1)
    if not _add_lease(engine, engine.random.next(engine.random.self) | _session_bit(), 0):
        return NO_MEMORY
    fresh.sent_ns = engine.clock.now_ns(engine.clock.self)      # before it is sent
    status = housekeeping_propose(engine)
    if status != OK or not keeps_leases:
        return status
    fresh.hash = hash64(0, engine.duties.payload.data, engine.duties.payload.size)
    while engine.leases.keep_alives.size >= <size_t>KEEP_ALIVES_OPEN_MAX * fresh.parts:
        mark(MARK_KEEP_ALIVES_UNANSWERED)
        engine.leases.keep_alives.pop_front()
    return OK if engine.leases.keep_alives.push(fresh[0]) else NO_MEMORY


# This one is answered. Those of the same part that were sent earlier can only tell less.
cdef KeepAlive _take_keep_alive(OwnLeases* leases, size_t place) noexcept nogil:
    cdef KeepAlive taken = leases.keep_alives.at(place)
    cdef KeepAlive* earlier
    cdef size_t i
    for i in range(place + 1):
        earlier = &leases.keep_alives.at(i)
        if earlier.part == taken.part and earlier.parts == taken.parts:
            earlier.hash = 0
    while leases.keep_alives.size and leases.keep_alives.front().hash == 0:
        leases.keep_alives.pop_front()
    return taken


cdef void housekeeping_keep_alive_applied(Engine* engine, uint64_t payload_hash) noexcept nogil:
    cdef size_t i
    cdef size_t at
    cdef KeepAlive taken
    cdef KeptLease* kept
    for i in range(engine.leases.keep_alives.size):
        if engine.leases.keep_alives.at(i).hash == payload_hash:
            break
    else:
        return
    taken = _take_keep_alive(&engine.leases, i)
    at = engine.leases.kept.next(0)
    while at < engine.leases.kept.end():
        if not _is_there(engine, engine.leases.kept.key_at(at)):
            mark(MARK_KEPT_LEASE_LOST)
            at = _lose(engine, at)
            continue
        kept = &engine.leases.kept.value_at(at)
        # A lease of another part, or one that began to be kept later, was not in it.
        if _covers(&taken, engine.leases.kept.key_at(at)) and taken.sent_ns >= kept.since_ns:
            kept.until_ns = taken.sent_ns + kept.ttl_ms * 1_000_000
        if kept.until_ns != 0:                  # nothing is known yet of one that was in no keep-alive so far
            engine.callers.lease_kept(engine.callers.self, kept.handle, kept.until_ns)
        at = engine.leases.kept.next(at + 1)


cdef bint _is_there(const Engine* engine, uint64_t lease) noexcept nogil:
    cdef uint64_t ttl_ms, deadline_ms
    cdef uint32_t key_count
    return machine_lease(engine.machine, lease, &ttl_ms, &deadline_ms, &key_count) == OK


# Told once, and kept no longer; the place of the next one is returned. If its id is granted again
# later, that is another lease: kept here, it would come back to its loser, and stay alive for an owner who is gone.
cdef size_t _lose(Engine* engine, size_t at) noexcept nogil:
    cdef void* handle = engine.leases.kept.value_at(at).handle
    engine.leases.kept.erase(engine.leases.kept.key_at(at))
    engine.callers.lease_kept(engine.callers.self, handle, 0)
    return engine.leases.kept.next(at)          # others may have moved up to here


cdef void housekeeping_installed(Engine* engine) noexcept nogil:
    cdef size_t at = engine.leases.kept.next(0)
    while at < engine.leases.kept.end():
        if _is_there(engine, engine.leases.kept.key_at(at)):
            at = engine.leases.kept.next(at + 1)
        else:
            mark(MARK_KEPT_LEASE_GONE_BY_INSTALL)
            at = _lose(engine, at)


cdef status_t housekeeping_keep_lease(Engine* engine, const KeepLeaseArguments* asked) noexcept nogil:
    cdef KeptLease* kept = engine.leases.kept.insert(asked.lease)
    if kept == NULL:
        return NO_MEMORY
    kept.handle = asked.handle
    kept.ttl_ms = asked.ttl_ms
    kept.since_ns = engine.clock.now_ns(engine.clock.self)
    kept.until_ns = 0
    # Where others are kept, their next keep-alive carries this lease, too, in a quarter of its time at the latest. An
    # entry with all of them for each new one would make thousands of leases cost thousands of times thousands.
    if engine.leases.kept.size == 1 and engine.session.id != 0 and engine.core_status.leader != 0:
        return _send_keep_alive(engine)
    # It was granted before this node's session named its process, or by somebody else.
    if callers_name_process(engine) and processes_of_lease(&engine.machine.processes, asked.lease) == NULL:
        _keep_alive_soon(engine)
    return OK


cdef void housekeeping_drop_lease(OwnLeases* leases, uint64_t lease) noexcept nogil:
    leases.kept.erase(lease)


# --- the leader's duties ----------------------------------------------------------------------------------------------
cdef status_t _expire(Engine* engine, CommandKind kind, uint32_t count) noexcept nogil:
    cdef uint32_t i
    housekeeping_begin(engine, kind)
    for i in range(count):
        if not _add_lease(engine, engine.duties.due.data[i], engine.duties.due_deadlines.data[i]):
            return NO_MEMORY
    return housekeeping_propose(engine)


# Leases before sessions; nothing is proposed again before the last proposal of this term was applied.
cdef status_t _propose_expiry(Engine* engine) noexcept nogil:
    cdef uint64_t error_ms = engine.config.tick_ms      # entries carry whole milliseconds; the rest is a margin
    cdef uint64_t due_ms = engine.core_status.lease_ms
    cdef uint32_t count
    cdef status_t status = OK
    if due_ms <= error_ms or buggify(BUGGIFY_EXPIRY_POSTPONED):
        return OK
    due_ms -= error_ms
    if engine.duties.term == engine.core_status.term and engine.applying.applied < engine.duties.expiry_proposed:
        mark(MARK_EXPIRY_UNDER_WAY)
        return OK
    engine.duties.due.clear()
    engine.duties.due_deadlines.clear()
    count = machine_due_leases(engine.machine, due_ms, &engine.duties.due, &engine.duties.due_deadlines, TUNE_DUE_MAX)
    if count != 0:
        mark(MARK_LEASES_EXPIRE)
        status = _expire(engine, COMMAND_LEASE_EXPIRE, count)
        engine.counters.leases_expired += count
        engine.callers.event(engine.callers.self, EVENT_LEASES_EXPIRED, count, 0, 0)
    else:
        count = machine_due_sessions(engine.machine, due_ms, &engine.duties.due, &engine.duties.due_deadlines,
                                     TUNE_DUE_MAX)
        if count == 0:
            return OK
        mark(MARK_SESSIONS_EXPIRE)
        status = _expire(engine, COMMAND_SESSION_EXPIRE, count)
    if status == OK:
        engine.duties.term = engine.core_status.term
        engine.duties.expiry_proposed = engine.core_status.last + 1    # at or before the entry just proposed
    return status


cdef status_t _propose_compaction(Engine* engine) noexcept nogil:
    cdef MachineStatus machine
    cdef uint64_t kept
    if engine.applying.applied < engine.duties.compaction_proposed:
        return OK
    machine_status(engine.machine, &machine)
    kept = machine.revision - machine.compacted
    if machine.history_bytes > engine.config.history_bytes_max:
        # Revisions are taken as equally large: a quarter of the excess more than needed is cut, so that it is not done
        # at once again.
        kept = kept * 3 // 4 * engine.config.history_bytes_max // machine.history_bytes
    elif kept > 1 and buggify(BUGGIFY_HISTORY_CUT_EARLY):
        kept //= 2
    else:
        return OK
    housekeeping_begin(engine, COMMAND_COMPACT)
    mark(MARK_HISTORY_TOO_LARGE)
    engine.scratch.id = machine.revision - kept
    cdef status_t status = housekeeping_propose(engine)
    if status == OK:
        engine.duties.compaction_proposed = engine.core_status.last + 1
        engine.callers.event(engine.callers.self, EVENT_COMPACTED, engine.scratch.id, 0, 0)
    return status


# --- the feature level ------------------------------------------------------------------------------------------------
# The level of a member by its last HELLO; 0: it said none in this life. Only an answer at the member's address counts:
# a connection to this node may lie about who it is, and a level never falls.
cdef uint32_t _level_of_member(const Engine* engine, uint64_t id) noexcept nogil:
    cdef int i
    if id == engine.id:
        return FORMAT_FEATURE_LEVEL_MAX
    for i in range(MEMBERS_MAX):
        if (engine.links.table[i].is_used and engine.links.table[i].id == id
                and not engine.links.table[i].is_boot_claimed):
            return engine.links.table[i].feature_level_max
    return 0


# The level rises to the highest that all members support; what is above it may be proposed from then on.
cdef status_t _propose_level(Engine* engine) noexcept nogil:
    cdef const Membership* membership = core_membership(engine.core)
    cdef uint32_t level = FORMAT_FEATURE_LEVEL_MAX
    cdef status_t status
    cdef int i
    if (engine.applying.applied < engine.duties.level_proposed
            or engine.machine.feature_level == FORMAT_FEATURE_LEVEL_MAX):
        return OK
    for i in range(membership.count):
        level = min(level, _level_of_member(engine, membership.members[i].id))
    if level <= engine.machine.feature_level:
        return OK
    housekeeping_begin(engine, COMMAND_FEATURE_LEVEL)
    engine.scratch.id = level
    status = housekeeping_propose(engine)
    if status == OK:
        engine.duties.level_proposed = engine.core_status.last + 1
        engine.callers.event(engine.callers.self, EVENT_LEVEL_RISES, level, 0, 0)
    return status


# --- a wiped node comes back ------------------------------------------------------------------------------------------
cdef bint _has_name(const Member* member, const Link* link) noexcept nogil:
    return member.name_length == link.name_length and memcmp(member.name, link.name, link.name_length) == 0


# current, and link's new incarnation as a learner: beside the voter of its name, or in the place of the learner of
# its name, whose disk is gone too. False: no member has that name.
cdef bint _with_successor(const Membership* current, const Link* link, Membership* target) noexcept nogil:
    cdef const Member* old = NULL
    cdef uint8_t roles = LEARNER
    cdef int i
    target[0] = current[0]
    target.count = 0
    for i in range(current.count):
        if _has_name(&current.members[i], link):
            old = &current.members[i]
            if not old.roles & VOTER_INCOMING:
                mark(MARK_WIPED_LEARNER_RETURNS)
                roles = old.roles
                continue
        target.members[target.count] = current.members[i]
        target.count += 1
    if old == NULL or target.count == MEMBERS_MAX:
        return False
    target.members[target.count] = old[0]
    target.members[target.count].id = link.id
    target.members[target.count].roles = roles
    target.count += 1
    return True


# The current membership without other incarnations of the voter that `link` shows alive. False: it names none.
# Such an incarnation is a dead learner, because two folders never have one name. Nobody else would ever drop it.
cdef bint _without_dead(const Membership* current, const Link* link, Membership* target) noexcept nogil:
    cdef int voter = membership_position(current, link.id)
    cdef int i
    target[0] = current[0]
    target.count = 0
    if not current.members[voter].roles & VOTER_INCOMING:
        return False
    for i in range(current.count):
        if i == voter or not _has_name(&current.members[i], link):
            target.members[target.count] = current.members[i]
            target.count += 1
    return target.count != current.count


# current, with the incarnation that answers under link's name and no dead one beside it. False: it is so already,
# or it is not known yet which incarnation lives (docs/divergence.md "Incarnations"):
#     1. this leader's link to a node breaks, and nothing says so; the node is wiped, twice
#     2. another leader names the newest incarnation, and this member's log hears of it
#     3. this one leads again: by its link the node is still the first incarnation, which no log names any more
#     4. taken for a newcomer, it would be named and never answer.
# So only a HELLO that was asked for since the membership came into force tells who lives.
cdef bint _with_living(Engine* engine, const Membership* current, Link* link, Membership* target) noexcept nogil:
    if membership_position(current, link.id) < 0:
        if not _with_successor(current, link, target):
            return False
    elif not _without_dead(current, link, target):
        return False
    if not link.is_fresh:
        mark(MARK_LINK_OLDER_THAN_MEMBERSHIP)
        link.must_reopen = True
    return link.is_fresh


# current, with the addresses that its members say they have. False: those it has already.
cdef bint _with_told_addresses(Engine* engine, const Membership* current, Membership* target) noexcept nogil:
    cdef const Link* link
    cdef Member* member
    cdef bint is_new = False
    cdef int i, j
    target[0] = current[0]
    for i in range(target.count):
        member = &target.members[i]
        for j in range(MEMBERS_MAX):
            link = &engine.links.table[j]
            if not (link.is_used and link.is_told and link.is_up and link.id == member.id):
                continue
            if link.address_length != member.address_length or memcmp(link.address, member.address,
                                                                      link.address_length) != 0:
                member.address_length = link.address_length
                memcpy(member.address, link.address, link.address_length)
                is_new = True
    return is_new


# A member's name answers as another incarnation: its disk was lost. It begins as a learner; the core swaps it for
# its old self once it has caught up (decisions/README.md "Identity and genesis"). One at a time; then new addresses.
cdef status_t _follow_peers(Engine* engine) noexcept nogil:
    cdef const Membership* current = core_membership(engine.core)
    cdef Membership target
    cdef int i
    if current.is_joint or current.index > engine.core_status.committed:
        return OK
    for i in range(MEMBERS_MAX):
        if not engine.links.table[i].is_used or engine.links.table[i].is_self or not engine.links.table[i].is_up:
            continue
        if _with_living(engine, current, &engine.links.table[i], &target):
            return core_change_membership(engine.core, &target, 0)
    if _with_told_addresses(engine, current, &target):
        return core_change_membership(engine.core, &target, 0)
    return OK


cdef status_t housekeeping_tick(Engine* engine) noexcept nogil:
    cdef status_t status = OK
    if engine.core_status.leader == 0:
        return OK
    if engine.session.id == 0:
        status = _open_session(engine)
    elif _keep_alive_is_due(engine) or buggify(BUGGIFY_KEEP_ALIVE_EXTRA):
        status = _send_keep_alive(engine)
    if not is_fatal(status) and engine.session.id != 0:
        status = _own_session(engine)
    if not is_fatal(status) and engine.core_status.role == LEADER and engine.core_status.is_ready_to_read:
        status = _propose_expiry(engine)
        if not is_fatal(status):
            status = _propose_compaction(engine)
        if not is_fatal(status):
            status = _propose_level(engine)
        if not is_fatal(status) and engine.ticks % engine.config.core.election_timeout_ticks == 0:
            status = _follow_peers(engine)
    return status if is_fatal(status) else OK


cdef void housekeeping_stop(Engine* engine) noexcept nogil:
    cdef size_t at = engine.leases.kept.next(0)
    while at < engine.leases.kept.end():
        engine.callers.lease_kept(engine.callers.self, engine.leases.kept.value_at(at).handle, 0)
        at = engine.leases.kept.next(at + 1)
    engine.leases.kept.clear()


cdef void housekeeping_release(OwnLeases* leases, Duties* duties) noexcept nogil:
    leases.kept.release()
    leases.keep_alives.release()
    duties.payload.release()
    duties.due.release()
    duties.due_deadlines.release()
