"""A real ZooKeeper 3.9 server and its own tools, run from the jars that come with pyspark: the oracle."""

from __future__ import annotations

import base64
import contextlib
import functools
import importlib.util
import json
import shutil
import socket
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from raftmeta.migrate import ZooKeeperNode
from tests.processes.waiting import free_addresses, wait_until

# All that the server and its tools load from.
JARS = ("zookeeper-*", "slf4j-api-*", "log4j-*", "metrics-core-*", "snappy-java-*", "commons-cli-*", "commons-io-*")
NETTY = ("netty-*",)
JACKSON = ("jackson-*",)
JAVA = ["-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Djava.awt.headless=true"]


def why_not() -> str:
    """Why there is no such oracle on this machine; empty: there is one."""
    if shutil.which("java") is None:
        return "there is no java"
    if importlib.util.find_spec("pyspark") is None:
        return "there is no pyspark, which brings ZooKeeper's jars"
    return ""


def classpath(logging: Path) -> str:
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None and spec.origin is not None
    jars = Path(spec.origin).parent / "jars"
    found = [str(jar) for pattern in (*JARS, *NETTY, *JACKSON) for jar in sorted(jars.glob(f"{pattern}.jar"))]
    return ":".join([str(logging), *found])


def logging_folder(folder: Path) -> Path:
    """A folder with the setting that keeps all Java programs quiet."""
    place = folder / "logging"
    place.mkdir(exist_ok=True)
    (place / "log4j2.properties").write_text(
        "status=off\nappender.c.type=Console\nappender.c.name=c\nappender.c.target=SYSTEM_ERR\n"
        "rootLogger.level=warn\nrootLogger.appenderRef.c.ref=c\n"
    )
    return place


def shown(node: ZooKeeperNode) -> str:
    """A node as SnapshotFormatter prints it."""
    owner = node.owner & (1 << 64) - 1
    if node.is_container:
        owner = 1 << 63
    elif node.ttl_ms:
        owner = 0xFF << 56 | node.ttl_ms
    lines = [
        node.path.decode(),
        f"  cZxid = {node.czxid:#016x}",
        f"  ctime = {_date(node.ctime_ms // 1000)}",
        f"  mZxid = {node.mzxid:#016x}",
        f"  mtime = {_date(node.mtime_ms // 1000)}",
        f"  pZxid = {node.pzxid:#016x}",
        f"  cversion = {node.cversion}",
        f"  dataVersion = {node.version}",
        f"  aclVersion = {node.aversion}",
        f"  ephemeralOwner = {owner:#016x}",
        f"  data = {base64.b64encode(node.data or b'').decode()}",
    ]
    return "\n".join(lines).strip()


def node_of(path: bytes, data: bytes, metadata: str | bytes) -> ZooKeeperNode:
    """A node as its item has it, with all that is left out there (docs/migration.md "ZooKeeper")."""
    told: dict[str, Any] = json.loads(metadata)
    alike = {"mzxid": "czxid", "pzxid": "czxid", "mtime_ms": "ctime_ms"}
    return ZooKeeperNode(
        path=path,
        data=None if "data" in told else data,
        acl=tuple((right[0], right[1], right[2]) for right in told.get("acl", [[31, "world", "anyone"]])),
        **{name: told.get(name, told.get(alike.get(name, ""), 0)) for name in ZooKeeperNode._fields[3:11]},
        owner=int(told.get("session", "0"), 16),
        is_container=told.get("container", False),
        ttl_ms=told.get("ttl_ms", 0),
    )


@functools.lru_cache
def _date(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%a %b %d %H:%M:%S UTC %Y")


class ZooKeeperServer:
    """One stand-alone server with its data below folder."""

    def __init__(self, folder: Path, *, snap_count: int = 100_000, compression: str = "") -> None:
        self.folder = folder
        self.data = folder / "data"
        self.files = self.data / "version-2"
        self.data.mkdir(parents=True, exist_ok=True)
        host, port = free_addresses(1)[0].split(":")
        self.port = int(port)
        self._settings = {
            "zookeeper.snapCount": str(snap_count),
            "zookeeper.extendedTypesEnabled": "true",
            "zookeeper.admin.enableServer": "false",
            "zookeeper.forceSync": "no",
            "zookeeper.preAllocSize": "256",  # KiB
            "znode.container.checkIntervalMs": "3600000",
            "zookeeper.4lw.commands.whitelist": "*",
        }
        if compression:
            self._settings["zookeeper.snapshot.compression.method"] = compression
        self._configuration = folder / "zoo.cfg"
        self._configuration.write_text(
            f"tickTime=500\ndataDir={self.data}\nclientPort={port}\nclientPortAddress={host}\nmaxSessionTimeout=60000\n"
        )
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        log = (self.folder / "server.log").open("ab")
        with log:
            self._process = subprocess.Popen(
                self._java("org.apache.zookeeper.server.ZooKeeperServerMain", str(self._configuration)),
                stdout=log,
                stderr=log,
                cwd=self.folder,
            )
        wait_until(self._is_serving, timeout_s=60, what=f"ZooKeeper, see {self.folder / 'server.log'}")
        return self

    def _is_serving(self) -> bool:
        assert self._process is not None and self._process.poll() is None, (self.folder / "server.log").read_text()
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=2) as connection:
            connection.sendall(b"srvr")
            return connection.recv(100).startswith(b"Zookeeper version")
        return False

    def _java(self, main: str, *arguments: str) -> list[str]:
        settings = [f"-D{name}={value}" for name, value in self._settings.items()]
        return ["java", *JAVA, *settings, "-cp", classpath(logging_folder(self.folder)), main, *arguments]

    def kill(self) -> None:
        """As a crash: what it had under way stays as it is."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def restart(self) -> None:
        """A server writes a snapshot of all that it knows when it starts."""
        self.kill()
        self.start()

    def run(self, main: str, *arguments: str) -> str:
        """The output of one of its tools."""
        ended = subprocess.run(
            self._java(main, *arguments), capture_output=True, cwd=self.folder, timeout=100, check=False
        )
        assert ended.returncode == 0, ended.stderr.decode()
        return ended.stdout.decode()

    def format_snapshot(self, path: Path) -> Iterator[str]:
        """All nodes of a snapshot, with their data, as ZooKeeper's SnapshotFormatter shows them: a text for each.

        They are read as the tool prints them, however many there are.
        """
        with (self.folder / "tool.log").open("ab") as log:
            tool = subprocess.Popen(
                self._java("org.apache.zookeeper.server.SnapshotFormatter", "-d", str(path)),
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=self.folder,
                text=True,
            )
        assert tool.stdout is not None
        with tool, tool.stdout:
            lines: list[str] = []
            for line in tool.stdout:
                if line == "----\n":
                    yield "".join(lines).strip()
                    lines = []
                else:
                    lines.append(line)
        assert tool.returncode == 0, (self.folder / "tool.log").read_text()

    def format_log(self, path: Path) -> str:
        """All transactions of a log, as ZooKeeper's TxnLogToolkit shows them."""
        return self.run("org.apache.zookeeper.server.persistence.TxnLogToolkit", "-d", str(path))

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.kill()
