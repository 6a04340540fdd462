# TLS of a node between Python and native code: contexts made of files, and words for refusals.
from libc.stdint cimport uint64_t

from raftmeta.security.identity cimport IdentityRole
from raftmeta.security.tls_state cimport TlsContext

# Of settings.Texts and a checked Identity. Raises ConfigError, which names the setting.
cdef TlsContext* context_of(object tls, object texts, object identity, IdentityRole role) except NULL
# One word for a TlsRefusal; empty: it is none.
cdef str refusal_word(uint64_t status)
# The fault between this node and the peer `name`, and what to do.
cdef str refusal_text(uint64_t status, str name)
