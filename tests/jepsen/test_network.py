"""Cuts between namespaces are really one-way, are counted, and end."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from jepsen.keeper import Keeper
from jepsen.network import Namespaces
from tests.processes.waiting import wait_until

LISTEN = (
    "import socket,sys; s=socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind((sys.argv[1], 9)); print(flush=1)"
)
ECHO = f"{LISTEN}\nwhile True: print(s.recv(99).decode(), flush=True)"
SEND = (
    "import socket,sys; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(sys.argv[2].encode(), (sys.argv[1], 9))"
)


@pytest.fixture
def network() -> Iterator[Namespaces | None]:
    """Three namespaces; None where the machine allows none, which `missing` says in words."""
    if Namespaces.missing() is not None:
        yield None
        return
    with Keeper() as keeper:
        made = Namespaces(("n1", "n2", "n3"), id=f"jt{os.getpid():x}", keeper=keeper)
        made.make()
        yield made


def send(network: Namespaces, source: str, target: str, text: str) -> None:
    host = network.address(target).split(":")[0]
    subprocess.run([*network.launcher(source), sys.executable, "-c", SEND, host, text], check=True)


def test_a_cut_is_one_way_and_counted(network: Namespaces | None) -> None:
    """n1 -> n2 is lost and counted at the kernel; n3 -> n2 and, after healing, n1 -> n2 arrive."""
    if network is None:
        assert "root" in str(Namespaces.missing()) or "`ip`" in str(Namespaces.missing())
        return
    host = network.address("n2").split(":")[0]
    listener = subprocess.Popen(
        [*network.launcher("n2"), sys.executable, "-c", ECHO, host], stdout=subprocess.PIPE, text=True
    )
    try:
        assert listener.stdout is not None and listener.stdout.readline() == "\n"  # it listens
        before = network.lost()
        network.cut("test", {("n1", "n2")})
        network.cut("another", {("n1", "n2"), ("n1", "n3")})
        network.cut("another", ())  # what one has cut is cut still, whatever others heal
        send(network, "n1", "n2", "lost")
        wait_until(lambda: network.lost() > before, timeout_s=20, what="a packet that was thrown away")
        send(network, "n3", "n2", "from n3")
        assert listener.stdout.readline() == "from n3\n"
        network.cut("test", ())
        send(network, "n1", "n2", "healed")
        assert listener.stdout.readline() == "healed\n"
    finally:
        listener.kill()
        listener.communicate()
