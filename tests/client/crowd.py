"""A process that is ten thousand clients: connections to one node, each of which asks for a ping and a read.

    python -m tests.client.crowd <host> <port> <count>

Prints how many got both answers, keeps all connections open until a line comes, and ends.
"""

from __future__ import annotations

import resource
import select
import socket
import sys

from raftmeta.bindings.requests import ANSWER, MessageDecoder, RequestEncoder, hello_frame

WAIT_S = 30


def raise_descriptor_limit() -> None:
    """As many descriptors as this process may have."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def answered(sockets: dict[int, socket.socket]) -> int:
    """Connections from which both answers have come."""
    poll = select.epoll()
    decoders = {fd: MessageDecoder() for fd in sockets}
    answers = dict.fromkeys(sockets, 0)
    for fd in sockets:
        poll.register(fd, select.EPOLLIN)
    waiting = set(sockets)
    while waiting and (events := poll.poll(WAIT_S)):
        for fd, _ in events:
            data = sockets[fd].recv(1 << 16)
            answers[fd] += sum(message[0] == ANSWER and message[2] == 0 for message in decoders[fd].feed(data))
            if answers[fd] == 2 or not data:
                waiting.discard(fd)
                poll.unregister(fd)
    return sum(count == 2 for count in answers.values())


def main() -> None:
    host, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    raise_descriptor_limit()
    encoder = RequestEncoder(1 << 20)
    said = hello_frame("default", "crowd") + encoder.ping() + encoder.get("k", 0, False)
    sockets: dict[int, socket.socket] = {}
    for _ in range(count):
        made = socket.create_connection((host, port), timeout=WAIT_S)
        sockets[made.fileno()] = made
    for made in sockets.values():
        made.sendall(said)
    sys.stdout.write(f"{answered(sockets)}\n")
    sys.stdout.flush()
    sys.stdin.readline()


if __name__ == "__main__":
    main()
