# Beliefs of the engine about itself and about those behind its ports (ports.pxd, engine/state.pxd, engine/snapshots).
from libc.stdint cimport uint64_t

from raftmeta.native.invariants cimport Broken

cdef enum EngineInvariant:
    # The applier.
    BROKEN_APPLY_GAP = 301              # a = index of a record to be applied, b = the one that must come here
    BROKEN_APPLY_TORN = 302             # a = bytes of whole records in a slice, b = bytes of the slice
    BROKEN_PUBLISHED_BACK = 303         # a = index applied, b = index published before
    BROKEN_PUBLISHED_OTHER = 304        # a = index applied by the machine, b = by the engine
    BROKEN_APPLY_LAST = 315             # a = last index taken from the core, b = last that it named
    BROKEN_APPLIED_AHEAD = 316          # a = index applied, b = last index taken from the core
    BROKEN_EVENT_ORDER = 317            # a = revision of events, b = newest revision that watches were told
    BROKEN_INSTALLED_OTHER = 318        # a = index applied by an installed machine, b = index of its snapshot
    # DiskJobPort: a job comes back once, and those of the log in the order in which they went.
    BROKEN_JOB_OUT_TWICE = 305          # a = kind of the job, b = its number: it is under way already
    BROKEN_JOB_BACK_TWICE = 306         # a = kind of the job, b = jobs under way: it is not
    BROKEN_JOB_ORDER = 307              # a = number of a job of the log, b = of the one that came back last
    BROKEN_MEMBERSHIP_LOGGED = 308      # a = index of a membership that cannot be encoded, b = its members
    BROKEN_JOB_READ = 319               # a = index of the first record that a read gave, b = the one asked for
    BROKEN_JOB_PIECE = 320              # a = bytes of a piece of a file, b = bytes that were asked for
    BROKEN_ROOM_JOBS = 321              # a = kind of a job of the log that came back, b = those under way
    # NetworkPort.
    BROKEN_MESSAGE_SENDER = 322         # a = member that a message names as its sender, b = this one
    BROKEN_LINK_UNUSED = 309            # a = link of a frame, b = links that there are: it is free, or this node's own
    BROKEN_FRAME_SHORT = 310            # a = bytes of a frame, b = bytes of its header
    # CallerPort: the end of a ticket is told once.
    BROKEN_ANSWERED_TWICE = 311         # a = revision of the second answer, b = its status
    BROKEN_READERS_GONE = 312           # a = readers of a round, b = readers that wait
    # CheckpointPort.
    BROKEN_CHECKPOINT_POINT = 313       # a = index of the state handed over, b = index applied
    # Its own commands: keep-alives, expiry, its session.
    BROKEN_OWN_COMMAND = 314            # a = kind of a command that cannot be encoded, b = why (status.pxd)

# Counts that show whether promises are held.
cdef struct Promises:
    Broken broken               # the first one that was not
    uint64_t jobs_submitted     # numbers the jobs
    uint64_t jobs_under_way
    uint64_t log_job_back       # number of the job of the log that came back last
