"""The columns of a test's table in one text."""

from __future__ import annotations


def columns_of(text: str) -> dict[str, str]:
    """Return the type of each column of a list such as `id int, price decimal(10,2)`."""
    return dict(column.split() for column in text.split(", "))
