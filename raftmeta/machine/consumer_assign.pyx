"""The assignors of consumer groups: bodies.

Sources: KIP-848 "Server Side Assignor"; Apache Kafka 4.x, the classes UniformAssignor and RangeAssignor of its package
org.apache.kafka.coordinator.group.assignor, for what each of them promises.
"""
from libc.stdint cimport uint32_t

from raftmeta.native.containers cimport Vec


cdef void board_release(Board* board) noexcept nogil:
    board.topics.release()
    board.members.release()
    board.topics_of.release()
    board.owners.release()
    board.readers.release()
    board.starts.release()
    board.counts.release()
    board.limits.release()

cdef bint _zeros(Vec[uint32_t]* numbers, size_t count) noexcept nogil:
    cdef size_t i
    if not numbers.resize(count):
        return False
    for i in range(count):
        numbers.data[i] = 0
    return True

# Who reads each topic: readers[starts[topic], starts[topic + 1]), in order of members. Alike members are all readers.
cdef bint _find_readers(Board* board) noexcept nogil:
    cdef const BoardMember* member
    cdef uint32_t i, j, topic
    cdef uint32_t total = 0
    if board.is_alike:
        if not board.readers.resize(board.members.size):
            return False
        for i in range(<uint32_t>board.members.size):
            board.readers.data[i] = i
        return True
    if not _zeros(&board.starts, board.topics.size + 2):
        return False
    for i in range(<uint32_t>board.members.size):
        member = &board.members.data[i]
        total += member.count
        for j in range(member.count):
            board.starts.data[board.topics_of.data[member.start + j] + 2] += 1
    for i in range(2, <uint32_t>board.starts.size):
        board.starts.data[i] += board.starts.data[i - 1]
    if not board.readers.resize(total):
        return False
    for i in range(<uint32_t>board.members.size):
        member = &board.members.data[i]
        for j in range(member.count):
            topic = board.topics_of.data[member.start + j]
            board.readers.data[board.starts.data[topic + 1]] = i
            board.starts.data[topic + 1] += 1
    return True

cdef inline uint32_t _first_reader(const Board* board, uint32_t topic) noexcept nogil:
    return 0 if board.is_alike else board.starts.data[topic]

cdef inline uint32_t _end_of_readers(const Board* board, uint32_t topic) noexcept nogil:
    return <uint32_t>board.readers.size if board.is_alike else board.starts.data[topic + 1]

cdef bint _count(Board* board) noexcept nogil:
    cdef size_t i
    if not _zeros(&board.counts, board.members.size):
        return False
    for i in range(board.owners.size):
        if board.owners.data[i] != NOBODY:
            board.counts.data[board.owners.data[i]] += 1
    return True

cdef bint assign_uniform(Board* board) noexcept nogil:
    if board.members.size == 0 or board.owners.size == 0:
        return True
    if not _count(board):
        return False
    if board.is_alike:
        return _share_alike(board)
    if not _find_readers(board):
        return False
    _fill(board)
    _balance(board)
    return True

# Each member keeps what it has up to its limit. Those that have more than the others are the first to get one more.
cdef bint _share_alike(Board* board) noexcept nogil:
    cdef uint32_t members = <uint32_t>board.members.size
    cdef uint32_t each = <uint32_t>(board.owners.size // members)
    cdef uint32_t more = <uint32_t>(board.owners.size % members)
    cdef uint32_t i
    if not _zeros(&board.limits, members):
        return False
    for i in range(members):
        board.limits.data[i] = each
        if more and board.counts.data[i] > each:
            board.limits.data[i] += 1
            more -= 1
    for i in range(members):
        if more and board.limits.data[i] == each:
            board.limits.data[i] += 1
            more -= 1
    _keep_and_fill(board)
    return True

cdef void _keep_and_fill(Board* board) noexcept nogil:
    cdef uint32_t owner
    cdef uint32_t next = 0
    cdef size_t i
    for i in range(board.owners.size):
        owner = board.owners.data[i]
        if owner == NOBODY:
            continue
        if board.limits.data[owner]:
            board.limits.data[owner] -= 1
        else:
            board.owners.data[i] = NOBODY
    for i in range(board.owners.size):
        if board.owners.data[i] != NOBODY:
            continue
        while board.limits.data[next] == 0:
            next += 1
        board.limits.data[next] -= 1
        board.owners.data[i] = next

# The reader with the fewest partitions; the topic has one.
cdef uint32_t _poorest(const Board* board, uint32_t topic) noexcept nogil:
    cdef uint32_t at = _first_reader(board, topic)
    cdef uint32_t best = board.readers.data[at]
    for at in range(at, _end_of_readers(board, topic)):
        if board.counts.data[board.readers.data[at]] < board.counts.data[best]:
            best = board.readers.data[at]
    return best

cdef void _fill(Board* board) noexcept nogil:
    cdef const BoardTopic* topic
    cdef uint32_t i, partition, poorest
    for i in range(<uint32_t>board.topics.size):
        topic = &board.topics.data[i]
        if _first_reader(board, i) == _end_of_readers(board, i):
            continue
        for partition in range(topic.first, topic.first + topic.count):
            if board.owners.data[partition] == NOBODY:
                poorest = _poorest(board, i)
                board.owners.data[partition] = poorest
                board.counts.data[poorest] += 1

# Each move makes the sum of squares of the counts smaller, so it ends.
cdef void _balance(Board* board) noexcept nogil:
    cdef const BoardTopic* topic
    cdef uint32_t i, partition, poorest, owner
    cdef bint has_moved = True
    while has_moved:
        has_moved = False
        for i in range(<uint32_t>board.topics.size):
            topic = &board.topics.data[i]
            if _first_reader(board, i) == _end_of_readers(board, i):
                continue
            poorest = _poorest(board, i)
            for partition in range(topic.first, topic.first + topic.count):
                owner = board.owners.data[partition]
                if board.counts.data[poorest] + 1 < board.counts.data[owner]:
                    board.owners.data[partition] = poorest
                    board.counts.data[poorest] += 1
                    board.counts.data[owner] -= 1
                    has_moved = True
                    poorest = _poorest(board, i)

cdef bint assign_range(Board* board) noexcept nogil:
    cdef const BoardTopic* topic
    cdef uint32_t i, j, at, readers, share, partition, next
    if not _find_readers(board):
        return False
    for i in range(<uint32_t>board.topics.size):
        topic = &board.topics.data[i]
        at = _first_reader(board, i)
        readers = _end_of_readers(board, i) - at
        next = topic.first
        for j in range(readers):
            share = topic.count // readers + (1 if j < topic.count % readers else 0)
            for partition in range(next, next + share):
                board.owners.data[partition] = board.readers.data[at + j]
            next += share
    return True
