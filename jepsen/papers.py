"""Certificates, keys and passwords of a secure run, as files that its processes read: jepsen/nemeses/certificates.py
changes them while the run goes on.

    papers = Papers(folder, cluster="jepsen", nodes=["n1", "n2"], clients=["c1"])
    papers.tls("node", "n1")          the paths for raftmeta.Tls
    papers.renew("node", "n1")        the files change; who reads them finds the new certificate

An authority is a raftmeta.security.pki.Pki. There is one; while it is replaced there are two. Each node and client has
a folder with its certificate, its key, the authorities and the lists of revoked certificates. Files are replaced whole.

It never decides when something changes, and never looks whether anybody has noticed.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

from cryptography import x509

import raftmeta
from raftmeta.security.pki import Kind, Pki

DAYS = (100, 300)  # of a certificate; drawn, so that each has an end of its own
STRANGER = "stranger"  # the user without any right, and the client that asks as this user
SESSION_NAME = "jepsen"  # that sessions with ZooKeeper doors prove by SASL


class Papers:
    """Any thread may call it. turn: is held by who changes them for a while.

    nodes, clients: names that get a certificate. users: that get a password.
    """

    def __init__(
        self,
        folder: Path,
        *,
        cluster: str,
        nodes: Iterable[str],
        clients: Iterable[str],
        users: Iterable[str],
        seed: int,
    ) -> None:
        """Make them all, in a folder that is there."""
        self._folder = folder
        self._cluster = cluster
        self._random = Random(f"{seed} papers")
        self._lock = threading.RLock()
        self.turn = threading.Lock()  # of a nemesis that changes what the others rely on
        self._authorities: list[Pki] = []
        self._founded = 0
        self._held: list[tuple[Kind, str]] = [
            *(("node", name) for name in nodes),
            *(("client", name) for name in clients),
        ]
        self._keys = [raftmeta.Encryption.new_key().hex()]
        self._found()
        for kind, name in self._held:
            self._place(kind, name).mkdir(parents=True, mode=0o700)
            self._authorities[0].issue(kind, name, days=self._days())
            self._lay(kind, name)
        self._write_keys()
        self.passwords = {user: secrets.token_urlsafe(12) for user in (*users, STRANGER)}
        self.password_file = folder / "passwords.json"
        self.password_file.touch(mode=0o600)
        self.password_file.write_text(json.dumps(self.passwords))
        self.login = (SESSION_NAME, secrets.token_urlsafe(12))
        self.login_file = folder / "login"
        self.login_file.touch(mode=0o600)
        self.login_file.write_text(":".join(self.login))

    @property
    def key_file(self) -> Path:
        """For raftmeta.Encryption. All nodes of a cluster have the same keys."""
        return self._folder / "keys"

    def tls(self, kind: Kind, name: str) -> dict[str, str]:
        """The settings of raftmeta.Tls: where the files of this node or client are."""
        place = self._place(kind, name)
        return {word: str(place / f"{word}.pem") for word in ("certificate", "key", "authorities", "revoked")}

    def ends_s(self, kind: Kind, name: str) -> int:
        """When the certificate ends that is there now, in seconds since 1970."""
        with self._lock:
            text = (self._place(kind, name) / "certificate.pem").read_bytes()
        return int(x509.load_pem_x509_certificate(text).not_valid_after_utc.timestamp())

    # --- certificates -------------------------------------------------------------------------------------------------
    def renew(self, kind: Kind, name: str) -> None:
        """Another certificate with the same name; about every second time with another key."""
        with self._lock:
            has_new_key = self._random.random() < 0.5
            self._authorities[-1].renew(kind, name, days=self._days(), has_new_key=has_new_key)
            self._lay(kind, name)

    def let_expire(self, name: str) -> None:
        """A certificate of this node that has ended a second ago."""
        with self._lock:
            begun = datetime.now(UTC) - timedelta(days=1, seconds=1)
            self._authorities[-1].renew("node", name, days=1, now=begun)
            self._lay("node", name)

    def revoke(self, kind: Kind, name: str) -> None:
        """Put its certificates on the list of the authority that signed them; everybody gets the list."""
        with self._lock:
            for authority in self._authorities:
                if any(
                    one.name == name and one.kind == kind and one.state == "valid" for one in authority.certificates()
                ):
                    authority.revoke(kind, name)
            self._lay_all()

    def readmit(self, kind: Kind, name: str) -> None:
        """After revoke: a new key and a new certificate for the same name. Nothing, if it has a valid one."""
        with self._lock:
            self._issue(kind, name)
            self._lay(kind, name)

    # --- authorities --------------------------------------------------------------------------------------------------
    def begin_authority(self) -> None:
        """Found another authority; everybody trusts both, and has a certificate of the one before."""
        with self._lock:
            self._found()
            self._lay_all()

    def sign_anew(self) -> None:
        """Everybody gets a certificate of the newest authority."""
        with self._lock:
            for kind, name in self._held:
                self._issue(kind, name)
            self._lay_all()

    def end_authority(self) -> None:
        """Nobody trusts any but the newest authority, which has signed for everybody."""
        with self._lock:
            self.sign_anew()
            del self._authorities[:-1]
            self._lay_all()

    # --- keys of encryption -------------------------------------------------------------------------------------------
    def add_key(self) -> str:
        """A new key stands behind the first one: nodes can read with it. Its id."""
        with self._lock:
            key = raftmeta.Encryption.new_key()
            self._keys.insert(1, key.hex())
            self._write_keys()
            return raftmeta.Encryption.key_id(key)

    def use_key(self) -> None:
        """The key that was added last is the first one: new files are written with it."""
        with self._lock:
            self._keys[:2] = self._keys[1::-1]
            self._write_keys()

    # ------------------------------------------------------------------------------------------------------------------
    def _found(self) -> None:
        self._founded += 1
        self._authorities.append(Pki.found(self._folder / f"authority-{self._founded}", self._cluster))

    def _issue(self, kind: Kind, name: str) -> None:
        if not (self._authorities[-1].folder / kind / name).exists():
            self._authorities[-1].issue(kind, name, days=self._days())

    def _days(self) -> int:
        return self._random.randint(*DAYS)

    def _place(self, kind: Kind, name: str) -> Path:
        return self._folder / "live" / f"{kind}-{name}"

    def _lay_all(self) -> None:
        for kind, name in self._held:
            self._lay(kind, name)

    def _lay(self, kind: Kind, name: str) -> None:
        """Lay out what this one reads: of the newest authority that has a certificate for it, else what it had."""
        place = self._place(kind, name)
        for authority in reversed(self._authorities):
            source = authority.folder / kind / name
            if source.exists():
                for file in ("key.pem", "certificate.pem"):
                    _replace(place / file, (source / file).read_bytes())
                break
        both = [authority.folder for authority in self._authorities]
        _replace(
            place / "authorities.pem", b"".join((one / "authority" / "certificate.pem").read_bytes() for one in both)
        )
        _replace(place / "revoked.pem", b"".join((one / "revoked.pem").read_bytes() for one in both))

    def _write_keys(self) -> None:
        _replace(self.key_file, "".join(f"{key}\n" for key in self._keys).encode())


def _replace(path: Path, content: bytes) -> None:
    """Readers see the old file or the new one. One that stays the same is not touched."""
    if path.exists() and path.read_bytes() == content:
        return
    making = path.with_name(f".{path.name}")
    making.touch(mode=0o600)
    making.write_bytes(content)
    making.rename(path)
