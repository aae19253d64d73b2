"""Hive's functions and operators, each with the kinds of its arguments and of its answer.

A line is a piece of SQL with a place `{X}` for each argument. Kinds: I whole number, J small
whole number (lengths, positions, counts), D decimal, F double, f float, N any number, S text,
X text of a number, W text of a time, O JSON, T date, M timestamp, V date or timestamp or text of
one, B boolean, Z binary, a array of numbers, A array of texts, p map, r struct, U zone, Y short
text, P text of a partition; E is one kind for the whole line, C any. A place of the form
`{'a'|'b'}` takes one of these. The product's reader decides what is left out as refused, so a
function that it accepts in future is asked about then.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final


def _lines_of(name: str) -> str:
    return Path(__file__).with_name(f"{name}.txt").read_text(encoding="utf-8")


EXPRESSIONS: Final = _lines_of("expressions")
# Over groups; the answers are compared by group.
AGGREGATES: Final = _lines_of("aggregates")
_FRAMES: Final = (
    "",
    " ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
    " ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    " ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
    " RANGE BETWEEN 2 PRECEDING AND CURRENT ROW",
)
_ORDERS: Final = (
    "id NULLS FIRST",
    "n NULLS LAST, id NULLS LAST",
    "s DESC NULLS LAST, id NULLS LAST",
)
_WINDOWED: Final = (
    *("row_number()", "rank()", "dense_rank()", "percent_rank()", "cume_dist()", "ntile(3)"),
    *("lag({E})", "lag({E}, 2)", "lead({E})", "lag({E}, 1, {E})", "first_value({E})"),
    *("last_value({E})", "sum({I})", "sum({D})", "count({C})", "max({E})", "min({E})", "avg({D})"),
    *("first_value({E}, true)", "last_value({E}, true)", "collect_list({I})", "stddev_pop({I})"),
)


def windows() -> list[str]:
    """Return window functions over each order and frame, as lines like the others."""
    lines = []
    for call in _WINDOWED:
        framed = call.startswith(("sum", "count", "max", "min", "avg", "first", "last", "coll"))
        for order in _ORDERS:
            for frame in _FRAMES if framed else _FRAMES[:1]:
                if "RANGE" in frame and "," in order:
                    continue
                over = f"OVER (PARTITION BY g ORDER BY {order}{frame})"
                lines.append(f"{call} {over} => C")
    return lines


# Hive's functions that are in no expression, and why.
NOT_ASKED: Final = {
    **dict.fromkeys(
        ("explode", "posexplode", "inline", "stack", "json_tuple"), "a table: see the statements"
    ),
    **dict.fromkeys(
        ("current_date", "current_timestamp", "unix_timestamp", "rand", "uuid"), "of no row alone"
    ),
}
