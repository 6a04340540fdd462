"""Produce and Fetch of topics whose records the host keeps: bodies.

Sources: Apache Kafka 3.9 ReplicaManager.scala (appendRecords, fetchMessages), Partition.scala (leader epochs, KIP-320).
"""

from libc.stdint cimport int16_t, int32_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from raftmeta.doors.desk.rounds cimport round_ask
from raftmeta.doors.kafka.audit cimport audit_blocks, audit_names_log
from raftmeta.doors.kafka.codec cimport get_end, get_tags
from raftmeta.doors.kafka.own_asks cimport (OwnSlot, own_add_slot, own_ask, own_code, own_forget, own_has_news,
                                            own_has_room, own_is_settled, own_release, own_slot, own_slots)
from raftmeta.doors.kafka.own_leaders cimport OwnLeader, leader_check
from raftmeta.doors.kafka.own_state cimport OWN_FETCH, OWN_PRODUCE
from raftmeta.doors.kafka.protocol cimport (KAFKA_INVALID_REQUIRED_ACKS, KAFKA_NOT_LEADER_OR_FOLLOWER,
                                            KAFKA_OFFSET_OUT_OF_RANGE, KAFKA_OK, KAFKA_REQUEST_TIMED_OUT,
                                            KAFKA_UNKNOWN_SERVER_ERROR, KAFKA_UNKNOWN_TOPIC_ID)
from raftmeta.doors.kafka.records cimport (Produced, ProduceWalk, produce_answer, produce_next_named,
                                           produce_next_partition, produce_next_topic, produce_walk)
from raftmeta.doors.kafka.records_fetch cimport (FetchWalk, fetch_answer, fetch_is_unknown_id, fetch_is_whole,
                                                 fetch_next_named, fetch_next_partition, fetch_next_topic,
                                                 fetch_refuse_session, fetch_walk)
from raftmeta.doors.kafka.records_topic cimport TopicLog
from raftmeta.doors.kafka.reply cimport reply_fail, request_pin
from raftmeta.native.containers cimport Vec
from raftmeta.wire.record_batches cimport batch_check
from raftmeta.wire.records cimport RECORDS_COMPACT

cdef enum:
    STEP_NEW = 0
    STEP_ASKED = 1                  # the host was
    STEP_PROVING = 2                # a read round shows who leads
    STEP_TOLD = 3                   # the slots have become outcomes
    TUNE_FETCH_BYTES = 1 << 20      # of one answer
    TUNE_FETCH_SHARES = 8           # so many partitions may fill an answer by themselves
    PARTITION_BYTES = 16 * 1024     # the least that the host is asked for
    NS_PER_MS = 1_000_000


# --- Produce ----------------------------------------------------------------------------------------------------------
cdef int16_t _append(KafkaDoor* door, KafkaRequest* request, OwnSlot* slot, const ProduceWalk* walk) noexcept nogil:
    cdef OwnLeader leader
    cdef TopicLog log
    cdef int16_t code
    if walk.acks < -1 or walk.acks > 1:
        return KAFKA_INVALID_REQUIRED_ACKS
    if walk.id != NULL and walk.name.length == 0:
        return KAFKA_UNKNOWN_TOPIC_ID
    code = leader_check(door, request, &walk.name, walk.partition, -1, True, &log, &leader)
    if code == KAFKA_OK:
        code = <int16_t>batch_check(&walk.batch, log.policy.flags & RECORDS_COMPACT != 0)
    if code != KAFKA_OK:
        return code
    if audit_blocks(door):
        return KAFKA_REQUEST_TIMED_OUT
    slot.epoch = leader.epoch
    slot.ask = own_ask(door, request, OWN_PRODUCE, &walk.name, walk.partition, leader.epoch, 0, 0, &walk.batch)
    return KAFKA_OK if slot.ask != NULL else <int16_t>KAFKA_UNKNOWN_SERVER_ERROR


cdef void own_produce_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    cdef ProduceWalk walk
    produce_walk(request, &walk)
    while produce_next_topic(&walk):
        while produce_next_partition(&walk):
            if not own_add_slot(request):
                walk.reader.is_bad = True
    get_tags(&walk.reader)
    if not get_end(&walk.reader):
        reply_fail(door, request)
        return
    request.deadline_ns = request.begun_ns + min(door.own.timeout_ns, <uint64_t>max(walk.timeout_ms, 0) * NS_PER_MS)
    own_produce_go(door, request)


# Room for the request's batches may be long in coming; then none of them was handed over.
cdef bint _hand_over(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    cdef bint has_room = own_has_room(door, request.frame_length)
    cdef uint32_t part = 0
    cdef ProduceWalk walk
    if not request_pin(door, request) or (not has_room and door.desk.base.now_ns < request.deadline_ns):
        return False
    produce_walk(request, &walk)
    while produce_next_named(door, &walk):
        if walk.name.length:
            audit_names_log(door, request, &walk.name)
        while produce_next_partition(&walk):
            own_slot(request, part).code = (_append(door, request, own_slot(request, part), &walk) if has_room
                                            else <int16_t>KAFKA_REQUEST_TIMED_OUT)
            part += 1
    return True


# A success that this node may tell, for it leads the partition in the same epoch behind the append.
cdef int16_t _proved(KafkaDoor* door, KafkaRequest* request, const OwnSlot* slot,
                     const ProduceWalk* walk) noexcept nogil:
    cdef int16_t code = own_code(slot)
    cdef OwnLeader leader
    cdef TopicLog log
    if code != KAFKA_OK or walk.acks == 0:
        return code
    code = leader_check(door, request, &walk.name, walk.partition, -1, True, &log, &leader)
    return code if code != KAFKA_OK or leader.epoch == slot.epoch else <int16_t>KAFKA_NOT_LEADER_OR_FOLLOWER


# The slots become outcomes, as produce_answer wants them.
cdef bint _settle(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    cdef Vec[uint8_t] outcomes
    cdef const OwnSlot* slot
    cdef Produced produced
    cdef ProduceWalk walk
    cdef uint32_t part = 0
    cdef bint is_good = True
    memset(<void*>&outcomes, 0, sizeof(outcomes))
    produce_walk(request, &walk)
    while produce_next_named(door, &walk):
        while produce_next_partition(&walk):
            slot = own_slot(request, part)
            memset(&produced, 0, sizeof(Produced))
            produced.code = _proved(door, request, slot, &walk)
            produced.offset = produced.start = -1
            if produced.code == KAFKA_OK and slot.ask != NULL:
                produced.offset = slot.ask.offset
                produced.start = slot.ask.start
            is_good = is_good and outcomes.append(<const uint8_t*>&produced, sizeof(Produced))
            part += 1
    own_release(request)
    is_good = is_good and request.texts.append(outcomes.data, outcomes.size)
    outcomes.release()
    return is_good


cdef void own_produce_go(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    if request.step == STEP_NEW and _hand_over(door, request):
        request.step = STEP_ASKED
    if request.step == STEP_ASKED and own_is_settled(door, request, request.deadline_ns):
        request.step = STEP_PROVING
        request.round = round_ask(&door.desk)
    if request.step != STEP_PROVING or not request_pin(door, request):
        door.counters.waiting += 1
        return
    request.step = STEP_TOLD
    if _settle(door, request):
        produce_answer(door, request)
        request.texts.clear()
    else:
        request.texts.clear()
        reply_fail(door, request)


# --- Fetch ------------------------------------------------------------------------------------------------------------
cdef void own_fetch_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    cdef FetchWalk walk
    if not fetch_is_whole(request):
        reply_fail(door, request)
        return
    fetch_walk(request, &walk)
    if walk.session != 0:
        fetch_refuse_session(door, request)
        return
    request.deadline_ns = request.begun_ns + <uint64_t>max(walk.wait_ms, 0) * NS_PER_MS
    while fetch_next_topic(&walk):
        while fetch_next_partition(&walk):
            if not own_add_slot(request):
                reply_fail(door, request)
                return
    own_fetch_go(door, request)


# The host may send so much of one partition.
cdef uint32_t _bytes_of(const KafkaRequest* request, const FetchWalk* walk) noexcept nogil:
    cdef uint32_t whole = <uint32_t>min(max(walk.bytes_max, 0), <int32_t>TUNE_FETCH_BYTES)
    cdef uint32_t share = whole * TUNE_FETCH_SHARES // max(own_slots(request), <uint32_t>1)
    return min(<uint32_t>max(walk.partition_bytes_max, 0), min(whole, max(share, <uint32_t>PARTITION_BYTES)))


cdef void _ask(KafkaDoor* door, KafkaRequest* request, OwnSlot* slot, const FetchWalk* walk) noexcept nogil:
    cdef OwnLeader leader
    cdef TopicLog log
    own_forget(slot.ask)
    slot.ask = NULL
    slot.code = KAFKA_UNKNOWN_TOPIC_ID
    if fetch_is_unknown_id(walk):
        return
    slot.code = leader_check(door, request, &walk.name, walk.partition, walk.epoch, False, &log, &leader)
    if slot.code != KAFKA_OK:
        return
    slot.epoch = leader.epoch
    slot.ask = own_ask(door, request, OWN_FETCH, &walk.name, walk.partition, leader.epoch, walk.offset,
                       _bytes_of(request, walk), NULL)
    if slot.ask == NULL:
        slot.code = KAFKA_UNKNOWN_SERVER_ERROR


# Ask for all partitions, or for those with news since they were asked for. False: for none.
cdef bint _ask_host(KafkaDoor* door, KafkaRequest* request, bint for_news) noexcept nogil:
    cdef OwnSlot* slot
    cdef FetchWalk walk
    cdef uint32_t part = 0
    cdef bint has_asked = False
    fetch_walk(request, &walk)
    while fetch_next_named(door, &walk):
        while fetch_next_partition(&walk):
            slot = own_slot(request, part)
            part += 1
            if not for_news or (slot.ask != NULL
                                and own_has_news(door, &walk.name, walk.partition, slot.ask.news)):
                _ask(door, request, slot, &walk)
                has_asked = True
    request.number = door.desk.base.now_ns + door.own.timeout_ns
    return has_asked


cdef inline int16_t _code_of(const OwnSlot* slot) noexcept nogil:
    cdef int16_t code = own_code(slot)
    if code == KAFKA_OK and slot.ask != NULL and not slot.ask.start <= slot.ask.number <= slot.ask.end:
        return KAFKA_OFFSET_OUT_OF_RANGE
    return code


# Records, or an error.
cdef bint _has_something(KafkaRequest* request) noexcept nogil:
    cdef const OwnSlot* slot
    cdef uint32_t part
    for part in range(own_slots(request)):
        slot = own_slot(request, part)
        if _code_of(slot) != KAFKA_OK or (slot.ask != NULL and slot.ask.records_length):
            return True
    return False


cdef int16_t _take(KafkaDoor* door, KafkaRequest* request, const FetchWalk* walk, uint32_t part, uint64_t left,
                   bint must_have_one, TopicLog* log) noexcept nogil:
    cdef const OwnSlot* slot = own_slot(request, part)
    cdef int16_t code = _code_of(slot)
    door.request.clear()
    log.view.next = log.view.start = <uint64_t>-1
    if own_code(slot) == KAFKA_OK and slot.ask != NULL:
        log.view.start = <uint64_t>slot.ask.start
        log.view.next = <uint64_t>slot.ask.end
    if code != KAFKA_OK or slot.ask == NULL:
        return code
    # The next request asks for records that do not fit.
    if ((slot.ask.records_length <= left or must_have_one)
            and not door.request.append(slot.ask.records, slot.ask.records_length)):
        return KAFKA_UNKNOWN_SERVER_ERROR
    return code


cdef void own_fetch_go(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    if not request_pin(door, request):
        return
    if request.step == STEP_NEW:
        if not own_has_room(door, TUNE_FETCH_BYTES) and door.desk.base.now_ns < request.begun_ns + door.own.timeout_ns:
            door.counters.waiting += 1
            return
        _ask_host(door, request, False)
        request.step = STEP_ASKED
    if not own_is_settled(door, request, request.number):
        door.counters.waiting += 1
        return
    if not _has_something(request) and door.desk.base.now_ns < request.deadline_ns:
        _ask_host(door, request, True)
        door.counters.waiting += 1
        return
    fetch_answer(door, request, _take)
