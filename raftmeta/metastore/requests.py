"""The nine requests of a metastore and their responses: KIP-273, Kafka's ZooKeeperClient and its AsyncRequest.

    answer = store.handle_request(CreateRequest("/brokers/ids/1", b"{}", create_mode=CreateMode.EPHEMERAL, ctx="me"))
    answer.maybe_throw()

Each request has a path and a ctx, which the response gives back untouched. A version of -1 is any version.
Nothing here talks to a store.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, IntFlag
from hashlib import sha1
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from raftmeta.metastore.codes import Code, RequestFailed, request_error

__all__ = [
    "Acl",
    "Acls",
    "CheckOp",
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
    "MultiRequest",
    "MultiResponse",
    "Permission",
    "Request",
    "Response",
    "ResponseMetadata",
    "SetAclRequest",
    "SetAclResponse",
    "SetDataOp",
    "SetDataRequest",
    "SetDataResponse",
    "Stat",
    "ZkOp",
    "ZkOpResult",
    "digest_id",
    "failed",
]


class Stat(NamedTuple):
    """The Stat of a znode, whole. Times are milliseconds since 1970, zxids are the store's order of changes."""

    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    cversion: int
    aversion: int
    ephemeral_owner: int
    data_length: int
    num_children: int
    pzxid: int


class Permission(IntFlag):
    """The rights that an entry of an ACL gives."""

    READ = 1
    WRITE = 2
    CREATE = 4
    DELETE = 8
    ADMIN = 16
    ALL = 31


class Acl(NamedTuple):
    """One entry of the list of rights of a znode. scheme, id: whom it allows, as "world", "anyone"."""

    perms: int
    scheme: str
    id: str


class Acls:
    """The usual lists of rights (ZooDefs.Ids)."""

    OPEN = (Acl(Permission.ALL, "world", "anyone"),)
    READ = (Acl(Permission.READ, "world", "anyone"),)
    CREATOR_ALL = (Acl(Permission.ALL, "auth", ""),)  # all rights for those who create the znode


def digest_id(user: str, password: str) -> str:
    """The id of a user in ACLs of the scheme "digest" (DigestAuthenticationProvider.generateDigest).

    ZooKeeper fixes SHA-1 here; it protects no password that can be guessed.
    """
    hashed = sha1(f"{user}:{password}".encode(), usedforsecurity=False).digest()
    return f"{user}:{b64encode(hashed).decode()}"


class CreateMode(Enum):
    """How long a znode lives, and whether its store adds ten digits that count up to its name."""

    PERSISTENT = (False, False)
    PERSISTENT_SEQUENTIAL = (False, True)
    EPHEMERAL = (True, False)
    EPHEMERAL_SEQUENTIAL = (True, True)

    @property
    def is_ephemeral(self) -> bool:
        return self.value[0]

    @property
    def is_sequential(self) -> bool:
        return self.value[1]


# --- operations of a multi ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CreateOp:
    """Create a znode."""

    path: str
    data: bytes | None = b""
    acl: Sequence[Acl] = Acls.OPEN
    create_mode: CreateMode = CreateMode.PERSISTENT


@dataclass(frozen=True, slots=True)
class DeleteOp:
    """Remove a znode without children that has this version."""

    path: str
    version: int = -1


@dataclass(frozen=True, slots=True)
class SetDataOp:
    """Set the data of a znode that has this version."""

    path: str
    data: bytes | None
    version: int = -1


@dataclass(frozen=True, slots=True)
class CheckOp:
    """Let the whole multi fail unless the znode exists and has this version."""

    path: str
    version: int = -1


ZkOp: TypeAlias = CreateOp | DeleteOp | SetDataOp | CheckOp


@dataclass(frozen=True, slots=True)
class ZkOpResult:
    """The result of one operation of a multi. name: of a CreateOp; stat: of a SetDataOp, and of a CreateOp on raftmeta.

    result_code: in a multi that failed, the error stands at the operation that failed. The operations before it have OK
    and those behind it RUNTIMEINCONSISTENCY; none of them was done.
    """

    op: ZkOp
    result_code: Code
    name: str | None = None
    stat: Stat | None = None

    def maybe_throw(self) -> None:
        """Raise the error of this operation, if it has one."""
        if self.result_code != Code.OK:
            raise request_error(self.result_code, self.op.path)


# --- responses ------------------------------------------------------------------------------------------------------


class ResponseMetadata(NamedTuple):
    """When a request left and when its answer came, in seconds of time.monotonic()."""

    sent_s: float
    received_s: float

    @property
    def response_time_s(self) -> float:
        return self.received_s - self.sent_s


_NOT_YET = ResponseMetadata(0.0, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """The answer to one request. path, ctx: of the request; path is None for a multi."""

    result_code: Code
    path: str | None
    ctx: Any
    metadata: ResponseMetadata = _NOT_YET

    @property
    def result_exception(self) -> RequestFailed | None:
        """The error of this response, None when the request was done."""
        return None if self.result_code == Code.OK else request_error(self.result_code, self.path)

    def maybe_throw(self) -> None:
        """Raise the error of this response, if it has one: RequestRefused, or RequestLost when the fate is unknown."""
        if self.result_code != Code.OK:
            raise request_error(self.result_code, self.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateResponse(Response):
    """name: the path of the new znode, with its digits if it is sequential."""

    name: str | None = None
    stat: Stat | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteResponse(Response):
    """A znode is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistsResponse(Response):
    """A znode exists; NONODE says that it does not."""

    stat: Stat | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GetDataResponse(Response):
    """data: None for a znode that was created without data."""

    data: bytes | None = None
    stat: Stat | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetDataResponse(Response):
    """stat: after the change."""

    stat: Stat | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GetAclResponse(Response):
    """acl: the list of rights; stat.aversion is its version."""

    acl: tuple[Acl, ...] = ()
    stat: Stat | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAclResponse(Response):
    """stat: after the change."""

    stat: Stat | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GetChildrenResponse(Response):
    """children: their names, in no particular order; stat: of the znode itself."""

    children: tuple[str, ...] = ()
    stat: Stat | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiResponse(Response):
    """zk_op_results: one for each operation; empty when the whole multi had no answer."""

    zk_op_results: tuple[ZkOpResult, ...] = ()


# --- requests -------------------------------------------------------------------------------------------------------

R = TypeVar("R", bound=Response)


class Request(Generic[R]):
    """One of the nine requests. R: its response."""

    __slots__ = ()
    path: str | None
    ctx: Any


@dataclass(frozen=True, slots=True)
class CreateRequest(Request[CreateResponse]):
    """Create a znode whose parent exists. data: None is stored as null, not as empty."""

    path: str
    data: bytes | None = b""
    acl: Sequence[Acl] = Acls.OPEN
    create_mode: CreateMode = CreateMode.PERSISTENT
    ctx: Any = None


@dataclass(frozen=True, slots=True)
class DeleteRequest(Request[DeleteResponse]):
    """Remove a znode without children that has this version."""

    path: str
    version: int = -1
    ctx: Any = None


@dataclass(frozen=True, slots=True)
class ExistsRequest(Request[ExistsResponse]):
    """The Stat of a znode. Arms the change handler of the path, whether the znode exists or not."""

    path: str
    ctx: Any = None


@dataclass(frozen=True, slots=True)
class GetDataRequest(Request[GetDataResponse]):
    """The data of a znode. Arms the change handler of the path if the znode exists."""

    path: str
    ctx: Any = None


@dataclass(frozen=True, slots=True)
class SetDataRequest(Request[SetDataResponse]):
    """Set the data of a znode that has this version."""

    path: str
    data: bytes | None
    version: int = -1
    ctx: Any = None


@dataclass(frozen=True, slots=True)
class GetAclRequest(Request[GetAclResponse]):
    """The list of rights of a znode."""

    path: str
    ctx: Any = None


@dataclass(frozen=True, slots=True)
class SetAclRequest(Request[SetAclResponse]):
    """Set the list of rights of a znode whose list has this version (stat.aversion)."""

    path: str
    acl: Sequence[Acl]
    version: int = -1
    ctx: Any = None


@dataclass(frozen=True, slots=True)
class GetChildrenRequest(Request[GetChildrenResponse]):
    """The names of the children of a znode. register_watch: arm the child change handler of the path."""

    path: str
    register_watch: bool = True
    ctx: Any = None


@dataclass(frozen=True, slots=True)
class MultiRequest(Request[MultiResponse]):
    """All of the operations or none of them; each one sees those before it."""

    ops: Sequence[ZkOp]
    ctx: Any = None

    @property
    def path(self) -> None:  # type: ignore[override]  # a multi has several
        return None


_RESPONSES: dict[type[Any], type[Response]] = {
    CreateRequest: CreateResponse,
    DeleteRequest: DeleteResponse,
    ExistsRequest: ExistsResponse,
    GetDataRequest: GetDataResponse,
    SetDataRequest: SetDataResponse,
    GetAclRequest: GetAclResponse,
    SetAclRequest: SetAclResponse,
    GetChildrenRequest: GetChildrenResponse,
    MultiRequest: MultiResponse,
}


def failed(request: Request[R], code: Code) -> R:
    """The response to a request that has nothing but a code."""
    made: Any = _RESPONSES[type(request)](result_code=code, path=request.path, ctx=request.ctx)
    response: R = made
    return response
