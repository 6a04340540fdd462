"""A client's side of SASL DIGEST-MD5 (RFC 2831), as kazoo and Java speak it to ZooKeeper."""

from __future__ import annotations

import hashlib

RANDOM = bytes(range(16))
NONCE = RANDOM.hex().encode()
CHALLENGE = b'realm="zk-sasl-md5",nonce="' + NONCE + b'",charset=utf-8,algorithm=md5-sess'


def latin(text: bytes) -> bytes:
    """RFC 2831 2.1.2.1: in ISO 8859-1 if it has no other characters."""
    try:
        return text.decode().encode("latin-1")
    except UnicodeEncodeError:
        return text


def proof(user: bytes, password: bytes, verb: bytes, *, authzid: bytes | None = None, nonce: bytes = NONCE) -> bytes:
    """RFC 2831 2.1.2.1 and 2.1.3."""
    a1 = hashlib.md5(b":".join([latin(user), b"zk-sasl-md5", latin(password)])).digest()
    a1 += b":" + nonce + b":cnonce" + (b"" if authzid is None else b":" + authzid)
    one = hashlib.md5(a1).hexdigest().encode()
    two = hashlib.md5(verb + b":zookeeper/zk-sasl-md5").hexdigest().encode()
    return hashlib.md5(b":".join([one, nonce, b"00000001", b"cnonce", b"auth", two])).hexdigest().encode()


def response(user: bytes = b"bob", password: bytes = b"bobsecret", **changed: bytes) -> bytes:
    """The answer to CHALLENGE; a field that is changed to nothing is left out."""
    fields = {
        "charset": b"utf-8",
        "username": b'"' + user + b'"',
        "realm": b'"zk-sasl-md5"',
        "nonce": b'"' + NONCE + b'"',
        "nc": b"00000001",
        "cnonce": b'"cnonce"',
        "digest-uri": b'"zookeeper/zk-sasl-md5"',
        "maxbuf": b"65536",
        "response": proof(user, password, b"AUTHENTICATE"),
        "qop": b"auth",
    } | {name.replace("_", "-"): value for name, value in changed.items()}
    return b",".join(name.encode() + b"=" + value for name, value in fields.items() if value)
