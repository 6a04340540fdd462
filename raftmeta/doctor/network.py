"""The addresses of a cluster as this host sees them: names, the own address, who is reached, and who reaches us.

It opens connections and closes them without a byte. A node that is asked so counts a connection, and nothing else.
"""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import socket
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from raftmeta.config import Address, Config, Identity
from raftmeta.doctor.findings import Finding

__all__ = ["check_addresses", "check_reach"]

CONNECT_S = 3.0
SLOW_NAME_S = 1.0
# Round trips between leader and members must be far shorter than an election time-out (paper 5.6).
TRIPS_OF_TIMEOUT = 10


@dataclass(frozen=True, slots=True)
class _Resolved:
    """The answer to a name. hosts: numeric addresses; none: `failure` says why."""

    hosts: tuple[str, ...]
    took_s: float
    failure: str = ""


def _resolve(address: Address) -> _Resolved:
    began = time.monotonic()
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except OSError as error:
        return _Resolved((), time.monotonic() - began, error.strerror or str(error))
    hosts = dict.fromkeys(str(place[4][0]) for place in found)
    return _Resolved(tuple(hosts), time.monotonic() - began)


def _is_loopback(host: str) -> bool:
    return ipaddress.ip_address(host.split("%")[0]).is_loopback


def check_addresses(identity: Identity) -> Iterator[Finding]:
    """Whether each name leads somewhere, and the own one to a place where others find it."""
    everyone: dict[str, Address] = {**identity.peers, identity.name: identity.advertise}
    with ThreadPoolExecutor(len(everyone)) as pool:
        resolved = dict(zip(everyone, pool.map(_resolve, everyone.values()), strict=True))
    wrong = [_name_finding(name, everyone[name], found) for name, found in resolved.items()]
    yield from (finding for finding in wrong if finding is not None)
    own = resolved[identity.name].hosts
    others = [name for name, found in resolved.items() if name != identity.name and found.hosts]
    far = [name for name in others if not any(map(_is_loopback, resolved[name].hosts))]
    if own and far and all(map(_is_loopback, own)):
        yield Finding(
            "addresses",
            "failure",
            f"the others are told to find {identity.name} at {identity.advertise}, which is {own[0]} here: only this "
            "machine reaches that",
            "advertise a name or address of this host's network; Debian's /etc/hosts has its own name at 127.0.1.1",
        )
    elif not any(wrong):
        yield Finding("addresses", "ok", f"all {len(everyone)} names lead to addresses")


def _name_finding(name: str, address: Address, found: _Resolved) -> Finding | None:
    if not found.hosts:
        return Finding(
            "addresses",
            "failure",
            f"{name}: {address.host} has no address: {found.failure}",
            "correct the name, or enter it in DNS or /etc/hosts",
        )
    if found.took_s > SLOW_NAME_S:
        return Finding(
            "addresses",
            "warning",
            f"{name}: it took {found.took_s:.1f} s to look up {address.host}",
            "find out which name server does not answer (/etc/resolv.conf)",
        )
    return None


# --- both ways --------------------------------------------------------------------------------------------------------


def check_reach(identity: Identity, config: Config, wait_s: float) -> Iterator[Finding]:
    """Connect to each peer, and wait at the own address for connections of them."""
    peers = {name: address for name, address in identity.peers.items() if name != identity.name}
    listener, finding = _listen(identity.listen)
    yield finding
    if not peers:
        if listener is not None:
            listener.close()
        return
    with ThreadPoolExecutor(len(peers) + 1) as pool:
        came = None if listener is None else pool.submit(_sources, listener, wait_s)
        asked = {name: pool.submit(_reach_finding, name, address, config) for name, address in peers.items()}
        for task in asked.values():
            yield task.result()
        if came is not None:
            yield from _source_findings(came.result(), peers, wait_s)


def _listen(address: Address) -> tuple[socket.socket | None, Finding]:
    try:
        place = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]  # fmt: skip
        listener = socket.create_server(place[4][:2], family=place[0], backlog=64)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return None, Finding(
                "listen",
                "unknown",
                f"a program listens at {address} already; this check cannot see who reaches it",
                "if it is this node: `raftmeta status` tells its connections; else end the program",
            )
        advice = "listen at an address of this host (--listen 0.0.0.0:PORT), and advertise the one that others use"
        return None, Finding("listen", "failure", f"nothing can listen at {address}: {error.strerror}", advice)
    return listener, Finding("listen", "ok", f"a node can listen at {address}")


def _sources(listener: socket.socket, wait_s: float) -> set[str]:
    """The hosts that connected within the time."""
    found: set[str] = set()
    ends = time.monotonic() + wait_s
    with listener:
        while (left_s := ends - time.monotonic()) > 0:
            listener.settimeout(left_s)
            with contextlib.suppress(OSError):
                connection, source = listener.accept()
                connection.close()
                found.add(str(source[0]).removeprefix("::ffff:"))
    return found


def _reach_finding(name: str, address: Address, config: Config) -> Finding:
    began = time.monotonic()
    try:
        socket.create_connection((address.host, address.port), timeout=CONNECT_S).close()
    except ConnectionRefusedError:
        return Finding(
            "reach",
            "warning",
            f"{name}: the host of {address} answers, but nothing listens there",
            "start its node, or run this check there at the same time",
        )
    except socket.gaierror:
        return Finding("reach", "unknown", f"{name}: {address.host} has no address")
    except TimeoutError:
        return Finding(
            "reach",
            "failure",
            f"{name}: no answer of {address} within {CONNECT_S:.0f} s",
            "find out whether the host runs, and whether a firewall drops packets on the way",
        )
    except OSError as error:
        return Finding(
            "reach", "failure", f"{name}: {address} is not reached: {error.strerror}", "mend the route to that host"
        )
    took_s = time.monotonic() - began
    told = f"{name}: {address} accepts connections, after {took_s * 1000:.1f} ms"
    if took_s * TRIPS_OF_TIMEOUT > config.election_timeout_s:
        return Finding(
            "reach",
            "warning",
            f"{told}; an election begins after {config.election_timeout_s * 1000:.0f} ms without a heartbeat",
            "set election_timeout_s and heartbeat_s to more on all members",
        )
    return Finding("reach", "ok", told)


def _source_findings(came: set[str], peers: Mapping[str, Address], wait_s: float) -> Iterator[Finding]:
    """Who was seen. Peers with the same addresses cannot be told apart."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for name, address in peers.items():
        groups.setdefault(_resolve(address).hosts, []).append(name)
    for hosts, names in groups.items():
        told = " or ".join(names)
        if seen := came.intersection(hosts):
            yield Finding("reached by", "ok", f"{told}: connections came from {', '.join(sorted(seen))}")
        elif hosts:
            yield Finding(
                "reached by",
                "warning",
                f"{told}: nothing came from {', '.join(hosts)} within {wait_s:.0f} s",
                "run this check there at the same time; if it still sees nothing, look at firewalls on the way here",
            )
