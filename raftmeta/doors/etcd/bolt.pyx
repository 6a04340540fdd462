"""Pages of a bbolt database: bodies."""

from libc.string cimport memset

cdef enum:
    FORMAT_VERSION = 2
    HEAD_BYTES = 16                 # of a page, of an element, and of a bucket's value
    META_BYTES = 64
    SUMMED_BYTES = 56               # of a meta: all before its checksum
    KIND_BRANCH = 0x01
    KIND_LEAF = 0x02
    KIND_META = 0x04
    KIND_FREE = 0x10
    FREE_PAGE = 2

cdef packed struct PageHead:
    uint64_t id
    uint16_t kind
    uint16_t count
    uint32_t overflow

cdef packed struct Meta:
    uint32_t magic
    uint32_t version
    uint32_t page_bytes
    uint32_t flags
    uint64_t root
    uint64_t sequence
    uint64_t free_page
    uint64_t pages
    uint64_t transaction
    uint64_t checksum

# `at`: from the element to its key; the value follows the key.
cdef packed struct LeafElement:
    uint32_t flags
    uint32_t at
    uint32_t key_length
    uint32_t value_length

cdef packed struct BranchElement:
    uint32_t at
    uint32_t key_length
    uint64_t page


# --- sizes ------------------------------------------------------------------------------------------------------------
cdef size_t bolt_with_row(size_t bytes, uint32_t key_length, size_t value_length) noexcept nogil:
    return max(bytes, <size_t>HEAD_BYTES) + HEAD_BYTES + key_length + value_length


cdef uint64_t bolt_pages(size_t bytes) noexcept nogil:
    return max(<uint64_t>1, (bytes + BOLT_PAGE_BYTES - 1) // BOLT_PAGE_BYTES)


cdef uint64_t bolt_branches(uint64_t pages) noexcept nogil:
    cdef uint64_t count = 0
    while pages > 1:
        pages = (pages + BOLT_BRANCHES - 1) // BOLT_BRANCHES
        count += pages
    return count


# --- the front --------------------------------------------------------------------------------------------------------
cdef inline uint64_t _magic() noexcept nogil:
    return 0xED0CDAED


# FNV-1a of 64 bits (draft-eastlake-fnv).
cdef uint64_t _sum(const uint8_t* bytes, size_t length) noexcept nogil:
    cdef uint64_t sum = <uint64_t>0xCBF29CE484222325
    cdef size_t i
    for i in range(length):
        sum = (sum ^ bytes[i]) * <uint64_t>0x100000001B3
    return sum


cdef bint _head(Vec[uint8_t]* out, uint64_t id, uint16_t kind, uint32_t count, uint64_t pages) noexcept nogil:
    cdef PageHead head
    head.id = id
    head.kind = kind
    head.count = <uint16_t>count
    head.overflow = <uint32_t>(pages - 1)
    return out.append(<const uint8_t*>&head, sizeof(head))


# Zeros up to the end of the page that began at `start`.
cdef bint _fill(Vec[uint8_t]* out, size_t start) noexcept nogil:
    cdef size_t from_here = out.size
    if not out.resize(start + bolt_pages(from_here - start) * BOLT_PAGE_BYTES):
        return False
    memset(out.data + from_here, 0, out.size - from_here)
    return True


cdef bint bolt_front(Vec[uint8_t]* out, uint64_t root, uint64_t pages) noexcept nogil:
    cdef Meta meta
    cdef size_t start
    cdef uint64_t number
    for number in range(2):
        start = out.size
        memset(&meta, 0, sizeof(meta))
        meta.magic = <uint32_t>_magic()
        meta.version = FORMAT_VERSION
        meta.page_bytes = BOLT_PAGE_BYTES
        meta.root = root
        meta.free_page = FREE_PAGE
        meta.pages = pages
        meta.transaction = number
        meta.checksum = _sum(<const uint8_t*>&meta, SUMMED_BYTES)
        if (not _head(out, number, KIND_META, 0, 1) or not out.append(<const uint8_t*>&meta, META_BYTES)
                or not _fill(out, start)):
            return False
    start = out.size
    return _head(out, FREE_PAGE, KIND_FREE, 0, 1) and _fill(out, start)


# --- leaves -----------------------------------------------------------------------------------------------------------
cdef bint bolt_row_begin(BoltLeaf* leaf, uint32_t flags, const uint8_t* key, uint32_t key_length) noexcept nogil:
    cdef LeafElement element
    element.flags = flags
    element.at = <uint32_t>leaf.data.size           # from the first byte of all data, until the page is written
    element.key_length = key_length
    element.value_length = 0
    if not leaf.elements.append(<const uint8_t*>&element, HEAD_BYTES) or not leaf.data.append(key, key_length):
        return False
    leaf.count += 1
    return True


cdef void bolt_row_end(BoltLeaf* leaf) noexcept nogil:
    cdef LeafElement* element = <LeafElement*>(leaf.elements.data + leaf.elements.size - HEAD_BYTES)
    element.value_length = <uint32_t>leaf.data.size - element.at - element.key_length


cdef bint bolt_row(BoltLeaf* leaf, uint32_t flags, const Bytes* key, const Bytes* value) noexcept nogil:
    if (not bolt_row_begin(leaf, flags, key.data, key.length)
            or (value.length and not leaf.data.append(value.data, value.length))):
        return False
    bolt_row_end(leaf)
    return True


# Elements, then data.
cdef bint _put_rows(Vec[uint8_t]* out, BoltLeaf* leaf) noexcept nogil:
    cdef LeafElement* elements = <LeafElement*>leaf.elements.data
    cdef uint32_t i
    for i in range(leaf.count):
        elements[i].at += (leaf.count - i) * HEAD_BYTES
    return ((leaf.count == 0 or out.append(leaf.elements.data, leaf.elements.size))
            and (leaf.data.size == 0 or out.append(leaf.data.data, leaf.data.size)))


cdef void _clear(BoltLeaf* leaf) noexcept nogil:
    leaf.elements.clear()
    leaf.data.clear()
    leaf.count = 0


cdef bint bolt_leaf(Vec[uint8_t]* out, BoltLeaf* leaf, uint64_t page) noexcept nogil:
    cdef size_t start = out.size
    cdef uint64_t pages = bolt_pages(HEAD_BYTES + leaf.elements.size + leaf.data.size)
    cdef bint is_made = (_head(out, page, KIND_LEAF, leaf.count, pages) and _put_rows(out, leaf)
                         and _fill(out, start))
    _clear(leaf)
    return is_made


cdef bint bolt_bucket(Vec[uint8_t]* out, uint64_t root) noexcept nogil:
    cdef uint64_t sequence = 0
    return (out.append(<const uint8_t*>&root, sizeof(root))
            and out.append(<const uint8_t*>&sequence, sizeof(sequence)))


cdef bint bolt_inline(Vec[uint8_t]* out, BoltLeaf* leaf) noexcept nogil:
    cdef bint is_made = (bolt_bucket(out, 0) and _head(out, 0, KIND_LEAF, leaf.count, 1) and _put_rows(out, leaf))
    _clear(leaf)
    return is_made


# --- branches ---------------------------------------------------------------------------------------------------------
cdef bint bolt_branch(Vec[uint8_t]* out, const BoltChild* children, uint32_t count, uint64_t page) noexcept nogil:
    cdef BranchElement element
    cdef size_t start = out.size
    cdef uint32_t behind = 0        # bytes of keys before this one's
    cdef uint32_t i
    if not _head(out, page, KIND_BRANCH, count, 1):
        return False
    for i in range(count):
        element.at = (count - i) * HEAD_BYTES + behind
        element.key_length = children[i].key_length
        element.page = children[i].page
        behind += children[i].key_length
        if not out.append(<const uint8_t*>&element, HEAD_BYTES):
            return False
    for i in range(count):
        if not out.append(children[i].key, children[i].key_length):
            return False
    return _fill(out, start)


cdef void bolt_release(BoltLeaf* leaf) noexcept nogil:
    leaf.elements.release()
    leaf.data.release()
