"""Requests of a metastore as operations on znodes, and their answers as responses. It never asks a store.

Lists of rights: "auth" stands for everybody whom the metastore proved to be, as ZooKeeper's servers replace it
(PrepRequestProcessor.fixupACL). A metastore that proved nobody leaves it, and the machine refuses it in its turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from raftmeta.errors import (
    AuthenticationFailed,
    CommandRefused,
    InvalidArgument,
    LeaseExpired,
    Overloaded,
    PermissionDenied,
    RaftmetaError,
    Unsupported,
    ZnodeRefused,
)
from raftmeta.metastore.codes import Code, code_of
from raftmeta.metastore.paths import Chroot
from raftmeta.metastore.requests import (
    Acl,
    Acls,
    CheckOp,
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
    SetAclRequest,
    SetAclResponse,
    SetDataOp,
    SetDataRequest,
    SetDataResponse,
    Stat,
    ZkOpResult,
    failed,
)
from raftmeta.operations import (
    ZnodeAcl,
    ZnodeCheck,
    ZnodeCreate,
    ZnodeCreated,
    ZnodeDelete,
    ZnodeOperation,
    ZnodeSetAcl,
    ZnodeSetData,
    ZnodeStat,
)
from raftmeta.results import ZnodeFound, ZnodesReply

__all__ = ["Identities", "allows", "code_of_error", "operations_of", "read_response", "refusal", "write_response"]

Identities = Sequence[tuple[str, str]]

_NEEDED = {  # rights of which one is enough (ZooKeeper 3.9, FinalRequestProcessor)
    ExistsRequest: Permission.READ,
    GetDataRequest: Permission.READ,
    GetChildrenRequest: Permission.READ,
    GetAclRequest: Permission.READ | Permission.ADMIN,
}


# --- writes ---------------------------------------------------------------------------------------------------------


def operations_of(request: Request[Any], chroot: Chroot, identities: Identities) -> list[ZnodeOperation]:
    """The operations of a write, in the names of the store. Raises TypeError for what is no write."""
    if isinstance(request, MultiRequest):
        return [_operation(op, chroot, identities) for op in request.ops]
    return [_operation(request, chroot, identities)]


def _operation(asked: Any, chroot: Chroot, identities: Identities) -> ZnodeOperation:
    match asked:
        case CreateRequest(data=data, acl=acl, create_mode=mode) | CreateOp(data=data, acl=acl, create_mode=mode):
            path = chroot.below(asked.path, is_sequential=mode.is_sequential)
            kind = "ephemeral" if mode.is_ephemeral else "persistent"
            return ZnodeCreate(path, data, _stored_acl(acl, identities), kind, mode.is_sequential)
        case DeleteRequest(version=version) | DeleteOp(version=version):
            return ZnodeDelete(chroot.below(asked.path), version)
        case SetDataRequest(data=data, version=version) | SetDataOp(data=data, version=version):
            return ZnodeSetData(chroot.below(asked.path), data, version)
        case SetAclRequest(acl=acl, version=version):
            return ZnodeSetAcl(chroot.below(asked.path), _stored_acl(acl, identities), version)
        case CheckOp(version=version):
            return ZnodeCheck(chroot.below(asked.path), version)
    raise TypeError(f"{asked!r} is no write")


def _stored_acl(acl: Sequence[Acl], identities: Identities) -> ZnodeAcl:
    entries: dict[tuple[int, str, str], None] = {}
    for perms, scheme, id in acl:
        whom = identities if scheme == "auth" and identities else ((scheme, id),)
        entries.update({(int(perms) & Permission.ALL, *who): None for who in whom})
    return list(entries)


def write_response(request: Request[Any], reply: ZnodesReply, chroot: Chroot) -> Response:
    """The response to a write that was done."""
    common: dict[str, Any] = {"result_code": Code.OK, "path": request.path, "ctx": request.ctx}
    if isinstance(request, MultiRequest):
        pairs = zip(request.ops, reply.results, strict=True)
        return MultiResponse(zk_op_results=tuple(_op_result(op, result, chroot) for op, result in pairs), **common)
    result = _op_result(request, reply.results[0], chroot)
    match request:
        case CreateRequest():
            return CreateResponse(name=result.name, stat=result.stat, **common)
        case SetDataRequest():
            return SetDataResponse(stat=result.stat, **common)
        case SetAclRequest():
            return SetAclResponse(stat=result.stat, **common)
    return DeleteResponse(**common)


def _op_result(op: Any, result: ZnodeCreated | ZnodeStat | None, chroot: Chroot) -> ZkOpResult:
    if isinstance(result, ZnodeCreated):
        return ZkOpResult(op, Code.OK, name=chroot.off(result.path), stat=_stat(result.stat))
    return ZkOpResult(op, Code.OK, stat=None if result is None else _stat(result))


def refusal(request: Request[Any], error: RaftmetaError) -> Response:
    """The response to a request that ended with an error."""
    code = code_of_error(error)
    if not isinstance(request, MultiRequest) or not isinstance(error, ZnodeRefused):
        response: Response = failed(request, code)
        return response
    behind = len(request.ops) - error.position - 1
    codes = [Code.OK] * error.position + [code] + [Code.RUNTIMEINCONSISTENCY] * behind
    results = tuple(ZkOpResult(op, each) for op, each in zip(request.ops, codes, strict=True))
    return MultiResponse(zk_op_results=results, result_code=code, path=None, ctx=request.ctx)


def code_of_error(error: RaftmetaError) -> Code:
    """CONNECTIONLOSS for every error that says no more than that the store could not be asked."""
    match error:
        case ZnodeRefused():
            return code_of(error.code)
        case LeaseExpired():
            return Code.SESSIONEXPIRED
        case PermissionDenied():
            return Code.NOAUTH
        case AuthenticationFailed():
            return Code.AUTHFAILED
        case Unsupported():
            return Code.UNIMPLEMENTED
        case InvalidArgument() | CommandRefused():  # too large, or too many changes
            return Code.BADARGUMENTS
        case Overloaded():
            return Code.THROTTLEDOP
    return Code.CONNECTIONLOSS


# --- reads ----------------------------------------------------------------------------------------------------------


def read_response(request: Request[Any], found: ZnodeFound | None, identities: Identities) -> Response:
    """The response to a read. found: the znode with its children, if those are asked for; None: there is none."""
    response: Response
    if found is None:
        response = failed(request, Code.NONODE)
        return response
    acl = tuple(Acl(perms, scheme.decode(), id.decode()) for perms, scheme, id in found.znode.acl) or Acls.OPEN
    if not allows(acl, _NEEDED[type(request)], identities):
        response = failed(request, Code.NOAUTH)
        return response
    common: dict[str, Any] = {"result_code": Code.OK, "path": request.path, "ctx": request.ctx}
    stat = _stat(found.stat)
    match request:
        case GetDataRequest():
            return GetDataResponse(data=found.data, stat=stat, **common)
        case GetAclRequest():
            return GetAclResponse(acl=_shown_acl(acl, identities), stat=stat, **common)
        case GetChildrenRequest():
            return GetChildrenResponse(children=found.children or (), stat=stat, **common)
    return ExistsResponse(stat=stat, **common)


def allows(acl: Sequence[Acl], needed: int, identities: Identities) -> bool:
    """Whether one of the identities, or anyone, has one of the rights (ZooKeeperServer.checkACL)."""
    return any(
        perms & needed and ((scheme, id) == ("world", "anyone") or (scheme, id) in identities)
        for perms, scheme, id in acl
    )


def _shown_acl(acl: tuple[Acl, ...], identities: Identities) -> tuple[Acl, ...]:
    """Without ADMIN nobody is shown the hash of a password (FinalRequestProcessor, getACL)."""
    if allows(acl, Permission.ADMIN, identities):
        return acl
    return tuple(
        each._replace(id=f"{each.id.partition(':')[0]}:x") if each.scheme == "digest" else each for each in acl
    )


def _stat(stat: ZnodeStat) -> Stat:
    """The owner is a signed number in ZooKeeper, which shows containers and TTL nodes below 0."""
    return Stat(*stat)._replace(ephemeral_owner=stat.owner - (stat.owner >> 63 << 64))
