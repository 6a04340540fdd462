# The assignors of consumer groups: who gets which partition, as arithmetic (docs/groups.md "Assignors").
#
# Members and topics are numbers here, and partitions are counted through all topics. A board comes with the owners that
# there were, and leaves with those that there will be. It knows no state, and the same board has the same result.
from libc.stdint cimport uint32_t

from raftmeta.native.containers cimport Vec

cdef enum:
    NOBODY = 0xFFFFFFFF

cdef struct BoardTopic:
    uint32_t first              # its partitions are [first, first + count)
    uint32_t count

cdef struct BoardMember:
    uint32_t start              # its topics, ascending, are topics_of[start, start + count)
    uint32_t count

cdef struct Board:
    Vec[BoardTopic] topics
    Vec[BoardMember] members    # in order of ids
    Vec[uint32_t] topics_of
    Vec[uint32_t] owners        # of each partition: a member that reads its topic, or NOBODY
    bint is_alike               # all members read the same topics: all there are
    Vec[uint32_t] readers       # scratch
    Vec[uint32_t] starts        # scratch
    Vec[uint32_t] counts        # scratch
    Vec[uint32_t] limits        # scratch

cdef void board_release(Board* board) noexcept nogil
# As many partitions for each member as for the others, give or take one where all members read the same. As few as
# possible change their owner then. False: no memory.
cdef bint assign_uniform(Board* board) noexcept nogil
# Of each topic a range of partitions for each of its readers in order; the first ones get one more. False: no memory.
cdef bint assign_range(Board* board) noexcept nogil
