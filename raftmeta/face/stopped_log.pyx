"""The log of a folder whose node will not run, and the way of its entries into a machine; the engine never uses it."""
from collections import namedtuple

from libc.stdint cimport uint8_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from raftmeta.machine.machine cimport APPLY_FATAL, APPLY_MORE, ApplyOutcome, ApplyResult, machine_apply, machine_publish
from raftmeta.machine.machine_handle cimport MachineHandle
from raftmeta.machine.state cimport FORMAT_SESSION_WINDOW_MAX, FORMAT_VALUE_BYTES_MAX, Machine
from raftmeta.native.containers cimport Vec
from raftmeta.raft.record cimport chain_hash, record_payload
from raftmeta.raft.types cimport ENTRY_MEMBERSHIP, Record, SnapshotPoint, index_t
from raftmeta.security.cipher_handle cimport KeyRingHandle
from raftmeta.status cimport INVARIANT_BROKEN, NO_MEMORY, OK, status_t
from raftmeta.storage.salvage cimport (Salvage, SalvageFile, salvage_last, salvage_read, salvage_record,
                                       salvage_release)

cdef enum:
    TUNE_PUBLISHED_ENTRIES = 4096   # applied between two publications, which give memory back

# Every node of a cluster gives its machine these limits; its Config does not change them (face/start).
MACHINE_LIMITS = {"value_bytes_max": FORMAT_VALUE_BYTES_MAX, "session_window": FORMAT_SESSION_WINDOW_MAX}

Point = tuple[int, int, int]
Followed = namedtuple("Followed", "status point wall_ms membership membership_index chains")


# How far the entries of some logs lead on from a point.
cdef struct Following:
    const Salvage** logs        # of several sound records of an index the first log's is taken, if it follows
    size_t log_count
    Machine* machine            # NULL: entries are only followed
    index_t until               # the last index wanted
    SnapshotPoint point
    uint64_t wall_ms
    index_t membership_index    # 0: no entry on the way carried one
    Vec[uint8_t] membership
    Vec[uint64_t] chains        # of the entries on the way


# The entry behind the point whose hash says that it follows; NULL: no log has it.
cdef const Record* _next(const Following* following) noexcept nogil:
    cdef index_t index = following.point.index + 1
    cdef const Record* record
    cdef uint64_t chain = 0
    cdef size_t i
    for i in range(following.log_count):
        record = <const Record*>salvage_record(following.logs[i], index, &chain)
        if record != NULL and record.chain == chain_hash(following.point.chain, record):
            return record
    return NULL


cdef status_t _apply(Following* following, const Record* record) noexcept nogil:
    cdef ApplyResult result
    cdef ApplyOutcome outcome = APPLY_MORE
    memset(&result, 0, sizeof(ApplyResult))
    while outcome == APPLY_MORE:
        outcome = machine_apply(following.machine, record, &result)
    if outcome == APPLY_FATAL:
        return result.status if result.status != OK else <status_t>INVARIANT_BROKEN
    return machine_publish(following.machine) if record.index % TUNE_PUBLISHED_ENTRIES == 0 else <status_t>OK


cdef status_t _follow(Following* following) noexcept nogil:
    cdef const Record* record
    cdef status_t status = OK
    while status == OK and following.point.index < following.until:
        record = _next(following)
        if record == NULL:
            break
        if following.machine != NULL:
            status = _apply(following, record)
        if status == OK and record.type == ENTRY_MEMBERSHIP:
            following.membership_index = record.index
            following.membership.clear()
            if not following.membership.append(record_payload(record), record.length):
                status = NO_MEMORY
        if status == OK and not following.chains.push(record.chain):
            status = NO_MEMORY
        if status == OK:
            following.point.index = record.index
            following.point.term = record.term
            following.point.chain = record.chain
            following.wall_ms = record.wall_ms
    return machine_publish(following.machine) if status == OK and following.machine != NULL else status


cdef class StoppedLog:
    cdef Salvage salvage
    cdef list held              # the bytes that `salvage` points into
    cdef KeyRingHandle keys     # and the keys

    def __cinit__(self, list files not None, bytes mark not None, *, uint64_t owner=0, uint64_t void_owner=0,
                  KeyRingHandle keys=None):
        cdef SalvageFile file
        cdef status_t status
        cdef const uint8_t* mark_bytes = <const uint8_t*>mark
        cdef uint64_t mark_length = <uint64_t>len(mark)
        memset(<void*>&self.salvage, 0, sizeof(Salvage))
        self.held = []
        self.keys = keys
        self.salvage.keys = keys.ring if keys is not None else NULL
        self.salvage.owner = owner
        self.salvage.void_owner = void_owner
        for number, content in sorted(files):
            self.held.append(content)
            file.number = number
            file.bytes = <const uint8_t*>(<bytes>content)
            file.length = <uint64_t>len(content)
            if not self.salvage.files.push(file):
                raise MemoryError
        with nogil:
            status = salvage_read(&self.salvage, mark_bytes, mark_length)
        self.status = status

    cdef readonly int status

    def __dealloc__(self):
        salvage_release(&self.salvage)

    @property
    def start(self):
        return self.salvage.start.index, self.salvage.start.term, self.salvage.start.chain

    @property
    def membership(self):
        return self.salvage.membership.data[: self.salvage.membership.size] if self.salvage.membership.size else b""

    @property
    def membership_index(self):
        return self.salvage.membership_index

    @property
    def first(self):
        return self.salvage.first

    @property
    def last(self):
        return salvage_last(&self.salvage)

    @property
    def committed(self):
        return self.salvage.committed

    @property
    def lost_batches(self):
        return self.salvage.lost_batches

    @property
    def foreign_files(self):
        return self.salvage.foreign_files

    def chain(self, index_t index):
        cdef uint64_t chain = 0
        cdef bint is_whole = salvage_record(&self.salvage, index, &chain) != NULL
        return chain, is_whole

    def record(self, index_t index):
        cdef uint64_t chain = 0
        cdef const Record* record = <const Record*>salvage_record(&self.salvage, index, &chain)
        if record == NULL:
            return None
        return (<const uint8_t*>record)[: sizeof(Record) + record.length]


def follow(list logs not None, point, *, MachineHandle machine=None, until=None):
    cdef Following following
    cdef status_t status
    cdef size_t i
    memset(<void*>&following, 0, sizeof(Following))
    following.until = ~<uint64_t>0 if until is None else <uint64_t>until
    following.point.index, following.point.term, following.point.chain = point
    if machine is not None:
        following.machine = machine.machine
    following.logs = <const Salvage**>malloc((len(logs) + 1) * sizeof(Salvage*))
    if following.logs == NULL:
        raise MemoryError
    for log in logs:
        following.logs[following.log_count] = &(<StoppedLog>log).salvage
        following.log_count += 1
    try:
        with nogil:
            status = _follow(&following)
        membership = b""
        if following.membership.size:
            membership = following.membership.data[: following.membership.size]
        return Followed(
            status,
            (following.point.index, following.point.term, following.point.chain),
            following.wall_ms,
            membership,
            following.membership_index,
            [following.chains.data[i] for i in range(following.chains.size)] if machine is None else [],
        )
    finally:
        free(following.logs)
        following.membership.release()
        following.chains.release()
