"""Programs may write any bytes, so their output is decoded with replacement."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).resolve().parents[2]


def test_the_output_of_other_programs_is_decoded_with_replacement() -> None:
    calls = [
        (file, node, {one.arg for one in node.keywords})
        for folder in ("airflow_hiveacid", "demo")
        for file in sorted((_ROOT / folder).rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call)
    ]
    as_text = [
        (file.relative_to(_ROOT), node.lineno, names)
        for file, node, names in calls
        if names & {"text", "universal_newlines"}
        and ast.unparse(node.func).startswith("subprocess.")
    ]
    assert len(as_text) == 4
    assert [one for one in as_text if "errors" not in one[2]] == []
