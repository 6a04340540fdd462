"""The table of links by name."""

from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from raftmeta.engine.state cimport Link, Links
from raftmeta.raft.types cimport MEMBERS_MAX


cdef int find_name(const Links* links, const uint8_t* name, uint8_t name_length) noexcept nogil:
    cdef int i
    for i in range(MEMBERS_MAX):
        if (links.table[i].is_used and links.table[i].name_length == name_length
                and memcmp(links.table[i].name, name, name_length) == 0):
            return i
    return -1


# A place nobody has; else that of a stranger, who only introduced itself and may do so again.
cdef int _free_place(const Links* links) noexcept nogil:
    cdef const Link* link
    cdef int i
    for i in range(MEMBERS_MAX):
        if not links.table[i].is_used:
            return i
    for i in range(MEMBERS_MAX):
        link = &links.table[i]
        if not (link.is_self or link.is_initial or link.is_wanted or link.is_up):
            return i
    return -1


cdef int link_of_name(Links* links, const uint8_t* name, uint8_t name_length, const uint8_t* address,
                      uint8_t address_length) noexcept nogil:
    cdef int place = find_name(links, name, name_length)
    cdef uint64_t tenancy
    if place < 0:
        place = _free_place(links)
        if place < 0:
            return -1
        tenancy = links.table[place].tenancy
        memset(&links.table[place], 0, sizeof(Link))
        links.table[place].tenancy = tenancy + 1
        links.table[place].is_used = True
        links.table[place].name_length = name_length
        memcpy(links.table[place].name, name, name_length)
    if address_length != 0:
        links.table[place].address_length = address_length
        memcpy(links.table[place].address, address, address_length)
    return place
