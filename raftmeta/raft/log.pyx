"""The log; log.pxd has its pointers, its shape and its limits."""
from libc.stdint cimport UINT64_MAX, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from raftmeta.native.chunks cimport Chunk, Slice, chunk_create, chunk_drop, chunk_hold
from raftmeta.native.containers cimport Vec
from raftmeta.native.marks cimport MARK_DAMAGED_TAIL_TRUNCATED, MARK_REPAIRED_BEFORE_OTHERS, mark
from raftmeta.raft.invariants cimport (BROKEN_APPLIED_BEYOND_COMMITTED, BROKEN_APPLIED_BEYOND_PERSISTED, BROKEN_CHAIN,
                                       BROKEN_COMMITTED_BEYOND_LAST, BROKEN_COMPACTED_BEYOND_SNAPSHOTTED,
                                       BROKEN_PERSISTED_BEYOND_STAGED, BROKEN_PLACES,
                                       BROKEN_SNAPSHOTTED_BEYOND_APPLIED, BROKEN_STAGED_BEYOND_LAST)
from raftmeta.raft.record cimport (RECORD_BYTES_MAX, RECORD_HEAD_BYTES, RecordPtr, chain_hash, record_bytes,
                                   record_check, record_payload, record_seal)
from raftmeta.raft.types cimport FORMAT_RECORD_VERSION, Record, SnapshotPoint, index_t, term_t
from raftmeta.status cimport BAD_FIELD, BAD_LENGTH, CORRUPT, NO_MEMORY, OK, STALE, status_t

cdef enum:
    TUNE_SPARES_MAX = 16
    TUNE_SPARES_TICKS = 100     # a second, while slow writes still fill a chunk now and then


# --- life -------------------------------------------------------------------------------------------------------------
cdef void log_init(Log* log, uint32_t chunk_bytes) noexcept nogil:
    memset(log, 0, sizeof(Log))
    log.chunk_bytes = chunk_bytes
    log.must_start_run = True


cdef void log_release(Log* log) noexcept nogil:
    _drop_runs(log)
    chunk_drop(log.open)
    log.open = NULL
    while log.spares.size:
        _give_back_spare(log)
    log.spares.release()
    log.places.release()
    log.runs.release()
    log.spans.release()
    log.damages.release()


cdef void _drop_runs(Log* log) noexcept nogil:
    while log.runs.size:
        _drop_chunk(log, log.runs.back().chunk)
        log.runs.pop_back()


cdef void _give_back_spare(Log* log) noexcept nogil:
    chunk_drop(log.spares.back())
    log.spares.pop()


# Keep arena chunks that nobody reads any more for the next records. Fresh memory costs a page fault every 4 KiB, more
# than the records themselves cost. When none was needed for a while they leave, one with each tick.
cdef void _drop_chunk(Log* log, Chunk* chunk) noexcept nogil:
    if (chunk != NULL and chunk.holders == 1 and chunk.capacity == log.chunk_bytes
            and log.spares.size < TUNE_SPARES_MAX and log.spares.push(chunk)):
        chunk.used = 0
    else:
        chunk_drop(chunk)


cdef void log_tick(Log* log) noexcept nogil:
    log.idle_ticks += 1
    if log.spares.size and log.idle_ticks > TUNE_SPARES_TICKS:
        _give_back_spare(log)


cdef void log_begin(Log* log, const SnapshotPoint* point) noexcept nogil:
    _drop_runs(log)
    log.places.clear()
    log.spans.clear()
    log.damages.clear()
    log.compacted = log.snapshotted = log.applied = log.committed = point.index
    log.last = log.persisted = log.staged = log.written = log.offset = point.index
    log.compacted_term = point.term
    log.last_chain = log.offset_chain = point.chain
    log.offset_wall_ms = log.last_wall_ms
    log.offset_lease_ms = log.last_lease_ms = 0
    log.must_start_run = True


# --- reading ----------------------------------------------------------------------------------------------------------
cdef term_t log_term(Log* log, index_t index) noexcept nogil:
    cdef size_t low = 0, high = log.spans.size, middle
    if index == log.compacted:
        return log.compacted_term
    if index < log.compacted or index > log.last or high == 0:
        return 0
    if log.spans.back().first <= index:
        return log.spans.back().term
    while high - low > 1:
        middle = (low + high) // 2
        if log.spans.at(middle).first <= index:
            low = middle
        else:
            high = middle
    return log.spans.at(low).term


cdef term_t log_last_term(Log* log) noexcept nogil:
    return log_term(log, log.last)


cdef Record* log_record(Log* log, index_t index) noexcept nogil:
    if index <= log.offset or index > log.last:
        return NULL
    return log.places.at(index - log.offset - 1)


cdef bint log_chain(Log* log, index_t index, uint64_t* chain) noexcept nogil:
    cdef Record* record
    if index == log.last:
        chain[0] = log.last_chain
        return True
    if index == log.offset:
        chain[0] = log.offset_chain
        return True
    record = log_record(log, index)
    if record != NULL:
        chain[0] = record.chain
        return True
    return _damaged_chain(log, index, chain)


cdef bint _damaged_chain(Log* log, index_t index, uint64_t* chain) noexcept nogil:
    cdef size_t i
    for i in range(log.damages.size):
        if log.damages.at(i).index == index:
            chain[0] = log.damages.at(i).chain
            return True
    return False


cdef bint log_is_up_to_date(Log* log, index_t index, term_t term) noexcept nogil:
    # The later last term wins; with equal last terms the longer log (paper 5.4.1).
    cdef term_t own = log_last_term(log)
    return term > own or (term == own and index >= log.last)


cdef index_t log_find_conflict(Log* log, index_t index, term_t term) noexcept nogil:
    # One step per term and not per entry (paper 5.3, "the protocol can be optimized"). A damaged entry has no term to
    # compare, so the answer lies below it.
    cdef size_t i = log.spans.size
    if index > log.last:
        index = log.last
    while i > 0 and index > log.compacted:
        i -= 1
        if log.spans.at(i).first > index:
            continue
        if log.spans.at(i).term != 0 and log.spans.at(i).term <= term:
            return index
        index = log.spans.at(i).first - 1
    return index if index > log.compacted else log.compacted


cdef index_t log_first_damaged(Log* log) noexcept nogil:
    return log.damages.at(0).index if log.damages.size else UINT64_MAX


# Position in runs of the run that holds index. The index must be in memory.
cdef size_t _run_of(Log* log, index_t index) noexcept nogil:
    cdef size_t low = 0, high = log.runs.size, middle
    if log.runs.back().first <= index:
        return high - 1
    while high - low > 1:
        middle = (low + high) // 2
        if log.runs.at(middle).first <= index:
            low = middle
        else:
            high = middle
    return low


cdef index_t _run_last(Log* log, size_t position) noexcept nogil:
    return log.runs.at(position + 1).first - 1 if position + 1 < log.runs.size else log.last


# Bytes of all records before `index`, counted as Run.base_bytes; index in [offset + 1, last + 1].
cdef uint64_t _bytes_before(Log* log, index_t index) noexcept nogil:
    cdef Run* run
    cdef Record* record
    if index > log.last:
        return log.end_bytes
    run = &log.runs.at(_run_of(log, index))
    record = log.places.at(index - log.offset - 1)
    if record == NULL:
        return run.base_bytes
    return run.base_bytes + <uint64_t>(<uint8_t*>record - run.data)


cdef uint64_t log_bytes_between(Log* log, index_t low, index_t high) noexcept nogil:
    if low < log.offset:
        low = log.offset
    return _bytes_before(log, high + 1) - _bytes_before(log, low + 1) if high > low else 0


cdef uint64_t log_memory_bytes(Log* log) noexcept nogil:
    return log_bytes_between(log, log.offset, log.last)


cdef index_t log_slice(Log* log, index_t first, index_t last, uint32_t bytes_max, Slice* slice) noexcept nogil:
    cdef size_t position
    cdef index_t low, high, middle
    cdef Record* record = log_record(log, first)
    cdef Record* final
    if record == NULL:
        return 0
    position = _run_of(log, first)
    # Search the greatest index in [low, high) whose record ends within bytes_max.
    low = first
    high = _run_last(log, position) + 1
    if high > last + 1:
        high = last + 1
    while high - low > 1:
        middle = (low + high) // 2
        final = log.places.at(middle - log.offset - 1)
        if <uint64_t>(<uint8_t*>final - <uint8_t*>record) + record_bytes(final.length) <= bytes_max:
            low = middle
        else:
            high = middle
    final = log.places.at(low - log.offset - 1)
    slice.chunk = log.runs.at(position).chunk
    slice.data = <uint8_t*>record
    slice.length = <uint32_t>(<uint64_t>(<uint8_t*>final - <uint8_t*>record) + record_bytes(final.length))
    return low


cdef status_t log_slices(Log* log, index_t first, index_t last, Vec[Slice]* slices) noexcept nogil:
    cdef Slice slice
    cdef index_t end
    while first <= last:
        end = log_slice(log, first, last, <uint32_t>0x7FFFFFFF, &slice)
        if end == 0:
            return BAD_FIELD
        if not slices.push(slice):
            return NO_MEMORY
        chunk_hold(slice.chunk)
        first = end + 1
    return OK


# --- writing ----------------------------------------------------------------------------------------------------------
# Make sure that `open` has room for size more bytes.
cdef status_t _make_room(Log* log, uint64_t size) noexcept nogil:
    cdef Chunk* chunk
    if log.open != NULL and log.open.used + size <= log.open.capacity:
        return OK
    if size > <uint64_t>RECORD_BYTES_MAX * 2:
        return BAD_LENGTH
    log.idle_ticks = 0
    if log.spares.size and size <= log.chunk_bytes:
        chunk = log.spares.back()
        log.spares.pop()
    else:
        chunk = chunk_create(<uint32_t>size if size > log.chunk_bytes else log.chunk_bytes)
    if chunk == NULL:
        return NO_MEMORY
    chunk_drop(log.open)
    log.open = chunk
    log.must_start_run = True
    return OK


# Make the record at `record`, inside chunk, the new last one. NO_MEMORY: the log is as before.
cdef status_t _attach(Log* log, Chunk* chunk, Record* record) noexcept nogil:
    cdef Run run
    cdef TermSpan span
    cdef bint starts_span = log.spans.size == 0 or log.spans.back().term != record.term
    if log.must_start_run:
        run.chunk = chunk
        run.data = <uint8_t*>record
        run.first = record.index
        run.base_bytes = log.end_bytes
        if not log.runs.push(run):
            return NO_MEMORY
    if starts_span:
        span.first = record.index
        span.term = record.term
    if (starts_span and not log.spans.push(span)) or not log.places.push(record):
        if log.spans.size and log.spans.back().first == record.index:
            log.spans.pop_back()
        if log.must_start_run:
            log.runs.pop_back()
        return NO_MEMORY
    if log.must_start_run:
        chunk_hold(chunk)
        log.must_start_run = False
    log.end_bytes += record_bytes(record.length)
    log.last = record.index
    log.last_chain = record.chain
    log.last_wall_ms = record.wall_ms
    log.last_lease_ms = record.lease_ms
    return OK


cdef status_t log_append(Log* log, term_t term, uint8_t type, uint64_t wall_ms, uint64_t lease_ms,
                         const uint8_t* payload, uint32_t length) noexcept nogil:
    cdef uint64_t size = record_bytes(length)
    cdef Record* record
    cdef status_t status = _make_room(log, size)
    if status != OK:
        return status
    record = <Record*>(log.open.bytes() + log.open.used)
    record.length = length
    record.index = log.last + 1
    record.term = term
    record.wall_ms = wall_ms
    record.lease_ms = lease_ms
    record.reserved = 0
    record.group = 0
    record.type = type
    record.version = FORMAT_RECORD_VERSION
    record.flags = 0
    if length:
        memcpy(record_payload(record), payload, length)
    memset(record_payload(record) + length, 0, size - RECORD_HEAD_BYTES - length)
    record_seal(record, log.last_chain)
    status = _attach(log, log.open, record)
    if status == OK:
        log.open.used += <uint32_t>size
    return status


cdef status_t log_check_records(const uint8_t* bytes, uint32_t length, uint32_t count, index_t index, term_t term,
                                uint64_t chain, bint is_chain_known, term_t term_max) noexcept nogil:
    cdef const Record* record
    cdef uint64_t at = 0
    cdef uint32_t _i
    cdef status_t status
    for _i in range(count):
        status = record_check(bytes + at, length - at)
        if status != OK:
            return status
        record = <const Record*>(bytes + at)
        index += 1
        if record.index != index or record.term < term or record.term > term_max:
            return BAD_FIELD
        if is_chain_known and record.chain != chain_hash(chain, record):
            return CORRUPT
        term = record.term
        chain = record.chain
        is_chain_known = True
        at += record_bytes(record.length)
    return OK if at == length else BAD_LENGTH


cdef status_t log_append_records(Log* log, const Slice* records, uint32_t count, bint is_shared) noexcept nogil:
    cdef index_t old_last = log.last
    cdef uint8_t* bytes = records.data
    cdef Chunk* chunk = records.chunk
    cdef Record* record
    cdef uint32_t _i
    cdef status_t status
    if is_shared:
        log.must_start_run = True
    else:
        status = _make_room(log, records.length)
        if status != OK:
            return status
        chunk = log.open
        bytes = chunk.bytes() + chunk.used
        memcpy(bytes, records.data, records.length)
        chunk.used += records.length
    for _i in range(count):
        record = <Record*>bytes
        bytes += record_bytes(record.length)
        status = _attach(log, chunk, record)
        if status != OK:
            log_truncate(log, old_last + 1)
            return status
    if is_shared:
        log.must_start_run = True
    return OK


cdef status_t log_append_damaged(Log* log, index_t index, uint64_t chain) noexcept nogil:
    cdef Run run
    cdef TermSpan span
    cdef Damage damage
    if index != log.last + 1 or chain == 0:
        return BAD_FIELD
    run.chunk = NULL
    run.data = NULL
    run.first = index
    run.base_bytes = log.end_bytes
    span.first = index
    span.term = 0
    damage.index = index
    damage.chain = chain
    if not (log.runs.push(run) and log.spans.push(span) and log.damages.push(damage) and log.places.push(NULL)):
        return NO_MEMORY
    log.last = index
    log.last_chain = chain
    log.must_start_run = True
    return OK


cdef status_t log_repair(Log* log, const Slice* slice) noexcept nogil:
    cdef Record* record = <Record*>slice.data
    cdef uint64_t chain, previous
    cdef Chunk* chunk
    if record_check(slice.data, slice.length) != OK or not _damaged_chain(log, record.index, &chain):
        return STALE
    # The expected chain hash is the proof: it was written before the damage, and no other bytes give it.
    if record.chain != chain or (log_chain(log, record.index - 1, &previous) and chain_hash(previous, record) != chain):
        return STALE
    chunk = chunk_create(<uint32_t>record_bytes(record.length))
    if chunk == NULL:
        return NO_MEMORY
    chunk.used = chunk.capacity
    memcpy(chunk.bytes(), slice.data, chunk.used)
    _fill_damaged(log, chunk)
    return OK


# Put the sound record in `chunk` into its damaged place; the run there keeps the chunk.
cdef void _fill_damaged(Log* log, Chunk* chunk) noexcept nogil:
    cdef Record* record = <Record*>chunk.bytes()
    cdef RecordPtr* place = &log.places.at(record.index - log.offset - 1)
    cdef size_t i
    for i in range(log.runs.size):
        if log.runs.at(i).first == record.index:
            (&log.runs.at(i)).chunk = chunk
            (&log.runs.at(i)).data = chunk.bytes()
        elif log.runs.at(i).first > record.index:
            mark(MARK_REPAIRED_BEFORE_OTHERS)
            (&log.runs.at(i)).base_bytes += chunk.used
    log.end_bytes += chunk.used
    for i in range(log.spans.size):
        if log.spans.at(i).first == record.index:
            (&log.spans.at(i)).term = record.term
    for i in range(log.damages.size):
        if log.damages.at(i).index == record.index:
            _remove_damage(log, i)
            break
    place[0] = record
    if record.index == log.last:
        log.last_wall_ms = record.wall_ms
        log.last_lease_ms = record.lease_ms


cdef void _remove_damage(Log* log, size_t position) noexcept nogil:
    while position + 1 < log.damages.size:
        log.damages.data[position] = log.damages.data[position + 1]
        position += 1
    log.damages.pop()


cdef status_t log_truncate(Log* log, index_t first) noexcept nogil:
    cdef Record* record
    if first > log.last:
        return OK
    if first <= log.offset:
        return BAD_FIELD
    log_chain(log, first - 1, &log.last_chain)
    log.end_bytes = _bytes_before(log, first)
    while log.places.size > first - 1 - log.offset:
        log.places.pop_back()
    while log.runs.size and log.runs.back().first >= first:
        _drop_chunk(log, log.runs.back().chunk)
        log.runs.pop_back()
    while log.spans.size and log.spans.back().first >= first:
        log.spans.pop_back()
    while log.damages.size and log.damages.back().index >= first:
        mark(MARK_DAMAGED_TAIL_TRUNCATED)
        log.damages.pop()
    log.last = first - 1
    record = log_record(log, log.last)
    log.last_wall_ms = record.wall_ms if record != NULL else log.offset_wall_ms
    log.last_lease_ms = record.lease_ms if record != NULL else log.offset_lease_ms
    log.persisted = min(log.persisted, log.last)
    log.staged = min(log.staged, log.last)
    log.must_start_run = True
    return OK


# Entries at and below `index` leave memory. A run goes when none of its entries is left.
cdef void _leave_memory(Log* log, index_t index) noexcept nogil:
    cdef Record* record = log_record(log, index)
    if record != NULL:
        log.offset_chain = record.chain
        log.offset_wall_ms = record.wall_ms
        log.offset_lease_ms = record.lease_ms
    log.places.drop_front(index - log.offset)
    log.offset = index
    while log.runs.size and _run_last(log, 0) <= index:
        _drop_chunk(log, log.runs.front().chunk)
        log.runs.pop_front()
    if log.runs.size == 0:
        log.must_start_run = True


cdef void log_release_memory(Log* log, index_t through, uint64_t bytes_max) noexcept nogil:
    # Only whole runs go: half a chunk cannot be given back.
    while log.runs.size and log_memory_bytes(log) > bytes_max and _run_last(log, 0) <= through:
        _leave_memory(log, _run_last(log, 0))


cdef void log_compact(Log* log, index_t compact_to) noexcept nogil:
    if compact_to <= log.compacted:
        return
    log.compacted_term = log_term(log, compact_to)
    log.compacted = compact_to
    while log.spans.size > 1 and log.spans.at(1).first <= compact_to:
        log.spans.pop_front()
    while log.damages.size and log.damages.at(0).index <= compact_to:
        _remove_damage(log, 0)
    if compact_to > log.offset:
        _leave_memory(log, compact_to)


# --- invariants -------------------------------------------------------------------------------------------------------
cdef uint32_t log_check(Log* log, bint dear, uint64_t* a, uint64_t* b) noexcept nogil:
    if log.compacted > log.snapshotted:
        return _contradiction(BROKEN_COMPACTED_BEYOND_SNAPSHOTTED, log.compacted, log.snapshotted, a, b)
    if log.snapshotted > log.applied:
        return _contradiction(BROKEN_SNAPSHOTTED_BEYOND_APPLIED, log.snapshotted, log.applied, a, b)
    if log.applied > log.committed:
        return _contradiction(BROKEN_APPLIED_BEYOND_COMMITTED, log.applied, log.committed, a, b)
    if log.committed > log.last:
        return _contradiction(BROKEN_COMMITTED_BEYOND_LAST, log.committed, log.last, a, b)
    if log.persisted > log.staged:
        return _contradiction(BROKEN_PERSISTED_BEYOND_STAGED, log.persisted, log.staged, a, b)
    if log.staged > log.last:
        return _contradiction(BROKEN_STAGED_BEYOND_LAST, log.staged, log.last, a, b)
    if log.applied > log.persisted:
        return _contradiction(BROKEN_APPLIED_BEYOND_PERSISTED, log.applied, log.persisted, a, b)
    if log.places.size != log.last - log.offset or log.offset < log.compacted:
        return _contradiction(BROKEN_PLACES, log.places.size, log.last - log.offset, a, b)
    return _check_records(log, a, b) if dear else 0


cdef uint32_t _check_records(Log* log, uint64_t* a, uint64_t* b) noexcept nogil:
    cdef index_t index = log.offset + 1
    cdef uint64_t chain = log.offset_chain
    cdef Record* record
    while index <= log.last:
        record = log_record(log, index)
        if record == NULL:
            if not _damaged_chain(log, index, &chain):
                return _contradiction(BROKEN_PLACES, index, log.last, a, b)
        else:
            if record.index != index or record.term != log_term(log, index):
                return _contradiction(BROKEN_PLACES, record.index, index, a, b)
            if record.chain != chain_hash(chain, record):
                return _contradiction(BROKEN_CHAIN, index, record.chain, a, b)
            chain = record.chain
        index += 1
    if chain != log.last_chain:
        return _contradiction(BROKEN_CHAIN, chain, log.last_chain, a, b)
    return 0


cdef uint32_t _contradiction(uint32_t what, uint64_t first, uint64_t second, uint64_t* a, uint64_t* b) noexcept nogil:
    a[0] = first
    b[0] = second
    return what
