"""The certificates of one cluster in one folder: a certificate authority, and what it issued to nodes and clients.

A `Pki` issues, renews, revokes and lists. The folder is the only state:

    authority/      certificate.pem and key.pem of the authority; issued/ has a copy of each certificate by serial
    revoked.pem     the list of revoked certificates, signed by the authority (CRL)
    node/a/         what node a needs: certificate.pem, key.pem, authorities.pem, revoked.pem
    client/admin/   what the client with the principal admin needs: the same four files
    revoked/        folders of nodes and clients that were revoked

An identity is a URI in the certificate: raftmeta://<cluster>/<node>/peer or raftmeta://<cluster>/client/<principal>.
Names are percent-encoded in it. The subject is empty: no common name and no host name says who somebody is.

This module never overwrites a key that is in use, and never prints or returns a private key. A change that was begun
and not finished leaves the old files; the lock of the folder keeps two commands from changing it at once. Sources: RFC
5280 for certificates and lists, RFC 3986 for the encoding of names.
"""

from __future__ import annotations

import contextlib
import fcntl
import ipaddress
import os
import re
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal
from urllib.parse import quote, unquote

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from raftmeta.config import check_name
from raftmeta.errors import ConfigError

__all__ = ["AUTHORITY_DAYS", "CERTIFICATE_DAYS", "Certificate", "Identity", "Kind", "Pki"]

Kind = Literal["node", "client"]

AUTHORITY_DAYS = 3650
CERTIFICATE_DAYS = 365
CLOCK_SKEW = timedelta(minutes=5)  # a certificate is valid at once on machines whose clocks are behind
FILE_MODE = 0o600
FOLDER_MODE = 0o700
COMMON_NAME_CHARACTERS_MAX = 64  # RFC 5280 appendix A.1, ub-common-name
HOST = re.compile(r"(?=.{1,253}\Z)[A-Za-z0-9_]([A-Za-z0-9_-]{0,62})(\.[A-Za-z0-9_][A-Za-z0-9_-]{0,62})*")


@dataclass(frozen=True, slots=True)
class Identity:
    """Whom a certificate names."""

    cluster: str
    kind: Kind
    name: str

    @classmethod
    def check(cls, cluster: str, kind: Kind, name: str) -> Identity:
        """Validate the names; a ConfigError names the one that is wrong.

        No node is called client and no client peer: raftmeta://c/client/peer would be the identity of both.
        """
        check_name(cluster, "cluster")
        check_name(name, "name")
        if (kind, name) in (("node", "client"), ("client", "peer")):
            other = "a client's" if kind == "node" else "a node's"
            raise ConfigError(f"name: a {kind} cannot be called {name!r}: it would have {other} identity", field="name")
        return cls(cluster, kind, name)

    @classmethod
    def of(cls, certificate: x509.Certificate) -> Identity | None:
        """The identity in a certificate; None if it has no URI of ours, or more than one URI."""
        with contextlib.suppress(x509.ExtensionNotFound):
            names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
            uris = names.get_values_for_type(x509.UniformResourceIdentifier)
            parts = uris[0].split("/") if len(uris) == 1 else []
            if len(parts) == 5 and parts[:2] == ["raftmeta:", ""] and all(parts[2:]):
                cluster, first, second = map(unquote, parts[2:])
                if parts[3] == "client" and parts[4] != "peer":
                    return cls(cluster, "client", second)
                if parts[4] == "peer" and parts[3] != "client":
                    return cls(cluster, "node", first)
        return None

    @property
    def uri(self) -> str:
        name = quote(self.name, safe="")
        path = f"{name}/peer" if self.kind == "node" else f"client/{name}"
        return f"raftmeta://{quote(self.cluster, safe='')}/{path}"

    @property
    def place(self) -> str:
        """The name of its folder below the folder of its kind."""
        name = quote(self.name, safe="")
        return f"%2E{name[1:]}" if name.startswith(".") else name


@dataclass(frozen=True, slots=True)
class Certificate:
    """One certificate that the authority issued; or, with the kind "authority", the authority's own."""

    uri: str
    kind: str
    name: str
    serial: str  # hexadecimal
    hosts: tuple[str, ...]
    valid_from: datetime
    valid_until: datetime
    days_left: int  # whole days; negative after the end
    state: str  # "valid", "expired", "not yet valid" or "revoked"
    is_current: bool  # in the folder of its node or client; a renewal replaces it there


class Pki:
    """The certificates of one cluster. Every verb raises ConfigError for a mistake of the caller, and OSError."""

    def __init__(self, folder: Path) -> None:
        """Open the folder that `found` made."""
        self.folder = folder
        self._authority_folder = folder / "authority"
        try:
            self.authority = x509.load_pem_x509_certificate(_read(self._authority_folder / "certificate.pem"))
        except FileNotFoundError:
            raise ConfigError(f"{folder} has no certificate authority: make one with `raftmeta pki init`") from None
        except ValueError as error:
            raise ConfigError(f"{self._authority_folder / 'certificate.pem'} is damaged: {error}") from None
        _check_private(folder)
        clusters = self.authority.subject.get_attributes_for_oid(NameOID.ORGANIZATIONAL_UNIT_NAME)
        if len(clusters) != 1:
            raise ConfigError(f"{self._authority_folder / 'certificate.pem'} was not made by `raftmeta pki init`")
        self.cluster = str(clusters[0].value)

    @classmethod
    def found(cls, folder: Path, cluster: str, *, days: int = AUTHORITY_DAYS, now: datetime | None = None) -> Pki:
        """Make a certificate authority for the cluster of this name, and an empty list of revoked certificates.

        folder: is made, with mode 0700; one that exists must be empty. days: from 1. now: the present time if None.
        """
        check_name(cluster, "cluster")
        _check_days(days)
        now = now or datetime.now(UTC)
        folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        _check_private(folder)
        if any(folder.iterdir()):
            raise ConfigError(f"{folder} is not empty: choose another folder, nothing here is overwritten")
        key = ec.generate_private_key(ec.SECP256R1())
        title = f"{cluster} certificate authority"[:COMMON_NAME_CHARACTERS_MAX]
        subject = x509.Name(
            [
                x509.NameAttribute(NameOID.ORGANIZATION_NAME, "raftmeta"),
                x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, cluster),
                x509.NameAttribute(NameOID.COMMON_NAME, title),
            ]
        )
        own = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        # The authority may name members and clients of this cluster only, whoever has its key (RFC 5280 4.2.1.10).
        only = x509.NameConstraints([x509.UniformResourceIdentifier(quote(cluster, safe=""))], None)
        certificate = (
            _builder(key.public_key(), subject, subject, now, now + timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .add_extension(only, critical=True)
            .add_extension(own, critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own), critical=False)
            .sign(key, hashes.SHA256())
        )
        with _locked(folder):
            making = folder / ".authority"
            making.mkdir(mode=FOLDER_MODE)
            (making / "issued").mkdir(mode=FOLDER_MODE)
            _write_new(making / "key.pem", _key_text(key))
            _write_new(making / "certificate.pem", _text(certificate))
            making.rename(folder / "authority")
            pki = cls(folder)
            pki._write_list([], now)
        return pki

    def issue(
        self,
        kind: Kind,
        name: str,
        *,
        hosts: tuple[str, ...] = (),
        days: int = CERTIFICATE_DAYS,
        now: datetime | None = None,
    ) -> Path:
        """Make a key and a certificate for a node or a client; return the folder to bring to its machine.

        hosts: names and addresses of a node, for programs that compare those; raftmeta itself never does.
        """
        identity = Identity.check(self.cluster, kind, name)
        target = self.folder / kind / identity.place
        with _locked(self.folder):
            if target.exists():
                raise ConfigError(
                    f"{target} exists and is not overwritten: `raftmeta pki renew {kind} {name}` makes a new "
                    f"certificate, `raftmeta pki revoke {kind} {name}` ends the old one"
                )
            key = ec.generate_private_key(ec.SECP256R1())
            certificate = self._signed(identity, key.public_key(), hosts, days, now or datetime.now(UTC))
            target.parent.mkdir(mode=FOLDER_MODE, exist_ok=True)
            making = target.parent / f".{target.name}"
            shutil.rmtree(making, ignore_errors=True)  # of a command that was killed
            making.mkdir(mode=FOLDER_MODE)
            _write_new(making / "key.pem", _key_text(key))
            _write_new(making / "certificate.pem", _text(certificate))
            _write_new(making / "authorities.pem", _text(self.authority))
            _write_new(making / "revoked.pem", _read(self.folder / "revoked.pem"))
            making.rename(target)
            _sync_folder(target.parent)
        return target

    def renew(
        self,
        kind: Kind,
        name: str,
        *,
        days: int = CERTIFICATE_DAYS,
        has_new_key: bool = False,
        now: datetime | None = None,
    ) -> Path:
        """Issue a new certificate with the same identity and hosts; return its folder.

        The key stays, so that the certificate alone is replaced, in one step; with has_new_key the key is a new one.
        The certificate before stays valid until its end: revoke it if its key is in wrong hands.
        """
        identity = Identity.check(self.cluster, kind, name)
        with _locked(self.folder):
            target = self._existing(identity)
            old = x509.load_pem_x509_certificate(_read(target / "certificate.pem"))
            if Identity.of(old) != identity:
                raise ConfigError(f"{target / 'certificate.pem'} is not a certificate of {identity.uri}")
            if has_new_key:
                key = ec.generate_private_key(ec.SECP256R1())
                public = key.public_key()
                replaced = {"key.pem": _key_text(key)}
            else:
                public, replaced = self._kept(target, old), {}
            certificate = self._signed(identity, public, _hosts_of(old), days, now or datetime.now(UTC))
            for file, content in (replaced | {"certificate.pem": _text(certificate)}).items():
                _replace(target / file, content)
        return target

    def revoke(self, kind: Kind, name: str, *, only_replaced: bool = False, now: datetime | None = None) -> list[str]:
        """End the certificates of a node or client; return their serial numbers.

        The list revoked.pem is signed anew, here and in each folder; nodes must be given it. The folder of the identity
        moves to revoked/, so that `issue` can make a new key. With only_replaced the certificate that is in the folder
        stays valid, and those before it end.
        """
        identity = Identity.check(self.cluster, kind, name)
        now = now or datetime.now(UTC)
        with _locked(self.folder):
            revoked = {entry.serial_number for entry in self._read_list()}
            target = self.folder / kind / identity.place
            current = _serial_in(target)
            ended = [
                certificate.serial_number
                for certificate in self._issued()
                if Identity.of(certificate) == identity
                and certificate.serial_number not in revoked
                and certificate.not_valid_after_utc > now
                and not (only_replaced and certificate.serial_number == current)
            ]
            if not ended:
                raise ConfigError(f"{identity.uri} has no certificate that could be revoked: see `raftmeta pki show`")
            self._write_list(ended, now)
            if not only_replaced and target.exists():
                (self.folder / "revoked").mkdir(mode=FOLDER_MODE, exist_ok=True)
                target.rename(self.folder / "revoked" / f"{kind}-{identity.place}-{current:x}")
        return [f"{serial:x}" for serial in ended]

    def certificates(self, *, now: datetime | None = None) -> list[Certificate]:
        """The authority, and each certificate that it issued: nodes first, by name and by the time of the issue."""
        now = now or datetime.now(UTC)
        revoked = {entry.serial_number for entry in self._read_list()}
        issued = [self._shown(certificate, revoked, now) for certificate in self._issued()]
        issued.sort(key=lambda one: (one.kind != "node", one.name, one.valid_from))
        return [self._shown(self.authority, revoked, now), *issued]

    # --- one certificate ------------------------------------------------------------------------------------------
    def _signed(
        self, identity: Identity, public: ec.EllipticCurvePublicKey, hosts: tuple[str, ...], days: int, now: datetime
    ) -> x509.Certificate:
        """Sign a certificate, and keep a copy of it before anybody can use it."""
        _check_days(days)
        end = now + timedelta(days=days)
        if end > self.authority.not_valid_after_utc:
            left = (self.authority.not_valid_after_utc - now).days
            raise ConfigError(f"days: the authority itself ends in {left} days: ask for less, or found a new one")
        names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(identity.uri), *map(_host, hosts)]
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH]
        if identity.kind == "node":
            usages.append(ExtendedKeyUsageOID.SERVER_AUTH)  # a node accepts peers and clients, and connects to peers
        own = self.authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
        certificate = (
            _builder(public, x509.Name([]), self.authority.subject, now, end)
            .add_extension(x509.SubjectAlternativeName(names), critical=True)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own), critical=False)
            .sign(self._key(), hashes.SHA256())
        )
        _write_new(self._authority_folder / "issued" / f"{certificate.serial_number:x}.pem", _text(certificate))
        return certificate

    def _key(self) -> ec.EllipticCurvePrivateKey:
        path = self._authority_folder / "key.pem"
        try:
            key = serialization.load_pem_private_key(_read(path), password=None)
        except FileNotFoundError:
            raise ConfigError(f"{path} is not here: issue, renew and revoke where the authority's key is") from None
        except (TypeError, ValueError):
            raise ConfigError(f"{path} is no private key, or is encrypted") from None
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != self.authority.public_key():
            raise ConfigError(f"{path} is not the key of {self._authority_folder / 'certificate.pem'}")
        return key

    @staticmethod
    def _kept(folder: Path, old: x509.Certificate) -> ec.EllipticCurvePublicKey:
        """The public key of a certificate whose key stays. The private one may be on its machine only."""
        public = old.public_key()
        if not isinstance(public, ec.EllipticCurvePublicKey):
            raise ConfigError(f"{folder / 'certificate.pem'} has a key of another kind: renew with a new key")
        with contextlib.suppress(FileNotFoundError):
            try:
                key = serialization.load_pem_private_key(_read(folder / "key.pem"), password=None)
            except (TypeError, ValueError):
                raise ConfigError(f"{folder / 'key.pem'} is damaged: renew with a new key") from None
            if key.public_key() != public:
                raise ConfigError(f"{folder / 'key.pem'} belongs to another certificate: renew with a new key")
        return public

    def _existing(self, identity: Identity) -> Path:
        target = self.folder / identity.kind / identity.place
        if not target.is_dir():
            raise ConfigError(f"{target} is not here: `raftmeta pki {identity.kind} {identity.name}` makes it")
        return target

    def _issued(self) -> Iterator[x509.Certificate]:
        for path in sorted((self._authority_folder / "issued").glob("*.pem")):
            try:
                yield x509.load_pem_x509_certificate(_read(path))
            except ValueError as error:
                raise ConfigError(f"{path} is damaged: {error}") from None

    def _shown(self, certificate: x509.Certificate, revoked: set[int], now: datetime) -> Certificate:
        identity = Identity.of(certificate)
        start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
        state = "not yet valid" if now < start else "expired" if now > end else "valid"
        if identity is None:
            uri, kind, name, is_current = f"raftmeta://{quote(self.cluster, safe='')}", "authority", self.cluster, True
        else:
            uri, kind, name = identity.uri, identity.kind, identity.name
            is_current = _serial_in(self.folder / kind / identity.place) == certificate.serial_number
        return Certificate(
            uri=uri,
            kind=kind,
            name=name,
            serial=f"{certificate.serial_number:x}",
            hosts=_hosts_of(certificate),
            valid_from=start,
            valid_until=end,
            days_left=(end - now).days,
            state="revoked" if certificate.serial_number in revoked else state,
            is_current=is_current,
        )

    # --- the list of revoked certificates ----------------------------------------------------------------------------
    def _read_list(self) -> x509.CertificateRevocationList:
        path = self.folder / "revoked.pem"
        try:
            found = x509.load_pem_x509_crl(_read(path))
        except FileNotFoundError:
            raise ConfigError(f"{path} is not here: bring it back, or revoked certificates become valid") from None
        except ValueError as error:
            raise ConfigError(f"{path} is damaged: {error}") from None
        held = self.authority.public_key()
        if not isinstance(held, ec.EllipticCurvePublicKey) or not found.is_signature_valid(held):
            raise ConfigError(f"{path} was not signed by this authority")
        return found

    def _write_list(self, ended: list[int], now: datetime) -> None:
        """Add to the list, sign it, and lay it into each folder.

        The list ends with the authority: one that nobody replaced in time must not stop the cluster.
        """
        number, entries = 1, list[x509.RevokedCertificate]()
        if (self.folder / "revoked.pem").exists():
            old = self._read_list()
            number = old.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number + 1
            entries = list(old)
        for serial in ended:
            entries.append(x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now).build())
        own = self.authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self.authority.subject)
            .last_update(now - CLOCK_SKEW)
            .next_update(self.authority.not_valid_after_utc)
            .add_extension(x509.CRLNumber(number), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own), critical=False)
        )
        for entry in entries:
            builder = builder.add_revoked_certificate(entry)
        text = builder.sign(self._key(), hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        _replace(self.folder / "revoked.pem", text)
        for kind in ("node", "client"):
            for place in sorted((self.folder / kind).glob("[!.]*/")):
                _replace(place / "revoked.pem", text)


# --- parts of certificates --------------------------------------------------------------------------------------------


def _builder(
    public: ec.EllipticCurvePublicKey, subject: x509.Name, issuer: x509.Name, now: datetime, end: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(end)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _host(text: str) -> x509.GeneralName:
    with contextlib.suppress(ValueError):
        return x509.IPAddress(ipaddress.ip_address(text))
    if not HOST.fullmatch(text):
        raise ConfigError(f"host: {text!r} is neither an IP address nor a host name", field="host")
    return x509.DNSName(text)


def _hosts_of(certificate: x509.Certificate) -> tuple[str, ...]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    return (*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress)))


def _check_days(days: int) -> None:
    if not 1 <= days <= 36_500:
        raise ConfigError(f"days: must be from 1 to 36500, not {days}", field="days")


def _text(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_text(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


# --- files ------------------------------------------------------------------------------------------------------------


def _check_private(folder: Path) -> None:
    """Keys are in it: another user who may write it could put in keys of his own."""
    found = folder.lstat()
    if stat.S_ISLNK(found.st_mode) or not stat.S_ISDIR(found.st_mode):
        raise ConfigError(f"{folder} must be a folder and no symbolic link")
    if found.st_mode & 0o022 or found.st_uid not in (os.geteuid(), 0):
        raise ConfigError(f"{folder} may be written by other users: make it yours alone (chmod 700 {folder})")


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep other commands from the folder until this one ends."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read(path: Path) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        return file.read()


def _write_new(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _replace(path: Path, content: bytes) -> None:
    """Readers see the old file or the new one, whole."""
    making = path.with_name(f".{path.name}")
    making.unlink(missing_ok=True)  # of a command that was killed
    _write_new(making, content)
    making.replace(path)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _serial_in(folder: Path) -> int:
    """Of the certificate in the folder of a node or client; 0 if there is none."""
    with contextlib.suppress(FileNotFoundError, ValueError):
        return x509.load_pem_x509_certificate(_read(folder / "certificate.pem")).serial_number
    return 0
