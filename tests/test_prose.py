"""Prose that is read once: no sentence of a document, header or docstring opens with a clause in place of a noun.

"What a caller asks for" names nothing; "a question of a caller" does. A sentence that opens so ends in its verb, or
has no verb at all, and is read twice. Questions and headings may open with any word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.lint.rules import for_each
from tests.lint.sources import ROOT, source_files

SOURCES = source_files(".py", ".pyx", ".pxd", ".pyi", ".hpp")
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *source_files(".md", below=ROOT / "docs")]

_OPENING = re.compile(r"(?:What|Whatever|Whoever|Whichever|Of two|Of those|Of the two)\b")
_DECORATION = " *-|\"'#"


def paragraphs_of_document(text: str) -> Iterator[str]:
    """Paragraphs, rows and items of Markdown, without code and without headings."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    lines = ["" if line.startswith(("    ", "#")) else line for line in text.split("\n")]
    for block in "\n".join(lines).split("\n\n"):
        if not block.startswith("|"):  # the cells of a table are headings
            yield block


def paragraphs_of_source(text: str) -> Iterator[str]:
    """Docstrings, and comments on lines of their own, of Python, Cython and C++."""
    for docstring in re.findall(r'^\s*r?"""(.*?)"""', text, re.MULTILINE | re.DOTALL):
        yield from docstring.split("\n\n")
    bare = re.sub(r'"""(?:.|\n)*?"""', "", text)
    for block in re.findall(r"(?:^[ \t]*(?:#|//).*\n)+", bare, re.MULTILINE):
        yield from re.sub(r"^[ \t]*(?:#|//) ?", "", block, flags=re.MULTILINE).split("\n\n")


def bad_openings(paragraph: str) -> list[str]:
    """The sentences of a paragraph that open with one of the words, but for questions."""
    sentences = re.split(r"(?<=[.!?])\s+", re.sub(r"\s+", " ", paragraph).strip())
    stripped = [sentence.lstrip(_DECORATION) for sentence in sentences]
    return [one for one in stripped if _OPENING.match(one) and not one.endswith("?")]


@for_each([*DOCUMENTS, *SOURCES], lambda path: path.relative_to(ROOT).as_posix())
def test_no_sentence_opens_with_a_clause(path: Path) -> None:
    """Each sentence begins with the thing that acts."""
    paragraphs = paragraphs_of_document if path.suffix == ".md" else paragraphs_of_source
    assert not [one for paragraph in paragraphs(path.read_text()) for one in bad_openings(paragraph)]


def test_a_planted_clause_is_found() -> None:
    """The rule bites in each place where prose stands, and lets questions and headings be."""
    assert bad_openings("It waits. What is left goes.") == ["What is left goes."]
    assert bad_openings("Whoever comes\nlater waits.") == ["Whoever comes later waits."]
    assert bad_openings("What does it cost? Nothing. It decides what goes.") == []
    assert list(paragraphs_of_document("# What\n\n**What goes.** It\n\n| What | b |\n\n```\nWhat x\n```\n")) == [
        "",
        "**What goes.** It",
        "\n",
    ]
    source = '"""One.\n\nWhat two."""\nx = 1  # What aside\n# What is\n# three.\n'
    assert list(paragraphs_of_source(source)) == ["One.", "What two.", "What is\nthree.\n"]
