"""Records of an audit trail on their way: bodies.

A record stands whole in the ring. If it does not fit behind the others, a filler takes the rest of the ring.
"""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from raftmeta.native.atomics cimport (add_shared, exchange_shared, load_acquire, load_shared, store_release,
                                      store_shared, swap_shared)
from raftmeta.native.threads cimport futex_wait, futex_wake, wall_now_ms

cdef extern from "<sys/socket.h>" nogil:
    enum: AF_INET
    enum: AF_INET6
    enum: AF_UNIX
    cdef struct sockaddr:
        pass
    cdef struct sockaddr_storage:
        pass
    ctypedef unsigned int socklen_t
    int getpeername(int fd, sockaddr* address, socklen_t* length)

cdef enum:
    FILLER_BYTES = 8            # size and operation of a record
    NS_PER_S = 1_000_000_000
    ALIGNMENT = 8
    CALLED = 3                  # beside AuditSleep: audit_wake was called, for something that is in no ring


cdef AuditTrail* audit_create() noexcept nogil:
    cdef AuditTrail* trail = <AuditTrail*>calloc(1, sizeof(AuditTrail))
    cdef int who
    if trail == NULL:
        return NULL
    for who in range(AUDIT_PRODUCERS):
        trail.queues[who].bytes = <uint8_t*>malloc(TUNE_QUEUE_BYTES)
        if trail.queues[who].bytes == NULL:
            audit_destroy(trail)
            return NULL
    return trail


cdef void audit_destroy(AuditTrail* trail) noexcept nogil:
    cdef int who
    if trail != NULL:
        for who in range(AUDIT_PRODUCERS):
            free(trail.queues[who].bytes)
        free(trail)


cdef void audit_address_of(int fd, AuditAddress* address) noexcept nogil:
    cdef sockaddr_storage storage
    cdef const uint8_t* bytes = <const uint8_t*>&storage
    cdef socklen_t length = sizeof(sockaddr_storage)
    cdef uint16_t family
    memset(address, 0, sizeof(AuditAddress))
    memset(&storage, 0, sizeof(storage))
    if getpeername(fd, <sockaddr*>&storage, &length) != 0:
        return
    memcpy(&family, bytes, sizeof(family))
    address.port = <uint16_t>(bytes[2] << 8 | bytes[3])
    if family == AF_UNIX:
        address.family = AUDIT_ADDRESS_UNIX
        address.port = 0
    elif family == AF_INET:                     # sockaddr_in: family, port, address
        address.family = AUDIT_ADDRESS_4
        memcpy(address.bytes, bytes + 4, 4)
    elif family == AF_INET6:                    # sockaddr_in6: family, port, flow, address
        address.family = AUDIT_ADDRESS_6
        memcpy(address.bytes, bytes + 8, 16)


# --- a native thread --------------------------------------------------------------------------------------------------
cdef bint audit_wants(const AuditTrail* trail, AuditClass kind) noexcept nogil:
    if kind == AUDIT_READS:
        return trail.reads
    return trail.writes or kind != AUDIT_WRITES


cdef uint64_t _left_free(AuditClass kind) noexcept nogil:
    if kind == AUDIT_ADMINISTRATION:
        return 0
    return TUNE_KEPT_FOR_ADMINISTRATION if kind == AUDIT_DENIED else TUNE_KEPT_FOR_DENIED


cdef uint64_t _room(const AuditQueue* queue) noexcept nogil:
    return TUNE_QUEUE_BYTES - (queue.tail - load_acquire(&queue.head))


# Records without a promise leave the promised bytes free, and as much as a filler may take among these. The free part
# of a ring has one end at most.
cdef uint64_t _kept(const AuditQueue* queue) noexcept nogil:
    return queue.promised + AUDIT_RECORD_BYTES_MAX if queue.promised else 0


cdef bint audit_promise(AuditTrail* trail, AuditProducer who, uint32_t size, AuditClass kind) noexcept nogil:
    cdef AuditQueue* queue = &trail.queues[<int>who]
    if _room(queue) < queue.promised + size + AUDIT_RECORD_BYTES_MAX + _left_free(kind):
        return False
    queue.promised += size
    return True


cdef void audit_release(AuditTrail* trail, AuditProducer who, uint32_t size) noexcept nogil:
    trail.queues[<int>who].promised -= size


cdef void _ring_bell(AuditTrail* trail) noexcept nogil:
    add_shared(&trail.bell, <uint32_t>1)
    futex_wake(&trail.bell, 1)


cdef void _ring(AuditTrail* trail, const AuditQueue* queue) noexcept nogil:
    cdef uint32_t sleep = load_shared(&trail.sleep)
    if sleep == AUDIT_AWAKE or sleep == CALLED:
        return
    if sleep == AUDIT_PAUSING and TUNE_QUEUE_BYTES - _room(queue) < TUNE_WAKE_BYTES:
        return
    if swap_shared(&trail.sleep, sleep, <uint32_t>AUDIT_AWAKE):
        _ring_bell(trail)


cdef bint audit_push(AuditTrail* trail, AuditProducer who, const AuditRecord* record, AuditClass kind,
                     bint was_promised) noexcept nogil:
    cdef AuditQueue* queue = &trail.queues[<int>who]
    cdef AuditRecord filler
    cdef uint64_t place = queue.tail % TUNE_QUEUE_BYTES
    cdef uint64_t behind = TUNE_QUEUE_BYTES - place
    cdef uint64_t lost = behind if behind < record.size else 0
    cdef uint64_t left = 0 if was_promised else _kept(queue) + _left_free(kind)
    if _room(queue) < lost + record.size + left:
        store_release(&queue.dropped[<int>kind], queue.dropped[<int>kind] + 1)
        return False
    if lost:
        memset(&filler, 0, sizeof(filler))
        filler.size = <uint32_t>lost
        memcpy(queue.bytes + place, &filler, FILLER_BYTES)
        place = 0
    memcpy(queue.bytes + place, record, record.size)
    store_release(&queue.pushed, queue.pushed + 1)
    store_shared(&queue.tail, queue.tail + lost + record.size)
    _ring(trail, queue)
    return True


# A bucket of tokens, as the time at which it would be full.
cdef bint audit_admits(AuditTrail* trail, AuditProducer who, uint64_t now_ns) noexcept nogil:
    cdef AuditQueue* queue = &trail.queues[<int>who]
    cdef uint64_t step_ns = NS_PER_S // TUNE_REFUSALS_PER_S
    cdef uint64_t full_ns = max(queue.tokens_ns, now_ns) + step_ns
    if full_ns > now_ns + TUNE_REFUSALS_BURST * step_ns:
        store_release(&queue.suppressed, queue.suppressed + 1)
        return False
    queue.tokens_ns = full_ns
    return True


cdef void audit_push_refusal(AuditTrail* trail, AuditProducer who, AuditPort port, const AuditAddress* address,
                             status_t status, uint64_t now_ns) noexcept nogil:
    cdef AuditRecord record
    if trail == NULL or not audit_admits(trail, who, now_ns):
        return
    memset(&record, 0, sizeof(record))
    record.size = (sizeof(AuditRecord) + ALIGNMENT - 1) & ~<uint32_t>(ALIGNMENT - 1)
    record.operation = AUDIT_CONNECTION
    record.port = port
    record.kind = AUDIT_DENIED
    record.status = status
    record.wall_ms = wall_now_ms()
    record.address = address[0]
    audit_push(trail, who, &record, AUDIT_DENIED, False)


# --- the writer -------------------------------------------------------------------------------------------------------
cdef const AuditRecord* audit_front(AuditTrail* trail, AuditProducer who) noexcept nogil:
    cdef AuditQueue* queue = &trail.queues[<int>who]
    cdef const AuditRecord* record
    while queue.head != load_shared(&queue.tail):
        record = <const AuditRecord*>(queue.bytes + queue.head % TUNE_QUEUE_BYTES)
        if record.operation != AUDIT_FILLER:
            return record
        store_release(&queue.head, queue.head + record.size)
    return NULL


cdef void audit_pop(AuditTrail* trail, AuditProducer who, const AuditRecord* record) noexcept nogil:
    cdef AuditQueue* queue = &trail.queues[<int>who]
    store_release(&queue.head, queue.head + record.size)


cdef uint64_t audit_dropped(const AuditTrail* trail, AuditClass kind) noexcept nogil:
    cdef uint64_t count = 0
    cdef int who
    for who in range(AUDIT_PRODUCERS):
        count += load_acquire(&trail.queues[who].dropped[<int>kind])
    return count


cdef uint64_t audit_suppressed(const AuditTrail* trail) noexcept nogil:
    cdef uint64_t count = 0
    cdef int who
    for who in range(AUDIT_PRODUCERS):
        count += load_acquire(&trail.queues[who].suppressed)
    return count


cdef uint64_t audit_pushed(const AuditTrail* trail) noexcept nogil:
    cdef uint64_t count = 0
    cdef int who
    for who in range(AUDIT_PRODUCERS):
        count += load_acquire(&trail.queues[who].pushed)
    return count


cdef bint _is_empty(AuditTrail* trail) noexcept nogil:
    cdef int who
    for who in range(AUDIT_PRODUCERS):
        if audit_front(trail, <AuditProducer>who) != NULL:
            return False
    return True


# A record that comes while it falls asleep:
#     1. the writer says that it sleeps,
#     2. it looks at the rings: a record that was pushed before is seen,
#     3. one that is pushed later finds it asleep, and changes the bell that it is about to sleep on.
# A call of audit_wake is kept until the next sleep, which ends at once.
cdef void audit_await(AuditTrail* trail, uint64_t timeout_ns, bint is_pause) noexcept nogil:
    cdef uint32_t bell = load_shared(&trail.bell)
    cdef uint32_t before = exchange_shared(&trail.sleep, <uint32_t>(AUDIT_PAUSING if is_pause else AUDIT_IDLE))
    if before == CALLED:
        pass
    elif is_pause or _is_empty(trail):
        futex_wait(&trail.bell, bell, timeout_ns)
    store_shared(&trail.sleep, <uint32_t>AUDIT_AWAKE)


cdef void audit_wake(AuditTrail* trail) noexcept nogil:
    store_shared(&trail.sleep, <uint32_t>CALLED)
    _ring_bell(trail)
