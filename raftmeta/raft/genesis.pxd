# How a cluster is born: only when ALL named initial members report blank folders and durably accept one cluster id.
#
# A state machine of its own beside the core, as pure as the core: HELLOs, messages and ticks in; "persist this" and
# messages out. It never draws a number, never asks the time, never decides anything once the cluster lives.
#
#     BLANK ----- PROPOSE of the founder, every name blank -----> ACCEPTED ----- all have accepted -----> FOUNDED
#       \------- a FOUNDED node of that name list exists -------> JOINING ----- the log names this node -----^
#
# Words. A *name* is configured; an *incarnation* (member_id_t) is born with a folder and dies with it. The *founder* is
# the named member with the least name. A *proposal* is one cluster id with one founding membership.
#
# Rules, and why:
#   1. The founder proposes when every named member has said HELLO as BLANK. One that is not blank may hold a cluster's
#      data, so it forbids founding, whatever the majority says: wiped disks never make a new, empty cluster.
#   2. A BLANK node accepts a proposal of the founder's present incarnation that has exactly its own list of names and
#      names its own incarnation. It persists the proposal, then answers.
#   3. The founder accepts its own proposal first (so that it knows after a restart what it proposed), and only it
#      decides: when all have answered it persists FOUNDED, then tells all.
#   4. An ACCEPTED node that meets a FOUNDED one of its cluster id becomes FOUNDED: it can only exist if all accepted.
#   5. An ACCEPTED node leaves its proposal for no other, with one exception: a later proposal of the *same incarnation*
#      of the founder. That one alone could have founded the earlier, and it gave it up (durably) by proposing again; it
#      does so when a named member was wiped before it answered. Proposals of one founder have the same cluster_high and
#      ascending cluster_low, so that late and repeated messages cannot lead backwards.
#   6. If the founder's own folder is wiped while others are ACCEPTED, they cannot know whether a cluster lived: nothing
#      is founded, `refusal` names the peer, and an operator decides which folder to remove.
#   7. A founder that proposed and then meets a FOUNDED node of another cluster (it was wiped and heard something old)
#      gives its proposal up and joins; those who had accepted it join when they hear that it did.
#   8. Nothing is said before it is durable: messages wait in `held`, and a HELLO says claimed_*, not `record`.
#
# So two living nodes are never FOUNDED of different clusters: each founding needed the acceptance of every name's
# incarnation, and an incarnation that accepted one founder's proposal never accepts another founder's.
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

from raftmeta.native.containers cimport Vec
from raftmeta.raft.types cimport ADDRESS_BYTES_MAX, MEMBERS_MAX, NAME_BYTES_MAX, Membership, member_id_t
from raftmeta.status cimport status_t

# FORMAT_: stand in the identity file and in HELLOs.
cdef enum GenesisState:
    BLANK = 1
    ACCEPTED = 2                # may be part of a cluster with this id, cannot know yet
    FOUNDED = 3                 # member of the cluster; its core may start
    JOINING = 4                 # blank, told by a FOUNDED node that the cluster exists: waits to be added as learner

cdef enum GenesisMessageType:
    GENESIS_PROPOSE = 1         # founder -> all: cluster id, founding membership
    GENESIS_ACCEPT = 2          # durably accepted
    GENESIS_FOUNDED = 3         # all accepted
    GENESIS_REFUSE = 4          # cluster id: the one this node holds; (0, 0): blank, but its list of names is another

cdef struct GenesisMessage:
    uint8_t type
    uint64_t cluster_low
    uint64_t cluster_high
    member_id_t source
    member_id_t target
    Membership membership       # PROPOSE and FOUNDED; count 0 otherwise

# Durable part, kept by storage/identity.
cdef struct GenesisRecord:
    uint8_t state
    uint64_t cluster_low
    uint64_t cluster_high
    Membership membership       # founding membership: roles VOTER_INCOMING, names, addresses, incarnations, sorted by
                                # name; count 0 when BLANK, JOINING, or FOUNDED after having joined

cdef enum PeerKnown:
    PEER_UNKNOWN = 0            # no HELLO yet
    PEER_BLANK = 1
    PEER_ACCEPTED = 2
    PEER_FOUNDED = 3
    PEER_JOINING = 4

cdef enum:
    TOLD_NAMES_BYTES_MAX = 256  # as "a, b"; more names are left out

cdef struct GenesisPeer:
    uint8_t name_length
    uint8_t address_length
    uint8_t[NAME_BYTES_MAX] name
    uint8_t[ADDRESS_BYTES_MAX] address
    uint8_t known               # PeerKnown; of itself: by `record`
    member_id_t id
    uint64_t cluster_low
    uint64_t cluster_high
    bint has_accepted           # the proposal in `record` (founder only)
    bint has_other_names        # it refused a proposal because its list of names is another one
    uint16_t told_length        # the names that it was started with, when they are others; for people
    uint8_t[TOLD_NAMES_BYTES_MAX] told

cdef struct Genesis:
    GenesisRecord record
    uint8_t claimed_state       # what is durable, and so what a HELLO may say
    uint64_t claimed_low
    uint64_t claimed_high
    member_id_t id
    uint32_t self_position      # in peers
    uint32_t peer_count         # named initial members, self included, sorted by name: the founder stands at 0
    GenesisPeer[MEMBERS_MAX] peers
    uint64_t cluster_low_drawn  # random numbers given at init, used if this node founds
    uint64_t cluster_high_drawn
    bint must_persist           # record changed: give it to the disk (and clear this), then genesis_persisted
    bint is_persisting          # record is not durable yet; it does not change until it is
    Vec[GenesisMessage] messages        # send now; the caller clears it
    Vec[GenesisMessage] held            # move to messages in genesis_persisted
    status_t refusal            # why nothing can be founded here: FOREIGN_CLUSTER (a peer holds another cluster's id),
    uint32_t refusal_peer       #   FOREIGN_NODE (another folder has this node's name), BAD_FIELD (other names)

# record: what storage/identity read (BLANK for a new folder). Then genesis_add_peer for every name, self among them.
cdef void genesis_init(Genesis* genesis, const GenesisRecord* record, member_id_t id, uint64_t random_low,
                       uint64_t random_high) noexcept nogil
# ALREADY: the name is there; BAD_LENGTH: its length, or more than MEMBERS_MAX.
cdef status_t genesis_add_peer(Genesis* genesis, const uint8_t* name, uint8_t name_length, const uint8_t* address,
                               uint8_t address_length, bint is_self) noexcept nogil
# A peer's HELLO, from the connection's other side itself. OK; NOT_FOUND: not one of the names, nothing changed;
# FOREIGN_NODE: another incarnation under this node's own name; BAD_FIELD; NO_MEMORY.
cdef status_t genesis_hello(Genesis* genesis, const uint8_t* name, uint8_t name_length, member_id_t id, uint8_t state,
                            uint64_t cluster_low, uint64_t cluster_high) noexcept nogil
# OK; STALE: of the past, or a source whose HELLO is not the last of its name; FOREIGN_NODE: not for this incarnation;
# BAD_FIELD: refused; NO_MEMORY.
cdef status_t genesis_step(Genesis* genesis, const GenesisMessage* message) noexcept nogil
cdef status_t genesis_tick(Genesis* genesis) noexcept nogil         # repeats what was not answered
cdef status_t genesis_persisted(Genesis* genesis) noexcept nogil
# The log of the cluster that this JOINING node heard of names it as a member: it is FOUNDED from now on.
cdef status_t genesis_joined(Genesis* genesis) noexcept nogil
cdef void genesis_release(Genesis* genesis) noexcept nogil
