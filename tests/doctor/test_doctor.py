"""The look at a host: each check told of a host that is well, and of one that has the trouble it is there for."""

from __future__ import annotations

import os
import resource
import socket
import tempfile
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import raftmeta
from raftmeta import doctor
from raftmeta.config import Address, Config, Identity
from raftmeta.doctor import disk, host, network
from raftmeta.doctor.certificates import check_certificates
from raftmeta.security.pki import Pki
from tests.processes.waiting import free_addresses

MEMORY = Path("/dev/shm")


def levels(findings: Iterator[doctor.Finding]) -> set[tuple[str, str]]:
    return {(finding.check, finding.level) for finding in findings}


# --- the folder -------------------------------------------------------------------------------------------------------


def test_a_folder_of_this_user_is_well(tmp_path: Path) -> None:
    assert levels(disk.check_folder(tmp_path)) == {("folder", "ok")}
    assert levels(disk.check_folder(tmp_path / "not" / "yet")) == {("folder", "ok")}


def test_a_folder_that_others_may_write_is_a_failure(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    (found,) = disk.check_folder(tmp_path)
    assert found.level == "failure" and "0777" in found.text


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"")
    assert levels(disk.check_folder(tmp_path / "a")) == {("folder", "failure")}
    assert levels(disk.check_folder(tmp_path / "a" / "below")) == {("folder", "failure")}


def test_a_folder_in_memory_is_a_failure() -> None:
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        (found,) = disk.check_file_system(Path(folder))
    assert found.level == "failure" and "tmpfs" in found.text


def test_mounts_are_read_with_their_escapes() -> None:
    text = (
        "36 35 98:0 / / rw,noatime master:1 - ext4 /dev/root rw,errors=continue\n"
        "37 36 98:1 /x /data\\040of\\040a ro,nosuid shared:2 master:3 - nfs4 host:/x rw\n"
    )
    assert disk.mounts(text) == [
        disk.Mount(Path("/"), "ext4", is_read_only=False),
        disk.Mount(Path("/data of a"), "nfs4", is_read_only=True),
    ]


def test_a_disk_that_is_too_small_is_told(tmp_path: Path) -> None:
    free = os.statvfs(tmp_path).f_bavail * os.statvfs(tmp_path).f_frsize
    assert disk.check_space(tmp_path, Config(wal_bytes_max=1 << 30, segment_bytes=1 << 20)).level == "ok"
    assert disk.check_space(tmp_path, Config(wal_bytes_max=min(2 * free, 1 << 40))).level == "warning"


@pytest.mark.parametrize(
    ("times_s", "level"),
    [
        ([0.0005] * 200, "ok"),
        ([0.0005] * 195 + [0.020] * 5, "warning"),
        ([0.0005] * 199 + [1.2], "failure"),
        ([0.000_004] * 200, "warning"),
    ],
)
def test_syncs_are_judged(times_s: list[float], level: str) -> None:
    assert disk.sync_finding(times_s, is_memory=False).level == level


def test_syncs_are_measured_and_leave_nothing_behind(tmp_path: Path) -> None:
    found = disk.check_syncs(tmp_path, 0.01)
    assert found.check == "sync" and "median" in found.text
    assert list(tmp_path.iterdir()) == []


# --- the host ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("latest_s", "quota", "level"), [(0, None, "ok"), (0, 0.5, "warning"), (0.2, None, "warning")])
def test_a_late_thread_is_judged_by_the_time_outs(latest_s: float, quota: float | None, level: str) -> None:
    config = Config(heartbeat_s=0.1, election_timeout_s=1.0)
    assert host.processor_finding(latest_s, config, quota).level == level
    assert host.processor_finding(1.0, config, quota).level == "failure"


def test_a_limit_of_files_below_one_of_the_log_is_a_failure() -> None:
    assert ("file size", "failure") not in levels(host.check_limits(Config()))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, before[1]))
    try:
        assert ("file size", "failure") in levels(host.check_limits(Config(segment_bytes=4 << 20)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_few_descriptors_are_told() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, before[1]))
    try:
        assert ("descriptors", "warning") in levels(host.check_limits(Config()))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_memory_that_a_node_cannot_have_is_told() -> None:
    assert host.check_memory(Config()).level in ("ok", "warning")
    assert host.check_memory(Config(history_bytes_max=64 << 30, client_memory_bytes_max=64 << 30)).level == "warning"


def test_the_clock_and_the_versions_are_told() -> None:
    assert host.check_clock(has_tls=False).level in ("ok", "unknown")
    assert raftmeta.__version__ in host.check_versions().text


# --- addresses --------------------------------------------------------------------------------------------------------


def identity(peers: dict[str, str], folder: Path, advertise: str | None = None) -> Identity:
    return Identity.check(
        "a",
        peers=peers,
        data_dir=folder,
        listen=None,
        advertise=advertise,
        cluster="default",
        config=Config(insecure=True),
    )


def test_names_without_an_address_are_a_failure(tmp_path: Path) -> None:
    peers = {"a": "127.0.0.1:7001", "b": "no-such-host.invalid:7001"}
    assert levels(network.check_addresses(identity(peers, tmp_path))) == {("addresses", "failure")}
    peers["b"] = "localhost:7002"
    assert levels(network.check_addresses(identity(peers, tmp_path))) == {("addresses", "ok")}


def test_an_advertised_address_that_only_this_host_reaches_is_a_failure(tmp_path: Path) -> None:
    peers = {"a": "127.0.1.1:7001", "b": "192.0.2.7:7001"}
    (found,) = network.check_addresses(identity(peers, tmp_path))
    assert found.level == "failure" and "127.0.1.1" in found.text


def test_two_hosts_that_look_at_the_same_time_see_each_other(tmp_path: Path) -> None:
    own, other = free_addresses(2)
    peers = {"a": own, "b": other}
    came = threading.Event()

    def second_host() -> None:
        address = Address.parse(other, "other")
        with socket.create_server((address.host, address.port)) as listener:
            connection, _ = listener.accept()  # of the one that looks; it listens itself by now
            connection.close()
        socket.create_connection(tuple(own.rsplit(":", 1))).close()  # type: ignore[arg-type]
        came.set()

    thread = threading.Thread(target=second_host)
    thread.start()
    found = list(network.check_reach(identity(peers, tmp_path), Config(), wait_s=1.0))
    thread.join()
    assert came.is_set()
    by_check = {finding.check: finding.level for finding in found}
    assert by_check == {"listen": "ok", "reach": by_check["reach"], "reached by": "ok"}
    assert by_check["reach"] in ("ok", "warning")


def test_a_host_where_nothing_listens_is_told(tmp_path: Path) -> None:
    own, other = free_addresses(2)
    found = network.check_reach(identity({"a": own, "b": other}, tmp_path), Config(), wait_s=0.01)
    assert levels(found) == {("listen", "ok"), ("reach", "warning"), ("reached by", "warning")}


def test_an_address_in_use_and_one_of_another_host_are_told(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as used:
        own = f"127.0.0.1:{used.getsockname()[1]}"
        assert levels(network.check_reach(identity({"a": own}, tmp_path), Config(), 0)) == {("listen", "unknown")}
    assert levels(network.check_reach(identity({"a": "192.0.2.7:7001"}, tmp_path), Config(), 0)) == {
        ("listen", "failure")
    }


# --- certificates -----------------------------------------------------------------------------------------------------


def tls_of(pki: Path, kind: str, name: str) -> raftmeta.Tls:
    folder = pki / kind / name
    return raftmeta.Tls(
        certificate=folder / "certificate.pem",
        key=folder / "key.pem",
        authorities=folder / "authorities.pem",
        revoked=pki / "revoked.pem",
    )


@pytest.fixture
def pki(tmp_path: Path) -> Path:
    made = Pki.found(tmp_path / "pki", "shop")
    made.issue("node", "a")
    made.issue("node", "b", days=10)
    return tmp_path / "pki"


def told(findings: Iterator[doctor.Finding], level: str) -> str:
    return "\n".join(finding.text for finding in findings if finding.level == level)


def test_certificates_of_pki_are_well(pki: Path) -> None:
    assert levels(check_certificates(tls_of(pki, "node", "a"), "shop", "a")) == {("certificates", "ok")}


def test_a_certificate_that_ends_soon_or_ended_is_told(pki: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    due = tls_of(pki, "node", "b")
    assert "valid until" in told(check_certificates(due, "shop", "b"), "warning")
    later = datetime.now(UTC) + timedelta(days=11)

    class Later(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:  # type: ignore[override]
            return later

    monkeypatch.setattr("raftmeta.doctor.certificates.datetime", Later)
    assert "ended on" in told(check_certificates(due, "shop", "b"), "failure")


def test_the_certificate_of_another_node_or_cluster_is_a_failure(pki: Path) -> None:
    assert "raftmeta://shop/b/peer" in told(check_certificates(tls_of(pki, "node", "a"), "shop", "b"), "failure")
    assert "raftmeta://x/a/peer" in told(check_certificates(tls_of(pki, "node", "a"), "x", "a"), "failure")


def test_a_key_or_an_authority_of_another_is_a_failure(pki: Path, tmp_path: Path) -> None:
    own, other = pki / "node" / "a", pki / "node" / "b"
    mixed = raftmeta.Tls(
        certificate=own / "certificate.pem", key=other / "key.pem", authorities=own / "authorities.pem"
    )
    assert "another certificate" in told(check_certificates(mixed, "shop", "a"), "failure")
    stranger = Pki.found(tmp_path / "other", "shop").issue("node", "a")
    assert stranger.name == "a"
    strange = raftmeta.Tls(
        certificate=own / "certificate.pem",
        key=own / "key.pem",
        authorities=tmp_path / "other" / "node" / "a" / "authorities.pem",
    )
    assert "no authority" in told(check_certificates(strange, "shop", "a"), "failure")


def test_a_key_that_others_may_read_and_a_file_that_is_not_there_are_told(pki: Path) -> None:
    tls = tls_of(pki, "node", "a")
    (pki / "node" / "a" / "key.pem").chmod(0o644)
    assert "0644" in told(check_certificates(tls, "shop", "a"), "warning")
    (pki / "node" / "a" / "key.pem").unlink()
    assert "tls.key" in told(check_certificates(tls, "shop", "a"), "failure")


# --- all of it --------------------------------------------------------------------------------------------------------


def test_everything_is_looked_at_once(tmp_path: Path, pki: Path) -> None:
    found = list(
        doctor.examine(
            "a",
            peers={"a": free_addresses(1)[0]},
            data_dir=tmp_path / "data",
            cluster="shop",
            tls=tls_of(pki, "node", "a"),
            wait_s=0,
        )
    )
    assert {finding.check for finding in found} >= {
        *("versions", "folder", "file system", "space", "sync", "clock", "processor", "descriptors", "memory"),
        *("certificates", "addresses", "listen"),
    }
    assert not (tmp_path / "data").exists()


def test_arguments_that_a_node_would_refuse_are_refused(tmp_path: Path) -> None:
    with pytest.raises(raftmeta.ConfigError):
        doctor.examine("z", peers={"a": "127.0.0.1:7001"}, data_dir=tmp_path)
