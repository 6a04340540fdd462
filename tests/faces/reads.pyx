"""Rounds of linearizable reads for tests: an engine of nothing but a core, which follows a leader that never speaks."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from raftmeta._core cimport (ReadReady, core_create, core_destroy, core_restore_membership, core_restored, core_status,
                             core_step)
from raftmeta.engine.callers cimport (callers_ask_reads, callers_read_ready, callers_release, callers_repeat_reads,
                                      callers_serve_reads)
from raftmeta.engine.state cimport Engine
from raftmeta.raft.state cimport core_config_init
from raftmeta.raft.types cimport HEARTBEAT, VOTER_INCOMING, HardState, Membership, Message, SnapshotPoint, index_t
from raftmeta.status cimport NO_LEADER, OK, status_t

cdef enum:
    MEMBERS = 3
    LEADER_ID = 2


cdef void _done(void* self, void* owner, status_t status, uint64_t revision, index_t index, const uint8_t* body,
                uint32_t length) noexcept nogil:
    (<uint64_t*>self)[0] += status == OK


cdef class ReadsHandle:
    cdef Engine* engine
    cdef uint64_t done_count

    def __cinit__(self):
        self.engine = <Engine*>calloc(1, sizeof(Engine))
        if self.engine == NULL:
            raise MemoryError
        self.engine.callers.self = &self.done_count
        self.engine.callers.done = _done
        core_config_init(&self.engine.config.core, 1, 1)
        self.engine.core = core_create(&self.engine.config.core)
        if self.engine.core == NULL or self._follow() != OK:
            raise ValueError("no core that follows")
        core_status(self.engine.core, &self.engine.core_status)

    cdef status_t _follow(self):
        cdef Membership membership
        cdef SnapshotPoint point
        cdef HardState hard_state
        cdef Message heartbeat
        cdef status_t status
        memset(&membership, 0, sizeof(Membership))
        memset(&point, 0, sizeof(SnapshotPoint))
        memset(&hard_state, 0, sizeof(HardState))
        memset(<void*>&heartbeat, 0, sizeof(Message))
        membership.count = MEMBERS
        for i in range(MEMBERS):
            membership.members[i].id = i + 1
            membership.members[i].roles = VOTER_INCOMING
            membership.members[i].name_length = membership.members[i].address_length = 1
            membership.members[i].name[0] = membership.members[i].address[0] = <uint8_t>(c'1' + i)
        heartbeat.type = HEARTBEAT
        heartbeat.source = LEADER_ID
        heartbeat.target = 1
        heartbeat.term = 1
        status = core_restore_membership(self.engine.core, &point, &membership)
        if status == OK:
            status = core_restored(self.engine.core, &hard_state, 0)
        return status if status != OK else core_step(self.engine.core, &heartbeat)

    def __dealloc__(self):
        if self.engine == NULL:
            return
        callers_release(&self.engine.calls, &self.engine.reads)
        core_destroy(self.engine.core)
        free(self.engine)

    @property
    def served(self):
        return self.done_count

    def read(self):
        if not self.engine.reads.waiting.push(NULL) or callers_ask_reads(self.engine) != OK:
            raise MemoryError
        return self.engine.reads.next_context

    def answer(self, uint64_t context, uint64_t index):
        self._hear(context, index, OK)

    def refuse(self, uint64_t context):
        self._hear(context, 0, NO_LEADER)

    cdef void _hear(self, uint64_t context, uint64_t index, status_t status):
        cdef ReadReady ready
        ready.context = context
        ready.index = index
        ready.status = status
        callers_read_ready(&self.engine.reads, &ready)
        callers_serve_reads(self.engine)

    def know(self, uint64_t committed, uint64_t published):
        self.engine.applying.queued = committed
        self.engine.applying.applied = self.engine.applying.published = published
        callers_serve_reads(self.engine)

    def pass_time(self, uint32_t election_timeouts):
        cdef uint64_t before = self.engine.reads.next_context
        self.engine.ticks += election_timeouts * self.engine.config.core.election_timeout_ticks
        callers_repeat_reads(self.engine)
        return 0 if self.engine.reads.next_context == before else self.engine.reads.next_context
