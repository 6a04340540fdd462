"""TLS of a node between Python and native code.

It decides that a node's certificate must name this node, and how refusals are told to people. It never decides who is
let in (security/tls).
"""

from libc.stdint cimport uint8_t
from libc.string cimport memset

from raftmeta.common.text import shown
from raftmeta.errors import ConfigError
from raftmeta.security.contexts cimport tls_context_create, tls_context_free, tls_context_identity
from raftmeta.security.identity cimport ROLE_CLIENT, ROLE_PEER, CertifiedIdentity
from raftmeta.security.tls_state cimport (TLS_CUT, TLS_DAMAGED, TLS_EXPIRED, TLS_IDENTITY, TLS_NAME,
                                          TLS_NO_CERTIFICATE, TLS_NOT_SPOKEN, TLS_NOT_YET, TLS_PROTOCOL, TLS_REVOKED,
                                          TLS_TOLD_EXPIRED, TLS_TOLD_REVOKED, TLS_TOLD_UNTRUSTED, TLS_UNTRUSTED,
                                          TLS_VERSION, TLS_WANTED, TLS_WHY_BYTES, TlsTexts)
from raftmeta.status cimport OK

# TlsRefusal: one word, and a sentence with the peer's name.
_REFUSALS = {
    TLS_NOT_SPOKEN: ("no_tls", "{name} speaks no TLS, this node does: give it the setting tls, or this one "
                               "accept_plain while the cluster moves"),
    TLS_CUT: ("cut", "the connection with {name} ended in the handshake of TLS: it may speak none, or another program "
                     "listens there"),
    TLS_VERSION: ("version", "{name} speaks an older TLS than 1.3"),
    TLS_PROTOCOL: ("protocol", "{name} speaks another protocol by TLS: its address may be that for clients"),
    TLS_NO_CERTIFICATE: ("no_certificate", "{name} shows no certificate"),
    TLS_UNTRUSTED: ("untrusted", "no authority of this node signed the certificate of {name}: look at tls.authorities "
                                 "here and tls.certificate there, and whether a list of revoked ones is missing or "
                                 "old"),
    TLS_EXPIRED: ("expired", "the certificate of {name} has expired: renew it there"),
    TLS_NOT_YET: ("not_yet_valid", "the time of {name}'s certificate has not begun: look at the clocks"),
    TLS_REVOKED: ("revoked", "the certificate of {name} is revoked: give it another one, or remove it"),
    TLS_IDENTITY: ("wrong_identity", "the certificate at the address of {name} names no node of this cluster"),
    TLS_NAME: ("wrong_name", "the certificate at the address of {name} is that of another node, or this node's is"),
    TLS_DAMAGED: ("damaged", "bytes from {name} are no sound TLS"),
    TLS_TOLD_EXPIRED: ("told_expired", "{name} says that this node's certificate has expired: renew it"),
    TLS_TOLD_REVOKED: ("told_revoked", "{name} says that this node's certificate is revoked: get another one"),
    TLS_TOLD_UNTRUSTED: ("told_untrusted", "{name} does not accept this node's certificate: look at tls.authorities "
                                           "there, at the name in the certificate, and at the clocks"),
    TLS_WANTED: ("tls_wanted", "{name} wants TLS with a certificate: give this node the setting tls"),
}
_SETTINGS = {"c": "tls.certificate", "k": "tls.key", "a": "tls.authorities", "r": "tls.revoked"}
_MISSING = {"c": "holds no certificate", "k": "holds no private key", "a": "holds no certificate",
            "r": "holds no list of revoked certificates"}


cdef str refusal_word(uint64_t status):
    return _REFUSALS.get(status, ("", ""))[0]


cdef str refusal_text(uint64_t status, str name):
    text = _REFUSALS.get(status, ("", ""))[1]
    return text.replace("{name}", name)


cdef str _where(object tls, str setting):
    path = getattr(tls, setting.removeprefix("tls."))
    return f"{setting}: {'the function' if callable(path) else path}"


cdef object _wrong(object tls, object texts, str letter, str why, IdentityRole role):
    setting = _SETTINGS[letter]
    if letter == "a" and role == ROLE_CLIENT and tls.client_authorities is not None:
        setting = "tls.client_authorities"
    if not why or why == "no start line":
        why = _MISSING[letter]
    elif letter == "k" and b"ENCRYPTED" in texts.key:
        why = ("the key is encrypted: give tls.key_password" if texts.password is None
               else "tls.key_password does not open it")
    return ConfigError(f"{_where(tls, setting)}: {why}", field=setting)


cdef int _check_own_name(TlsContext* context, object tls, object identity) except -1:
    cdef CertifiedIdentity found
    names = "no node: it needs one URI raftmeta://<cluster>/<node>/peer"
    if tls_context_identity(context, &found) == OK:
        cluster, name = shown(found.cluster[:found.cluster_length]), shown(found.name[:found.name_length])
        if found.role == ROLE_PEER and cluster == identity.cluster and name == identity.name:
            return 0
        who = "node" if found.role == ROLE_PEER else "client"
        names = f"{who} {name!r} of cluster {cluster!r}"
    raise ConfigError(f"{_where(tls, 'tls.certificate')}: this node is {identity.name!r} of cluster "
                      f"{identity.cluster!r}, the certificate names {names}", field="tls.certificate")


cdef TlsContext* context_of(object tls, object texts, object identity, IdentityRole role) except NULL:
    cdef TlsTexts given
    cdef TlsContext* context
    cdef char[2] field
    cdef char[TLS_WHY_BYTES] why
    cdef bytes certificate = texts.certificate
    cdef bytes key = texts.key
    cdef bytes password = texts.password
    cdef bytes authorities = texts.authorities if role == ROLE_PEER else texts.client_authorities
    cdef bytes revoked = texts.revoked
    cdef bytes cluster = identity.cluster.encode()
    memset(&given, 0, sizeof(TlsTexts))
    given.certificate = certificate
    given.certificate_length = len(certificate)
    given.key = key
    given.key_length = len(key)
    if password is not None:
        given.password = password
        given.password_length = len(password)
    given.authorities = authorities
    given.authorities_length = len(authorities)
    if revoked is not None:
        given.revoked = revoked
        given.revoked_length = len(revoked)
    field[1] = 0
    context = tls_context_create(&given, role, <const uint8_t*>cluster, <uint8_t>len(cluster), field, why)
    if context == NULL:
        raise _wrong(tls, texts, (<bytes>field).decode(), (<bytes>why).decode(errors="replace"), role)
    try:
        _check_own_name(context, tls, identity)
    except BaseException:
        tls_context_free(context)
        raise
    return context
