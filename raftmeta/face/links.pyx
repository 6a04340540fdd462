"""Peers of a node by name: what its table of links says to people.

It decides nothing. It must never ask anybody, or look into a running loop; it reads copies of what that
published.
"""

from libc.stdint cimport uint32_t, uint64_t

from raftmeta.loop.loop cimport LinkStatus, LinkTable
from raftmeta.raft.types cimport MEMBERS_MAX

from raftmeta.errors import InvalidArgument
from raftmeta.common.text import shown


cdef str _name_of(const LinkStatus* link):
    return shown((<const char*>link.name)[:link.name_length])


cdef uint64_t id_of_link(const LinkTable* links, object name) except 0:
    cdef int i
    raw = name.encode(errors="surrogatepass") if isinstance(name, str) else name
    for i in range(MEMBERS_MAX):
        if (<const char*>links.links[i].name)[:links.links[i].name_length] == raw and links.links[i].id != 0:
            return links.links[i].id
    raise InvalidArgument(f"to: no member {name!r} is known here", field="to")


cdef str name_of_link(const LinkTable* links, uint64_t place):
    return _name_of(&links.links[place]) if place < MEMBERS_MAX else ""


cdef list names_of_links(const LinkTable* links, uint32_t places):
    cdef int i
    return sorted(_name_of(&links.links[i]) for i in range(MEMBERS_MAX) if places >> i & 1)


cdef list unreachable(const LinkTable* links):
    cdef const LinkStatus* link
    cdef int i
    cdef list away = []
    for i in range(MEMBERS_MAX):
        link = &links.links[i]
        if link.name_length != 0 and not link.is_self and not link.is_up:
            away.append(_name_of(link))
    return away
