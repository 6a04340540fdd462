# How a cluster is born: only when ALL named initial members report blank folders and durably accept one random cluster id.
#
# A state machine of its own beside the core, as pure as the core: hello and messages in, "persist this" and messages out.
#   founder = the named member with the least name. It waits until every named member has said HELLO as BLANK (or as
#   ACCEPTED of the founder's own cluster id), draws a cluster id, persists its own acceptance, then proposes.
#   acceptor: blank, the same set of names, its own incarnation named: persists ACCEPTED(id, members), then answers.
#   founder, when all have accepted: persists FOUNDED, tells all; an ACCEPTED node that meets a FOUNDED one of the same id and
#   members becomes FOUNDED too (it can only exist if all had accepted).
#   One FOUNDED or foreign ACCEPTED node among the named forbids founding: a wiped majority never makes an empty cluster.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.native.containers cimport Vec
from raftmeta.raft.types cimport MEMBERS_MAX, Membership, member_id_t
from raftmeta.status cimport status_t

cdef enum GenesisState:
    BLANK = 1
    ACCEPTED = 2                # may be part of a cluster with this id, cannot know yet
    FOUNDED = 3                 # member of the cluster; its core may start
    JOINING = 4                 # blank, told by a FOUNDED node that the cluster exists: waits to be added as learner

cdef enum GenesisMessageType:
    GENESIS_PROPOSE = 1         # founder -> all: cluster id, founding membership
    GENESIS_ACCEPT = 2          # durably accepted
    GENESIS_FOUNDED = 3         # all accepted
    GENESIS_REFUSE = 4          # not blank, or other names

cdef struct GenesisMessage:
    uint8_t type
    uint64_t cluster_low
    uint64_t cluster_high
    member_id_t source
    member_id_t target
    Membership membership

# Durable part, kept by storage/identity.
cdef struct GenesisRecord:
    uint8_t state
    uint64_t cluster_low
    uint64_t cluster_high
    Membership membership       # founding membership: roles VOTER_INCOMING, names, addresses, incarnations

cdef enum PeerKnown:
    PEER_UNKNOWN = 0            # no HELLO yet
    PEER_BLANK = 1
    PEER_ACCEPTED = 2
    PEER_FOUNDED = 3

cdef struct GenesisPeer:
    uint8_t name_length
    uint8_t[64] name
    uint8_t address_length
    uint8_t[255] address
    uint8_t known               # PeerKnown
    member_id_t id
    uint64_t cluster_low
    uint64_t cluster_high
    bint has_accepted

cdef struct Genesis:
    GenesisRecord record
    member_id_t id
    uint32_t self_position      # in peers
    uint32_t peer_count         # named initial members, self included, sorted by name
    GenesisPeer[MEMBERS_MAX] peers
    uint64_t cluster_low_drawn  # random numbers given at create, used if this node founds
    uint64_t cluster_high_drawn
    bint must_persist           # record changed: persist it, then genesis_persisted; messages wait for that
    bint is_persisting
    Vec[GenesisMessage] messages        # send now
    Vec[GenesisMessage] held            # send after genesis_persisted
    status_t refusal            # why no cluster can be founded here: FOREIGN_CLUSTER, FOREIGN_NODE, ALREADY
    uint32_t refusal_peer

# names: peer_count pairs; self is among them. record: what storage/identity read (BLANK for a new folder).
cdef void genesis_init(Genesis* genesis, const GenesisRecord* record, member_id_t id, uint64_t random_low,
                       uint64_t random_high) noexcept nogil
cdef status_t genesis_add_peer(Genesis* genesis, const uint8_t* name, uint8_t name_length, const uint8_t* address,
                               uint8_t address_length, bint is_self) noexcept nogil
cdef status_t genesis_hello(Genesis* genesis, const uint8_t* name, uint8_t name_length, member_id_t id, uint8_t state,
                            uint64_t cluster_low, uint64_t cluster_high) noexcept nogil
cdef status_t genesis_step(Genesis* genesis, const GenesisMessage* message) noexcept nogil
cdef void genesis_tick(Genesis* genesis) noexcept nogil         # repeats what was not answered
cdef void genesis_persisted(Genesis* genesis) noexcept nogil
cdef void genesis_release(Genesis* genesis) noexcept nogil
