"""A plugin of pytest for kazoo's own suite: its servers listen on loopback only, or are nodes of raftmeta.

The suite starts and stops the servers of `kazoo.testing.common` itself. RAFTMETA_DOORS_ON says of which kind they are:
`zookeeper` gives the suite's own servers a few more settings, `door` puts nodes into their place. With
RAFTMETA_DOORS_KILL_S a server to which no client is connected is killed and started again every so many seconds
(tests/doors/faults.py).
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from kazoo.testing import common

from tests.doors.faults import Faults
from tests.doors.time_limit import limited
from tests.processes.cluster import NodeProcess

START_S = 60.0
TEST_S = 300.0
AGAIN_S = 30.0  # a test that ran out of time may wait for its own threads at its end, for ever
SUPER_DIGEST = "zookeeper.DigestAuthenticationProvider.superDigest="
LOOPBACK = (
    "clientPortAddress=127.0.0.1",
    "secureClientPortAddress=127.0.0.1",
    "admin.serverAddress=127.0.0.1",
    "admin.enableServer=false",
)
JAVA = ("-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")


class LoopbackZooKeeper(common.ManagedZooKeeper):  # type: ignore[misc]
    """The suite's own server."""

    def __init__(
        self,
        software_path: str | None,
        server_info: Any,
        *positional: Any,
        configuration_entries: Sequence[str] = (),
        java_system_properties: Sequence[str] = (),
        **named: Any,
    ) -> None:
        super().__init__(
            software_path,
            server_info,
            *positional,
            configuration_entries=[*configuration_entries, *LOOPBACK],
            java_system_properties=[*java_system_properties, *JAVA],
            **named,
        )
        self.number = self.server_info.server_id
        FAULTS.know(self)

    def run(self) -> None:
        with FAULTS.lock:
            if not self.running and Path(self.working_path, "data").exists():
                FAULTS.restarted()
            super().run()

    def stop(self) -> None:
        with FAULTS.lock:
            super().stop()

    def crash(self) -> None:
        self.process.kill()
        self.process.wait()
        self._running = False
        super().run()


class ManagedNode:
    """A node of raftmeta in the place of a server: as many methods as the suite calls."""

    def __init__(
        self,
        software_path: str | None,
        server_info: Any,
        peers: Sequence[Any] = (),
        classpath: str | None = None,
        configuration_entries: Sequence[str] = (),
        java_system_properties: Sequence[str] = (),
        jaas_config: str | None = None,
        ssl_configuration: dict[str, Any] | None = None,
    ) -> None:
        self.server_info = server_info
        self.number = server_info.server_id
        self.client_port = server_info.client_port
        self.secure_client_port = server_info.secure_client_port
        self.address = f"127.0.0.1:{self.client_port}"
        self.secure_address = f"127.0.0.1:{self.secure_client_port}"
        self._addresses = {f"n{one.server_id}": f"127.0.0.1:{one.leader_port}" for one in (server_info, *peers)}
        self._settings = self._settings_of(configuration_entries, java_system_properties, jaas_config)
        self._node: NodeProcess | None = None
        FAULTS.know(self)

    def _settings_of(
        self, entries: Sequence[str], properties: Sequence[str], jaas_config: str | None
    ) -> dict[str, Any]:
        settings: dict[str, Any] = {"zookeeper_listen": self.address, "zookeeper_tick_s": 2.0}
        for one in properties:
            if SUPER_DIGEST in one:
                settings["zookeeper_super_digest"] = one.split(SUPER_DIGEST)[1]
        if jaas_config:
            lines = [line.strip().rstrip(";") for line in jaas_config.splitlines() if "user_" in line]
            pairs = (line.removeprefix("user_").split("=") for line in lines)
            users = Path(os.environ["RAFTMETA_DOORS_FOLDER"], f"users{self.server_info.server_id}")
            users.write_text("".join(f"{name}:{password.strip(chr(34))}\n" for name, password in pairs))
            users.chmod(0o600)
            settings["zookeeper_users_file"] = str(users)
        return settings

    @property
    def running(self) -> bool:
        return self._node is not None and self._node.is_alive

    def run(self) -> None:
        with FAULTS.lock:
            if not self.running:
                if self._node is not None:
                    FAULTS.restarted()
                self._start()

    def _start(self) -> None:
        if self._node is None:
            folder = tempfile.mkdtemp(dir=os.environ["RAFTMETA_DOORS_FOLDER"])
            name = f"n{self.server_info.server_id}"
            self._node = NodeProcess(name, peers=self._addresses, folder=Path(folder), settings=self._settings)
        self._node.start(timeout_s=START_S)

    def stop(self) -> None:
        """The files stay."""
        with FAULTS.lock:
            if self._node is not None:
                self._node.kill()

    def crash(self) -> None:
        self.stop()
        self._start()

    def destroy(self) -> None:
        """Its files go, too: a suite makes hundreds of nodes, and each has segments of its log."""
        self.stop()
        if self._node is not None:
            shutil.rmtree(self._node.folder)
        self._node = None

    def reset(self) -> None:
        self.destroy()

    def get_logs(self, num_lines: int = 100) -> list[str]:
        return [] if self._node is None else self._node.log_tail().splitlines(keepends=True)[-num_lines:]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: Any) -> Iterator[None]:
    with limited(TEST_S, again_s=AGAIN_S):
        return (yield)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    kills = ", ".join(f"server {number}: {count}" for number, count in sorted(FAULTS.kills.items()))
    looks = ", ".join(f"{reason}: {count}" for reason, count in FAULTS.looks.items())
    terminalreporter.write_line(f"servers that were killed meanwhile: {kills or 'none'} (looks: {looks or 'none'})")


FAULTS = Faults(float(os.environ.get("RAFTMETA_DOORS_KILL_S", "5")))
if "RAFTMETA_DOORS_KILL_S" in os.environ:
    FAULTS.start()
common.ManagedZooKeeper = {"zookeeper": LoopbackZooKeeper, "door": ManagedNode}[os.environ["RAFTMETA_DOORS_ON"]]
