"""Who looks at the page: a session for each login, by a cookie, and one watcher for each principal.

The cluster decides what a visitor may do: every request of a session goes through the client of its principal, with the
rights of that user. This module decides who a request belongs to, and how long a session lasts.

A session is named by 256 random bits in a cookie that scripts cannot read. Only their hash is kept. A second secret,
the token that each change must carry in a header, is known to the page alone: a page of another origin can neither read
it nor send the header. While rights are off, anybody who reaches the page gets a session of nobody.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import secrets
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from raftmeta.dashboard.place import Place, Proof
from raftmeta.dashboard.reigns import Reigns
from raftmeta.dashboard.watcher import Watcher
from raftmeta.errors import AuthenticationFailed, Overloaded

__all__ = ["Visitor", "Visitors"]

SECRET_BYTES = 32
IDLE_S = 30 * 60.0
SESSION_S = 12 * 3600.0
VISITORS_MAX = 64
LOGINS_MAX = 4  # at a time
FAILED_LOGIN_S = 0.3  # before a wrong proof is answered
ANSWER_S = 5.0


@dataclass(slots=True)
class Visitor:
    """A session. user: "" for nobody. csrf: the token of its changes."""

    user: str
    watcher: Watcher
    principal: bytes
    csrf: str = field(default_factory=lambda: secrets.token_urlsafe(SECRET_BYTES))
    begun_s: float = field(default_factory=time.monotonic)
    used_s: float = field(default_factory=time.monotonic)
    streams: int = 0
    is_over: bool = False

    def is_current(self) -> bool:
        """False: it ended, was idle for too long, lasts too long, or the cluster refuses its principal."""
        now_s = time.monotonic()
        is_idle = not self.streams and now_s - self.used_s > IDLE_S
        return not (self.is_over or is_idle or now_s - self.begun_s > SESSION_S or self.watcher.refused)

    @contextlib.asynccontextmanager
    async def streaming(self) -> AsyncIterator[None]:
        """A page that listens is in use."""
        self.streams += 1
        try:
            yield
        finally:
            self.streams -= 1
            self.used_s = time.monotonic()


class Visitors:
    """All sessions, on one event loop. own: watches the cluster from the start, also while nobody looks."""

    def __init__(self, place: Place, own: Proof) -> None:
        self._place = place
        self._reigns = Reigns()
        self._known: dict[bytes, Visitor] = {}  # by the hash of the cookie
        self._watchers: dict[bytes, Watcher] = {}  # by the keyed hash of the proof
        self._key = secrets.token_bytes(SECRET_BYTES)
        self._logins = asyncio.Semaphore(LOGINS_MAX)
        self._closing: set[asyncio.Task[None]] = set()
        self._own_principal = self._name(own)
        self._watcher(own)

    # --- sessions -----------------------------------------------------------------------------------------------------
    def of(self, cookie: str) -> Visitor | None:
        """The session of a cookie; None: there is none, or none any more."""
        visitor = self._known.get(_hash(cookie))
        if visitor is None:
            return None
        if not visitor.is_current():
            self.end(visitor)
            return None
        visitor.used_s = time.monotonic()
        return visitor

    async def login(self, proof: Proof) -> tuple[Visitor, str]:
        """A session for a proof that the cluster takes, and its cookie. Raises RaftmetaError of the first look.

        A proof of nothing is taken while rights are off. The certificate of the dashboard never counts as a proof.
        """
        if self._logins.locked():
            raise Overloaded("too many logins at a time")
        async with self._logins:
            self._make_room()
            name = self._name(proof)
            watcher = self._watchers.get(name)
            watcher = None if watcher is not None and watcher.refused else watcher
            client = self._place.client(proof) if watcher is None else watcher.client
            try:
                status = await client.auth.status(timeout_s=ANSWER_S)
                if proof.is_nothing and status.is_enabled:
                    raise AuthenticationFailed("rights are on: log in")
            except AuthenticationFailed:
                if not proof.is_nothing:
                    await asyncio.sleep(FAILED_LOGIN_S)
                raise
            finally:
                if watcher is None:
                    await client.close()
            visitor = Visitor("" if proof.is_nothing else status.user, self._watcher(proof), name)
            cookie = secrets.token_urlsafe(SECRET_BYTES)
            self._known[_hash(cookie)] = visitor
            return visitor, cookie

    def end(self, visitor: Visitor) -> None:
        """Forget a session; its watcher goes with the last session of its principal."""
        visitor.is_over = True
        self._known = {cookie: one for cookie, one in self._known.items() if one is not visitor}
        used = {one.principal for one in self._known.values()} | {self._own_principal}
        for name in self._watchers.keys() - used:
            self._close(self._watchers.pop(name))

    def _make_room(self) -> None:
        for visitor in list(self._known.values()):
            if not visitor.is_current():
                self.end(visitor)
        if len(self._known) >= VISITORS_MAX:
            idle = [one for one in self._known.values() if not one.streams]
            if not idle:
                raise Overloaded(f"{VISITORS_MAX} sessions look at the page")
            self.end(min(idle, key=lambda one: one.used_s))

    # --- watchers -----------------------------------------------------------------------------------------------------
    def _name(self, proof: Proof) -> bytes:
        words = [word or "" for word in (proof.user, proof.password, proof.token)]
        text = "".join(f"{len(word)}:{word}" for word in words)
        return hmac.digest(self._key, text.encode("utf-8", "surrogatepass"), "sha256")

    def _watcher(self, proof: Proof) -> Watcher:
        name = self._name(proof)
        watcher = self._watchers.get(name)
        if watcher is not None and watcher.refused is None:
            return watcher
        if watcher is not None:
            self._close(watcher)
        watcher = self._watchers[name] = Watcher(self._place, proof, self._reigns)
        watcher.start()
        return watcher

    def _close(self, watcher: Watcher) -> None:
        task = asyncio.create_task(watcher.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """End all sessions, and close all clients."""
        for visitor in self._known.values():
            visitor.is_over = True
        for watcher in self._watchers.values():
            self._close(watcher)
        await asyncio.gather(*self._closing, return_exceptions=True)


def _hash(cookie: str) -> bytes:
    return hashlib.sha256(cookie.encode("utf-8", "surrogatepass")).digest()
