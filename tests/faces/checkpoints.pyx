"""The checkpoint port of a node for tests: called as the engine calls it, with a machine of the test's own."""
cimport cython
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from raftmeta.engine.snapshots.checkpoint cimport CheckpointHead, CheckpointPort
from raftmeta.face.checkpoints cimport Checkpoints
from raftmeta.loop.checkpoint_handover cimport handover_port
from raftmeta.machine.dump cimport Dump, machine_dump_begin, machine_dump_end, machine_dump_prepare
from raftmeta.machine.machine cimport MachineStatus, machine_status
from raftmeta.machine.machine_handle cimport MachineHandle
from raftmeta.status cimport NOT_READY, OK, status_t


cdef enum:
    PREPARE_RECORDS = 1000


# Its fields must still be there when a test has failed and its frames are collected as a cycle.
@cython.no_gc_clear
cdef class CheckpointPortHandle:
    cdef Checkpoints checkpoints
    cdef CheckpointPort port
    cdef Dump dump
    cdef MachineHandle machine

    def __cinit__(self, data_dir):
        self.dump.cursor = NULL
        self.checkpoints = Checkpoints(data_dir)
        self.port = handover_port(self.checkpoints.handover)
        self.checkpoints.start()

    def __dealloc__(self):
        self.checkpoints.stop(10)
        if self.machine is not None:
            machine_dump_end(self.machine.machine, &self.dump)

    def open(self):
        cdef CheckpointHead head
        cdef status_t status
        memset(<void*>&head, 0, sizeof(CheckpointHead))
        with nogil:
            status = self.port.open(self.port.self, &head)
        return status, (head.point.index, head.point.term, head.membership[:head.membership_length])

    def next(self):
        cdef const uint8_t* records = NULL
        cdef uint32_t length = 0
        cdef status_t status
        with nogil:
            status = self.port.next(self.port.self, &records, &length)
        return status, records[:length] if status == OK else b""

    def forget(self):
        cdef status_t status
        with nogil:
            status = self.port.forget(self.port.self)
        return status

    def begin_from(self, MachineHandle machine not None, *, bint is_kept):
        self.port.begin_from(self.port.self, machine.machine, is_kept)
        self.machine = machine

    def take(self, uint64_t term, bytes membership not None, *, uint32_t turn = 0):
        cdef MachineStatus state
        cdef CheckpointHead head
        cdef bint is_prepared = False
        cdef status_t status
        memset(<void*>&head, 0, sizeof(CheckpointHead))
        machine_status(self.machine.machine, &state)
        head.point.index = state.applied
        head.point.term = term
        head.state_hash = state.state_hash
        head.feature_level = state.feature_level
        head.membership_length = <uint32_t>len(membership)
        head.membership = <const uint8_t*>membership
        head.turn = turn
        status = machine_dump_begin(self.machine.machine, &self.dump)
        while status == OK and not is_prepared:
            status = machine_dump_prepare(self.machine.machine, &self.dump, PREPARE_RECORDS, &is_prepared)
        if status == OK:
            status = self.port.take(self.port.self, &head, self.machine.machine, &self.dump)
        return status

    def poll(self):
        cdef status_t status = self.port.poll(self.port.self)
        if status != NOT_READY:
            machine_dump_end(self.machine.machine, &self.dump)
        return status

    def tick(self):
        self.port.tick(self.port.self)

    def stop(self, double timeout_s):
        return self.checkpoints.stop(timeout_s)

    @property
    def layers(self):
        manifest = self.checkpoints.store.manifest
        return [] if manifest is None else [layer.kind for layer in manifest.layers]
