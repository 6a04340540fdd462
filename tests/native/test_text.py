"""Text from outside: which bytes are taken for a name or an address."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from raftmeta.common.text import shown
from tests.faces.native import text_is_plain


def is_plain(raw: bytes) -> bool:
    """The same, by Python."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return False
    return all(unicodedata.category(letter) not in ("Cc", "Zl", "Zp") for letter in text)


@given(st.binary(max_size=12) | st.text(max_size=12).map(lambda text: text.encode(errors="surrogatepass")))
@example(b"\xc0\x80")  # overlong forms
@example(b"\xe0\x9f\xbf")
@example(b"\xf0\x8f\xbf\xbf")
@example(b"\xf4\x90\x80\x80")  # above U+10FFFF
@example(b"\xed\xbf\xbf")  # a surrogate
@example("\u2028".encode())
@example(b"\xc2\x85")
def test_text_is_what_python_reads_as_utf_8_without_control_characters(raw: bytes) -> None:
    assert text_is_plain(raw) == is_plain(raw)


@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_every_character_of_a_length_is_judged_as_python_does(length: int) -> None:
    """Every third code point of the long forms: all of them take half a minute."""
    first, last = {1: (0, 0x7F), 2: (0x80, 0x7FF), 3: (0x800, 0xFFFF), 4: (0x10000, 0x10FFFF)}[length]
    for code in range(first, last + 1, 1 if length < 4 else 97):
        raw = chr(code).encode(errors="surrogatepass")
        assert text_is_plain(raw) == is_plain(raw), hex(code)
        assert not text_is_plain(raw[:-1]) or length == 1


@given(st.binary(max_size=40))
def test_any_bytes_can_be_shown(raw: bytes) -> None:
    text = shown(raw).encode()
    assert text == raw or not is_plain(raw)
