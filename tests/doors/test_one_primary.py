"""The judge of the recorder beside Patroni finds two primaries, and finds none where members follow one another."""

from __future__ import annotations

import pytest

from tests.doors.patroni_members import Mark, check_one_primary

FIRST = [Mark(1, 10, 1, 0.0, 0.1), Mark(1, 11, 1, 1.0, 1.4)]
SECOND = [Mark(2, 20, 2, 1.5, 1.7), Mark(2, 21, 2, 1.8, 1.9)]


def test_members_that_lead_one_after_the_other_are_well() -> None:
    check_one_primary([*FIRST, *SECOND, Mark(1, 12, 3, 2.0, 2.1)])


def test_a_row_that_was_under_way_at_a_promotion_is_well() -> None:
    """It was begun before the new primary acknowledged its first row."""
    check_one_primary([*FIRST, Mark(1, 12, 1, 1.6, 1.75), *SECOND])


def test_an_old_primary_that_goes_on_is_found() -> None:
    with pytest.raises(AssertionError, match="took rows, too"):
        check_one_primary([*FIRST, *SECOND, Mark(1, 12, 1, 1.75, 1.8)])


def test_two_members_of_one_timeline_are_found() -> None:
    with pytest.raises(AssertionError, match="one timeline"):
        check_one_primary([*FIRST, Mark(2, 20, 1, 2.0, 2.1)])
