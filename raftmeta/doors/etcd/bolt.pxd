# Pages of a bbolt database, which is the file that etcd's snapshots are: leaves: bytes in, bytes out.
#
# A file is written from its first page to its last, and never read. All numbers are little-endian. Pages have
# BOLT_PAGE_BYTES; one that is larger takes the pages behind it (overflow). docs/formats.md "Snapshots of the etcd door"
# has the layout. Source: bbolt internal/common page.go, meta.go, inode.go, bucket.go.
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

from raftmeta.native.containers cimport Vec
from raftmeta.wire.commands cimport Bytes

cdef enum:
    BOLT_PAGE_BYTES = 4096
    BOLT_KEY_BYTES_MAX = 18         # of rows in trees of pages; the rows of the root page may have longer ones
    BOLT_BRANCHES = 120             # children of a branch page: as many as have room, with the longest keys
    BOLT_FIRST_PAGE = 3             # behind two metas and the list of free pages
    BOLT_ROW = 0                    # flags of a row
    BOLT_BUCKET = 1                 # ... its value is a bucket

# Rows that become one page. Their bytes wait here, in order of their keys.
cdef struct BoltLeaf:
    Vec[uint8_t] elements
    Vec[uint8_t] data
    uint32_t count

# A page as the page above names it: by its first key.
cdef struct BoltChild:
    uint64_t page
    uint8_t[BOLT_KEY_BYTES_MAX] key
    uint8_t key_length

# Bytes of a leaf page with one more row than `bytes` has; `bytes` 0: with its first.
cdef size_t bolt_with_row(size_t bytes, uint32_t key_length, size_t value_length) noexcept nogil
# Pages that a page of so many bytes takes.
cdef uint64_t bolt_pages(size_t bytes) noexcept nogil
# Branch pages above so many pages.
cdef uint64_t bolt_branches(uint64_t pages) noexcept nogil

# --- writing; False: no memory ----------------------------------------------------------------------------------------
# The three pages at the front. root: page of the root bucket; pages: of the whole file.
cdef bint bolt_front(Vec[uint8_t]* out, uint64_t root, uint64_t pages) noexcept nogil
# A row whose value is what will be appended to leaf.data before bolt_row_end.
cdef bint bolt_row_begin(BoltLeaf* leaf, uint32_t flags, const uint8_t* key, uint32_t key_length) noexcept nogil
cdef void bolt_row_end(BoltLeaf* leaf) noexcept nogil
cdef bint bolt_row(BoltLeaf* leaf, uint32_t flags, const Bytes* key, const Bytes* value) noexcept nogil
# The page of these rows; the leaf is empty then.
cdef bint bolt_leaf(Vec[uint8_t]* out, BoltLeaf* leaf, uint64_t page) noexcept nogil
# A bucket with a tree of its own, or one whose only page stands in its row: with the rows of `leaf`, as a value.
cdef bint bolt_bucket(Vec[uint8_t]* out, uint64_t root) noexcept nogil
cdef bint bolt_inline(Vec[uint8_t]* out, BoltLeaf* leaf) noexcept nogil
cdef bint bolt_branch(Vec[uint8_t]* out, const BoltChild* children, uint32_t count, uint64_t page) noexcept nogil
cdef void bolt_release(BoltLeaf* leaf) noexcept nogil
