"""The simulated disk as a Python object, for tests; worlds use raftmeta/sim/world/disk directly."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.native.containers cimport Vec
from raftmeta.sim.world cimport disk as model
from raftmeta.status cimport OK
from raftmeta.storage.storage_handle cimport Disk

from tests.faces.storage import DiskCalls

FAULTS = ("cut_at_write", "cut_at_sync", "cut_after_sync", "fail_at_write", "fail_at_sync", "fail_at_read",
          "lose_at_write", "misdirect_at_write", "misdirect_by", "no_space_at_write", "capacity_bytes")


# Of the files on all disks that are made from now on.
_keys = None


def use_keys_on_new_disks(keys):
    global _keys
    _keys = keys


cdef class SimulatedPort(Disk):
    cdef model.SimDisk* disk

    def __cinit__(self, *, uint64_t seed=1, uint32_t sector_bytes=512, SimulatedPort copy_of=None):
        if copy_of is None:
            self.disk = model.sim_disk_create(seed, sector_bytes)
        else:
            self.disk = model.sim_disk_copy(copy_of.disk, seed)
        if self.disk == NULL:
            raise MemoryError
        self.port = model.sim_disk_port(self.disk)
        self.use_keys(_keys if copy_of is None else copy_of.keys)

    def __dealloc__(self):
        model.sim_disk_destroy(self.disk)

    def copy(self, *, uint64_t seed=1):
        return SimulatedDisk(seed=seed, copy_of=self)

    def plan(self, **faults):
        # The missing ones are off: a struct from a dict wants all of its fields.
        cdef dict complete = dict.fromkeys(FAULTS, 0)
        complete.update(faults)
        self.disk.faults = complete

    @property
    def key_ring(self):
        return self.keys

    @property
    def counters(self):
        return self.disk.counters

    @property
    def is_cut(self):
        return bool(self.disk.is_cut)

    def crash(self):
        if model.sim_disk_crash(self.disk) != OK:
            raise MemoryError

    def reopen(self):
        model.sim_disk_reopen(self.disk)

    def flip(self, str name, uint64_t offset, uint8_t mask):
        return model.sim_disk_flip(self.disk, name.encode(), offset, mask)

    def zero(self, str name, uint64_t offset, uint64_t length):
        return model.sim_disk_zero(self.disk, name.encode(), offset, length)

    def cut_file(self, str name, uint64_t size_bytes):
        return model.sim_disk_cut_file(self.disk, name.encode(), size_bytes)

    def forget(self, str name):
        return model.sim_disk_forget(self.disk, name.encode())

    def durable(self, str name):
        cdef const Vec[uint8_t]* image = model.sim_disk_durable(self.disk, name.encode())
        if image == NULL:
            return None
        return (<const uint8_t*>image.data)[: image.size] if image.size else b""


class SimulatedDisk(DiskCalls, SimulatedPort):
    """A disk whose power can fail; every choice comes from the seed."""
