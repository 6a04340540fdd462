"""From committed records to results.

Order of one slice, which is the order that other threads may rely on:
    1. the machine applies records, in index order, and enqueues their events with the watches, which hide them,
    2. the new state is published: other threads read it from here on,
    3. events are shown, callers of this node get their results, reads that wait for this state are served.
So whoever is told of a write, or sees its event, can read it; and an event can be taken before its writer's call
returns (decisions/README.md "Watches"). While an entry is half applied nothing is published and nobody is told.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from raftmeta._core cimport Apply, core_applied
from raftmeta.engine.callers cimport callers_answer, callers_applied, callers_await, callers_serve_reads
from raftmeta.engine.housekeeping cimport housekeeping_keep_alive_applied
from raftmeta.engine.invariants cimport (BROKEN_APPLIED_AHEAD, BROKEN_APPLY_GAP, BROKEN_APPLY_LAST,
                                         BROKEN_APPLY_TORN, BROKEN_EVENT_ORDER, BROKEN_PUBLISHED_BACK,
                                         BROKEN_PUBLISHED_OTHER)
from raftmeta.engine.snapshots.taking cimport snapshots_applied, snapshots_hold_apply
from raftmeta.engine.state cimport Engine
from raftmeta.engine.state_check cimport divergence_is_point, state_check_applied
from raftmeta.engine.user_fetches cimport user_fetches_answer
from raftmeta.machine.machine cimport (APPLY_FATAL, APPLY_MORE, ApplyOutcome, ApplyResult, MachineStatus, machine_apply,
                                       machine_changes, machine_publish, machine_status)
from raftmeta.machine.watches cimport hub_publish, hub_show
from raftmeta.native.buggify cimport BUGGIFY_APPLY_OF_ONE, BUGGIFY_APPLY_POSTPONED, buggify
from raftmeta.native.chunks cimport Slice, chunk_drop, chunk_hold
from raftmeta.native.intrinsics cimport hash64
from raftmeta.native.invariants cimport broken
from raftmeta.native.prefetch cimport prefetch
from raftmeta.raft.record cimport record_bytes, record_payload
from raftmeta.raft.types cimport Record
from raftmeta.status cimport NO_MEMORY, OK, status_t

cdef enum:
    CACHE_LINE_BYTES = 64
    TUNE_ENTRIES_PER_CLOCK = 64     # applied between two looks at the clock (a look costs about 27 ns)


cdef status_t applier_take(Applying* applying, Broken* belief, const Apply* apply) noexcept nogil:
    cdef uint32_t i, offset
    cdef Slice slice
    cdef const Record* record
    for i in range(apply.slice_count):
        slice = apply.slices[i]
        offset = 0
        record = NULL
        while offset < slice.length:
            record = <const Record*>(slice.data + offset)
            if record.index > applying.queued:
                break
            offset += <uint32_t>record_bytes(record.length)
        if offset > slice.length:
            return broken(belief, BROKEN_APPLY_TORN, offset, slice.length)
        if offset == slice.length:
            continue
        if record.index != applying.queued + 1:
            return broken(belief, BROKEN_APPLY_GAP, record.index, applying.queued + 1)
        slice.data += offset
        slice.length -= offset
        chunk_hold(slice.chunk)
        if not applying.records.push(slice):
            chunk_drop(slice.chunk)
            return NO_MEMORY
        # A slice ends where the next one begins; the machine looks at each index again.
        applying.queued = apply.last
        if i + 1 != apply.slice_count:
            applying.queued = (<const Record*>apply.slices[i + 1].data).index - 1
    if apply.slice_count != 0 and applying.queued < apply.last:
        return broken(belief, BROKEN_APPLY_LAST, applying.queued, apply.last)
    return OK


cdef status_t _apply_one(Engine* engine, const Record* record, bint* is_done) noexcept nogil:
    cdef ApplyResult result
    cdef status_t status
    memset(&result, 0, sizeof(ApplyResult))
    cdef ApplyOutcome outcome = machine_apply(engine.machine, record, &result)
    is_done[0] = outcome != APPLY_MORE
    engine.applying.is_partial = outcome == APPLY_MORE
    if outcome == APPLY_FATAL:
        if result.status != NO_MEMORY:
            engine.applying.unapplied = record.index
        return result.status
    if outcome == APPLY_MORE:
        return OK
    engine.applying.applied = record.index
    engine.applying.must_publish = True
    engine.counters.entries_applied += 1
    status = snapshots_applied(engine, record)
    if status == OK and divergence_is_point(&engine.divergence, record.index):
        status = state_check_applied(engine, record.index)
    if status != OK:
        return status
    if result.changed != 0:
        if result.revision <= engine.hub.revision:
            return broken(&engine.promises.broken, BROKEN_EVENT_ORDER, result.revision, engine.hub.revision)
        status = hub_publish(engine.hub, result.revision, record.wall_ms, machine_changes(engine.machine),
                             result.changed)
        if status != OK:
            return status
    if result.session != 0 and result.session == engine.session.id:
        if result.sequence != 0:
            return callers_applied(engine, &result)
        elif result.status == OK:
            housekeeping_keep_alive_applied(engine, hash64(0, record_payload(record), record.length))
    elif callers_await(&engine.calls, result.session, result.sequence):
        return callers_applied(engine, &result)
    return OK


cdef status_t _apply_slice(Engine* engine) noexcept nogil:
    cdef Applying* applying = &engine.applying
    cdef uint64_t end_ns = 0
    cdef uint32_t until_clock = TUNE_ENTRIES_PER_CLOCK
    cdef const Record* record
    cdef const uint8_t* behind
    cdef bint is_done
    cdef status_t status
    while applying.records.size != 0 and not snapshots_hold_apply(engine):
        record = <const Record*>(applying.records.front().data + applying.offset)
        behind = <const uint8_t*>record + record_bytes(record.length)
        prefetch(behind)
        prefetch(behind + CACHE_LINE_BYTES)
        status = _apply_one(engine, record, &is_done)
        if status != OK:
            return status
        if is_done:
            applying.offset = <uint32_t>(behind - applying.records.front().data)
            if applying.offset > applying.records.front().length:
                return broken(&engine.promises.broken, BROKEN_APPLY_TORN, applying.offset,
                              applying.records.front().length)
            if applying.offset == applying.records.front().length:
                chunk_drop(applying.records.front().chunk)
                applying.records.pop_front()
                applying.offset = 0
            if buggify(BUGGIFY_APPLY_OF_ONE):
                break
        until_clock -= 1
        if until_clock == 0 or not is_done:
            until_clock = TUNE_ENTRIES_PER_CLOCK
            if end_ns == 0:
                end_ns = engine.now_ns + engine.config.apply_slice_ns
            if engine.clock.now_ns(engine.clock.self) >= end_ns:
                break
    return OK


cdef status_t applier_run(Engine* engine, bint* more) noexcept nogil:
    cdef uint64_t begun_ns, time_ns
    cdef status_t status
    if engine.applying.records.size != 0 and not buggify(BUGGIFY_APPLY_POSTPONED):
        begun_ns = engine.clock.now_ns(engine.clock.self)
        status = _apply_slice(engine)
        if status != OK:
            return status
        time_ns = engine.clock.now_ns(engine.clock.self) - begun_ns
        engine.counters.apply_time_ns += time_ns
        engine.counters.apply_time_ns_max = max(engine.counters.apply_time_ns_max, time_ns)
    more[0] = engine.applying.records.size != 0
    return OK if engine.applying.is_partial or not engine.applying.must_publish else _publish(engine)


cdef status_t _publish(Engine* engine) noexcept nogil:
    cdef MachineStatus machine
    cdef status_t status
    if engine.applying.applied < engine.applying.published:
        return broken(&engine.promises.broken, BROKEN_PUBLISHED_BACK, engine.applying.applied,
                      engine.applying.published)
    if engine.applying.applied > engine.applying.queued:
        return broken(&engine.promises.broken, BROKEN_APPLIED_AHEAD, engine.applying.applied, engine.applying.queued)
    status = machine_publish(engine.machine)
    engine.applying.must_publish = False
    engine.applying.published = engine.applying.applied
    if status == OK:
        status = core_applied(engine.core, engine.applying.applied)
    if status != OK:
        return status
    machine_status(engine.machine, &machine)
    if machine.applied != engine.applying.applied:
        return broken(&engine.promises.broken, BROKEN_PUBLISHED_OTHER, machine.applied, engine.applying.applied)
    hub_show(engine.hub, machine.revision)
    callers_answer(engine)
    callers_serve_reads(engine)
    user_fetches_answer(engine)
    return OK


cdef void applier_begin(Applying* applying, index_t index) noexcept nogil:
    applier_release(applying)
    applying.offset = 0
    applying.is_partial = False
    applying.must_publish = False
    applying.applied = applying.published = applying.queued = index


cdef void applier_release(Applying* applying) noexcept nogil:
    while applying.records.size != 0:
        chunk_drop(applying.records.front().chunk)
        applying.records.pop_front()
    applying.records.release()
