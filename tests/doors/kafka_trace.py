"""The requests of Kafka's clients as they were recorded on a real Kafka 3.9: testdata/kafka_requests.txt.

`./build.sh doors groups --on kafka --write` writes the file; it is read before it is committed. Each different request
of a client is a line, with masked fields and the errors that answered it. How often a client asks, and in which order
its connections do, is not recorded. Without --write the same run compares requests and versions with the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.doors.kafka_frames import OTHERS, Asked
from tests.kafka.schema import messages

GOLDEN = Path(__file__).parent / "testdata" / "kafka_requests.txt"
HEAD = "=== "


def lines_of(asked: Iterable[Asked]) -> list[str]:
    """Each different request once, by API key and version."""
    found = {(one.key, one.version, str(one)) for one in asked}
    return [line for _, _, line in sorted(found)]


def written(recorded: Mapping[str, Iterable[str]]) -> str:
    return "".join("\n".join([HEAD + name, *lines]) + "\n" for name, lines in recorded.items())


def read(text: str) -> dict[str, list[str]]:
    parts = (part.rstrip("\n").split("\n") for part in text.split(HEAD)[1:])
    return {part[0]: part[1:] for part in parts}


def versions(lines: Iterable[str]) -> dict[str, list[int]]:
    """The versions of each request in these lines."""
    found: dict[str, set[int]] = {}
    for line in lines:
        name, version, *_ = line.split(" ")
        found.setdefault(name, set()).add(int(version))
    return {name: sorted(numbers) for name, numbers in found.items()}


def difference(recorded: Iterable[str], told: Iterable[str]) -> str:
    """In which requests and versions two recordings differ; empty if they do not."""
    before, now = versions(recorded), versions(told)
    names = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
    return "; ".join(
        f"{name}: {now.get(name, 'never')} where {before.get(name, 'never')} is recorded" for name in names
    )


def table(recorded: Mapping[str, Iterable[str]]) -> list[str]:
    """The requests as rows, and the clients as columns, as docs/kafka-requests.md shows them."""
    columns = {name: versions(lines) for name, lines in recorded.items()}
    keys = {message.name: message.key for message in messages().values()} | {name: key for key, name in OTHERS.items()}
    asked = sorted({name for column in columns.values() for name in column}, key=keys.__getitem__)
    rows = [["Request", "Key", *(str(number) for number, _ in enumerate(columns, 1))]]
    rows.append(["---"] * len(rows[0]))
    for name in asked:
        cells = (", ".join(map(str, column.get(name, ()))) for column in columns.values())
        rows.append([name, str(keys[name]), *cells])
    return [f"| {' | '.join(row)} |".replace("|  |", "| |").replace("|  |", "| |") for row in rows]


if __name__ == "__main__":
    print("\n".join(table(read(GOLDEN.read_text()))))
