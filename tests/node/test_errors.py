"""Errors tell the fate: the tree, and the table from native statuses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from raftmeta import errors

STATUS_HEADER = Path(errors.__file__).parent / "status.pxd"
STATUSES = {name: int(value) for name, value in re.findall(r"^    (\w+) = (\d+)", STATUS_HEADER.read_text(), re.M)}


def statuses(low: int, high: int) -> list[str]:
    return [name for name, value in STATUSES.items() if low <= value <= high]


@pytest.mark.parametrize("name", statuses(1, 14))
def test_a_refusal_carries_the_revision_that_refused(name: str) -> None:
    """Refused carries the revision."""
    error = errors.error_from_status(STATUSES[name], revision=17)
    assert isinstance(error, errors.Refused)
    assert error.revision == 17
    assert "17" in str(error)


@pytest.mark.parametrize("name", ["SESSION_UNKNOWN", *statuses(32, 47), "ALREADY"])
def test_statuses_before_anything_was_done_are_not_executed(name: str) -> None:
    assert isinstance(errors.error_from_status(STATUSES[name]), errors.NotExecuted)


@pytest.mark.parametrize("name", ["RESULT_EVICTED", *statuses(48, 63)])
def test_an_unknown_outcome_is_neither_refused_nor_not_executed(name: str) -> None:
    error = errors.error_from_status(STATUSES[name])
    assert isinstance(error, errors.OutcomeUnknown)
    assert not isinstance(error, errors.NotExecuted | errors.Refused)


@pytest.mark.parametrize("name", ["CORRUPT", *statuses(96, 127)])
def test_statuses_that_stop_the_node_are_fatal(name: str) -> None:
    assert isinstance(errors.error_from_status(STATUSES[name]), errors.Fatal)


def test_the_table_knows_the_header() -> None:
    """Numbers 1..63 stand in replicated results (status.pxd FORMAT_): the names here mean the same numbers there."""
    expected = {
        "KEY_EXISTS": errors.KeyExists,
        "KEY_MISSING": errors.KeyMissing,
        "COMPARE_FAILED": errors.CompareFailed,
        "FENCED": errors.Fenced,
        "ID_CONFLICT": errors.IdConflict,
        "LEASE_EXPIRED": errors.LeaseExpired,
        "COMPACTED": errors.Compacted,
        "FUTURE_REVISION": errors.FutureRevision,
        "NO_LEADER": errors.NoLeader,
        "NOT_READY": errors.NotReady,
        "OVERLOADED": errors.Overloaded,
        "NO_SPACE": errors.NoSpace,
        "NODE_CLOSED": errors.NodeClosed,
        "WITHDRAWN": errors.Withdrawn,
        "DISK_FAILED": errors.DiskFailed,
        "NO_MEMORY": errors.OutOfMemory,
        "INVARIANT_BROKEN": errors.InvariantBroken,
        "STATE_DIVERGED": errors.StateDiverged,
        "HISTORY_LOST": errors.HistoryLost,
        "CORRUPT": errors.StorageCorrupt,
    }
    assert {name: type(errors.error_from_status(STATUSES[name])) for name in expected} == expected


def test_time_outs_are_also_the_builtin_time_out() -> None:
    for error in (errors.Withdrawn, errors.OutcomeTimeout, errors.ReadyTimeout):
        assert issubclass(error, TimeoutError)


def test_wrong_settings_and_arguments_are_also_value_errors() -> None:
    assert issubclass(errors.ConfigError, ValueError)
    assert issubclass(errors.InvalidArgument, ValueError)


def test_the_tree_at_the_top_of_the_file_is_the_tree_of_the_classes() -> None:
    """Every class is drawn once, below a class that it derives from."""
    drawn = re.findall(r"\b[A-Z][A-Za-z]+\b(?=\s|$)", errors.__doc__ or "")
    classes = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.RaftmetaError)
    }
    assert classes <= set(drawn)
