"""Watches of ZooKeeper clients: bodies.

Two tables lead to a watch: by its path, for events, and by its connection and path, for requests. So neither many
watchers of one path nor many paths of one connection make a request slow.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy, memset

from raftmeta.native.atomics cimport add_shared, subtract_shared
from raftmeta.native.intrinsics cimport hash64
from raftmeta.status cimport NO_MEMORY, OK, OVERLOADED

cdef enum:
    ONE_SHOT = HEARS_DATA | HEARS_CHILDREN


cdef void watch_table_init(ZkWatchTable* table, uint64_t count_max) noexcept nogil:
    memset(table, 0, sizeof(ZkWatchTable))
    table.count_max = count_max


cdef void watch_table_release(ZkWatchTable* table) noexcept nogil:
    table.by_path.release()
    table.by_pair.release()


# --- finding ----------------------------------------------------------------------------------------------------------
cdef inline uint64_t _pair_of(uint64_t path_hash, uint32_t place) noexcept nogil:
    return hash64(path_hash, &place, sizeof(place))


cdef inline bint _is_path(const ZkWatched* watched, const Bytes* path) noexcept nogil:
    return watched.length == path.length and memcmp(watched_path(watched), path.data, path.length) == 0


cdef ZkWatched* _find_path(ZkWatchTable* table, const Bytes* path, uint64_t hash) noexcept nogil:
    cdef ZkWatched** found = table.by_path.find(hash)
    cdef ZkWatched* watched = found[0] if found != NULL else NULL
    while watched != NULL and not _is_path(watched, path):
        watched = watched.next
    return watched


cdef ZkWatch* _find(ZkWatchTable* table, uint32_t place, const Bytes* path) noexcept nogil:
    cdef ZkWatch** found = table.by_pair.find(_pair_of(hash64(0, path.data, path.length), place))
    cdef ZkWatch* watch = found[0] if found != NULL else NULL
    while watch != NULL and not (watch.place == place and _is_path(watch.path, path)):
        watch = watch.next_pair
    return watch


cdef uint8_t watch_table_modes(ZkWatchTable* table, uint32_t place, const Bytes* path) noexcept nogil:
    cdef const ZkWatch* watch = _find(table, place, path)
    return watch.modes if watch != NULL else 0


# --- adding -----------------------------------------------------------------------------------------------------------
cdef ZkWatched* _path(ZkWatchTable* table, const Bytes* path) noexcept nogil:
    cdef uint64_t hash = hash64(0, path.data, path.length)
    cdef ZkWatched* watched = _find_path(table, path, hash)
    cdef ZkWatched** slot
    if watched != NULL:
        return watched
    watched = <ZkWatched*>calloc(1, sizeof(ZkWatched) + path.length)
    slot = table.by_path.insert(hash) if watched != NULL else NULL
    if slot == NULL:
        free(watched)
        return NULL
    memcpy(<uint8_t*>watched + sizeof(ZkWatched), path.data, path.length)
    watched.length = path.length
    watched.hash = hash
    watched.next = slot[0]
    slot[0] = watched
    table.paths += 1
    return watched


cdef void _forget_path(ZkWatchTable* table, ZkWatched* watched) noexcept nogil:
    cdef ZkWatched** at = table.by_path.find(watched.hash)
    if at[0] == watched and watched.next == NULL:
        table.by_path.erase(watched.hash)
    else:
        while at[0] != watched:
            at = &at[0].next
        at[0] = watched.next
    table.paths -= 1
    free(watched)


cdef inline void _count(ZkWatchList* own, int by) noexcept nogil:
    own.count += by
    if own.also != NULL:
        add_shared(own.also, <uint32_t>by)      # by may be negative: words wrap


cdef ZkWatch* _create(ZkWatchTable* table, ZkWatchList* own, uint32_t place, const Bytes* path) noexcept nogil:
    cdef ZkWatched* watched = _path(table, path)
    cdef ZkWatch* watch = <ZkWatch*>calloc(1, sizeof(ZkWatch)) if watched != NULL else NULL
    cdef ZkWatch** slot = table.by_pair.insert(_pair_of(watched.hash, place)) if watch != NULL else NULL
    if slot == NULL:
        free(watch)
        if watched != NULL and watched.first == NULL:
            _forget_path(table, watched)
        return NULL
    watch.next_pair = slot[0]
    slot[0] = watch
    watch.place = place
    watch.path = watched
    watch.next_here = watched.first
    if watched.first != NULL:
        watched.first.previous_here = watch
    watched.first = watch
    watch.own = own
    watch.next_own = own.first
    if own.first != NULL:
        own.first.previous_own = watch
    own.first = watch
    return watch


cdef status_t watch_table_add(ZkWatchTable* table, ZkWatchList* own, uint32_t place, const Bytes* path,
                              uint8_t mode) noexcept nogil:
    cdef ZkWatch* watch = _find(table, place, path)
    if watch != NULL and watch.modes & mode:
        return OK
    if table.count >= table.count_max:
        return OVERLOADED
    if watch == NULL:
        watch = _create(table, own, place, path)
    if watch == NULL:
        return NO_MEMORY
    watch.modes |= mode
    table.count += 1
    _count(own, 1)
    table.recursive += mode == HEARS_BELOW
    return OK


# --- taking away ------------------------------------------------------------------------------------------------------
cdef void _unlink_pair(ZkWatchTable* table, ZkWatch* watch) noexcept nogil:
    cdef uint64_t pair = _pair_of(watch.path.hash, watch.place)
    cdef ZkWatch** at = table.by_pair.find(pair)
    if at[0] == watch and watch.next_pair == NULL:
        table.by_pair.erase(pair)
        return
    while at[0] != watch:
        at = &at[0].next_pair
    at[0] = watch.next_pair


cdef void _destroy(ZkWatchTable* table, ZkWatch* watch) noexcept nogil:
    cdef ZkWatched* watched = watch.path
    _unlink_pair(table, watch)
    if watch.previous_here != NULL:
        watch.previous_here.next_here = watch.next_here
    else:
        watched.first = watch.next_here
    if watch.next_here != NULL:
        watch.next_here.previous_here = watch.previous_here
    if watch.previous_own != NULL:
        watch.previous_own.next_own = watch.next_own
    else:
        watch.own.first = watch.next_own
    if watch.next_own != NULL:
        watch.next_own.previous_own = watch.previous_own
    free(watch)
    if watched.first == NULL:
        _forget_path(table, watched)


cdef void _take(ZkWatchTable* table, ZkWatch* watch, uint8_t modes) noexcept nogil:
    cdef uint8_t gone = watch.modes & modes
    cdef uint8_t mode = 1
    while mode <= HEARS_BELOW:
        if gone & mode:
            table.count -= 1
            _count(watch.own, -1)
        mode <<= 1
    table.recursive -= (gone & HEARS_BELOW) != 0
    watch.modes &= ~modes
    if watch.modes == 0:
        _destroy(table, watch)


cdef void watch_table_remove(ZkWatchTable* table, uint32_t place, const Bytes* path, uint8_t modes) noexcept nogil:
    cdef ZkWatch* watch = _find(table, place, path)
    if watch != NULL:
        _take(table, watch, modes)


cdef void watch_table_drop(ZkWatchTable* table, ZkWatchList* own) noexcept nogil:
    while own.first != NULL:
        _take(table, own.first, HEARS_ANY)


cdef void watch_list_count(ZkWatchList* own, uint32_t* also) noexcept nogil:
    if own.also != NULL:
        subtract_shared(own.also, own.count)
    own.also = also
    if also != NULL:
        add_shared(also, own.count)


# --- events -----------------------------------------------------------------------------------------------------------
# The path of the node above; the root has none: its length is 0.
cdef Bytes _above(const Bytes* path) noexcept nogil:
    cdef Bytes parent = path[0]
    if path.length <= 1:
        parent.length = 0
        return parent
    while parent.length and parent.data[parent.length - 1] != c'/':
        parent.length -= 1
    if parent.length > 1:
        parent.length -= 1      # the slash belongs to the root alone
    return parent


# Those at one path in one of the modes.
cdef bint _collect(ZkWatchTable* table, const Bytes* path, uint8_t modes, Vec[uint32_t]* places) noexcept nogil:
    cdef const ZkWatched* watched = _find_path(table, path, hash64(0, path.data, path.length))
    cdef const ZkWatch* watch = watched.first if watched != NULL else NULL
    while watch != NULL:
        if watch.modes & modes and not places.push(watch.place):
            return False
        watch = watch.next_here
    return True


cdef void _spend(ZkWatchTable* table, const Bytes* path, uint8_t spent) noexcept nogil:
    cdef ZkWatched* watched = _find_path(table, path, hash64(0, path.data, path.length))
    cdef ZkWatch* watch = watched.first if watched != NULL else NULL
    cdef ZkWatch* next
    while watch != NULL:        # the last one takes its path along
        next = watch.next_here
        _take(table, watch, spent)
        watch = next


cdef bint watch_table_fire(ZkWatchTable* table, const Bytes* path, uint8_t modes, uint8_t spent,
                           Vec[uint32_t]* places) noexcept nogil:
    cdef Bytes above
    if not _collect(table, path, modes, places):
        return False
    if modes & HEARS_BELOW and table.recursive:
        above = _above(path)
        while above.length:
            if not _collect(table, &above, HEARS_BELOW, places):
                return False
            above = _above(&above)
    if spent & ONE_SHOT:
        _spend(table, path, spent & ONE_SHOT)
    return True


cdef bint _has(ZkWatchTable* table, const Bytes* path, uint8_t modes) noexcept nogil:
    cdef const ZkWatched* watched = _find_path(table, path, hash64(0, path.data, path.length))
    cdef const ZkWatch* watch = watched.first if watched != NULL else NULL
    while watch != NULL:
        if watch.modes & modes:
            return True
        watch = watch.next_here
    return False


cdef bint watch_table_is_watched(ZkWatchTable* table, const Bytes* path, uint8_t modes) noexcept nogil:
    cdef Bytes above
    if _has(table, path, modes):
        return True
    if not modes & HEARS_BELOW or not table.recursive:
        return False
    above = _above(path)
    while above.length:
        if _has(table, &above, HEARS_BELOW):
            return True
        above = _above(&above)
    return False
