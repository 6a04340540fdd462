"""The definition itself, executable: what the engines are compared with, on as many small histories as one likes."""

def sweep(
    seed: int,
    count: int,
    *,
    operations: int = 7,
    processes: int = 3,
    values: int = 3,
    keys: int = 1,
    crash_percent: int = 5,
    spoil_percent: int = 50,
) -> dict[str, int | None]:
    """Draw `count` histories from seeds seed, seed + 1, ..., and ask definition and engines about each.

    legal: how many are. witnessed: how many the witness pass decided. unwitnessed: how many it should have decided and did
    not, which is a fault. blamed: 0, or which engines disagreed with the definition first, a sum of 1 WGL, 2 WGL with
    exact keys, 4 just-in-time, 8 witness, 16 an order that is no linearization; and blamed_seed, the history's seed.
    Raises ValueError, MemoryError.
    """
