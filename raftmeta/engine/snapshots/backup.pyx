"""A sealed file outside of any node: bodies.

Sessions end with the old cluster: a client that still has one would have its commands told from those that were applied
by numbers of another time. They are remembered as ended, so that none is opened again by accident. Leases go on with
their full time, for nobody could keep them alive while there was no cluster.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from raftmeta.engine.snapshots.files cimport Taking, load_begin, load_release, load_step, take_release, take_step
from raftmeta.machine.leases cimport leases_find, leases_renew
from raftmeta.machine.machine cimport (MachineLimits, MachineStatus, machine_dump_begin, machine_dump_end,
                                       machine_dump_prepare, machine_status)
from raftmeta.machine.processes cimport processes_session_ended
from raftmeta.machine.sessions cimport sessions_end, sessions_find
from raftmeta.machine.state cimport Machine
from raftmeta.native.containers cimport Vec
from raftmeta.raft.genesis cimport FOUNDED, GenesisRecord
from raftmeta.raft.membership cimport membership_encode
from raftmeta.raft.types cimport HardState
from raftmeta.status cimport CORRUPT, INCOMPLETE, NO_MEMORY, NOT_FOUND, OK
from raftmeta.storage.disk cimport real_disk_close, real_disk_open, real_disk_port
from raftmeta.storage.identity cimport Identity, identity_create, identity_destroy, identity_set_genesis
from raftmeta.storage.sealed cimport SealedReader, sealed_close, sealed_next, sealed_open_to_check
from raftmeta.storage.wal cimport WalOpened, wal_begin, wal_create, wal_destroy, wal_open, wal_open_done
from raftmeta.storage.wal_state cimport Wal

cdef enum:
    TUNE_PREPARE_RECORDS = 100_000
    TUNE_CHUNK_BYTES = 1024 * 1024
    VALUE_BYTES_MAX = 1 << 30       # limits bind commands, and none is applied here
    SESSION_WINDOW = 1


# --- reading ----------------------------------------------------------------------------------------------------------
cdef status_t backup_load(Backup* backup, const char* folder, const char* name, void* keys) noexcept nogil:
    cdef MachineLimits limits
    cdef status_t status
    memset(<void*>backup, 0, sizeof(Backup))
    memset(&limits, 0, sizeof(limits))
    limits.value_bytes_max = VALUE_BYTES_MAX
    limits.session_window = SESSION_WINDOW
    limits.changes_per_slice = 1
    status = real_disk_open(&backup.disk, folder)
    backup.port = real_disk_port(&backup.disk)
    backup.port.keys = keys
    if status == OK:
        status = load_begin(&backup.loading, &backup.port, name, &limits)
    while status == OK and not backup.loading.is_done:
        status = load_step(&backup.loading)
    return status


cdef status_t backup_check(const char* folder, const char* name) noexcept nogil:
    cdef RealDisk disk
    cdef DiskPort port
    cdef SealedReader reader
    cdef const uint8_t* records = NULL
    cdef uint32_t length = 0
    cdef status_t status = real_disk_open(&disk, folder)
    memset(<void*>&reader, 0, sizeof(SealedReader))
    port = real_disk_port(&disk)
    if status == OK:
        status = sealed_open_to_check(&reader, &port, name)
    while status == OK:
        status = sealed_next(&reader, &records, &length)
    sealed_close(&reader)
    real_disk_close(&disk)
    if status == NOT_FOUND:             # behind the last chunk
        return OK
    return CORRUPT if status == INCOMPLETE else status


cdef void backup_close(Backup* backup) noexcept nogil:
    load_release(&backup.loading)
    real_disk_close(&backup.disk)


# --- what changes with the cluster ------------------------------------------------------------------------------------
cdef status_t _end_sessions(Machine* machine) noexcept nogil:
    cdef uint64_t id
    while machine.sessions.deadlines.heap.size != 0:
        id = machine.sessions.deadlines.heap.data[0].id
        processes_session_ended(&machine.processes, id)
        if not sessions_end(&machine.sessions, sessions_find(&machine.sessions, id)):
            return NO_MEMORY
    return OK


cdef status_t _renew_leases(Machine* machine) noexcept nogil:
    cdef Vec[uint64_t] ids
    cdef status_t status = OK
    cdef size_t i
    memset(&ids, 0, sizeof(ids))
    for i in range(machine.leases.deadlines.heap.size):     # renewing reorders the heap
        if not ids.push(machine.leases.deadlines.heap.data[i].id):
            status = NO_MEMORY
    if status == OK:
        for i in range(ids.size):
            leases_renew(&machine.leases, leases_find(&machine.leases, ids.data[i]), machine.lease_ms)
    ids.release()
    return status


# --- writing ----------------------------------------------------------------------------------------------------------
cdef status_t _fill_header(Backup* backup, const BackupTarget* target, Taking* taking) noexcept nogil:
    cdef MachineStatus state
    cdef status_t status
    machine_status(backup.loading.machine, &state)
    taking.machine = backup.loading.machine
    taking.chunk_bytes = TUNE_CHUNK_BYTES
    taking.state_hash = state.state_hash
    taking.header = backup.loading.reader.header
    taking.file.point = taking.header.point
    taking.header.cluster_low = target.cluster.low
    taking.header.cluster_high = target.cluster.high
    # The membership is as old as the state: no entry of the log behind it needs to name anybody.
    taking.header.membership_index = taking.header.point.index
    status = membership_encode(&target.membership, &taking.membership)
    taking.header.membership_length = <uint32_t>taking.membership.size
    return status


cdef status_t _write_state(Backup* backup, const BackupTarget* target, const DiskPort* disk) noexcept nogil:
    cdef Taking taking
    cdef bint is_prepared = False
    cdef status_t status
    memset(<void*>&taking, 0, sizeof(Taking))
    status = _fill_header(backup, target, &taking)
    if status == OK:
        status = machine_dump_begin(taking.machine, &taking.dump)
    while status == OK and not is_prepared:
        status = machine_dump_prepare(taking.machine, &taking.dump, TUNE_PREPARE_RECORDS, &is_prepared)
    while status == OK and not taking.is_done:
        status = take_step(&taking, disk)
    machine_dump_end(backup.loading.machine, &taking.dump)
    take_release(&taking)
    return status


cdef status_t _write_log(Backup* backup, const BackupTarget* target, const DiskPort* disk) noexcept nogil:
    cdef HardState hard_state
    cdef Vec[uint8_t] membership
    cdef WalOpened opened
    cdef Wal* wal = wal_create(disk, &target.log, 0)
    cdef status_t status
    if wal == NULL:
        return NO_MEMORY
    memset(&hard_state, 0, sizeof(HardState))
    memset(&membership, 0, sizeof(membership))
    memset(&opened, 0, sizeof(WalOpened))
    hard_state.term = backup.loading.reader.header.point.term
    hard_state.committed = backup.loading.reader.header.point.index
    status = membership_encode(&target.membership, &membership)
    if status == OK:
        status = wal_open(wal, &opened)     # of an empty folder: nothing is there
        wal_open_done(wal)
    if status == OK:
        status = wal_begin(wal, &backup.loading.reader.header.point, &hard_state, membership.data,
                           <uint32_t>membership.size, backup.loading.reader.header.point.index)
    membership.release()
    wal_destroy(wal)
    return status


cdef status_t _write_identity(const BackupTarget* target, const DiskPort* disk) noexcept nogil:
    cdef GenesisRecord genesis
    cdef Identity* identity = identity_create(disk, target.name, target.name_length, target.cluster_name,
                                              target.cluster_name_length)
    cdef status_t status
    if identity == NULL:
        return NO_MEMORY
    memset(&genesis, 0, sizeof(GenesisRecord))
    genesis.state = FOUNDED
    genesis.cluster_low = target.cluster.low
    genesis.cluster_high = target.cluster.high
    genesis.membership = target.membership
    identity.id = target.id
    status = identity_set_genesis(identity, &genesis)
    identity_destroy(identity)
    return status


cdef status_t backup_restore(Backup* backup, const char* folder, const BackupTarget* target,
                             void* keys) noexcept nogil:
    cdef RealDisk disk
    cdef DiskPort port
    cdef status_t status
    memset(<void*>&disk, 0, sizeof(RealDisk))
    status = real_disk_open(&disk, folder)
    port = real_disk_port(&disk)
    port.keys = keys
    if status == OK:
        status = _end_sessions(backup.loading.machine)
    if status == OK:
        status = _renew_leases(backup.loading.machine)
    if status == OK:
        status = _write_state(backup, target, &port)
    if status == OK:
        status = _write_log(backup, target, &port)
    if status == OK:
        status = _write_identity(target, &port)
    real_disk_close(&disk)
    return status
