"""The table of etcd's messages: its own against that of the tests, and against bytes of any kind."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.etcd.messages import SCHEMA, encode, varint
from tests.faces import etcd

KINDS = {1: "bool", 2: "int", 3: "uint", 4: "int", 5: "uint", 6: "bytes", 7: "text", 8: "message", 9: "int"}
MESSAGES = max(row[0] for row in etcd.rows()) + 1


def fields_by_message() -> dict[int, list[tuple[int, str, int, str, int, bool]]]:
    found: dict[int, list[tuple[int, str, int, str, int, bool]]] = {}
    for message, number, name, kind, of, is_list in etcd.rows():
        found.setdefault(message, []).append((number, name, message, KINDS[kind], of, is_list))
    return found


def test_the_table_is_sound() -> None:
    """Fields in the order of their numbers, none twice; a message in a message is one of the table."""
    for message, fields in fields_by_message().items():
        numbers = [field[0] for field in fields]
        assert numbers == sorted(set(numbers)), message
        assert all(etcd.has_field(message, number) for number in numbers)
        assert not etcd.has_field(message, max(numbers) + 1)
        assert all(0 < of < MESSAGES for _, _, _, kind, of, _ in fields if kind == "message")


def test_the_table_has_the_messages_that_the_tests_write() -> None:
    """Of each message of the tests the table has one with the same numbers and kinds."""
    told = {
        tuple(sorted((number, kind, is_list) for number, _, _, kind, _, is_list in fields))
        for fields in fields_by_message().values()
    }
    for name in (
        "KeyValue",
        "Range",
        "RangeReply",
        "Put",
        "PutReply",
        "Compare",
        "Txn",
        "TxnReply",
        "Member",
        "RequestOp",
    ):
        wanted = tuple(
            sorted(
                (number, "message" if kind.strip("[]") in SCHEMA else kind.strip("[]"), kind.startswith("["))
                for number, kind in SCHEMA[name].values()
            )
        )
        assert wanted in told, name


def test_enums_have_etcds_names() -> None:
    assert ["NONE", "ASCEND", "DESCEND"] in etcd.names()
    assert ["EQUAL", "GREATER", "LESS", "NOT_EQUAL"] in etcd.names()
    assert ["VERSION", "CREATE", "MOD", "VALUE", "LEASE"] in etcd.names()


def message_with(*rows: tuple[int, str]) -> int:
    """The number of the message with exactly these fields."""
    (found,) = (
        message
        for message, fields in fields_by_message().items()
        if [(number, name) for number, name, *_ in fields] == list(rows)
    )
    return found


TXN = message_with((1, "compare"), (2, "success"), (3, "failure"))
MEMBER = message_with((1, "ID"), (2, "name"), (3, "peerURLs"), (4, "clientURLs"), (5, "isLearner"))


def test_what_a_field_is_not_is_refused() -> None:
    whole = encode("Txn", {"success": [{"put": {"key": b"k", "value": b"v", "lease": 7}}]})
    assert etcd.is_message(TXN, whole)
    assert etcd.is_message(TXN, whole + varint(99 << 3) + varint(1)), "an unknown field is passed over"
    assert not any(etcd.is_message(TXN, whole[:length]) for length in range(1, len(whole)))
    assert not etcd.is_message(TXN, varint(2 << 3) + varint(1)), "a number where a message is due"
    assert not etcd.is_message(TXN, b"\x0b"), "a group"
    assert not etcd.is_message(TXN, b"\x00\x00"), "field 0"
    assert etcd.is_message(MEMBER, encode("Member", {"name": "nämlich"}))
    for text in (b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\xe4\xb8"):
        assert not etcd.is_message(MEMBER, b"\x12" + bytes([len(text)]) + text), text


def test_messages_nest_only_so_deep() -> None:
    def nested(depth: int) -> bytes:
        body = b""
        for _ in range(depth):
            inner = b"\x22" + varint(len(body)) + body  # RequestOp.request_txn
            body = b"\x12" + varint(len(inner)) + inner  # TxnRequest.success
        return body

    assert etcd.is_message(TXN, nested(4))
    assert not etcd.is_message(TXN, nested(1000))


@given(st.integers(0, MESSAGES - 1), st.binary(max_size=64))
def test_any_bytes_are_a_message_or_not(message: int, data: bytes) -> None:
    assert etcd.is_message(message, data) in (True, False)
    assert etcd.is_message(message, b"")
