"""Authorities and certificates of every kind, good and bad, for tests."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

import raftmeta
from raftmeta.security.pki import Identity

DAY = datetime.timedelta(days=1)
NO_PASSWORD = serialization.NoEncryption()


def peer_uri(cluster: str, node: str) -> str:
    return Identity(cluster, "node", node).uri


def client_uri(cluster: str, principal: str) -> str:
    return Identity(cluster, "client", principal).uri


def now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def name_of(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def pem_of(key: ec.EllipticCurvePrivateKey, password: bytes | None = None) -> bytes:
    encryption = NO_PASSWORD if password is None else serialization.BestAvailableEncryption(password)
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)


@dataclass
class Held:
    """A certificate and its key, as files beside each other."""

    certificate: Path
    key: Path
    issued: x509.Certificate


class Authority:
    """One that signs certificates and revokes them; its files stand in a folder."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.name = name
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._revoked: list[x509.RevokedCertificate] = []
        builder = self._builder(name, self._key, -DAY, 3650 * DAY).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        self.certificate = builder.sign(self._key, hashes.SHA256())
        self.path = folder / f"{name}.pem"
        self.path.write_bytes(self.certificate.public_bytes(serialization.Encoding.PEM))
        self.revoked = folder / f"{name}.crl"
        self.write_list()

    def _builder(self, name: str, key: Any, begin: datetime.timedelta, end: datetime.timedelta) -> Any:
        return (
            x509.CertificateBuilder()
            .subject_name(name_of(name))
            .issuer_name(name_of(self.name))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now() + begin)
            .not_valid_after(now() + end)
        )

    def issue(
        self,
        file: str,
        *uris: str,
        begin: datetime.timedelta = -DAY,
        end: datetime.timedelta = 365 * DAY,
        common_name: str = "somebody",
        dns: tuple[str, ...] = (),
        is_self_signed: bool = False,
        password: bytes | None = None,
    ) -> Held:
        """A certificate with these URIs, in `file`.pem and `file`.key."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(common_name, key, begin, end)
        names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(uri) for uri in uris]
        names += [x509.DNSName(one) for one in dns]
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        issued = builder.sign(key if is_self_signed else self._key, hashes.SHA256())
        held = Held(self.folder / f"{file}.pem", self.folder / f"{file}.key", issued)
        held.key.write_bytes(pem_of(key, password))
        held.certificate.write_bytes(issued.public_bytes(serialization.Encoding.PEM))
        return held

    def node(self, name: str, cluster: str = "default", **options: Any) -> Held:
        return self.issue(f"{cluster}-{name}", peer_uri(cluster, name), **options)

    def client(self, principal: str = "app", cluster: str = "default", **options: Any) -> Held:
        return self.issue(f"{cluster}-client-{principal}", client_uri(cluster, principal), **options)

    def revoke(self, held: Held) -> None:
        """Put it on the list, in the file."""
        entry = x509.RevokedCertificateBuilder().serial_number(held.issued.serial_number).revocation_date(now() - DAY)
        self._revoked.append(entry.build())
        self.write_list()

    def write_list(self, *, end: datetime.timedelta = 30 * DAY) -> None:
        """Sign the list anew, in the file. end: from now on, when the list is too old."""
        builder = x509.CertificateRevocationListBuilder().issuer_name(name_of(self.name))
        builder = builder.last_update(now() - DAY).next_update(now() + end)
        for entry in self._revoked:
            builder = builder.add_revoked_certificate(entry)
        listed = builder.sign(self._key, hashes.SHA256())
        replace(self.revoked, listed.public_bytes(serialization.Encoding.PEM))

    def tls(self, held: Held, **settings: Any) -> raftmeta.Tls:
        return raftmeta.Tls(**{"certificate": held.certificate, "key": held.key, "authorities": self.path, **settings})


def replace(path: Path, text: bytes) -> None:
    """Write a file at once, as careful tools do."""
    fresh = path.with_suffix(".new")
    fresh.write_bytes(text)
    fresh.rename(path)
