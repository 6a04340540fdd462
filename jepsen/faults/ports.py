"""Ports of loopback that nobody uses just now."""

from __future__ import annotations

import contextlib
import socket


def free_ports(count: int) -> list[int]:
    """So many, all different."""
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [one.getsockname()[1] for one in held]
