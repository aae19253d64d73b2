"""Log lines about what a task planned or did, such as one line for each compacted partition.

Input is the details of a `JobResult`. Output is aligned lines. The complete details are in XCom.

Example:
    >>> lines = compaction_lines({"compactions": [{"partition": "", "kind": "none", "why": "new"}]})
    >>> [" ".join(line.split()) for line in lines]
    ['partition compaction directories in out why', '(table) none new']
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from airflow_hiveacid.jobs.results import JobResult

_MOST_LINES: Final = 100
_KIBI: Final = 1024.0


def compaction_lines(details: Mapping[str, Any]) -> Sequence[str]:
    """Return a line for each partition in `details` that was or would be compacted."""
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
    """Return a line for each path in `details` that a cleaning removes or keeps."""
    rows = [
        (_place(outcome), action, str(entry.get("path", "")), str(entry.get("why", "")))
        for outcome in details.get("cleanings") or ()
        for action, key in (("remove", "removed"), ("keep", "kept"))
        for entry in outcome.get(key) or ()
    ]
    return tuple(_aligned(("partition", "action", "path", "why"), rows))


def restore_lines(details: Mapping[str, Any]) -> Sequence[str]:
    """Return a line for each partition in `details` that a restore changes."""
    head = ("partition", "how", "rows added", "removed", "unchanged")
    rows = [
        (_place(outcome), *(str(outcome.get(name, "")) for name in ("how", "come", "go", "stay")))
        for outcome in details.get("restore") or ()
    ]
    return tuple(_aligned(head, rows))


def conversion_lines(details: Mapping[str, Any]) -> Sequence[str]:
    """Return a line for each step of the conversion in `details`, in order."""
    outcome = details.get("conversion") or {}
    steps = [(str(number), str(step)) for number, step in enumerate(outcome.get("steps") or (), 1)]
    return tuple(_aligned(("step", f"{outcome.get('before')} to {outcome.get('after')}"), steps))


def answer_lines(details: Mapping[str, Any]) -> Sequence[str]:
    """Return the rows of a metastore query as lines; for any other job, return no lines."""
    rows = details.get("rows") or ()
    head = tuple(dict.fromkeys(name for row in rows for name in row))
    return tuple(_aligned(head, [[str(row.get(name, "")) for name in head] for row in rows]))


def result_line(result: JobResult) -> str:
    """Return a one-line summary of a job: rows by kind of change, files and write IDs."""
    rows = result.rows
    files = "1 file" if result.files == 1 else f"{result.files:,} files"
    parts = [
        f"{rows.inserted:,} rows inserted, {rows.updated:,} updated, {rows.deleted:,} deleted",
        ", ".join(filter(None, [files, _size(result.size_bytes)])),
        _write_ids(result),
        f"{result.seconds:.1f} s",
    ]
    done = "; ".join(filter(None, parts))
    return f"{result.kind} of {result.table}: {result.status.value.replace('_', ' ')}; {done}"


def _write_ids(result: JobResult) -> str:
    if list(result.write_ids) == [result.table]:
        return f"write ID {result.write_ids[result.table]}"
    return ", ".join(f"write ID {number} of {name}" for name, number in result.write_ids.items())


def _place(outcome: Mapping[str, Any]) -> str:
    return str(outcome.get("partition") or "(table)")


def _size(size_bytes: object) -> str:
    """Return a size as text, in units of 1024; empty for zero bytes."""
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
        yield f"... and {len(rows) - _MOST_LINES} more; the task's XCom contains all"
