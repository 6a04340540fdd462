# Watchers of this node: who gets which change, in revision order, without gap or duplicate
# (decisions/README.md "Watches").
#
# Not replicated. The thread that applies matches and enqueues *before* the write's completion; consumers (other
# threads) take batches. A consumer that is too slow gets one LAGGED(resume revision), never silence. Events are shared:
# one EventBatch per revision, counted atomically, however many watchers see it. A watch of the past is replayed from
# history, never faster than its consumer takes. Where replay meets the present:
#   1. hub_pump enqueues revision r, the newest one, to watch W and puts W into the index, in the same call;
#   2. revision r + 1 is applied and published on the same thread: W is found like any other.
# If the machine moved on without hub_publish (a snapshot was installed), all watches go back to replay from the first
# revision they were not told: history is part of the snapshot.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.machine.history cimport Change
from raftmeta.machine.state cimport Machine
from raftmeta.machine.watch_state cimport (
    WATCH_CLOSED, WATCH_COMPACTED, WATCH_DELETE, WATCH_EVENTS, WATCH_LAGGED, WATCH_PROGRESS_MARK, WATCH_PUT,
    WATCH_REMOVED, Hub, Watch, WatchEventType, WatchFront, WatchItemKind, WatchPurse)
from raftmeta.native.containers cimport Vec
from raftmeta.status cimport status_t
from raftmeta.wire.commands cimport Bytes

cdef enum WatchFilter:
    WATCH_NO_PUT = 1
    WATCH_NO_DELETE = 2
    WATCH_PREVIOUS = 4              # events carry the record before
    WATCH_PROGRESS = 8              # a mark when the watcher is up to date and nothing matched for a while

# One item taken from a watch, encoded for its consumer: [kind, revision, wall_ms, [[type, record, previous|nil], ...],
# more]. queue_bytes_max bounds what waits in each queue; a revision that is longer by itself passes an empty queue.
cdef Hub* hub_create(uint64_t queue_bytes_max) noexcept nogil
# As hub_remove of every watch.
cdef void hub_destroy(Hub* hub) noexcept nogil
# The thread that applies: --------------------------------------------------------------------------------------------
# Start at `start_revision` (0: after the newest), which may be in the future; history is replayed from the machine in
# later hub_pump calls. The keys are those of [key, end), an empty end is that of the keyspace; one key alone is the
# range to itself with a zero byte behind it, and costs a commit one look into a hash table however many there are.
# purse: what all watches of its client may have waiting (watch_purse.pxd), NULL: no bound but that of the queue. One
# whose purse has no room ends with WATCH_LAGGED, or is not replayed to, as if its queue were full.
cdef status_t hub_add(Hub* hub, Machine* machine, const Bytes* key, const Bytes* end, uint64_t start_revision,
                      uint32_t filter, void* owner, WatchPurse* purse, Watch** watch) noexcept nogil
# No watch_take of this watch is under way, and none follows.
cdef void hub_remove(Hub* hub, Watch* watch) noexcept nogil
# One revision was applied. Enqueues to every watcher that matches and is up to date.
cdef status_t hub_publish(Hub* hub, uint64_t revision, uint64_t wall_ms, const Change* changes,
                          uint32_t count) noexcept nogil
# Bounded work for watchers that are behind (history replay) and for progress marks; *more: call again. A watcher whose
# queue is more than half full waits for its consumer, without *more.
cdef status_t hub_pump(Hub* hub, Machine* machine, uint32_t changes_max, bint* more) noexcept nogil
# Consumers take events up to `revision` only: called with the machine's revision after machine_publish, so that whoever
# saw an event can read what it tells. Until the first call all events may be taken.
cdef void hub_show(Hub* hub, uint64_t revision) noexcept nogil
# How many watches there are, and the bytes that wait in all their queues together.
cdef void hub_measure(const Hub* hub, uint64_t* watches, uint64_t* queued_bytes) noexcept nogil
# Owners with something new since the last call (to be woken once each), at most `most`.
cdef uint32_t hub_take_woken(Hub* hub, void** owners, uint32_t most) noexcept nogil
# Every watch that has not ended gets WATCH_CLOSED or WATCH_REMOVED, and its owner is to be woken.
cdef void hub_close(Hub* hub, WatchItemKind reason) noexcept nogil
# Any thread, one consumer per watch: ---------------------------------------------------------------------------------
# Appends up to `items_max` encoded items to out, none after bytes_max bytes; *count of them. Releases what was taken.
# NO_MEMORY: *count items were taken, the rest waits.
cdef status_t watch_take(Watch* watch, uint32_t items_max, uint32_t bytes_max, Vec[uint8_t]* out,
                         uint32_t* count) noexcept nogil

# The consumer: every event up to this revision waits in the queue, or was taken. Looked at before the queue is emptied,
# it says which state the consumer then knows of, also where no event of its keys is near.
cdef uint64_t watch_reached(const Watch* watch) noexcept nogil

# A consumer in this process need not have items encoded: it looks at the next one where it lies, and passes it.
cdef struct WatchView:
    uint8_t kind                # WatchItemKind
    bint is_whole               # no more of this revision follows
    bint is_shared              # other watches have it before them
    uint64_t revision
    uint64_t wall_ms
    uint64_t batch              # number of what its events are part of; 0: no events
    uint64_t batch_bytes
    uint32_t batch_events       # in how many positions events of it stand
    uint32_t count              # of events that the view shows
    uint64_t bytes              # of those
    bint with_previous
    WatchFront front

# False: nothing to take now.
cdef bint watch_look(const Watch* watch, WatchView* view) noexcept nogil
# The event `number` of the view, encoded as [type, record, previous | nil], and its position in the batch.
cdef const uint8_t* view_event(const WatchView* view, uint32_t number, uint64_t* length,
                               uint32_t* position) noexcept nogil
# Release what the view shows.
cdef void watch_pass(Watch* watch, const WatchView* view) noexcept nogil
