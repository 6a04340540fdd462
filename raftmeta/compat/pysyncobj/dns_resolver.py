"""Host names to addresses, kept for a time. Programs ask it; the engine resolves the names of peers by itself."""

from __future__ import annotations

import logging
import random
import socket
from time import monotonic as monotonicTime

__all__ = ["DnsCachingResolver", "globalDnsResolver"]

log = logging.getLogger(__name__)
_FAMILIES = {"ipv4": socket.AF_INET, "ipv6": socket.AF_INET6}


class DnsCachingResolver:
    """cacheTime, failCacheTime: for how many seconds an answer counts, and an answer without an address."""

    def __init__(self, cacheTime: float, failCacheTime: float) -> None:
        self._found: dict[str, tuple[float, list[str]]] = {}
        self._family: int | None = socket.AF_INET
        self.setTimeouts(cacheTime, failCacheTime)

    def setTimeouts(self, cacheTime: float, failCacheTime: float) -> None:
        self._seconds = {True: cacheTime, False: failCacheTime}

    def setPreferredAddrFamily(self, preferredAddrFamily: str | int | None) -> None:
        """ "ipv4", "ipv6", a family of the module socket, or None for any."""
        if isinstance(preferredAddrFamily, str):
            preferredAddrFamily = _FAMILIES[preferredAddrFamily]
        self._family = preferredAddrFamily

    def resolve(self, hostname: str) -> str | None:
        """One of the addresses, None without one. A name that is not found any more keeps its old addresses."""
        now = monotonicTime()
        at, addresses = self._found.get(hostname, (None, []))
        if at is None or now - at > self._seconds[bool(addresses)]:
            addresses = self._look_up(hostname) or addresses
            self._found[hostname] = (now, addresses)
        return random.choice(addresses) if addresses else None

    def _look_up(self, hostname: str) -> list[str]:
        try:
            found = socket.getaddrinfo(hostname, None)
        except OSError as error:
            log.warning("host not resolved name=%s error=%s", hostname, error)
            return []
        preferred = {str(one[4][0]) for one in found if self._family in (None, one[0])}
        return sorted(preferred or {str(one[4][0]) for one in found})


_resolver = DnsCachingResolver(600.0, 30.0)


def globalDnsResolver() -> DnsCachingResolver:
    """The resolver of this process."""
    return _resolver
