"""The ZooKeeper door of a node, as its settings want it.

It decides how a file of users reads. It never accepts a connection; doors/zookeeper/door does.
"""

import os

from libc.stdint cimport uint8_t, uint32_t

from raftmeta.connections.accounts_state cimport Accounts
from raftmeta.connections.state cimport ConnectionLimits, Connections
from raftmeta.doors.desk.state cimport DeskLimits
from raftmeta.doors.zookeeper.door cimport (zookeeper_add_user, zookeeper_counters, zookeeper_create,
                                            zookeeper_destroy, zookeeper_start, zookeeper_super_digest)
from raftmeta.doors.zookeeper.four_letter cimport four_letter_allowed
from raftmeta.doors.zookeeper.state cimport ZkCounters, ZkDoor, ZkLimits
from raftmeta.face.door cimport OpenDoor
from raftmeta.face.listening cimport fill_common, tls_metrics
from raftmeta.loop.loop cimport Loop
from raftmeta.status cimport status_t

from raftmeta.errors import ConfigError
from raftmeta.face.listening import listen_at

cdef enum:
    LISTEN_BACKLOG = 1024
    NAME_BYTES_MAX = 256
    USERS_BYTES_MAX = 1 << 20


def _users(path):
    """(name, password) of each line; a ConfigError names the line, and never tells it."""
    field = "zookeeper_users_file"
    try:
        with open(path, "rb") as file:
            lines = file.read(USERS_BYTES_MAX).split(b"\n")
    except OSError as error:
        raise ConfigError(f"{field}: {path}: {error.strerror}", field=field) from None
    users = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith(b"#"):
            continue
        name, colon, password = line.rstrip(b"\r").partition(b":")
        if not colon or not name or not password or len(name) > NAME_BYTES_MAX or name in users:
            raise ConfigError(f"{field}: {path}, line {number}: must be name:password, each name once", field=field)
        users[name] = password
    return users


cdef int _fill(ZkLimits* limits, DeskLimits* desk, object config) except -1:
    cdef bytes words = config.zookeeper_words.encode()
    limits.writes_max = max(1, config.outstanding_max // 2)
    limits.tick_ms = round(config.zookeeper_tick_s * 1000)
    limits.watches_max = config.zookeeper_watches_max
    desk.session_ttl_ms = round(config.session_ttl_s * 1000)
    desk.session_window = max(config.session_window, 4 * limits.writes_max)
    limits.outstanding_max = config.outstanding_max
    limits.reads_linearizable = config.zookeeper_linearizable_reads
    limits.has_ttl = config.zookeeper_extended_types
    limits.needs_rights = config.rights_required
    if not four_letter_allowed(<const uint8_t*>words, len(words), &limits.words_allowed):
        raise ConfigError("zookeeper_words: an unknown word", field="zookeeper_words")
    return 0


cdef int _fill_speakers(ZkDoor* door, object config) except -1:
    cdef bytes digest = config.zookeeper_super_digest.encode()
    cdef bytes name, password
    if digest and not zookeeper_super_digest(door, <const uint8_t*>digest, <uint32_t>len(digest)):
        raise ConfigError("zookeeper_super_digest: too long", field="zookeeper_super_digest")
    if not config.zookeeper_users_file:
        return 0
    for name, password in _users(config.zookeeper_users_file).items():
        if not zookeeper_add_user(door, <const uint8_t*>name, <uint32_t>len(name), <const uint8_t*>password,
                                  <uint32_t>len(password)):
            raise MemoryError
    return 0


cdef ZkDoor* _create(Loop* loop, Accounts* accounts, object identity, object config) except NULL:
    cdef ConnectionLimits common
    cdef DeskLimits desk
    cdef ZkLimits limits
    cdef ZkDoor* door
    cdef bytes address = str(identity.zookeeper_listen).encode()
    cdef bytes root = config.zookeeper_root.encode()
    cdef bytes folder = os.fsencode(identity.data_dir)
    fill_common(&common, config, config.zookeeper_connections_max)
    _fill(&limits, &desk, config)
    listener = listen_at(identity.zookeeper_listen, "zookeeper_listen", LISTEN_BACKLOG)
    door = zookeeper_create(loop, accounts, &common, &desk, &limits, <int>listener.detach(), <const uint8_t*>address,
                            <uint8_t>len(address), <const uint8_t*>root, <uint8_t>len(root), <const uint8_t*>folder,
                            <uint32_t>len(folder))
    if door == NULL:
        raise MemoryError
    try:
        _fill_speakers(door, config)
    except BaseException:
        zookeeper_destroy(door)
        raise
    return door


cdef dict _metrics(const ZkDoor* door):
    cdef ZkCounters counters
    zookeeper_counters(door, &counters)
    metrics = {
        "zookeeper_connections": counters.base.connections,
        "zookeeper_connections_accepted": counters.base.accepted,
        "zookeeper_connections_turned_away": counters.base.turned_away,
        "zookeeper_connections_refused": counters.base.refused,
        "zookeeper_connections_evicted": counters.base.evicted,
        "zookeeper_requests_over_quota": counters.base.over_quota,
        "zookeeper_principals": counters.base.accounts,
        "zookeeper_sessions": counters.sessions, "zookeeper_sessions_opened": counters.sessions_opened,
        "zookeeper_sessions_moved": counters.sessions_moved, "zookeeper_sessions_expired": counters.sessions_expired,
        "zookeeper_requests": counters.requests, "zookeeper_writes": counters.writes,
        "zookeeper_reads": counters.reads, "zookeeper_writes_sent_again": counters.sent_again,
        "zookeeper_events": counters.events, "zookeeper_watches": counters.watches,
        "zookeeper_watched_paths": counters.watched_paths, "zookeeper_memory_bytes": counters.memory,
    }
    metrics.update({f"zookeeper_{name}": count for name, count in tls_metrics(&counters.base.tls).items()})
    return metrics


cdef status_t _start(Connections* connections) noexcept nogil:
    return zookeeper_start(<ZkDoor*>connections)


cdef void _destroy(Connections* connections) noexcept nogil:
    zookeeper_destroy(<ZkDoor*>connections)


cdef class OpenZooKeeper(OpenDoor):
    cdef int open(self, Loop* loop, Accounts* accounts, object identity, object config, object program) except -1:
        self.block.connections = <Connections*>_create(loop, accounts, identity, config)
        self.block.start = _start
        self.block.destroy = _destroy
        return 0

    cdef dict metrics(self):
        return _metrics(<const ZkDoor*>self.block.connections) if self.block.connections != NULL else {}
