"""docs/formats.md says what the codecs do: its tables are read and compared with those that the other tests use."""

from __future__ import annotations

import re
from pathlib import Path

from tests.wire.names import CommandKind, CompareTarget, FrameType, MessageType, OpFlags, OpKind
from tests.wire.test_frame import FIELDS as HEADER_FIELDS
from tests.wire.test_frame import HEADER
from tests.wire.test_messages import FIELDS as MESSAGE_FIELDS
from tests.wire.trees import OP_FIELDS, OP_FLAGS

DOCUMENT = (Path(__file__).parents[2] / "docs" / "formats.md").read_text()


def rows(section: str) -> list[list[str]]:
    """The cells of every table row of a section."""
    text = DOCUMENT.split(f"\n## {section}\n")[1].split("\n## ")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]


def numbered(section: str, count: int) -> list[list[str]]:
    """Rows of so many cells whose first is a number."""
    return [row for row in rows(section) if len(row) == count and row[0].isdigit()]


def split(names: str) -> list[str]:
    return [name.replace(" ", "_") for name in names.split(", ") if name]


def test_the_table_of_messages_is_that_of_the_codec() -> None:
    """Types, names, and fields in their order."""
    table = {(int(number), name): split(fields) for number, name, fields, _ in numbered("Messages", 4)}
    assert table == {(member.value, member.name): MESSAGE_FIELDS[member.name] for member in MessageType}


def test_the_table_of_operations_is_that_of_the_codec() -> None:
    """Kinds, the flags each knows, and fields in their order."""
    table = {name: (int(number), flags, split(fields)) for number, name, flags, fields in numbered("Commands", 4)}
    assert table.pop("transaction") == (OpKind.OP_TXN, "", ["transaction"])
    assert table == {
        name.removeprefix("OP_").lower().replace("_", " "): (
            OpKind[name],
            ", ".join(str(int(OpFlags[flag])) for flag in sorted(OP_FLAGS[name], key=lambda flag: OpFlags[flag])),
            OP_FIELDS[name],
        )
        for name in OP_FIELDS
    }


def test_the_tables_of_commands_and_compares_name_every_kind() -> None:
    """Numbers and names; the fields are told in words."""
    listed = [(int(number), re.sub("[ -]", "_", name.split(":")[0])) for number, name, _ in numbered("Commands", 3)]
    for member in CommandKind:
        assert (member.value, member.name.removeprefix("COMMAND_").lower()) in listed
    for target in CompareTarget:
        assert (target.value, target.name.removeprefix("COMPARE_").lower()) in listed


def test_the_table_of_the_frame_header_is_its_layout() -> None:
    """Offsets and widths, and every type of frame."""
    table = numbered("Frame", 3)
    ends = [int(offset) + int(width) for offset, width, _ in table]
    assert [int(offset) for offset, _, _ in table] == [0, *ends[:-1]]
    assert ends[-1] == HEADER.size == 96
    starts = {0, *(HEADER_OFFSETS[name] for name in ("crc", "version", "sequence", "header_crc"))}
    assert starts <= {int(offset) for offset, _, _ in table}
    types = next(text for _, _, text in table if text.startswith("type: "))
    for member in FrameType:
        assert f"{member.value} {member.name.removeprefix('FRAME_')}".lower() in types.lower()


HEADER_OFFSETS = dict(
    zip(HEADER_FIELDS, [0, 4, 8, 9, 10, 12, 16, 20, 24, 32, 40, 48, 56, 64, 72, 80, 88, 92], strict=True)
)
