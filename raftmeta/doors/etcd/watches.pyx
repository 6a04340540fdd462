"""Watch: bodies.

How a watch sees every change once: its feed begins at a revision that the client was told, or named. The hub gives each
revision from there on once, in order. Where a feed has lagged, the hub says with which revision to go on, and the next
feed begins there.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, strlen

from raftmeta.doors.desk.state cimport bytes_of
from raftmeta.doors.etcd.access cimport access_may
from raftmeta.doors.etcd.audit cimport audit_watch
from raftmeta.doors.etcd.calls cimport call_end, call_header, call_reply, call_rest, call_send, call_wait, revision_told
from raftmeta.doors.etcd.feeds cimport feed_again, feed_create, feed_drop
from raftmeta.doors.etcd.keys cimport KeyRange, KeyRecord, key_range, key_record, key_value_put
from raftmeta.doors.etcd.protobuf cimport (PB_BYTES, PbReader, pb_begin, pb_end, pb_next, pb_put_bytes, pb_put_int,
                                           pb_put_uint, pb_reader, pb_varint)
from raftmeta.doors.etcd.state cimport (CODE_RESOURCE_EXHAUSTED, CODE_UNAVAILABLE, FEED_FAILED, FEED_OPEN, EtcdFeed)
from raftmeta.machine.rights_state cimport RIGHT_READ, RIGHT_WATCH
from raftmeta.machine.watch_purse cimport purse_create, purse_drop
from raftmeta.machine.watch_state cimport WatchPurse
from raftmeta.machine.watches cimport (WATCH_COMPACTED, WATCH_DELETE, WATCH_EVENTS, WATCH_LAGGED, WATCH_NO_DELETE,
                                       WATCH_NO_PUT, WATCH_PREVIOUS, WATCH_PROGRESS_MARK, WatchView, view_event,
                                       watch_look, watch_pass, watch_reached)
from raftmeta.native.containers cimport Map64, Vec
from raftmeta.wire.commands cimport KEY_BYTES_MAX
from raftmeta.wire.msgpack cimport Reader, number_max, read_array_max, read_uint, reader_over

cdef enum:
    ETCD_WATCHES_MAX = 20_000       # of one stream
    ETCD_WATCHES_OF_ALL_MAX = 500_000
    TUNE_STREAM_BYTES = 1 << 18     # waiting to be sent: then events stay in their feeds
    TUNE_ANSWER_BYTES = 1 << 16     # an answer is sent once it has so many; one revision is not cut for it
    FRAGMENT_BYTES = 1_500_000      # as etcd cuts: --max-request-bytes
    TEND_NS = 500_000_000
    EVENT_ELEMENTS = 3              # [type, record, previous | nil]
    INVALID_ID = -1                 # of an answer that is about no watch, or about all

cdef const char* DENIED = b"etcdserver: permission denied"

cdef struct EtcdWatch:
    EtcdWatch* next_woken           # of its stream
    EtcdCall* call
    EtcdFeed* feed
    int64_t id
    uint64_t told_ns                # when its client was told of it last
    uint32_t key_length             # of its bounds, whose bytes follow the struct
    uint32_t end_length
    uint8_t is_woken                # in Watching.woken
    uint8_t has_fragments
    uint8_t has_progress

# EtcdCall.data of a stream.
cdef struct Watching:
    EtcdCall* previous              # in EtcdDoor.watching
    EtcdCall* next
    WatchPurse* purse
    Map64[EtcdWatch*] watches       # by id + 1, as a number without a sign
    EtcdWatch* woken                # those that may have items
    int64_t next_id
    bint wants_progress             # its client waits to be told that all watches are up to date ...
    uint64_t progress               # ... with this revision at least

# A WatchCreateRequest.
cdef struct Create:
    Bytes key
    Bytes range_end
    int64_t start
    int64_t id
    uint32_t filter
    bint has_progress
    bint has_fragments


# --- a stream ---------------------------------------------------------------------------------------------------------
cdef Watching* _begin(EtcdDoor* door, EtcdCall* call) noexcept nogil:
    cdef Watching* watching = <Watching*>calloc(1, sizeof(Watching))
    if watching == NULL:
        return NULL
    watching.purse = purse_create(door.pool)
    if watching.purse == NULL:
        free(watching)
        return NULL
    watching.next = door.watching
    if door.watching != NULL:
        (<Watching*>door.watching.data).previous = call
    door.watching = call
    call.data = watching
    return watching


cdef inline uint64_t _key_of(int64_t id) noexcept nogil:
    return <uint64_t>id + 1


cdef EtcdWatch* _find(Watching* watching, int64_t id) noexcept nogil:
    cdef EtcdWatch** found = watching.watches.find(_key_of(id))
    return found[0] if found != NULL else NULL


cdef void _forget(EtcdDoor* door, Watching* watching, EtcdWatch* watch) noexcept nogil:
    cdef EtcdWatch** at = &watching.woken
    if watch.is_woken:
        while at[0] != watch:
            at = &at[0].next_woken
        at[0] = watch.next_woken
    watching.watches.erase(_key_of(watch.id))
    feed_drop(door, watch.feed)
    door.counters.watches -= 1
    if watch.call.account != NULL:
        watch.call.account.watches -= 1
    free(watch)


cdef void watches_closed(EtcdDoor* door, EtcdCall* call) noexcept nogil:
    cdef Watching* watching = <Watching*>call.data
    cdef size_t position
    if watching == NULL:
        return
    watching.woken = NULL
    position = watching.watches.next(0)
    while position < watching.watches.end():
        watching.watches.value_at(position).is_woken = False
        _forget(door, watching, watching.watches.value_at(position))
        position = watching.watches.next(0)
    watching.watches.release()
    if watching.previous != NULL:
        (<Watching*>watching.previous.data).next = watching.next
    else:
        door.watching = watching.next
    if watching.next != NULL:
        (<Watching*>watching.next.data).previous = watching.previous
    purse_drop(watching.purse)
    free(watching)
    call.data = NULL


cdef void watches_half_closed(EtcdDoor* door, EtcdCall* call) noexcept nogil:
    pass


cdef void _fail(EtcdDoor* door, EtcdCall* call) noexcept nogil:
    call_end(door, call, CODE_RESOURCE_EXHAUSTED, b"etcdserver: no memory")


# --- answers ----------------------------------------------------------------------------------------------------------
# Of no events. reason NULL: none.
cdef void _answer(EtcdDoor* door, EtcdCall* call, uint64_t revision, int64_t id, bint is_created, bint is_cancelled,
                  uint64_t compacted, const char* reason) noexcept nogil:
    cdef Vec[uint8_t]* out = call_reply(door)
    cdef Bytes text = bytes_of(<const uint8_t*>reason, strlen(reason) if reason != NULL else 0)
    call_send(door, call, call_header(door, out, revision) and pb_put_int(out, 2, id)
              and pb_put_uint(out, 3, is_created) and pb_put_uint(out, 4, is_cancelled)
              and pb_put_uint(out, 5, compacted) and pb_put_bytes(out, 6, &text))


cdef inline uint64_t _revision(const EtcdDoor* door) noexcept nogil:
    return door.desk.status.machine.revision


# A delete shows its key and revision alone, as etcd keeps no more of it.
cdef bint _put_kv(Vec[uint8_t]* out, const KeyRecord* record, bint is_delete) noexcept nogil:
    cdef size_t start
    if not is_delete:
        return key_value_put(out, 2, record, True)
    start = pb_begin(out, 2)
    return (start != 0 and pb_put_bytes(out, 1, &record.key)
            and pb_put_uint(out, 3, revision_told(record.mod_revision)) and pb_end(out, start))


cdef bint _put_event(Vec[uint8_t]* out, const uint8_t* bytes, size_t length) noexcept nogil:
    cdef Reader reader = reader_over(bytes, length)
    cdef KeyRecord record, before
    cdef uint64_t type
    cdef size_t start
    cdef bint has_before
    read_array_max(&reader, EVENT_ELEMENTS)
    type = read_uint(&reader, number_max())
    if not key_record(&reader, &record):
        return False
    has_before = key_record(&reader, &before)
    start = pb_begin(out, 11)
    return (start != 0 and pb_put_uint(out, 1, type == WATCH_DELETE) and _put_kv(out, &record, type == WATCH_DELETE)
            and (not has_before or key_value_put(out, 3, &before, True)) and pb_end(out, start))


# The events in door.scratch, all up to `revision`.
cdef void _send_events(EtcdDoor* door, EtcdWatch* watch, uint64_t revision, bint is_whole) noexcept nogil:
    cdef Vec[uint8_t]* out
    if door.scratch.size == 0:
        return
    out = call_reply(door)
    call_send(door, watch.call, call_header(door, out, revision) and pb_put_int(out, 2, watch.id)
              and pb_put_uint(out, 7, not is_whole) and out.append(door.scratch.data, door.scratch.size))
    door.scratch.clear()
    watch.told_ns = door.desk.base.now_ns


# --- events -----------------------------------------------------------------------------------------------------------
cdef bint _has_room(const EtcdCall* call) noexcept nogil:
    return call.out.size - call.out_offset < TUNE_STREAM_BYTES


cdef enum Delivered:
    DELIVERED_ALL = 0               # there is no more for now
    DELIVERED_PART = 1              # the client has to read first
    DELIVERED_LAST = 2              # the watch is gone, or its call has ended


# The last item of a feed.
cdef Delivered _ended(EtcdDoor* door, EtcdWatch* watch, uint8_t kind, uint64_t revision) noexcept nogil:
    cdef EtcdCall* call = watch.call
    if kind == WATCH_LAGGED:
        if not feed_again(door, watch.feed, revision):
            _fail(door, call)
        return DELIVERED_ALL
    if kind == WATCH_COMPACTED:
        _answer(door, call, _revision(door), watch.id, False, True, revision_told(revision), NULL)
        _forget(door, <Watching*>call.data, watch)
        return DELIVERED_LAST
    call_end(door, call, CODE_UNAVAILABLE, b"etcdserver: server stopped")
    return DELIVERED_LAST


cdef bint _may_see(EtcdDoor* door, EtcdWatch* watch) noexcept nogil:
    cdef Bytes key = bytes_of(<const uint8_t*>watch + sizeof(EtcdWatch), watch.key_length)
    cdef Bytes end = bytes_of(<const uint8_t*>watch + sizeof(EtcdWatch) + watch.key_length, watch.end_length)
    if access_may(door, watch.call, RIGHT_READ | RIGHT_WATCH, &key, &end):
        return True
    audit_watch(door, watch.call, &key, &end, False, False)
    _answer(door, watch.call, _revision(door), watch.id, False, True, 0, DENIED)
    _forget(door, <Watching*>watch.call.data, watch)
    return False


# Items of the feed of a watch, as far as the client reads.
cdef Delivered _deliver(EtcdDoor* door, EtcdWatch* watch) noexcept nogil:
    cdef WatchView view
    cdef const uint8_t* event
    cdef uint64_t length
    cdef uint64_t revision = 0
    cdef uint32_t position, i
    door.scratch.clear()
    watch.feed.has_items = False
    while watch_look(watch.feed.watch, &view):
        if view.kind != WATCH_EVENTS and view.kind != WATCH_PROGRESS_MARK:
            _send_events(door, watch, revision, True)
            return _ended(door, watch, view.kind, view.revision)
        for i in range(view.count):
            event = view_event(&view, i, &length, &position)
            if not _put_event(&door.scratch, event, length):
                _fail(door, watch.call)
                return DELIVERED_LAST
        revision = view.revision
        watch_pass(watch.feed.watch, &view)
        if not view.is_whole:
            if watch.has_fragments and door.scratch.size >= FRAGMENT_BYTES:
                _send_events(door, watch, revision, False)
        elif door.scratch.size >= TUNE_ANSWER_BYTES:
            _send_events(door, watch, revision, True)
            if not _has_room(watch.call):
                return DELIVERED_PART
    _send_events(door, watch, revision, True)
    return DELIVERED_ALL


cdef Delivered _look_at(EtcdDoor* door, EtcdWatch* watch) noexcept nogil:
    if watch.feed.state == FEED_FAILED:
        call_end(door, watch.call, CODE_UNAVAILABLE, b"etcdserver: request timed out")
        return DELIVERED_LAST
    if watch.feed.state != FEED_OPEN:
        return DELIVERED_ALL        # it is told again once it is open
    if not _has_room(watch.call):
        return DELIVERED_PART
    return _deliver(door, watch) if _may_see(door, watch) else DELIVERED_LAST


# Those that were woken. One whose client does not read stays, behind the others.
cdef void _deliver_woken(EtcdDoor* door, EtcdCall* call) noexcept nogil:
    cdef Watching* watching = <Watching*>call.data
    cdef EtcdWatch* watch = watching.woken
    cdef EtcdWatch* next
    cdef EtcdWatch* left = NULL
    watching.woken = NULL
    while watch != NULL and not call.is_done:
        next = watch.next_woken
        watch.is_woken = False
        if _look_at(door, watch) == DELIVERED_PART:
            watch.is_woken = True
            watch.next_woken = left
            left = watch
        watch = next
    watching.woken = left


# --- progress ---------------------------------------------------------------------------------------------------------
# The revision up to which the client was told everything of this watch. False: it was not told what waits.
cdef bint _told(EtcdWatch* watch, uint64_t* revision) noexcept nogil:
    cdef WatchView view
    if watch.feed.state != FEED_OPEN or watch.is_woken:
        return False
    revision[0] = watch_reached(watch.feed.watch)
    return not watch_look(watch.feed.watch, &view)


# One answer for all watches. Without a watch there is none, as in etcd.
cdef void _progress(EtcdDoor* door, EtcdCall* call) noexcept nogil:
    cdef Watching* watching = <Watching*>call.data
    cdef uint64_t told = ~<uint64_t>0
    cdef uint64_t one = 0
    cdef size_t position = watching.watches.next(0)
    if watching.watches.size == 0:
        watching.wants_progress = False
        return
    while position < watching.watches.end():
        if not _told(watching.watches.value_at(position), &one) or one < watching.progress:
            door.desk.has_pause = True
            return
        told = min(told, one)
        position = watching.watches.next(position + 1)
    watching.wants_progress = False
    _answer(door, call, told, INVALID_ID, False, False, 0, NULL)


cdef void watches_go(EtcdDoor* door, EtcdCall* call) noexcept nogil:
    cdef Watching* watching = <Watching*>call.data
    if watching == NULL:
        call_rest(call)
        return
    _deliver_woken(door, call)
    if watching.wants_progress and not call.is_done:
        _progress(door, call)
    if watching.woken == NULL and not watching.wants_progress:
        call_rest(call)


# DeskRules.woken came, or the feed has opened.
cdef void _woken(EtcdDoor* door, void* owner) noexcept nogil:
    cdef EtcdWatch* watch = <EtcdWatch*>owner
    cdef Watching* watching = <Watching*>watch.call.data
    if watch.is_woken:
        return
    watch.is_woken = True
    watch.next_woken = watching.woken
    watching.woken = watch
    call_wait(door, watch.call)


cdef void _mark(EtcdDoor* door, EtcdWatch* watch) noexcept nogil:
    cdef uint64_t told = 0
    if not watch.has_progress or door.desk.base.now_ns - watch.told_ns < door.limits.progress_ns:
        return
    if _has_room(watch.call) and _told(watch, &told):
        watch.told_ns = door.desk.base.now_ns
        _answer(door, watch.call, told, watch.id, False, False, 0, NULL)


cdef void watches_tend(EtcdDoor* door) noexcept nogil:
    cdef EtcdCall* call = door.watching
    cdef Watching* watching
    cdef size_t position
    if door.desk.base.now_ns - door.watching_ns < TEND_NS:
        return
    door.watching_ns = door.desk.base.now_ns
    while call != NULL:
        watching = <Watching*>call.data
        position = watching.watches.next(0)
        if door.is_lonely:
            call_end(door, call, CODE_UNAVAILABLE, b"etcdserver: no leader")
            position = watching.watches.end()
        while position < watching.watches.end():
            _mark(door, watching.watches.value_at(position))
            position = watching.watches.next(position + 1)
        call = watching.next


# --- requests ---------------------------------------------------------------------------------------------------------
cdef void _filter(Create* create, uint64_t filter) noexcept nogil:
    if filter == 0:
        create.filter |= WATCH_NO_PUT
    elif filter == 1:
        create.filter |= WATCH_NO_DELETE


cdef void _read_create(const Bytes* message, Create* create) noexcept nogil:
    cdef PbReader reader = pb_reader(message)
    cdef PbReader packed
    create.key = create.range_end = bytes_of(NULL, 0)
    create.start = create.id = 0
    create.filter = 0
    create.has_progress = create.has_fragments = False
    while pb_next(&reader):
        if reader.field == 1:
            create.key = reader.bytes
        elif reader.field == 2:
            create.range_end = reader.bytes
        elif reader.field == 3:
            create.start = <int64_t>reader.number
        elif reader.field == 4:
            create.has_progress = reader.number != 0
        elif reader.field == 5 and reader.wire == PB_BYTES:
            packed = pb_reader(&reader.bytes)
            while packed.at != packed.end and not packed.is_bad:
                _filter(create, pb_varint(&packed))
        elif reader.field == 5:
            _filter(create, reader.number)
        elif reader.field == 6 and reader.number:
            create.filter |= WATCH_PREVIOUS
        elif reader.field == 7:
            create.id = <int64_t>reader.number
        elif reader.field == 8:
            create.has_fragments = reader.number != 0


# Why a watch cannot be made; NULL: it can.
cdef const char* _refusal(EtcdDoor* door, EtcdCall* call, const Create* create, KeyRange* range) noexcept nogil:
    cdef Watching* watching = <Watching*>call.data
    cdef uint32_t most = door.desk.base.limits.quotas.watches_max
    if create.start < 0:
        return b"etcdserver: mvcc: required revision has been compacted"
    if range.start.length > KEY_BYTES_MAX or range.end.length > KEY_BYTES_MAX + 1:
        return b"etcdserver: request is too large"
    if not access_may(door, call, RIGHT_READ | RIGHT_WATCH, &range.start, &range.end):
        return DENIED
    if range.is_empty:
        return b"mvcc: watcher range is empty"
    if create.id != 0 and _find(watching, create.id) != NULL:
        return b"mvcc: duplicate watch ID provided on the WatchStream"
    if watching.watches.size >= ETCD_WATCHES_MAX or door.counters.watches >= ETCD_WATCHES_OF_ALL_MAX:
        return b"etcdserver: too many requests"
    if most != 0 and call.account != NULL and call.account.watches >= most:
        return b"etcdserver: too many requests"
    return NULL


# 0 stands for the next one that is free; the first is 0 itself.
cdef int64_t _take_id(Watching* watching, int64_t asked) noexcept nogil:
    if asked != 0:
        return asked
    while _find(watching, watching.next_id) != NULL:
        watching.next_id += 1
    watching.next_id += 1
    return watching.next_id - 1


# Watches begin at the revision behind the one that the client is told, or at the one that it names. Revision 1 of etcd
# is the empty store.
cdef bint _open(EtcdDoor* door, EtcdCall* call, const Create* create, const KeyRange* range,
                uint64_t now, int64_t id) noexcept nogil:
    cdef Watching* watching = <Watching*>call.data
    cdef EtcdWatch* watch = <EtcdWatch*>calloc(1, sizeof(EtcdWatch) + range.start.length + range.end.length)
    cdef EtcdWatch** slot = watching.watches.insert(_key_of(id)) if watch != NULL else NULL
    cdef uint64_t start = now + 1
    if create.start > 0:
        start = max(<uint64_t>create.start - 1, <uint64_t>1)
    if slot == NULL:
        free(watch)
        return False
    watch.call = call
    watch.id = id
    watch.told_ns = door.desk.base.now_ns
    watch.has_fragments = create.has_fragments
    watch.has_progress = create.has_progress
    watch.key_length = range.start.length
    watch.end_length = range.end.length
    memcpy(<uint8_t*>watch + sizeof(EtcdWatch), range.start.data, range.start.length)
    if range.end.length:
        memcpy(<uint8_t*>watch + sizeof(EtcdWatch) + range.start.length, range.end.data, range.end.length)
    watch.feed = feed_create(door, &range.start, &range.end, start, create.filter, watching.purse, watch, _woken)
    if watch.feed == NULL:
        watching.watches.erase(_key_of(id))
        free(watch)
        return False
    slot[0] = watch
    door.counters.watches += 1
    if call.account != NULL:
        call.account.watches += 1
    return True


cdef void _create(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil:
    cdef Watching* watching = <Watching*>call.data
    cdef uint8_t[KEY_BYTES_MAX + 1] room
    cdef uint8_t zero = 0
    cdef Create create
    cdef KeyRange range
    cdef uint64_t now = _revision(door)
    cdef const char* reason
    cdef int64_t id
    _read_create(message, &create)
    if create.key.length == 0:
        create.key = bytes_of(&zero, 1)
    key_range(&create.key, &create.range_end, &range)
    if range.is_key and not range.is_empty:
        memcpy(room, range.start.data, range.start.length)
        room[range.start.length] = 0
        range.end = bytes_of(room, range.start.length + 1)
    reason = _refusal(door, call, &create, &range)
    if reason == NULL or reason == DENIED:
        audit_watch(door, call, &range.start, &range.end, range.is_key, reason == NULL)
    if reason != NULL:
        _answer(door, call, now, INVALID_ID, True, True, 0, reason)
        return
    id = _take_id(watching, create.id)
    if _open(door, call, &create, &range, now, id):
        _answer(door, call, now, id, True, False, 0, NULL)
    else:
        _fail(door, call)


cdef void _cancel(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil:
    cdef PbReader reader = pb_reader(message)
    cdef Watching* watching = <Watching*>call.data
    cdef EtcdWatch* watch
    cdef int64_t id = 0
    while pb_next(&reader):
        if reader.field == 1:
            id = <int64_t>reader.number
    watch = _find(watching, id)
    if watch != NULL:
        _forget(door, watching, watch)
        _answer(door, call, _revision(door), id, False, True, 0, NULL)


# One request is a oneof: its last field counts.
cdef void watches_message(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil:
    cdef PbReader reader = pb_reader(message)
    cdef Watching* watching = <Watching*>call.data
    cdef Bytes asked = bytes_of(NULL, 0)
    cdef uint32_t field = 0
    if watching == NULL:
        watching = _begin(door, call)
    if watching == NULL:
        _fail(door, call)
        return
    while pb_next(&reader):
        if 1 <= reader.field <= 3:
            field = reader.field
            asked = reader.bytes
    if field == 1:
        _create(door, call, &asked)
    elif field == 2:
        _cancel(door, call, &asked)
    elif field == 3:
        watching.wants_progress = True
        watching.progress = _revision(door)
        call_wait(door, call)
