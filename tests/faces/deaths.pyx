"""What a node sees of a peer's process, for tests: an engine of nothing but a machine and two links."""
from libc.stdint cimport uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from raftmeta.engine.deaths cimport deaths_answered, deaths_hung_up, deaths_refused, deaths_speaks, deaths_tick
from raftmeta.engine.state cimport Engine, Inbound, Link
from raftmeta.machine.machine_handle cimport MachineHandle

cdef enum:
    PEER = 0                    # places of links
    LEADER_LINK = 1
    OWN_ID = 1
    LEADER_ID = 2


cdef class WitnessHandle:
    cdef Engine* engine
    cdef MachineHandle machine
    cdef Inbound inbound

    def __cinit__(self, MachineHandle machine not None, *, uint64_t peer):
        self.machine = machine
        self.engine = <Engine*>calloc(1, sizeof(Engine))
        if self.engine == NULL:
            raise MemoryError
        memset(&self.inbound, 0, sizeof(Inbound))
        self.inbound.is_bound = True
        self.inbound.link = PEER
        self.engine.machine = machine.machine
        self.engine.id = OWN_ID
        self.engine.boot = 1
        self.engine.core_status.leader = LEADER_ID
        self.engine.links.table[PEER].is_used = True
        self.engine.links.table[PEER].id = peer
        self.engine.links.table[LEADER_LINK].is_used = True
        self.engine.links.table[LEADER_LINK].id = LEADER_ID

    def __dealloc__(self):
        free(self.engine)

    def answer(self, uint64_t boot):
        cdef Link* link = &self.engine.links.table[PEER]
        link.is_up = True
        deaths_answered(link, link.id, boot)

    def lose(self):
        self.engine.links.table[PEER].is_up = False

    def refuse(self):
        deaths_refused(&self.engine.links.table[PEER])

    def speak(self):
        deaths_speaks(self.engine, &self.inbound)

    def hang_up(self):
        deaths_hung_up(self.engine, &self.inbound)

    @property
    def finds_gone(self):
        self.engine.links.table[PEER].death.told_leader = 0
        deaths_tick(self.engine)
        return self.engine.links.table[PEER].death.told_leader == LEADER_ID
