"""The page docs/reference/errors.md with all errors, made from the docstrings of their classes.

    .venv-spark/bin/python -m tools.errors_page

A test compares the page with the output of this program.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.cli import exit_codes
from airflow_hiveacid.format.errors import (
    HiveAcidError,
    applications,
    metastore,
    requests,
    stores,
    transactions,
    tree,
    versions,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

PAGE: Final = Path(__file__).resolve().parent.parent / "docs" / "reference" / "errors.md"
_THEMES: Final = {
    "Requests": requests,
    "Transactions": transactions,
    "Files and directories": stores,
    "Versions and change feeds": versions,
    "The metastore": metastore,
    "Spark applications and clusters": applications,
    "Commands": exit_codes,
    "Groups": tree,
}
_HEAD: Final = """\
# Errors

Look up the class of an error, which the log of a task and the driver's result show. Every error is
a subclass of `HiveAcidError`. Its message names the table or server, the problem and what to do.

*Retried* shows what operators and sensors do by default. If it says yes, Airflow retries the task
as often as its `retries` allow. If it says no, the task fails at once, because the same request
would fail again. Import the classes from `airflow_hiveacid.errors`, except those of commands, which
only end a command with its [exit code](cli-scripts.md#exit-codes).
"""


def lines() -> Iterator[str]:
    """Yield the lines of the page."""
    yield from _HEAD.splitlines()
    for title, module in _THEMES.items():
        yield ""
        yield f"## {title}"
        yield ""
        yield "| error | retried | meaning |"
        yield "|---|---|---|"
        yield from sorted(map(_row, _classes(module)))


def _classes(module: ModuleType) -> list[type[HiveAcidError]]:
    found = [one for one in vars(module).values() if isinstance(one, type)]
    return [
        one for one in found if issubclass(one, HiveAcidError) and one.__module__ == module.__name__
    ]


def _row(cls: type[HiveAcidError]) -> str:
    meaning = (cls.__doc__ or "").splitlines()[0]
    return f"| `{cls.__name__}` | {'yes' if cls.retryable else 'no'} | {meaning} |"


if __name__ == "__main__":
    PAGE.write_text("\n".join(lines()) + "\n")
