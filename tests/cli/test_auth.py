"""`raftmeta auth` as a shell has it, on a served node: users, roles, grants, and who a command proves to be."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import raftmeta
from tests.client.nodes import serving
from tests.lint.sources import ROOT
from tests.processes.waiting import free_ports, wait_until

VARIABLES = ("RAFTMETA_USER", "RAFTMETA_PASSWORD", "RAFTMETA_PASSWORD_FILE", "RAFTMETA_TOKEN_FILE", "RAFTMETA_URL")


class Shell:
    """One served node without rights, and a folder with password files."""

    def __init__(self, node: raftmeta.Node, url: str, folder: Path) -> None:
        self.node = node
        self.url = url
        self.folder = folder

    def password(self, name: str, text: str = "") -> str:
        """The path of the file with the user's password."""
        path = self.folder / name
        if text:
            path.touch(mode=0o600)
            path.write_text(f"{text}\n")
        return str(path)

    def run(self, *words: str, user: str = "", code: int = 0, env: dict[str, str] | None = None) -> str:
        """Standard output of a command that ends with this exit code; of another than 0, the line that it complains."""
        known = ("--user", user, "--password-file", self.password(user)) if user else ()
        bare = {name: value for name, value in os.environ.items() if name not in VARIABLES}
        ended = subprocess.run(
            [sys.executable, "-m", "raftmeta.cli", "--url", self.url, *known, *words],
            stdin=subprocess.DEVNULL,
            env={**bare, **(env or {})},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert ended.returncode == code, ended.stdout + ended.stderr
        return ended.stdout or ended.stderr

    def json(self, *words: str, user: str = "") -> Any:
        return json.loads(self.run("--json", *words, user=user))


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with serving(tmp_path) as (nodes, url):
        node = nodes["a"]
        wait_until(lambda: node.status().feature_level >= 3, timeout_s=20, what="the level of rights")
        yield Shell(node, url, tmp_path)


@pytest.fixture
def guarded(shell: Shell) -> Shell:
    """With rights on: `boss` is an admin, `app` has the role `app`, which grants nothing yet."""
    for name in ("boss", "app"):
        shell.run("auth", "user", "put", name, "--new-password-file", shell.password(name, f"of {name}"))
    shell.run("auth", "enable", user="boss")
    shell.run("auth", "role", "put", "app", user="boss")
    shell.run("auth", "user", "bind", "app", "app", user="boss")
    return shell


def test_rights_are_turned_on_and_off(shell: Shell) -> None:
    """The first admin is the user who turns them on; then a command without a user is refused, and does nothing."""
    assert shell.json("auth", "status") == {"enabled": False, "user": None}
    shell.run("auth", "user", "put", "boss", "--new-password-file", shell.password("boss", "of the house"))
    assert shell.run("auth", "status", user="boss") == "rights are off; you are boss\n"
    assert shell.run("auth", "enable", user="boss") == "rights are on; boss is an admin\n"
    assert shell.run("auth", "status") == "rights are on\n"
    refused = shell.run("put", "k", "v", code=1)
    assert refused.startswith("raftmeta: ") and "check --user and its password" in refused and refused.count("\n") == 1
    assert shell.node.get("k") is None
    shell.run("put", "k", "v", user="boss")
    assert shell.run("get", "k", user="boss") == "v\n"
    assert shell.run("auth", "disable", user="boss").startswith("rights are off")
    assert shell.run("get", "k") == "v\n"


def test_rights_are_not_turned_on_without_an_admin(shell: Shell) -> None:
    """Nobody is named, or somebody who does not prove to be the user: rights stay off."""
    assert "--user" in shell.run("auth", "enable", code=2)
    shell.run("auth", "user", "put", "boss", "--new-password-file", shell.password("boss", "of the house"))
    shell.password("boss", "forgotten")
    shell.run("auth", "enable", user="boss", code=1)
    assert shell.json("auth", "status")["enabled"] is False


def test_a_grant_lets_a_user_in_and_a_revocation_shuts_it_out(guarded: Shell) -> None:
    assert guarded.run("put", "app/1", "x", user="app", code=1) == (
        "raftmeta: app has no right to write of b'app/1'; nothing was changed\n"
    )
    told = guarded.run("auth", "role", "grant", "app", "read", "write", "--prefix", "app/", user="boss")
    assert told == "app: granted read, write over keys that begin with app/\n"
    guarded.run("put", "app/1", "x", user="app")
    guarded.run("get", "apq", user="app", code=1)
    guarded.run("auth", "role", "revoke", "app", "write", "--prefix", "app/", user="boss")
    guarded.run("put", "app/1", "y", user="app", code=1)
    assert guarded.run("get", "app/1", user="app") == "x\n"
    guarded.run("auth", "user", "unbind", "app", "app", user="boss")
    guarded.run("get", "app/1", user="app", code=1)
    guarded.run("auth", "user", "bind", "app", "app", user="boss")
    guarded.run("auth", "role", "remove", "app", user="boss")
    guarded.run("get", "app/1", user="app", code=1)


def test_a_grant_is_over_a_key_a_range_or_all_keys(guarded: Shell) -> None:
    def readable() -> str:
        return "".join(key for key in ("a", "aa", "b", "c", "d") if may_read(key))

    def may_read(key: str) -> bool:
        with raftmeta.Client(guarded.url, user="app", password="of app") as client:
            try:
                return client.get(key) is None
            except raftmeta.PermissionDenied:
                return False

    grant = ("auth", "role", "grant", "app", "read")
    assert readable() == ""
    guarded.run(*grant, "--key", "a", user="boss")
    assert readable() == "a"
    guarded.run(*grant, "--start", "c", user="boss")
    assert readable() == "acd"
    guarded.run("auth", "role", "revoke", "app", "read", "--start", "c", user="boss")
    guarded.run(*grant, "--start", "b", "--end", "c", user="boss")
    assert readable() == "ab"
    guarded.run(*grant, user="boss")
    assert readable() == "aaabcd"


def test_only_an_admin_changes_rights(guarded: Shell) -> None:
    for words in (
        ("disable",),
        ("user", "put", "boss", "--one-time"),
        ("user", "bind", "app", "admin"),
        ("user", "remove", "boss"),
        ("role", "put", "more"),
        ("role", "grant", "app", "admin"),
    ):
        assert "no right to admin" in guarded.run("auth", *words, user="app", code=1)
    assert guarded.json("auth", "status", user="boss") == {"enabled": True, "user": "boss"}


def test_a_one_time_password_is_drawn_and_replaced_by_its_user(guarded: Shell) -> None:
    """It is printed once. It sets another password, and opens nothing."""
    token = guarded.json("auth", "user", "put", "new", "--one-time", user="boss")["one_time_password"]
    assert len(token) >= 32
    guarded.run("auth", "user", "bind", "new", "admin", user="boss")
    guarded.password("new", token)
    assert "no right" in guarded.run("get", "k", user="new", code=1)
    own = guarded.password("own", "of my own")
    guarded.run("auth", "user", "put", "new", "--new-password-file", own, user="new")
    assert "check --user" in guarded.run("auth", "status", user="new", code=1)
    guarded.password("new", "of my own")
    assert "no key" in guarded.run("get", "k", user="new", code=1)


def test_a_user_without_a_password_and_one_who_was_removed_get_nothing(guarded: Shell) -> None:
    guarded.run("auth", "user", "put", "app", "--no-password", user="boss")
    guarded.run("auth", "status", user="app", code=1)
    guarded.run("auth", "user", "remove", "app", user="boss")
    assert "no such user" in guarded.run("auth", "user", "bind", "app", "app", user="boss", code=1)


def test_a_node_makes_an_admin_when_none_is_left(guarded: Shell) -> None:
    """docs/security.md "No admin is left": by the node, which is bound by no rights."""
    guarded.run("auth", "user", "remove", "boss", user="boss")
    guarded.run("auth", "status", user="boss", code=1)
    auth = guarded.node.auth
    auth.put_user("boss", "of boss")
    auth.put_role("admin")
    auth.grant("admin", "admin")
    auth.bind("boss", "admin")
    guarded.run("auth", "disable", user="boss")


def test_the_password_comes_from_the_environment_too(guarded: Shell) -> None:
    given = {"RAFTMETA_USER": "boss", "RAFTMETA_PASSWORD": "of boss"}
    assert guarded.run("auth", "status", env=given) == "rights are on; you are boss\n"
    path = {"RAFTMETA_USER": "boss", "RAFTMETA_PASSWORD_FILE": guarded.password("boss")}
    assert guarded.run("auth", "status", env=path) == "rights are on; you are boss\n"
    wrong = guarded.run("auth", "status", env={**given, "RAFTMETA_PASSWORD": "guessed"}, code=1)
    assert "guessed" not in wrong


def test_status_of_the_cluster_proves_the_user_to_each_node(guarded: Shell) -> None:
    assert guarded.json("status", user="boss")[0]["name"] == "a"
    guarded.run("status", code=3)


def test_show_tells_users_roles_and_tokens(guarded: Shell) -> None:
    guarded.run("auth", "role", "grant", "app", "read", "write", "--prefix", "app/", user="boss")
    guarded.run("auth", "role", "grant", "app", "read", "--key", "k", user="boss")
    guarded.run("auth", "user", "put", "cert", "--no-password", user="boss")
    assert guarded.run("auth", "show", user="boss").splitlines() == [
        "user app: password; roles app",
        "user boss: password; roles admin",
        "user cert: no password",
        "role admin: admin over all keys",
        "role app: read, write over keys that begin with app/",
        "role app: read over the key k",
    ]
    own = guarded.json("auth", "show", "--user", "app", "--role", "app", user="app")
    assert own["users"] == [{"name": "app", "roles": ["app"], "has_password": True, "is_one_time": False, "tokens": []}]
    assert own["roles"][0]["grants"][1] == {"rights": ["read"], "start": "k", "end": "k\0"}
    assert "no right" in guarded.run("auth", "show", user="app", code=1)
    assert "there is no user nobody" in guarded.run("auth", "show", "--user", "nobody", user="boss", code=1)


def test_a_token_is_printed_used_and_revoked(guarded: Shell) -> None:
    guarded.run("auth", "role", "grant", "app", "read", "write", "--prefix", "app/", user="boss")
    token = guarded.run("auth", "token", "new", "--ttl", "60", user="app").strip()
    file = guarded.password("app.token", token)
    assert guarded.run("--token-file", file, "auth", "status") == "rights are on; you are app\n"
    guarded.run("--token-file", file, "put", "app/1", "x")
    assert token not in guarded.run("--token-file", file, "put", "b", "x", code=1)
    (id,) = guarded.json("auth", "show", "--user", "app", user="app")["users"][0]["tokens"]
    assert f"tokens {id:x}" in guarded.run("auth", "show", "--user", "app", user="app")
    guarded.run("--token-file", file, "auth", "token", "revoke")
    guarded.run("--token-file", file, "get", "app/1", code=1)
    other = guarded.json("auth", "token", "new", "--for", "app", user="boss")["token"]
    guarded.run("auth", "token", "revoke", f"{int(other.split('.')[1], 16):x}", user="boss")
    assert "no right" in guarded.run("auth", "token", "new", "--for", "boss", user="app", code=1)
    assert "place of --user" in guarded.run("--token-file", file, "get", "k", user="app", code=2)


def printed_token(errors: Path) -> str:
    found = re.search(r"first admin: (\S+)", errors.read_text())
    return found.group(1) if found is not None else ""


def test_the_founding_prints_the_token_of_the_first_admin(tmp_path: Path) -> None:
    """Once: a second start prints none. A lost token is replaced on the node's machine."""
    peer, clients = free_ports(2)
    shell = Shell(None, f"raft://127.0.0.1:{clients}", tmp_path)  # type: ignore[arg-type]

    @contextlib.contextmanager
    def served(number: int, *options: str) -> Iterator[Path]:
        errors = tmp_path / f"errors{number}"
        command = [sys.executable, "-m", "raftmeta.cli", "serve", "--name", "a", "--peer", f"a=127.0.0.1:{peer}"]
        command += ["--data", str(tmp_path / "a"), "--clients", f"127.0.0.1:{clients}", *options]
        with errors.open("wb") as file, subprocess.Popen(command, stderr=file) as process:
            try:
                wait_until(lambda: "became_leader" in errors.read_text(), timeout_s=30, what="a leader")
                yield errors
            finally:
                process.terminate()

    with served(1, "--rights") as errors:
        wait_until(lambda: printed_token(errors) != "", timeout_s=30, what="the token")
        assert "check --user" in shell.run("put", "k", "v", code=1)
        lost = shell.password("lost", printed_token(errors))
    with served(2, "--rights", "--new-admin-token") as errors:
        wait_until(lambda: printed_token(errors) != "", timeout_s=30, what="another token")
        shell.run("--token-file", lost, "auth", "claim", "boss", "--no-password", code=1)
        token = shell.password("token", printed_token(errors))
        file = shell.password("boss", "of the house")
        claimed = shell.run("--token-file", token, "auth", "claim", "boss", "--new-password-file", file)
        assert claimed == "rights are on; boss is an admin\n"
        shell.run("put", "k", "v", user="boss")
        shell.run("--token-file", token, "auth", "claim", "other", "--new-password-file", file, code=1)
    with served(3, "--rights") as errors:
        wait_until(lambda: shell.run("get", "k", user="boss") == "v\n", timeout_s=30, what="an answer")
        assert printed_token(errors) == ""


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--password-file", "f", "auth", "status"), "--user"),
        (("--user", "boss", "get", "k"), "RAFTMETA_PASSWORD"),
        (("--user", "boss", "--password-file", "/no/such", "get", "k"), "/no/such"),
        (("auth", "user", "put", "x"), "--new-password-file"),
        (("auth", "user", "put", "x", "--one-time", "--no-password"), "excludes"),
        (("auth", "user", "put", "x" * 65, "--one-time"), "64 bytes"),
        (("auth", "role", "grant", "app", "fly"), "'fly' is none of"),
        (("auth", "role", "grant", "app", "read", "--prefix", "a", "--key", "b"), "exclude"),
        (("auth", "role", "grant", "app"), "RIGHTS"),
        (("auth", "claim", "boss", "--no-password"), "--token-file"),
        (("auth", "token", "revoke"), "--token-file"),
        (("auth", "token", "revoke", "xyz"), "hex digits"),
    ],
)
def test_wrong_use_is_exit_code_2_and_says_what(shell: Shell, words: tuple[str, ...], told: str) -> None:
    assert told in shell.run(*words, code=2)


@pytest.mark.parametrize(
    ("content", "mode", "told"),
    [(b"x\n", 0o644, "chmod 600"), (b"\nx\n", 0o600, "empty"), (b"\xff\n", 0o600, "UTF-8")],
)
def test_a_password_file_that_is_unfit_is_refused(shell: Shell, content: bytes, mode: int, told: str) -> None:
    path = shell.folder / "unfit"
    path.write_bytes(content)
    path.chmod(mode)
    assert told in shell.run("--user", "boss", "--password-file", str(path), "get", "k", code=2)
    assert told in shell.run("auth", "user", "put", "boss", "--new-password-file", str(path), code=2)


def at_terminal(shell: Shell, *words: str, typed: list[str]) -> tuple[int, str]:
    """The exit code and all that a terminal shows; the next text is typed whenever the program asks for a password."""
    master, slave = os.openpty()
    shown, answered = b"", 0
    with subprocess.Popen(
        [sys.executable, "-m", "raftmeta.cli", "--url", shell.url, *words],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,  # the terminal of who runs the tests is not asked
    ) as program:
        os.close(slave)
        with contextlib.suppress(OSError):  # the terminal goes with the program
            while piece := os.read(master, 4096):
                shown += piece
                asked = len(re.findall(rb"(?:Password of \w+|New password of \w+|Repeat for confirmation): ", shown))
                for text in typed[answered:asked]:
                    os.write(master, f"{text}\n".encode())
                answered = asked
    os.close(master)
    return program.returncode, shown.decode()


def test_a_terminal_is_asked_for_passwords_and_shows_none(shell: Shell) -> None:
    """Twice for a new one, until both are alike."""
    typed = ["of the house", "of the mouse", "of the house", "of the house"]
    code, shown = at_terminal(shell, "auth", "user", "put", "boss", typed=typed)
    assert (code, shown.count("New password of boss: ")) == (0, 2)
    assert "put the user boss" in shown and "of the" not in shown
    code, shown = at_terminal(shell, "--user", "boss", "auth", "status", typed=["of the house"])
    assert (code, shown.count("Password of boss: ")) == (0, 1)
    assert "rights are off; you are boss" in shown and "of the" not in shown


def test_the_commands_of_the_page_work_as_printed(shell: Shell) -> None:
    """docs/security.md "Rights": every block of commands, one after the other, in an empty folder."""
    part = (ROOT / "docs" / "security.md").read_text().split("\n## Rights\n")[1].split("\n## ")[0]
    blocks = re.findall(r"^```sh\n(.*?)^```", part, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 3
    program = shell.folder / "bin" / "raftmeta"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m raftmeta.cli "$@"\n')
    program.chmod(0o755)
    folder = shell.folder / "work"
    folder.mkdir()
    bare = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    ended = subprocess.run(
        ["sh", "-eux", "-c", "\n".join(blocks)],
        cwd=folder,
        env={**bare, "PATH": f"{program.parent}:{os.environ['PATH']}", "RAFTMETA_URL": shell.url},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
