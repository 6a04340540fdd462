"""Two watches on each node, over any number of resumptions: one of all keys, one of a key that hardly ever changes.

    I15  the first sees every revision once, in order, and the same bytes on every node; the second misses no revision
         in which the first one saw its key
         a watch that lagged goes on at the first revision that it did not show; one that was compacted away at the
         first one that is left
    I16  a progress mark of the second names nothing that it was not shown
It must never compare with a state; what one node showed is what all others must show.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from raftmeta.engine.engine cimport engine_submit
from raftmeta.engine.state cimport ENGINE_RUNNING
from raftmeta.engine.submission cimport (SUBMIT_UNWATCH, SUBMIT_WATCH, Submission, WatchArguments, submission_create,
                                         submission_payload)
from raftmeta.machine.machine cimport MachineStatus, machine_status
from raftmeta.machine.watch_state cimport Watch
from raftmeta.machine.watches cimport (WATCH_COMPACTED, WATCH_EVENTS, WATCH_LAGGED, WATCH_PREVIOUS, WATCH_PROGRESS,
                                       WATCH_PROGRESS_MARK, watch_take)
from raftmeta.native.intrinsics cimport hash64
from raftmeta.sim.world.world_state cimport (SIM_WATCHES, VIOLATION_FATAL, VIOLATION_NO_MEMORY, VIOLATION_PROGRESS_MARK,
                                             VIOLATION_WATCH, violate)
from raftmeta.status cimport OK
from raftmeta.wire.msgpack cimport Reader, read_array, read_uint, reader_over, unsigned_max

cdef enum:
    QUIET_KEY_BYTES = 5         # "quiet"


# --- opening and closing ----------------------------------------------------------------------------------------------
cdef void _open(World* world, SimNode* node, SimWatch* watch, bint is_quiet) noexcept nogil:
    cdef Submission* submission = submission_create(SUBMIT_WATCH, 2 * QUIET_KEY_BYTES if is_quiet else 0)
    cdef WatchArguments* asked
    if submission == NULL:
        violate(world, VIOLATION_NO_MEMORY, node.number, 0, 0)
        return
    submission.owner = watch
    asked = &submission.arguments.watch
    asked.handle = watch
    asked.start_revision = watch.next_revision
    asked.filter = WATCH_PREVIOUS
    if is_quiet:                # ["quiet", "quieu")
        asked.filter |= WATCH_PROGRESS
        asked.key_length = QUIET_KEY_BYTES
        memcpy(submission_payload(submission), b"quietquieu", 2 * QUIET_KEY_BYTES)
    watch.is_pending = True
    engine_submit(node.engine, submission)


cdef void _close(World* world, SimNode* node, SimWatch* watch) noexcept nogil:
    cdef Submission* submission = submission_create(SUBMIT_UNWATCH, 0)
    if submission == NULL:
        violate(world, VIOLATION_NO_MEMORY, node.number, 0, 0)
        return
    submission.arguments.unwatch.watch = <Watch*>watch.watch
    watch.watch = NULL
    engine_submit(node.engine, submission)


cdef void watches_opened(SimWatch* watch, status_t status, const void* body) noexcept nogil:
    watch.is_pending = False
    if status == OK:
        memcpy(&watch.watch, body, sizeof(void*))


# --- what they show ---------------------------------------------------------------------------------------------------
cdef bint _names_quiet(const uint8_t* item, uint32_t length) noexcept nogil:
    cdef uint32_t i
    for i in range(length - QUIET_KEY_BYTES + 1 if length >= QUIET_KEY_BYTES else <uint32_t>0):
        if item[i] == c'q' and memcmp(item + i, b"quiet", QUIET_KEY_BYTES) == 0:
            return True
    return False


cdef void _check_whole(World* world, SimNode* node, SimWatch* watch, uint64_t revision, const uint8_t* item,
                       uint32_t length) noexcept nogil:
    cdef uint64_t hash = hash64(0, item, length) | 1
    if watch.next_revision != 0 and revision != watch.next_revision:
        violate(world, VIOLATION_WATCH, node.number, revision, watch.next_revision)
    watch.next_revision = revision + 1
    if (world.truth.event_hashes.size <= revision
            and not (world.truth.event_hashes.resize(revision + 1) and world.truth.is_quiet.resize(revision + 1))):
        violate(world, VIOLATION_NO_MEMORY, node.number, 0, 0)
    elif world.truth.event_hashes.data[revision] == 0:
        world.truth.event_hashes.data[revision] = hash
        world.truth.is_quiet.data[revision] = _names_quiet(item, length)
    elif world.truth.event_hashes.data[revision] != hash:
        violate(world, VIOLATION_WATCH, node.number, revision, 0)


# Did the quiet key change in a revision that the watch was to show before `end`?
cdef bint _misses(World* world, const SimWatch* watch, uint64_t end) noexcept nogil:
    cdef uint64_t revision
    if watch.next_revision == 0:
        return False            # it was opened for what comes, and has shown nothing yet
    for revision in range(watch.next_revision, min(end, <uint64_t>world.truth.is_quiet.size)):
        if world.truth.is_quiet.data[revision]:
            return True
    return False


cdef void _check_quiet(World* world, SimNode* node, SimWatch* watch, uint64_t revision) noexcept nogil:
    if revision < watch.next_revision or _misses(world, watch, revision):
        violate(world, VIOLATION_WATCH, node.number, revision, watch.next_revision)
    watch.next_revision = revision + 1


cdef void _check_mark(World* world, SimNode* node, SimWatch* watch, uint64_t revision) noexcept nogil:
    world.counts.progress_marks += 1
    if _misses(world, watch, revision + 1):
        violate(world, VIOLATION_PROGRESS_MARK, node.number, revision, watch.next_revision)
    watch.next_revision = max(watch.next_revision, revision + 1)


# It goes on at the first revision that it did not show, and at no later one.
cdef void _check_lagged(World* world, SimNode* node, const SimWatch* watch, uint64_t revision) noexcept nogil:
    cdef bint is_first = revision == watch.next_revision
    if watch != &node.watches[0]:
        is_first = revision >= watch.next_revision and not _misses(world, watch, revision)
        # Of a revision that no watch of all keys has shown yet, nobody knows what it changed.
        if revision < world.truth.is_quiet.size and world.truth.event_hashes.data[revision] != 0:
            is_first = is_first and world.truth.is_quiet.data[revision]
    if watch.next_revision != 0 and not is_first:
        violate(world, VIOLATION_WATCH, node.number, revision, watch.next_revision)


# It goes on at the first revision that the history still has. The floor may have risen in this turn, before it was
# said or after.
cdef void _check_compacted(World* world, SimNode* node, const SimWatch* watch, uint64_t revision) noexcept nogil:
    cdef MachineStatus machine
    machine_status(node.engine.machine, &machine)
    if revision <= watch.next_revision or not node.floor_seen < revision <= machine.compacted + 1:
        violate(world, VIOLATION_WATCH, node.number, revision, machine.compacted)


cdef void watches_check_item(World* world, SimNode* node, SimWatch* watch, const uint8_t* item,
                             uint32_t length) noexcept nogil:
    cdef Reader reader = reader_over(item, length)
    cdef uint64_t kind, revision
    read_array(&reader, 5)
    kind = read_uint(&reader, unsigned_max())
    revision = read_uint(&reader, unsigned_max())
    if reader.status != OK:
        violate(world, VIOLATION_FATAL, node.number, 5, length)
    elif kind == WATCH_EVENTS:
        world.counts.watch_events += 1
        if watch == &node.watches[0]:
            _check_whole(world, node, watch, revision, item, length)
        else:
            _check_quiet(world, node, watch, revision)
    elif kind == WATCH_PROGRESS_MARK:
        _check_mark(world, node, watch, revision)
    elif kind == WATCH_LAGGED or kind == WATCH_COMPACTED:
        if kind == WATCH_LAGGED:
            _check_lagged(world, node, watch, revision)
        else:
            _check_compacted(world, node, watch, revision)
        watch.next_revision = revision
        watch.must_close = True


cdef void _take_items(World* world, SimNode* node, SimWatch* watch) noexcept nogil:
    cdef uint32_t count = 1
    while count != 0 and watch.watch != NULL:
        world.items.clear()
        if watch_take(<Watch*>watch.watch, 1, 1 << 20, &world.items, &count) != OK:
            violate(world, VIOLATION_NO_MEMORY, node.number, 0, 0)
            return
        if count != 0:
            watches_check_item(world, node, watch, world.items.data, <uint32_t>world.items.size)
        if watch.must_close:
            watch.must_close = False
            _close(world, node, watch)


cdef void watches_woken(void* handle) noexcept nogil:
    (<SimWatch*>handle).has_items = True


cdef void watches_look(World* world, SimNode* node) noexcept nogil:
    cdef MachineStatus machine
    cdef int i
    cdef SimWatch* watch
    if node.engine.state != ENGINE_RUNNING:
        return
    for i in range(SIM_WATCHES):
        watch = &node.watches[i]
        if watch.watch == NULL and not watch.is_pending and world.clients_are_on:
            _open(world, node, watch, i != 0)
        elif watch.has_items:
            watch.has_items = False
            _take_items(world, node, watch)
    machine_status(node.engine.machine, &machine)
    node.floor_seen = machine.compacted


cdef void watches_forget(SimNode* node) noexcept nogil:
    cdef int i
    for i in range(SIM_WATCHES):
        node.watches[i].watch = NULL
        node.watches[i].is_pending = False
        node.watches[i].has_items = False
