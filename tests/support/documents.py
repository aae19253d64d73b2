"""The examples in README and documentation, and the form of notes in generated pages."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
README: Final = ROOT / "README.md"
DOCS: Final = ROOT / "docs"
_WIDTH: Final = 120


def python_blocks(*pages: Path) -> list[str]:
    """Return the Python examples of some pages, in their order; by default of all pages."""
    texts = [page.read_text() for page in pages or (README, *sorted(DOCS.rglob("*.md")))]
    return [
        block for text in texts for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    ]


def numbered_note(number: int, text: str) -> list[str]:
    """Return the lines of a numbered note, no longer than a line of prose may be."""
    return textwrap.wrap(
        f"{number}. {text}",
        _WIDTH,
        subsequent_indent="   ",
        break_long_words=False,
        break_on_hyphens=False,
    )
