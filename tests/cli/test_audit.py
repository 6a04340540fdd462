"""raftmeta serve --audit-*, raftmeta audit verify and show, as a shell has them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

import raftmeta
from raftmeta.security.audit_trail import file_name, files_of
from tests.cli.test_commands import command
from tests.processes.waiting import free_addresses, wait_until
from tests.security.test_audit_trail import key_file, write


def run(*arguments: str, code: int = 0) -> str:
    ended = subprocess.run(command(*arguments), capture_output=True, timeout=60, check=False)
    assert ended.returncode == code, ended.stdout + ended.stderr
    return ended.stdout.decode() + ended.stderr.decode()


def test_a_served_node_keeps_a_trail_that_the_commands_read(tmp_path: Path) -> None:
    """Under every option; while it runs the trail is open and whole, afterwards closed."""
    trail, key = tmp_path / "trail", key_file(tmp_path)
    peer, clients = free_addresses(2)
    serve = command("serve", "--name", "a", "--peer", f"a={peer}", "--data", str(tmp_path / "a"), "--clients", clients)
    serve += ["--audit-folder", str(trail), "--audit-reads", "--audit-writes", "--audit-hash-keys"]
    serve += ["--audit-key-file", str(key), "--audit-file-bytes", "65536", "--audit-files", "9", "--audit-required"]
    with (tmp_path / "log").open("wb") as log, subprocess.Popen(serve, stderr=log) as node:
        try:
            with raftmeta.Client(f"raft://{clients}") as client:
                client.put("some/key", "value", timeout_s=40)
                client.get("some/key")
            wait_until(
                lambda: "operation" in run("--json", "audit", "show", str(trail), "--operation", "get"),
                timeout_s=20,
                what="the line of the read",
            )
            assert "a node writes it" in run("audit", "verify", str(trail), "--key-file", str(key))
        finally:
            node.terminate()
            assert node.wait(30) == 0
    whole = run("audit", "verify", str(trail), "--key-file", str(key))
    assert whole.startswith("whole: ") and "(closed)" in whole
    assert "was not given" in run("audit", "verify", str(trail), code=1)
    (put,) = run("--json", "audit", "show", str(trail), "--operation", "put").splitlines()
    assert json.loads(put)["verdict"] == "ok" and "key_hash" in json.loads(put)
    assert "some/key" not in run("audit", "show", str(trail))


def test_verify_names_file_and_line_and_fails(tmp_path: Path) -> None:
    write(tmp_path / "trail")
    path = files_of(tmp_path / "trail")[0][1]
    told = json.loads(run("--json", "audit", "verify", str(tmp_path / "trail")))
    assert told["is_whole"] and told["is_closed"] and told["lines"] == 12
    kept = f"{told['number']}:{told['chain']}"
    assert "whole" in run("audit", "verify", str(tmp_path / "trail"), "--expect", kept)
    assert "no line is" in run("audit", "verify", str(tmp_path / "trail"), "--expect", f"1:{told['chain']}", code=1)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:4] + lines[5:]))
    assert f"{file_name(1)}:5: line number 5 is missing" in run("audit", "verify", str(tmp_path / "trail"), code=1)
    path.write_bytes(b"".join(lines[:4]))
    assert "without its closing line" in run("audit", "verify", str(tmp_path / "trail"), code=1)
    assert "whole" in run("audit", "verify", str(tmp_path / "trail"), "--open")
    run("audit", "verify", str(tmp_path), code=2)


def test_show_finds_by_principal_operation_time_and_verdict(tmp_path: Path) -> None:
    write(tmp_path / "trail", lines=3)
    trail = str(tmp_path / "trail")
    assert run("audit", "show", trail, "--principal", "process").count("auth_bind") == 3
    assert run("audit", "show", trail, "--principal", "nobody") == ""
    assert run("audit", "show", trail, "--operation", "begin").count("\n") == 1
    assert run("audit", "show", trail, "--verdict", "ok").count("\n") == 3
    assert run("audit", "show", trail, "--verdict", "denied") == ""
    assert run("audit", "show", trail, "--since", "2999-01-01") == ""
    assert run("audit", "show", trail, "--since", "2020-01-01T00:00").count("\n") == 5
    assert "is no time" in run("audit", "show", trail, "--since", "yesterday", code=2)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--audit-writes",), "--audit-folder"),
        (("--audit-folder", "x", "--audit-hash-keys"), "audit.keys"),
        (("--audit-folder", "x", "--audit-files", "1"), "audit.files"),
        (("--audit-folder", "x", "--audit-key-file", "/no/such"), "audit.key_file"),
    ],
)
def test_wrong_options_end_with_their_name(tmp_path: Path, options: tuple[str, ...], told: str) -> None:
    place = ("--name", "a", "--peer", f"a={free_addresses(1)[0]}", "--data", str(tmp_path / "a"))
    assert told in run("serve", *place, *options, code=2)
    assert not os.path.exists("x")
