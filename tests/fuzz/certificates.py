"""Certificates for the targets of TLS, fresh in each process: no private key stands in the repository."""

from __future__ import annotations

import tempfile
from pathlib import Path

from raftmeta.security.pki import Pki
from tests.faces.fuzz_tls import use

CLUSTER = "fuzz"


def prepare() -> None:
    """Let the targets whose name begins with tls_ run in this process."""
    with tempfile.TemporaryDirectory() as folder:
        place = Pki.found(Path(folder) / "pki", CLUSTER).issue("node", "a")
        words = ("certificate.pem", "key.pem", "authorities.pem")
        certificate, key, authorities = ((place / word).read_bytes() for word in words)
        use(certificate, key, authorities, CLUSTER.encode())
