# Behind a door, for fuzzers: a loop that hands commands over, and a machine that applies each of them at once.
# There is no thread, no socket and no log. The machine is empty at first. Time passes by turns of one second.
#
#   behind_open      a machine, and the desk's session on it
#   behind_begin     a turn begins: time passes
#   behind_answer    every submission of the desk is carried out and answered, by the desk's own rules
#   behind_close     all of it is released; the door's struct is its owner's
from libc.stdint cimport uint64_t

from raftmeta.doors.desk.state cimport Desk, DeskRules
from raftmeta.loop.loop cimport LoopReader
from raftmeta.machine.machine cimport Machine

cdef struct Behind:
    Desk* desk                  # of the door
    Machine* machine
    uint64_t index              # of the last entry
    bint is_broken              # an invariant of the machine broke

# False: there is no memory. The struct may be closed all the same.
cdef bint behind_open(Behind* behind, Desk* desk, LoopReader reader, const DeskRules* rules) noexcept nogil
cdef void behind_begin(Behind* behind) noexcept nogil
cdef void behind_answer(Behind* behind) noexcept nogil
cdef void behind_close(Behind* behind) noexcept nogil
