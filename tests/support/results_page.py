"""The page of results, as far as tests compare it with the code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "reference" / "results.md"


def fields_in_the_page(section: str, column: int = 1) -> set[str]:
    """The fields in one column of a section's table."""
    (text,) = re.findall(
        rf"^## {section}\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL
    )
    cells = [line.split("|")[column] for line in text.splitlines() if line.startswith("| ")]
    return {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
