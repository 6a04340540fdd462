"""Every engine against the definition: small histories, all of whose orders are tried."""

from __future__ import annotations

import pytest

from tests.faces.definition import sweep

COUNT = 12_000  # per shape; the definition tries some thousand orders for each history


@pytest.mark.parametrize(
    "shape",
    [
        {"crash_percent": 0},
        {"crash_percent": 25},
        {"operations": 5, "processes": 5, "values": 2},
        {"operations": 9, "processes": 3, "values": 2, "crash_percent": 10},
        {"keys": 2, "crash_percent": 0},
        {"keys": 2, "processes": 4, "crash_percent": 15},
        {"operations": 6, "processes": 6, "keys": 2, "crash_percent": 40},
    ],
    ids=str,
)
@pytest.mark.parametrize("spoil_percent", [0, 100])
def test_engines_say_what_the_definition_says(shape: dict[str, int], spoil_percent: int) -> None:
    """Verdicts are equal, the orders that engines return are linearizations, and there are histories of both kinds."""
    found = sweep(1, COUNT, spoil_percent=spoil_percent, **shape)
    assert found["blamed"] == 0, found
    assert found["unwitnessed"] == 0, "the witness pass did not see what it was shown"
    legal = found["legal"]
    assert legal is not None
    if spoil_percent == 0:
        assert legal == COUNT
    else:
        assert COUNT // 20 < COUNT - legal < COUNT, "spoiling makes no illegal histories"


def test_the_same_seed_draws_the_same_histories() -> None:
    assert sweep(7, 500) == sweep(7, 500) != sweep(8, 500)


@pytest.mark.parametrize("arguments", [{"operations": 13}, {"keys": 3}, {"values": 0}, {"crash_percent": 100}], ids=str)
def test_a_shape_that_cannot_be_drawn_is_refused(arguments: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"at most|values"):
        sweep(1, 1, **arguments)
