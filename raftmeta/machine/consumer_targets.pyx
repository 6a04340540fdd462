"""Targets of a consumer group: bodies."""
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from raftmeta.machine.consumer_assign cimport (NOBODY, Board, BoardMember, BoardTopic, assign_range, assign_uniform,
                                               board_release)
from raftmeta.machine.consumer_records cimport (ConsumerRecord, consumer_length, consumer_read, consumer_seen,
                                                consumer_words, consumer_write)
from raftmeta.machine.consumer_shares cimport Share, shares_length, shares_write
from raftmeta.machine.group_keys cimport Group, equal_bytes, group_store_member, no_bytes
from raftmeta.machine.group_records cimport MemberView
from raftmeta.machine.plan cimport compare_bytes, plan_room
from raftmeta.machine.state cimport Machine
from raftmeta.machine.topic_records cimport TopicRecord
from raftmeta.machine.topics cimport topics_find
from raftmeta.native.containers cimport Vec
from raftmeta.status cimport NO_MEMORY, OK, status_t
from raftmeta.wire.consumers cimport (CONSUMER_PARTITIONS_MAX, TOPIC_UUID_BYTES, PartitionsOf, partition_at,
                                      partitions_next, subscription_next)
from raftmeta.wire.windows cimport Bytes

# A topic of the board.
cdef struct Known:
    Bytes name
    uint8_t[16] id
    uint32_t partitions

# The board while it is made, and what it says of its numbers.
cdef struct Table:
    Board board
    Vec[Known] topics           # in order of names, as those of the board
    Vec[uint32_t] by_id         # the same in order of ids
    Vec[uint64_t] seen          # of each member
    Vec[Share] shares           # of all members, one after the other
    Vec[uint32_t] starts        # of each member, in shares
    Bytes assignor

cdef const char* UNIFORM = b"uniform"
cdef const char* RANGE = b"range"
cdef enum:
    UNIFORM_BYTES = 7
    RANGE_BYTES = 5


cdef void _release(Table* table) noexcept nogil:
    board_release(&table.board)
    table.topics.release()
    table.by_id.release()
    table.seen.release()
    table.shares.release()
    table.starts.release()

cdef uint64_t consumer_seen_now(Machine* machine, const Bytes* root, const Bytes* subscription) noexcept nogil:
    cdef TopicRecord topic
    cdef Bytes name
    cdef uint32_t place = 0
    cdef uint64_t seen = 0
    while subscription_next(subscription, &place, &name):
        if topics_find(machine, root, &name, &topic):
            seen = consumer_seen(seen, topic.meta.id, topic.meta.partitions)
    return seen

cdef bint consumer_put(Machine* machine, MemberView* member, const ConsumerRecord* consumer) noexcept nogil:
    cdef uint32_t length = consumer_length(consumer)
    cdef uint8_t* room = plan_room(&machine.plan, length)
    if room == NULL:
        return False
    consumer_write(consumer, room)
    member.record.assignment.data = room
    member.record.assignment.length = length
    return True

cdef inline Bytes _subscription(const MemberView* member) noexcept nogil:
    cdef Bytes assignor, subscription
    consumer_words(&member.record.protocols, &assignor, &subscription)
    return subscription


# --- topics -----------------------------------------------------------------------------------------------------------
# The first place that is not before the name.
cdef size_t _place(const Vec[Known]* topics, const Bytes* name) noexcept nogil:
    cdef size_t low = 0
    cdef size_t high = topics.size
    cdef size_t middle
    while low < high:
        middle = (low + high) // 2
        if compare_bytes(topics.data[middle].name.data, topics.data[middle].name.length, name.data, name.length) < 0:
            low = middle + 1
        else:
            high = middle
    return low

# Into the place where it belongs, which is mostly the last one.
cdef bint _insert(Vec[Known]* topics, size_t place, const Known* topic) noexcept nogil:
    cdef size_t i = topics.size
    if not topics.push(topic[0]):
        return False
    while i > place:
        topics.data[i] = topics.data[i - 1]
        i -= 1
    topics.data[place] = topic[0]
    return True

cdef bint _learn(Machine* machine, const Bytes* root, const Bytes* subscription, Table* table) noexcept nogil:
    cdef TopicRecord record
    cdef Known topic
    cdef uint32_t at = 0
    cdef size_t place
    while subscription_next(subscription, &at, &topic.name):
        place = _place(&table.topics, &topic.name)
        if place < table.topics.size and equal_bytes(&table.topics.data[place].name, &topic.name):
            continue
        if not topics_find(machine, root, &topic.name, &record):
            continue
        memcpy(topic.id, record.meta.id, TOPIC_UUID_BYTES)
        topic.partitions = record.meta.partitions
        if not _insert(&table.topics, place, &topic):
            return False
    return True

cdef bint _know_topics(Machine* machine, const Bytes* root, Table* table) noexcept nogil:
    cdef Bytes before = no_bytes()
    cdef Bytes subscription
    cdef BoardTopic topic
    cdef uint32_t next = 0
    cdef size_t i
    for i in range(machine.members.size):
        subscription = _subscription(&machine.members.data[i])
        # Most members say the same.
        if (i == 0 or not equal_bytes(&before, &subscription)) and not _learn(machine, root, &subscription, table):
            return False
        before = subscription
    for i in range(table.topics.size):
        topic.first = next
        topic.count = min(table.topics.data[i].partitions, CONSUMER_PARTITIONS_MAX - next)
        next += topic.count
        if not table.board.topics.push(topic):
            return False
    return _order_ids(table)

cdef inline bint _is_id_before(const Table* table, uint32_t left, uint32_t right) noexcept nogil:
    return memcmp(table.topics.data[left].id, table.topics.data[right].id, TOPIC_UUID_BYTES) < 0

cdef void _sift(Table* table, size_t at, size_t count) noexcept nogil:
    cdef uint32_t* heap = table.by_id.data
    cdef size_t child
    cdef uint32_t moved
    while 2 * at + 1 < count:
        child = 2 * at + 1
        if child + 1 < count and _is_id_before(table, heap[child], heap[child + 1]):
            child += 1
        if not _is_id_before(table, heap[at], heap[child]):
            return
        moved = heap[at]
        heap[at] = heap[child]
        heap[child] = moved
        at = child

cdef bint _order_ids(Table* table) noexcept nogil:
    cdef size_t count = table.topics.size
    cdef size_t i
    cdef uint32_t last
    for i in range(count):
        if not table.by_id.push(<uint32_t>i):
            return False
    for i in range(count // 2):
        _sift(table, count // 2 - 1 - i, count)
    while count > 1:
        count -= 1
        last = table.by_id.data[count]
        table.by_id.data[count] = table.by_id.data[0]
        table.by_id.data[0] = last
        _sift(table, 0, count)
    return True

# NOBODY: there is no such topic.
cdef uint32_t _topic_of_id(const Table* table, const uint8_t* id) noexcept nogil:
    cdef size_t low = 0
    cdef size_t high = table.by_id.size
    cdef size_t middle
    while low < high:
        middle = (low + high) // 2
        if memcmp(table.topics.data[table.by_id.data[middle]].id, id, TOPIC_UUID_BYTES) < 0:
            low = middle + 1
        else:
            high = middle
    if low < table.by_id.size and memcmp(table.topics.data[table.by_id.data[low]].id, id, TOPIC_UUID_BYTES) == 0:
        return table.by_id.data[low]
    return NOBODY


# --- members ----------------------------------------------------------------------------------------------------------
cdef bint _seat(Table* table, const Bytes* subscription, BoardMember* seat, uint64_t* seen) noexcept nogil:
    cdef Bytes name
    cdef uint32_t at = 0
    cdef size_t place
    seat.start = <uint32_t>table.board.topics_of.size
    seen[0] = 0
    while subscription_next(subscription, &at, &name):
        place = _place(&table.topics, &name)
        if place == table.topics.size or not equal_bytes(&table.topics.data[place].name, &name):
            continue
        seen[0] = consumer_seen(seen[0], table.topics.data[place].id, table.topics.data[place].partitions)
        if not table.board.topics_of.push(<uint32_t>place):
            return False
    seat.count = <uint32_t>table.board.topics_of.size - seat.start
    return True

cdef bint _know_members(Machine* machine, Table* table) noexcept nogil:
    cdef Bytes before = no_bytes()
    cdef Bytes subscription
    cdef BoardMember seat
    cdef uint64_t seen = 0
    cdef size_t i
    table.board.is_alike = True
    for i in range(machine.members.size):
        subscription = _subscription(&machine.members.data[i])
        if i == 0 or not equal_bytes(&before, &subscription):
            if not _seat(table, &subscription, &seat, &seen):
                return False
            table.board.is_alike = table.board.is_alike and seat.count == table.topics.size
        before = subscription
        if not table.board.members.push(seat) or not table.seen.push(seen):
            return False
    return True

cdef bint _reads(const Board* board, uint32_t member, uint32_t topic) noexcept nogil:
    cdef const BoardMember* seat = &board.members.data[member]
    cdef size_t low = seat.start
    cdef size_t high = seat.start + seat.count
    cdef size_t end = high
    cdef size_t middle
    while low < high:
        middle = (low + high) // 2
        if board.topics_of.data[middle] < topic:
            low = middle + 1
        else:
            high = middle
    return low < end and board.topics_of.data[low] == topic

# The targets that there were, as far as they can stay.
cdef bint _know_owners(Machine* machine, Table* table) noexcept nogil:
    cdef Board* board = &table.board
    cdef ConsumerRecord consumer
    cdef PartitionsOf found
    cdef uint32_t total = 0
    cdef uint32_t place, topic, i, m, partition
    if board.topics.size:
        total = board.topics.back().first + board.topics.back().count
    if not board.owners.resize(total):
        return False
    for i in range(total):
        board.owners.data[i] = NOBODY
    for m in range(<uint32_t>machine.members.size):
        if not consumer_read(&machine.members.data[m].record.assignment, &consumer):
            continue
        place = 0
        while partitions_next(&consumer.target, &place, &found):
            topic = _topic_of_id(table, found.topic)
            if topic == NOBODY or not _reads(board, m, topic):
                continue
            for i in range(found.count):
                partition = partition_at(&found, i)
                if partition < board.topics.data[topic].count:
                    board.owners.data[board.topics.data[topic].first + partition] = m
    return True


# --- targets ----------------------------------------------------------------------------------------------------------
cdef inline bint _is(const Bytes* text, const char* word, uint32_t length) noexcept nogil:
    return text.length == length and memcmp(text.data, word, length) == 0

# The wish of most members that have one; `uniform` where nobody has, and where the numbers are equal.
cdef bint _is_range(Machine* machine) noexcept nogil:
    cdef Bytes assignor, subscription
    cdef uint32_t ranges = 0
    cdef uint32_t others = 0
    cdef size_t i
    for i in range(machine.members.size):
        consumer_words(&machine.members.data[i].record.protocols, &assignor, &subscription)
        ranges += _is(&assignor, RANGE, RANGE_BYTES)
        others += _is(&assignor, UNIFORM, UNIFORM_BYTES)
    return ranges > others

# Sort the partitions by their owners, and those of one by the ids of their topics.
cdef bint _collect(Table* table) noexcept nogil:
    cdef Board* board = &table.board
    cdef const BoardTopic* topic
    cdef uint32_t owner, i, partition
    cdef size_t members = board.members.size
    if not table.starts.resize(members + 2):
        return False
    memset(table.starts.data, 0, (members + 2) * sizeof(uint32_t))
    for i in range(<uint32_t>board.owners.size):
        if board.owners.data[i] != NOBODY:
            table.starts.data[board.owners.data[i] + 2] += 1
    for i in range(2, <uint32_t>table.starts.size):
        table.starts.data[i] += table.starts.data[i - 1]
    if not table.shares.resize(table.starts.data[members + 1]):
        return False
    for i in range(<uint32_t>table.by_id.size):
        topic = &board.topics.data[table.by_id.data[i]]
        for partition in range(topic.count):
            owner = board.owners.data[topic.first + partition]
            if owner != NOBODY:
                _put(table, table.starts.data[owner + 1], table.by_id.data[i], partition)
                table.starts.data[owner + 1] += 1
    return True

cdef inline void _put(Table* table, uint32_t place, uint32_t topic, uint32_t partition) noexcept nogil:
    memcpy(table.shares.data[place].topic, table.topics.data[topic].id, TOPIC_UUID_BYTES)
    table.shares.data[place].partition = partition

# The new target of one member. *has_changed: it is another one.
cdef bint _renew(Machine* machine, const Table* table, size_t m, bint* has_changed) noexcept nogil:
    cdef MemberView* member = &machine.members.data[m]
    cdef const Share* shares = table.shares.data + table.starts.data[m]
    cdef size_t count = table.starts.data[m + 1] - table.starts.data[m]
    cdef ConsumerRecord consumer
    cdef Bytes target
    target.length = shares_length(shares, count)
    target.data = plan_room(&machine.plan, target.length)
    if target.data == NULL or not consumer_read(&member.record.assignment, &consumer):
        return False
    shares_write(shares, count, <uint8_t*>target.data)
    has_changed[0] = consumer.meta.seen != table.seen.data[m] or not equal_bytes(&target, &consumer.target)
    consumer.meta.seen = table.seen.data[m]
    consumer.target = target
    return not has_changed[0] or consumer_put(machine, member, &consumer)

cdef bint _assign(Machine* machine, const Bytes* root, Table* table) noexcept nogil:
    cdef bint is_range = _is_range(machine)
    table.assignor.data = <const uint8_t*>(RANGE if is_range else UNIFORM)
    table.assignor.length = RANGE_BYTES if is_range else UNIFORM_BYTES
    if not _know_topics(machine, root, table) or not _know_members(machine, table) or not _know_owners(machine, table):
        return False
    return (assign_range(&table.board) if is_range else assign_uniform(&table.board)) and _collect(table)

cdef status_t consumer_retarget(Machine* machine, Group* group, const Bytes* root, size_t at) noexcept nogil:
    cdef Table table
    cdef bint has_changed = False
    cdef status_t status
    cdef size_t i
    memset(<void*>&table, 0, sizeof(Table))
    status = OK if _assign(machine, root, &table) else <status_t>NO_MEMORY
    for i in range(machine.members.size):
        if status == OK and not _renew(machine, &table, i, &has_changed):
            status = NO_MEMORY
        if status == OK and has_changed and i != at:
            status = group_store_member(machine, &machine.members.data[i], False)
    group.record.protocol = table.assignor
    group.record.meta.initial_ms = group.record.meta.generation
    _release(&table)
    return status
