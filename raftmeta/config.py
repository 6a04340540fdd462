"""The settings of a node: one frozen Config, validated once, in seconds and bytes.

It decides ranges and relations between settings. It never reads a file or an environment variable, and nothing below
it validates a setting again.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from raftmeta.errors import ConfigError

__all__ = ["Address", "Config", "Identity", "check_name"]

NAME_BYTES_MAX = 64  # FORMAT_: raft/types.pxd
ADDRESS_BYTES_MAX = 255
MEMBERS_MAX = 32

_KIB = 1024
_MIB = 1024 * _KIB
_GIB = 1024 * _MIB

# field: (lowest, highest), both allowed.
_RANGES: dict[str, tuple[float, float]] = {
    "tick_s": (0.001, 1.0),
    "heartbeat_s": (0.001, 60.0),
    "election_timeout_s": (0.005, 600.0),
    "value_bytes_max": (1, 4 * _MIB),
    "history_bytes_max": (_MIB, 64 * _GIB),
    "segment_bytes": (64 * _KIB, _GIB),
    "wal_bytes_max": (4 * 64 * _KIB, 1024 * _GIB),
    "reserve_bytes": (0, _GIB),
    "log_memory_bytes_max": (_MIB, 16 * _GIB),
    "append_bytes_max": (4 * _KIB, 4 * _MIB),
    "inflight_bytes_max": (64 * _KIB, _GIB),
    "uncommitted_bytes_max": (_MIB, 16 * _GIB),
    "snapshot_log_bytes": (16 * _KIB, 64 * _GIB),
    "snapshot_entries": (100, 1_000_000_000),
    "session_ttl_s": (1.0, 86400.0),
    "session_window": (16, 1_000_000),
    "outstanding_max": (1, 1_000_000),
    "watch_queue_bytes_max": (64 * _KIB, 4 * _GIB),
    "apply_slice_s": (0.0001, 0.1),
    "link_queue_bytes_max": (_MIB, 4 * _GIB),
    "unbound_connections_max": (1, 10_000),
    "hello_timeout_s": (0.1, 60.0),
    "reconnect_min_s": (0.001, 10.0),
    "reconnect_max_s": (0.001, 600.0),
    "close_timeout_s": (0.1, 600.0),
    "host_watchdog_s": (0.0, 3600.0),
    "flight_recorder_bytes": (0, 256 * _MIB),
    "client_connections_max": (1, 1_000_000),
    "client_unbound_connections_max": (1, 1_000_000),
    "client_unbound_per_address_max": (1, 1_000_000),
    "client_bytes_max": (_MIB, 64 * _GIB),
    "client_memory_bytes_max": (4 * _MIB, 64 * _GIB),
    "client_idle_s": (0.1, 3600.0),
    "principal_requests_per_s": (0, 1_000_000_000),
    "principal_write_bytes_per_s": (0, 1024 * _GIB),
    "principal_burst_s": (0.01, 60.0),
    "principal_bytes_max": (0, 64 * _GIB),
    "principal_connections_max": (0, 1_000_000),
    "principal_watches_max": (0, 100_000_000),
    "principal_leases_max": (0, 100_000_000),
    "principal_sessions_max": (0, 1_000_000),
    "zookeeper_tick_s": (0.05, 60.0),
    "zookeeper_connections_max": (1, 1_000_000),
    "zookeeper_watches_max": (1, 100_000_000),
    "kafka_connections_max": (1, 1_000_000),
    "etcd_connections_max": (1, 1_000_000),
    "etcd_progress_s": (0.1, 86_400.0),
    "kafka_session_min_s": (0.1, 3600.0),
    "kafka_session_max_s": (1.0, 86_400.0),
    "kafka_initial_delay_s": (0.0, 300.0),
    "kafka_consumer_session_s": (0.1, 3600.0),
    "kafka_consumer_beat_s": (0.01, 600.0),
}
_TEXT_BYTES_MAX = 4096
_ROOT_BYTES_MAX = 64
_PREFIX_BYTES_MAX = 256
_WORDS = frozenset(
    ("ruok", "srvr", "stat", "mntr", "conf", "cons", "envi", "isro", "wchs", "wchc", "wchp", "dump", "dirs")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Settings of one node. Members may differ in them: the effect of an entry never depends on a setting.

    tick_s: how often the node looks at its timers.
    heartbeat_s, election_timeout_s: the others replace a leader that is silent for a time drawn from
        [election_timeout_s, twice that). The heartbeat must be well below the time-out (paper 5.6).
    value_bytes_max: the largest value that callers of this node may put.
    history_bytes_max: the history that past reads and resumed watches answer from; the leader's setting counts.
    segment_bytes, wal_bytes_max, reserve_bytes: one file of the log, all of them, and the part kept free for votes,
        changes of membership and compaction when the disk is full.
    log_memory_bytes_max: applied entries kept in memory for slower members.
    append_bytes_max, inflight_bytes_max, uncommitted_bytes_max: one message, the unanswered messages of one member,
        and the leader's entries without a commit.
    snapshot_log_bytes, snapshot_entries (cluster): the node takes a snapshot after so many bytes of log (at most a
        quarter of wal_bytes_max), or so many entries. After a crash a start applies at most as much again. The node
        keeps the log back to the snapshot before: members that are no further behind need no snapshot. Members that
        differ here work, but cannot go on with each other's transfers.
    session_ttl_s, session_window: how long the cluster keeps the results of a silent node, and how many.
    outstanding_max: operations of this node under way before Overloaded; at most session_window.
    watch_queue_bytes_max: events waiting for one watcher before it has lagged.
    apply_slice_s: the longest the node applies without looking at the network.
    link_queue_bytes_max: bytes waiting for one peer's connection before frames are dropped.
    unbound_connections_max, hello_timeout_s: connections of peers that have not said who they are, and for how long a
        connection of a peer or client may do so. Half of them may be from one address.
    reconnect_min_s, reconnect_max_s: pause between attempts to reach a peer.
    host_watchdog_s: keep this node's leases alive only while Python ran in this process within that time. A hung host
        loses its place, at most that time and the lease's ttl later. 0: keep them alive whatever the host does.
    leases_end_with_process: end this node's leases as soon as its process is provably gone (docs/leases.md "When the
        process is gone"). Without it they stay until their time is over.
    flight_recorder_bytes: size of the file in the folder that keeps what the node saw last, for `raftmeta explain`
        (docs/explain.md): 64 KiB or more. 0: nothing is recorded.
    close_timeout_s: how long close() takes at most. A quarter of it may go to leaving groups and elections, another
        one to the wait for a new leader, and the rest belongs to the disk.
    local_clients: serve clients of this machine on a Unix socket in the folder, for this user only.
    client_connections_max, client_bytes_max: clients connected at once, and the bytes of their requests under way
        before Overloaded.
    client_unbound_connections_max, client_unbound_per_address_max: of those, connections that have not proved who they
        are, of all and of one address. An IPv6 network of 64 bits is one address.
    client_memory_bytes_max: answers and events that wait until clients read them, of all clients together; half for
        each. Every connection has a share. The node does not serve one above its share until it reads; its watches lag.
    client_idle_s: the node asks a client that is silent for so long whether it lives, and disconnects one that does
        not read for so long.
    principal_requests_per_s, principal_write_bytes_per_s, principal_burst_s: requests of one principal, and bytes of
        its commands, before QuotaExceeded; and for how many seconds it may save up. A principal is a user, or the
        address of clients that prove no name. Each node counts for itself. 0: no bound.
    principal_bytes_max, principal_connections_max, principal_watches_max, principal_leases_max, principal_sessions_max:
        what one principal may have at once: bytes of requests under way, connections, watches, leases and sessions. A
        session may keep session_window results. 0: no bound.
    rights_required: serve no client while the cluster's rights are off. Set it before the founding, and no client can
        do anything before there is an admin (docs/security.md "The first admin").
    zookeeper_root (cluster): the prefix of the keys that ZooKeeper's clients see as a tree: the node /a is the key
        zookeeper/a. Without a slash, at most 64 bytes.
    zookeeper_tick_s: sessions of ZooKeeper's clients last 2 to 20 of them, as they ask.
    zookeeper_linearizable_reads: reads of ZooKeeper's clients ask the leader first. ZooKeeper's own do not.
    zookeeper_extended_types: ZooKeeper's clients may make nodes with a time to live.
    zookeeper_connections_max, zookeeper_watches_max: of ZooKeeper's clients on this node, all together.
    zookeeper_words: the words of four letters that are answered, with commas between, or "*".
    zookeeper_super_digest: "super:" and the digest of a password: who proves it may do everything in the tree.
    zookeeper_users_file: users of SASL DIGEST-MD5, one "name:password" a line; read at the start.
    kafka_connections_max: of Kafka's clients on this node, all together.
    kafka_session_min_s, kafka_session_max_s: the session time-outs that members of groups may ask for.
    kafka_initial_delay_s: so long the first member of a group waits for others.
    kafka_consumer_session_s, kafka_consumer_beat_s: how long a member of a consumer group (KIP-848) lives without a
    heartbeat, and how often it is told to send one.
    etcd_connections_max: of etcd's clients on this node, all together.
    etcd_progress_s: a watch of etcd with progress_notify gets a mark after so long without an event.
    etcd_prefix: etcd's clients see only keys that begin so, and without it; empty: all keys. At most 256 bytes.
    lease_reads: serve reads from the leader's lease instead of a round. Trusts the clocks' rates; off by default.
    checks: also check the costly invariants; for tests.
    insecure: allow listening on an address that other machines reach, without encryption and authentication. A node
        with TLS needs it only for Tls.accept_plain.
    """

    tick_s: float = 0.010
    heartbeat_s: float = 0.050
    election_timeout_s: float = 0.300
    value_bytes_max: int = _MIB
    history_bytes_max: int = 64 * _MIB
    segment_bytes: int = 64 * _MIB
    wal_bytes_max: int = 4 * _GIB
    reserve_bytes: int = 4 * _MIB
    log_memory_bytes_max: int = 16 * _MIB
    append_bytes_max: int = 256 * _KIB
    inflight_bytes_max: int = 8 * _MIB
    uncommitted_bytes_max: int = 64 * _MIB
    snapshot_log_bytes: int = 256 * _MIB  # several times the history, which steady writes make new between two
    snapshot_entries: int = 2_000_000  # of the smallest puts 200 MB; a start applies them in a second
    session_ttl_s: float = 60.0
    session_window: int = 16_384
    outstanding_max: int = 16_384
    watch_queue_bytes_max: int = 16 * _MIB
    apply_slice_s: float = 0.002
    link_queue_bytes_max: int = 64 * _MIB
    unbound_connections_max: int = 64
    hello_timeout_s: float = 5.0
    reconnect_min_s: float = 0.010
    reconnect_max_s: float = 1.0
    close_timeout_s: float = 10.0
    host_watchdog_s: float = 0.0
    flight_recorder_bytes: int = _MIB
    leases_end_with_process: bool = True
    client_connections_max: int = 10_000
    client_unbound_connections_max: int = 1024
    client_unbound_per_address_max: int = 256
    client_bytes_max: int = 64 * _MIB
    client_memory_bytes_max: int = 256 * _MIB
    client_idle_s: float = 10.0
    principal_requests_per_s: int = 0
    principal_write_bytes_per_s: int = 0
    principal_burst_s: float = 1.0
    principal_bytes_max: int = 0
    principal_connections_max: int = 0
    principal_watches_max: int = 0
    principal_leases_max: int = 0
    principal_sessions_max: int = 0
    zookeeper_root: str = "zookeeper"
    zookeeper_tick_s: float = 2.0
    zookeeper_connections_max: int = 10_000
    zookeeper_watches_max: int = 2_000_000
    zookeeper_words: str = "*"
    zookeeper_super_digest: str = ""
    zookeeper_users_file: str = ""
    zookeeper_linearizable_reads: bool = False
    zookeeper_extended_types: bool = False
    kafka_connections_max: int = 10_000
    kafka_session_min_s: float = 6.0
    kafka_session_max_s: float = 1800.0
    kafka_initial_delay_s: float = 3.0
    kafka_consumer_session_s: float = 45.0
    kafka_consumer_beat_s: float = 5.0
    etcd_connections_max: int = 10_000
    etcd_progress_s: float = 600.0
    etcd_prefix: str = ""
    local_clients: bool = False
    rights_required: bool = False
    lease_reads: bool = False
    checks: bool = False
    insecure: bool = False

    def __post_init__(self) -> None:
        for setting in fields(self):
            _check_setting(setting.name, getattr(self, setting.name), setting.default)
        _check_relation(self.tick_s <= self.heartbeat_s, "heartbeat_s", "at least tick_s")
        _check_relation(
            3 * self.heartbeat_s <= self.election_timeout_s, "election_timeout_s", "3 x heartbeat_s or more"
        )
        _check_relation(4 * self.segment_bytes <= self.wal_bytes_max, "wal_bytes_max", "at least 4 x segment_bytes")
        _check_relation(self.outstanding_max <= self.session_window, "outstanding_max", "at most session_window")
        _check_relation(
            self.flight_recorder_bytes == 0 or self.flight_recorder_bytes >= 64 * _KIB,
            "flight_recorder_bytes",
            "0, or at least 64 KiB",
        )
        _check_relation(self.reconnect_min_s <= self.reconnect_max_s, "reconnect_max_s", "at least reconnect_min_s")
        _check_relation(
            self.append_bytes_max <= self.inflight_bytes_max, "inflight_bytes_max", "at least append_bytes_max"
        )
        _check_relation(
            self.kafka_session_min_s <= self.kafka_session_max_s, "kafka_session_max_s", "at least kafka_session_min_s"
        )
        _check_relation(
            self.kafka_consumer_beat_s < self.kafka_consumer_session_s,
            "kafka_consumer_session_s",
            "more than kafka_consumer_beat_s",
        )
        _check_relation(len(self.etcd_prefix.encode()) <= _PREFIX_BYTES_MAX, "etcd_prefix", "at most 256 bytes")
        root = self.zookeeper_root.encode()
        _check_relation(
            0 < len(root) <= _ROOT_BYTES_MAX and b"/" not in root, "zookeeper_root", "1 to 64 bytes without a slash"
        )
        words = {word.strip() for word in self.zookeeper_words.split(",")} - {"", "*"}
        _check_relation(words <= _WORDS, "zookeeper_words", f"words among {', '.join(sorted(_WORDS))}, or *")
        digest = self.zookeeper_super_digest
        _check_relation(
            not digest or (digest.startswith("super:") and len(digest.encode()) <= 256),
            "zookeeper_super_digest",
            "super:<base64 of SHA-1 of super:password>",
        )


def _check_setting(name: str, value: Any, default: Any) -> None:
    if isinstance(default, bool):
        if not isinstance(value, bool):
            raise ConfigError(f"{name}: must be True or False, not {value!r}", field=name)
        return
    if isinstance(default, str):
        if not isinstance(value, str) or not _is_text(value) or len(value.encode()) > _TEXT_BYTES_MAX or "\0" in value:
            raise ConfigError(f"{name}: must be text of at most {_TEXT_BYTES_MAX} bytes, not {value!r}", field=name)
        return
    wanted = "an integer" if isinstance(default, int) else "a number"
    allowed = int if isinstance(default, int) else (int, float)
    low, high = _RANGES[name]
    if isinstance(value, bool) or not isinstance(value, allowed):
        raise ConfigError(f"{name}: must be {wanted} from {low:g} to {high:g}, not {value!r}", field=name)
    if not low <= value <= high:  # also refuses NaN, which compares false with everything
        raise ConfigError(f"{name}: must be from {low:g} to {high:g}, not {value!r}", field=name)


def _check_relation(holds: bool, name: str, rule: str) -> None:
    if not holds:
        raise ConfigError(f"{name}: must be {rule}", field=name)


@dataclass(frozen=True, slots=True)
class Address:
    """A host name or IP address and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: str, field: str) -> Address:
        """From "host:port" or "[IPv6 address]:port"; a ConfigError names field."""
        if not isinstance(text, str) or not _is_text(text):
            raise ConfigError(f'{field}: must be "host:port", not {text!r}', field=field)
        host, colon, port = text.rpartition(":")
        host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
        is_port = port.isascii() and port.isdecimal() and 0 < int(port) < 65536
        if "/" in text:
            raise ConfigError(f'{field}: must be "host:port" and no URL or path, not {text!r}', field=field)
        if not text.isprintable() or " " in text:
            raise ConfigError(f'{field}: must be "host:port" in printable text, not {text!r}', field=field)
        if not colon or not host or not is_port or len(text.encode()) > ADDRESS_BYTES_MAX:
            raise ConfigError(f'{field}: must be "host:port" with a port from 1 to 65535, not {text!r}', field=field)
        return cls(host, int(port))

    @property
    def is_loopback(self) -> bool:
        """Whether only processes of this machine reach the address. A name other than localhost does not count."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


def _is_text(text: str) -> bool:
    """Whether the text has a UTF-8 form."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_reach(address: Address, field: str, config: Config, is_private: bool) -> None:
    if not address.is_loopback and not config.insecure and not is_private:
        raise ConfigError(
            f"{field}: {address} is reachable from other machines and connections need be neither encrypted nor "
            "authenticated; give the node the setting tls, or set Config(insecure=True) to allow that",
            field=field,
        )


def _served_at(text: str | None, field: str, config: Config, is_private: bool) -> Address | None:
    """Where others than peers are served; None: nowhere."""
    if text is None:
        return None
    address = Address.parse(text, field)
    _check_reach(address, field, config, is_private)
    return address


def check_name(name: str, field: str) -> str:
    """A node's or cluster's name: 1 to 64 bytes of UTF-8 without control characters."""
    if not isinstance(name, str) or not name.isprintable() or not 0 < len(name.encode()) <= NAME_BYTES_MAX:
        raise ConfigError(f"{field}: must be 1 to {NAME_BYTES_MAX} bytes of printable text, not {name!r}", field=field)
    return name


def check_path(path: str | os.PathLike[str], field: str) -> Path:
    """A path that names a place; a ConfigError names field. A NUL is refused: the system would end the path there."""
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else ""
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        text = ""
    if not isinstance(text, str) or not text or "\0" in text:
        raise ConfigError(f"{field}: must be a path without NUL characters, not {path!r}", field=field)
    return Path(text)


def _observed(name: str, peers: object, seeds: Sequence[str], address: str | None) -> dict[str, str]:
    """The names that an observer begins with: its seeds, each "name=host:port", and itself."""
    if peers is not None:
        raise ConfigError("peers: an observer has seeds in their place", field="peers")
    if address is None:
        raise ConfigError("listen: an observer has no address in peers, so it must be given", field="listen")
    if isinstance(seeds, str) or not seeds:
        raise ConfigError("seeds: must list members or observers, each as name=host:port", field="seeds")
    found = {name: address}
    for seed in seeds:
        seed_name, equals, seed_address = seed.partition("=")
        if not equals or seed_name in found:
            raise ConfigError(f"seeds: {seed!r} is not name=host:port of another node, each name once", field="seeds")
        found[seed_name] = seed_address
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The identity of a node and its places, as given to Node() and validated together."""

    name: str
    cluster: str
    peers: Mapping[str, Address]
    listen: Address
    advertise: Address
    client_listen: Address | None
    zookeeper_listen: Address | None
    kafka_listen: Address | None
    etcd_listen: Address | None
    data_dir: Path
    is_observer: bool = False

    @classmethod
    def check(
        cls,
        name: str,
        *,
        peers: Mapping[str, str] | None,
        data_dir: str | os.PathLike[str],
        listen: str | None,
        advertise: str | None,
        client_listen: str | None = None,
        zookeeper_listen: str | None = None,
        kafka_listen: str | None = None,
        etcd_listen: str | None = None,
        cluster: str,
        config: Config,
        is_private: bool = False,
        role: str = "member",
        seeds: Sequence[str] = (),
    ) -> Identity:
        """Validate the arguments of Node() before anything is written; a ConfigError names the field.

        is_private: nobody is let in but by TLS.
        """
        check_name(name, "name")
        check_name(cluster, "cluster")
        if role not in ("member", "observer"):
            raise ConfigError(f"role: must be 'member' or 'observer', not {role!r}", field="role")
        if role == "observer":
            peers = _observed(name, peers, seeds, listen if advertise is None else advertise)
        elif seeds:
            raise ConfigError("seeds: only an observer has them; a member has peers", field="seeds")
        if not isinstance(peers, Mapping) or not 0 < len(peers) <= MEMBERS_MAX:
            raise ConfigError(f"peers: must map 1 to {MEMBERS_MAX} names to addresses", field="peers")
        addresses = {check_name(peer, "peers"): Address.parse(text, f"peers[{peer}]") for peer, text in peers.items()}
        if name not in addresses:
            raise ConfigError(f"peers: must name this node ({name!r}) and its own address too", field="peers")
        if len({str(address) for address in addresses.values()}) != len(addresses):
            raise ConfigError("peers: two members have the same address", field="peers")
        listen_at = addresses[name] if listen is None else Address.parse(listen, "listen")
        _check_reach(listen_at, "listen", config, is_private)
        clients_at = _served_at(client_listen, "client_listen", config, is_private)
        zookeeper_at = _served_at(zookeeper_listen, "zookeeper_listen", config, is_private)
        if clients_at is not None and str(clients_at) == str(listen_at):
            raise ConfigError("client_listen: must be another address than that for peers", field="client_listen")
        if zookeeper_at is not None and str(zookeeper_at) in (str(listen_at), str(clients_at)):
            raise ConfigError("zookeeper_listen: must be an address of its own", field="zookeeper_listen")
        kafka_at = _served_at(kafka_listen, "kafka_listen", config, is_private)
        if kafka_at is not None and str(kafka_at) in (str(listen_at), str(clients_at), str(zookeeper_at)):
            raise ConfigError("kafka_listen: must be an address of its own", field="kafka_listen")
        etcd_at = _served_at(etcd_listen, "etcd_listen", config, is_private)
        if etcd_at is not None and str(etcd_at) in (str(listen_at), str(clients_at), str(zookeeper_at), str(kafka_at)):
            raise ConfigError("etcd_listen: must be an address of its own", field="etcd_listen")
        return cls(
            name=name,
            cluster=cluster,
            peers=addresses,
            listen=listen_at,
            advertise=addresses[name] if advertise is None else Address.parse(advertise, "advertise"),
            client_listen=clients_at,
            zookeeper_listen=zookeeper_at,
            kafka_listen=kafka_at,
            etcd_listen=etcd_at,
            data_dir=check_path(data_dir, "data_dir"),
            is_observer=role == "observer",
        )
