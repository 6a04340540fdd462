"""Maintenance.Snapshot: bodies.

_go_on walks through the steps, a slice of one in each turn. It decides which rows the database has; bolt.pyx knows how
pages look.

Sources: etcd server/etcdserver/api/v3rpc maintenance.go Snapshot; server/storage/schema bucket.go, cindex.go, lease.go;
server/storage/mvcc revision.go, kvstore.go restore.
"""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, qsort
from libc.string cimport memcpy, memset, strlen

from raftmeta.doors.desk.state cimport bytes_of
from raftmeta.doors.desk.tasks cimport submission_of
from raftmeta.doors.etcd.access cimport access_allows
from raftmeta.doors.etcd.audit cimport audit_ended
from raftmeta.doors.etcd.bolt cimport (BOLT_BRANCHES, BOLT_BUCKET, BOLT_FIRST_PAGE, BOLT_KEY_BYTES_MAX,
                                       BOLT_PAGE_BYTES, BOLT_ROW, BoltChild, BoltLeaf, bolt_branch, bolt_branches,
                                       bolt_bucket, bolt_front, bolt_inline, bolt_leaf, bolt_pages, bolt_release,
                                       bolt_row, bolt_row_begin, bolt_row_end, bolt_with_row)
from raftmeta.doors.etcd.calls cimport (call_ask, call_end, call_fail, call_reply, call_rest, call_send, call_wait,
                                        revision_told)
from raftmeta.doors.etcd.keys cimport key_record_of, key_value_fields, key_value_length
from raftmeta.doors.etcd.prefix cimport prefix_has
from raftmeta.doors.etcd.protobuf cimport pb_put_bytes, pb_put_uint, pb_varint_length
from raftmeta.doors.etcd.state cimport CODE_DEADLINE_EXCEEDED, CODE_OK, KeyRecord
from raftmeta.engine.submission cimport SUBMIT_LIST_LEASES, Submission
from raftmeta.loop.loop cimport READER_ETCD_SNAPSHOT, loop_enter, loop_leave
from raftmeta.machine.entry cimport ENTRY_TOMBSTONE, Entry, entry_key
from raftmeta.machine.plan cimport compare_bytes
from raftmeta.machine.rights_state cimport RIGHT_SNAPSHOT
from raftmeta.machine.state cimport Machine
from raftmeta.machine.tree cimport Cursor, Root, cursor_next, cursor_seek, root_revision, tree_pin, tree_unpin
from raftmeta.native.containers cimport Vec
from raftmeta.native.sha256 cimport Sha256
from raftmeta.status cimport NO_LEADER, OK, OVERLOADED
from raftmeta.wire.msgpack cimport (Reader, number_max, read_array_max, read_bin, read_bool, read_left, read_uint,
                                    reader_over, unsigned_max)

cdef enum:
    TUNE_SLICE = 4096               # places looked at in a turn
    TUNE_BATCH_BYTES = 256 * 1024   # of pages made before they are sent
    PIECE_BYTES = 32 * 1024         # of a message, as etcd sends them
    HASH_BYTES = 32
    UNREAD_NS = 30_000_000_000      # so long a client may read nothing
    REVISION_BYTES = 17             # eight of the revision, "_", eight of the place in it
    NUMBER_BYTES = 8
    LEASE_ELEMENTS = 4              # of a page: [id, ttl, remaining, note], the elements one after another
    NOTE_BYTES_MAX = 1 << 16
    MS_PER_S = 1000
    GONE_TTL_S = 1                  # of a lease that ended behind the state that is shown: its keys end soon

cdef enum SnapshotStep:
    STEP_LEASES = 0                 # the loop is asked for them
    STEP_COLLECT = 1
    STEP_HEAP = 2
    STEP_SORT = 3
    STEP_COUNT = 4                  # the pages
    STEP_FRONT = 5
    STEP_LEAVES = 6
    STEP_BRANCHES = 7
    STEP_ROOT = 8
    STEP_HASH = 9
    STEP_END = 10

cdef enum SnapshotTree:
    TREE_KEYS = 0
    TREE_LEASES = 1
    TREES = 2

cdef struct Place:
    uint64_t revision
    const Entry* entry

cdef struct LeaseRow:
    uint64_t id
    uint64_t ttl_s

# The pages of one tree: leaves one after another, then the branches.
cdef struct Pages:
    uint64_t first
    uint64_t leaves
    uint64_t count                  # of leaves, with the pages behind large ones
    uint64_t root

cdef struct Snapshot:
    uint8_t step                    # SnapshotStep
    uint8_t tree                    # SnapshotTree, of a step that is done for each
    Machine* machine                # held as READER_ETCD_SNAPSHOT
    const Root* root                # pinned
    uint64_t revision
    uint64_t applied
    uint64_t term
    uint32_t prefix_length
    Cursor cursor
    Vec[Place] places
    Vec[LeaseRow] leases
    uint64_t least                  # lease to ask for next
    size_t at                       # in places, leases or children, by step
    size_t heap                     # places that are still a heap
    uint64_t sub                    # place in its revision
    size_t leaf_bytes               # of the page that is being filled
    Pages[TREES] pages
    uint64_t page                   # the next one
    BoltLeaf leaf
    Vec[BoltChild] children
    size_t above                    # children that stand at the front for the level above
    Vec[uint8_t] out                # pages that are not sent yet
    uint64_t left                   # bytes of the database that are not sent yet
    Sha256 hash


cdef inline void _put_number(uint8_t* at, uint64_t number) noexcept nogil:
    cdef int i
    for i in range(NUMBER_BYTES):
        at[i] = <uint8_t>(number >> (56 - 8 * i))


cdef void _put_revision(uint8_t* at, uint64_t revision, uint64_t sub) noexcept nogil:
    _put_number(at, revision)
    at[NUMBER_BYTES] = c"_"
    _put_number(at + NUMBER_BYTES + 1, sub)


# --- the places, in order of revisions --------------------------------------------------------------------------------
cdef bint _is_below(const EtcdDoor* door, const Entry* entry) noexcept nogil:
    cdef Bytes key = bytes_of(entry_key(entry), entry.key_length)
    return prefix_has(&door.limits, &key)


# A deletion counts only as the newest revision, which the database would not show without it.
cdef bint _is_shown(const Snapshot* snapshot, const Entry* entry) noexcept nogil:
    return (entry.key_length > snapshot.prefix_length
            and (not entry.flags & ENTRY_TOMBSTONE or entry.mod_revision == snapshot.revision))


cdef bint _collect(const EtcdDoor* door, Snapshot* snapshot) noexcept nogil:
    cdef const Entry* entry
    cdef Place place
    cdef LeaseRow lease
    cdef int _i
    for _i in range(TUNE_SLICE):
        entry = snapshot.cursor.entry
        if entry == NULL or not _is_below(door, entry):
            snapshot.step = STEP_HEAP
            snapshot.at = snapshot.places.size // 2
            snapshot.heap = snapshot.places.size
            return _sort_leases(snapshot)
        cursor_next(&snapshot.cursor)
        if not _is_shown(snapshot, entry):
            continue
        place.revision = entry.mod_revision
        place.entry = entry
        lease.id = entry.lease
        lease.ttl_s = GONE_TTL_S
        if not snapshot.places.push(place) or (lease.id and not snapshot.leases.push(lease)):
            return False
    return True


cdef inline bint _is_behind(const Place* left, const Place* right) noexcept nogil:
    if left.revision != right.revision:
        return left.revision > right.revision
    return compare_bytes(entry_key(left.entry), left.entry.key_length, entry_key(right.entry),
                         right.entry.key_length) > 0


# The place at `at` goes down to where it belongs in a heap whose last place stands first.
cdef void _sink(Place* places, size_t at, size_t count) noexcept nogil:
    cdef Place moved = places[at]
    cdef size_t child = 2 * at + 1
    while child < count:
        if child + 1 < count and _is_behind(&places[child + 1], &places[child]):
            child += 1
        if not _is_behind(&places[child], &moved):
            break
        places[at] = places[child]
        at = child
        child = 2 * at + 1
    places[at] = moved


cdef void _make_heap(Snapshot* snapshot) noexcept nogil:
    cdef int _i
    for _i in range(TUNE_SLICE):
        if snapshot.at == 0:
            snapshot.step = STEP_SORT
            return
        snapshot.at -= 1
        _sink(snapshot.places.data, snapshot.at, snapshot.heap)


cdef void _sort(Snapshot* snapshot) noexcept nogil:
    cdef Place place
    cdef int _i
    for _i in range(TUNE_SLICE):
        if snapshot.heap < 2:
            snapshot.step = STEP_COUNT
            _begin_tree(snapshot, TREE_KEYS)
            return
        snapshot.heap -= 1
        place = snapshot.places.data[snapshot.heap]
        snapshot.places.data[snapshot.heap] = snapshot.places.data[0]
        snapshot.places.data[0] = place
        _sink(snapshot.places.data, 0, snapshot.heap)


# --- leases -----------------------------------------------------------------------------------------------------------
cdef int _by_id(const void* left, const void* right) noexcept nogil:
    cdef const LeaseRow* one = <const LeaseRow*>left
    cdef const LeaseRow* other = <const LeaseRow*>right
    if one.id != other.id:
        return (one.id > other.id) - (one.id < other.id)
    return (one.ttl_s < other.ttl_s) - (one.ttl_s > other.ttl_s)


# Each once, in order of ids. A key whose lease the loop did not tell has one that ended since.
cdef bint _sort_leases(Snapshot* snapshot) noexcept nogil:
    cdef size_t kept = 0
    cdef size_t i
    if snapshot.leases.size == 0:
        return True
    qsort(snapshot.leases.data, snapshot.leases.size, sizeof(LeaseRow), _by_id)
    for i in range(snapshot.leases.size):
        if kept == 0 or snapshot.leases.data[kept - 1].id != snapshot.leases.data[i].id:
            snapshot.leases.data[kept] = snapshot.leases.data[i]
            kept += 1
    return snapshot.leases.resize(kept)


cdef void _ask_leases(EtcdDoor* door, EtcdCall* call, Snapshot* snapshot) noexcept nogil:
    cdef Submission what = submission_of(SUBMIT_LIST_LEASES)
    what.arguments.list_leases.least = snapshot.least
    if not call_ask(door, call, 0, &what):
        _fail(door, call)


cdef void snapshot_answered(EtcdDoor* door, EtcdCall* call, EtcdTask* task) noexcept nogil:
    cdef Snapshot* snapshot = <Snapshot*>call.data
    cdef Reader reader
    cdef LeaseRow row
    cdef uint32_t length
    cdef bint has_more
    if snapshot == NULL:
        return
    if task.base.ticket.status != OK:
        _release(door, call)
        call_fail(door, call, task.base.ticket.status)
        return
    memset(&row, 0, sizeof(row))
    reader = reader_over(task.base.ticket.body, task.base.ticket.length)
    has_more = read_bool(&reader)
    while read_left(&reader) and reader.status == OK:
        read_array_max(&reader, LEASE_ELEMENTS)
        row.id = read_uint(&reader, unsigned_max())
        row.ttl_s = (read_uint(&reader, number_max()) + MS_PER_S - 1) // MS_PER_S
        read_uint(&reader, number_max())
        read_bin(&reader, NOTE_BYTES_MAX, &length)
        if not snapshot.leases.push(row):
            _fail(door, call)
            return
    if has_more and row.id != unsigned_max():
        snapshot.least = row.id + 1
        _ask_leases(door, call, snapshot)
        return
    snapshot.step = STEP_COLLECT
    call_wait(door, call)


# --- rows -------------------------------------------------------------------------------------------------------------
cdef inline size_t _rows(const Snapshot* snapshot) noexcept nogil:
    return snapshot.places.size if snapshot.tree == TREE_KEYS else snapshot.leases.size


# The record of the row at `at`; of a deletion its key alone.
cdef void _record(const Snapshot* snapshot, KeyRecord* record) noexcept nogil:
    cdef const Entry* entry = snapshot.places.data[snapshot.at].entry
    key_record_of(entry, record)
    record.key.data += snapshot.prefix_length
    record.key.length -= snapshot.prefix_length


cdef inline bint _is_deletion(const Snapshot* snapshot) noexcept nogil:
    return snapshot.places.data[snapshot.at].entry.flags & ENTRY_TOMBSTONE != 0


# The key of the row at `at`, and how long its value is.
cdef uint32_t _key(Snapshot* snapshot, uint8_t* key, size_t* value_length) noexcept nogil:
    cdef const LeaseRow* lease
    cdef KeyRecord record
    if snapshot.tree == TREE_LEASES:
        lease = &snapshot.leases.data[snapshot.at]
        _put_number(key, lease.id)
        value_length[0] = 2 + pb_varint_length(lease.id) + pb_varint_length(lease.ttl_s)
        return NUMBER_BYTES
    _record(snapshot, &record)
    _put_revision(key, revision_told(snapshot.places.data[snapshot.at].revision), snapshot.sub)
    if _is_deletion(snapshot):
        key[REVISION_BYTES] = c"t"
        value_length[0] = 1 + pb_varint_length(record.key.length) + record.key.length
        return REVISION_BYTES + 1
    value_length[0] = key_value_length(&record, True)
    return REVISION_BYTES


cdef bint _put_value(Snapshot* snapshot) noexcept nogil:
    cdef const LeaseRow* lease
    cdef KeyRecord record
    if snapshot.tree == TREE_LEASES:
        lease = &snapshot.leases.data[snapshot.at]
        return pb_put_uint(&snapshot.leaf.data, 1, lease.id) and pb_put_uint(&snapshot.leaf.data, 2, lease.ttl_s)
    _record(snapshot, &record)
    if _is_deletion(snapshot):
        return pb_put_bytes(&snapshot.leaf.data, 1, &record.key)
    return key_value_fields(&snapshot.leaf.data, &record, True)


# To the next row. Rows of one revision are numbered.
cdef void _pass(Snapshot* snapshot) noexcept nogil:
    cdef const Place* place = snapshot.places.data + snapshot.at
    snapshot.at += 1
    if snapshot.tree == TREE_KEYS and snapshot.at < snapshot.places.size:
        snapshot.sub = snapshot.sub + 1 if place[1].revision == place[0].revision else 0


cdef void _begin_tree(Snapshot* snapshot, uint8_t tree) noexcept nogil:
    snapshot.tree = tree
    snapshot.at = 0
    snapshot.sub = 0
    snapshot.leaf_bytes = 0


# --- counting ---------------------------------------------------------------------------------------------------------
cdef void _count_leaf(Snapshot* snapshot) noexcept nogil:
    snapshot.pages[snapshot.tree].leaves += 1
    snapshot.pages[snapshot.tree].count += bolt_pages(snapshot.leaf_bytes)
    snapshot.leaf_bytes = 0


cdef void _count(Snapshot* snapshot) noexcept nogil:
    cdef uint8_t[BOLT_KEY_BYTES_MAX] key
    cdef size_t value_length = 0
    cdef uint32_t key_length
    cdef int _i
    for _i in range(TUNE_SLICE):
        if snapshot.at == _rows(snapshot):
            _count_leaf(snapshot)               # a tree without rows is an empty leaf
            _place(snapshot)
            return
        key_length = _key(snapshot, key, &value_length)
        if snapshot.leaf_bytes and bolt_with_row(snapshot.leaf_bytes, key_length, value_length) > BOLT_PAGE_BYTES:
            _count_leaf(snapshot)
        snapshot.leaf_bytes = bolt_with_row(snapshot.leaf_bytes, key_length, value_length)
        _pass(snapshot)


# A tree is counted: its pages have their numbers.
cdef void _place(Snapshot* snapshot) noexcept nogil:
    cdef Pages* pages = &snapshot.pages[snapshot.tree]
    cdef uint64_t branches = bolt_branches(pages.leaves)
    pages.first = snapshot.page
    pages.root = pages.first + pages.count + branches - 1 if branches else pages.first
    snapshot.page += pages.count + branches
    if snapshot.tree == TREE_KEYS:
        _begin_tree(snapshot, TREE_LEASES)
    else:
        snapshot.step = STEP_FRONT


# --- pages ------------------------------------------------------------------------------------------------------------
cdef bint _put_front(Snapshot* snapshot) noexcept nogil:
    cdef uint64_t root = snapshot.page
    snapshot.left = (root + 1) * BOLT_PAGE_BYTES
    snapshot.page = BOLT_FIRST_PAGE
    snapshot.step = STEP_LEAVES
    _begin_tree(snapshot, TREE_KEYS)
    return bolt_front(&snapshot.out, root, root + 1)


# One leaf, or one branch.
cdef bint _put_leaf(Snapshot* snapshot) noexcept nogil:
    cdef BoltChild child
    cdef uint8_t[BOLT_KEY_BYTES_MAX] key
    cdef size_t value_length = 0
    cdef uint32_t key_length
    child.page = snapshot.page
    child.key_length = 0
    while snapshot.at < _rows(snapshot):
        key_length = _key(snapshot, key, &value_length)
        if snapshot.leaf_bytes and bolt_with_row(snapshot.leaf_bytes, key_length, value_length) > BOLT_PAGE_BYTES:
            break
        if snapshot.leaf_bytes == 0:
            memcpy(child.key, key, key_length)
            child.key_length = <uint8_t>key_length
        if not bolt_row_begin(&snapshot.leaf, BOLT_ROW, key, key_length) or not _put_value(snapshot):
            return False
        bolt_row_end(&snapshot.leaf)
        snapshot.leaf_bytes = bolt_with_row(snapshot.leaf_bytes, key_length, value_length)
        _pass(snapshot)
    snapshot.page += bolt_pages(snapshot.leaf_bytes)
    snapshot.leaf_bytes = 0
    if snapshot.at == _rows(snapshot):
        snapshot.step = STEP_BRANCHES
        snapshot.at = 0
        snapshot.above = 0
    return snapshot.children.push(child) and bolt_leaf(&snapshot.out, &snapshot.leaf, child.page)


# A level ends when all its pages have one above them; the last level is one page.
cdef bint _put_branch(Snapshot* snapshot) noexcept nogil:
    cdef BoltChild child
    cdef uint32_t count
    if snapshot.children.size == 1:
        _end_tree(snapshot)
        return True
    count = <uint32_t>min(<size_t>BOLT_BRANCHES, snapshot.children.size - snapshot.at)
    if not bolt_branch(&snapshot.out, &snapshot.children.data[snapshot.at], count, snapshot.page):
        return False
    child = snapshot.children.data[snapshot.at]
    child.page = snapshot.page
    snapshot.page += 1
    snapshot.children.data[snapshot.above] = child
    snapshot.above += 1
    snapshot.at += count
    if snapshot.at == snapshot.children.size:
        snapshot.children.resize(snapshot.above)
        snapshot.at = 0
        snapshot.above = 0
    return True


cdef void _end_tree(Snapshot* snapshot) noexcept nogil:
    snapshot.children.clear()
    if snapshot.tree == TREE_KEYS:
        snapshot.step = STEP_LEAVES
        _begin_tree(snapshot, TREE_LEASES)
    else:
        snapshot.step = STEP_ROOT


# --- the root bucket --------------------------------------------------------------------------------------------------
cdef bint _put_meta(Snapshot* snapshot, BoltLeaf* leaf, const char* name, const uint8_t* value,
                    uint32_t length) noexcept nogil:
    cdef Bytes key = bytes_of(<const uint8_t*>name, strlen(name))
    cdef Bytes bytes = bytes_of(value, length)
    return bolt_row(leaf, BOLT_ROW, &key, &bytes)


# The state begins with its revision: no older one can be read, as behind a Compact.
cdef bint _put_metas(Snapshot* snapshot, BoltLeaf* leaf) noexcept nogil:
    cdef uint8_t[NUMBER_BYTES] applied
    cdef uint8_t[NUMBER_BYTES] term
    cdef uint8_t[REVISION_BYTES] floor
    _put_number(applied, snapshot.applied)
    _put_number(term, snapshot.term)
    _put_revision(floor, revision_told(snapshot.revision), 0)
    return (_put_meta(snapshot, leaf, b"consistent_index", applied, NUMBER_BYTES)
            and _put_meta(snapshot, leaf, b"finishedCompactRev", floor, REVISION_BYTES)
            and _put_meta(snapshot, leaf, b"scheduledCompactRev", floor, REVISION_BYTES)
            and _put_meta(snapshot, leaf, b"storageVersion", <const uint8_t*>STORAGE_VERSION, 5)
            and _put_meta(snapshot, leaf, b"term", term, NUMBER_BYTES))


cdef bint _put_bucket(Snapshot* snapshot, Vec[uint8_t]* scratch, const char* name, BoltLeaf* rows,
                      uint64_t root) noexcept nogil:
    cdef Bytes key = bytes_of(<const uint8_t*>name, strlen(name))
    cdef Bytes value
    scratch.clear()
    if not (bolt_bucket(scratch, root) if root else bolt_inline(scratch, rows)):
        return False
    value = bytes_of(scratch.data, scratch.size)
    return bolt_row(&snapshot.leaf, BOLT_BUCKET, &key, &value)


# All buckets of etcd in order of their names. Members belong to a cluster, and etcdutl takes them out; users and roles
# are not etcd's.
cdef bint _put_root(EtcdDoor* door, Snapshot* snapshot) noexcept nogil:
    cdef BoltLeaf rows
    cdef Vec[uint8_t]* scratch = &door.scratch
    cdef bint is_made
    memset(&rows, 0, sizeof(rows))
    is_made = (_put_bucket(snapshot, scratch, b"alarm", &rows, 0) and _put_bucket(snapshot, scratch, b"auth", &rows, 0)
               and _put_bucket(snapshot, scratch, b"authRoles", &rows, 0)
               and _put_bucket(snapshot, scratch, b"authUsers", &rows, 0)
               and _put_bucket(snapshot, scratch, b"cluster", &rows, 0)
               and _put_bucket(snapshot, scratch, b"key", NULL, snapshot.pages[<int>TREE_KEYS].root)
               and _put_bucket(snapshot, scratch, b"lease", NULL, snapshot.pages[<int>TREE_LEASES].root)
               and _put_bucket(snapshot, scratch, b"members", &rows, 0)
               and _put_bucket(snapshot, scratch, b"members_removed", &rows, 0)
               and _put_metas(snapshot, &rows) and _put_bucket(snapshot, scratch, b"meta", &rows, 0)
               and bolt_leaf(&snapshot.out, &snapshot.leaf, snapshot.page))
    bolt_release(&rows)
    snapshot.step = STEP_HASH
    return is_made


# --- messages ---------------------------------------------------------------------------------------------------------
cdef const char* STORAGE_VERSION = b"3.6.0"


cdef void _send_piece(EtcdDoor* door, EtcdCall* call, const uint8_t* data, size_t length, uint64_t left) noexcept nogil:
    cdef Vec[uint8_t]* out = call_reply(door)
    cdef Bytes blob = bytes_of(data, length)
    cdef Bytes version = bytes_of(<const uint8_t*>STORAGE_VERSION, 5)
    call_send(door, call, pb_put_uint(out, 2, left) and pb_put_bytes(out, 3, &blob) and pb_put_bytes(out, 4, &version))


cdef void _send(EtcdDoor* door, EtcdCall* call, Snapshot* snapshot) noexcept nogil:
    cdef uint8_t[HASH_BYTES] hash
    cdef size_t sent = 0
    cdef size_t length
    while sent < snapshot.out.size:
        length = min(<size_t>PIECE_BYTES, snapshot.out.size - sent)
        snapshot.hash.add(snapshot.out.data + sent, length)
        snapshot.left -= length
        _send_piece(door, call, snapshot.out.data + sent, length, snapshot.left)
        sent += length
    snapshot.out.clear()
    call.until_ns = door.desk.base.now_ns + <uint64_t>UNREAD_NS
    if snapshot.step == STEP_HASH:
        snapshot.hash.end(hash)
        _send_piece(door, call, hash, HASH_BYTES, 0)
        snapshot.step = STEP_END


# --- turns ------------------------------------------------------------------------------------------------------------
# Pages until there are enough of them. False: no memory.
cdef bint _make_pages(EtcdDoor* door, Snapshot* snapshot) noexcept nogil:
    cdef bint is_made = True
    while is_made and snapshot.step != STEP_HASH and snapshot.out.size < TUNE_BATCH_BYTES:
        if snapshot.step == STEP_FRONT:
            is_made = _put_front(snapshot)
        elif snapshot.step == STEP_LEAVES:
            is_made = _put_leaf(snapshot)
        elif snapshot.step == STEP_BRANCHES:
            is_made = _put_branch(snapshot)
        else:
            is_made = _put_root(door, snapshot)
    return is_made


cdef bint _go_on(EtcdDoor* door, EtcdCall* call, Snapshot* snapshot) noexcept nogil:
    if snapshot.step == STEP_COLLECT:
        return _collect(door, snapshot)
    if snapshot.step == STEP_HEAP:
        _make_heap(snapshot)
    elif snapshot.step == STEP_SORT:
        _sort(snapshot)
    elif snapshot.step == STEP_COUNT:
        _count(snapshot)
    elif not _make_pages(door, snapshot):
        return False
    else:
        _send(door, call, snapshot)
    return True


cdef bint snapshot_is_busy(const EtcdDoor* door) noexcept nogil:
    return door.snapshot != NULL and door.snapshot.waits and door.snapshot.out.size == 0


# Pages are sent before more are made: the snapshot is as fast as its client, and takes no more room.
cdef void snapshot_go(EtcdDoor* door, EtcdCall* call) noexcept nogil:
    cdef Snapshot* snapshot = <Snapshot*>call.data
    if call.out.size:
        if door.desk.base.now_ns > call.until_ns:
            _release(door, call)
            call_end(door, call, CODE_DEADLINE_EXCEEDED, b"etcdserver: the client reads nothing")
            return
        call_wait(door, call)
        return
    call_rest(call)
    if not _go_on(door, call, snapshot):
        _fail(door, call)
    elif snapshot.step == STEP_END:
        _release(door, call)
        call_end(door, call, CODE_OK, NULL)
    else:
        call_wait(door, call)


# --- beginning and end ------------------------------------------------------------------------------------------------
cdef void snapshot_message(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil:
    cdef Snapshot* snapshot
    if call.data != NULL or not access_allows(door, call, RIGHT_SNAPSHOT, NULL, NULL):
        return
    if door.snapshot != NULL:
        call_fail(door, call, OVERLOADED)
        return
    snapshot = <Snapshot*>calloc(1, sizeof(Snapshot))
    if snapshot == NULL:
        call_fail(door, call, OVERLOADED)
        return
    call.data = snapshot
    door.snapshot = call
    snapshot.machine = loop_enter(door.desk.loop, READER_ETCD_SNAPSHOT)
    if snapshot.machine == NULL:
        _release(door, call)
        call_fail(door, call, NO_LEADER)
        return
    snapshot.root = tree_pin(snapshot.machine.tree)
    _begin(door, snapshot)
    _ask_leases(door, call, snapshot)


# The leases are asked for behind the state that is shown: none of its leases is missed but those that ended since.
cdef void _begin(EtcdDoor* door, Snapshot* snapshot) noexcept nogil:
    snapshot.revision = root_revision(snapshot.root)
    snapshot.applied = door.desk.status.core.applied
    snapshot.term = door.desk.status.core.term
    snapshot.prefix_length = door.limits.prefix_length
    snapshot.page = BOLT_FIRST_PAGE
    snapshot.hash.begin()
    cursor_seek(&snapshot.cursor, snapshot.root, door.limits.prefix, <uint16_t>snapshot.prefix_length)


cdef void _release(EtcdDoor* door, EtcdCall* call) noexcept nogil:
    cdef Snapshot* snapshot = <Snapshot*>call.data
    if snapshot == NULL:
        return
    if snapshot.root != NULL:
        tree_unpin(snapshot.machine.tree, snapshot.root)
    loop_leave(door.desk.loop, READER_ETCD_SNAPSHOT)
    snapshot.places.release()
    snapshot.leases.release()
    bolt_release(&snapshot.leaf)
    snapshot.children.release()
    snapshot.out.release()
    free(snapshot)
    call.data = NULL
    door.snapshot = NULL


cdef void _fail(EtcdDoor* door, EtcdCall* call) noexcept nogil:
    _release(door, call)
    call_fail(door, call, OVERLOADED)


# It has said all that there is to say.
cdef void snapshot_half_closed(EtcdDoor* door, EtcdCall* call) noexcept nogil:
    if call.data == NULL and not call.is_done:
        call_end(door, call, CODE_OK, NULL)


# A client that leaves has seen a part, and the audit trail says so.
cdef void snapshot_closed(EtcdDoor* door, EtcdCall* call) noexcept nogil:
    cdef Bytes nothing = bytes_of(NULL, 0)
    if call.data != NULL and not call.is_done:
        audit_ended(door, call, &nothing)
    _release(door, call)
