"""Trimming: bodies.

A change record that falls below the floor takes with it what its key was before it. Done revision by revision, every
chain then ends at the newest version at or below the floor, and each cut is O(1). A dump under way stops nothing: it
goes on reading what it began with (dump.pyx), and all that is newer comes and goes as ever.
"""
from libc.stdint cimport uint32_t

from raftmeta.machine.history cimport Change, Step, history_drop_front, history_free_kept, history_step, step_changes
from raftmeta.machine.tree cimport ENTRY_TOMBSTONE, Entry, entry_key, tree_cut_chain, tree_find, tree_remove
from raftmeta.native.atomics cimport load_acquire
from raftmeta.native.prefetch cimport prefetch
from raftmeta.status cimport NO_MEMORY

cdef enum:
    TUNE_AHEAD = 4                  # changes whose entries are asked for before their turn
    TUNE_KEPT_BLOCKS = 16           # given back at once when a dump has ended: well below a millisecond


cdef void machine_trim(Machine* machine, uint32_t changes_max) noexcept nogil:
    cdef uint32_t* trimmed = &machine.history.trimmed_changes
    cdef uint32_t changes = 0
    cdef Step* step
    if load_acquire(&machine.dumps) == 0:
        history_free_kept(&machine.history, TUNE_KEPT_BLOCKS)
    while machine.history.trimmed < machine.compacted:
        step = history_step(&machine.history, machine.history.trimmed + 1)
        if step.count == 1 and machine.history.trimmed + 1 + TUNE_AHEAD <= machine.compacted:
            prefetch(history_step(&machine.history, machine.history.trimmed + 1 + TUNE_AHEAD).changes.single.after)
        while trimmed[0] < step.count:
            if trimmed[0] + TUNE_AHEAD < step.count:
                prefetch(step_changes(step)[trimmed[0] + TUNE_AHEAD].after)
            # Out of memory is no harm here: what cannot go now goes later.
            if changes == changes_max or not _trim_change(machine, &step_changes(step)[trimmed[0]]):
                return
            trimmed[0] += 1
            changes += 1
        if not history_drop_front(&machine.history):
            return

cdef bint _trim_change(Machine* machine, const Change* change) noexcept nogil:
    cdef const Entry* after = change.after
    tree_cut_chain(machine.tree, <Entry*>after, machine.history.trimmed + 1)
    if not after.flags & ENTRY_TOMBSTONE or tree_find(machine.tree, entry_key(after), after.key_length) != after:
        return True
    return tree_remove(machine.tree, entry_key(after), after.key_length) != NO_MEMORY
