# The simulated world's order of events: a binary heap by (time, number). Equal times keep the order of scheduling, so
# that one seed is one run.
from libc.stdint cimport uint32_t, uint64_t

from raftmeta.native.containers cimport Vec

cdef enum SimEventKind:
    SIM_WAKE = 1                # a node's engine wants to run
    SIM_FRAME = 2               # a frame arrives: data = SimFrame*
    SIM_JOBS = 3                # a node's disk does what is queued
    SIM_JOBS_DONE = 4           # and tells the engine
    SIM_CONNECT = 5             # a node tries to open its link to another
    SIM_CLIENT = 6              # the workload on a node does something
    SIM_FAULT = 7               # the next fault
    SIM_RESTART = 8
    SIM_HEAL = 9
    SIM_ROOM = 10               # a full disk has room again
    SIM_REVEAL = 11             # a damaged disk's process dies
    SIM_SENDING = 12            # a client of another process does its next step: life is its number
    SIM_REST = 13               # a quiet hour begins
    SIM_COPY = 14               # a node's copy of the user machine does what it was given
    SIM_BACKGROUND = 15         # a job of the background of a node's disk has waited long enough

cdef struct SimEvent:
    uint64_t time_ns
    uint64_t number
    uint32_t kind               # SimEventKind
    uint32_t node
    uint32_t other
    uint64_t life               # of the node: an event of an earlier life is passed over
    void* data

cdef struct SimEvents:
    Vec[SimEvent] heap
    uint64_t next_number

cdef bint events_push(SimEvents* events, const SimEvent* event) noexcept nogil      # False: no memory
cdef bint events_pop(SimEvents* events, SimEvent* event) noexcept nogil             # False: none
