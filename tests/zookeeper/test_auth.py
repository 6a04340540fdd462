"""Who speaks on a connection of the ZooKeeper door: digests, addresses, certificates, SASL DIGEST-MD5."""

from __future__ import annotations

import base64
import hashlib
import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.faces.zookeeper import Speaker, digest_of, id_is_valid, md5, sha1
from tests.wire.guarded import guarded
from tests.wire.names import Status
from tests.zookeeper.sasl import CHALLENGE, RANDOM, proof, response

OK, AUTH_FAILED = 0, -115
NEW, CHALLENGED, DONE, FAILED = range(4)
USERS = {b"bob": b"bobsecret", "jürgen".encode(): "straße".encode(), "日本".encode(): b"x"}


# --- digests ----------------------------------------------------------------------------------------------------------
@given(st.binary(max_size=300))
def test_the_old_digests_are_those_of_the_library(data: bytes) -> None:
    """MD5 and SHA-1, at all lengths around a block."""
    assert md5(data) == hashlib.md5(data).digest()
    assert sha1(data) == hashlib.sha1(data).digest()


@given(st.binary(max_size=40))
def test_a_digest_names_the_user_and_hides_the_password(token: bytes) -> None:
    """DigestAuthenticationProvider.generateDigest."""
    hashed = base64.b64encode(hashlib.sha1(token).digest())
    assert digest_of(token) == token.split(b":", 1)[0] + b":" + hashed


def test_a_digest_is_that_of_a_real_zookeeper() -> None:
    """The value that ZooKeeper's documents show for super:admin."""
    assert digest_of(b"super:admin") == b"super:xQJmxLMiHGwaqBvst5y6rkB6HQs="


# --- the identities of a connection -----------------------------------------------------------------------------------
def test_a_user_proves_a_digest_and_may_prove_more() -> None:
    """Each once, in the order in which they came."""
    speaker = Speaker()
    for token in (b"ann:1", b"bob:2", b"ann:1"):
        assert speaker.auth(b"digest", token) == OK
    assert speaker.identities == [(b"digest", digest_of(b"ann:1")), (b"digest", digest_of(b"bob:2"))]


def test_the_super_user_is_the_one_of_the_setting() -> None:
    """Only the right password makes one."""
    speaker = Speaker(super_digest=digest_of(b"super:admin"))
    assert speaker.auth(b"digest", b"super:guess") == OK
    assert (b"super", b"") not in speaker.identities
    assert speaker.auth(b"digest", b"super:admin") == OK
    assert (b"super", b"") in speaker.identities
    nobody = Speaker()
    assert nobody.auth(b"digest", b":") == OK and (b"super", b"") not in nobody.identities


@pytest.mark.parametrize("scheme", [b"world", b"auth", b"super", b"sasl", b"", b"x509", b"kerberos"])
def test_other_schemes_are_refused(scheme: bytes) -> None:
    """-115, and no identity."""
    speaker = Speaker(users=USERS)
    assert speaker.auth(scheme, b"bob:bobsecret") == AUTH_FAILED
    assert speaker.identities == []


def test_what_socket_and_handshake_proved_may_be_said_again() -> None:
    """AUTH with ip or x509 adds nothing that a client wrote itself."""
    speaker = Speaker()
    assert speaker.add_ip(bytes([127, 0, 0, 1])) == Status.OK
    assert speaker.add_x509(b"CN=ann,O=ours") == Status.OK
    assert speaker.auth(b"ip", b"10.0.0.1") == OK and speaker.auth(b"x509", b"CN=root") == OK
    assert speaker.identities == [(b"ip", b"127.0.0.1"), (b"x509", b"CN=ann,O=ours")]


@given(st.binary(min_size=4, max_size=4) | st.binary(min_size=16, max_size=16))
def test_an_address_is_written_as_java_writes_it(address: bytes) -> None:
    """Four numbers, or eight groups without leading zeros; an IPv4 address in an IPv6 one is the former."""
    speaker = Speaker()
    assert speaker.add_ip(address) == Status.OK
    shown = ipaddress.ip_address(address)
    if shown.version == 6 and shown.ipv4_mapped is not None:
        text = str(shown.ipv4_mapped)
    elif shown.version == 6:
        text = ":".join(f"{int(group, 16):x}" for group in shown.exploded.split(":"))
    else:
        text = str(shown)
    assert speaker.identities == [(b"ip", text.encode())]


def test_a_mapped_address_is_the_one_in_it() -> None:
    speaker = Speaker()
    assert speaker.add_ip(bytes(10) + b"\xff\xff" + bytes([10, 200, 0, 9])) == Status.OK
    assert speaker.identities == [(b"ip", b"10.200.0.9")]


def test_identities_are_bounded() -> None:
    """32 of them, and 8 KiB; what does not fit fails and changes nothing."""
    speaker = Speaker()
    for number in range(32):
        assert speaker.auth(b"digest", b"user%d:x" % number) == OK
    before = speaker.identities
    assert speaker.auth(b"digest", b"another:x") == AUTH_FAILED
    assert speaker.identities == before
    assert Speaker().auth(b"digest", b"u" * 9000 + b":x") == AUTH_FAILED


# --- what a list of rights may name -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("scheme", "who", "is_valid"),
    [
        (b"digest", b"ann:hash", True),
        (b"digest", b"ann:hash:", True),
        (b"digest", b":hash", True),
        (b"digest", b"ann:", False),
        (b"digest", b"ann", False),
        (b"digest", b"a:b:c", False),
        (b"digest", b"", False),
        (b"ip", b"10.0.0.1", True),
        (b"ip", b"10.0.0.0/8", True),
        (b"ip", b"10.0.0.0/32", True),
        (b"ip", b"10.0.0.0/33", False),
        (b"ip", b"10.0.0.0/", False),
        (b"ip", b"10.0.0.0/x", False),
        (b"ip", b"10.0.0", False),
        (b"ip", b"10.0.0.256", False),
        (b"ip", b"::1", True),
        (b"ip", b"fe80::/64", True),
        (b"ip", b"fe80::/129", False),
        (b"ip", b"localhost", False),
        (b"ip", b"1" * 60, False),
        (b"sasl", b"bob", True),
        (b"sasl", b"", False),
        (b"x509", b"CN=ann,O=ours", True),
        (b"x509", b"ann", False),
        (b"super", b"", False),
        (b"world", b"everybody", False),
        (b"auth", b"", False),
        (b"foo", b"bar", False),
        (b"digest", b"a:\xff", False),
        (b"digest", b"a:\x00", False),
    ],
)
def test_a_list_of_rights_names_what_a_provider_takes(scheme: bytes, who: bytes, is_valid: bool) -> None:
    """AuthenticationProvider.isValid."""
    assert id_is_valid(scheme, who) is is_valid


# --- SASL -------------------------------------------------------------------------------------------------------------
def challenged(users: dict[bytes, bytes] = USERS) -> Speaker:
    speaker = Speaker(users=users)
    assert speaker.sasl_step(guarded(b""), RANDOM) == (OK, CHALLENGED, CHALLENGE)
    return speaker


@pytest.mark.parametrize("user", list(USERS))
def test_a_user_proves_the_password_by_digest_md5(user: bytes) -> None:
    """And the server proves that it has the password too."""
    speaker = challenged()
    answer = speaker.sasl_step(guarded(response(user, USERS[user])), RANDOM)
    assert answer == (OK, DONE, b"rspauth=" + proof(user, USERS[user], b""))
    assert speaker.identities == [(b"sasl", user)]


def test_a_name_to_act_for_may_only_be_the_own_one() -> None:
    """authzid is part of the proof; Java's client always sends it."""
    sound = proof(b"bob", b"bobsecret", b"AUTHENTICATE", authzid=b"bob")
    assert challenged().sasl_step(guarded(response(authzid=b'"bob"', response=sound)), RANDOM)[:2] == (OK, DONE)
    other = proof(b"bob", b"bobsecret", b"AUTHENTICATE", authzid=b"ann")
    answer = challenged().sasl_step(guarded(response(authzid=b'"ann"', response=other)), RANDOM)
    assert answer == (AUTH_FAILED, FAILED, b"")


@pytest.mark.parametrize(
    "changed",
    [
        {"response": b"0" * 32},
        {"response": b"0"},
        {"realm": b'"other"'},
        {"nonce": b'"' + b"0" * 32 + b'"'},
        {"nonce": b""},
        {"nc": b"00000002"},
        {"cnonce": b'""'},
        {"qop": b"auth-int"},
        {"digest_uri": b'"ldap/zk-sasl-md5"'},
        {"username": b'"ann"'},
        {"username": b'""'},
        {"username": b'"b\\ob"'},
        {"username": b'"bob'},
        {"realm": b'"zk-sasl-md5",realm="zk-sasl-md5"'},
    ],
)
def test_a_response_that_is_not_sound_fails(changed: dict[str, bytes]) -> None:
    """And the challenge cannot be answered a second time."""
    speaker = challenged()
    assert speaker.sasl_step(guarded(response(**changed)), RANDOM) == (AUTH_FAILED, FAILED, b"")
    assert speaker.sasl_step(guarded(response()), RANDOM) == (AUTH_FAILED, FAILED, b"")
    assert speaker.identities == []


def test_a_wrong_password_and_a_user_that_does_not_exist_fail_alike() -> None:
    for user, password in ((b"bob", b"guess"), (b"ann", b"bobsecret"), (b"ann", b"")):
        assert challenged().sasl_step(guarded(response(user, password)), RANDOM) == (AUTH_FAILED, FAILED, b"")


def test_the_super_user_of_sasl_needs_no_right() -> None:
    users = {b"super": b"adminsecret"}
    speaker = challenged(users)
    assert speaker.sasl_step(guarded(response(b"super", b"adminsecret")), RANDOM)[:2] == (OK, DONE)
    assert speaker.identities == [(b"super", b""), (b"sasl", b"super")]


def test_sasl_without_users_and_other_mechanisms_are_refused() -> None:
    """GSSAPI speaks first."""
    assert Speaker().sasl_step(guarded(b""), RANDOM) == (AUTH_FAILED, FAILED, b"")
    assert Speaker(users=USERS).sasl_step(guarded(b"\x60\x82"), RANDOM) == (AUTH_FAILED, FAILED, b"")


@given(st.integers(0, 400), st.integers(0, 255), st.booleans())
def test_any_response_is_refused_without_reading_beyond_it(at: int, byte: int, is_cut: bool) -> None:
    """Cut, or with a byte changed: refused, or the same as before in what counts."""
    whole = response()
    at %= len(whole)
    changed = whole[:at] if is_cut else whole[:at] + bytes([byte]) + whole[at + 1 :]
    error, state, token = challenged().sasl_step(guarded(changed), RANDOM)
    assert (error, state) in ((AUTH_FAILED, FAILED), (OK, DONE))
    assert bool(token) == (state == DONE)
