"""Asks of own logs on their way: bodies.

The host wakes the door by the descriptor of the door's mailbox. The door takes in each turn what was told, after it
has read that descriptor, so what was told before is taken, and what is told later wakes it again.
"""

from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from raftmeta.doors.kafka.brokers cimport broker_id
from raftmeta.doors.kafka.own_state cimport OWN_NEWS, OWN_PRODUCE
from raftmeta.doors.kafka.protocol cimport KAFKA_OK, KAFKA_REQUEST_TIMED_OUT
from raftmeta.loop.tickets cimport Mail, mailbox_create, mailbox_drop, mailbox_ring, mailbox_take
from raftmeta.native.atomics cimport exchange_shared, store_shared, subtract_shared
from raftmeta.native.intrinsics cimport hash64
from raftmeta.net cimport posix

cdef extern from "<fcntl.h>" nogil:
    int fcntl(int descriptor, int command, int argument)
    int F_DUPFD_CLOEXEC


# --- slots ------------------------------------------------------------------------------------------------------------
cdef bint own_add_slot(KafkaRequest* request) noexcept nogil:
    cdef OwnSlot slot
    memset(&slot, 0, sizeof(OwnSlot))
    slot.epoch = -1
    return request.texts.append(<const uint8_t*>&slot, sizeof(OwnSlot))


cdef bint own_is_settled(KafkaDoor* door, KafkaRequest* request, uint64_t deadline_ns) noexcept nogil:
    cdef bint is_over = door.desk.base.now_ns >= deadline_ns
    cdef OwnSlot* slot
    cdef uint32_t part
    for part in range(own_slots(request)):
        slot = own_slot(request, part)
        if slot.ask == NULL or slot.ask.is_back:
            continue
        if not is_over:
            return False
        own_forget(slot.ask)
        slot.ask = NULL
        slot.code = KAFKA_REQUEST_TIMED_OUT
    return True


cdef int16_t own_code(const OwnSlot* slot) noexcept nogil:
    return slot.code if slot.ask == NULL else slot.ask.code


# --- life -------------------------------------------------------------------------------------------------------------
cdef OwnLogs* own_create(uint64_t bytes_max, uint64_t timeout_ns) noexcept nogil:
    cdef OwnLogs* own = <OwnLogs*>calloc(1, sizeof(OwnLogs))
    if own == NULL:
        return NULL
    own.holders = 1
    own.bytes_max = bytes_max
    own.timeout_ns = timeout_ns
    own.door_fd = own.broker = -1
    own.asked = mailbox_create(True)
    if own.asked == NULL:
        free(own)
        return NULL
    return own


cdef void _free(OwnAsk* ask) noexcept nogil:
    free(ask.records)
    free(ask)


cdef void own_drop(OwnLogs* own) noexcept nogil:
    cdef Mail* mail
    cdef Mail* next_mail
    cdef OwnAsk* ask
    cdef OwnAsk* next_ask
    if subtract_shared(&own.holders, <uint32_t>1) != 0:
        return
    mail = mailbox_take(own.asked)
    while mail != NULL:
        next_mail = mail.next
        _free(<OwnAsk*>mail)
        mail = next_mail
    ask = own.told.take()
    while ask != NULL:
        next_ask = ask.next
        _free(ask)
        ask = next_ask
    mailbox_drop(own.asked)
    if own.door_fd >= 0:
        posix.close(own.door_fd)
    own.newest.release()
    own.claims.release()
    free(own)


cdef bint own_attach(KafkaDoor* door, OwnLogs* own) noexcept nogil:
    own.door_fd = fcntl(door.desk.mailbox.event_fd, F_DUPFD_CLOEXEC, 0)
    if own.door_fd < 0:
        return False
    door.own = own
    return True


cdef void own_detach(KafkaDoor* door) noexcept nogil:
    if door.own == NULL:
        return
    store_shared(&door.own.is_closing, <uint32_t>1)
    mailbox_ring(door.own.asked)
    own_drop(door.own)
    door.own = NULL


# --- the door's thread ------------------------------------------------------------------------------------------------
cdef bint own_has_room(const KafkaDoor* door, uint64_t bytes) noexcept nogil:
    return door.own.bytes == 0 or door.own.bytes + bytes <= door.own.bytes_max


cdef OwnAsk* own_ask(KafkaDoor* door, KafkaRequest* request, uint8_t kind, const Bytes* name, int32_t partition,
                     int32_t epoch, int64_t number, uint32_t bytes_max, const Bytes* records) noexcept nogil:
    cdef OwnAsk* ask = <OwnAsk*>calloc(1, sizeof(OwnAsk))
    if ask == NULL:
        return NULL
    if records != NULL:
        ask.records = <uint8_t*>malloc(records.length + 1)
        if ask.records == NULL:
            free(ask)
            return NULL
        memcpy(ask.records, records.data, records.length)
        ask.records_length = records.length
    ask.request = request
    ask.kind = kind
    ask.partition = partition
    ask.epoch = epoch
    ask.number = number
    ask.bytes_max = bytes_max
    ask.name_length = name.length
    memcpy(ask.name, name.data, name.length)
    ask.news = door.own.news
    ask.counted = sizeof(OwnAsk) + ask.records_length + bytes_max
    door.own.bytes += ask.counted
    door.own.asked.posted.push(&ask.mail)
    door.own.has_asked = True
    return ask


cdef void own_forget(OwnAsk* ask) noexcept nogil:
    if ask == NULL:
        return
    if ask.is_back:
        _free(ask)
    else:
        ask.request = NULL


cdef void own_release(KafkaRequest* request) noexcept nogil:
    cdef uint32_t part
    for part in range(own_slots(request)):
        own_forget(own_slot(request, part).ask)
    request.texts.clear()


cdef inline uint64_t _hash(const Bytes* name, int32_t partition) noexcept nogil:
    return hash64(<uint64_t>partition, name.data, name.length)


cdef void _grown(KafkaDoor* door, const Bytes* name, int32_t partition) noexcept nogil:
    cdef uint64_t* newest = door.own.newest.insert(_hash(name, partition))
    door.own.news += 1
    if newest != NULL:              # without memory a fetch waits until its time is over
        newest[0] = door.own.news


cdef bint own_has_news(const KafkaDoor* door, const Bytes* name, int32_t partition, uint64_t since) noexcept nogil:
    cdef uint64_t* newest = door.own.newest.find(_hash(name, partition))
    return newest != NULL and newest[0] > since


cdef void own_take(KafkaDoor* door) noexcept nogil:
    cdef OwnAsk* ask
    cdef OwnAsk* next
    cdef Bytes name
    if door.own == NULL:
        return
    store_shared(&door.own.broker, broker_id(door.desk.status.id))
    store_shared(&door.own.is_rung, <uint32_t>0)
    ask = door.own.told.take()
    while ask != NULL:
        next = ask.next
        ask.is_back = True
        door.own.bytes -= ask.counted
        name.data = ask.name
        name.length = ask.name_length
        if ask.kind == OWN_NEWS or (ask.kind == OWN_PRODUCE and ask.code == KAFKA_OK):
            _grown(door, &name, ask.partition)
        if ask.request == NULL:
            _free(ask)
        ask = next


cdef void own_submit(KafkaDoor* door) noexcept nogil:
    if door.own != NULL and door.own.has_asked:
        door.own.has_asked = False
        mailbox_ring(door.own.asked)


# --- the host's threads -----------------------------------------------------------------------------------------------
cdef void own_tell(OwnLogs* own, OwnAsk* ask) noexcept nogil:
    cdef uint64_t one = 1
    own.told.push(ask)
    if exchange_shared(&own.is_rung, <uint32_t>1) == 0 and own.door_fd >= 0:
        posix.write(own.door_fd, &one, sizeof(one))


cdef OwnAsk* own_news(const uint8_t* name, uint32_t length, int32_t partition) noexcept nogil:
    cdef OwnAsk* ask = <OwnAsk*>calloc(1, sizeof(OwnAsk))
    if ask == NULL:
        return NULL
    ask.kind = OWN_NEWS
    ask.name_length = length
    ask.partition = partition
    memcpy(ask.name, name, length)
    return ask
