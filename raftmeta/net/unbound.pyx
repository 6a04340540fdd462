"""Connections whose other side has proved nothing yet: bodies.

The list begins with the oldest. A look at it costs as many steps as there are entries in the worst case, and no look is
made while there is room.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memset

from raftmeta.net.posix cimport AF_INET, AF_INET6, sockaddr, sockaddr_storage, socklen_t
from raftmeta.status cimport OK, OVERLOADED, status_t

cdef extern from "<sys/socket.h>" nogil:
    int getpeername(int fd, sockaddr* address, socklen_t* length)

cdef enum:
    ADDRESS_BYTES = 16          # of IPv6
    PREFIX_BYTES = 8            # of IPv6: what one owner has all of
    LOOPBACK = 0x7F000001

# An IPv4 address stands where no IPv6 address begins: 0000::/8 is reserved (RFC 4291 2.4).
cdef uint64_t IPV4 = <uint64_t>1 << 32


# --- life -------------------------------------------------------------------------------------------------------------
cdef bint unbound_prepare(Unbound* unbound, uint32_t most, uint32_t most_of_address, uint64_t grace_ns) noexcept nogil:
    cdef uint32_t entry
    memset(unbound, 0, sizeof(Unbound))
    unbound.entries = <UnboundEntry*>calloc(<size_t>most + 1, sizeof(UnboundEntry))
    if unbound.entries == NULL:
        return False
    unbound.most = most
    unbound.most_of_address = most_of_address
    unbound.grace_ns = grace_ns
    for entry in range(1, most + 1):
        unbound.entries[entry].next = entry + 1 if entry < most else 0
    unbound.free = 1
    return True


cdef void unbound_release(Unbound* unbound) noexcept nogil:
    free(unbound.entries)
    unbound.entries = NULL
    unbound.by_address.release()


# --- who gives way ----------------------------------------------------------------------------------------------------
cdef uint32_t _count_of(Unbound* unbound, uint64_t address) noexcept nogil:
    cdef uint32_t* count = unbound.by_address.find(address)
    return count[0] if count != NULL else 0


cdef uint32_t _oldest_of(const Unbound* unbound, uint64_t address) noexcept nogil:
    cdef uint32_t entry = unbound.first
    while entry != 0 and unbound.entries[entry].address != address:
        entry = unbound.entries[entry].next
    return entry


# The address with the most; of several, that of the oldest connection.
cdef uint64_t _most_present(Unbound* unbound) noexcept nogil:
    cdef uint32_t entry = unbound.first
    cdef uint64_t found = unbound.entries[entry].address
    cdef uint32_t most = 0
    cdef uint32_t count
    while entry != 0:
        count = _count_of(unbound, unbound.entries[entry].address)
        if count > most:
            most = count
            found = unbound.entries[entry].address
        entry = unbound.entries[entry].next
    return found


cdef status_t unbound_look(Unbound* unbound, uint64_t address, uint64_t now_ns, uint32_t* gives_way) noexcept nogil:
    cdef uint32_t own = _count_of(unbound, address)
    cdef uint64_t most_present = address
    gives_way[0] = UNBOUND_NONE
    if own < unbound.most_of_address or address == ADDRESS_LOCAL:
        if unbound.count < unbound.most:
            return OK
        most_present = _most_present(unbound)
    gives_way[0] = _oldest_of(unbound, most_present)
    if _count_of(unbound, most_present) > own:
        return OK
    return OK if now_ns - unbound.entries[gives_way[0]].since_ns >= unbound.grace_ns else OVERLOADED


# --- entries ----------------------------------------------------------------------------------------------------------
cdef uint32_t unbound_add(Unbound* unbound, uint64_t address, uint32_t place, uint64_t now_ns) noexcept nogil:
    cdef uint32_t entry = unbound.free
    cdef uint32_t* count = unbound.by_address.insert(address) if entry != 0 else NULL
    cdef UnboundEntry* at = &unbound.entries[entry]
    if count == NULL:
        return UNBOUND_NONE
    count[0] += 1
    unbound.free = at.next
    unbound.count += 1
    at.address = address
    at.since_ns = now_ns
    at.place = place
    at.previous = unbound.last
    at.next = 0
    if unbound.last != 0:
        unbound.entries[unbound.last].next = entry
    else:
        unbound.first = entry
    unbound.last = entry
    return entry


cdef void unbound_remove(Unbound* unbound, uint32_t entry) noexcept nogil:
    cdef UnboundEntry* at = &unbound.entries[entry]
    cdef uint32_t* count = unbound.by_address.find(at.address)
    if at.previous != 0:
        unbound.entries[at.previous].next = at.next
    else:
        unbound.first = at.next
    if at.next != 0:
        unbound.entries[at.next].previous = at.previous
    else:
        unbound.last = at.previous
    count[0] -= 1
    if count[0] == 0:
        unbound.by_address.erase(at.address)
    unbound.count -= 1
    at.next = unbound.free
    unbound.free = entry


# --- addresses --------------------------------------------------------------------------------------------------------
cdef uint64_t address_of_ipv4(const uint8_t* bytes) noexcept nogil:
    cdef uint64_t number = (<uint64_t>bytes[0] << 24 | <uint64_t>bytes[1] << 16 | <uint64_t>bytes[2] << 8
                            | <uint64_t>bytes[3])
    return IPV4 | (<uint64_t>LOOPBACK if bytes[0] == 127 else number)


cdef uint64_t address_of_ipv6(const uint8_t* bytes) noexcept nogil:
    cdef uint8_t[12] mapped
    cdef uint8_t[ADDRESS_BYTES] loopback
    cdef uint64_t prefix = 0
    cdef int i
    memset(mapped, 0, sizeof(mapped))
    mapped[10] = mapped[11] = 0xFF
    memset(loopback, 0, sizeof(loopback))
    loopback[15] = 1
    if memcmp(bytes, mapped, sizeof(mapped)) == 0:
        return address_of_ipv4(bytes + sizeof(mapped))
    if memcmp(bytes, loopback, sizeof(loopback)) == 0:
        return IPV4 | <uint64_t>LOOPBACK
    for i in range(PREFIX_BYTES):
        prefix = prefix << 8 | bytes[i]
    return prefix if prefix != ADDRESS_LOCAL else <uint64_t>ADDRESS_UNKNOWN


cdef uint64_t address_of_socket(int fd) noexcept nogil:
    cdef sockaddr_storage storage
    cdef const uint8_t* bytes = <const uint8_t*>&storage
    cdef socklen_t length = sizeof(sockaddr_storage)
    memset(&storage, 0, sizeof(storage))
    if getpeername(fd, <sockaddr*>&storage, &length) != 0:
        return ADDRESS_UNKNOWN
    if storage.ss_family == AF_INET:        # sockaddr_in: family, port, address
        return address_of_ipv4(bytes + 4)
    if storage.ss_family == AF_INET6:       # sockaddr_in6: family, port, flow, address
        return address_of_ipv6(bytes + 8)
    return ADDRESS_LOCAL
