# Asks of own logs on their way: from the door to the host, and back (own_state.pxd). It knows no request's fields.
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t

from raftmeta.doors.kafka.own_state cimport OwnAsk, OwnLogs
from raftmeta.doors.kafka.state cimport KafkaDoor, KafkaRequest
from raftmeta.wire.commands cimport Bytes

# One partition of a request.
cdef struct OwnSlot:
    OwnAsk* ask                     # NULL: the host was not asked
    int32_t epoch                   # of the leader, when it was
    int16_t code                    # as the door sees it

cdef inline OwnSlot* own_slot(KafkaRequest* request, uint32_t part) noexcept nogil:
    return &(<OwnSlot*>request.texts.data)[part]

cdef inline uint32_t own_slots(const KafkaRequest* request) noexcept nogil:
    return <uint32_t>(request.texts.size // sizeof(OwnSlot))

# A slot for each partition, before the host is asked. False: no memory.
cdef bint own_add_slot(KafkaRequest* request) noexcept nogil
# Whether every slot is settled. Once the host has had its time, those that it did not answer are, by an error.
cdef bint own_is_settled(KafkaDoor* door, KafkaRequest* request, uint64_t deadline_ns) noexcept nogil
# The error of a slot that is settled.
cdef int16_t own_code(const OwnSlot* slot) noexcept nogil

# --- life: two holders ------------------------------------------------------------------------------------------------
# NULL: no memory or no descriptor.
cdef OwnLogs* own_create(uint64_t bytes_max, uint64_t timeout_ns) noexcept nogil
# The last one to let go frees it, with all asks that are on their way.
cdef void own_drop(OwnLogs* own) noexcept nogil
# The door takes its hold over. False: no descriptor is left; the caller keeps it.
cdef bint own_attach(KafkaDoor* door, OwnLogs* own) noexcept nogil
# The door lets go, after its thread has ended.
cdef void own_detach(KafkaDoor* door) noexcept nogil

# --- the door's thread ------------------------------------------------------------------------------------------------
# An ask for the host, which owns it from here on. records: copied. NULL: no memory.
cdef OwnAsk* own_ask(KafkaDoor* door, KafkaRequest* request, uint8_t kind, const Bytes* name, int32_t partition,
                     int32_t epoch, int64_t number, uint32_t bytes_max, const Bytes* records) noexcept nogil
# Whether the host has room for so many bytes more. A host that has nothing takes anything.
cdef bint own_has_room(const KafkaDoor* door, uint64_t bytes) noexcept nogil
# The request waits for it no more: it is freed, now or when it is back. NULL is nothing.
cdef void own_forget(OwnAsk* ask) noexcept nogil
# A request with the trait KAFKA_OWN is freed. Until then its `texts` are slots, one for each of its partitions.
cdef void own_release(KafkaRequest* request) noexcept nogil
# In each turn: what came back, and news of logs. And the host is woken, if it was asked something.
cdef void own_take(KafkaDoor* door) noexcept nogil
cdef void own_submit(KafkaDoor* door) noexcept nogil
# Whether a log has grown since news were at this number, so that a fetch looks again.
cdef bint own_has_news(const KafkaDoor* door, const Bytes* name, int32_t partition, uint64_t since) noexcept nogil

# --- the host's threads -----------------------------------------------------------------------------------------------
# An answered ask goes back, or news go to the door.
cdef void own_tell(OwnLogs* own, OwnAsk* ask) noexcept nogil
# News of a log. NULL: no memory.
cdef OwnAsk* own_news(const uint8_t* name, uint32_t length, int32_t partition) noexcept nogil
