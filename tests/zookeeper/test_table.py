"""The table of requests in docs/zookeeper-requests.md is that of the codec."""

from __future__ import annotations

import re

from tests.faces.zookeeper import rows
from tests.lint.sources import ROOT

HEADER = (ROOT / "raftmeta" / "doors" / "zookeeper" / "protocol.hpp").read_text()
DOCUMENT = (ROOT / "docs" / "zookeeper-requests.md").read_text()


def words(prefix: str) -> list[str]:
    """The names of an enum in the order of their numbers, as the document writes them."""
    names: list[str] = re.findall(rf"^    {prefix}(\w+),", HEADER, re.MULTILINE)
    return [name.lower().replace("_", " ") for name in names]


def test_the_document_has_the_rows_of_the_codec() -> None:
    """Name, opcode, version, fields and answer; and each difference is said in words."""
    fields, answers = words("ZK_FIELD_"), words("ZK_ANSWER_")
    assert len(fields) == 18 and len(answers) == 13
    shown = {"path stat": "path, stat", "data stat": "data, stat", "acl stat": "acl, stat"}
    shown["children stat"] = "children, stat"
    expected = [
        [
            name,
            str(opcode),
            since,
            ", ".join(fields[one] for one in found) or "nothing",
            shown.get(said := answers[answer], said),
        ]
        for opcode, name, found, answer, _, since in rows()
    ]
    table = DOCUMENT[DOCUMENT.index("| Request | Opcode |") :].split("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    assert [row[:5] for row in cells] == expected
    assert all(len(row) == 6 and row[5] for row in cells)
