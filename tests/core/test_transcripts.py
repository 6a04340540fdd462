"""Every transcript of tests/core/testdata says word for word what the core does.

Lines that begin with "$ " are commands of tests/core/script.py, indented lines are what they told, the rest is prose.
After a wanted change: `python -m tests.core.test_transcripts --rewrite [names]`, and read every line of the difference
before it is committed: a transcript is a claim about what is right, not a record of what happened.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.core.script import Script

TRANSCRIPTS = sorted((Path(__file__).parent / "testdata").glob("*.txt"))


def replay(text: str) -> str:
    """Return the transcript with what its commands tell today."""
    script = Script()
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            lines.append(line)
            lines += [f"  {told}" for told in script.run(line.removeprefix("$ "))]
        elif not line.startswith("  "):
            lines.append(line)
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript_is_what_happens(path: Path) -> None:
    text = path.read_text()
    assert text.startswith("# "), "a transcript begins with prose"
    assert replay(text) == text


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0] != "--rewrite":
        sys.stderr.write(f"{__doc__}\n")
        return 2
    for path in TRANSCRIPTS:
        if len(arguments) == 1 or path.stem in arguments[1:]:
            path.write_text(replay(path.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
