"""A node's own session and leases for tests: an engine of nothing but a machine, and a core that follows nobody."""
from libc.stdint cimport uint64_t
from libc.stdlib cimport calloc, free

from raftmeta._core cimport core_create, core_destroy
from raftmeta.engine.callers cimport callers_may_speak
from raftmeta.engine.housekeeping cimport (housekeeping_keep_lease, housekeeping_look, housekeeping_release,
                                           housekeeping_tick)
from raftmeta.engine.state cimport Engine
from raftmeta.engine.submission cimport KeepLeaseArguments
from raftmeta.machine.machine_handle cimport MachineHandle
from raftmeta.raft.state cimport core_config_init
from raftmeta.status cimport NO_MEMORY

cdef enum:
    TICK_MS = 10
    RANDOM = 1
    SEQUENCES_USED = 1000       # so many commands of the session may have been applied


cdef uint64_t _now_ns(void* self) noexcept nogil:
    return 0


cdef uint64_t _next(void* self) noexcept nogil:
    return RANDOM


cdef class KeeperHandle:
    NEXT_SESSION = 1 << 63 | RANDOM

    cdef Engine* engine
    cdef MachineHandle machine

    def __cinit__(self, MachineHandle machine not None, *, uint64_t member, uint64_t boot, uint64_t session):
        self.machine = machine
        self.engine = <Engine*>calloc(1, sizeof(Engine))
        if self.engine == NULL:
            raise MemoryError
        core_config_init(&self.engine.config.core, member, 1)
        self.engine.core = core_create(&self.engine.config.core)
        if self.engine.core == NULL:
            raise MemoryError
        self.engine.clock.now_ns = _now_ns
        self.engine.random.next = _next
        self.engine.machine = machine.machine
        self.engine.id = member
        self.engine.boot = boot
        self.engine.core_status.leader = member + 1
        self.engine.config.tick_ms = TICK_MS
        self.engine.config.session_ttl_ms = 60_000
        self.engine.config.names_process = True
        self.engine.session.opening = session
        self.engine.calls.own.base = SEQUENCES_USED

    def __dealloc__(self):
        if self.engine == NULL:
            return
        housekeeping_release(&self.engine.leases, &self.engine.duties)
        self.engine.scratch.leases.release()
        core_destroy(self.engine.core)
        free(self.engine)

    @property
    def may_speak(self):
        return callers_may_speak(self.engine)

    def look(self):
        housekeeping_look(self.engine)
        return self.engine.session.id

    def keep(self, uint64_t lease):
        cdef KeepLeaseArguments asked
        asked.lease = lease
        asked.ttl_ms = 60_000
        asked.handle = NULL
        if housekeeping_keep_lease(self.engine, &asked) == NO_MEMORY:
            raise MemoryError

    def tick(self):
        cdef uint64_t before = self.engine.leases.keep_alive_tick
        cdef uint64_t opened = self.engine.session.opening_tick
        self.engine.ticks += 1
        housekeeping_tick(self.engine)
        return (self.engine.session.opening_tick != opened,
                self.engine.leases.keep_alive_tick == self.engine.ticks != before)
