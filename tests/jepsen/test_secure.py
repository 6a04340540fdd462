"""A secure run is ok, and a mistake that is planted in one turns it red."""

from __future__ import annotations

import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

import raftmeta
from jepsen.papers import STRANGER, Papers
from jepsen.plan import Plan, PlanError
from raftmeta.security.encryption import ring_of
from tests.jepsen.test_run import LIMIT_S, jepsen

CERTIFICATES = "cert-renew,cert-expire,cert-authority,cert-revoke-node,cert-revoke-client,encryption-key"
TIME_S = 16


@pytest.fixture
def papers(tmp_path: Path) -> Papers:
    return Papers(tmp_path, cluster="c", nodes=["n1", "n2"], clients=["c1"], users=["register"], seed=1)


def text(papers: Papers, name: str, word: str) -> bytes:
    kind = "client" if name.startswith("c") else "node"
    return Path(papers.tls(kind, name)[word]).read_bytes()  # type: ignore[arg-type]


@pytest.mark.uninstrumented
@pytest.mark.timeout(LIMIT_S + 20)
def test_a_secure_run_under_every_fault_of_certificates_is_ok(tmp_path: Path) -> None:
    """All of them were seen to act, the client without rights was always refused, and all verdicts are ok."""
    ended = jepsen(
        *("run", "--secure", "--workload", "all", "--nemesis", CERTIFICATES, "--time", "40", "--seed", "3"),
        *("--store", str(tmp_path), "--no-report"),
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (folder,) = tmp_path.iterdir()
    verdict = json.loads((folder / "verdict.json").read_text())
    assert set(verdict["observed"]) == set(CERTIFICATES.split(",")) and all(verdict["observed"].values())
    assert all(history["operations"] > 30 for history in verdict["histories"].values())


# Each plant with the nemeses that show it, and with reasons that the verdict must have; `|`: one of two.
PLANTS = {
    "deaf": (
        "cert-renew,cert-authority",
        ("cert-renew: struck, and was not seen to act", "cert-authority: struck, and was not seen to act"),
    ),
    "lenient": (
        "cert-revoke-node,cert-revoke-client",
        ("though it is revoked and all others know", "c1 is revoked, and|c2 is revoked, and"),
    ),
    "keyless": ("encryption-key", ("encryption-key: struck, and was not seen to act",)),
    "open": ("none", ("has no right, and",)),
}


@pytest.mark.uninstrumented
@pytest.mark.timeout(LIMIT_S + 20)
@pytest.mark.parametrize("plants", [("deaf", "open"), ("lenient", "keyless")], ids="-".join)
def test_planted_mistakes_are_found(tmp_path: Path, plants: tuple[str, str]) -> None:
    """Nodes that ignore new files, that let in who is revoked, that keep the first key, and that ask for no rights.

    Two runs with a mistake each are under way at once, because a run waits most of its time.
    """

    def run(plant: str) -> subprocess.CompletedProcess[str]:
        return jepsen(
            *("run", "--secure", "--plant", plant, "--workload", "register,lease", "--nemesis", PLANTS[plant][0]),
            *("--time", str(TIME_S), "--seed", "4", "--store", str(tmp_path / plant), "--no-report"),
        )

    with ThreadPoolExecutor(len(plants)) as pool:
        runs = list(pool.map(run, plants))
    for plant, ended in zip(plants, runs, strict=True):
        assert ended.returncode == 1, (plant, ended.stdout + ended.stderr)
        for reason in PLANTS[plant][1]:
            assert any(one in ended.stdout for one in reason.split("|")), (plant, ended.stdout)


def test_a_mistake_is_planted_in_secure_runs_only(tmp_path: Path) -> None:
    """And what strikes certificates runs only where there are some."""
    named = {"nodes": 3, "workload": "register", "time_s": 9.0, "rate": 9.0, "seed": 1, "store": tmp_path}
    with pytest.raises(PlanError, match="add --secure"):
        Plan.check(nemesis="none", plant="deaf", **named)  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="add --secure"):
        Plan.check(nemesis="cert-renew", **named)  # type: ignore[arg-type]
    assert "cert-renew" in Plan.check(nemesis="all", **named).left_out  # type: ignore[arg-type]
    assert "cert-renew" in Plan.check(nemesis="all", is_secure=True, **named).nemeses  # type: ignore[arg-type]


# --- papers -----------------------------------------------------------------------------------------------------------
def test_papers_are_renewed_revoked_and_readmitted(papers: Papers) -> None:
    """Each change shows in the files of those whom it concerns, and in no other."""
    first, others, ends = text(papers, "n1", "certificate"), text(papers, "n2", "certificate"), set()
    for _ in range(8):
        papers.renew("node", "n1")
        ends.add(papers.ends_s("node", "n1"))
    assert len(ends) > 4 and text(papers, "n1", "certificate") != first
    assert text(papers, "n2", "certificate") == others
    papers.let_expire("n1")
    assert papers.ends_s("node", "n1") < datetime.now(UTC).timestamp()
    lists, key = text(papers, "c1", "revoked"), text(papers, "n2", "key")
    papers.revoke("node", "n2")
    assert text(papers, "c1", "revoked") == text(papers, "n1", "revoked") != lists
    papers.readmit("node", "n2")
    assert text(papers, "n2", "certificate") != others and text(papers, "n2", "key") != key
    raftmeta.Tls(**papers.tls("node", "n2")).read()  # type: ignore[arg-type]


def test_an_authority_is_replaced_in_three_steps(papers: Papers) -> None:
    """Both are trusted, then all have new certificates, then the old authority is trusted no more."""
    old, mine = text(papers, "n1", "authorities"), text(papers, "n1", "certificate")
    papers.begin_authority()
    both = text(papers, "c1", "authorities")
    assert both.startswith(old) and both.count(b"BEGIN CERTIFICATE") == 2
    assert text(papers, "n1", "revoked").count(b"BEGIN X509 CRL") == 2 and text(papers, "n1", "certificate") == mine
    papers.sign_anew()
    assert text(papers, "n1", "certificate") != mine
    papers.end_authority()
    assert text(papers, "n1", "authorities") == both.removeprefix(old) == text(papers, "c1", "authorities")


def test_a_key_is_added_before_it_is_used(papers: Papers) -> None:
    """Behind the first one, then before it; nodes that have the file can read with both."""
    first = papers.key_file.read_text().split()
    key = papers.add_key()
    assert papers.key_file.read_text().split()[:1] == first
    papers.use_key()
    new, old = papers.key_file.read_text().split()
    assert [old] == first and raftmeta.Encryption.key_id(bytes.fromhex(new)) == key
    ring = ring_of(raftmeta.Encryption(key_file=papers.key_file), list)
    assert ring is not None and len(ring.ids) == 2
    assert STRANGER in papers.passwords and papers.password_file.stat().st_mode & 0o077 == 0
