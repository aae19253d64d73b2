"""The examples that README and documentation show."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
README: Final = ROOT / "README.md"
DOCS: Final = ROOT / "docs"


def python_blocks(*pages: Path) -> list[str]:
    """Return the Python examples of some pages, in their order; by default of all pages."""
    texts = [page.read_text() for page in pages or (README, *sorted(DOCS.rglob("*.md")))]
    return [
        block for text in texts for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    ]
