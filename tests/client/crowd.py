"""A process with one node and ten thousand connections to it, since both need descriptors of their own.

    python -m tests.client.crowd <folder> <count>

Prints, as JSON: how many connections got the answers to a ping and to a read, the memory that they took in this
process (their own sockets included), and what the node counted.
"""

from __future__ import annotations

import json
import os
import resource
import select
import socket
import sys
from pathlib import Path

import raftmeta
from raftmeta.wire.python_client import ANSWER, MessageDecoder, RequestEncoder, hello_frame
from tests.node.nodes import QUICK
from tests.processes.waiting import free_ports


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def answered(sockets: dict[int, socket.socket]) -> int:
    """Connections from which both answers have come; those that the node closed count as none."""
    poll = select.epoll()
    decoders = {fd: MessageDecoder() for fd in sockets}
    answers = dict.fromkeys(sockets, 0)
    for fd in sockets:
        poll.register(fd, select.EPOLLIN)
    waiting = set(sockets)
    while waiting:
        for fd, _ in poll.poll(30) or [(fd, 0) for fd in waiting]:
            data = sockets[fd].recv(1 << 16)
            answers[fd] += sum(message[0] == ANSWER and message[2] == 0 for message in decoders[fd].feed(data))
            if answers[fd] == 2 or not data:
                waiting.discard(fd)
                poll.unregister(fd)
    return sum(count == 2 for count in answers.values())


def main() -> None:
    folder, count = Path(sys.argv[1]), int(sys.argv[2])
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (2 * count + 500 if hard < 0 else min(hard, 2 * count + 500), hard))
    port, client_port = free_ports(2)
    node = raftmeta.Node(
        "a",
        peers={"a": f"127.0.0.1:{port}"},
        client_listen=f"127.0.0.1:{client_port}",
        data_dir=folder,
        config=raftmeta.Config(**{**QUICK, "hello_timeout_s": 60.0, "client_idle_s": 60.0}),
    )
    with node:
        node.ready(10)
        node.put("k", "1")
        encoder = RequestEncoder(1 << 20)
        said = hello_frame("default", "crowd") + encoder.ping() + encoder.get("k", 0, False)
        before = resident_bytes()
        sockets: dict[int, socket.socket] = {}
        for _ in range(count):
            made = socket.create_connection(("127.0.0.1", client_port), timeout=30)
            sockets[made.fileno()] = made
        for made in sockets.values():
            made.sendall(said)
        found = answered(sockets)
        taken = resident_bytes() - before
        with raftmeta.Client(f"raft://127.0.0.1:{client_port}") as late:
            turned_away = None
            try:
                late.ready(0.2)
            except raftmeta.ReadyTimeout as error:
                turned_away = str(error)
        counted = {name: number for name, number in node.metrics().items() if name.startswith("client_")}
        for made in sockets.values():
            made.close()
    report = {"answered": found, "bytes": taken, "late": turned_away, "counted": counted}
    sys.stdout.write(json.dumps(report) + "\n")


if __name__ == "__main__":
    main()
