"""The numbers of the wire headers as Python enums, read from the .pxd files so that no number is written twice."""

from __future__ import annotations

from tests.core.names import MessageType, Status, read_enum

__all__ = [
    "CommandKind",
    "CompareFlags",
    "CompareResult",
    "CompareTarget",
    "FrameType",
    "MessageType",
    "OpFlags",
    "OpKind",
    "Status",
]

CommandKind = read_enum("COMMAND_KEYS")
OpKind = read_enum("OP_PUT")
OpFlags = read_enum("OP_WANT_PREVIOUS")
CompareTarget = read_enum("COMPARE_VERSION")
CompareFlags = read_enum("COMPARE_OF_ALL")
CompareResult = read_enum("COMPARE_EQUAL")
FrameType = read_enum("FRAME_HELLO")
