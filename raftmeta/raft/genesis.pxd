# How a cluster is born: only when ALL named initial members report blank folders and durably accept one cluster id.
#
# A state machine of its own beside the core, and as pure: HELLOs, messages and ticks come in; "persist this" and
# messages go out. It never draws a number, never asks the time, and decides nothing once the cluster lives.
#
#     BLANK ----- PROPOSE of the founder, every name blank -----> ACCEPTED ----- all have accepted -----> FOUNDED
#       \------- a FOUNDED node of that name list exists -------> JOINING ----- the log names this node -----^
#
# Words. A *name* is configured. An *incarnation* (member_id_t) is born with a folder and dies with it. The *founder* is
# the named member with the least name. A *proposal* is one cluster id with one founding membership.
#
# Rules, and why:
#   1. The founder proposes when every named member has said HELLO as BLANK. A member that is not blank may hold a
#      cluster's data, so it forbids founding, whatever the majority says: wiped disks never make a new, empty cluster.
#   2. A BLANK node accepts a proposal only from the founder's present incarnation, and only if the proposal has exactly
#      the node's own list of names and names its incarnation. The node persists the proposal, then answers.
#   3. The founder accepts its own proposal first, so that after a restart it knows what it proposed. Only the founder
#      decides: when all have answered it persists FOUNDED, then tells all.
#   4. An ACCEPTED node that meets a FOUNDED one of its cluster id becomes FOUNDED: it can only exist if all accepted.
#   5. An ACCEPTED node leaves its proposal for no other, with one exception: a later proposal of the *same incarnation*
#      of the founder. Only that incarnation could have founded by the earlier one, and by proposing again it gave the
#      earlier one up durably. It proposes again when a named member was wiped before it answered. Proposals of one
#      founder have the same cluster_high and ascending cluster_low: late and repeated messages cannot lead backwards.
#   6. If the founder's own folder is wiped while others are ACCEPTED, they cannot know whether a cluster lived: nothing
#      is founded, `refusal` names the peer, and an operator decides which folder to remove.
#   7. A founder that proposed and then meets a FOUNDED node of another cluster (it was wiped and heard something old)
#      gives its proposal up and joins. Members that had accepted it join when they hear that the founder joined.
#   8. A node says nothing before it is durable: messages wait in `held`, and a HELLO says claimed_*, not `record`.
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
    ACCEPTED = 2                # a cluster with this id may exist and name this node; the node cannot know yet
    FOUNDED = 3                 # member of the cluster; its core may start
    JOINING = 4                 # blank, told by a FOUNDED node that the cluster exists: waits to be added as learner
    OBSERVING = 5               # in HELLOs only: an observer that knows its cluster; its record says JOINING

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
    bint has_accepted           # it accepted the proposal in `record` (founder only)
    bint has_other_names        # it refused a proposal because it has another list of names
    uint16_t told_length        # length of the names that it was started with, if they differ; for people
    uint8_t[TOLD_NAMES_BYTES_MAX] told

cdef struct Genesis:
    GenesisRecord record
    bint is_observer            # it founds nothing and accepts no founding; set behind genesis_init
    uint8_t claimed_state       # the durable state: a HELLO may say no other
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
    status_t refusal            # why this node can found nothing: FOREIGN_CLUSTER (a peer has another cluster's id),
    uint32_t refusal_peer       #   FOREIGN_NODE (another folder has this node's name), BAD_FIELD (other names)

# record: what storage/identity read (BLANK for a new folder). Then genesis_add_peer for every name, self among them.
cdef void genesis_init(Genesis* genesis, const GenesisRecord* record, member_id_t id, uint64_t random_low,
                       uint64_t random_high) noexcept nogil
# ALREADY: the name is there; BAD_LENGTH: its length, or more than MEMBERS_MAX.
cdef status_t genesis_add_peer(Genesis* genesis, const uint8_t* name, uint8_t name_length, const uint8_t* address,
                               uint8_t address_length, bint is_self) noexcept nogil
# A peer's HELLO; it must come from the other side of the connection itself. OK; NOT_FOUND: not one of the names,
# nothing changed; FOREIGN_NODE: another incarnation under this node's own name; BAD_FIELD; NO_MEMORY.
cdef status_t genesis_hello(Genesis* genesis, const uint8_t* name, uint8_t name_length, member_id_t id, uint8_t state,
                            uint64_t cluster_low, uint64_t cluster_high) noexcept nogil
# OK; STALE: an old message, or its source did not send the last HELLO of its name; FOREIGN_NODE: for another
# incarnation; BAD_FIELD: refused; NO_MEMORY.
cdef status_t genesis_step(Genesis* genesis, const GenesisMessage* message) noexcept nogil
cdef status_t genesis_tick(Genesis* genesis) noexcept nogil         # repeats messages that have no answer
cdef status_t genesis_persisted(Genesis* genesis) noexcept nogil
# The log of the cluster that this JOINING node heard of names it as a member: from now on the node is FOUNDED.
cdef status_t genesis_joined(Genesis* genesis) noexcept nogil
cdef void genesis_release(Genesis* genesis) noexcept nogil
