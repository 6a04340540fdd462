# Znodes: keys that ZooKeeper's clients see as a tree with counters, rights and owners (docs/decisions/znodes.md).
#
# A znode is a key root + path with ENTRY_ZNODE. This module decides, at apply, what each operation of a request does.
# One request is one entry, all or nothing. A parent's counters change in the entry that makes or removes the child,
# also where a lease ends. Only this module makes, changes and removes znodes; native writes to them are refused
# (transactions.pyx).
#
# Invariants: every znode but the root has a parent, which is a znode; ZnodeMeta.children counts the direct children;
# nothing is below an ephemeral; mzxid, pzxid <= mod_revision; an ephemeral has the lease of its owner, a TTL node has a
# lease of the machine's, and a container has one while its last child is gone.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.machine.entry cimport Entry, ZnodeMeta
from raftmeta.machine.leases cimport Lease
from raftmeta.machine.state cimport Machine
from raftmeta.status cimport status_t
from raftmeta.wire.windows cimport Bytes
from raftmeta.wire.znodes cimport Identity, ZnodeStat

cdef enum:
    FORMAT_CONTAINER_MS = 60_000    # from the loss of a container's last child to its end: ZooKeeper's
                                    # znode.container.checkIntervalMs

# --- any thread, over entries of a pinned root ------------------------------------------------------------------------
cdef struct ZnodeView:
    Bytes data                  # length 0 with ZNODE_NULL_DATA: null
    Bytes acl                   # empty: everybody may do everything
    const ZnodeMeta* meta       # unaligned: read its fields, do not point at them
    const Entry* entry

# False: not live, or no znode.
cdef bint znode_view(const Entry* entry, ZnodeView* view) noexcept nogil
# Of a live znode.
cdef void znode_stat(const Entry* entry, ZnodeStat* stat) noexcept nogil
# Whether one of the identities may do this (ZnodePerms) by the list. Everybody may where the list is empty.
cdef bint znode_allows(const Bytes* acl, uint8_t perms, const Identity* identities, uint32_t count) noexcept nogil
# A tree has four znodes before its first request: "/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config". *stat is
# theirs until then. False: the path is none of them.
cdef bint znode_founded(const Bytes* path, ZnodeStat* stat) noexcept nogil

# --- the thread that applies ------------------------------------------------------------------------------------------
# Begin the request of machine.command (COMMAND_ZNODES). wall_ms: of the entry.
cdef status_t znodes_begin(Machine* machine, uint64_t index, uint64_t wall_ms) noexcept nogil
# Plan about keys_max more changes; *done when the plan is whole. The body of the answer stands in
# machine.transaction.body; that of a refusal too. OK, ZNODE_REFUSED, TOO_MANY_CHANGES, VALUE_TOO_LARGE, NO_MEMORY,
# INVARIANT_BROKEN.
cdef status_t znodes_step(Machine* machine, uint32_t keys_max, bint* done) noexcept nogil
# A lease takes the znode `key` with it: plan its removal, and its parent's counters. NO_MEMORY, INVARIANT_BROKEN.
cdef status_t znodes_plan_removed(Machine* machine, const Bytes* key) noexcept nogil
# The plan is whole and will be made: leases of containers and TTL nodes come, are renewed and end with it. index: of
# the entry. NO_MEMORY, INVARIANT_BROKEN.
cdef status_t znodes_settle(Machine* machine, uint64_t index) noexcept nogil
# Whether a lease that is due is renewed and does not end, for it is that of a TTL node with children.
cdef bint znodes_keep_lease(const Lease* lease) noexcept nogil
# Whether the bytes are the value of a znode, as a dump brings them.
cdef bint znode_is_sound(const uint8_t* value, uint32_t length, uint64_t mod_revision, uint64_t lease) noexcept nogil
