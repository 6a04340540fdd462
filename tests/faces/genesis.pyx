"""One Genesis as a Python object, for tests and tools; the engine itself never touches this module."""
from libc.stdint cimport uint8_t
from libc.string cimport memcpy, memset

from raftmeta.raft cimport genesis as rules
from raftmeta.raft.genesis cimport Genesis, GenesisMessage, GenesisRecord
from raftmeta.raft.types cimport ADDRESS_BYTES_MAX, MEMBERS_MAX, NAME_BYTES_MAX, Member, Membership


cdef int fill_membership(Membership* membership, members) except -1:
    cdef Member* member
    memset(membership, 0, sizeof(Membership))
    if len(members) > MEMBERS_MAX:
        raise ValueError(f"members: at most {MEMBERS_MAX}, got {len(members)}")
    for member_id, roles, name, address in members:
        if len(name) > NAME_BYTES_MAX or len(address) > ADDRESS_BYTES_MAX:
            raise ValueError(f"name or address too long: {name!r}, {address!r}")
        member = &membership.members[membership.count]
        member.id = member_id
        member.roles = roles
        member.name_length = len(name)
        member.address_length = len(address)
        memcpy(member.name, <const uint8_t*>(<bytes>name), len(name))
        memcpy(member.address, <const uint8_t*>(<bytes>address), len(address))
        membership.count += 1
    return 0


cdef tuple read_membership(const Membership* membership):
    cdef const Member* member
    cdef int i
    found = []
    for i in range(membership.count):
        member = &membership.members[i]
        found.append((member.id, member.roles, (<const char*>member.name)[:member.name_length],
                      (<const char*>member.address)[:member.address_length]))
    return tuple(found)


cdef class GenesisHandle:
    cdef Genesis genesis

    def __cinit__(self, member_id, self_name, peers, record, *, random_low, random_high):
        cdef GenesisRecord read
        memset(&read, 0, sizeof(read))
        read.state, read.cluster_low, read.cluster_high = record[:3]
        fill_membership(&read.membership, record[3])
        rules.genesis_init(&self.genesis, &read, member_id, random_low, random_high)
        for name, address in peers:
            self._add_peer(name, address, name == self_name)

    def __dealloc__(self):
        rules.genesis_release(&self.genesis)

    def _add_peer(self, bytes name, bytes address, is_self):
        status = rules.genesis_add_peer(&self.genesis, <const uint8_t*>name, <uint8_t>len(name),
                                        <const uint8_t*>address, <uint8_t>len(address), is_self)
        if status:
            raise ValueError(f"peer {name!r}: status {status}")

    def hello(self, bytes name, member_id, state, cluster_low, cluster_high):
        return rules.genesis_hello(&self.genesis, <const uint8_t*>name, <uint8_t>len(name), member_id, state,
                                   cluster_low, cluster_high)

    def step(self, message):
        cdef GenesisMessage given
        memset(&given, 0, sizeof(given))
        given.type, given.cluster_low, given.cluster_high, given.source, given.target = message[:5]
        fill_membership(&given.membership, message[5])
        return rules.genesis_step(&self.genesis, &given)

    def tick(self):
        return rules.genesis_tick(&self.genesis)

    def persisted(self):
        return rules.genesis_persisted(&self.genesis)

    def joined(self):
        return rules.genesis_joined(&self.genesis)

    def take_messages(self):
        cdef GenesisMessage* message
        cdef size_t i
        taken = []
        for i in range(self.genesis.messages.size):
            message = &self.genesis.messages.data[i]
            taken.append((message.type, message.cluster_low, message.cluster_high, message.source, message.target,
                          read_membership(&message.membership)))
        self.genesis.messages.clear()
        return taken

    @property
    def record(self):
        return (self.genesis.record.state, self.genesis.record.cluster_low, self.genesis.record.cluster_high,
                read_membership(&self.genesis.record.membership))

    @property
    def claim(self):
        return self.genesis.claimed_state, self.genesis.claimed_low, self.genesis.claimed_high

    @property
    def must_persist(self):
        return bool(self.genesis.must_persist)

    @property
    def refusal(self):
        if self.genesis.refusal == 0:
            return 0, b""
        peer = &self.genesis.peers[self.genesis.refusal_peer]
        return self.genesis.refusal, (<char*>peer.name)[:peer.name_length]
