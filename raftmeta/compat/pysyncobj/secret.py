"""A password as TLS: whoever knows it can make the certificate of a node, and nobody else can.

An authority's key is derived from the password, so all nodes have the same authority without having met. Each
node signs a certificate for a fresh key of its own. Sources: RFC 7914 (scrypt), RFC 5280 (certificates).
"""

from __future__ import annotations

import hashlib
import os
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

from raftmeta.security.settings import Tls

try:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID

    HAS_CRYPTO = True
except ImportError:
    HAS_CRYPTO = False

__all__ = ["HAS_CRYPTO", "Papers"]

SCRYPT = {"n": 2**15, "r": 8, "p": 1, "maxmem": 2**26}  # RFC 7914: 32 MiB and some 0.1 s a guess
SALT = b"raftmeta.compat.pysyncobj password 1"
ORDER_P256 = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551  # FIPS 186-4 D.1.2.3
DAYS = 3650
SKEW = timedelta(days=1)


class Papers:
    """The certificate, key and authority of one node, as files in a folder. identity: the URI that names it."""

    def __init__(self, password: str | bytes, identity: str, folder: Path) -> None:
        if not HAS_CRYPTO:
            raise ImportError("a password needs the package cryptography: pip install 'raftmeta[pki]'")
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._paths = [folder / name for name in ("certificate.pem", "key.pem", "authority.pem")]
        authority_key = ec.derive_private_key(_number(password), ec.SECP256R1())
        authority = _certificate("raftmeta password", authority_key.public_key(), authority_key, None)
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _certificate("raftmeta password", key.public_key(), authority_key, identity)
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        pem = serialization.Encoding.PEM
        for path, content in zip(
            self._paths, (certificate.public_bytes(pem), private, authority.public_bytes(pem)), strict=True
        ):
            path.unlink(missing_ok=True)
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(content)

    def tls(self) -> Tls:
        """For the engine."""
        certificate, key, authority = self._paths
        return Tls(certificate=certificate, key=key, authorities=authority)

    def context(self, *, is_server: bool) -> ssl.SSLContext:
        """For the service of this package, on either side."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if is_server else ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False  # the password says who is let in, an address does not
        context.verify_mode = ssl.CERT_REQUIRED
        certificate, key, authority = self._paths
        context.load_cert_chain(certificate, key)
        context.load_verify_locations(authority)
        return context


def _number(password: str | bytes) -> int:
    secret = password if isinstance(password, bytes) else password.encode()
    derived = hashlib.scrypt(secret, salt=SALT, dklen=48, **SCRYPT)
    return int.from_bytes(derived, "big") % (ORDER_P256 - 1) + 1


def _certificate(
    issuer: str, public: ec.EllipticCurvePublicKey, signer: ec.EllipticCurvePrivateKey, identity: str | None
) -> x509.Certificate:
    """identity: of a node; None: the authority's own certificate."""
    is_authority = identity is None
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, issuer)])
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(name if is_authority else x509.Name([]))
        .issuer_name(name)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + timedelta(days=DAYS))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=0 if is_authority else None), critical=True)
        .add_extension(_usage(is_authority), critical=True)
    )
    if identity is not None:
        uses = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = builder.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        builder = builder.add_extension(
            x509.SubjectAlternativeName([x509.UniformResourceIdentifier(identity)]), critical=True
        )
    return builder.sign(signer, hashes.SHA256())


def _usage(is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        encipher_only=False,
        decipher_only=False,
    )
