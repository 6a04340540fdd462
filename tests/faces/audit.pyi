"""Records of an audit trail, pushed by hand as a native thread of a node does."""

from raftmeta.security.audit_handle import AuditHandle

QUEUE_BYTES: int
KEPT_FOR_DENIED: int
KEPT_FOR_ADMINISTRATION: int
REFUSALS_BURST: int
REFUSALS_PER_S: int
RECORD_BYTES: int
ITEM_BYTES: int

def push(
    handle: AuditHandle,
    operation: int,
    kind: int,
    *,
    principal: bytes = b"",
    key: bytes = b"",
    end: bytes | None = None,
    status: int = 0,
    revision: int = 0,
    index: int = 0,
    wall_ms: int = 0,
    family: int = 0,
    address: bytes = b"",
    port: int = 0,
    by_loop: bool = False,
) -> bool:
    """Push a record with one key or range. operation: AuditOperation; kind: AuditClass. False: it had no room."""

def push_refusal(handle: AuditHandle, status: int, now_ns: int) -> None:
    """Push the record of a refused connection at this time, if its rate allows."""
