# A world with worker groups keeps these beside its nodes: the check's own machine and tables, and the clients.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.machine.state cimport Machine
from raftmeta.native.containers cimport Vec
from raftmeta.raft.types cimport index_t
from raftmeta.wire.commands cimport Command
from raftmeta.wire.groups cimport GroupRequest

cdef enum:
    SIM_GROUPS = 2
    SIM_GROUP_KEYS = 3          # in a world with topics: the last has offsets and never a member
    SIM_GROUP_CLIENTS = 8       # client i is of group i modulo SIM_GROUPS; the first four share one instance a group
    SIM_GROUP_STATIC = 4
    SIM_GROUP_MEMBERS = 48      # of one group, with those whose process is gone and whose lease is not
    SIM_GROUP_RESOURCES = 4     # of one group
    SIM_MEMBER_ID_MAX = 64

cdef struct SimMemberId:
    uint8_t[SIM_MEMBER_ID_MAX] bytes
    uint32_t length             # 0: none

# A member as the keys of a node show it.
cdef struct SimMember:
    SimMemberId id
    uint64_t lease
    uint64_t deadline_ms        # of that, before an entry that ends leases
    uint64_t fence
    uint32_t joined
    uint32_t assigned
    uint32_t resources          # set of bits
    bint is_pending
    uint8_t instance            # its last byte; 0: a dynamic member

cdef struct SimGroupView:
    bint exists
    bint is_sound               # all its keys could be read
    uint32_t state              # GroupState
    uint32_t generation
    uint64_t fence
    uint64_t lease              # of its timer
    uint64_t deadline_ms
    SimMemberId leader
    uint32_t count
    SimMember[SIM_GROUP_MEMBERS] members

# To whom the resources of a group belong, as the syncs of leaders say.
cdef struct SimGroupTruth:
    uint64_t newest_fence       # of any generation so far
    uint32_t generation         # of the assignment in force
    SimMemberId[SIM_GROUP_RESOURCES] owners

cdef enum SimGroupPhase:
    CLIENT_OUT = 0
    CLIENT_JOINING              # the machine made it a member: it waits for a generation
    CLIENT_JOINED               # it knows its generation, and has no assignment
    CLIENT_SYNCING
    CLIENT_WORKING

cdef enum SimGroupWish:
    CLIENT_OPENS = 1
    CLIENT_GRANTS
    CLIENT_JOINS
    CLIENT_SYNCS
    CLIENT_LEAVES
    CLIENT_WRITES
    CLIENT_COMMITS              # offsets, in a world with topics
    CLIENT_TRIES                # something that shall be refused, or that an operator does

cdef struct SimGroupClient:
    uint64_t session            # 0: none
    uint64_t sequence
    Vec[uint8_t] payload
    bint is_answered
    uint8_t wish
    uint64_t lease              # 0: none
    uint64_t silent_until_ns
    uint8_t phase               # SimGroupPhase
    uint8_t words               # which protocols it offers
    SimMemberId id
    uint32_t generation         # that it awaits, or is in
    uint64_t fence
    uint32_t resources          # its assignment,
    uint32_t assigned           # ... and the generation of that

cdef struct SimGroups:
    Machine* machine
    index_t index               # of the last entry that was taken
    bint is_lost                # an entry could not be read: nothing is checked any more
    uint64_t lease_ms
    uint64_t state_hash         # after that entry
    uint64_t leases             # there were before it
    uint32_t count              # of groups
    SimGroupView[SIM_GROUP_KEYS] views
    SimGroupView before         # of the group under judgement
    SimGroupView seen           # by a client, or on a node
    SimGroupTruth[SIM_GROUP_KEYS] truths
    SimGroupClient[SIM_GROUP_CLIENTS] clients
    Command command             # scratch
    GroupRequest request
    Vec[uint8_t] scratch
