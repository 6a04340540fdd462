# The change records from `compacted` to `revision`: what each revision changed, in the order of its entry.
#
# Replicated state: alike on every node, its floor moves only by COMMAND_COMPACT. The floor that answers (`compacted`
# of the machine) moves at once; the memory below it is given back later, in bounded steps (trim.pyx). Steps stand in
# blocks that never move, so a dump may read old blocks while new ones are filled; steps that it shows are kept beside
# the ring when they are dropped, until no dump is under way.
from libc.stdint cimport uint32_t, uint64_t

from raftmeta.machine.tree cimport Entry
from raftmeta.native.containers cimport Ring

cdef enum:
    HISTORY_BLOCK_STEPS = 256
    FORMAT_CHANGE_BYTES = 64        # what a change counts in history_bytes beside its key and value

# One change of a key, in the order of the entry. `after` is a tombstone (flags & ENTRY_TOMBSTONE) for a delete.
cdef struct Change:
    const Entry* after
    const Entry* before             # NULL: the key did not exist

# One revision.
cdef struct Step:
    uint64_t wall_ms                # of the entry, advisory
    uint64_t bytes_through          # history bytes ever, this revision included
    uint32_t count
    Change* many                    # NULL: the one change stands in `single`
    Change single

cdef struct HistoryBlock:
    Step[HISTORY_BLOCK_STEPS] steps

# Steps of the revisions (trimmed, newest]; revision r stands in block r / HISTORY_BLOCK_STEPS.
cdef struct History:
    Ring[HistoryBlock*] blocks
    Ring[HistoryBlock*] kept        # dropped, and shown by a dump under way
    uint64_t kept_through           # newest revision that a dump under way shows; 0: there is none
    uint64_t first_block            # number of the front block
    uint64_t trimmed                # steps up to this revision are given back
    uint64_t newest
    uint64_t bytes_through          # of the newest step
    Step* prepared                  # not yet committed
    uint32_t trimmed_changes        # of the step after `trimmed`, when that was too long for one go

cdef inline Change* step_changes(Step* step) noexcept nogil:
    return step.many if step.many != NULL else &step.single

cdef void history_release(History* history) noexcept nogil
# The step of revision newest + 1 with room for `count` changes, not counted before history_commit. NULL: no memory.
cdef Step* history_prepare(History* history, uint32_t count, uint64_t wall_ms) noexcept nogil
# The prepared step is complete: it becomes the newest.
cdef void history_commit(History* history, Step* step) noexcept nogil
# Of a revision in (trimmed, newest].
cdef Step* history_step(History* history, uint64_t revision) noexcept nogil
# Bytes of the changes in (compacted, newest], counted alike on every node.
cdef uint64_t history_bytes(History* history, uint64_t compacted) noexcept nogil
# The step after `trimmed` is given back. False: no memory to keep it for a dump; nothing changed.
cdef bint history_drop_front(History* history) noexcept nogil
# A dump of what is there now begins: until history_free_kept its steps stay readable, dropped or not.
cdef void history_keep(History* history) noexcept nogil
# No dump is under way: give back what was kept for one, at most so many blocks at once.
cdef void history_free_kept(History* history, uint32_t blocks_max) noexcept nogil
# An empty history that begins after `revision`.
cdef void history_begin_at(History* history, uint64_t revision) noexcept nogil
