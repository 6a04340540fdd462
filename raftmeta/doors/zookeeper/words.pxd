# The words of four letters: the door gathers numbers and lists, and four_letter writes them.
from libc.stdint cimport uint8_t

from raftmeta.doors.zookeeper.four_letter cimport FourLetterWord
from raftmeta.doors.zookeeper.state cimport ZkConnection, ZkDoor
from raftmeta.native.containers cimport Vec

# One part of a count of the tree, if one is under way. It may pin the state.
cdef void census_go(ZkDoor* door) noexcept nogil
# Append the answer. connection: who asks; it is not listed.
cdef void word_answer(ZkDoor* door, ZkConnection* connection, FourLetterWord word, Vec[uint8_t]* out) noexcept nogil
