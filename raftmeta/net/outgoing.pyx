"""Our connections to peers: attempts, HELLO, and the queue of frames to send.

    WAITING -> (RESOLVING ->) CONNECTING -> (SECURING ->) GREETING -> UP      and back to WAITING from each

It decides the pauses between attempts, and which frames are dropped when a peer does not read. It never blocks, never
keeps frames of a connection for the next one, and reads nothing but the answer to HELLO.

It tells a refused reconnect at once. If a connection broke and its reconnect is refused, the process is gone, not the
network. A follower then need not wait for its election time-out (decisions/README.md "Consensus").

While a cluster moves to TLS, plain connections are accepted too. Then a plain attempt follows one by TLS that found
nobody who speaks it, and the next is by TLS again. Every other failure of TLS stays a failure, so that a wrong
certificate shows before plain connections end.
"""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc
from libc.string cimport memcmp, memcpy

from raftmeta.native.chunks cimport Slice, chunk_create, chunk_drop, chunk_hold
from raftmeta.native.intrinsics cimport next_random
from raftmeta.net cimport posix
from raftmeta.net.greeting cimport greeting_read_reply, greeting_send_hello
from raftmeta.net.resolver cimport Resolution, resolver_ask
from raftmeta.net.stream cimport (CONNECT_DONE, CONNECT_REFUSED, CONNECT_STARTED, STREAM_BROKEN, STREAM_PARTS_MAX,
                                  STREAM_WOULD_BLOCK, ConnectOutcome, address_from_numbers, address_split,
                                  stream_close, stream_connect, stream_connected, stream_handshake, stream_is_of,
                                  stream_is_revoked, stream_read, stream_refusal, stream_secure, stream_write)
from raftmeta.net.transport_state cimport (OUTGOING_CONNECTING, OUTGOING_GREETING, OUTGOING_RESOLVING,
                                           OUTGOING_SECURING, OUTGOING_UNUSED, OUTGOING_UP, OUTGOING_WAITING,
                                           TAG_OUTGOING, Outgoing, transport_tag, transport_wake_at)
from raftmeta.raft.types cimport MEMBERS_MAX
from raftmeta.security.contexts cimport tls_ticket_drop
from raftmeta.security.tls_state cimport TLS_CUT, TLS_NAME, TLS_NOT_SPOKEN, TLS_WANTED
from raftmeta.status cimport INCOMPLETE, OK, STALE, status_t
from raftmeta.wire.frame cimport FRAME_HEADER_BYTES, FRAME_HELLO_BYTES_MAX, frame_decode
from raftmeta.wire.hello cimport Hello

cdef enum:
    TUNE_HEADS_BYTES = 64 * 1024        # one chunk of copied heads
    RECORD_ALERT = 21                   # the first bytes of a TLS record that ends a connection (RFC 8446 5.1)
    VERSION_MAJOR = 3


# --- trying -----------------------------------------------------------------------------------------------------------
cdef void _drop_queue(Outgoing* at) noexcept nogil:
    cdef size_t i
    for i in range(at.queue.size):
        chunk_drop(at.queue.at(i).chunk)
    at.queue.clear()
    at.queued_bytes = 0
    at.front_offset = 0
    at.is_dirty = False


cdef void _disconnect(Outgoing* at) noexcept nogil:
    stream_close(&at.stream)
    at.attempt += 1
    at.reply.clear()
    _drop_queue(at)


# Pause before the next round of attempts: at least half of it, the rest drawn, so that peers do not march in step.
cdef void _wait(Transport* transport, uint32_t link) noexcept nogil:
    cdef Outgoing* at = &transport.outgoing[link]
    at.state = OUTGOING_WAITING
    at.retry_ns = transport.now_ns + at.pause_ns // 2 + next_random(&transport.random) % (at.pause_ns // 2 + 1)
    at.pause_ns = min(at.pause_ns * 2, transport.limits.reconnect_max_ns)
    transport_wake_at(transport, at.retry_ns)


# Whether the next attempt is without TLS.
cdef void _choose_security(Transport* transport, Outgoing* at, status_t refusal) noexcept nogil:
    if not transport.tls.accepts_plain:
        at.is_plain = False
    elif at.state == OUTGOING_SECURING:
        at.is_plain = refusal == OK or refusal == TLS_CUT or refusal == TLS_NOT_SPOKEN
    elif at.state == OUTGOING_GREETING:
        at.is_plain = False


# All addresses refused, and the peer answered at one of them: that process is gone.
cdef bint _was_refused_where_it_answered(const Outgoing* at) noexcept nogil:
    cdef uint32_t i
    for i in range(at.address_count):
        if (at.answered.length != 0 and at.addresses[i].length == at.answered.length
                and memcmp(&at.addresses[i].storage, &at.answered.storage, at.answered.length) == 0):
            return True
    return False


# This round of attempts is over.
cdef void _fail(Transport* transport, uint32_t link) noexcept nogil:
    cdef Outgoing* at = &transport.outgoing[link]
    cdef bint was_refused = at.address_count != 0 and at.refused_count == at.address_count
    cdef status_t refusal = stream_refusal(&at.stream)
    _choose_security(transport, at, refusal)
    if refusal != OK and not at.is_plain:
        transport.port.refused(transport.port.self, refusal, link)
    _disconnect(at)
    _wait(transport, link)
    transport.port.link_down(transport.port.self, link, was_refused)
    if was_refused and _was_refused_where_it_answered(at):
        transport.port.address_refused(transport.port.self, link)


cdef bint _register(Transport* transport, uint32_t link) noexcept nogil:
    cdef Outgoing* at = &transport.outgoing[link]
    cdef posix.epoll_event event
    event.events = posix.EPOLLIN | posix.EPOLLOUT | posix.EPOLLRDHUP | posix.EPOLLET
    event.data.u64 = transport_tag(TAG_OUTGOING, at.attempt, link)
    return posix.epoll_ctl(transport.epoll, posix.EPOLL_CTL_ADD, at.stream.fd, &event) == 0


cdef bint _say_hello(Transport* transport, uint32_t link) noexcept nogil:
    cdef Outgoing* at = &transport.outgoing[link]
    at.state = OUTGOING_GREETING
    at.is_writable = True
    return greeting_send_hello(transport, &at.stream, link)


# Go on with the handshake; HELLO follows it. False: the connection is over.
cdef bint _secure(Transport* transport, uint32_t link) noexcept nogil:
    cdef status_t status = stream_handshake(&transport.outgoing[link].stream)
    if status == OK:
        return _say_hello(transport, link)
    return status == INCOMPLETE


# The connection stands: TLS if there is any, then HELLO.
cdef bint _greet(Transport* transport, uint32_t link) noexcept nogil:
    cdef Outgoing* at = &transport.outgoing[link]
    if transport.tls.context == NULL or at.is_plain:
        return _say_hello(transport, link)
    at.state = OUTGOING_SECURING
    return stream_secure(&at.stream, transport.tls, &at.ticket) and _secure(transport, link)


# Try the addresses from address_position on, until one is under way.
cdef void _connect_next(Transport* transport, uint32_t link) noexcept nogil:
    cdef Outgoing* at = &transport.outgoing[link]
    cdef ConnectOutcome outcome
    while at.address_position < at.address_count:
        _disconnect(at)
        outcome = stream_connect(&at.stream, &at.addresses[at.address_position])
        at.address_position += 1
        if outcome == CONNECT_STARTED or outcome == CONNECT_DONE:
            at.state = OUTGOING_CONNECTING
            at.deadline_ns = transport.now_ns + transport.limits.hello_timeout_ns
            transport_wake_at(transport, at.deadline_ns)
            if _register(transport, link) and (outcome == CONNECT_STARTED or _greet(transport, link)):
                return
        elif outcome == CONNECT_REFUSED:
            at.refused_count += 1
    _fail(transport, link)


cdef void _ask_resolver(Transport* transport, uint32_t link, const uint8_t* host, uint8_t host_length,
                        uint16_t port) noexcept nogil:
    cdef Outgoing* at = &transport.outgoing[link]
    cdef Resolution* question = <Resolution*>calloc(1, sizeof(Resolution))
    if question != NULL:
        question.link = link
        question.attempt = at.attempt
        question.port = port
        memcpy(question.host, host, host_length)
        at.state = OUTGOING_RESOLVING
        if resolver_ask(transport.resolver, question) == OK:
            return
    _fail(transport, link)


cdef void _try(Transport* transport, uint32_t link) noexcept nogil:
    cdef Outgoing* at = &transport.outgoing[link]
    cdef const uint8_t* host = NULL
    cdef uint8_t host_length = 0
    cdef uint16_t port = 0
    at.attempt += 1
    at.address_count = at.address_position = at.refused_count = 0
    if address_split(at.text, at.text_length, &host, &host_length, &port) != OK:
        _fail(transport, link)
    elif address_from_numbers(host, host_length, port, &at.addresses[0]) == OK:
        at.address_count = 1
        _connect_next(transport, link)
    else:
        _ask_resolver(transport, link, host, host_length, port)


cdef void outgoing_resolved(Transport* transport, const Resolution* answer) noexcept nogil:
    cdef Outgoing* at = &transport.outgoing[answer.link]
    if at.state != OUTGOING_RESOLVING or at.attempt != answer.attempt:
        return
    memcpy(at.addresses, answer.addresses, sizeof(at.addresses))
    at.address_count = answer.count
    _connect_next(transport, answer.link)


# --- wanted or not ----------------------------------------------------------------------------------------------------
cdef void outgoing_want(Transport* transport, uint32_t link, const uint8_t* text, uint8_t length) noexcept nogil:
    cdef Outgoing* at = &transport.outgoing[link]
    if at.state != OUTGOING_UNUSED and at.text_length == length and memcmp(at.text, text, length) == 0:
        return
    outgoing_unwant(transport, link)
    at.answered.length = 0
    memcpy(at.text, text, length)
    at.text_length = length
    at.pause_ns = transport.limits.reconnect_min_ns
    at.state = OUTGOING_WAITING
    at.retry_ns = transport.now_ns
    transport_wake_at(transport, at.retry_ns)


cdef void outgoing_unwant(Transport* transport, uint32_t link) noexcept nogil:
    cdef Outgoing* at = &transport.outgoing[link]
    cdef bint was_up = at.state == OUTGOING_UP
    if at.state == OUTGOING_UNUSED:
        return
    _disconnect(at)
    at.state = OUTGOING_UNUSED
    if was_up:
        transport.port.link_down(transport.port.self, link, False)


cdef void outgoing_nudge(Transport* transport, uint32_t link) noexcept nogil:
    cdef Outgoing* at = &transport.outgoing[link]
    if at.state == OUTGOING_WAITING and not at.was_brief:
        at.pause_ns = transport.limits.reconnect_min_ns
        at.retry_ns = transport.now_ns
        transport_wake_at(transport, at.retry_ns)


cdef void outgoing_tick(Transport* transport) noexcept nogil:
    cdef uint32_t link
    cdef Outgoing* at
    for link in range(<uint32_t>MEMBERS_MAX):
        at = &transport.outgoing[link]
        if at.state == OUTGOING_WAITING:
            if at.retry_ns <= transport.now_ns:
                _try(transport, link)
            else:
                transport_wake_at(transport, at.retry_ns)
        elif OUTGOING_CONNECTING <= at.state <= OUTGOING_GREETING:
            if at.deadline_ns <= transport.now_ns:
                _fail(transport, link)
            else:
                transport_wake_at(transport, at.deadline_ns)


# --- events -----------------------------------------------------------------------------------------------------------
# A connection that was up ended: tell it, then try again at once to learn whether the process is still there. Do not
# hurry where a peer takes our HELLO and soon ends each connection: it refuses our frames and will go on to do so.
cdef void _broke(Transport* transport, uint32_t link) noexcept nogil:
    cdef Outgoing* at = &transport.outgoing[link]
    at.was_brief = transport.now_ns - at.up_ns < at.pause_ns
    at.is_plain = False         # it may speak TLS by now
    _disconnect(at)
    transport.port.link_down(transport.port.self, link, False)
    if at.was_brief:
        _wait(transport, link)
        return
    at.pause_ns = transport.limits.reconnect_min_ns
    _try(transport, link)


cdef void _connected(Transport* transport, uint32_t link) noexcept nogil:
    cdef Outgoing* at = &transport.outgoing[link]
    cdef ConnectOutcome outcome = stream_connected(&at.stream)
    if outcome == CONNECT_STARTED:
        return
    if outcome == CONNECT_DONE and _greet(transport, link):
        return
    if outcome == CONNECT_REFUSED:
        at.refused_count += 1
    _connect_next(transport, link)


# OK: their HELLO is here and welcome. INCOMPLETE: wait for more. Any other status ends the connection.
cdef status_t _read_reply(Transport* transport, uint32_t link) noexcept nogil:
    cdef Outgoing* at = &transport.outgoing[link]
    cdef Hello hello
    cdef bint was_refused = False
    cdef size_t total
    cdef status_t status = frame_decode(at.reply.data, at.reply.size, FRAME_HELLO_BYTES_MAX, &total)
    if status == INCOMPLETE:
        return status
    if (at.stream.tls == NULL and at.reply.size >= 2 and at.reply.data[0] == RECORD_ALERT
            and at.reply.data[1] == VERSION_MAJOR):
        status = TLS_WANTED
    if status == OK and at.reply.size != total:
        status = STALE
    if status == OK:
        status = greeting_read_reply(at.reply.data, &hello, &was_refused)
    if status == OK and not stream_is_of(&at.stream, hello.name, hello.name_length):
        status = TLS_NAME
    if status != OK:
        transport.port.refused(transport.port.self, status, link)
        if not was_refused:
            transport.counters.refused += 1
        return status
    return transport.port.link_up(transport.port.self, link, &hello)


# False: the connection is over.
cdef bint _take_reply(Transport* transport, uint32_t link) noexcept nogil:
    cdef Outgoing* at = &transport.outgoing[link]
    cdef ssize_t got
    cdef status_t status
    while at.reply.size < FRAME_HELLO_BYTES_MAX + FRAME_HEADER_BYTES:
        if not at.reply.reserve(FRAME_HELLO_BYTES_MAX + FRAME_HEADER_BYTES):
            return False
        got = stream_read(&at.stream, at.reply.data + at.reply.size,
                          FRAME_HELLO_BYTES_MAX + FRAME_HEADER_BYTES - at.reply.size)
        if got == STREAM_WOULD_BLOCK:
            return True
        if got <= 0:
            return False
        at.reply.size += <size_t>got
        # The link is up only when link_up returned: frames that the engine sends in it go behind.
        status = _read_reply(transport, link)
        if status == OK:
            at.state = OUTGOING_UP
            at.answered = at.addresses[at.address_position - 1]
            at.up_ns = transport.now_ns
            at.reply.release()
            transport.counters.connected += 1
            return True
        if status != INCOMPLETE:
            return False
    return False


cdef void outgoing_event(Transport* transport, uint32_t link, uint32_t events) noexcept nogil:
    cdef Outgoing* at = &transport.outgoing[link]
    cdef uint8_t unexpected
    if at.state == OUTGOING_CONNECTING:
        _connected(transport, link)
    elif at.state == OUTGOING_SECURING and not _secure(transport, link):
        _fail(transport, link)
        return
    if at.state == OUTGOING_GREETING and events & (posix.EPOLLIN | posix.EPOLLRDHUP | posix.EPOLLHUP | posix.EPOLLERR):
        if not _take_reply(transport, link):
            _fail(transport, link)
            return
    if at.state != OUTGOING_UP:
        return
    # After HELLO the peer has nothing to say here. The end of the stream, an error and a byte all close the connection.
    if events & (posix.EPOLLIN | posix.EPOLLRDHUP | posix.EPOLLHUP | posix.EPOLLERR):
        if stream_read(&at.stream, &unexpected, 1) != STREAM_WOULD_BLOCK:
            _broke(transport, link)
            return
    if events & posix.EPOLLOUT:
        at.is_writable = True
        outgoing_flush(transport, link)


# --- frames -----------------------------------------------------------------------------------------------------------
# Takes over one hold on the slice's chunk. Extends the last slice if this one stands right behind it in memory.
cdef void _queue_slice(Outgoing* at, const Slice* slice) noexcept nogil:
    cdef Slice* last
    if at.queue.size != 0:
        last = &at.queue.back()
        if last.chunk == slice.chunk and last.data + last.length == slice.data:
            last.length += slice.length
            chunk_drop(slice.chunk)
            return
    at.queue.push(slice[0])         # cannot fail: _has_room_for_two


cdef bint _copy(Outgoing* at, const uint8_t* bytes, uint32_t length, Slice* copied) noexcept nogil:
    if at.heads != NULL and at.heads.holders == 1:
        at.heads.used = 0
    if at.heads == NULL or at.heads.capacity - at.heads.used < length:
        chunk_drop(at.heads)
        at.heads = chunk_create(max(<uint32_t>TUNE_HEADS_BYTES, length))
        if at.heads == NULL:
            return False
    copied.chunk = at.heads
    copied.data = at.heads.bytes() + at.heads.used
    copied.length = length
    memcpy(copied.data, bytes, length)
    at.heads.used += length
    chunk_hold(at.heads)
    return True


# A head without its records would break the stream: queue both or neither.
cdef bint _has_room_for_two(Outgoing* at) noexcept nogil:
    cdef Slice none
    none.chunk = NULL
    none.data = NULL
    none.length = 0
    if not at.queue.push(none):
        return False
    if not at.queue.push(none):
        at.queue.pop_back()
        return False
    at.queue.pop_back()
    at.queue.pop_back()
    return True


cdef bint _hold_or_copy(Outgoing* at, const Slice* records, Slice* part) noexcept nogil:
    if records.chunk == NULL:       # borrowed for this call only
        return _copy(at, records.data, records.length, part)
    part[0] = records[0]
    chunk_hold(part.chunk)
    return True


cdef void outgoing_queue(Transport* transport, uint32_t link, const uint8_t* head, size_t head_length,
                         const Slice* records) noexcept nogil:
    cdef Outgoing* at = &transport.outgoing[link]
    cdef Slice first, second
    cdef uint64_t total = head_length + records.length
    if at.state != OUTGOING_UP and at.state != OUTGOING_GREETING:
        return
    transport.counters.frames_dropped += 1      # taken back below
    if at.queued_bytes + total > transport.limits.queue_bytes_max or not _has_room_for_two(at):
        return
    if not _copy(at, head, <uint32_t>head_length, &first):
        return
    if records.length != 0 and not _hold_or_copy(at, records, &second):
        chunk_drop(first.chunk)
        return
    _queue_slice(at, &first)
    if records.length != 0:
        _queue_slice(at, &second)
    transport.counters.frames_dropped -= 1
    at.queued_bytes += total
    at.is_dirty = True


cdef void _take_sent(Outgoing* at, uint64_t sent) noexcept nogil:
    cdef uint32_t rest
    at.queued_bytes -= sent
    while sent != 0:
        rest = at.queue.front().length - at.front_offset
        if sent < rest:
            at.front_offset += <uint32_t>sent
            return
        sent -= rest
        at.front_offset = 0
        chunk_drop(at.queue.front().chunk)
        at.queue.pop_front()


cdef void outgoing_flush(Transport* transport, uint32_t link) noexcept nogil:
    cdef Outgoing* at = &transport.outgoing[link]
    cdef Slice[STREAM_PARTS_MAX] parts
    cdef size_t count, i
    cdef ssize_t sent
    at.is_dirty = False
    if at.state != OUTGOING_UP:
        return
    while at.queue.size != 0 and at.is_writable:
        count = min(at.queue.size, <size_t>STREAM_PARTS_MAX)
        for i in range(count):
            parts[i] = at.queue.at(i)
        sent = stream_write(&at.stream, parts, count, at.front_offset)
        if sent == STREAM_WOULD_BLOCK:
            at.is_writable = False      # EPOLLOUT will tell, and flush the rest
        elif sent == STREAM_BROKEN:
            _broke(transport, link)
        else:
            transport.counters.bytes_out += <uint64_t>sent
            _take_sent(at, <uint64_t>sent)


cdef void outgoing_drop_revoked(Transport* transport, uint32_t link) noexcept nogil:
    tls_ticket_drop(&transport.outgoing[link].ticket)   # the next handshake asks the present authorities
    if transport.outgoing[link].state == OUTGOING_UP and stream_is_revoked(&transport.outgoing[link].stream):
        transport.counters.evicted += 1
        _broke(transport, link)


cdef void outgoing_release(Transport* transport, uint32_t link) noexcept nogil:
    cdef Outgoing* at = &transport.outgoing[link]
    _disconnect(at)
    tls_ticket_drop(&at.ticket)
    at.queue.release()
    at.reply.release()
    chunk_drop(at.heads)
    at.heads = NULL
    at.state = OUTGOING_UNUSED
