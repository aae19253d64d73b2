"""How a compaction's or a cleaning's plan and outcome read in a task's log: one line a partition.

Takes the details of a `JobResult`, which XCom has whole; gives aligned lines.

Example:
    >>> lines = compaction_lines({"compactions": [{"partition": "", "kind": "none", "why": "new"}]})
    >>> [" ".join(line.split()) for line in lines]
    ['partition compaction directories in out why', '(table) none new']
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_MOST_LINES: Final = 100
_KIBI: Final = 1024.0


def compaction_lines(details: Mapping[str, Any]) -> Sequence[str]:
    """What is, or would be, compacted, and why; nothing for a job that gave no details."""
    head = ("partition", "compaction", "directories", "in", "out", "why")
    rows = [
        (
            _place(outcome),
            str(outcome.get("kind", "")),
            str(len(outcome.get("inputs") or ()) or ""),
            _size(outcome.get("bytes_in")),
            _size(outcome.get("bytes_out")),
            str(outcome.get("why", "")),
        )
        for outcome in details.get("compactions") or ()
    ]
    return tuple(_aligned(head, rows))


def cleaning_lines(details: Mapping[str, Any]) -> Sequence[str]:
    """What is, or would be, removed, and what stays; nothing for a job that gave no details."""
    rows = [
        (_place(outcome), action, str(entry.get("path", "")), str(entry.get("why", "")))
        for outcome in details.get("cleanings") or ()
        for action, key in (("remove", "removed"), ("keep", "kept"))
        for entry in outcome.get(key) or ()
    ]
    return tuple(_aligned(("partition", "action", "path", "why"), rows))


def conversion_lines(details: Mapping[str, Any]) -> Sequence[str]:
    """What is, or would be, done to a table, in order; nothing for a job that gave no details."""
    outcome = details.get("conversion") or {}
    steps = [(str(number), str(step)) for number, step in enumerate(outcome.get("steps") or (), 1)]
    return tuple(_aligned(("step", f"{outcome.get('before')} to {outcome.get('after')}"), steps))


def answer_lines(details: Mapping[str, Any]) -> Sequence[str]:
    """The rows of a question to the metastore; nothing for what is none."""
    rows = details.get("rows") or ()
    head = tuple(dict.fromkeys(name for row in rows for name in row))
    return tuple(_aligned(head, [[str(row.get(name, "")) for name in head] for row in rows]))


def _place(outcome: Mapping[str, Any]) -> str:
    return str(outcome.get("partition") or "(table)")


def _size(size_bytes: object) -> str:
    """A size for people, in units of 1024; nothing for no bytes."""
    if not isinstance(size_bytes, int) or not size_bytes:
        return ""
    size = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < _KIBI:
            return f"{size_bytes} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= _KIBI
    return f"{size:.1f} TiB"


def _aligned(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    if not rows:
        return
    shown = [head, *rows[:_MOST_LINES]]
    widths = [max(len(row[at]) for row in shown) for at in range(len(head))]
    for row in shown:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()
    if len(rows) > _MOST_LINES:
        yield f"... and {len(rows) - _MOST_LINES} more; the task's XCom has all of them"
