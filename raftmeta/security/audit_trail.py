"""An audit trail as files: its lines, how they are chained, and what does not fit (docs/formats.md "Audit trail").

    found = verify(folder)
    for problem in found.problems:
        print(problem.file, problem.line, problem.reason)

It decides whether lines are what a node wrote. It never writes, and needs no running node. security/audit_lines makes
the lines natively; this module computes each chain by itself, so that one checks the other.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import hmac
import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from raftmeta.errors import ConfigError
from raftmeta.security.audit import PURPOSE_CHAIN, derived

__all__ = ["Line", "Problem", "Resumed", "Verdict", "file_name", "files_of", "key_id", "lines_of", "resume", "verify"]

FORMAT = 1  # FORMAT_: of lines and files
CHAIN_BYTES = 32
FIRST_CHAIN = bytes(CHAIN_BYTES)  # before the first line
LINE_BYTES_MAX = 64 * 1024  # more than the longest that a node writes
TAIL_BYTES = 8 * LINE_BYTES_MAX  # of a file, looked at to go on behind it
PROBLEMS_MAX = 100
LOCK = "audit.lock"
_FILE_NAME = re.compile(r"([0-9a-f]{16})\.audit")
_CHAIN = re.compile(rb'^(\{.*),"chain":"([0-9a-f]{64})"\}\n$', re.DOTALL)


def file_name(number: int) -> str:
    return f"{number:016x}.audit"


def files_of(folder: Path) -> list[tuple[int, Path]]:
    """The files of a trail by number. Raises ConfigError: the folder cannot be read."""
    try:
        names = os.listdir(folder)
    except OSError as error:
        raise ConfigError(f"audit: {folder}: {error.strerror}", field="audit.folder") from None
    matches = ((_FILE_NAME.fullmatch(name), name) for name in names)
    return sorted((int(match[1], 16), folder / name) for match, name in matches if match)


@dataclass(frozen=True, slots=True)
class Line:
    """A line that can be read. body: what its chain is about, beside the chain before."""

    body: bytes
    chain: bytes
    facts: dict[str, Any]

    @property
    def mark(self) -> str:
        """Of a line about the trail itself: begin, end, dropped, suppressed; else empty."""
        return str(self.facts.get("audit", ""))

    @property
    def is_closing(self) -> bool:
        """Whether a run of the node ended in order with it."""
        return self.mark == "end" and self.facts.get("cause") == "close"

    @property
    def number(self) -> int:
        found = self.facts.get("number")
        return found if isinstance(found, int) else -1


def line_of(raw: bytes) -> Line | None:
    """The line in these bytes, which end with a newline; None: they are none."""
    match = _CHAIN.match(raw) if len(raw) <= LINE_BYTES_MAX else None
    if match is None:
        return None
    try:
        facts = json.loads(raw)
    except ValueError:
        return None
    return Line(match[1], bytes.fromhex(match[2].decode()), facts) if isinstance(facts, dict) else None


def lines_of(folder: Path) -> Iterator[tuple[Path, int, Line | None]]:
    """Every line with its file and its number in that, oldest first; None in the place of one that cannot be read."""
    for _, path in files_of(folder):
        with contextlib.suppress(FileNotFoundError), path.open("rb") as file:  # a running node deletes the oldest
            for at, raw in enumerate(file, 1):
                yield path, at, line_of(raw)


def chain_after(previous: bytes, body: bytes, key: bytes | None) -> bytes:
    """The chain of a line. key: that of the chain, or None."""
    if key is None:
        return hashlib.sha256(previous + body).digest()
    return hmac.digest(key, previous + body, "sha256")


def key_id(key: bytes | None) -> str:
    """The name of a key of the chain, which tells nothing about it; empty: of none."""
    return "" if key is None else hmac.digest(key, b"raftmeta audit key id", "sha256")[:8].hex()


# --- going on -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Resumed:
    """Where a trail goes on. file: number of the file; number, chain: of its last line.

    cause: new, start (behind a closing line), crash (without one), rekeyed (under another secret than before, so in
        another file), damaged (the last file cannot be read: the trail goes on in another).
    torn: bytes behind the last line that are none. lacks_newline: the file ends without one.
    """

    file: int
    number: int
    chain: bytes
    cause: str
    torn: bytes = b""
    lacks_newline: bool = False


def resume(folder: Path, key: bytes | None) -> Resumed:
    """Find the end of a trail. key: that of the chain. The last line counts as it is: verify() judges it."""
    files = files_of(folder)
    if not files:
        return Resumed(1, 0, FIRST_CHAIN, "new")
    number, path = files[-1]
    last, torn = _last_line(path)
    if last is not None and _secret_of(path) != key_id(key):
        return Resumed(number + 1, last.number, last.chain, "rekeyed", torn)
    if last is not None and torn and (line := line_of(torn + b"\n")) is not None:
        # The last byte of the last line alone is missing.
        return Resumed(number, line.number, line.chain, "crash", lacks_newline=True)
    if last is not None:
        cause = "start" if not torn and last.is_closing else "crash"
        return Resumed(number, last.number, last.chain, cause, torn, lacks_newline=bool(torn))
    before = _last_line(files[-2][1])[0] if len(files) > 1 else None
    if before is not None and before.facts.get("next") == file_name(number):
        # Its first line never came to the disk.
        return Resumed(number, before.number, before.chain, "crash", torn, lacks_newline=bool(torn))
    if len(files) == 1 and not torn:
        return Resumed(number, 0, FIRST_CHAIN, "new")
    return Resumed(number + 1, 0, FIRST_CHAIN, "damaged")


def _secret_of(path: Path) -> str:
    """The id of the key under which a file was begun; empty: none."""
    with path.open("rb") as file:
        first = next((line for raw in file if (line := line_of(raw)) is not None), None)
    return "" if first is None else str(first.facts.get("secret", ""))


def _last_line(path: Path) -> tuple[Line | None, bytes]:
    """The last line that can be read, and the bytes behind it."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        start = max(0, size - TAIL_BYTES)
        file.seek(start)
        tail = file.read()
    at = 0 if start == 0 else tail.find(b"\n") + 1
    end = at
    last: Line | None = None
    while (newline := tail.find(b"\n", at)) >= 0:
        line = line_of(tail[at : newline + 1])
        at = newline + 1
        if line is not None and line.number >= 0:
            last, end = line, at
    return last, tail[end:]


# --- verification ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that no node wrote so. line: from 1; 0: the file as a whole."""

    file: str
    line: int
    reason: str


@dataclass(slots=True)
class Verdict:
    """The findings of verify(). notes: no problems by themselves, but people should know them."""

    files: int = 0
    lines: int = 0
    number: int = 0
    chain: str = ""
    is_closed: bool = False
    is_running: bool = False
    problems: list[Problem] = field(default_factory=list)
    notes: list[Problem] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        return not self.problems


def verify(folder: Path, *, keys: Sequence[bytes] = (), may_be_open: bool = False, expected: str = "") -> Verdict:
    """Check every line of every file.

    keys: the secrets of Audit.key_file, of now and of earlier files. With one of them a part of the trail that was
        written without a secret is a problem: anybody can make such a part.
    may_be_open: a trail without a closing line is no problem, though no node runs on the folder.
    expected: NUMBER:CHAIN of a line that somebody kept: it must stand in the trail.
    Raises ConfigError: the folder cannot be read, or has no trail.
    """
    files = files_of(folder)
    if not files:
        raise ConfigError(f"audit: {folder} has no audit trail", field="audit.folder")
    verdict = Verdict(files=len(files), is_running=_is_locked(folder))
    check = _Check(verdict, keys, expected)
    for position, (number, path) in enumerate(files):
        try:
            check.file(number, path, is_last=position == len(files) - 1)
        except FileNotFoundError:  # a running node deletes the oldest ones meanwhile
            if check.last is not None:
                raise
    check.end(files, may_be_open=may_be_open)
    return verdict


def _is_locked(folder: Path) -> bool:
    """Whether a node writes there now."""
    try:
        descriptor = os.open(folder / LOCK, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


class _Check:
    """Goes through the lines in order. previous: the chain that the next line must continue."""

    def __init__(self, verdict: Verdict, keys: Sequence[bytes], expected: str) -> None:
        self.verdict = verdict
        self.keys = {key_id(key): key for key in (derived(one, PURPOSE_CHAIN) for one in keys)}
        self.key: bytes | None = None  # of the file
        self.tail = ("", 0, b"")  # of the file before: where bytes stand that are no line, and which
        self.previous: bytes | None = None
        self.number = 0
        self.last: Line | None = None
        self.last_place = ("", 0)
        self.file_number = 0
        self.oldest = 0
        self.boot: int | None = None
        self.is_torn = False
        self.expected = expected
        self.has_seen = not expected

    def _wrong(self, file: str, line: int, reason: str) -> None:
        if len(self.verdict.problems) < PROBLEMS_MAX:
            self.verdict.problems.append(Problem(file, line, reason))

    # --- files ------------------------------------------------------------------------------------------------------

    def file(self, number: int, path: Path, *, is_last: bool) -> None:
        file = path.open("rb")
        if self.file_number and number != self.file_number + 1:
            missing = ", ".join(
                file_name(one) for one in range(self.file_number + 1, min(number, self.file_number + 9))
            )
            self._wrong(missing, 0, "this file is missing")
        self.file_number = number
        garbage = bytearray()
        garbage_at = 0
        before = self.verdict.lines
        self.is_torn = False
        with file:
            for at, raw in enumerate(file, 1):
                line = line_of(raw)
                if line is None and is_last and not raw.endswith(b"\n"):
                    line = line_of(raw + b"\n")
                    self.is_torn = True
                if line is None:
                    garbage_at = garbage_at or at
                    garbage += raw
                    continue
                if garbage and not _declares(line, bytes(garbage)):
                    self._wrong(path.name, garbage_at, "this is no line of the trail: it was changed or added")
                elif garbage:
                    self.verdict.notes.append(Problem(path.name, garbage_at, "torn when the node was killed"))
                self._line(path.name, at, line, is_first=at == 1 or (garbage_at == 1 and bool(garbage)))
                garbage.clear()
                garbage_at = 0
        if self.verdict.lines == before and not is_last:
            self._wrong(path.name, 0, "the file has no line")
        elif garbage and is_last:
            self.verdict.notes.append(Problem(path.name, garbage_at, "torn: a line that was never finished"))
        elif garbage:
            self.tail = (path.name, garbage_at, bytes(garbage))
        self.is_torn = self.is_torn or bool(garbage)

    # --- lines ------------------------------------------------------------------------------------------------------

    def _line(self, file: str, at: int, line: Line, *, is_first: bool) -> None:
        self.verdict.lines += 1
        if is_first:
            self._first(file, at, line)
        if self.previous is None:
            self.previous = _stated_chain(line)
        is_next = chain_after(self.previous, line.body, self.key) == line.chain
        if self.last is not None and line.number != self.number + 1:
            self._wrong(file, at, _numbers(self.number, line.number))
        elif not is_next:
            self._wrong(file, at, "this line was changed, or the one before, or the key is another")
        if line.mark == "begin":
            self._begin(file, at, line)
        if self.expected.partition(":")[0] == str(line.number):
            self.has_seen = self.expected.partition(":")[2] == line.chain.hex()
        self.previous = line.chain
        self.number = line.number
        self.last = line
        self.last_place = (file, at)

    def _first(self, file: str, at: int, line: Line) -> None:
        """The first line of a file: which secret it is under, and how the file before ended."""
        cause = line.facts.get("cause")
        if line.mark != "begin" or line.facts.get("file") != self.file_number:
            self._wrong(file, at, "the file does not begin with its own opening line")
        secret = str(line.facts.get("secret", ""))
        self.key = self.keys.get(secret)
        if secret and self.key is None:
            self._wrong(file, at, f"the key {secret} of this file was not given")
        elif self.keys and not secret:
            self._wrong(file, at, "the file was written without a secret")
        if cause == "damaged":
            self.verdict.notes.append(Problem(file, at, "the file before could not be read when the node started"))
            self.previous = _stated_chain(line)
            self.number = line.number - 1
        elif self.last is not None and cause != "rekeyed" and self.last.facts.get("next") != file:
            self._wrong(*self.last_place, f"the file ends without a closing line that names {file}")
        name, place, garbage = self.tail
        if garbage and not _declares(line, garbage):
            self._wrong(name, place, "this is no line of the trail: it was changed or added")
        elif garbage:
            self.verdict.notes.append(Problem(name, place, "torn when the node was killed"))
        self.tail = ("", 0, b"")

    def _begin(self, file: str, at: int, line: Line) -> None:
        if isinstance(oldest := line.facts.get("oldest"), int):
            self.oldest = oldest
        cause, boot = line.facts.get("cause"), line.facts.get("boot")
        if cause == "rotation":
            return
        if cause == "start" and self.last is not None and not self.last.is_closing:
            self._wrong(file, at, "the node closed the trail before this start, and the closing line is gone")
        if cause == "crash":
            text = "a run of the node ended here without a closing line: lines of its last moments may be missing"
            self.verdict.notes.append(Problem(file, at, text))
        if isinstance(boot, int) and self.boot is not None and boot != self.boot + 1:
            text = f"boot {self.boot} is followed by {boot}: starts without a trail, or a run was taken out"
            self.verdict.notes.append(Problem(file, at, text))
        self.boot = boot if isinstance(boot, int) else None

    # --- the end ----------------------------------------------------------------------------------------------------

    def end(self, files: list[tuple[int, Path]], *, may_be_open: bool) -> None:
        verdict = self.verdict
        if self.last is None:
            self._wrong(files[-1][1].name, 0, "the trail has no line")
            return
        verdict.number, verdict.chain = self.number, self.last.chain.hex()
        if files[0][0] > self.oldest > 0:
            self._wrong(file_name(self.oldest), 0, "this file is missing: it was kept when the last file began")
        verdict.is_closed = self.last.is_closing and not self.is_torn
        following = self.last.facts.get("next")
        if isinstance(following, str) and following != files[-1][1].name:
            if not (verdict.is_running or may_be_open):
                self._wrong(following, 0, "this file is missing: the one before ends with its name")
        elif not (verdict.is_closed or verdict.is_running or may_be_open):
            place = self.last_place if self.last_place[0] == files[-1][1].name else (files[-1][1].name, 0)
            self._wrong(*place, "the trail ends without its closing line: the node was killed, or it was cut")
        if self.tail[2]:
            self._wrong(*self.tail[:2], "this is no line of the trail: it was changed or added")
        if not self.has_seen:
            self._wrong(files[-1][1].name, 0, f"no line is {self.expected}")


def _stated_chain(line: Line) -> bytes:
    """The chain before the first line of the oldest file, as that line says it."""
    stated = line.facts.get("previous")
    try:
        chain = bytes.fromhex(stated) if isinstance(stated, str) else b""
    except ValueError:
        chain = b""
    return chain if len(chain) == CHAIN_BYTES else FIRST_CHAIN


def _declares(line: Line, garbage: bytes) -> bool:
    """Whether this opening line says that those bytes were torn. The node put a newline behind them."""
    torn = garbage.removesuffix(b"\n")
    return (
        line.mark == "begin"
        and line.facts.get("torn") == len(torn)
        and line.facts.get("torn_sha256") == hashlib.sha256(torn).hexdigest()
    )


def _numbers(before: int, found: int) -> str:
    if found == before + 2:
        return f"line number {before + 1} is missing"
    if found > before + 2:
        return f"line numbers {before + 1} to {found - 1} are missing"
    return f"line number {found} stands behind {before}: lines were added, or their order was changed"
