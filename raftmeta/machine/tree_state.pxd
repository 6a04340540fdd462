# The shapes inside a tree: nodes, separators, roots and the lists of what is to be freed. Only machine/tree reads them.
#
# An object (node, separator, entry) is born with one root and dies with another: every root from its birth on and
# before its death can see it. The dead of a root are the objects that its predecessor saw and it does not.
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

from raftmeta.machine.slab cimport Slab
from raftmeta.native.intrinsics cimport Hash128
from raftmeta.native.invariants cimport Broken

cdef enum:
    TREE_DEPTH_MAX = 12         # levels; 64 children at 3/8 fill reach 10^16 keys
    TREE_FANOUT_MIN = 4
    TUNE_TREE_FANOUT = 64       # measured: docs/decisions/state-tree.md
    TREE_PIN_SLOTS = 8          # threads that can be in the middle of a pin at once
    TREE_DEAD_PER_BLOCK = 126   # fills one 2 KiB object

# Three arrays of `capacity` follow: heads (uint64_t), slots (Entry* in a leaf, Node* above), and above leaves
# separators. heads[i] is the eight bytes after the common prefix, big-endian, zeros at the end: order of heads is order
# of keys.
cdef struct Node:
    uint64_t birth              # number of the root it was made for
    uint16_t count
    uint16_t capacity
    uint16_t prefix_length      # bytes that all keys (separators) of this node begin with
    uint8_t level               # 0: leaf

# The shortest bytes above all keys on its left and not above any on its right. Shared by the copies of a node.
cdef struct Separator:
    uint64_t birth
    uint32_t length             # the bytes follow

cdef enum DeadKind:
    # In the low bits of Dead.object; objects are aligned to 8.
    DEAD_NODE = 0
    DEAD_SEPARATOR = 1
    DEAD_ENTRY = 2
    DEAD_KIND_MASK = 7

cdef struct Dead:
    uint64_t object             # pointer | DeadKind
    uint64_t birth              # number of a root; of an entry its mod_revision

cdef struct DeadBlock:
    DeadBlock* next
    uint32_t first              # items [first, end) are in the list
    uint32_t end
    Dead[TREE_DEAD_PER_BLOCK] items

# First in, first out. `spare` makes room beforehand, so that a change under way cannot fail for its dead.
cdef struct DeadList:
    DeadBlock* first
    DeadBlock* final
    DeadBlock* spare
    uint64_t count              # items in the list

# One version of the whole tree. Roots live in a list by age; only the writer reads `older`, `newer` and `dead`.
cdef struct Root:
    Node* node
    uint64_t number             # 1, 2, 3, ... in order of publishing
    uint64_t revision
    uint64_t count              # live keys
    Hash128 hash                # sum over live entries
    uint64_t pins               # atomic; can only rise while this is the newest root or a pin slot names it
    Root* older
    Root* newer
    DeadList dead

cdef struct Tree:
    # The writer's own.
    Slab slab
    Root writing                # what will be published next; number = newest + 1
    Root* oldest
    uint64_t revision_max       # greatest mod_revision in the tree
    Node* near                  # leaf of `writing` where the writer last met a key, NULL: none; in slot near_position,
    uint32_t near_position      # if it still stands there
    Node* gap                   # leaf of `writing` where the writer last looked for a key that is not there, or put a
    uint32_t gap_position       # new one, NULL: none; keys in order belong behind slot gap_position
    uint16_t fanout
    uint16_t load_depth         # bulk load: levels of load_spine in use; 0: none under way
    Node* load_spine[TREE_DEPTH_MAX]    # bulk load: the rightmost node of every level, leaf first
    Broken broken               # the first belief that proved wrong
    # Shared words, each group on cache lines of its own (measured: a reader's slot beside the writer's counters costs
    # the writer half of its rate).
    uint8_t[128] _line_published
    Root* published             # newest root; written by the writer only
    uint8_t[128] _line_entered
    const Root* entered         # the short read of the caller that holds the GIL
    uint8_t[128] _line_pinning
    const Root* pinning[TREE_PIN_SLOTS]     # pins under way
    uint8_t[128] _line_end
