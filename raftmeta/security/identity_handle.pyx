"""The names in certificates for Python: for a client's check of a node."""

from libc.stdint cimport uint8_t

from raftmeta.security.identity cimport ROLE_PEER, CertifiedIdentity, identity_parse
from raftmeta.status cimport OK

from raftmeta.common.text import shown


def parse_identity(uri):
    """(role, cluster, name) of a URI in a certificate; role is "peer" or "client". None: it names nobody."""
    cdef CertifiedIdentity identity
    cdef bytes text = uri.encode(errors="surrogatepass")
    if identity_parse(<const uint8_t*>text, len(text), &identity) != OK:
        return None
    return ("peer" if identity.role == ROLE_PEER else "client",
            shown(identity.cluster[:identity.cluster_length]), shown(identity.name[:identity.name_length]))
