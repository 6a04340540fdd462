"""The text of transactions means what it says, and what it does not mean is quoted back."""

from __future__ import annotations

import pytest

from raftmeta.cli.transaction_text import parse_compare, parse_operation
from raftmeta.operations import (
    Add,
    Create,
    CreateRevision,
    Delete,
    DeleteRange,
    Get,
    LeaseId,
    ModRevision,
    Put,
    Range,
    RangeEmpty,
    Update,
    Value,
    Version,
)


@pytest.mark.parametrize(
    ("text", "compare"),
    [
        ("version(jobs/7) = 0", Version("jobs/7") == 0),
        ("created(k)>12", CreateRevision("k") > 12),
        ("modified(k) < 3", ModRevision("k") < 3),
        ("lease(k) != 0", LeaseId("k") != 0),
        ("value(k) = a value = with signs", Value("k") == "a value = with signs"),
        ("value(a b) != ", Value("a b") != ""),
        ("empty(jobs/)", RangeEmpty.prefix("jobs/")),
        ("nonempty(jobs/)", RangeEmpty.prefix("jobs/", is_empty=False)),
    ],
)
def test_a_compare_is_read_as_it_is_written(text: str, compare: object) -> None:
    assert parse_compare(text) == compare


@pytest.mark.parametrize(
    ("text", "operation"),
    [
        ("put k v", Put("k", "v")),
        ("put 'a key' 'a value'", Put("a key", "a value")),
        ("create k ''", Create("k", "")),
        ("update k v", Update("k", "v")),
        ("delete k", Delete("k")),
        ("delete-prefix k/", DeleteRange.prefix("k/")),
        ("get k", Get("k")),
        ("range k/", Range.prefix("k/")),
        ("add n -3", Add("n", -3)),
    ],
)
def test_an_operation_is_read_as_it_is_written(text: str, operation: object) -> None:
    assert parse_operation(text) == operation


@pytest.mark.parametrize(
    "text", ["", "version", "version(k)", "version(k) = x", "size(k) = 1", "version(k) == 1", "empty(k) = 1"]
)
def test_a_wrong_compare_is_quoted(text: str) -> None:
    with pytest.raises(ValueError, match=r"compare|stands|none of") as caught:
        parse_compare(text)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize("text", ["", "put k", "put k v w", "remove k", "add n x", "put 'k v"])
def test_a_wrong_operation_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_operation(text)
