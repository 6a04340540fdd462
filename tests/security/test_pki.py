"""Certificates of a cluster: issued and judged by OpenSSL as well; renewed, revoked, listed, and never overwritten."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import ssl
import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID
from hypothesis import given
from hypothesis import strategies as st

import raftmeta
from raftmeta.security.pki import Identity, Pki
from tests.lint.sources import ROOT

NOBODY = 65534
FILES = {"authorities.pem", "certificate.pem", "key.pem", "revoked.pem"}


@pytest.fixture
def pki(tmp_path: Path) -> Pki:
    return Pki.found(tmp_path / "pki", "shop")


def verified(pki: Pki, certificate: Path, *options: str, revoked: Path | None = None) -> str:
    """What OpenSSL says of a certificate; "" when all is well."""
    lists = ["-crl_check", "-CRLfile", str(revoked or pki.folder / "revoked.pem")]
    authority = ["-CAfile", str(pki.folder / "authority" / "certificate.pem")]
    ended = subprocess.run(
        ["openssl", "verify", "-x509_strict", *lists, *authority, *options, str(certificate)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    return "" if ended.returncode == 0 else ended.stderr


def loaded(folder: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate((folder / "certificate.pem").read_bytes())


def key_in(folder: Path) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key((folder / "key.pem").read_bytes(), password=None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return key


def run(folder: Path, *words: str, code: int = 0) -> str:
    """`raftmeta pki` as a shell has it; standard output, or the line that it complains."""
    ended = subprocess.run(
        [sys.executable, "-m", "raftmeta.cli", *words], cwd=folder, capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == code, ended.stdout + ended.stderr
    return ended.stdout or ended.stderr


# --- what is issued ---------------------------------------------------------------------------------------------------


def test_openssl_accepts_a_node_as_server_and_client(pki: Pki) -> None:
    folder = pki.issue("node", "a", hosts=("10.0.0.1", "broker-1.example", "::1"))
    for purpose in ("sslserver", "sslclient"):
        assert verified(pki, folder / "certificate.pem", "-purpose", purpose) == ""
    names = loaded(folder).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.UniformResourceIdentifier) == ["raftmeta://shop/a/peer"]
    assert names.get_values_for_type(x509.DNSName) == ["broker-1.example"]
    assert [str(one) for one in names.get_values_for_type(x509.IPAddress)] == ["10.0.0.1", "::1"]


def test_openssl_accepts_a_client_as_client_only(pki: Pki) -> None:
    folder = pki.issue("client", "admin")
    assert verified(pki, folder / "certificate.pem", "-purpose", "sslclient") == ""
    assert "purpose" in verified(pki, folder / "certificate.pem", "-purpose", "sslserver")
    names = loaded(folder).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.UniformResourceIdentifier) == ["raftmeta://shop/client/admin"]


def test_keys_are_p256_and_belong_to_their_certificates(pki: Pki) -> None:
    for folder in (pki.folder / "authority", pki.issue("node", "a"), pki.issue("client", "c")):
        key = key_in(folder)
        assert isinstance(key.curve, ec.SECP256R1)
        assert key.public_key() == loaded(folder).public_key()


def test_no_name_stands_where_others_look_for_one(pki: Pki) -> None:
    """The subject is empty: no program takes a common name for an identity."""
    assert list(loaded(pki.issue("node", "a")).subject) == []


def test_the_authority_can_sign_for_its_cluster_only(pki: Pki) -> None:
    """Somebody has its key, and signs for another cluster: OpenSSL refuses it by the constraint."""
    key = ec.generate_private_key(ec.SECP256R1())
    uri = x509.UniformResourceIdentifier("raftmeta://bank/a/peer")
    stolen = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([]))
        .issuer_name(pki.authority.subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(datetime.now(UTC) - timedelta(days=1))
        .not_valid_after(datetime.now(UTC) + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([uri]), critical=True)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(
                pki.authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
            ),
            critical=False,
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key_in(pki.folder / "authority"), hashes.SHA256())
    )
    path = pki.folder / "stolen.pem"
    path.write_bytes(stolen.public_bytes(serialization.Encoding.PEM))
    assert "permitted subtree violation" in verified(pki, path)


def test_a_node_cannot_sign(pki: Pki) -> None:
    folder = pki.issue("node", "a")
    constraints = loaded(folder).extensions.get_extension_for_class(x509.BasicConstraints)
    assert (constraints.critical, constraints.value.ca) == (True, False)
    usages = loaded(folder).extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert set(usages) == {ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH}


def test_a_certificate_of_another_authority_does_not_verify(pki: Pki, tmp_path: Path) -> None:
    other = Pki.found(tmp_path / "other", "shop").issue("node", "a")
    assert "unable to get local issuer" in verified(pki, other / "certificate.pem")


def handshake(server: Path, client: Path) -> tuple[list[str], list[str]]:
    """TLS 1.3 in memory, both sides verified against their own files; the URIs that client and server see."""
    contexts = []
    for folder, purpose in ((server, ssl.Purpose.CLIENT_AUTH), (client, ssl.Purpose.SERVER_AUTH)):
        context = ssl.create_default_context(purpose, cafile=str(folder / "authorities.pem"))
        context.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
        context.load_verify_locations(folder / "revoked.pem")
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        contexts.append(context)
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [contexts[0].wrap_bio(up, down, server_side=True), contexts[1].wrap_bio(down, up)]
    waiting = [1, 0]
    while waiting:
        for side in list(waiting):
            with contextlib.suppress(ssl.SSLWantReadError):
                sides[side].do_handshake()
                waiting.remove(side)
    sides[1].write(b"x")
    assert sides[0].read(1) == b"x"
    seen = []
    for side in (sides[1], sides[0]):
        certificate = side.getpeercert()
        assert certificate is not None
        seen.append([str(value) for kind, value in certificate["subjectAltName"] if kind == "URI"])
    return seen[0], seen[1]


def test_two_sides_meet_by_tls(pki: Pki) -> None:
    """A node with a node, and a client with a node; each sees the other's URI."""
    a, b, client = pki.issue("node", "a"), pki.issue("node", "b"), pki.issue("client", "admin")
    assert handshake(a, b) == (["raftmeta://shop/a/peer"], ["raftmeta://shop/b/peer"])
    assert handshake(b, client) == (["raftmeta://shop/b/peer"], ["raftmeta://shop/client/admin"])


def test_tls_fails_with_a_client_as_server_a_stranger_and_who_was_revoked(pki: Pki, tmp_path: Path) -> None:
    a, b, client = pki.issue("node", "a"), pki.issue("node", "b"), pki.issue("client", "admin")
    with pytest.raises(ssl.SSLCertVerificationError, match="purpose"):
        handshake(client, a)
    stranger = Pki.found(tmp_path / "other", "shop").issue("node", "b")
    with pytest.raises(ssl.SSLCertVerificationError, match="self-signed certificate in certificate chain"):
        handshake(stranger, a)
    gone = tmp_path / "b"
    shutil.copytree(b, gone)
    pki.revoke("node", "b")
    with pytest.raises(ssl.SSLCertVerificationError, match="revoked"):
        handshake(gone, a)


# --- identities -------------------------------------------------------------------------------------------------------

NAME = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cf", "Cs", "Co", "Cn", "Z")), min_size=1).filter(
    lambda text: text.isprintable() and len(text.encode()) <= 64
)


@given(cluster=NAME, kind=st.sampled_from(["node", "client"]), name=NAME)
def test_an_identity_is_read_as_it_was_written(cluster: str, kind: str, name: str) -> None:
    """Whatever the names are: slashes, dots, percent signs, letters of any alphabet."""
    if (kind, name) in (("node", "client"), ("client", "peer")):
        return
    identity = Identity.check(cluster, kind, name)  # type: ignore[arg-type]  # drawn from both
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([]))
        .issuer_name(x509.Name([]))
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(datetime(2020, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2021, 1, 1, tzinfo=UTC))
        .add_extension(x509.SubjectAlternativeName([x509.UniformResourceIdentifier(identity.uri)]), critical=True)
        .sign(key, hashes.SHA256())
    )
    assert Identity.of(certificate) == identity
    assert "/" not in identity.place and identity.place not in (".", "..")


@pytest.mark.parametrize(("kind", "name"), [("node", "client"), ("client", "peer")])
def test_no_two_identities_are_one(pki: Pki, kind: str, name: str) -> None:
    """raftmeta://shop/client/peer would be the node `client` and the client `peer`."""
    with pytest.raises(raftmeta.ConfigError, match="cannot be called"):
        pki.issue(kind, name)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", "a" * 65, "a\nb", "a\x00"])
def test_a_name_that_no_node_may_have_is_refused(pki: Pki, name: str) -> None:
    with pytest.raises(raftmeta.ConfigError, match="name"):
        pki.issue("node", name)


def test_a_name_is_no_path(pki: Pki) -> None:
    """A node may be called .. or a/b; its files are below the folder of nodes all the same."""
    for name in ("..", ".", "a/b", "../../x", ".hidden"):
        folder = pki.issue("node", name)
        assert folder.resolve().parent == (pki.folder / "node").resolve()
        assert verified(pki, folder / "certificate.pem") == ""


@pytest.mark.parametrize("host", ["*", "*.example", "a b", "", "-a", "a/b", "x" * 254])
def test_a_host_that_is_none_is_refused(pki: Pki, host: str) -> None:
    with pytest.raises(raftmeta.ConfigError, match="host"):
        pki.issue("node", "a", hosts=(host,))
    assert not (pki.folder / "node" / "a").exists()


# --- time -------------------------------------------------------------------------------------------------------------


def test_a_certificate_ends_when_its_days_are_over(tmp_path: Path) -> None:
    """Issued 30 days ago for 20 days: `certificates` and OpenSSL agree, today and at any other time."""
    then = datetime.now(UTC) - timedelta(days=30)
    pki = Pki.found(tmp_path / "pki", "shop", now=then)
    folder = pki.issue("node", "a", days=20, now=then)
    assert "expired" in verified(pki, folder / "certificate.pem")
    within = str(int((then + timedelta(days=10)).timestamp()))
    assert verified(pki, folder / "certificate.pem", "-attime", within) == ""
    (shown,) = (one for one in pki.certificates() if one.kind == "node")
    assert (shown.state, shown.days_left) == ("expired", -11)
    (shown,) = (one for one in pki.certificates(now=then + timedelta(days=10, hours=1)) if one.kind == "node")
    assert (shown.state, shown.days_left) == ("valid", 9)
    (shown,) = (one for one in pki.certificates(now=then - timedelta(days=1)) if one.kind == "node")
    assert shown.state == "not yet valid"


def test_no_certificate_outlives_its_authority(tmp_path: Path) -> None:
    pki = Pki.found(tmp_path / "pki", "shop", days=100)
    with pytest.raises(raftmeta.ConfigError, match="the authority itself ends in"):
        pki.issue("node", "a", days=200)
    assert verified(pki, pki.issue("node", "a", days=99) / "certificate.pem") == ""


def test_a_clock_that_is_behind_accepts_a_new_certificate(pki: Pki) -> None:
    behind = str(int((datetime.now(UTC) - timedelta(minutes=4)).timestamp()))
    assert verified(pki, pki.issue("node", "a") / "certificate.pem", "-attime", behind) == ""


# --- renew ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("has_new_key", [False, True])
def test_a_renewal_keeps_the_identity(pki: Pki, has_new_key: bool) -> None:
    """And the hosts; the serial number and the end are new, the key only if that was asked."""
    folder = pki.issue("node", "a", hosts=("10.0.0.1",), days=10)
    old, old_key = loaded(folder), key_in(folder)
    assert pki.renew("node", "a", days=300, has_new_key=has_new_key) == folder
    new, new_key = loaded(folder), key_in(folder)
    assert Identity.of(new) == Identity.of(old) == Identity("shop", "node", "a")
    names = [one.extensions.get_extension_for_class(x509.SubjectAlternativeName).value for one in (old, new)]
    assert names[0] == names[1]
    assert new.serial_number != old.serial_number
    assert new.not_valid_after_utc - old.not_valid_after_utc > timedelta(days=289)
    assert (new_key.private_numbers() != old_key.private_numbers()) == has_new_key
    assert new_key.public_key() == new.public_key()
    assert verified(pki, folder / "certificate.pem") == ""
    assert {path.name for path in folder.iterdir()} == FILES


def test_an_expired_certificate_is_renewed(pki: Pki) -> None:
    folder = pki.issue("client", "c", days=5, now=datetime.now(UTC) - timedelta(days=6))
    assert "expired" in verified(pki, folder / "certificate.pem")
    pki.renew("client", "c")
    assert verified(pki, folder / "certificate.pem") == ""


def test_a_renewal_that_was_killed_between_its_two_files_is_told_again(
    pki: Pki, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key is new and the certificate old: a renewal that keeps the key would make a pair that fits nowhere."""
    from raftmeta.security import pki as module

    folder = pki.issue("node", "a")
    replace = module._replace

    def killed(path: Path, content: bytes) -> None:
        replace(path, content)
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "_replace", killed)
    with pytest.raises(KeyboardInterrupt):
        pki.renew("node", "a", has_new_key=True)
    monkeypatch.undo()
    with pytest.raises(raftmeta.ConfigError, match="renew with a new key"):
        pki.renew("node", "a")
    pki.renew("node", "a", has_new_key=True)
    assert key_in(folder).public_key() == loaded(folder).public_key()


def test_a_certificate_is_renewed_where_its_key_is_not(pki: Pki) -> None:
    """The operator keeps no copy of a node's key: it is on the node's machine alone."""
    folder = pki.issue("node", "a")
    key = key_in(folder)
    (folder / "key.pem").unlink()
    pki.renew("node", "a")
    assert loaded(folder).public_key() == key.public_key()
    assert not (folder / "key.pem").exists()


def test_who_was_never_there_is_not_renewed(pki: Pki) -> None:
    with pytest.raises(raftmeta.ConfigError, match="raftmeta pki node b"):
        pki.renew("node", "b")


# --- revoke -----------------------------------------------------------------------------------------------------------


def test_a_revoked_node_is_in_the_list_with_all_its_certificates(pki: Pki) -> None:
    """The one before the renewal as well: it would be valid until its end. Others stay valid."""
    folder = pki.issue("node", "a")
    before = (folder / "certificate.pem").read_bytes()
    pki.renew("node", "a")
    other = pki.issue("node", "b")
    first_list = (pki.folder / "revoked.pem").read_bytes()
    assert len(pki.revoke("node", "a")) == 2
    assert not folder.exists()
    (moved,) = (pki.folder / "revoked").iterdir()
    (moved / "before.pem").write_bytes(before)
    for path in (moved / "certificate.pem", moved / "before.pem"):
        assert "certificate revoked" in verified(pki, path)
    assert verified(pki, other / "certificate.pem") == ""
    assert (other / "revoked.pem").read_bytes() == (pki.folder / "revoked.pem").read_bytes() != first_list


def test_who_was_revoked_can_be_trusted_again_with_a_new_key(pki: Pki) -> None:
    old = key_in(pki.issue("node", "a"))
    pki.revoke("node", "a")
    folder = pki.issue("node", "a")
    assert key_in(folder).private_numbers() != old.private_numbers()
    assert verified(pki, folder / "certificate.pem") == ""
    pki.revoke("node", "a")
    assert len(list((pki.folder / "revoked").iterdir())) == 2
    found = x509.load_pem_x509_crl((pki.folder / "revoked.pem").read_bytes())
    assert len(list(found)) == 2
    assert found.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number == 3


def test_only_what_was_replaced_is_revoked(pki: Pki) -> None:
    """A key is exchanged while the node runs on: renew with a new key, bring it there, revoke the old one."""
    folder = pki.issue("node", "a")
    old = pki.folder / "old.pem"
    old.write_bytes((folder / "certificate.pem").read_bytes())
    pki.renew("node", "a", has_new_key=True)
    assert len(pki.revoke("node", "a", only_replaced=True)) == 1
    assert "certificate revoked" in verified(pki, old)
    assert verified(pki, folder / "certificate.pem") == ""
    with pytest.raises(raftmeta.ConfigError, match="no certificate that could be revoked"):
        pki.revoke("node", "a", only_replaced=True)


def test_who_has_nothing_is_not_revoked(pki: Pki) -> None:
    pki.issue("node", "a")
    pki.revoke("node", "a")
    for name in ("a", "b"):
        with pytest.raises(raftmeta.ConfigError, match="no certificate that could be revoked"):
            pki.revoke("node", name)


def test_the_list_stays_valid_as_long_as_the_authority(pki: Pki) -> None:
    """A list that ended earlier would stop every connection of a cluster whose operator forgot it."""
    pki.issue("node", "a")
    end = str(int((pki.authority.not_valid_after_utc - timedelta(days=2)).timestamp()))
    told = verified(pki, pki.folder / "node" / "a" / "certificate.pem", "-attime", end)
    assert "certificate has expired" in told
    assert "CRL" not in told


# --- files ------------------------------------------------------------------------------------------------------------


def test_all_files_are_their_owners_alone(pki: Pki) -> None:
    """Under a umask that gives everything to everybody."""
    before = os.umask(0)
    try:
        pki.issue("node", "a")
        pki.issue("client", "c")
        pki.renew("node", "a", has_new_key=True)
        pki.revoke("client", "c")
    finally:
        os.umask(before)
    for path in (pki.folder, *pki.folder.rglob("*")):
        wanted = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == wanted, path


def test_nothing_is_overwritten(pki: Pki) -> None:
    folder = pki.issue("node", "a")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert set(before) == FILES
    with pytest.raises(raftmeta.ConfigError, match="raftmeta pki renew node a"):
        pki.issue("node", "a")
    with pytest.raises(raftmeta.ConfigError, match="not empty"):
        Pki.found(pki.folder, "shop")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_folder_that_others_may_write_is_refused(pki: Pki) -> None:
    """They could lay in an authority of their own."""
    for mode in (0o770, 0o707, 0o702):
        pki.folder.chmod(mode)
        with pytest.raises(raftmeta.ConfigError, match="chmod 700"):
            Pki(pki.folder)
    pki.folder.chmod(0o755)
    Pki(pki.folder)
    if os.geteuid() == 0:
        os.chown(pki.folder, NOBODY, NOBODY)
        with pytest.raises(raftmeta.ConfigError, match="chmod 700"):
            Pki(pki.folder)


def test_no_symbolic_link_is_followed(pki: Pki, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(pki.folder)
    with pytest.raises(raftmeta.ConfigError, match="no symbolic link"):
        Pki(link)
    certificate = pki.issue("node", "a") / "certificate.pem"
    certificate.rename(tmp_path / "elsewhere.pem")
    certificate.symlink_to(tmp_path / "elsewhere.pem")
    with pytest.raises(OSError, match="symbolic"):
        pki.renew("node", "a")


@pytest.mark.parametrize("step", ["key.pem", "certificate.pem", "revoked.pem"])
def test_a_command_that_is_killed_leaves_whole_files(pki: Pki, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed before one of its files is written, and told again: it ends well."""
    from raftmeta.security import pki as module

    write = module._write_new

    def killed(path: Path, content: bytes) -> None:
        if path.name == step:
            raise KeyboardInterrupt
        write(path, content)

    monkeypatch.setattr(module, "_write_new", killed)
    with pytest.raises(KeyboardInterrupt):
        pki.issue("node", "a")
    assert not (pki.folder / "node" / "a").exists()
    monkeypatch.undo()
    assert verified(pki, pki.issue("node", "a") / "certificate.pem") == ""
    before = (pki.folder / "revoked.pem").read_bytes()
    monkeypatch.setattr(module, "_write_new", lambda path, content: killed(path.with_name(step), content))
    with pytest.raises(KeyboardInterrupt):
        pki.revoke("node", "a")
    monkeypatch.undo()
    assert (pki.folder / "revoked.pem").read_bytes() == before
    assert len(pki.revoke("node", "a")) == 2


@pytest.mark.parametrize(
    ("file", "content", "told"),
    [
        ("authority/key.pem", None, "where the authority's key is"),
        ("authority/key.pem", b"nothing", "no private key"),
        ("authority/certificate.pem", None, "raftmeta pki init"),
        ("authority/certificate.pem", b"nothing", "damaged"),
        ("revoked.pem", None, "bring it back"),
        ("revoked.pem", b"nothing", "damaged"),
    ],
)
def test_a_file_that_is_gone_or_damaged_is_named(pki: Pki, file: str, content: bytes | None, told: str) -> None:
    pki.issue("node", "a")
    (pki.folder / file).unlink()
    if content is not None:
        (pki.folder / file).write_bytes(content)
    with pytest.raises(raftmeta.ConfigError, match=told) as caught:
        Pki(pki.folder).revoke("node", "a")
    assert Path(file).name in str(caught.value) or "pki init" in told


def test_a_list_or_a_key_of_another_authority_is_refused(pki: Pki, tmp_path: Path) -> None:
    pki.issue("node", "a")
    other = Pki.found(tmp_path / "other", "shop")
    (pki.folder / "revoked.pem").write_bytes((other.folder / "revoked.pem").read_bytes())
    with pytest.raises(raftmeta.ConfigError, match="not signed by this authority"):
        pki.revoke("node", "a")
    (pki.folder / "authority" / "key.pem").write_bytes((other.folder / "authority" / "key.pem").read_bytes())
    with pytest.raises(raftmeta.ConfigError, match="not the key of"):
        pki.issue("node", "b")


def test_no_error_and_no_repr_shows_a_key(pki: Pki) -> None:
    """Neither the file's text nor the number itself."""
    folder = pki.issue("node", "a")
    texts = [repr(pki), str(vars(pki)), repr(pki.certificates())]
    (pki.folder / "authority" / "key.pem").write_bytes((folder / "key.pem").read_bytes())
    for wrong in (lambda: pki.issue("node", "b"), lambda: pki.issue("node", "a"), lambda: pki.renew("node", "x")):
        with pytest.raises(raftmeta.ConfigError) as caught:
            wrong()
        texts.append(repr(caught.value) + str(caught.value))
    secret = key_in(folder).private_numbers().private_value
    body = (folder / "key.pem").read_text().splitlines()[1]
    for text in texts:
        assert body not in text and str(secret) not in text and f"{secret:x}" not in text


# --- the command line -------------------------------------------------------------------------------------------------


def test_five_commands_make_what_three_nodes_and_a_client_need(tmp_path: Path) -> None:
    """From nothing: an authority, three nodes, one client."""
    run(tmp_path, "--cluster", "shop", "pki", "init")
    for name in "abc":
        assert f"pki/node/{name}" in run(tmp_path, "pki", "node", name, "--host", "127.0.0.1")
    run(tmp_path, "pki", "client", "admin")
    pki = Pki(tmp_path / "pki")
    for place in ("node/a", "node/b", "node/c", "client/admin"):
        assert {path.name for path in (pki.folder / place).iterdir()} == FILES
        assert verified(pki, pki.folder / place / "certificate.pem") == ""


def test_show_tells_dates_identity_days_left_and_what_is_revoked(tmp_path: Path) -> None:
    run(tmp_path, "--cluster", "shop", "pki", "init", "--days", "1000")
    run(tmp_path, "pki", "node", "a", "--host", "10.0.0.1", "--days", "10")
    run(tmp_path, "pki", "client", "c")
    assert "revoked 1; bring pki/revoked.pem to every node" in run(tmp_path, "pki", "revoke", "client", "c")
    rows = json.loads(run(tmp_path, "--json", "pki", "show"))
    assert [(row["uri"], row["state"], row["days_left"]) for row in rows] == [
        ("raftmeta://shop", "valid", 999),
        ("raftmeta://shop/a/peer", "valid", 9),
        ("raftmeta://shop/client/c", "revoked", 364),
    ]
    today = datetime.now(UTC).date()
    assert rows[1]["valid_until"][:10] in {str(today + timedelta(days=days)) for days in (9, 10)}
    assert rows[1]["hosts"] == "10.0.0.1"
    shown = run(tmp_path, "pki", "show")
    assert re.search(r"raftmeta://shop/a/peer +node +a +[0-9a-f]+ +10\.0\.0\.1 ", shown)


def test_a_renewal_is_made_when_it_is_due(tmp_path: Path) -> None:
    """For a timer: the command does nothing as long as enough days are left."""
    run(tmp_path, "--cluster", "shop", "pki", "init")
    run(tmp_path, "pki", "node", "a", "--days", "40")
    certificate = tmp_path / "pki" / "node" / "a" / "certificate.pem"
    before = certificate.read_bytes()
    assert "nothing to do: 39 days" in run(tmp_path, "pki", "renew", "node", "a", "--if-due", "30")
    assert certificate.read_bytes() == before
    run(tmp_path, "pki", "renew", "node", "a", "--if-due", "50", "--new-key")
    assert certificate.read_bytes() != before


def test_wrong_use_is_exit_code_2_and_says_what_to_do(tmp_path: Path) -> None:
    assert "raftmeta pki init" in run(tmp_path, "pki", "node", "a", code=2)
    run(tmp_path, "pki", "init")
    assert "not empty" in run(tmp_path, "pki", "init", code=2)
    run(tmp_path, "pki", "node", "a")
    assert "renew" in run(tmp_path, "pki", "node", "a", code=2)
    assert "--days" in run(tmp_path, "pki", "node", "b", "--days", "0", code=2)


def test_without_cryptography_the_command_says_what_to_install(tmp_path: Path) -> None:
    """Every other command works without it."""
    (tmp_path / "cryptography.py").write_text('raise ModuleNotFoundError("none", name="cryptography")')
    ended = subprocess.run(
        [sys.executable, "-m", "raftmeta.cli", "pki", "init"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ended.returncode, ended.stderr) == (
        2,
        "raftmeta: certificates need cryptography: pip install 'raftmeta[pki]'\n",
    )


def test_the_commands_of_the_page_work_as_printed(tmp_path: Path) -> None:
    """docs/security.md "Certificates": every block of commands, one after the other, in an empty folder."""
    part = (ROOT / "docs" / "security.md").read_text().split("\n## Certificates\n")[1].split("\n## ")[0]
    blocks = re.findall(r"^```sh\n(.*?)^```", part, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 3
    program = tmp_path / "bin" / "raftmeta"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m raftmeta.cli "$@"\n')
    program.chmod(0o755)
    folder = tmp_path / "work"
    folder.mkdir()
    ended = subprocess.run(
        ["sh", "-eux", "-c", "\n".join(blocks)],
        cwd=folder,
        env={**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.count("+ raftmeta") == "\n".join(blocks).count("raftmeta ") >= 9
