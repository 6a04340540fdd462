"""Three real ZooKeeper servers on this machine, and shell commands that crash, kill, freeze and heal them.

    python -m tests.conformance.zookeeper_ensemble FOLDER start|stop|kill|freeze|heal

kill and freeze choose the server that leads, because that one hurts most. The servers are processes of their own, as
the servers of a user are: pids and ports lie in files of the folder.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path

from raftmeta.conformance import Servers
from tests.lint.sources import ROOT
from tests.migrate.zookeeper_server import JAVA, classpath, logging_folder
from tests.processes.waiting import free_ports, wait_until

MEMBERS = (1, 2, 3)
TICK_MS = 1000  # a session may last 2 to 20 s
START_S = 90.0
ASK_S = 2.0
WORDS = ("start", "stop", "kill", "freeze", "heal")


class Ensemble:
    """The servers in a folder; as a context they run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        ports = folder / "ports"
        if not ports.exists():
            folder.mkdir(parents=True, exist_ok=True)
            ports.write_text(" ".join(str(port) for port in free_ports(3 * len(MEMBERS))))
        numbers = [int(port) for port in ports.read_text().split()]
        self._ports = dict(zip(MEMBERS, zip(numbers[:3], numbers[3:6], numbers[6:], strict=True), strict=True))
        self._fault = folder / "fault"

    @property
    def addresses(self) -> str:
        """For clients."""
        return ",".join(f"127.0.0.1:{ports[0]}" for ports in self._ports.values())

    def servers(self) -> Servers:
        """The commands, as the conformance suite takes them."""
        command = f"cd {shlex.quote(str(ROOT))} && {shlex.quote(sys.executable)} -m {__spec__.name}"
        return Servers(**{word: f"{command} {shlex.quote(str(self.folder))} {word}" for word in WORDS})

    def __enter__(self) -> Ensemble:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    # --- the commands -------------------------------------------------------------------------------------------------
    def start(self) -> None:
        """Start all that do not run; returns when they serve."""
        for number in MEMBERS:
            if self._pid(number) is None:
                self._start(number)
        self._wait_serving(MEMBERS)

    def stop(self) -> None:
        """SIGKILL of all; returns when they are gone."""
        for number in MEMBERS:
            self._kill(number)

    def kill(self) -> None:
        """SIGKILL of the leader."""
        number = self._leader()
        self._fault.write_text(str(number))
        self._kill(number)

    def freeze(self) -> None:
        """SIGSTOP of the leader."""
        number = self._leader()
        self._fault.write_text(str(number))
        os.kill(self._pid_of(number), signal.SIGSTOP)

    def heal(self) -> None:
        """Wake or start the one that was frozen or killed; returns when it serves."""
        number = int(self._fault.read_text())
        if self._pid(number) is None:
            self._start(number)
        else:
            os.kill(self._pid_of(number), signal.SIGCONT)
        self._wait_serving([number])

    # --- one server ---------------------------------------------------------------------------------------------------
    def _start(self, number: int) -> None:
        data = self.folder / str(number)
        data.mkdir(exist_ok=True)
        (data / "myid").write_text(str(number))
        lines = {
            "tickTime": TICK_MS,
            "initLimit": 20,
            "syncLimit": 5,
            "dataDir": data,
            "clientPort": self._ports[number][0],
            "clientPortAddress": "127.0.0.1",
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "*",
            "maxClientCnxns": 0,
            **{f"server.{other}": f"127.0.0.1:{ports[1]}:{ports[2]}" for other, ports in self._ports.items()},
        }
        configuration = data / "zoo.cfg"
        configuration.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        command = ["java", *JAVA, "-Xmx192m", "-cp", classpath(logging_folder(self.folder))]
        command += ["org.apache.zookeeper.server.quorum.QuorumPeerMain", str(configuration)]
        with (data / "log").open("ab") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=data, start_new_session=True
            )
        process.returncode = 0  # not ours to wait for: it outlives the command that started it
        (data / "pid").write_text(str(process.pid))

    def _pid(self, number: int) -> int | None:
        """Of a server that runs. One that has ended is gone, also while nobody has waited for it."""
        with contextlib.suppress(OSError, ValueError):
            pid = int((self.folder / str(number) / "pid").read_text())
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            return None if state == "Z" else pid
        return None

    def _pid_of(self, number: int) -> int:
        pid = self._pid(number)
        assert pid is not None, f"server {number} does not run"
        return pid

    def _kill(self, number: int) -> None:
        pid = self._pid(number)
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
            wait_until(lambda: self._pid(number) is None, timeout_s=START_S, what=f"the end of server {number}")

    def _mode(self, number: int) -> str:
        """leader or follower; empty while it does not serve."""
        address = ("127.0.0.1", self._ports[number][0])
        with contextlib.suppress(OSError), socket.create_connection(address, timeout=ASK_S) as connection:
            connection.sendall(b"srvr")
            told = b"".join(iter(lambda: connection.recv(65536), b"")).decode()
            return next((line.split()[1] for line in told.splitlines() if line.startswith("Mode:")), "")
        return ""

    def _leader(self) -> int:
        def leading() -> list[int]:
            return [number for number in MEMBERS if self._mode(number) == "leader"]

        return wait_until(leading, timeout_s=START_S, what="a leader")[0]

    def _wait_serving(self, numbers: list[int] | tuple[int, ...]) -> None:
        wait_until(lambda: all(self._mode(number) for number in numbers), timeout_s=START_S, what=f"{numbers} to serve")


if __name__ == "__main__":
    getattr(Ensemble(Path(sys.argv[1])), {word: word for word in WORDS}[sys.argv[2]])()
