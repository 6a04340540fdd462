"""Who asks: one client of the cluster for each proof that requests bring.

A request proves a token (`Authorization: Bearer TOKEN`), a password (`Authorization: Basic ...`), or nothing. The node
decides what each of them may do, as it does for every client: this module only keeps the clients, so that a request
need not prove anew. A proof that the node refuses is not kept.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import AsyncIterator

from raftmeta.aio import Client
from raftmeta.errors import AuthenticationFailed, InvalidArgument, PermissionDenied, RaftmetaError

__all__ = ["Principal", "Principals"]

PRINCIPALS_MAX = 256
PROOF_PAUSE_S = 1.0
PROOF_S = 2.0
SILENT_S = 3.0  # without a proof that a majority hears the node, until streams end
PROOF_KEY = "_raftmeta/rest/alive"
_LOG = logging.getLogger(__name__)


class Principal:
    """The client of one proof, and who uses it."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.uses = 0
        self._streams = 0
        self._proved_s = 0.0
        self._proving: asyncio.Task[None] | None = None

    @property
    def is_heard(self) -> bool:
        """Whether a majority certainly heard the node a moment ago."""
        return time.monotonic() - self._proved_s < SILENT_S

    @property
    def is_used(self) -> bool:
        return bool(self.uses or self._streams)

    @contextlib.asynccontextmanager
    async def streaming(self) -> AsyncIterator[None]:
        """While somebody is told changes, the node proves again and again that a majority hears it."""
        self._streams += 1
        if self._proving is None:
            self._proved_s = time.monotonic()
            self._proving = asyncio.create_task(self._prove())
        try:
            yield
        finally:
            self._streams -= 1

    async def _prove(self) -> None:
        try:
            while self._streams:
                try:
                    await self.client.get(PROOF_KEY, timeout_s=PROOF_S)
                    self._proved_s = time.monotonic()
                except PermissionDenied:
                    self._proved_s = time.monotonic()  # a leader said so
                except RaftmetaError as error:
                    _LOG.info("rest stream not proved reason=%s", error)
                await asyncio.sleep(PROOF_PAUSE_S)
        finally:
            self._proving = None

    async def close(self) -> None:
        if self._proving is not None:
            self._proving.cancel()
        await self.client.close()


class Principals:
    """All of them, on one event loop. url, cluster: of the node."""

    def __init__(self, url: str, cluster: str) -> None:
        self._url = url
        self._cluster = cluster
        self._known: OrderedDict[str, Principal] = OrderedDict()
        self._closing: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def of(self, authorization: str) -> AsyncIterator[Principal]:
        """The principal of a header Authorization, for one request. Raises InvalidArgument, AuthenticationFailed."""
        name = hashlib.sha256(authorization.encode()).hexdigest() if authorization else ""
        principal = self._known.get(name)
        if principal is None:
            principal = self._known[name] = Principal(self._client(authorization))
            self._forget_oldest()
        self._known.move_to_end(name)
        principal.uses += 1
        try:
            yield principal
        except AuthenticationFailed:
            if self._known.get(name) is principal:
                self._close(name)
            raise
        finally:
            principal.uses -= 1

    def _client(self, authorization: str) -> Client:
        kind, _, proof = authorization.partition(" ")
        if not authorization:
            return Client(self._url, cluster=self._cluster, name="rest")
        if kind.lower() == "bearer" and proof:
            return Client(self._url, cluster=self._cluster, name="rest", token=proof.strip())
        if kind.lower() != "basic":
            raise InvalidArgument("Authorization: must be Bearer TOKEN or Basic", field="Authorization")
        try:
            user, _, password = base64.b64decode(proof, validate=True).decode().partition(":")
        except (ValueError, binascii.Error):
            raise InvalidArgument("Authorization: the password is no base64", field="Authorization") from None
        return Client(self._url, cluster=self._cluster, name="rest", user=user, password=password)

    def _forget_oldest(self) -> None:
        """Close clients that nobody uses now."""
        too_many = max(0, len(self._known) - PRINCIPALS_MAX)
        for name in [name for name, one in self._known.items() if not one.is_used][:too_many]:
            self._close(name)

    def _close(self, name: str) -> None:
        task = asyncio.create_task(self._known.pop(name).close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Close every client."""
        for name in list(self._known):
            self._close(name)
        await asyncio.gather(*self._closing, return_exceptions=True)
