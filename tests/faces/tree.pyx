"""The state tree for tests, tools and benchmarks: Python objects in and out, nothing decided here.

One thread may call the methods of the writer at a time; pins may be taken and read by any thread. Methods that run
long work without the GIL, so that threads really meet inside the tree.
"""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memset

from raftmeta.machine.tree cimport (
    ENTRY_TOMBSTONE, Cursor, Difference, Entry, cursor_next, cursor_seek, entry_at, entry_key, entry_previous,
    entry_value, root_count, root_difference, root_find, root_revision, tree_bytes, tree_count,
    tree_create_with, tree_cut_chain, tree_destroy, tree_enter, tree_find, tree_free_entry, tree_hash, tree_leave,
    tree_load, tree_load_begin, tree_load_end, tree_new_entry, tree_pin, tree_publish, tree_put, tree_reclaim,
    tree_remove, tree_unpin, tree_writer_root)
from raftmeta.machine.tree_node cimport compare_bytes
from raftmeta.machine.tree_state cimport Root, Tree
from raftmeta.native.atomics cimport load_acquire
from raftmeta.native.containers cimport Vec
from raftmeta.native.intrinsics cimport Hash128, hash128, next_random
from raftmeta.native.pieces cimport PieceStore
from raftmeta.status cimport INVARIANT_BROKEN, NO_MEMORY, OK, status_t


cdef enum:
    ROUND_KEY_LENGTH = 14       # "key-" and ten digits
    ROUND_VALUE_MAX = 1024
    HASHED_METADATA_LENGTH = 40  # from create_revision to the key


cdef object _check(status_t status):
    if status == NO_MEMORY:
        raise MemoryError("the tree's bytes_max is reached")
    if status != OK:
        raise ValueError(status)


cdef object _key(const Entry* entry):
    return (<const char*>entry_key(entry))[:entry.key_length]


# (key, value, create_revision, mod_revision, version, lease, flags)
cdef object _record(const Entry* entry):
    if entry == NULL:
        return None
    return (_key(entry), (<const char*>entry_value(entry))[:entry.value_length], entry.create_revision,
            entry.mod_revision, entry.version, entry.lease, entry.flags)


cdef object _number(Hash128 digest):
    return (<object>digest.high << 64) | digest.low


# The decimal digits of number as a key.
cdef void _round_key(uint8_t* key, uint64_t number) noexcept nogil:
    cdef int position = ROUND_KEY_LENGTH - 1
    key[0] = c"k"
    key[1] = c"e"
    key[2] = c"y"
    key[3] = c"-"
    while position > 3:
        key[position] = <uint8_t>(c"0" + number % 10)
        number //= 10
        position -= 1


# One put or delete as the machine makes it: create revision and version follow from the newest version there is.
# Its chain ends at floor.
cdef status_t _change(Tree* tree, const Entry* older, const uint8_t* key, uint16_t key_length, const uint8_t* value,
                      uint32_t value_length, uint64_t revision, uint64_t lease, uint16_t flags,
                      uint64_t floor) noexcept nogil:
    cdef bint is_new = older == NULL or older.flags & ENTRY_TOMBSTONE
    cdef uint64_t version = 0 if flags & ENTRY_TOMBSTONE else 1 if is_new else older.version + 1
    cdef Entry* entry = tree_new_entry(tree, key, key_length, value, value_length,
                                       revision if is_new else older.create_revision, revision, version, lease, flags)
    cdef status_t status
    if entry == NULL:
        return NO_MEMORY
    status = tree_put(tree, entry)
    if status != OK:
        tree_free_entry(tree, entry)
        return status
    tree_cut_chain(tree, entry, floor)
    return OK


# Keys ascend, and count and hash are those of the root.
cdef status_t _verify(const Root* root) noexcept nogil:
    cdef Cursor cursor
    cdef const Entry* last = NULL
    cdef const Entry* entry
    cdef Hash128 digest
    cdef uint64_t count = 0
    cdef uint64_t low = 0
    cdef uint64_t high = 0
    cursor_seek(&cursor, root, NULL, 0)
    while cursor.entry != NULL:
        entry = cursor.entry
        if last != NULL and compare_bytes(entry_key(last), last.key_length, entry_key(entry), entry.key_length) >= 0:
            return INVARIANT_BROKEN
        digest = hash128(0x656E747279, &entry.create_revision,
                         HASHED_METADATA_LENGTH + entry.key_length + <size_t>entry.value_length)
        if root_find(root, entry_key(entry), entry.key_length) != entry:
            return INVARIANT_BROKEN
        if not entry.flags & ENTRY_TOMBSTONE:
            count += 1
            low += digest.low
            high += digest.high + <uint64_t>(low < digest.low)
        last = entry
        cursor_next(&cursor)
    digest = root.hash
    if count != root_count(root) or low != digest.low or high != digest.high:
        return INVARIANT_BROKEN
    return OK


cdef status_t _round(Tree* tree, uint32_t batch, uint64_t keys, uint32_t value_length, uint32_t delete_share,
                     uint64_t history, uint64_t* seed) noexcept nogil:
    cdef uint8_t key[ROUND_KEY_LENGTH]
    cdef uint8_t value[ROUND_VALUE_MAX]
    cdef uint64_t revision = root_revision(tree_writer_root(tree))
    cdef uint64_t floor
    cdef uint16_t flags
    cdef Entry* newest
    cdef status_t status
    cdef uint32_t changes = 0
    memset(value, 0, value_length)
    while changes < batch:
        changes += 1
        revision += 1
        floor = revision - history if revision > history else 0
        _round_key(key, next_random(seed) % keys)
        flags = ENTRY_TOMBSTONE if next_random(seed) % 100 < delete_share else 0
        if value_length >= 8:
            (<uint64_t*>value)[0] = revision
        newest = tree_find(tree, key, ROUND_KEY_LENGTH)
        if newest != NULL and newest.flags & ENTRY_TOMBSTONE and newest.mod_revision <= floor:
            status = tree_remove(tree, key, ROUND_KEY_LENGTH)
        else:
            status = _change(tree, newest, key, ROUND_KEY_LENGTH, value, 0 if flags else value_length, revision, 0,
                             flags, floor)
        if status != OK:
            return status
    status = tree_publish(tree, revision)
    tree_reclaim(tree, 64 + 16 * changes)
    return status


cdef class PinnedRoot:
    """A root of a TreeHandle that stays as it is until release()."""
    cdef TreeHandle _owner
    cdef const Root* _root

    def release(self):
        """Unpin; safe to call twice."""
        if self._root != NULL:
            tree_unpin(self._owner._tree, self._root)
            self._root = NULL

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.release()

    cdef const Root* _held(self) except NULL:
        if self._root == NULL:
            raise ValueError("released")
        return self._root

    @property
    def revision(self):
        """Revision of the state seen."""
        return root_revision(self._held())

    @property
    def count(self):
        """Live keys."""
        return root_count(self._held())

    @property
    def hash(self):
        """128-bit state hash."""
        return _number(self._held().hash)

    def get(self, bytes key):
        """The record of key, tombstones too, or None."""
        return _record(root_find(self._held(), key, <uint16_t>len(key)))

    def get_at(self, bytes key, uint64_t revision):
        """The version of key that was the newest at revision, from the chain, or None."""
        return _record(entry_at(root_find(self._held(), key, <uint16_t>len(key)), revision))

    def versions(self, bytes key):
        """All versions of key that the chain still has, newest first."""
        cdef const Entry* entry = root_find(self._held(), key, <uint16_t>len(key))
        found = []
        while entry != NULL:
            found.append(_record(entry))
            entry = entry_previous(entry)
        return found

    def range(self, bytes start=b"", uint64_t limit=0xFFFFFFFF):
        """Up to limit records from start on, in key order, tombstones too."""
        cdef Cursor cursor
        found = []
        cursor_seek(&cursor, self._held(), start, <uint16_t>len(start))
        while cursor.entry != NULL and limit:
            found.append(_record(cursor.entry))
            limit -= 1
            cursor_next(&cursor)
        return found

    def scan(self):
        """Walk all entries natively and return how many there are."""
        cdef const Root* root = self._held()
        cdef Cursor cursor
        cdef uint64_t count = 0
        with nogil:
            cursor_seek(&cursor, root, NULL, 0)
            while cursor.entry != NULL:
                count += 1
                cursor_next(&cursor)
        return count

    def verify(self):
        """Check order, hashes, count and state hash of the root, natively."""
        cdef const Root* root = self._held()
        cdef status_t status
        with nogil:
            status = _verify(root)
        _check(status)

    def difference(self, PinnedRoot newer, bytes start=b"", size_t changed_max=0xFFFFFFFF):
        """([(older record, newer record), ...], more) of keys >= start that differ."""
        cdef Vec[Difference] changed
        cdef const Root* left = self._held()
        cdef const Root* right = newer._held()
        cdef bint more = False
        cdef status_t status
        cdef size_t position
        memset(&changed, 0, sizeof(changed))
        status = root_difference(left, right, &changed, changed_max, start, <uint16_t>len(start), &more)
        found = []
        for position in range(changed.size):
            found.append((_record(changed.data[position].older), _record(changed.data[position].newer)))
        changed.release()
        _check(status)
        return found, more


cdef class TreeHandle:
    """A state tree of its own: fanout children a node, at most bytes_max bytes in use.

    prepares: the next piece of memory is touched ahead, by a thread.
    """
    cdef Tree* _tree
    cdef PieceStore _pieces

    def __cinit__(self, *, uint16_t fanout=64, uint64_t bytes_max=0xFFFFFFFFFFFFFFFF, bint prepares=False):
        memset(&self._pieces, 0, sizeof(self._pieces))
        self._tree = tree_create_with(fanout, bytes_max)
        if self._tree == NULL or (prepares and not self._pieces.start()):
            raise MemoryError("no tree")
        if prepares:
            self._tree.slab.store = &self._pieces

    def __dealloc__(self):
        self._pieces.close()
        if self._tree != NULL:
            tree_destroy(self._tree)

    @property
    def broken(self):
        """The first belief that proved wrong, and its two numbers; 0: none."""
        return self._tree.broken.what, self._tree.broken.a, self._tree.broken.b

    def put(self, bytes key, bytes value, *, uint64_t revision, uint64_t lease=0):
        """Put a new version of key."""
        cdef const Entry* older = tree_find(self._tree, key, <uint16_t>len(key))
        _check(_change(self._tree, older, key, <uint16_t>len(key), value, <uint32_t>len(value), revision, lease, 0, 0))

    def delete(self, bytes key, *, uint64_t revision):
        """Put a tombstone in the place of key."""
        cdef const Entry* older = tree_find(self._tree, key, <uint16_t>len(key))
        _check(_change(self._tree, older, key, <uint16_t>len(key), NULL, 0, revision, 0, ENTRY_TOMBSTONE, 0))

    def remove(self, bytes key):
        """Take the tombstone of key out of the tree."""
        _check(tree_remove(self._tree, key, <uint16_t>len(key)))

    def cut(self, bytes key, uint64_t floor):
        """End the chain of key at its newest version at or below floor."""
        tree_cut_chain(self._tree, tree_find(self._tree, key, <uint16_t>len(key)), floor)

    def find(self, bytes key):
        """The newest record of key in the writer's view, or None."""
        return _record(tree_find(self._tree, key, <uint16_t>len(key)))

    def get(self, bytes key):
        """The published value of key, or None: the short read."""
        cdef const Entry* entry = root_find(tree_enter(self._tree), key, <uint16_t>len(key))
        value = None
        if entry != NULL and not entry.flags & ENTRY_TOMBSTONE:
            value = (<const char*>entry_value(entry))[:entry.value_length]
        tree_leave(self._tree)
        return value

    def publish(self, uint64_t revision):
        """Make all changes visible to readers."""
        _check(tree_publish(self._tree, revision))

    def reclaim(self, uint32_t objects_max=0xFFFFFFFF):
        """Free what no reader can see."""
        tree_reclaim(self._tree, objects_max)

    def pin(self):
        """The newest published root, held until release()."""
        cdef PinnedRoot pinned = PinnedRoot.__new__(PinnedRoot)
        pinned._owner = self
        with nogil:
            pinned._root = tree_pin(self._tree)
        return pinned

    def stop_in_short_read(self):
        """Enter and stay there, as a reader does that is preempted. leave_short_read() ends it."""
        tree_enter(self._tree)

    def leave_short_read(self):
        """End what stop_in_short_read() began."""
        tree_leave(self._tree)

    def stop_in_pin(self, uint32_t slot):
        """Name the newest root in a slot and stay there, as a thread does that is preempted in tree_pin."""
        self._tree.pinning[slot] = self._tree.published

    def leave_pin(self, uint32_t slot):
        """End what stop_in_pin() began, without a pin."""
        self._tree.pinning[slot] = NULL

    def load(self, rows, uint64_t revision):
        """Load ascending (key, value, create_revision, mod_revision, version, lease, flags) into an empty tree."""
        cdef bytes key, value
        cdef Entry* entry
        _check(tree_load_begin(self._tree))
        for key, value, create_revision, mod_revision, version, lease, flags in rows:
            entry = tree_new_entry(self._tree, key, <uint16_t>len(key), value, <uint32_t>len(value), create_revision,
                                   mod_revision, version, lease, flags)
            _check(NO_MEMORY if entry == NULL else tree_load(self._tree, entry))
        _check(tree_load_end(self._tree, revision))

    def run_rounds(self, uint64_t rounds, *, uint32_t batch, uint64_t keys, uint32_t value_length=64,
                   uint32_t delete_share=0, uint64_t history=0, uint64_t seed=1):
        """Write rounds of random keys natively, each published; chains end `history` revisions back.
        delete_share: percent of the changes that delete. Returns the seed for the next call."""
        cdef status_t status = OK
        cdef Tree* tree = self._tree
        if value_length > ROUND_VALUE_MAX:
            raise ValueError("value_length")
        with nogil:
            while rounds and status == OK:
                rounds -= 1
                status = _round(tree, batch, keys, value_length, delete_share, history, &seed)
        _check(status)
        return seed

    def load_rounds(self, uint64_t keys, uint32_t value_length=64):
        """Bulk load the keys that run_rounds draws from, natively."""
        cdef uint8_t key[ROUND_KEY_LENGTH]
        cdef uint8_t value[ROUND_VALUE_MAX]
        cdef uint64_t number
        cdef status_t status
        cdef Entry* entry
        if value_length > ROUND_VALUE_MAX:
            raise ValueError("value_length")
        memset(value, 0, value_length)
        with nogil:
            status = tree_load_begin(self._tree)
            for number in range(keys):
                if status != OK:
                    break
                _round_key(key, number)
                entry = tree_new_entry(self._tree, key, ROUND_KEY_LENGTH, value, value_length, 1, 1, 1, 0, 0)
                status = NO_MEMORY if entry == NULL else tree_load(self._tree, entry)
            if status == OK:
                status = tree_load_end(self._tree, 1)
        _check(status)

    @property
    def count(self):
        """Live keys in the writer's view."""
        return tree_count(self._tree)

    @property
    def hash(self):
        """128-bit state hash in the writer's view."""
        return _number(tree_hash(self._tree))

    @property
    def used_bytes(self):
        """Bytes in use."""
        return self._tree.slab.used_bytes

    @property
    def has_piece_ready(self):
        """Whether the next piece of memory lies ready."""
        return load_acquire(&self._pieces.ready) != NULL

    @property
    def retained_bytes(self):
        """Bytes taken from the system."""
        return tree_bytes(self._tree)
