# Connections whose other side has proved nothing yet: how many a port has, in all and from one address.
#
# It decides whether one more is let in, and which one gives way to it. It never closes a connection: its caller does.
#
#     its address has its share already   its oldest one goes, if that is past its grace; else the new one is refused
#     all places are taken                the oldest of the address with most of them goes; among equals, as above
#
# So a stranger who opens many connections crowds out its own, and no other address. The grace lets those go on that
# have just begun: when a thousand clients of one address come back at once, some of them end their handshakes instead
# of all being cut by the next. Silent ones hold a place no longer than that when others wait for it.
#
# Sources: OpenSSH sshd_config(5) MaxStartups (refuses the newest), PerSourceMaxStartups and PerSourceNetBlockSize (a
# bound by address, by network for IPv6); nginx ngx_http_limit_conn_module (a bound by key). Both refuse the newest
# only, so that silent connections of an address shut out all others of it until their time is over.
#
# Invariants: count = length of the list = sum of by_address; the list is in order of since_ns.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.native.containers cimport Map64
from raftmeta.status cimport status_t

cdef enum:
    UNBOUND_NONE = 0            # no entry; and no place gives way
    ADDRESS_LOCAL = 0           # of a Unix socket: this machine's own, without a share of its own
    ADDRESS_UNKNOWN = 1         # the other side has gone already

cdef struct UnboundEntry:
    uint64_t address
    uint64_t since_ns
    uint32_t place              # the caller's
    uint32_t previous           # in order of arrival; 0: none
    uint32_t next               # as is; of a free entry: the next free one

cdef struct Unbound:
    UnboundEntry* entries       # from 1
    uint32_t most
    uint32_t most_of_address
    uint64_t grace_ns
    uint32_t count
    uint32_t first              # the oldest
    uint32_t last
    uint32_t free
    Map64[uint32_t] by_address  # how many there are

# False: no memory.
cdef bint unbound_prepare(Unbound* unbound, uint32_t most, uint32_t most_of_address, uint64_t grace_ns) noexcept nogil
cdef void unbound_release(Unbound* unbound) noexcept nogil
# Whether a connection from this address is let in. OK: once the entry *gives_way is closed and removed, if it is not
# UNBOUND_NONE. OVERLOADED: it is refused.
cdef status_t unbound_look(Unbound* unbound, uint64_t address, uint64_t now_ns, uint32_t* gives_way) noexcept nogil
# Its entry, after unbound_look said OK. UNBOUND_NONE: no memory.
cdef uint32_t unbound_add(Unbound* unbound, uint64_t address, uint32_t place, uint64_t now_ns) noexcept nogil
# It proved who it is, or was closed.
cdef void unbound_remove(Unbound* unbound, uint32_t entry) noexcept nogil
# An address as a number: an IPv4 address (4 bytes), or the first 64 bits of an IPv6 address (16), which one owner has
# the rest of. An IPv4 address in an IPv6 one is the IPv4 address; every loopback address is 127.0.0.1.
cdef uint64_t address_of_ipv4(const uint8_t* bytes) noexcept nogil
cdef uint64_t address_of_ipv6(const uint8_t* bytes) noexcept nogil
# That at the other end of a socket. ADDRESS_LOCAL: it has neither. ADDRESS_UNKNOWN.
cdef uint64_t address_of_socket(int fd) noexcept nogil
