"""Feeds of the etcd door: bodies."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from raftmeta.doors.desk.state cimport DeskTask, bytes_of, task_frame
from raftmeta.doors.desk.tasks cimport submission_of, task_create, task_free, task_submit
from raftmeta.doors.etcd.state cimport (FEED_CLOSED, FEED_FAILED, FEED_OPEN, FEED_OPENING, TASK_FEED_CLOSE,
                                        TASK_FEED_OPEN)
from raftmeta.engine.submission cimport SUBMIT_UNWATCH, SUBMIT_WATCH, Submission
from raftmeta.loop.tickets cimport MAIL_WATCH
from raftmeta.machine.watch_purse cimport purse_drop, purse_hold
from raftmeta.status cimport OK


# A task that finds its feed again. False: no memory.
cdef bint _ask(EtcdDoor* door, EtcdFeed* feed, uint8_t kind, const Bytes* payload,
               const Submission* what) noexcept nogil:
    cdef Bytes address = bytes_of(<const uint8_t*>&feed, sizeof(feed))
    cdef DeskTask* task = task_create(&door.desk, NULL, kind, &address, payload)
    if task == NULL:
        return False
    if task_submit(&door.desk, task, what) != OK:
        task_free(&door.desk, task)
        return False
    feed.tickets += 1
    return True


cdef bint _open(EtcdDoor* door, EtcdFeed* feed, uint64_t revision) noexcept nogil:
    cdef Submission what = submission_of(SUBMIT_WATCH)
    cdef Bytes span = bytes_of(<const uint8_t*>feed + sizeof(EtcdFeed), feed.key_length + feed.end_length)
    what.arguments.watch.handle = &feed.signal
    what.arguments.watch.purse = feed.purse
    what.arguments.watch.start_revision = revision
    what.arguments.watch.key_length = feed.key_length
    what.arguments.watch.filter = feed.filter
    feed.state = FEED_OPENING
    return _ask(door, feed, TASK_FEED_OPEN, &span, &what)


# Without memory for the question the watch stays with the node until both end.
cdef void _close(EtcdDoor* door, EtcdFeed* feed) noexcept nogil:
    cdef Submission what = submission_of(SUBMIT_UNWATCH)
    cdef Bytes nothing = bytes_of(NULL, 0)
    what.arguments.unwatch.watch = feed.watch
    feed.watch = NULL
    feed.state = FEED_CLOSED
    _ask(door, feed, TASK_FEED_CLOSE, &nothing, &what)


cdef void _free(EtcdDoor* door, EtcdFeed* feed) noexcept nogil:
    if feed.previous != NULL:
        feed.previous.next = feed.next
    else:
        door.feeds = feed.next
    if feed.next != NULL:
        feed.next.previous = feed.previous
    purse_drop(feed.purse)
    free(feed)


cdef EtcdFeed* feed_create(EtcdDoor* door, const Bytes* key, const Bytes* end, uint64_t revision, uint32_t filter,
                           WatchPurse* purse, void* owner,
                           void (*woken)(EtcdDoor* door, void* owner) noexcept nogil) noexcept nogil:
    cdef EtcdFeed* feed = <EtcdFeed*>calloc(1, sizeof(EtcdFeed) + key.length + end.length)
    if feed == NULL:
        return NULL
    feed.signal.mail.kind = MAIL_WATCH
    feed.signal.mailbox = door.desk.mailbox
    feed.filter = filter
    feed.purse = purse
    purse_hold(purse)
    feed.owner = owner
    feed.woken = woken
    feed.key_length = key.length
    feed.end_length = end.length
    memcpy(<uint8_t*>feed + sizeof(EtcdFeed), key.data, key.length)
    if end.length:
        memcpy(<uint8_t*>feed + sizeof(EtcdFeed) + key.length, end.data, end.length)
    feed.next = door.feeds
    if door.feeds != NULL:
        door.feeds.previous = feed
    door.feeds = feed
    if not _open(door, feed, revision):
        _free(door, feed)
        return NULL
    return feed


# The loop takes the two questions in this order, so the signal is of one watch at a time.
cdef bint feed_again(EtcdDoor* door, EtcdFeed* feed, uint64_t revision) noexcept nogil:
    _close(door, feed)
    feed.has_items = False
    return _open(door, feed, revision)


cdef void feed_drop(EtcdDoor* door, EtcdFeed* feed) noexcept nogil:
    if feed == NULL:
        return
    feed.is_dropped = True
    feed.owner = NULL
    if feed.state == FEED_OPEN:
        _close(door, feed)
    elif feed.state != FEED_OPENING and feed.tickets == 0:
        _free(door, feed)


cdef void feeds_answered(EtcdDoor* door, EtcdTask* task) noexcept nogil:
    cdef EtcdFeed* feed
    cdef bint is_ok = task.base.ticket.status == OK
    memcpy(&feed, task_frame(&door.desk, &task.base), sizeof(feed))
    feed.tickets -= 1
    if task.base.kind == TASK_FEED_OPEN:
        feed.state = FEED_OPEN if is_ok else FEED_FAILED
        if is_ok:
            memcpy(&feed.watch, task.base.ticket.body, sizeof(feed.watch))
        if not feed.is_dropped:
            feed.woken(door, feed.owner)
            return
        if is_ok:
            _close(door, feed)
            return
    elif not is_ok:
        return                      # the node stops: its hub knows the signal until both end
    if feed.is_dropped and feed.tickets == 0:
        _free(door, feed)


cdef void feeds_woken(Desk* desk, WatchSignal* signal) noexcept nogil:
    cdef EtcdFeed* feed = <EtcdFeed*>signal
    feed.has_items = True
    if not feed.is_dropped and feed.state == FEED_OPEN:
        feed.woken(<EtcdDoor*>desk, feed.owner)


cdef void feeds_release(EtcdDoor* door) noexcept nogil:
    while door.feeds != NULL:
        _free(door, door.feeds)
