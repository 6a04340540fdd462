"""raftmeta.Encryption: where keys come from, what is refused, and that none is ever shown."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from raftmeta import ConfigError, Encryption
from raftmeta.security.cipher_handle import KeyRingHandle, key_id

KEY, OTHER = bytes(range(32)), bytes(range(100, 132))


def offered(encryption: Encryption, needed: tuple[int, ...] = ()) -> KeyRingHandle:
    ring = KeyRingHandle()
    encryption.offer(ring, needed)
    return ring


def key_file(tmp_path: Path, text: str, mode: int = 0o600) -> Path:
    path = tmp_path / "keys"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_one_key_is_the_current_one() -> None:
    ring = offered(Encryption(key=KEY))
    assert (ring.current, ring.ids) == (key_id(KEY), (key_id(KEY),))


def test_the_first_line_of_a_file_is_the_current_key(tmp_path: Path) -> None:
    path = key_file(tmp_path, f"# rotated in May\n\n{OTHER.hex()}   # new\n{KEY.hex().upper()}\n")
    ring = offered(Encryption(key_file=path))
    assert (ring.current, set(ring.ids)) == (key_id(OTHER), {key_id(KEY), key_id(OTHER)})


def test_a_file_that_begins_with_plain_encrypts_nothing_and_reads_all(tmp_path: Path) -> None:
    ring = offered(Encryption(key_file=key_file(tmp_path, f"plain\n{KEY.hex()}\n")))
    assert (ring.current, ring.ids) == (0, (key_id(KEY),))


def test_a_callable_is_asked_for_the_current_key_and_for_those_that_files_need() -> None:
    asked: list[str | None] = []

    def ask(id: str | None) -> bytes | None:
        asked.append(id)
        return {None: KEY, Encryption.key_id(OTHER): OTHER}.get(id)

    ring = offered(Encryption(key=ask), (0, key_id(KEY), key_id(OTHER), 77))
    assert ring.current == key_id(KEY) and set(ring.ids) == {key_id(KEY), key_id(OTHER)}
    assert asked[0] is None and set(asked[1:]) == {Encryption.key_id(OTHER), f"{77:016x}"}


def test_a_callable_without_a_key_writes_plain_files() -> None:
    assert offered(Encryption(key=lambda _id: None)).current == 0


def test_a_callable_that_gives_another_key_than_it_was_asked_for_is_refused() -> None:
    with pytest.raises(ConfigError, match="returned key"):
        offered(Encryption(key=lambda _id: KEY), (key_id(OTHER),))


def test_what_a_callable_raises_goes_through() -> None:
    def ask(_id: str | None) -> bytes:
        raise ConnectionError("the vault is sealed")

    with pytest.raises(ConnectionError):
        offered(Encryption(key=ask))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Encryption(),
        lambda: Encryption(key=KEY, key_file="keys"),
        lambda: Encryption(key=KEY[:-1]),
        lambda: Encryption(key="a" * 32),  # type: ignore[arg-type]
        lambda: offered(Encryption(key=lambda _id: KEY[1:])),
        lambda: Encryption.key_id(KEY[:16]),
    ],
    ids=["nothing", "both", "short", "text", "a callable with a short one", "the id of a short one"],
)
def test_a_wrong_argument_is_refused_and_not_shown(make: Callable[[], Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        make()
    assert caught.value.field == "encryption"
    check_secret("".join(traceback.format_exception(caught.value)), KEY[:16])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "has no key"),
        ("# only a comment\n", "has no key"),
        (KEY.hex()[:-2], "line 1"),
        (KEY.hex() + "\n" + "zz" * 32, "line 2"),
        (KEY.hex() + "\nplain\n", "line 2"),
        (KEY.hex() + " " + KEY.hex(), "line 1"),
    ],
)
def test_a_wrong_file_is_refused_and_not_shown(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as caught:
        offered(Encryption(key_file=key_file(tmp_path, text)))
    check_secret("".join(traceback.format_exception(caught.value)), KEY[:16])


def check_secret(text: str, secret: bytes) -> None:
    assert secret.hex() not in text and repr(secret)[2:-1] not in text


@pytest.mark.parametrize("mode", [0o604, 0o620, 0o602, 0o644])
def test_a_file_that_others_read_or_the_group_writes_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(ConfigError, match="chmod 600"):
        offered(Encryption(key_file=key_file(tmp_path, KEY.hex(), mode)))


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        offered(Encryption(key_file=tmp_path / "none"))


def test_the_ring_stays_as_it_was_when_keys_cannot_be_had(tmp_path: Path) -> None:
    path = key_file(tmp_path, KEY.hex())
    encryption = Encryption(key_file=path)
    ring = offered(encryption)
    path.write_text("nonsense")
    with pytest.raises(ConfigError):
        encryption.offer(ring)
    assert ring.current == key_id(KEY)


def test_a_key_is_neither_shown_nor_pickled() -> None:
    encryption = Encryption(key=KEY)
    assert repr(encryption) == str(encryption) == "Encryption(key=...)"
    with pytest.raises(TypeError):
        pickle.dumps(encryption)
    assert "keys" in repr(Encryption(key_file="/etc/keys"))


def test_new_keys_differ() -> None:
    keys = {Encryption.new_key() for _ in range(100)}
    assert len(keys) == 100 and {len(key) for key in keys} == {32}
