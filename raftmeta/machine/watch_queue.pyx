"""Events on their way to one consumer. The first page of watch_queue.pxd says what it decides."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from raftmeta.machine.history cimport change_before
from raftmeta.machine.plan cimport entry_view
from raftmeta.machine.tree cimport ENTRY_TOMBSTONE, Entry
from raftmeta.machine.watch_purse cimport purse_drop, purse_hold, purse_pay, purse_pay_back
from raftmeta.machine.watch_state cimport WATCH_DELETE, WATCH_EVENTS, WATCH_PUT
from raftmeta.native.atomics cimport add_shared, load_acquire, store_release, subtract_shared
from raftmeta.native.prefetch cimport prefetch
from raftmeta.status cimport NO_MEMORY, OK
from raftmeta.wire.commands cimport (
    KeyView, result_array, result_bool, result_key, result_nil, result_unsigned)


cdef enum:
    ALLOCATION_BYTES = 16       # that malloc adds to a piece


# --- encoding ---------------------------------------------------------------------------------------------------------

cdef status_t _append_record(const Entry* entry, Vec[uint8_t]* bytes) noexcept nogil:
    cdef KeyView view
    entry_view(entry, &view)
    return result_key(bytes, &view)


cdef status_t event_encode(const Change* change, bint with_previous, Vec[uint8_t]* bytes,
                           EventSpan* span) noexcept nogil:
    cdef bint is_delete = change.after.flags & ENTRY_TOMBSTONE
    cdef const Entry* before = change_before(change) if with_previous else NULL
    cdef status_t status
    span.offset = bytes.size
    status = result_array(bytes, 3)
    if status == OK:
        status = result_unsigned(bytes, WATCH_DELETE if is_delete else WATCH_PUT)
    if status == OK:
        status = _append_record(change.after, bytes)
    if status == OK:
        status = _append_record(before, bytes) if before != NULL else result_nil(bytes)
    span.length = bytes.size - span.offset
    return status


cdef inline EventSpan* _spans(const EventBatch* batch) noexcept nogil:
    return <EventSpan*>(<uint8_t*>batch + sizeof(EventBatch))


cdef const uint8_t* batch_bytes(const EventBatch* batch) noexcept nogil:
    return <const uint8_t*>(_spans(batch) + 2 * <size_t>batch.count)


cdef const EventSpan* batch_span(const EventBatch* batch, uint32_t position, bint with_previous) noexcept nogil:
    return &_spans(batch)[2 * <size_t>position + with_previous]


cdef EventBatch* batch_create(uint64_t number, uint64_t revision, uint64_t wall_ms, uint32_t count,
                              const EventSpan* spans, const Vec[uint8_t]* bytes) noexcept nogil:
    cdef size_t spans_length = 2 * <size_t>count * sizeof(EventSpan)
    cdef EventBatch* batch = <EventBatch*>malloc(sizeof(EventBatch) + spans_length + bytes.size)
    if batch == NULL:
        return NULL
    batch.holders = 1
    batch.number = number
    batch.bytes = bytes.size
    batch.revision = revision
    batch.wall_ms = wall_ms
    batch.count = count
    memcpy(_spans(batch), spans, spans_length)
    memcpy(<uint8_t*>batch_bytes(batch), bytes.data, bytes.size)
    return batch


cdef uint64_t batch_memory(const EventBatch* batch) noexcept nogil:
    return sizeof(EventBatch) + 2 * <uint64_t>batch.count * sizeof(EventSpan) + batch.bytes + ALLOCATION_BYTES


cdef void batch_drop(EventBatch* batch) noexcept nogil:
    if batch != NULL and subtract_shared[uint64_t](&batch.holders, 1) == 0:
        free(batch)


# --- the producer -----------------------------------------------------------------------------------------------------

cdef void queue_init(WatchQueue* queue, uint64_t* total, WatchPurse* purse) noexcept nogil:
    queue.total = total
    queue.purse = purse
    purse_hold(purse)
    queue.stub.is_embedded = True
    queue.ending.is_embedded = True
    queue.newest = &queue.stub
    queue.taken = &queue.stub


cdef inline void _free_item(WatchItem* item) noexcept nogil:
    if not item.is_embedded:
        free(item)


cdef void queue_release(WatchQueue* queue) noexcept nogil:
    cdef WatchItem* item = queue.taken
    cdef WatchItem* following
    subtract_shared(queue.total, queue.bytes)
    while item != NULL:
        following = item.next
        if item != queue.taken:
            purse_pay_back(queue.purse, item.paid)
        batch_drop(item.batch)
        _free_item(item)
        item = following
    purse_drop(queue.purse)


cdef uint64_t queue_bytes(const WatchQueue* queue) noexcept nogil:
    return load_acquire(&queue.bytes)


cdef WatchItem* item_create(uint8_t kind, uint64_t revision, uint32_t count) noexcept nogil:
    cdef size_t length = sizeof(WatchItem) + <size_t>count * sizeof(uint32_t)
    cdef WatchItem* item = <WatchItem*>malloc(length)
    if item == NULL:
        return NULL
    memset(item, 0, sizeof(WatchItem))
    item.kind = kind
    item.revision = revision
    item.count = count
    item.bytes = length
    item.paid = length + ALLOCATION_BYTES
    return item


cdef uint32_t* item_positions(const WatchItem* item) noexcept nogil:
    return <uint32_t*>(<uint8_t*>item + sizeof(WatchItem))


cdef void queue_push(WatchQueue* queue, WatchItem* item, EventBatch* batch) noexcept nogil:
    item.batch = batch
    if batch != NULL:
        add_shared[uint64_t](&batch.holders, 1)
    add_shared(&queue.bytes, item.bytes)
    add_shared(queue.total, item.bytes)
    purse_pay(queue.purse, item.paid)
    store_release(&queue.newest.next, item)
    queue.newest = item


cdef void queue_end(WatchQueue* queue, uint8_t kind, uint64_t revision) noexcept nogil:
    queue.ending.kind = kind
    queue.ending.revision = revision
    queue_push(queue, &queue.ending, NULL)


# --- the consumer -----------------------------------------------------------------------------------------------------

# Events of the item from position `given` on that make one fragment: one at least.
cdef void _fragment(WatchFront* front) noexcept nogil:
    cdef const WatchItem* item = front.item
    cdef const uint32_t* positions = item_positions(item)
    cdef uint64_t length = batch_span(item.batch, positions[front.first], item.with_previous).length
    while front.end == front.first or (front.end < item.count and front.bytes + length <= TUNE_FRAGMENT_BYTES):
        front.bytes += length
        front.end += 1
        if front.end < item.count:
            length = batch_span(item.batch, positions[front.end], item.with_previous).length


cdef bint queue_look(const WatchQueue* queue, uint64_t shown, WatchFront* front) noexcept nogil:
    front.item = load_acquire(&queue.taken.next)
    if front.item == NULL or (front.item.kind == WATCH_EVENTS and front.item.revision > shown):
        return False
    prefetch(load_acquire(&front.item.next))    # items of one watch lie far apart, and it is the next one
    front.first = queue.given
    front.end = front.first
    front.bytes = 0
    if front.item.kind == WATCH_EVENTS:
        _fragment(front)
    return True


cdef void queue_pass(WatchQueue* queue, const WatchFront* front) noexcept nogil:
    cdef WatchItem* item = front.item
    cdef WatchItem* before = queue.taken
    queue.given = front.end
    if front.end < item.count:
        return
    # It was given out whole, and becomes the item taken last.
    subtract_shared(&queue.bytes, item.bytes)
    subtract_shared(queue.total, item.bytes)
    purse_pay_back(queue.purse, item.paid)
    batch_drop(item.batch)
    item.batch = NULL
    queue.taken = item
    queue.given = 0
    _free_item(before)


# Append [kind, revision, wall_ms, [event, ...], more].
cdef status_t _append_item(const WatchFront* front, Vec[uint8_t]* out) noexcept nogil:
    cdef const WatchItem* item = front.item
    cdef const EventSpan* span
    cdef uint32_t number
    cdef status_t status = result_array(out, 5)
    if status == OK:
        status = result_unsigned(out, item.kind)
    if status == OK:
        status = result_unsigned(out, item.revision)
    if status == OK:
        status = result_unsigned(out, item.batch.wall_ms if item.batch != NULL else 0)
    if status == OK:
        status = result_array(out, front.end - front.first)
    for number in range(front.first, front.end):
        span = batch_span(item.batch, item_positions(item)[number], item.with_previous)
        if status == OK and not out.append(batch_bytes(item.batch) + span.offset, span.length):
            status = NO_MEMORY
    if status == OK:
        status = result_bool(out, front.end < item.count)
    return status


cdef status_t queue_take(WatchQueue* queue, uint64_t shown, uint32_t items_max, uint32_t bytes_max, Vec[uint8_t]* out,
                         uint32_t* count) noexcept nogil:
    cdef size_t start = out.size
    cdef size_t whole
    cdef WatchFront front
    cdef status_t status
    count[0] = 0
    while count[0] < items_max and (count[0] == 0 or out.size - start < bytes_max):
        if not queue_look(queue, shown, &front):
            return OK
        whole = out.size
        status = _append_item(&front, out)
        if status != OK:
            out.size = whole
            return status
        count[0] += 1
        queue_pass(queue, &front)
    return OK
