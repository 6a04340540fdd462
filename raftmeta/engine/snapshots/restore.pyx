"""The state at boot.

It decides which copy of the state is the newest whole one. It must never believe a copy that it has not
read to its end, or remove the last one that is there.

A damaged copy is told and passed over; the one before it and the log, which is kept back to it, lead to the same state.
Where neither does, boot begins anew, and another member's snapshot brings the state (decisions/README.md "Snapshots").
"""

from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memset

from raftmeta.engine.snapshots.checkpoint cimport CheckpointHead
from raftmeta.engine.snapshots.files cimport (Loading, is_leftover, load_begin, load_release, load_step, loaded_file,
                                              opened_file, remove_sealed, sealed_index, sealed_name)
from raftmeta.engine.state cimport EVENT_SNAPSHOT_DAMAGED, EVENT_SNAPSHOT_LOADED
from raftmeta.machine.load cimport machine_load_chunk, machine_load_done
from raftmeta.machine.machine cimport MachineStatus, machine_create, machine_destroy, machine_status
from raftmeta.machine.state cimport Machine
from raftmeta.native.chunks cimport Slice
from raftmeta.ports cimport FILE_NAME_BYTES_MAX, DiskPort, FileName
from raftmeta.raft.record cimport record_bytes
from raftmeta.raft.types cimport Record
from raftmeta.status cimport (CORRUPT, DISK_FAILED, FOREIGN_CLUSTER, INCOMPLETE, NEWER_FORMAT, NO_KEY, NO_MEMORY,
                              NOT_FOUND, OK)
from raftmeta.storage.sealed cimport SealedReader, sealed_close, sealed_open
from raftmeta.wire.snapshot_messages cimport SnapshotFile

cdef enum:
    FILES_KEPT = 2              # as engine/snapshots/taking: the newest, and one to fall back to


# --- the folder -------------------------------------------------------------------------------------------------------
# Sealed files by index, the newest first; leftovers are removed.
cdef status_t _look(Engine* engine, Vec[index_t]* found) noexcept nogil:
    cdef DiskPort* disk = &engine.disk
    cdef Vec[FileName] names
    cdef index_t index
    cdef size_t i, place
    cdef bint is_changed = False
    memset(&names, 0, sizeof(names))
    cdef status_t status = disk.list_names(disk.self, &names)
    for i in range(names.size):
        if status != OK:
            break
        if is_leftover(names.data[i].text):
            status = disk.remove(disk.self, names.data[i].text)
            is_changed = True
        index = sealed_index(names.data[i].text)
        if status != OK or index == 0:
            continue
        if not found.push(index):
            status = NO_MEMORY
            break
        place = found.size - 1
        while place > 0 and found.data[place - 1] < index:
            found.data[place] = found.data[place - 1]
            place -= 1
        found.data[place] = index
    names.release()
    return disk.sync_directory(disk.self) if status == OK and is_changed else status


cdef status_t restore_forget(Engine* engine) noexcept nogil:
    cdef Vec[index_t] found
    cdef size_t i
    memset(&found, 0, sizeof(found))
    cdef status_t status = _look(engine, &found)
    for i in range(found.size):
        if status == OK:
            status = remove_sealed(&engine.disk, found.data[i])
    found.release()
    engine.snapshots.files.clear()
    _take_machine(engine, NULL)
    if status == OK and engine.checkpoints.self != NULL:
        status = engine.checkpoints.forget(engine.checkpoints.self)
    return status


# --- a sealed file ----------------------------------------------------------------------------------------------------
cdef status_t _read_sealed(Engine* engine, index_t index, Loading* loading) noexcept nogil:
    cdef char[FILE_NAME_BYTES_MAX + 1] name
    cdef status_t status
    sealed_name(index, name)
    status = load_begin(loading, &engine.disk, name, &engine.config.machine)
    while status == OK and not loading.is_done:
        status = load_step(loading)
    if status == OK and (loading.reader.header.cluster_low != engine.cluster.low
                         or loading.reader.header.cluster_high != engine.cluster.high):
        status = FOREIGN_CLUSTER
    return status


cdef status_t _take_sealed(Engine* engine, Loading* loading, Restored* restored) noexcept nogil:
    restored.is_checkpoint = False
    restored.point = loading.reader.header.point
    restored.wall_ms = loading.reader.header.wall_ms
    restored.membership_index = loading.reader.header.membership_index
    restored.membership.clear()
    if not restored.membership.append(loading.reader.membership.data, loading.reader.membership.size):
        return NO_MEMORY
    _take_machine(engine, loading.machine)
    loading.machine = NULL
    return OK


cdef void _take_machine(Engine* engine, Machine* machine) noexcept nogil:
    machine_destroy(engine.machine)
    engine.machine = machine


cdef status_t _load_sealed(Engine* engine, index_t index, Restored* restored, SnapshotFile* file) noexcept nogil:
    cdef Loading loading
    memset(<void*>&loading, 0, sizeof(Loading))
    cdef status_t status = _read_sealed(engine, index, &loading)
    if status == OK:
        loaded_file(&loading, file)
        status = _take_sealed(engine, &loading, restored)
    load_release(&loading)
    return status


# A file that is not needed now: its two ends are sound. A reader checks the rest.
cdef status_t _know_sealed(Engine* engine, index_t index, SnapshotFile* file) noexcept nogil:
    cdef char[FILE_NAME_BYTES_MAX + 1] name
    cdef SealedReader reader
    cdef status_t status
    sealed_name(index, name)
    status = sealed_open(&reader, &engine.disk, name)
    if status != OK:
        return CORRUPT if status == INCOMPLETE else status
    opened_file(&reader, file)
    sealed_close(&reader)
    return OK


# --- the checkpoint ---------------------------------------------------------------------------------------------------
cdef status_t _load_checkpoint(Engine* engine, Machine* machine, const CheckpointHead* head) noexcept nogil:
    cdef const uint8_t* records = NULL
    cdef uint32_t length = 0
    cdef MachineStatus loaded
    cdef status_t status = OK
    while status == OK:
        status = engine.checkpoints.next(engine.checkpoints.self, &records, &length)
        if status == OK and machine_load_chunk(machine, records, length) != OK:
            return CORRUPT
    if status != NOT_FOUND:
        return status
    if machine_load_done(machine) != OK:
        return CORRUPT
    machine_status(machine, &loaded)
    return OK if loaded.applied == head.point.index else <status_t>CORRUPT


cdef status_t _restore_checkpoint(Engine* engine, Restored* restored) noexcept nogil:
    cdef CheckpointHead head = restored.head
    cdef Machine* machine
    cdef status_t status = restored.checkpoint_status
    if status != OK:
        return OK if status == NOT_FOUND else status
    if head.cluster.low != engine.cluster.low or head.cluster.high != engine.cluster.high:
        return FOREIGN_CLUSTER
    restored.point = head.point
    restored.wall_ms = head.wall_ms
    restored.membership_index = head.membership_index
    if not restored.membership.append(head.membership, head.membership_length):
        return NO_MEMORY
    machine = machine_create(&engine.config.machine)
    if machine == NULL:
        return NO_MEMORY
    status = _load_checkpoint(engine, machine, &head)
    if status == OK:
        _take_machine(engine, machine)
        restored.is_checkpoint = True
        return OK
    machine_destroy(machine)
    memset(&restored.point, 0, sizeof(SnapshotPoint))
    restored.membership.clear()
    return status


# --- which one --------------------------------------------------------------------------------------------------------
# What another copy of the state can make up for. Unreadable is not lost: the next try may succeed, so nothing is
# thrown away for it (docs/decisions/log.md D6).
cdef bint _is_damage(Restored* restored, status_t status) noexcept nogil:
    restored.has_unreadable = restored.has_unreadable or status == DISK_FAILED
    return status == CORRUPT or status == FOREIGN_CLUSTER or status == DISK_FAILED


cdef status_t restore_look(Engine* engine, Restored* restored) noexcept nogil:
    cdef Vec[FileName] names
    cdef SnapshotFile file
    cdef size_t i
    if engine.checkpoints.self == NULL:
        return OK
    restored.checkpoint_status = engine.checkpoints.open(engine.checkpoints.self, &restored.head)
    cdef status_t found = restored.checkpoint_status
    cdef status_t status = OK
    memset(&names, 0, sizeof(names))
    engine.disk.list_names(engine.disk.self, &names)
    for i in range(names.size + 1):
        if found == NEWER_FORMAT or found == NO_KEY:
            status = found
        elif i < names.size and sealed_index(names.data[i].text) != 0:
            found = _know_sealed(engine, sealed_index(names.data[i].text), &file)
    names.release()
    return status


cdef void restore_checkpoint(Engine* engine, Restored* restored) noexcept nogil:
    if engine.checkpoints.self != NULL:
        restored.checkpoint_status = _restore_checkpoint(engine, restored)


cdef status_t _judge_checkpoint(Engine* engine, Restored* restored) noexcept nogil:
    cdef status_t status = restored.checkpoint_status
    if _is_damage(restored, status):
        engine.callers.event(engine.callers.self, EVENT_SNAPSHOT_DAMAGED, 0, status, 0)
        return OK
    return status


# Load it if it is newer than what there is; else know it as one that members may fetch.
cdef status_t _try_sealed(Engine* engine, index_t index, Restored* restored) noexcept nogil:
    cdef SnapshotFile file
    cdef status_t status
    if index > restored.point.index:
        status = _load_sealed(engine, index, restored, &file)
    else:
        status = _know_sealed(engine, index, &file)
    if status == OK:
        return OK if engine.snapshots.files.push(file) else <status_t>NO_MEMORY
    if not _is_damage(restored, status):
        return status
    restored.passed_over = max(restored.passed_over, index)
    engine.callers.event(engine.callers.self, EVENT_SNAPSHOT_DAMAGED, index, status, 0)
    return OK


# The newest two that are whole; when there is one, all others go.
#
# Beside a checkpoint no older file is kept: nobody would read it to its end before it is offered to a member, which
# would fetch a damaged one again and again. One that is needed is taken anew.
cdef status_t _try_files(Engine* engine, const Vec[index_t]* found, Restored* restored) noexcept nogil:
    cdef Vec[SnapshotFile]* files = &engine.snapshots.files
    cdef index_t checkpointed = restored.point.index
    cdef status_t status = OK
    cdef size_t i
    for i in range(found.size):
        if status == OK and files.size < FILES_KEPT and found.data[i] > checkpointed:
            status = _try_sealed(engine, found.data[i], restored)
    if files.size == FILES_KEPT:
        files.push(files.data[0])       # there is room: now in order of index
        files.drop_front(1)
    for i in range(found.size):
        if (status == OK and files.size + checkpointed != 0 and not restored.has_unreadable
                and not _is_known(files, found.data[i])):
            status = remove_sealed(&engine.disk, found.data[i])
    return status


cdef bint _is_known(const Vec[SnapshotFile]* files, index_t index) noexcept nogil:
    cdef size_t i
    for i in range(files.size):
        if files.data[i].point.index == index:
            return True
    return False


cdef status_t restore_state(Engine* engine, Restored* restored) noexcept nogil:
    cdef Vec[index_t] found
    cdef MachineStatus machine
    cdef status_t status
    memset(&found, 0, sizeof(found))
    status = _look(engine, &found)
    if status == OK:
        status = _judge_checkpoint(engine, restored)
    if status == OK:
        status = _try_files(engine, &found, restored)
    found.release()
    if status != OK or restored.point.index == 0:
        return status
    machine_status(engine.machine, &machine)
    restored.lease_ms = machine.lease_ms
    engine.callers.event(engine.callers.self, EVENT_SNAPSHOT_LOADED, restored.point.index, 0, 0)
    return OK


cdef void restored_release(Restored* restored) noexcept nogil:
    restored.membership.release()


# --- and the log ------------------------------------------------------------------------------------------------------
cdef bint _is_chain_of(const Slice* slice, index_t index, uint64_t chain, bint* is_known) noexcept nogil:
    cdef const Record* record
    cdef uint32_t offset = 0
    while offset < slice.length:
        record = <const Record*>(slice.data + offset)
        if record.index == index:
            is_known[0] = True
            return record.chain == chain
        offset += <uint32_t>record_bytes(record.length)
    return False


cdef bint restored_continues(const Restored* restored, const WalOpened* opened) noexcept nogil:
    cdef index_t index = restored.point.index
    cdef bint is_known = False
    cdef bint is_same = False
    cdef size_t i
    if index == 0:
        return True
    if index == opened.start.index:
        return opened.start.chain == restored.point.chain
    if index < opened.start.index or index > opened.last:
        return False
    for i in range(opened.slice_count):
        if not is_known and (i + 1 == opened.slice_count
                             or (<const Record*>opened.slices[i + 1].data).index > index):
            is_same = _is_chain_of(&opened.slices[i], index, restored.point.chain, &is_known)
    for i in range(opened.damaged_count):
        if opened.damaged[i].index == index:
            return opened.damaged[i].chain == restored.point.chain
    return is_same
