# Keys below a prefix: a request gets the prefix in all its keys, and an answer loses it.
#
# The schema says which fields are keys, so handlers see keys of the node and know of no prefix. Rights, quotas and the
# audit trail speak of keys of the node, too. Nothing here is called for a door without a prefix.
from libc.stdint cimport uint8_t, uint16_t

from raftmeta.doors.etcd.state cimport EtcdLimits
from raftmeta.native.containers cimport Vec
from raftmeta.wire.commands cimport Bytes

# A message that schema_check has passed, appended with other keys. False: no memory, and what was appended stands.
cdef bint prefix_put(const EtcdLimits* limits, uint16_t message, const Bytes* bytes, Vec[uint8_t]* out) noexcept nogil
cdef bint prefix_take(const EtcdLimits* limits, uint16_t message, const Bytes* bytes, Vec[uint8_t]* out) noexcept nogil
# Whether a key stands below the prefix.
cdef bint prefix_has(const EtcdLimits* limits, const Bytes* key) noexcept nogil
