"""Cases of tests that are SQL text, from files beside the tests: one a line, or one a paragraph.

Lines that begin with `--` are comments for the reader of the file, and no part of a case.
"""

from __future__ import annotations

from pathlib import Path


def sql_lines(file: Path) -> list[str]:
    """The cases of a file with one a line."""
    lines = file.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("--")]


def sql_paragraphs(file: Path) -> list[str]:
    """The cases of a file in which blank lines separate them."""
    paragraphs = file.read_text(encoding="utf-8").split("\n\n")
    cases = [
        "\n".join(line for line in paragraph.splitlines() if not line.startswith("--"))
        for paragraph in paragraphs
    ]
    return [case for case in cases if case]
