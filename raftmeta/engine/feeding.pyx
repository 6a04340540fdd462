"""Who may feed an observer, and who follows through whom; feeding.pxd has the rules."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from raftmeta._core cimport CoreStatus, core_membership
from raftmeta.engine.links cimport link_of_name
from raftmeta.engine.sending cimport link_of_member, send_feeders, send_observers
from raftmeta.engine.state cimport Engine, Feeding, Link
from raftmeta.native.containers cimport Vec
from raftmeta.raft.types cimport FEED_CUT_OFF, FEED_FULL, FEED_REASONS, Member, Message, member_id_t
from raftmeta.status cimport OK, status_t
from raftmeta.wire.feed_messages cimport (FEEDERS_MAX, OBSERVERS_MAX, Feeder, Observed, feeders_decode,
                                          observers_decode)
from raftmeta.wire.msgpack cimport number_max

cdef enum:
    TUNE_FEEDERS_TRIED = 2      # of those that a refusal names; the next refusal names them again
    TUNE_TRIED_TIMEOUTS = 2     # election time-outs for which a connection to such a node is tried
    TUNE_REPORT_TIMEOUTS = 3    # election time-outs from one report to the next


# --- a feeder that refuses --------------------------------------------------------------------------------------------
cdef void _name(Feeder* named, uint32_t* count, const Link* link) noexcept nogil:
    if count[0] == FEEDERS_MAX or link.id == 0 or link.address_length == 0:
        return
    named[count[0]].id = link.id
    named[count[0]].name_length = link.name_length
    named[count[0]].address_length = link.address_length
    memcpy(named[count[0]].name, link.name, link.name_length)
    memcpy(named[count[0]].address, link.address, link.address_length)
    count[0] += 1


cdef void _name_member(Feeder* named, uint32_t* count, const Member* member) noexcept nogil:
    if count[0] == FEEDERS_MAX or member.address_length == 0:
        return
    named[count[0]].id = member.id
    named[count[0]].name_length = member.name_length
    named[count[0]].address_length = member.address_length
    memcpy(named[count[0]].name, member.name, member.name_length)
    memcpy(named[count[0]].address, member.address, member.address_length)
    count[0] += 1


# First the observers that this node feeds, then members.
cdef uint32_t _others(const Engine* engine, member_id_t target, Feeder* named) noexcept nogil:
    cdef const CoreStatus* core = &engine.core_status
    cdef uint32_t count = 0
    cdef uint32_t i
    cdef int place
    for i in range(core.feed_count):
        place = link_of_member(&engine.links, core.feeds[i].id)
        if place >= 0 and core.feeds[i].id != target:
            _name(named, &count, &engine.links.table[place])
    for i in range(core_membership(engine.core).count):
        place = link_of_member(&engine.links, core_membership(engine.core).members[i].id)
        if place >= 0:
            _name(named, &count, &engine.links.table[place])
        elif core_membership(engine.core).members[i].id != engine.id:
            _name_member(named, &count, &core_membership(engine.core).members[i])
    return count


cdef void feeding_refuses(Engine* engine, const Message* message) noexcept nogil:
    cdef Feeder[FEEDERS_MAX] named
    cdef int place = link_of_member(&engine.links, message.target)
    cdef uint32_t count
    if message.flags & FEED_REASONS not in (FEED_FULL, FEED_CUT_OFF) or place < 0:
        return
    count = _others(engine, message.target, named)
    if count != 0:
        send_feeders(engine, place, named, count)
    if not engine.links.table[place].is_wanted:     # others wait for its place
        engine.links.table[place].met_until = engine.ticks + engine.config.core.election_timeout_ticks


# --- an observer that is refused --------------------------------------------------------------------------------------
cdef bint _is_fed(const CoreStatus* core, member_id_t id) noexcept nogil:
    cdef uint32_t i
    for i in range(core.feed_count):
        if core.feeds[i].id == id:
            return True
    return False


# Members that this node knows are tried all the time.
cdef bint _is_new(const Engine* engine, const Feeder* feeder) noexcept nogil:
    cdef int place = link_of_member(&engine.links, feeder.id)
    return (feeder.id != engine.id and not _is_fed(&engine.core_status, feeder.id)
            and (place < 0 or not (engine.links.table[place].is_wanted or engine.links.table[place].is_up)))


# Another node of that name may have this place, or an earlier life of it: the HELLO tells.
cdef void _try(Engine* engine, const Feeder* feeder) noexcept nogil:
    cdef int place = link_of_name(&engine.links, feeder.name, feeder.name_length, NULL, 0)
    cdef Link* link
    if place < 0:
        return
    link = &engine.links.table[place]
    if link.is_self or link.is_wanted or link.is_up:
        return
    link_of_name(&engine.links, feeder.name, feeder.name_length, feeder.address, feeder.address_length)
    link.is_told = False
    link.met_until = engine.ticks + TUNE_TRIED_TIMEOUTS * engine.config.core.election_timeout_ticks


cdef status_t feeding_heard_feeders(Engine* engine, member_id_t peer, const uint8_t* body,
                                    uint32_t length) noexcept nogil:
    cdef Feeder[FEEDERS_MAX] named
    cdef uint32_t count, chosen, i
    cdef uint32_t kept = 0
    cdef status_t status = feeders_decode(body, length, named, &count)
    if status != OK:
        return status
    if not engine.config.core.is_observer or engine.core_status.feeder != peer:
        return OK
    for i in range(count):
        if _is_new(engine, &named[i]):
            if kept != i:
                named[kept] = named[i]
            kept += 1
    for i in range(min(kept, <uint32_t>TUNE_FEEDERS_TRIED)):
        chosen = i + <uint32_t>(engine.random.next(engine.random.self) % (kept - i))
        _try(engine, &named[chosen])
        if chosen != i:
            named[chosen] = named[i]
    return OK


# --- who follows through whom -----------------------------------------------------------------------------------------
# Drop what `via` told; 0: what everybody told who is fed here no more.
cdef void _forget(Engine* engine, member_id_t via) noexcept nogil:
    cdef Vec[Observed]* below = &engine.feeding.below
    cdef size_t kept = 0
    cdef size_t i
    for i in range(below.size):
        if below.data[i].via == via or (via == 0 and not _is_fed(&engine.core_status, below.data[i].via)):
            continue
        if kept != i:
            below.data[kept] = below.data[i]
        kept += 1
    engine.feeding.changes += kept != below.size
    below.size = kept


# An observer that has just moved stands in two reports for a while. The later report is right.
cdef void _forget_one(Vec[Observed]* below, size_t end, member_id_t id) noexcept nogil:
    cdef size_t i
    for i in range(end):
        if below.data[i].id == id:
            below.data[i].id = 0
            return


# Entries behind this node's log, of an observer that is fed here; it asked last when it had `last`.
cdef uint64_t _lag_of(const Engine* engine, member_id_t id) noexcept nogil:
    cdef const CoreStatus* core = &engine.core_status
    cdef uint32_t i
    for i in range(core.feed_count):
        if core.feeds[i].id == id:
            return core.committed - min(core.committed, core.feeds[i].index)
    return 0


cdef status_t feeding_heard_observers(Engine* engine, member_id_t peer, const uint8_t* body,
                                      uint32_t length) noexcept nogil:
    cdef Vec[Observed]* below = &engine.feeding.below
    cdef uint64_t lag = _lag_of(engine, peer)
    cdef size_t told, i, kept
    cdef status_t status
    if engine.core_status.feed_count == 0 or not _is_fed(&engine.core_status, peer):
        return OK
    _forget(engine, peer)
    told = below.size
    status = observers_decode(body, length, below)
    if status != OK:
        return status
    kept = told
    for i in range(told, below.size):
        if below.data[i].id == engine.id or _is_fed(&engine.core_status, below.data[i].id):
            continue
        _forget_one(below, kept, below.data[i].id)
        below.data[kept] = below.data[i]
        below.data[kept].via = peer
        below.data[kept].lag = min(below.data[i].lag + lag, number_max())
        kept += 1
    below.size = kept
    kept = 0
    for i in range(below.size):
        if below.data[i].id != 0 and kept < OBSERVERS_MAX:
            below.data[kept] = below.data[i]
            kept += 1
    below.size = kept
    engine.feeding.changes += 1
    return OK


cdef void _report(Engine* engine) noexcept nogil:
    cdef const CoreStatus* core = &engine.core_status
    cdef Vec[Observed]* below = &engine.feeding.below
    cdef size_t told = below.size
    cdef int feeder = link_of_member(&engine.links, core.feeder)
    cdef Observed one
    cdef uint32_t i
    cdef int place
    if feeder < 0:
        return
    # Those that this node feeds stand behind `told` for a moment.
    for i in range(core.feed_count):
        place = link_of_member(&engine.links, core.feeds[i].id)
        if place < 0:
            continue
        memset(&one, 0, sizeof(Observed))
        one.id = core.feeds[i].id
        one.feeder = engine.id
        one.last = core.feeds[i].index
        one.lag = _lag_of(engine, one.id)
        one.name_length = engine.links.table[place].name_length
        memcpy(one.name, engine.links.table[place].name, one.name_length)
        if not below.push(one):
            break
    send_observers(engine, feeder, below.data + (below.size - min(below.size, <size_t>OBSERVERS_MAX)),
                   <uint32_t>min(below.size, <size_t>OBSERVERS_MAX))
    below.size = told


cdef void feeding_tick(Engine* engine) noexcept nogil:
    if engine.feeding.below.size != 0:
        _forget(engine, 0)
    if (engine.config.core.is_observer and engine.core_status.feeder != 0
            and engine.ticks % (TUNE_REPORT_TIMEOUTS * <uint64_t>engine.config.core.election_timeout_ticks) == 0):
        _report(engine)


cdef void feeding_release(Feeding* feeding) noexcept nogil:
    feeding.below.release()
