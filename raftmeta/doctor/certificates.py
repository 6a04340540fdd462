"""The files of TLS: whose they are, whether they belong together, and how long they are valid."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from raftmeta.doctor.findings import Finding
from raftmeta.errors import ConfigError
from raftmeta.security.settings import Texts, Tls

if TYPE_CHECKING:
    from cryptography import x509

__all__ = ["check_certificates"]

DUE = timedelta(days=30)
LIST_DUE = timedelta(days=3)


def check_certificates(tls: Tls, cluster: str, name: str) -> Iterator[Finding]:
    """Look at the files as the node `name` would read them now."""
    try:
        texts = tls.read()
    except ConfigError as error:
        yield Finding("certificates", "failure", str(error), "name files that this user can read")
        return
    try:
        from cryptography import x509
    except ModuleNotFoundError:
        yield Finding(
            "certificates", "unknown", "dates of certificates need cryptography", "pip install 'raftmeta[pki]'"
        )
        return
    try:
        chain = x509.load_pem_x509_certificates(texts.certificate)
        authorities = x509.load_pem_x509_certificates(texts.authorities)
        lists = _lists(texts.revoked)
    except ValueError as error:
        yield Finding(
            "certificates",
            "failure",
            f"a file is no PEM of its kind: {error}",
            'name files in PEM: docs/security.md "Files"',
        )
        return
    now = datetime.now(UTC)
    yield _identity_finding(chain[0], cluster, name)
    yield _key_finding(chain[0], texts)
    yield from _mode_findings(tls)
    yield _signature_finding(chain, authorities)
    yield _date_finding("the node's certificate", chain[0], now, f"raftmeta pki renew node {name}")
    for authority in authorities:
        told = f"the authority {authority.subject.rfc4514_string()}"
        yield _date_finding(told, authority, now, 'replace it in three rounds: docs/security.md "Change the authority"')
    for one in lists:
        yield _list_finding(one, now)


def _lists(text: bytes | None) -> list[x509.CertificateRevocationList]:
    from cryptography import x509

    end = b"-----END X509 CRL-----"
    parts = [] if text is None else text.split(end)[:-1]
    return [x509.load_pem_x509_crl(part + end) for part in parts]


def _identity_finding(leaf: x509.Certificate, cluster: str, name: str) -> Finding:
    from raftmeta.security.pki import Identity

    found = Identity.of(leaf)
    wanted = Identity.check(cluster, "node", name)
    if found == wanted:
        return Finding("certificates", "ok", f"the certificate is that of {wanted.uri}")
    told = "has no name of a node or client" if found is None else f"is that of {found.uri}"
    return Finding(
        "certificates",
        "failure",
        f"the certificate {told}; the others let in {wanted.uri} here",
        f"raftmeta --cluster {cluster} pki node {name}",
    )


def _key_finding(leaf: x509.Certificate, texts: Texts) -> Finding:
    from cryptography.hazmat.primitives import serialization

    password = texts.password or None
    try:
        key = serialization.load_pem_private_key(texts.key, password)
    except (TypeError, ValueError) as error:
        return Finding("certificates", "failure", f"the private key cannot be read: {error}", "check key_password")
    form = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    if key.public_key().public_bytes(*form) != leaf.public_key().public_bytes(*form):
        return Finding("certificates", "failure", "the private key belongs to another certificate", "take both of one")
    return Finding("certificates", "ok", "the private key belongs to the certificate")


def _mode_findings(tls: Tls) -> Iterator[Finding]:
    if not isinstance(tls.key, str | os.PathLike):
        return
    path = Path(tls.key)
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        yield Finding(
            "certificates", "warning", f"other users may read the private key {path} (mode {mode:04o})", "chmod 600"
        )


def _signature_finding(chain: list[x509.Certificate], authorities: list[x509.Certificate]) -> Finding:
    """Each certificate of the chain is signed by the next one, the last one by an authority."""
    from cryptography.exceptions import InvalidSignature

    for place, one in enumerate(chain):
        for other in [*chain[place + 1 : place + 2], *authorities]:
            try:
                one.verify_directly_issued_by(other)
                break
            except (ValueError, TypeError, InvalidSignature):
                continue
        else:
            return Finding(
                "certificates",
                "failure",
                f"no authority of the file signed {one.subject.rfc4514_string() or 'the certificate'}",
                "put the authority that signed it into the file of authorities of every node",
            )
    return Finding("certificates", "ok", "an authority of the file signed the certificate")


def _date_finding(told: str, one: x509.Certificate, now: datetime, advice: str) -> Finding:
    begins, ends = one.not_valid_before_utc, one.not_valid_after_utc
    if now < begins:
        return Finding("certificates", "failure", f"{told} is valid from {begins:%Y-%m-%d %H:%M} UTC", "set the clock")
    if now > ends:
        return Finding("certificates", "failure", f"{told} ended on {ends:%Y-%m-%d}", advice)
    text = f"{told} is valid until {ends:%Y-%m-%d}"
    return Finding("certificates", "warning" if ends - now < DUE else "ok", text, advice if ends - now < DUE else "")


def _list_finding(one: x509.CertificateRevocationList, now: datetime) -> Finding:
    ends = one.next_update_utc
    advice = "bring every node a newer list of the authority"
    if ends is None:
        return Finding("certificates", "ok", "the list of revoked certificates has no end")
    text = f"the list of revoked certificates is valid until {ends:%Y-%m-%d %H:%M} UTC"
    if now > ends:
        return Finding("certificates", "failure", f"{text}: it lets nobody in any more", advice)
    return Finding("certificates", "warning" if ends - now < LIST_DUE else "ok", text, advice)
