# The change records from `compacted` to `revision`: what each revision changed, in the order of its entry.
#
# Replicated state: alike on every node, its floor moves only by COMMAND_COMPACT. The floor that answers (`compacted`
# of the machine) moves at once; the memory below it is given back later, in bounded steps (trim.pyx). Steps stand in
# blocks that never move, so a dump may read old blocks while new ones are filled; steps that it shows are kept beside
# the ring when they are dropped, until no dump is under way.
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

from raftmeta.machine.tree cimport ENTRY_TOMBSTONE, Entry, entry_previous
from raftmeta.native.containers cimport Ring

cdef enum:
    HISTORY_BLOCK_STEPS = 256
    FORMAT_CHANGE_BYTES = 64        # what a change counts in history_bytes beside its key and value

# One change of a key, in the order of the entry. `after` is a tombstone (flags & ENTRY_TOMBSTONE) for a delete.
# change_before gives the version before: the chain behind `after` is cut only when this change falls below the floor.
cdef struct Change:
    const Entry* after

cdef union StepChanges:
    Change* many
    Change single

# One revision. A million small puts have as many, so it is kept small.
cdef struct Step:
    uint64_t wall_ms                # of the entry, advisory
    uint32_t bytes                  # that it counts in history_bytes
    uint16_t count                  # at most CHANGES_MAX, twice that where leases of znodes end
    uint8_t is_many                 # the changes stand in `many`; else the one change in `single`
    StepChanges changes

cdef struct HistoryBlock:
    uint64_t bytes_before           # history bytes ever, of the revisions before this block
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
    uint64_t measured               # a revision, the first above the floor: 0, not known
    uint64_t measured_before        # history bytes ever, of the revisions before it

cdef inline Change* step_changes(Step* step) noexcept nogil:
    return step.changes.many if step.is_many else &step.changes.single

# The version before a change above the floor; NULL: the key did not exist.
cdef inline const Entry* change_before(const Change* change) noexcept nogil:
    cdef const Entry* before = entry_previous(change.after)
    return before if before != NULL and not before.flags & ENTRY_TOMBSTONE else NULL

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
