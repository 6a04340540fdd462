"""One server of etcd's protocol for measurements: a real etcd, or a node of raftmeta. Both sync before they answer."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.doors.software import etcd, go_client
from tests.processes.program import Program
from tests.processes.waiting import free_addresses

START_S = 180.0
LOAD_S = 900.0
ASK_S = 2.0
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Server:
    """A context. command: the words that start it, given its folder, its address for clients and one for peers."""

    def __init__(self, folder: Path, command: list[str]) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self.address, self.peer = free_addresses(2)
        words = [word.format(folder=folder, address=self.address, peer=self.peer) for word in command]
        self.program = Program(words, log=folder / "log")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.program.kill()

    def start(self) -> None:
        self.program.start()
        self.program.wait_until(self.is_serving, timeout_s=START_S, what="the server")

    def kill(self) -> None:
        self.program.kill()

    def is_serving(self) -> bool:
        host, port = self.address.rsplit(":", 1)
        connection = http.client.HTTPConnection(host, int(port), timeout=ASK_S)
        try:
            connection.request("POST", "/v3/kv/range", body=b'{"key": "AA=="}')
            return connection.getresponse().status == http.client.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def memory_bytes(self) -> int:
        status = Path(f"/proc/{self.program.pid}/status").read_text()
        return 1024 * int(status.split("VmRSS:")[1].split()[0])

    def processor_s(self) -> float:
        """Processor time that it has used."""
        fields = Path(f"/proc/{self.program.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_PER_S

    def load(self, *words: str | int) -> dict[str, Any]:
        """Run the Go client against it (tests/doors/programs/EtcdLoad.go). processor_s: of the server meanwhile."""
        before_s = self.processor_s()
        command = [str(go_client("EtcdLoad")), self.address, *(str(word) for word in words)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=LOAD_S, check=False)
        if ended.returncode:
            raise RuntimeError(f"{' '.join(command)}: {ended.stderr[-500:]}")
        return {**json.loads(ended.stdout), "processor_s": self.processor_s() - before_s}


def real(folder: Path) -> Server:
    url, peer = "http://{address}", "http://{peer}"
    told = {
        "name": "n",
        "data-dir": "{folder}/data",
        "listen-client-urls": url,
        "advertise-client-urls": url,
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "initial-cluster": f"n={peer}",
        "log-level": "error",
        "quota-backend-bytes": "8589934592",
    }
    return Server(folder, [str(etcd()), *(f"--{name}={value}" for name, value in told.items())])


def door(folder: Path) -> Server:
    words = "-m raftmeta.cli serve --name a --peer a={peer} --data {folder}/data --etcd {address}"
    return Server(folder, [sys.executable, *words.split()])
