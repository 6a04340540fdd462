"""The shared needs of every command: where the cluster is, how long to wait, how to print, the exit code of an error.

    0   done
    1   the answer is no: refused, no right to it, no such key, states differ
    2   the command itself is wrong: an argument, a setting, an address
    3   certainly not executed: trying again is safe
    4   it is not known whether it was executed
    5   stopped, or files that are damaged
    130 ended by Ctrl-C, with the report up to that moment

It never retries: a command line reports the outcome and leaves the decision to its caller.
"""

from __future__ import annotations

import base64
import contextlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import click
from rich.console import Console
from rich.table import Table

import raftmeta

NO = 1
WRONG_USE = 2
NOT_EXECUTED = 3
OUTCOME_UNKNOWN = 4
STOPPED = 5
INTERRUPTED = 130

# The first class that fits decides; what stands behind it is the advice in the line.
_FATES: tuple[tuple[type[BaseException], int, str], ...] = (
    (raftmeta.OutcomeUnknown, OUTCOME_UNKNOWN, "it may have been executed: read before you repeat it"),
    (raftmeta.PermissionDenied, NO, "nothing was changed"),
    (raftmeta.AuthenticationFailed, NO, "nothing was changed: check --user and its password"),
    (raftmeta.NotExecuted, NOT_EXECUTED, "nothing was changed; try again"),
    (raftmeta.ConfigError, WRONG_USE, ""),
    (raftmeta.InvalidArgument, WRONG_USE, ""),
    (raftmeta.Refused, NO, ""),
    (raftmeta.Fatal, STOPPED, "see docs/operations.md"),
    (raftmeta.RaftmetaError, STOPPED, ""),
    (OSError, WRONG_USE, ""),
)


class Failed(click.ClickException):
    """One line on standard error, and an exit code."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code  # type: ignore[misc]  # click declares it for the class and reads the instance's

    def show(self, file: Any = None) -> None:
        click.echo(f"raftmeta: {self.message}", file=file or sys.stderr)


def fail(message: str, exit_code: int) -> NoReturn:
    raise Failed(message, exit_code)


@contextlib.contextmanager
def fates() -> Iterator[None]:
    """Turn each error of raftmeta into one line and an exit code."""
    try:
        yield
    except tuple(kind for kind, _, _ in _FATES) as error:
        exit_code, advice = next((code, advice) for kind, code, advice in _FATES if isinstance(error, kind))
        text = " ".join(str(error).split()) or type(error).__name__
        fail(f"{text}; {advice}" if advice else text, exit_code)


@dataclass(frozen=True, slots=True)
class Session:
    """The options before the command."""

    url: str
    cluster: str
    timeout_s: float
    is_json: bool
    tls: raftmeta.Tls | None = None
    user: str | None = None
    password: Callable[[], str] | None = field(default=None, repr=False)  # asked for when a command connects
    below: str = ""  # the prefix of all keys
    token: Callable[[], str] | None = field(default=None, repr=False)

    @contextlib.contextmanager
    def client(self) -> Iterator[raftmeta.Client]:
        """A connected client; its errors become exit codes."""
        with fates(), self.client_of(self.url) as client:
            client.ready(self.timeout_s)
            yield client

    @contextlib.contextmanager
    def store(self) -> Iterator[raftmeta.Client | raftmeta.View]:
        """A connected client for commands on keys: those of --below alone, if it is given."""
        with self.client() as client:
            yield client.prefixed(self.below) if self.below else client

    def client_of(self, url: str) -> raftmeta.Client:
        """A client of this URL, as the user of --user or with the token of --token-file, if there is one."""
        name = "raftmeta command line"
        if self.token is not None:
            return raftmeta.Client(url, cluster=self.cluster, name=name, tls=self.tls, token=self.token())
        if self.user is None or self.password is None:
            return raftmeta.Client(url, cluster=self.cluster, name=name, tls=self.tls)
        password = self.password()
        return raftmeta.Client(url, cluster=self.cluster, name=name, tls=self.tls, user=self.user, password=password)

    def aio_client_of(self, url: str) -> raftmeta.aio.Client:
        """The same for tasks."""
        return raftmeta.aio.Client(
            url,
            cluster=self.cluster,
            name="raftmeta command line",
            tls=self.tls,
            user=None if self.token is not None else self.user,
            password=self.password() if self.token is None and self.user is not None and self.password else None,
            token=None if self.token is None else self.token(),
        )

    def endpoints(self, url: str | None = None) -> list[str]:
        """One URL for each address in the URL given."""
        scheme, _, rest = (url or self.url).partition("://")
        if scheme == "raft+unix":
            return [url or self.url]
        addresses, mark, query = rest.partition("?")
        return [f"{scheme}://{address}{mark}{query}" for address in addresses.split(",") if address]

    # --- printing -----------------------------------------------------------------------------------------------------
    def show(self, value: Any, text: str | None = None) -> None:
        """Print one answer: as a line of JSON, or as text for people (nothing when it is empty)."""
        if self.is_json:
            click.echo(json.dumps(plain(value)))
        elif text:
            click.echo(text)

    def show_raw(self, value: Any, raw: bytes) -> None:
        """Print as show; without JSON the bytes as they are, and a newline."""
        if self.is_json:
            click.echo(json.dumps(plain(value)))
        else:
            sys.stdout.buffer.write(raw + b"\n")
            sys.stdout.buffer.flush()

    def show_table(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Rows with the same columns."""
        if self.is_json:
            click.echo(json.dumps(plain(rows)))
            return
        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in rows[0] if rows else ():
            table.add_column(column)
        for row in rows:
            table.add_row(*("" if value is None else str(value) for value in row.values()))
        console = Console(width=None if sys.stdout.isatty() else 250)
        console.print(table)


def tls_of(
    authorities: str | None,
    certificate: str | None,
    key: str | None,
    revoked: str | None,
    *,
    password_file: str | None = None,
    accept_plain: bool = False,
) -> raftmeta.Tls | None:
    """The setting tls from options that name files; None: none of them was given."""
    needed = {"--tls-ca": authorities, "--tls-cert": certificate, "--tls-key": key}
    missing = [option for option, path in needed.items() if not path]
    if len(missing) == len(needed) and not (revoked or password_file or accept_plain):
        return None
    if authorities is None or certificate is None or key is None:
        fail(f"TLS needs --tls-ca, --tls-cert and --tls-key; missing: {', '.join(missing)}", WRONG_USE)
    with fates():
        return raftmeta.Tls(
            certificate=certificate,
            key=key,
            authorities=authorities,
            revoked=revoked,
            key_password=None if password_file is None else partial(_first_line, password_file),
            accept_plain=accept_plain,
        )


def _first_line(path: str) -> bytes:
    try:
        return Path(path).read_bytes().split(b"\n", 1)[0]
    except OSError as error:
        raise raftmeta.ConfigError(f"tls.key_password: {path}: {error.strerror}", field="tls.key_password") from None


pass_session = click.make_pass_decorator(Session)


def text_of(raw: bytes) -> str:
    """Bytes for people: as text where they are text, else escaped."""
    with contextlib.suppress(UnicodeDecodeError):
        text = raw.decode()
        if text.isprintable():
            return text
    return raw.decode("utf-8", "backslashreplace").encode("unicode_escape").decode()


def plain(value: Any) -> Any:
    """As JSON: bytes as text where they are UTF-8, else {"base64": ...}; named tuples and dataclasses as objects."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, raftmeta.Revision):
        return {"revision": value.revision, "index": value.index, "result": plain(value.result)}
    if is_dataclass(value) and not isinstance(value, type):
        return plain({name: item for name, item in asdict(value).items() if not name.startswith("_")})
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: plain(item) for name, item in value._asdict().items()}
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value
