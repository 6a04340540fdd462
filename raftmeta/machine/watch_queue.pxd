# Events on their way from the thread that applies to one consumer: encoding, the queue, taking.
#
# Neither side waits for the other: the producer links items at the end, the consumer frees them at the front. This
# module never decides which watch sees what, or when a queue is too full.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.machine.history cimport Change
from raftmeta.machine.watch_state cimport EventBatch, EventSpan, WatchFront, WatchItem, WatchPurse, WatchQueue
from raftmeta.native.containers cimport Vec
from raftmeta.status cimport status_t

cdef enum:
    TUNE_FRAGMENT_BYTES = 1 << 20       # events of one item; a single event may be longer

# Append the event of one change, [type, record, previous | nil], to bytes and say where it stands.
cdef status_t event_encode(const Change* change, bint with_previous, Vec[uint8_t]* bytes,
                           EventSpan* span) noexcept nogil
# A batch of what was encoded: 2 * count spans. One holder, the caller. NULL: no memory.
cdef EventBatch* batch_create(uint64_t number, uint64_t revision, uint64_t wall_ms, uint32_t count,
                              const EventSpan* spans, const Vec[uint8_t]* bytes) noexcept nogil
cdef void batch_drop(EventBatch* batch) noexcept nogil
cdef const EventSpan* batch_span(const EventBatch* batch, uint32_t position, bint with_previous) noexcept nogil
cdef const uint8_t* batch_bytes(const EventBatch* batch) noexcept nogil

# total: counts the bytes of many queues, for metrics. purse: holds back all queues of one client, NULL: none; held.
cdef void queue_init(WatchQueue* queue, uint64_t* total, WatchPurse* purse) noexcept nogil
# Nobody takes any more.
cdef void queue_release(WatchQueue* queue) noexcept nogil
cdef uint64_t queue_bytes(const WatchQueue* queue) noexcept nogil
# The memory that a batch takes.
cdef uint64_t batch_memory(const EventBatch* batch) noexcept nogil
# Item with room for `count` positions, which item_positions shows. NULL: no memory.
cdef WatchItem* item_create(uint8_t kind, uint64_t revision, uint32_t count) noexcept nogil
cdef uint32_t* item_positions(const WatchItem* item) noexcept nogil
# Hand the item over; queue and batch (held once more) are then shared with the consumer.
cdef void queue_push(WatchQueue* queue, WatchItem* item, EventBatch* batch) noexcept nogil
# Hand over the last item, for which there always is room.
cdef void queue_end(WatchQueue* queue, uint8_t kind, uint64_t revision) noexcept nogil

# The consumer: what comes next, no events of a revision above `shown`. False: nothing.
cdef bint queue_look(const WatchQueue* queue, uint64_t shown, WatchFront* front) noexcept nogil
# It was taken: what queue_look showed is no longer there.
cdef void queue_pass(WatchQueue* queue, const WatchFront* front) noexcept nogil
# Both, encoded: append up to items_max items to out, none after bytes_max is reached, no events of a revision above
# `shown`. NO_MEMORY: what *count says was taken, the rest waits.
cdef status_t queue_take(WatchQueue* queue, uint64_t shown, uint32_t items_max, uint32_t bytes_max, Vec[uint8_t]* out,
                         uint32_t* count) noexcept nogil
