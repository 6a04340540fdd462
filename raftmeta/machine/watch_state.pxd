# The shapes of the watch hub. Only raftmeta/machine/watch* looks inside; all others hold a Hub* or a Watch*.
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from raftmeta.machine.watch_index cimport WatchGroup, WatchIndex
from raftmeta.native.containers cimport Vec

# FORMAT_: docs/formats.md "Results".
cdef enum WatchItemKind:
    WATCH_EVENTS = 1                # all events of one revision (or a fragment of it, more = true)
    WATCH_PROGRESS_MARK = 2         # everything up to revision was delivered
    WATCH_LAGGED = 3                # queue was full: ends here, resume from revision
    WATCH_COMPACTED = 4             # start is below the history floor: ends here; revision = first one to resume from
    WATCH_CLOSED = 5                # the node stops: ends here
    WATCH_REMOVED = 6               # the node is no member any more: ends here, resume from revision at a member

cdef enum WatchEventType:
    WATCH_PUT = 1
    WATCH_DELETE = 2                # the record is the tombstone: no value, version 0

cdef enum WatchState:
    WATCH_BEHIND = 1            # hub_pump replays history to it, from next_revision on
    WATCH_LIVE = 2              # in the index: hub_publish finds it
    WATCH_ENDED = 3             # its last item says why

# Lists of watches; each watch knows its place in every one of them, so that it leaves in constant time.
cdef enum WatchList:
    LIST_ALL = 0
    LIST_MEMBERS = 1            # of its group while live, of Hub.behind while behind
    LIST_PROGRESS = 2           # those that want marks
    LIST_WOKEN = 3
    LIST_COUNT = 4

cdef enum:
    WATCH_NOWHERE = -1          # place of a watch that is not in the list

cdef struct EventSpan:
    uint64_t offset             # in the bytes of the batch
    uint64_t length             # 0: no watch wants it in this form

# The encoded events of one revision, made once however many watches see it. Two spans for each change (without and with
# the previous record) follow, then the bytes.
cdef struct EventBatch:
    uint64_t holders            # atomic; the last one frees it
    uint64_t number             # of the batches of this hub, from 1
    uint64_t bytes              # of all its events
    uint64_t revision
    uint64_t wall_ms
    uint32_t count              # changes of the revision

# How much may wait for all clients of a node, and how much waits for one of them (watch_purse.pxd).
cdef struct WatchPool:
    uint64_t holders            # atomic: its owner and every purse
    uint64_t purses             # atomic: how many share it
    uint64_t bytes              # atomic: of all purses
    uint64_t bytes_max          # set once

cdef struct WatchPurse:
    uint64_t holders            # atomic: its owner and every watch that pays into it
    uint64_t bytes              # atomic
    WatchPool* pool

# An item in the queue of one watch. For WATCH_EVENTS the positions of its changes in the batch follow.
cdef struct WatchItem:
    WatchItem* next             # atomic; set once, by the thread that applies
    EventBatch* batch           # NULL: not events
    uint64_t revision
    uint64_t bytes              # what it counts against the queue
    uint64_t paid               # what it counts against the purse: memory, of a shared batch its part
    uint32_t count
    uint8_t kind                # WatchItemKind
    uint8_t with_previous
    uint8_t is_embedded         # part of the watch, not of malloc

# A queue of one producer, the thread that applies, and one consumer. `taken` is the item taken last (at first the
# stub), whose successor is the front: neither side ever touches what the other one frees.
cdef struct WatchQueue:
    WatchItem* newest           # the producer's
    WatchItem stub
    WatchItem ending            # the last item needs no memory
    uint8_t[64] _line           # the two sides write to different cache lines
    WatchItem* taken            # the consumer's
    uint32_t given              # events of the front that went out as fragments
    uint64_t bytes              # atomic; rises by the producer, falls by the consumer
    uint64_t* total             # atomic: of all queues of the hub
    WatchPurse* purse           # NULL: none

# The front of a queue, or the fragment of it that comes next, as it stands there until it is passed.
cdef struct WatchFront:
    WatchItem* item
    uint32_t first              # of its events
    uint32_t end
    uint64_t bytes              # of the events [first, end)

cdef struct Watch:
    void* owner
    uint32_t filter             # WatchFilter bits
    WatchState state
    WatchGroup* group           # while live
    uint64_t next_revision      # events below it are not for this watch, or were enqueued
    uint64_t told               # everything up to here was enqueued, and the consumer can tell
    int64_t place[LIST_COUNT]
    uint32_t match_count        # of the revision being matched
    uint32_t match_last         # position of the last one in Hub.matches
    uint32_t key_length
    uint32_t end_length
    uint64_t reached            # shared: everything up to here was enqueued; the greatest number: up to `shown`
    const uint64_t* shown       # Hub.shown
    WatchQueue queue
    # The bytes of key and end follow.

# A change that a watch wants to see. The matches of one watch hang together backwards.
cdef struct WatchMatch:
    Watch* watch
    uint32_t position           # of the change in its revision
    uint32_t earlier            # match of the same watch, if it is not its first

cdef struct Hub:
    uint64_t queue_bytes_max
    uint64_t queued_bytes       # atomic: what waits in all queues together
    uint64_t revision           # last one published or, without watches, seen
    uint64_t shown              # shared: consumers take events up to this revision
    uint64_t batches            # made so far
    uint64_t turn               # position in behind of the watch that is served first
    uint64_t progress_turn
    WatchIndex index
    Vec[Watch*] watches         # LIST_ALL
    Vec[Watch*] behind          # LIST_MEMBERS
    Vec[Watch*] progress        # LIST_PROGRESS
    Vec[Watch*] woken           # LIST_WOKEN
    # Of the revision being matched and encoded; kept for their memory.
    Vec[WatchGroup*] groups
    Vec[WatchMatch] matches
    Vec[Watch*] touched
    Vec[EventSpan] spans
    Vec[uint8_t] bytes
