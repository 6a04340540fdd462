# Which live records stand where, by runs; the arithmetic behind "a lower index supersedes". No file is touched.
from libc.stdint cimport uint64_t

from raftmeta.native.containers cimport Vec
from raftmeta.raft.types cimport index_t
from raftmeta.status cimport status_t
from raftmeta.storage.wal_state cimport Extent, Wal, WalDamage

# Records from `first` on are superseded.
cdef void extents_cut(Vec[Extent]* extents, Vec[WalDamage]* damaged, index_t first) noexcept nogil
# Records up to `last` are compacted.
cdef void extents_forget(Vec[Extent]* extents, Vec[WalDamage]* damaged, index_t last) noexcept nogil
# A run behind all others, joined to the last one when it continues it.
cdef status_t extents_append(Vec[Extent]* extents, const Extent* extent) noexcept nogil
# A run that takes the place of what stood at its indexes, sound or damaged.
cdef status_t extents_replace(Vec[Extent]* extents, Vec[WalDamage]* damaged, const Extent* extent) noexcept nogil
# Position of the extent that holds index; extents.size: none.
cdef size_t extents_find(const Vec[Extent]* extents, index_t index) noexcept nogil
# The belief about the runs of an opened log: each live record is in one run, or known to be damaged.
cdef status_t extents_check(Wal* wal) noexcept nogil
cdef status_t damage_add(Vec[WalDamage]* damaged, index_t index, uint64_t chain) noexcept nogil
