"""Users and roles as values: bodies.

    page    [whether rights are on, who asks, whether there are more], then items as values one after another
    user    name, flags, how many roles, their names, how many tokens, their ids
    role    name, how many grants, and of each its rights, start and end
"""
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memset

from raftmeta.machine.plan cimport compare_bytes
from raftmeta.machine.rights_state cimport USER_ONE_TIME, GrantHead, RightsTable, TableRole, TableUser
from raftmeta.status cimport NO_MEMORY, OK
from raftmeta.wire.msgpack cimport Writer, write_array, write_bin, write_bool, write_uint, writer_at

cdef enum:
    SHOWN_ONE_TIME = 1
    SHOWN_PASSWORD = 2          # it has a password


cdef void _show_user(const RightsTable* table, const TableUser* user, Writer* writer) noexcept nogil:
    cdef const TableRole* role
    cdef uint32_t tokens = 0
    cdef size_t i
    write_bin(writer, user.name, user.name_length)
    write_uint(writer, (SHOWN_ONE_TIME if user.secret.flags & USER_ONE_TIME else 0)
               | (SHOWN_PASSWORD if user.secret.iterations else 0))
    write_uint(writer, user.role_count)
    for i in range(user.role_count):
        role = &table.roles.data[user.roles[i]]
        write_bin(writer, role.name, role.name_length)
    for i in range(table.tokens.size):
        tokens += table.tokens.data[i].user == user
    write_uint(writer, tokens)
    for i in range(table.tokens.size):
        if table.tokens.data[i].user == user:
            write_uint(writer, table.tokens.data[i].id)


cdef inline uint32_t _grant_bytes(const uint8_t* grant) noexcept nogil:
    cdef const GrantHead* head = <const GrantHead*>grant
    return <uint32_t>sizeof(GrantHead) + head.start_length + head.end_length


cdef void _show_role(const TableRole* role, Writer* writer) noexcept nogil:
    cdef const GrantHead* head
    cdef const uint8_t* start
    cdef uint32_t offset = 0
    cdef uint32_t count = 0
    while offset < role.grants.length:
        offset += _grant_bytes(role.grants.data + offset)
        count += 1
    write_bin(writer, role.name, role.name_length)
    write_uint(writer, count)
    offset = 0
    while offset < role.grants.length:
        head = <const GrantHead*>(role.grants.data + offset)
        start = role.grants.data + offset + sizeof(GrantHead)
        write_uint(writer, head.rights)
        write_bin(writer, start, head.start_length)
        write_bin(writer, start + head.start_length, head.end_length)
        offset += _grant_bytes(role.grants.data + offset)


# Names that begin with a zero byte are no user's: they stand first.
cdef size_t _first_user(const RightsTable* table, const Bytes* first) noexcept nogil:
    cdef size_t place = 0
    while place < table.users.size and (
            table.users.data[place].name[0] == 0
            or compare_bytes(table.users.data[place].name, table.users.data[place].name_length, first.data,
                             first.length) < 0):
        place += 1
    return place


cdef size_t _first_role(const RightsTable* table, const Bytes* first) noexcept nogil:
    cdef size_t place = 0
    while place < table.roles.size and compare_bytes(table.roles.data[place].name, table.roles.data[place].name_length,
                                                     first.data, first.length) < 0:
        place += 1
    return place


cdef status_t _items(const RightsTable* table, RightsPage page, const Bytes* first, uint32_t limit,
                     uint32_t bytes_max, Vec[uint8_t]* items, bint* more) noexcept nogil:
    cdef Writer writer = writer_at(items)
    cdef size_t place = _first_user(table, first) if page == PAGE_USERS else _first_role(table, first)
    cdef size_t end = table.users.size if page == PAGE_USERS else table.roles.size
    cdef uint32_t count = 0
    while place < end and (limit == 0 or count < limit) and items.size < bytes_max:
        if page == PAGE_USERS:
            _show_user(table, &table.users.data[place], &writer)
        else:
            _show_role(&table.roles.data[place], &writer)
        place += 1
        count += 1
    more[0] = place < end
    return writer.status


cdef status_t rights_show(const RightsTable* table, RightsPage page, const Bytes* asking, const Bytes* first,
                          uint32_t limit, uint32_t bytes_max, Vec[uint8_t]* out) noexcept nogil:
    cdef Vec[uint8_t] items
    cdef Writer writer
    cdef status_t status = OK
    cdef bint more = False
    memset(&items, 0, sizeof(items))
    if table != NULL and page != PAGE_SELF:
        status = _items(table, page, first, limit, bytes_max, &items, &more)
    writer = writer_at(out)
    write_array(&writer, 3)
    write_bool(&writer, table != NULL and table.is_enabled)
    write_bin(&writer, asking.data, asking.length)
    write_bool(&writer, more)
    if status == OK:
        status = writer.status
    if status == OK and not out.append(items.data, items.size):
        status = NO_MEMORY
    items.release()
    return status
