"""TLS of a client: a context of Python's ssl made of a Tls, and the names in nodes' certificates.

It decides who is taken for a node: the holder of a certificate that names a node of this cluster (docs/security.md
"Who is let in"). It never decides where to connect. Nothing imports it, nor ssl, before a client has the setting tls.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from raftmeta.errors import ConfigError
from raftmeta.security.identity_handle import parse_identity
from raftmeta.security.settings import Texts, Tls

PROTOCOL = "raftmeta-client/1"  # FORMAT_: docs/formats.md "TLS"

# Reasons of OpenSSL: what they mean to who runs a client. The first part that a reason contains decides.
_REASONS = (
    ("ALERT_CERTIFICATE_EXPIRED", "the node says that this client's certificate has expired: renew it"),
    ("ALERT_CERTIFICATE_REVOKED", "the node says that this client's certificate is revoked: get another one"),
    ("ALERT_CERTIFICATE_REQUIRED", "the node wants a certificate"),
    (
        "ALERT_HANDSHAKE_FAILURE",
        "the node does not accept the name in this client's certificate: it must be that of a client of this cluster",
    ),
    ("ALERT_UNKNOWN_CA", "no authority of the node signed this client's certificate"),
    ("ALERT_BAD_CERTIFICATE", "the node does not accept this client's certificate: look at its dates and signature"),
    ("ALERT_CERTIFICATE_UNKNOWN", "the node does not accept this client's certificate"),
    ("NO_APPLICATION_PROTOCOL", "it serves another protocol: this may be the address for peers"),
    ("PROTOCOL_VERSION", "no common version of TLS: 1.3 is the least"),
    ("WRONG_VERSION_NUMBER", "the node speaks no TLS: give it the setting tls, or this client none"),
    ("UNEXPECTED_EOF", "the connection ended in the handshake of TLS: the node may speak none"),
)


class Security:
    """The TLS of one client. Files that changed are read anew with the next connection."""

    def __init__(self, tls: Tls, cluster: str) -> None:
        self._tls = tls
        self._cluster = cluster
        self._seen: object = None
        self._made: ssl.SSLContext | None = None

    def context(self) -> ssl.SSLContext:
        """The context for a connection. Raises ConfigError, which names the setting, when there never was one."""
        seen = self._tls.signature()
        if self._made is None or seen != self._seen:
            try:
                self._made = _context_of(self._tls)
                self._seen = seen
            except ConfigError:
                if self._made is None:
                    raise  # else what was read before stays in force until the files are whole again
        return self._made

    def node_of(self, secured: ssl.SSLObject) -> str:
        """Whose certificate the other side showed. Raises ConnectionError for who is no node of this cluster."""
        if secured.selected_alpn_protocol() != PROTOCOL:
            raise ConnectionError("it serves another protocol by TLS: this may be the address for peers")
        shown: Any = secured.getpeercert() or {}
        uris = [uri for kind, uri in shown.get("subjectAltName", ()) if kind == "URI" and uri.startswith("raftmeta://")]
        identity = parse_identity(uris[0]) if len(uris) == 1 else None
        if identity is None or identity[0] != "peer":
            raise ConnectionError("its certificate names no node")
        if identity[1] != self._cluster:
            raise ConnectionError(f"its certificate is of cluster {identity[1]!r}, this client asks {self._cluster!r}")
        return identity[2]


def explained(error: OSError) -> str:
    """An error of TLS in words for who runs the client; of others the text."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message}"
    reason = f"{getattr(error, 'reason', None)} {error}".upper().replace(" ", "_")  # Python names not all of them
    return next((text for part, text in _REASONS if part in reason), str(error) or type(error).__name__)


def is_of_tls(error: BaseException | None) -> bool:
    return isinstance(error, ssl.SSLError)


def _context_of(tls: Tls) -> ssl.SSLContext:
    texts = tls.read()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # names of hosts count for nothing: node_of looks at the name of the node
    context.verify_mode = ssl.CERT_REQUIRED
    context.set_alpn_protocols([PROTOCOL])
    _load("tls.authorities", tls, lambda: _load_authorities(context, texts))
    _load("tls.key", tls, lambda: _load_certificate(context, texts))
    if texts.revoked is not None:
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    return context


def _load(name: str, tls: Tls, load: Any) -> None:
    try:
        load()
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        reason = getattr(error, "reason", None) or str(error)
        where = tls.authorities if name == "tls.authorities" else f"{tls.certificate} and its key"
        raise ConfigError(f"{name}: {where}: {reason}", field=name) from None


def _load_authorities(context: ssl.SSLContext, texts: Texts) -> None:
    with _as_file(texts.authorities + b"\n" + (texts.revoked or b"")) as path:
        context.load_verify_locations(cafile=path)


def _load_certificate(context: ssl.SSLContext, texts: Texts) -> None:
    with _as_file(texts.certificate) as certificate, _as_file(texts.key) as key:
        # Without a password OpenSSL would ask at the terminal.
        context.load_cert_chain(certificate, key, password=texts.password or b"")


@contextmanager
def _as_file(text: bytes) -> Iterator[str]:
    """The path of a file in memory: Python's ssl reads files only, and a key from a function belongs on no disk."""
    descriptor = os.memfd_create("raftmeta", os.MFD_CLOEXEC)
    try:
        written = 0
        while written < len(text):
            written += os.write(descriptor, text[written:])
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
