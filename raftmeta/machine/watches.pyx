"""The watch hub. The first page of watches.pxd says what it decides and promises; which watches see a key is in
watch_index, encoding and queues are in watch_queue.
"""
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from raftmeta.machine.machine cimport machine_history
from raftmeta.machine.tree cimport ENTRY_TOMBSTONE, Entry, entry_key
from raftmeta.machine.tree_node cimport compare_bytes
from raftmeta.machine.watch_index cimport (
    WatchGroup, watch_index_find, watch_index_group, watch_index_release, watch_index_remove)
from raftmeta.machine.watch_purse cimport purse_has_room
from raftmeta.machine.watch_queue cimport (
    batch_bytes, batch_create, batch_drop, batch_memory, batch_span, event_encode, item_create, item_positions,
    queue_bytes, queue_end, queue_init, queue_look, queue_pass, queue_push, queue_release, queue_take)
from raftmeta.machine.watch_state cimport (
    LIST_ALL, LIST_COUNT, LIST_MEMBERS, LIST_PROGRESS, LIST_WOKEN, WATCH_BEHIND, WATCH_ENDED, WATCH_LIVE,
    WATCH_NOWHERE, EventBatch, EventSpan, WatchItem, WatchList, WatchMatch, WatchQueue)
from raftmeta.native.atomics cimport load_acquire, store_release
from raftmeta.native.buggify cimport BUGGIFY_WATCH_FULL, buggify
from raftmeta.native.marks cimport MARK_WATCH_BELOW_HISTORY, MARK_WATCH_JUMPED, MARK_WATCH_REPLAYED, mark
from raftmeta.status cimport COMPACTED, NO_MEMORY, OK

ctypedef Watch* watch_pointer_t

cdef enum:
    TUNE_PROGRESS_REVISIONS = 1000      # a mark after so many revisions without a match
    TUNE_PROGRESS_LOOKS = 64            # watches looked at for marks in one pump
    TUNE_REPLAY_ROOM_BYTES = 1 << 16    # a purse with less is not replayed into; what is live needs some


# --- lists ------------------------------------------------------------------------------------------------------------

# Room was reserved for Hub's own lists; False: no memory.
cdef bint _list_add(Vec[watch_pointer_t]* members, WatchList which, Watch* watch) noexcept nogil:
    if not members.push(watch):
        return False
    watch.place[<int>which] = <int64_t>members.size - 1
    return True


cdef void _list_remove(Vec[watch_pointer_t]* members, WatchList which, Watch* watch) noexcept nogil:
    cdef int64_t place = watch.place[<int>which]
    cdef Watch* moved
    if place == WATCH_NOWHERE:
        return
    moved = members.data[members.size - 1]
    members.data[place] = moved
    moved.place[<int>which] = place
    members.pop()
    watch.place[<int>which] = WATCH_NOWHERE


# Every list of the hub can hold every watch: later moves between them cannot fail.
cdef bint _reserve_lists(Hub* hub) noexcept nogil:
    cdef size_t count = hub.watches.size + 1
    return (hub.watches.reserve(count) and hub.behind.reserve(count) and hub.progress.reserve(count)
            and hub.woken.reserve(count))


cdef inline void _wake(Hub* hub, Watch* watch) noexcept nogil:
    if watch.place[<int>LIST_WOKEN] == WATCH_NOWHERE:
        _list_add(&hub.woken, LIST_WOKEN, watch)


# --- states -----------------------------------------------------------------------------------------------------------

cdef inline const uint8_t* _key(const Watch* watch) noexcept nogil:
    return <const uint8_t*>watch + sizeof(Watch)


cdef inline const uint8_t* _end(const Watch* watch) noexcept nogil:
    return _key(watch) + watch.key_length


cdef void _leave(Hub* hub, Watch* watch) noexcept nogil:
    cdef WatchGroup* group = watch.group
    if watch.state == WATCH_BEHIND:
        _list_remove(&hub.behind, LIST_MEMBERS, watch)
    elif watch.state == WATCH_LIVE:
        _list_remove(<Vec[watch_pointer_t]*>&group.members, LIST_MEMBERS, watch)
        if group.members.size == 0:
            watch_index_remove(&hub.index, group)
        watch.group = NULL


cdef void _become_behind(Hub* hub, Watch* watch) noexcept nogil:
    _leave(hub, watch)
    watch.state = WATCH_BEHIND
    store_release(&watch.reached, watch.next_revision - 1)
    _list_add(&hub.behind, LIST_MEMBERS, watch)


cdef void _become_ended(Hub* hub, Watch* watch, uint8_t kind, uint64_t revision) noexcept nogil:
    _leave(hub, watch)
    watch.state = WATCH_ENDED
    if watch.reached >= revision:
        store_release(&watch.reached, max(revision, <uint64_t>1) - 1)
    queue_end(&watch.queue, kind, revision)
    _wake(hub, watch)


cdef status_t _tell_progress(Hub* hub, Watch* watch) noexcept nogil:
    cdef WatchItem* item = item_create(WATCH_PROGRESS_MARK, hub.revision, 0)
    if item == NULL:
        return NO_MEMORY
    queue_push(&watch.queue, item, NULL)
    watch.told = hub.revision
    _wake(hub, watch)
    return OK


cdef status_t _become_live(Hub* hub, Watch* watch) noexcept nogil:
    cdef WatchGroup* group = watch_index_group(&hub.index, _key(watch), watch.key_length, _end(watch),
                                               watch.end_length)
    if group == NULL:
        return NO_MEMORY
    # The place in the old list is needed until the new one is certain.
    if not group.members.reserve(group.members.size + 1):
        if group.members.size == 0:
            watch_index_remove(&hub.index, group)
        return NO_MEMORY
    _leave(hub, watch)
    watch.state = WATCH_LIVE
    store_release(&watch.reached, ~<uint64_t>0)
    watch.group = group
    _list_add(<Vec[watch_pointer_t]*>&group.members, LIST_MEMBERS, watch)
    if watch.filter & WATCH_PROGRESS and watch.told < hub.revision and watch.next_revision <= hub.revision + 1:
        return _tell_progress(hub, watch)
    return OK


# The machine is at `revision`. The revisions between the last published one and that were never seen here.
cdef void _follow(Hub* hub, uint64_t revision) noexcept nogil:
    cdef size_t position
    cdef Watch* watch
    if revision == hub.revision:
        return
    for position in range(hub.watches.size):
        watch = hub.watches.data[position]
        if watch.state == WATCH_LIVE:
            if watch.next_revision <= hub.revision:
                watch.next_revision = hub.revision + 1
            mark(MARK_WATCH_JUMPED)
            _become_behind(hub, watch)
    hub.revision = revision


# --- life -------------------------------------------------------------------------------------------------------------

cdef void hub_measure(const Hub* hub, uint64_t* watches, uint64_t* queued_bytes) noexcept nogil:
    watches[0] = hub.watches.size
    queued_bytes[0] = load_acquire(&hub.queued_bytes)


cdef Hub* hub_create(uint64_t queue_bytes_max) noexcept nogil:
    cdef Hub* hub = <Hub*>calloc(1, sizeof(Hub))
    if hub != NULL:
        hub.queue_bytes_max = queue_bytes_max
        hub.shown = ~<uint64_t>0
    return hub


cdef void hub_show(Hub* hub, uint64_t revision) noexcept nogil:
    # Before it is shown: a watch that a snapshot has left behind must not look as if it had been told everything.
    _follow(hub, revision)
    store_release[uint64_t](&hub.shown, revision)


cdef void hub_destroy(Hub* hub) noexcept nogil:
    while hub.watches.size:
        hub_remove(hub, hub.watches.data[hub.watches.size - 1])
    watch_index_release(&hub.index)
    hub.watches.release()
    hub.behind.release()
    hub.progress.release()
    hub.woken.release()
    hub.groups.release()
    hub.matches.release()
    hub.touched.release()
    hub.spans.release()
    hub.bytes.release()
    free(hub)


cdef Watch* _new_watch(Hub* hub, const Bytes* key, const Bytes* end, uint32_t filter, void* owner,
                       WatchPurse* purse) noexcept nogil:
    cdef Watch* watch = <Watch*>calloc(1, sizeof(Watch) + key.length + end.length)
    cdef int which
    if watch == NULL:
        return NULL
    watch.owner = owner
    watch.filter = filter
    watch.key_length = key.length
    watch.end_length = end.length
    if key.length:
        memcpy(<uint8_t*>_key(watch), key.data, key.length)
    if end.length:
        memcpy(<uint8_t*>_end(watch), end.data, end.length)
    for which in range(LIST_COUNT):
        watch.place[which] = WATCH_NOWHERE
    queue_init(&watch.queue, &hub.queued_bytes, purse)
    watch.shown = &hub.shown
    return watch


cdef status_t hub_add(Hub* hub, Machine* machine, const Bytes* key, const Bytes* end, uint64_t start_revision,
                      uint32_t filter, void* owner, WatchPurse* purse, Watch** watch) noexcept nogil:
    cdef Watch* fresh
    cdef status_t status = OK
    _follow(hub, machine.revision)
    if not _reserve_lists(hub):
        return NO_MEMORY
    fresh = _new_watch(hub, key, end, filter, owner, purse)
    if fresh == NULL:
        return NO_MEMORY
    _list_add(&hub.watches, LIST_ALL, fresh)
    if filter & WATCH_PROGRESS:
        _list_add(&hub.progress, LIST_PROGRESS, fresh)
    fresh.next_revision = start_revision if start_revision else hub.revision + 1
    _become_behind(hub, fresh)
    if fresh.next_revision > hub.revision:
        status = _become_live(hub, fresh)
        if status != OK:
            hub_remove(hub, fresh)
            return status
    watch[0] = fresh
    return OK


cdef void hub_remove(Hub* hub, Watch* watch) noexcept nogil:
    _leave(hub, watch)
    _list_remove(&hub.woken, LIST_WOKEN, watch)
    _list_remove(&hub.progress, LIST_PROGRESS, watch)
    _list_remove(&hub.watches, LIST_ALL, watch)
    queue_release(&watch.queue)
    free(watch)


# The first revision that this watch was not offered.
cdef uint64_t _resume(const Hub* hub, const Watch* watch) noexcept nogil:
    if watch.state == WATCH_LIVE and watch.next_revision <= hub.revision:
        return hub.revision + 1
    return watch.next_revision


cdef void hub_close(Hub* hub, WatchItemKind reason) noexcept nogil:
    cdef size_t position
    cdef Watch* watch
    for position in range(hub.watches.size):
        watch = hub.watches.data[position]
        if watch.state != WATCH_ENDED:
            _become_ended(hub, watch, reason, _resume(hub, watch) if reason == WATCH_REMOVED else hub.revision)


# --- one revision: match, encode, enqueue -----------------------------------------------------------------------------

cdef inline bint _wants(const Watch* watch, const Change* change) noexcept nogil:
    if change.after.flags & ENTRY_TOMBSTONE:
        return not watch.filter & WATCH_NO_DELETE
    return not watch.filter & WATCH_NO_PUT


cdef status_t _add_match(Hub* hub, Watch* watch, uint32_t position) noexcept nogil:
    cdef WatchMatch match
    match.watch = watch
    match.position = position
    match.earlier = watch.match_last
    if watch.match_count == 0 and not hub.touched.push(watch):
        return NO_MEMORY
    if not hub.matches.push(match):
        return NO_MEMORY
    watch.match_last = <uint32_t>hub.matches.size - 1
    watch.match_count += 1
    return OK


cdef status_t _match_live(Hub* hub, uint64_t revision, const Change* change, uint32_t position) noexcept nogil:
    cdef const Entry* after = change.after
    cdef size_t group, member
    cdef Watch* watch
    cdef status_t status
    hub.groups.clear()
    status = watch_index_find(&hub.index, entry_key(after), after.key_length, &hub.groups)
    for group in range(hub.groups.size):
        for member in range(hub.groups.data[group].members.size):
            watch = <Watch*>hub.groups.data[group].members.data[member]
            if status == OK and watch.next_revision <= revision and _wants(watch, change):
                status = _add_match(hub, watch, position)
    return status


# Encode what was matched, each event at most once in each form. NULL: no memory.
cdef EventBatch* _encode(Hub* hub, uint64_t revision, uint64_t wall_ms, const Change* changes,
                         uint32_t count) noexcept nogil:
    cdef EventSpan* span
    cdef size_t match
    cdef uint32_t position
    cdef bint with_previous
    hub.bytes.clear()
    hub.spans.clear()
    if not hub.spans.resize(2 * <size_t>count):
        return NULL
    for match in range(hub.matches.size):
        position = hub.matches.data[match].position
        with_previous = (hub.matches.data[match].watch.filter & WATCH_PREVIOUS) != 0
        span = &hub.spans.data[2 * <size_t>position + with_previous]
        if span.length == 0 and event_encode(&changes[position], with_previous, &hub.bytes, span) != OK:
            return NULL
    hub.batches += 1
    return batch_create(hub.batches, revision, wall_ms, count, hub.spans.data, &hub.bytes)


# The item of one watch, with its matches in the order of the changes.
cdef WatchItem* _new_item(Hub* hub, Watch* watch, const EventBatch* batch, size_t sharers) noexcept nogil:
    cdef WatchItem* item = item_create(WATCH_EVENTS, batch.revision, watch.match_count)
    cdef uint32_t left = watch.match_count
    cdef uint32_t match = watch.match_last
    if item == NULL:
        return NULL
    item.with_previous = (watch.filter & WATCH_PREVIOUS) != 0
    item.paid += batch_memory(batch) // sharers
    while left:
        left -= 1
        item_positions(item)[left] = hub.matches.data[match].position
        item.bytes += batch_span(batch, hub.matches.data[match].position, item.with_previous).length
        match = hub.matches.data[match].earlier
    return item


# Likewise an empty purse.
cdef inline bint _may_pay(const WatchQueue* queue, uint64_t bytes) noexcept nogil:
    return queue.purse == NULL or load_acquire(&queue.purse.bytes) == 0 or purse_has_room(queue.purse, bytes)


cdef status_t _enqueue(Hub* hub, Watch* watch, EventBatch* batch) noexcept nogil:
    cdef WatchItem* item = _new_item(hub, watch, batch, hub.touched.size)
    cdef uint64_t waiting = queue_bytes(&watch.queue)
    if item == NULL:
        return NO_MEMORY
    # An empty queue takes any item: else a long revision would stop its watcher for good. Replay (behind) paces itself.
    if (watch.state == WATCH_LIVE
            and ((waiting != 0 and (waiting + item.bytes > hub.queue_bytes_max or buggify(BUGGIFY_WATCH_FULL)))
                 or not _may_pay(&watch.queue, item.paid))):
        free(item)
        _become_ended(hub, watch, WATCH_LAGGED, batch.revision)
        return OK
    queue_push(&watch.queue, item, batch)
    watch.told = batch.revision
    _wake(hub, watch)
    return OK


# Encode and enqueue what is in hub.matches.
cdef status_t _deliver(Hub* hub, uint64_t revision, uint64_t wall_ms, const Change* changes,
                       uint32_t count) noexcept nogil:
    cdef EventBatch* batch
    cdef status_t status = OK
    cdef size_t position
    cdef Watch* watch
    if hub.touched.size == 0:
        return OK
    batch = _encode(hub, revision, wall_ms, changes, count)
    if batch == NULL:
        status = NO_MEMORY
    for position in range(hub.touched.size):
        watch = hub.touched.data[position]
        if status == OK:
            status = _enqueue(hub, watch, batch)
        watch.match_count = 0
    batch_drop(batch)
    hub.touched.clear()
    hub.matches.clear()
    return status


cdef status_t hub_publish(Hub* hub, uint64_t revision, uint64_t wall_ms, const Change* changes,
                          uint32_t count) noexcept nogil:
    cdef uint32_t position
    cdef status_t status
    _follow(hub, revision - 1)
    hub.revision = revision
    for position in range(count):
        status = _match_live(hub, revision, &changes[position], position)
        if status != OK:
            return status
    return _deliver(hub, revision, wall_ms, changes, count)


# --- replay -----------------------------------------------------------------------------------------------------------

cdef inline bint _holds(const Watch* watch, const Entry* entry) noexcept nogil:
    if compare_bytes(_key(watch), watch.key_length, entry_key(entry), entry.key_length) > 0:
        return False
    return watch.end_length == 0 or compare_bytes(
        _end(watch), watch.end_length, entry_key(entry), entry.key_length) > 0


cdef status_t _match_one(Hub* hub, Watch* watch, const Change* changes, uint32_t count) noexcept nogil:
    cdef uint32_t position
    cdef status_t status
    for position in range(count):
        if _wants(watch, &changes[position]) and _holds(watch, changes[position].after):
            status = _add_match(hub, watch, position)
            if status != OK:
                return status
    return OK


# An empty purse gets one revision at least, as long as the pool is not full: shares may be smaller than any room.
cdef inline bint _may_replay(const WatchQueue* queue) noexcept nogil:
    if queue.purse != NULL and load_acquire(&queue.purse.bytes) == 0:
        return purse_has_room(queue.purse, 0)
    return purse_has_room(queue.purse, TUNE_REPLAY_ROOM_BYTES)


# Until the watch is live, has ended, waits for its consumer, or the budget of changes is spent.
cdef status_t _replay(Hub* hub, Machine* machine, Watch* watch, uint32_t* budget) noexcept nogil:
    cdef const Change* changes = NULL
    cdef uint32_t count = 0
    cdef uint64_t wall_ms = 0
    cdef status_t status
    while watch.next_revision <= hub.revision:
        if (budget[0] == 0 or queue_bytes(&watch.queue) > hub.queue_bytes_max // 2
                or not _may_replay(&watch.queue)):
            return OK
        status = machine_history(machine, watch.next_revision, &changes, &count, &wall_ms)
        if status == COMPACTED:
            mark(MARK_WATCH_BELOW_HISTORY)
            _become_ended(hub, watch, WATCH_COMPACTED, machine.compacted + 1)
            return OK
        if status == OK:
            status = _match_one(hub, watch, changes, count)
        if status == OK:
            status = _deliver(hub, watch.next_revision, wall_ms, changes, count)
        if status != OK:
            return status
        mark(MARK_WATCH_REPLAYED)
        watch.next_revision += 1
        budget[0] -= count if count < budget[0] else budget[0]
    return _become_live(hub, watch)


cdef status_t _mark_progress(Hub* hub) noexcept nogil:
    cdef size_t looks = hub.progress.size if hub.progress.size < TUNE_PROGRESS_LOOKS else TUNE_PROGRESS_LOOKS
    cdef Watch* watch
    cdef status_t status
    while looks:
        looks -= 1
        hub.progress_turn = (hub.progress_turn + 1) % hub.progress.size
        watch = hub.progress.data[hub.progress_turn]
        # A consumer that has not taken what there is learns nothing from a mark.
        if (watch.state == WATCH_LIVE and watch.told + TUNE_PROGRESS_REVISIONS <= hub.revision
                and watch.next_revision <= hub.revision and queue_bytes(&watch.queue) == 0):
            status = _tell_progress(hub, watch)
            if status != OK:
                return status
    return OK


cdef status_t hub_pump(Hub* hub, Machine* machine, uint32_t changes_max, bint* more) noexcept nogil:
    cdef size_t visits
    cdef Watch* watch
    cdef status_t status
    more[0] = False
    _follow(hub, machine.revision)
    visits = hub.behind.size
    while visits and changes_max:
        visits -= 1
        if hub.turn >= hub.behind.size:
            hub.turn = 0
        watch = hub.behind.data[hub.turn]
        status = _replay(hub, machine, watch, &changes_max)
        if status != OK:
            return status
        # A watch that left the list has another one in its place.
        if watch.state == WATCH_BEHIND:
            hub.turn += 1
    more[0] = changes_max == 0 and hub.behind.size != 0
    return _mark_progress(hub)


# --- consumers --------------------------------------------------------------------------------------------------------

cdef uint32_t hub_take_woken(Hub* hub, void** owners, uint32_t most) noexcept nogil:
    cdef uint32_t count = 0
    cdef Watch* watch
    while count < most and hub.woken.size:
        watch = hub.woken.back()
        _list_remove(&hub.woken, LIST_WOKEN, watch)
        owners[count] = watch.owner
        count += 1
    return count


cdef status_t watch_take(Watch* watch, uint32_t items_max, uint32_t bytes_max, Vec[uint8_t]* out,
                         uint32_t* count) noexcept nogil:
    return queue_take(&watch.queue, load_acquire[uint64_t](watch.shown), items_max, bytes_max, out, count)


# The order of the two: what `shown` shows was enqueued before to each watch that was live then; one that was not has
# said so in `reached` before.
cdef uint64_t watch_reached(const Watch* watch) noexcept nogil:
    cdef uint64_t shown = load_acquire[uint64_t](watch.shown)
    return min(shown, load_acquire(&watch.reached))


cdef bint watch_look(const Watch* watch, WatchView* view) noexcept nogil:
    cdef const WatchItem* item
    if not queue_look(&watch.queue, load_acquire[uint64_t](watch.shown), &view.front):
        return False
    item = view.front.item
    view.kind = item.kind
    view.is_whole = view.front.end == item.count
    view.revision = item.revision
    view.count = view.front.end - view.front.first
    view.bytes = view.front.bytes
    view.with_previous = item.with_previous
    view.wall_ms = item.batch.wall_ms if item.batch != NULL else 0
    view.batch = item.batch.number if item.batch != NULL else 0
    view.batch_bytes = item.batch.bytes if item.batch != NULL else 0
    view.batch_events = item.batch.count if item.batch != NULL else 0
    view.is_shared = item.batch != NULL and load_acquire(&item.batch.holders) > 1
    return True


cdef const uint8_t* view_event(const WatchView* view, uint32_t number, uint64_t* length,
                               uint32_t* position) noexcept nogil:
    cdef const WatchItem* item = view.front.item
    cdef const EventSpan* span
    position[0] = item_positions(item)[view.front.first + number]
    span = batch_span(item.batch, position[0], item.with_previous)
    length[0] = span.length
    return batch_bytes(item.batch) + span.offset


cdef void watch_pass(Watch* watch, const WatchView* view) noexcept nogil:
    queue_pass(&watch.queue, &view.front)
