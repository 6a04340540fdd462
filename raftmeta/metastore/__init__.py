"""raftmeta.metastore: KIP-273's KafkaMetastore, which is Kafka's ZooKeeperClient, on ZooKeeper and on raftmeta.

    from raftmeta import metastore

    with metastore.connect("127.0.0.1:2181/kafka") as store:
        store.handle_request(metastore.CreateRequest("/brokers", b"")).maybe_throw()

A connection string chooses the store: `host:2181,host2:2181/chroot` and `zookeeper://` name an ensemble of ZooKeeper,
`raft://host:7700,host2:7700/chroot` a cluster of raftmeta, `embedded://` a node in this process (docs/metastore.md).
"""

from __future__ import annotations

from typing import Any

from raftmeta.metastore.awaited import AioMetastore, Caller, ConnectionState, Settings, call_here
from raftmeta.metastore.blocking import Metastore
from raftmeta.metastore.carrier import Carrier, ChangeType, Listener, SessionEvent, Source
from raftmeta.metastore.codes import (
    AuthFailed,
    Code,
    ConnectTimeout,
    MetastoreError,
    RequestFailed,
    RequestLost,
    RequestRefused,
    SessionExpired,
)
from raftmeta.metastore.handlers import StateChangeHandler, ZNodeChangeHandler, ZNodeChildChangeHandler
from raftmeta.metastore.requests import (
    Acl,
    Acls,
    CheckOp,
    CreateMode,
    CreateOp,
    CreateRequest,
    CreateResponse,
    DeleteOp,
    DeleteRequest,
    DeleteResponse,
    ExistsRequest,
    ExistsResponse,
    GetAclRequest,
    GetAclResponse,
    GetChildrenRequest,
    GetChildrenResponse,
    GetDataRequest,
    GetDataResponse,
    MultiRequest,
    MultiResponse,
    Permission,
    Request,
    Response,
    ResponseMetadata,
    SetAclRequest,
    SetAclResponse,
    SetDataOp,
    SetDataRequest,
    SetDataResponse,
    Stat,
    ZkOp,
    ZkOpResult,
    digest_id,
)
from raftmeta.metastore.urls import MetastoreUrl

__all__ = [
    "Acl",
    "Acls",
    "AioMetastore",
    "AuthFailed",
    "Carrier",
    "ChangeType",
    "CheckOp",
    "Code",
    "ConnectTimeout",
    "ConnectionState",
    "CreateMode",
    "CreateOp",
    "CreateRequest",
    "CreateResponse",
    "DeleteOp",
    "DeleteRequest",
    "DeleteResponse",
    "ExistsRequest",
    "ExistsResponse",
    "GetAclRequest",
    "GetAclResponse",
    "GetChildrenRequest",
    "GetChildrenResponse",
    "GetDataRequest",
    "GetDataResponse",
    "Listener",
    "Metastore",
    "MetastoreError",
    "MultiRequest",
    "MultiResponse",
    "Permission",
    "Request",
    "RequestFailed",
    "RequestLost",
    "RequestRefused",
    "Response",
    "ResponseMetadata",
    "SessionEvent",
    "SessionExpired",
    "SetAclRequest",
    "SetAclResponse",
    "SetDataOp",
    "SetDataRequest",
    "SetDataResponse",
    "Settings",
    "Source",
    "Stat",
    "StateChangeHandler",
    "ZNodeChangeHandler",
    "ZNodeChildChangeHandler",
    "ZkOp",
    "ZkOpResult",
    "connect",
    "connect_aio",
    "digest_id",
]


def connect(
    url: str,
    *,
    session_timeout_s: float | None = None,
    connection_timeout_s: float | None = None,
    max_in_flight_requests: int | None = None,
    request_timeout_s: float | None = None,
    metric_group: str = "kafka.server",
    metric_type: str = "SessionExpireListener",
) -> Metastore:
    """A metastore behind a connection string (metastore/urls), connected. The chroot is created if it is missing.

    session_timeout_s: asked of the store, which may give another one; for so long a session outlives its connection.
    Default 18 s, as Kafka's zookeeper.session.timeout.ms.
    connection_timeout_s: for this call; default 18 s.
    max_in_flight_requests: at most so many are under way; default 10.
    request_timeout_s: the code of a request without an answer for so long is OPERATIONTIMEOUT; default none.
    metric_group, metric_type: of the names in metrics().
    Raises ConnectTimeout, AuthFailed, ConfigError.
    """
    given = _given(
        session_timeout_s, connection_timeout_s, max_in_flight_requests, request_timeout_s, metric_group, metric_type
    )
    parsed = MetastoreUrl.parse(url, given)
    return Metastore(lambda caller: _open(parsed, caller))


async def connect_aio(
    url: str,
    *,
    session_timeout_s: float | None = None,
    connection_timeout_s: float | None = None,
    max_in_flight_requests: int | None = None,
    request_timeout_s: float | None = None,
    metric_group: str = "kafka.server",
    metric_type: str = "SessionExpireListener",
) -> AioMetastore:
    """As connect, on asyncio."""
    given = _given(
        session_timeout_s, connection_timeout_s, max_in_flight_requests, request_timeout_s, metric_group, metric_type
    )
    return await _open(MetastoreUrl.parse(url, given), call_here)


def _given(
    session_timeout_s: float | None,
    connection_timeout_s: float | None,
    max_in_flight_requests: int | None,
    request_timeout_s: float | None,
    metric_group: str,
    metric_type: str,
) -> dict[str, Any]:
    return {
        "session_timeout_s": session_timeout_s,
        "connection_timeout_s": connection_timeout_s,
        "max_in_flight_requests": max_in_flight_requests,
        "request_timeout_s": request_timeout_s,
        "metric_group": metric_group,
        "metric_type": metric_type,
    }


async def _open(url: MetastoreUrl, caller: Caller) -> AioMetastore:
    return await AioMetastore(_source(url), url.settings, caller=caller).open()


def _source(url: MetastoreUrl) -> Source:
    if url.store is not None:
        from raftmeta.metastore.stores import ClientStore, NodeStore  # loads the engine

        return NodeStore(url) if url.scheme == "embedded" else ClientStore(url)
    from raftmeta.metastore.zookeeper import ZooKeeperSource  # needs kazoo

    return ZooKeeperSource(url.place, url.chroot, url.auth, session_timeout_s=url.settings.session_timeout_s)
