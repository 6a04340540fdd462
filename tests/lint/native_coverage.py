"""Line coverage of the native sources after `./build.sh check --coverage`: counters of gcov, told by .pyx line.

python tests/lint/native_coverage.py, in the folder of that build. The C++ carries the lines of the .pyx it was
generated from, so gcov counts those; a line is covered when any of its instructions ran.
"""

from __future__ import annotations

import json
import subprocess
from collections import defaultdict
from pathlib import Path

NATIVE_SUFFIXES = (".pyx", ".pxd", ".hpp")


def counted_lines(folder: Path) -> dict[str, dict[int, int]]:
    """source -> line -> how often it ran, over all objects below folder."""
    lines: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for data in sorted(folder.rglob("*.gcda")):
        shown = subprocess.run(
            ["gcov", "--json-format", "--stdout", str(data)], capture_output=True, text=True, check=True
        )
        for report in shown.stdout.splitlines():
            for file in json.loads(report)["files"]:
                if file["file"].startswith("raftmeta/") and file["file"].endswith(NATIVE_SUFFIXES):
                    for line in file["lines"]:
                        lines[file["file"]][line["line_number"]] += line["count"]
    return lines


def ranges(numbers: list[int]) -> str:
    """1, 2, 3, 7 -> 1-3, 7."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][-1] + 1:
            parts[-1][1:] = [number]
        else:
            parts.append([number])
    return ", ".join("-".join(map(str, part)) for part in parts)


def main() -> None:
    lines = counted_lines(Path("build"))
    total = sum(len(counts) for counts in lines.values())
    covered = sum(1 for counts in lines.values() for count in counts.values() if count)
    for source, counts in sorted(lines.items()):
        missed = [number for number, count in counts.items() if not count]
        print(f"{source:44} {1 - len(missed) / len(counts):7.1%}   {ranges(missed)}")
    print(f"{'native code':44} {covered / max(total, 1):7.1%}   of {total} lines")


if __name__ == "__main__":
    main()
