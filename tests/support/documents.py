"""The examples in README and documentation, and the form of generated pages."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
README: Final = ROOT / "README.md"
DOCS: Final = ROOT / "docs"
EVIDENCE: Final = DOCS / "evidence"
_WIDTH: Final = 120


def python_blocks(*pages: Path) -> list[str]:
    """Return the Python examples of some pages, in their order; by default of all pages."""
    texts = [page.read_text() for page in pages or (README, *sorted(DOCS.rglob("*.md")))]
    return [
        block for text in texts for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    ]


def put_between(text: str, mark: str, body: str) -> str:
    """Return a page with a body between the two lines of a mark, such as `pairs: written by ...`.

    People write the page's prose; only the text between the two lines is replaced.

    Raises:
        ValueError: A line is missing.
    """
    begin, end = _lines_of(mark)
    head, first, rest = text.partition(begin)
    _, last, tail = rest.partition(end)
    if not first or not last:
        raise ValueError(f"the page needs the lines {begin} and {end}")
    return f"{head}{begin}\n\n{body.strip()}\n\n{end}{tail}"


def between(text: str, mark: str) -> str:
    """Return the text between the two lines of a mark."""
    begin, end = _lines_of(mark)
    return text.partition(begin)[2].partition(end)[0].strip()


def _lines_of(mark: str) -> tuple[str, str]:
    return f"<!-- {mark} -->", f"<!-- end of {mark.partition(':')[0]} -->"


def table_line(*cells: str) -> str:
    """Return a line of a table in Markdown."""
    texts = (cell.replace("|", "\\|").replace("\n", " ") for cell in cells)
    return f"| {' | '.join(texts)} |"


def numbered_note(number: int, text: str) -> list[str]:
    """Return the lines of a numbered note, no longer than a line of prose may be."""
    return textwrap.wrap(
        f"{number}. {text}",
        _WIDTH,
        subsequent_indent="   ",
        break_long_words=False,
        break_on_hyphens=False,
    )
