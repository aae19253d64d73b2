"""Tables of cases in a text file beside the test module that reads them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def tables_of(module: str) -> dict[str, list[list[Any]]]:
    """Return the tables of the file beside a module, each by the name behind `== ` above it.

    A line is a case: its values as JSON, with commas between them. `# ` begins a comment.
    """
    tables: dict[str, list[list[Any]]] = {}
    for line in Path(module).with_suffix(".txt").read_text().splitlines():
        if line.startswith("== "):
            table = tables.setdefault(line.removeprefix("== "), [])
        elif line and not line.startswith("# "):
            table.append(json.loads(f"[{line}]"))
    return tables
