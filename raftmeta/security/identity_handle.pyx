"""The names in certificates for Python: for the client's check of a node, and for tools that make certificates."""

from libc.stdint cimport uint8_t

from raftmeta.security.identity cimport ROLE_PEER, CertifiedIdentity, identity_parse
from raftmeta.status cimport OK

from urllib.parse import quote

from raftmeta.common.text import shown


def parse_identity(uri):
    """(role, cluster, name) of a URI in a certificate; role is "peer" or "client". None: it names nobody."""
    cdef CertifiedIdentity identity
    cdef bytes text = uri.encode(errors="surrogatepass")
    if identity_parse(<const uint8_t*>text, len(text), &identity) != OK:
        return None
    return ("peer" if identity.role == ROLE_PEER else "client",
            shown(identity.cluster[:identity.cluster_length]), shown(identity.name[:identity.name_length]))


def peer_uri(cluster, node):
    """The URI of a node in its certificate."""
    return f"raftmeta://{quote(cluster, safe='')}/{quote(node, safe='')}/peer"


def client_uri(cluster, principal):
    """The URI of a client in its certificate."""
    return f"raftmeta://{quote(cluster, safe='')}/client/{quote(principal, safe='')}"
