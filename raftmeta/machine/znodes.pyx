"""Znodes: bodies.

An operation first looks (_look) at its znode and the parent, as the operations before it left them, and is refused or
not; then it plans. Only what it changes is touched, because what is touched is a change. Checks stand in the order of
ZooKeeper's PrepRequestProcessor (3.9, pRequest2Txn and pRequest2TxnCreate), so that of several reasons the same one is
told.

Leases of the machine's own follow from the plan as a whole (znodes_settle). A write of its data and the loss of its
last child renew a TTL node. A container has a lease while it has had children and has none.
"""
from libc.stdint cimport int32_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy, memset

from raftmeta.machine.deadlines cimport deadline_after
from raftmeta.machine.entry cimport (ENTRY_ZNODE, ZNODE_FOUNDED, ZNODE_META_BYTES, ZNODE_NULL_DATA, entry_data_length,
                                     entry_meta)
from raftmeta.machine.invariants cimport BROKEN_ZNODE_LEASE, BROKEN_ZNODE_PARENT
from raftmeta.machine.leases cimport lease_is_own, leases_find, leases_grant, leases_renew, leases_reserve
from raftmeta.machine.plan cimport (Plan, Planned, PlannedZnode, is_live, plan_delete, plan_find, plan_put, plan_touch,
                                    plan_znode, planned_is_live)
from raftmeta.machine.transactions cimport FORMAT_RESULT_BYTES_MAX
from raftmeta.machine.tree cimport entry_value, tree_find
from raftmeta.native.containers cimport Vec
from raftmeta.native.intrinsics cimport next_random
from raftmeta.native.invariants cimport broken
from raftmeta.native.marks cimport (MARK_ZNODE_REQUEST_TAKEN_BACK, MARK_ZNODE_TIME_BEGINS, MARK_ZNODE_TIME_ENDS,
                                    MARK_ZNODE_TREE_FOUNDED, MARK_ZNODE_TREE_IN_THE_WAY, MARK_ZNODE_WENT_WITH_LEASE,
                                    mark)
from raftmeta.status cimport NO_MEMORY, OK, VALUE_TOO_LARGE, ZNODE_REFUSED
from raftmeta.wire.commands cimport (CHANGES_MAX, Command, result_array, result_bytes, result_nil, result_number,
                                     result_unsigned)
from raftmeta.wire.windows cimport KEY_BYTES_MAX
from raftmeta.wire.znodes cimport (PERM_ADMIN, PERM_CREATE, PERM_DELETE, PERM_READ, PERM_WRITE, ZNODE_BAD_ARGUMENTS,
                                   ZNODE_BAD_VERSION, ZNODE_CONTAINER, ZNODE_CREATE, ZNODE_DELETE,
                                   ZNODE_EPHEMERAL, ZNODE_INVALID_ACL, ZNODE_KIND_END, ZNODE_NO_AUTH,
                                   ZNODE_NO_CHILDREN_FOR_EPHEMERALS, ZNODE_NO_NODE, ZNODE_NODE_EXISTS, ZNODE_NOT_EMPTY,
                                   ZNODE_OK, ZNODE_PERSISTENT, ZNODE_SESSION_EXPIRED, ZNODE_SET_ACL, ZNODE_SET_DATA,
                                   ZNODE_TTL, ZNODE_WIDTH_MAX, ZnodeOp, znode_acl_allows, znode_acl_check,
                                   znode_acl_is_open, znode_parent_length, znode_path_check)

cdef enum:
    # Instead of a tree there are plain keys: ZooKeeper's DATAINCONSISTENCY, which no other refusal has.
    ZNODE_TREE_BLOCKED = -3
    FOUNDED_COUNT = 4
    PATH_BYTES_MAX = 17                     # of a founded znode
    NUMBER_BYTES_MAX = ZNODE_WIDTH_MAX      # of a sequence number

# EphemeralType of 3.9: how ZooKeeper tells containers and TTL nodes in the field of an ephemeral's owner.
cdef inline uint64_t _owner_of_container() noexcept nogil:
    return <uint64_t>1 << 63

cdef inline uint64_t _ttl_max() noexcept nogil:
    return (<uint64_t>1 << 40) - 1

cdef inline uint64_t _owner_of_ttl(uint64_t ttl_ms) noexcept nogil:
    return <uint64_t>0xff << 56 | ttl_ms


# --- the tree before its first request --------------------------------------------------------------------------------
cdef struct Founded:
    const char* path
    uint32_t length
    uint32_t children
    bint is_read_only                   # /zookeeper/config: READ_ACL_UNSAFE (DataTree.addConfigNode)

cdef inline Founded _as_founded(const char* path, uint32_t length, uint32_t children,
                                bint is_read_only) noexcept nogil:
    cdef Founded founded
    founded.path = path
    founded.length = length
    founded.children = children
    founded.is_read_only = is_read_only
    return founded

cdef inline Founded _founded(uint32_t number) noexcept nogil:
    if number == 0:
        return _as_founded(b"/", 1, 1, False)
    if number == 1:
        return _as_founded(b"/zookeeper", 10, 2, False)
    if number == 2:
        return _as_founded(b"/zookeeper/quota", 16, 0, False)
    return _as_founded(b"/zookeeper/config", PATH_BYTES_MAX, 0, True)

cdef inline int _number_of_founded(const uint8_t* path, uint32_t length) noexcept nogil:
    cdef Founded founded
    cdef int number
    for number in range(FOUNDED_COUNT):
        founded = _founded(<uint32_t>number)
        if length == founded.length and memcmp(path, founded.path, length) == 0:
            return number
    return -1

# Children that nobody created are not counted as created (DataTree: cversion -1 of "/").
cdef void _founded_meta(const Founded* founded, ZnodeMeta* meta) noexcept nogil:
    memset(meta, 0, sizeof(ZnodeMeta))
    meta.children = founded.children
    meta.aversion = -1 if founded.is_read_only else 0
    meta.flags = ZNODE_FOUNDED

# [[READ, "world", "anyone"]]
cdef inline Bytes _read_only() noexcept nogil:
    cdef Bytes acl
    acl.data = <const uint8_t*>b"\x91\x93\x01\xc4\x05world\xc4\x06anyone"
    acl.length = 18
    return acl

cdef bint znode_founded(const Bytes* path, ZnodeStat* stat) noexcept nogil:
    cdef int number = _number_of_founded(path.data, path.length)
    cdef Founded founded
    cdef ZnodeMeta meta
    if number < 0:
        return False
    founded = _founded(<uint32_t>number)
    _founded_meta(&founded, &meta)
    _fill_stat(&meta, 0, 0, 0, stat)
    return True


# --- readers ----------------------------------------------------------------------------------------------------------
cdef void _fill_stat(const ZnodeMeta* meta, uint64_t create_revision, uint64_t lease, uint32_t data_length,
                     ZnodeStat* stat) noexcept nogil:
    stat.czxid = 0 if meta.flags & ZNODE_FOUNDED else create_revision
    stat.mzxid = meta.mzxid
    stat.ctime_ms = meta.ctime_ms
    stat.mtime_ms = meta.mtime_ms
    stat.version = meta.version
    stat.cversion = <int32_t>(2 * meta.creates - meta.children)
    stat.aversion = meta.aversion
    stat.owner = 0
    if meta.kind == ZNODE_EPHEMERAL:
        stat.owner = lease
    elif meta.kind == ZNODE_CONTAINER:
        stat.owner = _owner_of_container()
    elif meta.kind == ZNODE_TTL:
        stat.owner = _owner_of_ttl(meta.ttl_ms)
    stat.data_length = <int32_t>data_length
    stat.children = <int32_t>meta.children
    stat.pzxid = meta.pzxid

cdef bint znode_view(const Entry* entry, ZnodeView* view) noexcept nogil:
    if not is_live(entry) or not entry.flags & ENTRY_ZNODE:
        return False
    view.entry = entry
    view.meta = entry_meta(entry)
    view.data.data = entry_value(entry)
    view.data.length = entry_data_length(entry)
    view.acl.data = view.data.data + view.data.length
    view.acl.length = view.meta.acl_length
    return True

cdef void znode_stat(const Entry* entry, ZnodeStat* stat) noexcept nogil:
    cdef ZnodeMeta meta = entry_meta(entry)[0]
    _fill_stat(&meta, entry.create_revision, entry.lease, entry_data_length(entry), stat)

cdef bint znode_allows(const Bytes* acl, uint8_t perms, const Identity* identities, uint32_t count) noexcept nogil:
    return znode_acl_allows(acl, perms, identities, count)

cdef bint znode_is_sound(const uint8_t* value, uint32_t length, uint64_t mod_revision, uint64_t lease) noexcept nogil:
    cdef ZnodeMeta meta
    cdef Bytes acl
    if length < ZNODE_META_BYTES:
        return False
    memcpy(&meta, value + length - ZNODE_META_BYTES, ZNODE_META_BYTES)
    if meta.acl_length > length - ZNODE_META_BYTES or meta.zero or meta.kind >= ZNODE_KIND_END:
        return False
    if meta.flags & ~<uint8_t>(ZNODE_NULL_DATA | ZNODE_FOUNDED) or max(meta.mzxid, meta.pzxid) > mod_revision:
        return False
    if (meta.kind == ZNODE_TTL) != (meta.ttl_ms != 0) or meta.ttl_ms > _ttl_max():
        return False
    # A container has a lease while it is empty; a TTL node and an ephemeral always have one.
    if lease == 0 and meta.kind in (ZNODE_EPHEMERAL, ZNODE_TTL) or lease != 0 and meta.kind == ZNODE_PERSISTENT:
        return False
    if meta.kind == ZNODE_CONTAINER and (lease != 0) != (meta.creates != 0 and meta.children == 0):
        return False
    if meta.kind == ZNODE_EPHEMERAL and meta.children | meta.creates or meta.flags & ZNODE_NULL_DATA and (
            meta.acl_length + ZNODE_META_BYTES != length):
        return False
    acl.length = meta.acl_length
    acl.data = value + length - ZNODE_META_BYTES - acl.length
    return acl.length == 0 or znode_acl_check(&acl)


# --- what the request sees --------------------------------------------------------------------------------------------
# A key as the operations before left it.
cdef struct Look:
    bint exists                 # as a key of any kind
    bint is_znode
    Bytes acl
    ZnodeMeta meta

cdef void _look(Machine* machine, const Bytes* key, Look* look) noexcept nogil:
    cdef const Planned* planned = plan_find(&machine.plan, key)
    cdef const PlannedZnode* znode
    cdef const Entry* entry
    memset(look, 0, sizeof(Look))
    if planned != NULL and planned.znode != 0:
        look.exists = planned_is_live(planned)
        look.is_znode = look.exists
        znode = &machine.plan.znodes.data[planned.znode - 1]
        look.acl = znode.acl
        look.meta = znode.meta
        return
    entry = tree_find(machine.tree, key.data, <uint16_t>key.length)
    if not is_live(entry):
        return
    look.exists = True
    look.is_znode = entry.flags & ENTRY_ZNODE != 0
    if look.is_znode:
        look.meta = entry_meta(entry)[0]
        look.acl.length = look.meta.acl_length
        look.acl.data = entry_value(entry) + entry_data_length(entry)

cdef inline bint _allows(Machine* machine, const Look* look, uint8_t perms) noexcept nogil:
    return znode_acl_allows(&look.acl, perms, machine.command.identities.data,
                            <uint32_t>machine.command.identities.size)

# The path of the parent in the keyspace; the key has one, for its path begins with a slash.
cdef inline Bytes _parent_of(const Bytes* key, uint32_t root_length) noexcept nogil:
    cdef Bytes parent
    cdef Bytes path
    path.data = key.data + root_length
    path.length = key.length - root_length
    parent.data = key.data
    parent.length = root_length + znode_parent_length(&path)
    return parent

# A path that has a parent at all, and a key: the rest is checked later (PrepRequestProcessor.validatePathForCreate).
# Departure: a path without a slash in front is refused here; ZooKeeper may say that its parent is missing.
cdef inline bint _has_parent(const ZnodeOp* op) noexcept nogil:
    return (op.key.length != 0 and op.path.length != 0 and op.path.data[0] == c"/"
            and memchr(op.path.data, 0, op.path.length) == NULL)


# --- plans ------------------------------------------------------------------------------------------------------------
# The planned change of a live znode that only its extension changes of, for now.
cdef status_t _touch(Machine* machine, const Bytes* key, Planned** planned, PlannedZnode** znode) noexcept nogil:
    cdef status_t status = plan_touch(&machine.plan, key, planned)
    if status != OK:
        return status
    if not planned[0].flags & ENTRY_ZNODE:
        return broken(&machine.broken, BROKEN_ZNODE_PARENT, machine.plan.revision, 0)
    znode[0] = plan_znode(&machine.plan, planned[0])
    if znode[0] == NULL:
        return NO_MEMORY
    plan_put(&machine.plan, planned[0], &planned[0].value, planned[0].lease, ENTRY_ZNODE)
    return OK

# A child of the parent came or went.
cdef status_t _count_child(Machine* machine, const Bytes* parent, bint is_made) noexcept nogil:
    cdef Planned* planned = NULL
    cdef PlannedZnode* znode = NULL
    cdef status_t status = _touch(machine, parent, &planned, &znode)
    if status != OK:
        return status
    znode.meta.pzxid = machine.plan.revision
    if is_made:
        znode.meta.creates += 1
        znode.meta.children += 1
        return OK
    if znode.meta.children == 0:
        return broken(&machine.broken, BROKEN_ZNODE_PARENT, machine.plan.revision, 0)
    znode.meta.children -= 1
    return OK

cdef status_t _make(Machine* machine, const Bytes* key, const Bytes* data, const Bytes* acl, const ZnodeMeta* meta,
                    uint64_t lease) noexcept nogil:
    cdef Planned* planned = NULL
    cdef PlannedZnode* znode
    cdef status_t status = plan_touch(&machine.plan, key, &planned)
    if status != OK:
        return status
    znode = plan_znode(&machine.plan, planned)
    if znode == NULL:
        return NO_MEMORY
    znode.meta = meta[0]
    znode.acl = acl[0]
    plan_put(&machine.plan, planned, data, lease, ENTRY_ZNODE)
    return OK

cdef status_t _remove(Machine* machine, const Bytes* key) noexcept nogil:
    cdef Planned* planned = NULL
    cdef status_t status = plan_touch(&machine.plan, key, &planned)
    if status != OK:
        return status
    if plan_znode(&machine.plan, planned) == NULL:
        return NO_MEMORY
    plan_delete(&machine.plan, planned)
    return OK

# The first request of a root makes what every tree has. A plain key may be in the way: then there can be no tree here.
cdef int _found_tree(Machine* machine, status_t* status) noexcept nogil:
    cdef const Bytes* root = &machine.command.name
    cdef Founded founded
    cdef ZnodeMeta meta
    cdef Bytes nothing, key, acl
    cdef Look look
    cdef uint32_t number
    nothing.data = NULL
    nothing.length = 0
    for number in range(FOUNDED_COUNT):
        founded = _founded(number)
        key = _in_scratch(machine, root, <const uint8_t*>founded.path, founded.length)
        _look(machine, &key, &look)
        if look.is_znode and number == 0:
            return ZNODE_OK
        if look.exists:
            mark(MARK_ZNODE_TREE_IN_THE_WAY)
            return ZNODE_TREE_BLOCKED
        _founded_meta(&founded, &meta)
        acl = _read_only() if founded.is_read_only else nothing
        status[0] = _make(machine, &key, &nothing, &acl, &meta, 0)
        if status[0] != OK:
            return ZNODE_OK
    mark(MARK_ZNODE_TREE_FOUNDED)
    return ZNODE_OK

# Keys made up here stand in plan.scratch; znodes_begin made room for all.
cdef Bytes _in_scratch(Machine* machine, const Bytes* beginning, const uint8_t* end, uint32_t length) noexcept nogil:
    cdef Vec[uint8_t]* scratch = &machine.plan.scratch
    cdef Bytes key
    key.data = scratch.data + scratch.size
    key.length = beginning.length + length
    memcpy(scratch.data + scratch.size, beginning.data, beginning.length)
    memcpy(scratch.data + scratch.size + beginning.length, end, length)
    scratch.size += key.length
    return key

cdef bint _reserve(Machine* machine) noexcept nogil:
    cdef const Command* command = &machine.command
    cdef size_t bytes = FOUNDED_COUNT * (command.name.length + PATH_BYTES_MAX)
    cdef size_t i
    for i in range(command.znodes.size):
        if command.znodes.data[i].is_sequential:
            bytes += command.znodes.data[i].key.length + NUMBER_BYTES_MAX
    return machine.plan.scratch.reserve(bytes)


# --- a request --------------------------------------------------------------------------------------------------------
cdef status_t znodes_begin(Machine* machine, uint64_t index, uint64_t wall_ms) noexcept nogil:
    machine.run.index = index
    machine.run.wall_ms = wall_ms
    machine.run.next = 0
    return OK if _reserve(machine) else NO_MEMORY

cdef status_t znodes_step(Machine* machine, uint32_t keys_max, bint* done) noexcept nogil:
    cdef const Command* command = &machine.command
    cdef status_t status = OK
    cdef int code = ZNODE_OK
    cdef uint32_t keys = 0
    done[0] = False
    if machine.run.next == 0:
        if result_array(&machine.transaction.body, <uint32_t>command.znodes.size) != OK:
            return NO_MEMORY
        code = _begin_session(machine)
        if code == ZNODE_OK:
            code = _found_tree(machine, &status)
    while status == OK and code == ZNODE_OK and machine.run.next < command.znodes.size:
        if keys >= keys_max:
            return OK
        code = _run(machine, &command.znodes.data[machine.run.next], &status)
        if status == OK and machine.transaction.body.size > FORMAT_RESULT_BYTES_MAX:
            status = VALUE_TOO_LARGE
        if status == OK and code == ZNODE_OK:
            machine.run.next += 1
        keys += 2
    if status == OK and code != ZNODE_OK:
        return _refuse(machine, code)
    done[0] = status == OK
    return status

cdef status_t _refuse(Machine* machine, int code) noexcept nogil:
    cdef Vec[uint8_t]* body = &machine.transaction.body
    if machine.plan.changes.size:
        mark(MARK_ZNODE_REQUEST_TAKEN_BACK)
    body.clear()
    if (result_array(body, 2) != OK or result_unsigned(body, machine.run.next) != OK
            or result_number(body, code) != OK):
        return NO_MEMORY
    return ZNODE_REFUSED

# The owner's lease is there, and is no lease of the machine's own (SessionTracker.checkSession).
cdef int _begin_session(Machine* machine) noexcept nogil:
    cdef const Lease* lease
    if machine.command.id == 0:
        return ZNODE_OK
    lease = leases_find(&machine.leases, machine.command.id)
    return ZNODE_OK if lease != NULL and not lease_is_own(lease) else ZNODE_SESSION_EXPIRED

# ZNODE_OK, or why it is refused. *status: anything but OK refuses the request as a whole.
cdef int _run(Machine* machine, const ZnodeOp* op, status_t* status) noexcept nogil:
    if op.data.length > machine.limits.value_bytes_max:
        status[0] = VALUE_TOO_LARGE
        return ZNODE_OK
    if op.kind == ZNODE_CREATE:
        return _create(machine, op, status)
    if op.kind == ZNODE_DELETE:
        return _delete(machine, op, status)
    if op.kind == ZNODE_SET_DATA:
        return _set_data(machine, op, status)
    if op.kind == ZNODE_SET_ACL:
        return _set_acl(machine, op, status)
    return _check(machine, op, status)

cdef inline Bytes _stored_acl(const ZnodeOp* op) noexcept nogil:
    cdef Bytes acl
    acl.data = NULL
    acl.length = 0
    return acl if not op.has_acl or znode_acl_is_open(&op.acl) else op.acl

# PrepRequestProcessor.pRequest2TxnCreate.
cdef int _create(Machine* machine, const ZnodeOp* op, status_t* status) noexcept nogil:
    cdef Bytes key = op.key
    cdef Bytes parent
    cdef Look above, look
    if op.node_kind == ZNODE_TTL and not 0 < op.ttl_ms <= _ttl_max():
        return ZNODE_BAD_ARGUMENTS
    if op.node_kind == ZNODE_EPHEMERAL and machine.command.id == 0:
        return ZNODE_SESSION_EXPIRED
    if not _has_parent(op):
        return ZNODE_BAD_ARGUMENTS
    if op.has_acl and not znode_acl_check(&op.acl):
        return ZNODE_INVALID_ACL
    parent = _parent_of(&key, machine.command.name.length)
    _look(machine, &parent, &above)
    if not above.is_znode:
        return ZNODE_NO_NODE
    if not _allows(machine, &above, PERM_CREATE):
        return ZNODE_NO_AUTH
    if not znode_path_check(&op.path, op.is_sequential):
        return ZNODE_BAD_ARGUMENTS
    if op.is_sequential:
        key = _numbered(machine, op, above.meta.creates)
    if key.length > KEY_BYTES_MAX:
        return ZNODE_BAD_ARGUMENTS
    _look(machine, &key, &look)
    if look.exists:
        return ZNODE_NODE_EXISTS
    if above.meta.kind == ZNODE_EPHEMERAL:
        return ZNODE_NO_CHILDREN_FOR_EPHEMERALS
    status[0] = _plan_create(machine, op, &key, &parent)
    return ZNODE_OK

# The number is that of the children made before, as ZooKeeper prints a Java int ("%010d"): zeros stand behind the sign.
cdef Bytes _numbered(Machine* machine, const ZnodeOp* op, uint32_t creates) noexcept nogil:
    cdef uint8_t[NUMBER_BYTES_MAX] digits
    cdef bint is_negative = <int32_t>creates < 0
    cdef uint32_t left = 0 - creates if is_negative else creates
    cdef uint32_t at = NUMBER_BYTES_MAX
    while left or at == NUMBER_BYTES_MAX or NUMBER_BYTES_MAX - at + is_negative < op.width:
        at -= 1
        digits[at] = <uint8_t>(c"0" + left % 10)
        left //= 10
    if is_negative:
        at -= 1
        digits[at] = c"-"
    return _in_scratch(machine, &op.key, &digits[at], NUMBER_BYTES_MAX - at)

cdef status_t _plan_create(Machine* machine, const ZnodeOp* op, const Bytes* key, const Bytes* parent) noexcept nogil:
    cdef Bytes acl = _stored_acl(op)
    cdef uint64_t lease = machine.command.id if op.node_kind == ZNODE_EPHEMERAL else 0
    cdef ZnodeMeta meta
    cdef status_t status = OK
    memset(&meta, 0, sizeof(ZnodeMeta))
    meta.mzxid = machine.plan.revision
    meta.pzxid = machine.plan.revision
    meta.ctime_ms = machine.run.wall_ms
    meta.mtime_ms = machine.run.wall_ms
    meta.ttl_ms = op.ttl_ms
    meta.kind = op.node_kind
    meta.flags = 0 if op.has_data else ZNODE_NULL_DATA
    if lease != 0:
        status = leases_reserve(&machine.leases, lease, machine.run.index)
    if status == OK:
        status = _count_child(machine, parent, True)
    if status == OK:
        status = _make(machine, key, &op.data, &acl, &meta, lease)
    return _answer_created(machine, key) if status == OK else status

cdef status_t _answer_created(Machine* machine, const Bytes* key) noexcept nogil:
    cdef Bytes path
    path.data = key.data + machine.command.name.length
    path.length = key.length - machine.command.name.length
    if result_array(&machine.transaction.body, 2) != OK or result_bytes(&machine.transaction.body, &path) != OK:
        return NO_MEMORY
    return _answer_stat(machine, plan_find(&machine.plan, key))

cdef status_t _answer_stat(Machine* machine, const Planned* planned) noexcept nogil:
    cdef const PlannedZnode* znode = &machine.plan.znodes.data[planned.znode - 1]
    cdef ZnodeStat stat
    cdef Bytes window
    _fill_stat(&znode.meta, planned.create_revision, planned.lease, planned.value.length, &stat)
    window.data = <const uint8_t*>&stat
    window.length = sizeof(ZnodeStat)
    return result_bytes(&machine.transaction.body, &window)

# OpCode.delete; a tree's own znodes stay (DataTree.isSpecialPath).
cdef int _delete(Machine* machine, const ZnodeOp* op, status_t* status) noexcept nogil:
    cdef Bytes parent
    cdef Look above, look
    if not _has_parent(op) or _number_of_founded(op.path.data, op.path.length) >= 0:
        return ZNODE_BAD_ARGUMENTS
    parent = _parent_of(&op.key, machine.command.name.length)
    _look(machine, &parent, &above)
    if not above.is_znode:
        return ZNODE_NO_NODE
    if not _allows(machine, &above, PERM_DELETE):
        return ZNODE_NO_AUTH
    _look(machine, &op.key, &look)
    if not look.is_znode:
        return ZNODE_NO_NODE
    if op.version != -1 and op.version != look.meta.version:
        return ZNODE_BAD_VERSION
    if look.meta.children:
        return ZNODE_NOT_EMPTY
    status[0] = _count_child(machine, &parent, False)
    if status[0] == OK:
        status[0] = _remove(machine, &op.key)
    if status[0] == OK:
        status[0] = result_nil(&machine.transaction.body)
    return ZNODE_OK

# Checks that setData, setACL and check share.
cdef int _look_for(Machine* machine, const ZnodeOp* op, uint8_t perm, Look* look) noexcept nogil:
    if op.key.length == 0 or not znode_path_check(&op.path, False):
        return ZNODE_BAD_ARGUMENTS
    if op.kind == ZNODE_SET_ACL and not znode_acl_check(&op.acl):
        return ZNODE_INVALID_ACL
    _look(machine, &op.key, look)
    if not look.is_znode:
        return ZNODE_NO_NODE
    return ZNODE_OK if _allows(machine, look, perm) else ZNODE_NO_AUTH

# Versions wrap around, as a Java int does.
cdef inline int32_t _next_version(int32_t version) noexcept nogil:
    return <int32_t>(<uint32_t>version + 1)

# OpCode.setData.
cdef int _set_data(Machine* machine, const ZnodeOp* op, status_t* status) noexcept nogil:
    cdef Planned* planned = NULL
    cdef PlannedZnode* znode = NULL
    cdef Look look
    cdef int code = _look_for(machine, op, PERM_WRITE, &look)
    if code != ZNODE_OK:
        return code
    if op.version != -1 and op.version != look.meta.version:
        return ZNODE_BAD_VERSION
    status[0] = _touch(machine, &op.key, &planned, &znode)
    if status[0] != OK:
        return ZNODE_OK
    planned.value = op.data
    znode.meta.version = _next_version(znode.meta.version)
    znode.meta.mzxid = machine.plan.revision
    znode.meta.mtime_ms = machine.run.wall_ms
    znode.meta.flags &= ~<uint8_t>ZNODE_NULL_DATA
    if not op.has_data:
        znode.meta.flags |= ZNODE_NULL_DATA
    status[0] = _answer_stat(machine, planned)
    return ZNODE_OK

# OpCode.setACL. The data is not written: neither mzxid nor mtime moves.
cdef int _set_acl(Machine* machine, const ZnodeOp* op, status_t* status) noexcept nogil:
    cdef Planned* planned = NULL
    cdef PlannedZnode* znode = NULL
    cdef Look look
    cdef int code = _look_for(machine, op, PERM_ADMIN, &look)
    if code != ZNODE_OK:
        return code
    if op.version != -1 and op.version != look.meta.aversion:
        return ZNODE_BAD_VERSION
    status[0] = _touch(machine, &op.key, &planned, &znode)
    if status[0] != OK:
        return ZNODE_OK
    znode.acl = _stored_acl(op)
    znode.meta.aversion = _next_version(znode.meta.aversion)
    status[0] = _answer_stat(machine, planned)
    return ZNODE_OK

# OpCode.check.
cdef int _check(Machine* machine, const ZnodeOp* op, status_t* status) noexcept nogil:
    cdef Look look
    cdef int code = _look_for(machine, op, PERM_READ, &look)
    if code != ZNODE_OK:
        return code
    if op.version != -1 and op.version != look.meta.version:
        return ZNODE_BAD_VERSION
    status[0] = result_nil(&machine.transaction.body)
    return ZNODE_OK


# --- leases -----------------------------------------------------------------------------------------------------------
cdef bint znodes_keep_lease(const Lease* lease) noexcept nogil:
    return lease_is_own(lease) and lease.first.flags & ENTRY_ZNODE and entry_meta(lease.first).children != 0

# Each key has its parent in the same entry: a lease of CHANGES_MAX keys must not get stuck for that.
cdef status_t znodes_plan_removed(Machine* machine, const Bytes* key) noexcept nogil:
    cdef const uint8_t* slash = <const uint8_t*>memchr(key.data, c"/", key.length)
    cdef Bytes parent
    cdef status_t status
    if slash == NULL:
        return broken(&machine.broken, BROKEN_ZNODE_PARENT, machine.plan.revision, 0)
    mark(MARK_ZNODE_WENT_WITH_LEASE)
    machine.plan.changes_max = 2 * CHANGES_MAX
    parent = _parent_of(key, <uint32_t>(slash - key.data))
    status = _count_child(machine, &parent, False)
    return _remove(machine, key) if status == OK else status

cdef status_t znodes_settle(Machine* machine, uint64_t index) noexcept nogil:
    cdef Plan* plan = &machine.plan
    cdef uint64_t stream = index
    cdef status_t status = OK
    cdef size_t i
    for i in range(plan.znodes.size):
        if status == OK:
            status = _settle(machine, &plan.changes.data[plan.znodes.data[i].change], &plan.znodes.data[i], &stream)
    return status

# The lease that the machine granted for the znode as the entry finds it; NULL: none.
cdef Lease* _own_lease(Machine* machine, const Planned* planned) noexcept nogil:
    cdef uint8_t kind
    if not is_live(planned.before) or not planned.before.flags & ENTRY_ZNODE or planned.before.lease == 0:
        return NULL
    kind = entry_meta(planned.before).kind
    if kind != ZNODE_CONTAINER and kind != ZNODE_TTL:
        return NULL
    return leases_find(&machine.leases, planned.before.lease)

cdef status_t _settle(Machine* machine, Planned* planned, const PlannedZnode* znode, uint64_t* stream) noexcept nogil:
    cdef Lease* lease = _own_lease(machine, planned)
    cdef bint is_new = planned.create_revision == machine.plan.revision
    cdef bint is_wanted = planned_is_live(planned) and (
        znode.meta.kind == ZNODE_TTL or znode.meta.kind == ZNODE_CONTAINER and znode.meta.creates != 0
        and znode.meta.children == 0)
    if lease != NULL and lease.is_ending:
        return OK
    if lease != NULL and (not is_wanted or is_new):
        mark(MARK_ZNODE_TIME_ENDS)
        lease.is_ending = True
        if not machine.ending.push(lease):
            return NO_MEMORY
        if znode.meta.kind == ZNODE_CONTAINER:
            planned.lease = 0
        lease = NULL
    if not is_wanted:
        return OK
    if lease == NULL:
        return _grant(machine, planned, znode, stream)
    # Written, or empty again: its time begins anew.
    if znode.meta.mzxid == machine.plan.revision or (
            znode.meta.pzxid == machine.plan.revision and znode.meta.children == 0):
        leases_renew(&machine.leases, lease, machine.lease_ms)
    return OK

cdef status_t _grant(Machine* machine, Planned* planned, const PlannedZnode* znode, uint64_t* stream) noexcept nogil:
    cdef uint64_t ttl_ms = znode.meta.ttl_ms if znode.meta.kind == ZNODE_TTL else FORMAT_CONTAINER_MS
    cdef uint64_t id = 0
    cdef Bytes nothing
    cdef status_t status
    while id == 0 or leases_find(&machine.leases, id) != NULL:
        id = next_random(stream) >> 1
    mark(MARK_ZNODE_TIME_BEGINS)
    nothing.data = NULL
    nothing.length = 0
    planned.lease = id
    status = leases_grant(&machine.leases, id, ttl_ms, deadline_after(machine.lease_ms, ttl_ms), &nothing)
    if status == OK or status == NO_MEMORY:
        return status
    return broken(&machine.broken, BROKEN_ZNODE_LEASE, id, ttl_ms)
