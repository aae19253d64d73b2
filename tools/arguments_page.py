"""The page docs/reference/arguments.md with the arguments of all operators, made from docstrings.

    .venv/bin/python -m tools.arguments_page

A test compares the page with the output of this program.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from pathlib import Path
from typing import Final

from airflow_hiveacid import operators
from airflow_hiveacid.operators.declaration import DeclaredArguments

PAGE: Final = Path(__file__).resolve().parent.parent / "docs" / "reference" / "arguments.md"
_HEAD: Final = """\
# Arguments of operators

Look up an argument of an [operator](operators.md), as `help(HiveAcidMergeOperator)` in Python shows
it. [Pass arguments](operator-arguments.md) says where templates are allowed.
"""


def page() -> str:
    """Return the page: the operators, and their base classes with arguments."""
    public = [getattr(operators, name) for name in vars(operators)["__all__"]]
    classes = [value for value in public if isinstance(value, type)]
    parts = [_HEAD]
    for cls in dict.fromkeys([*classes, *(base for one in classes for base in _bases(one))]):
        first, _, text = (inspect.getdoc(cls) or "").partition("\n")
        described = textwrap.dedent(text.partition("Args:\n")[2])
        entries = re.sub(r"^(\w+):", r"* `\1`:", described, flags=re.MULTILINE)
        parts.append(f"\n## {cls.__name__}\n\n{first}\n\n{entries}\n")
        if names := ",\n".join(_link(base.__name__) for base in _bases(cls)):
            parts.append(f"\nAlso the arguments of {names}.\n")
    return "".join(parts)


def _link(name: str) -> str:
    return f"[`{name}`](#{name.lower()})"


def _bases(cls: type) -> list[type]:
    ours = [base for base in cls.__mro__[1:] if issubclass(base, DeclaredArguments)]
    return [base for base in ours if "Args:" in (base.__doc__ or "")]


if __name__ == "__main__":
    PAGE.write_text(page())
