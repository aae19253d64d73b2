"""Log lines about what a task planned or did, such as one line for each compacted partition.

Input is the details of a `JobResult`. Output is aligned lines. XCom contains the same details as
JSON values.

Example:
    >>> lines = compaction_lines({"compactions": [{"partition": "", "kind": "none", "why": "new"}]})
    >>> [" ".join(line.split()) for line in lines]
    ['partition compaction directories in out why', '(table) none new']
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from airflow_hiveacid.format.words import age_text, counted, several
from airflow_hiveacid.jobs.job import JobResult, JobStatus

_MOST_LINES: Final = 100
_MOST_TABLES: Final = 50
_MOST_REASONS: Final = 3
_KIBI: Final = 1024.0


def detail_lines(details: Mapping[str, Any]) -> Sequence[str]:
    """Return the lines about what a job planned or did, by the lists in its details."""
    has_many = "tables" in details
    kinds = {
        "compactions": table_lines if has_many else compaction_lines,
        "cleanings": cleaned_table_lines if has_many else cleaning_lines,
        "restore": restore_lines,
        "rebalance": rebalance_lines,
        "conversion": conversion_lines,
        "erasure": erasure_lines,
    }
    return tuple(
        line for name, lines in kinds.items() if name in details for line in lines(details)
    )


def compaction_lines(details: Mapping[str, Any]) -> Sequence[str]:
    """Return a line for each partition in `details` that was or would be compacted."""
    return tuple(_compactions(details.get("compactions") or (), ()))


def table_lines(details: Mapping[str, Any]) -> Sequence[str]:
    """Return a line for each partition that a job of many tables compacted or left, and totals.

    Partitions below the thresholds have no lines. The partitions with the most input come first.
    """
    outcomes = sorted(
        details.get("compactions") or (),
        key=lambda outcome: outcome.get("bytes_in") or 0,
        reverse=True,
    )
    compacted = sum(1 for outcome in outcomes if outcome.get("done"))
    partitions = details.get("partitions", 0)
    totals = (
        f"{details.get('tables', 0):,} tables with {partitions:,} partitions: {compacted:,}"
        f" compacted, {len(outcomes) - compacted:,} due but not compacted,"
        f" {partitions - len(outcomes):,} not due"
    )
    ended = ["the window has ended; a later run continues"] if details.get("window_ended") else ()
    return (*_compactions(outcomes, ("table",)), totals, *_skipped_lines(details), *ended)


def _compactions(outcomes: Sequence[Mapping[str, Any]], names: tuple[str, ...]) -> Iterator[str]:
    """Yield a line for each outcome; it begins with the values of these names."""
    head = (*names, "partition", "compaction", "directories", "in", "out", "why")
    rows = [
        (
            *(str(outcome.get(name, "")) for name in names),
            _partition(outcome),
            str(outcome.get("kind", "")),
            str(len(outcome.get("inputs") or ()) or ""),
            size_text(outcome.get("bytes_in")),
            size_text(outcome.get("bytes_out")),
            str(outcome.get("why", "")),
        )
        for outcome in outcomes
    ]
    return _aligned(head, rows)


def cleaning_lines(details: Mapping[str, Any]) -> Sequence[str]:
    """Return a line for each path in `details` that a cleaning removes or keeps.

    Then come the largest unknown paths, and their total number and size.
    """
    outcomes = details.get("cleanings") or ()
    rows = [
        (_partition(outcome), action, str(entry.get("path", "")), str(entry.get("why", "")))
        for outcome in outcomes
        for action, key in (("remove", "removed"), ("keep", "kept"))
        for entry in outcome.get(key) or ()
    ]
    with_unknown = [outcome for outcome in outcomes if outcome.get("unknown")]
    shown = [
        (_partition(outcome), entry["path"], size_text(entry["size_bytes"]), unknown_text(entry))
        for outcome in with_unknown
        for entry in outcome["unknown"]["largest"]
    ]
    count = sum(outcome["unknown"]["count"] for outcome in with_unknown)
    size = sum(outcome["unknown"]["size_bytes"] for outcome in with_unknown)
    return (
        *_aligned(("partition", "action", "path", "why"), rows),
        *_aligned(("partition", "unknown path", "bytes", "why"), shown),
        *([_unknown_total(count, size)] if count else ()),
    )


def unknown_text(entry: Mapping[str, Any]) -> str:
    """Return why a path is unknown, and its age if the store provides it."""
    age_s = entry["age_s"]
    age = "" if age_s is None else f"; changed {age_text(age_s)} ago"
    return f"{entry['why']}{age}"


def _unknown_total(count: int, size_bytes: int) -> str:
    size = size_text(size_bytes) or "0 B"
    return f"{several(count, 'unknown path')} ({size}) found; a cleaning leaves them alone"


def cleaned_table_lines(details: Mapping[str, Any]) -> Sequence[str]:
    """Return a line for each table that a job of many tables cleaned, and totals.

    Only the 50 largest tables have lines. Tables without anything to remove, keep or report have
    none.
    """
    tables = details.get("cleanings") or ()
    head = ("table", "partitions", "removed", "bytes", "kept", "bytes", "why kept", "unknown")
    rows = [
        (
            str(table.get("table", "")),
            f"{table.get('partitions', 0):,}",
            f"{table.get('removed', 0):,}",
            size_text(table.get("removed_bytes")),
            f"{table.get('kept', 0):,}",
            size_text(table.get("kept_bytes")),
            str(table.get("why_kept", "")),
            _unknown_of(table),
        )
        for table in tables
    ]
    removed = sum(table.get("removed", 0) for table in tables)
    removed_bytes = sum(table.get("removed_bytes", 0) for table in tables)
    totals = (
        f"{details.get('tables', 0):,} tables with {details.get('partitions', 0):,} partitions:"
        f" {removed:,} directories ({size_text(removed_bytes) or '0 B'}) removed from"
        f" {details.get('cleaned_partitions', 0):,} partitions, {details.get('kept', 0):,}"
        f" ({size_text(details.get('kept_bytes')) or '0 B'}) kept"
    )
    unknown = details.get("unknown") or 0
    return (
        *_aligned(head, rows, most=_MOST_TABLES),
        totals,
        *([_unknown_total(unknown, details.get("unknown_bytes") or 0)] if unknown else ()),
        *_skipped_lines(details),
    )


def _unknown_of(table: Mapping[str, Any]) -> str:
    count = table.get("unknown") or 0
    return f"{count:,}, such as {table.get('largest_unknown', '')}" if count else ""


def restore_lines(details: Mapping[str, Any]) -> Sequence[str]:
    """Return a line for each partition in `details` that a restore changes."""
    head = ("partition", "how", "rows added", "removed", "unchanged")
    rows = [
        (
            _partition(outcome),
            *(str(outcome.get(name, "")) for name in ("how", "come", "go", "stay")),
        )
        for outcome in details.get("restore") or ()
    ]
    return tuple(_aligned(head, rows))


def rebalance_lines(details: Mapping[str, Any]) -> Sequence[str]:
    """Return a line for each partition in `details` that a rebalance rewrites or leaves."""
    head = ("partition", "rewritten", "files", "new files", "bytes", "why")
    rows = [
        (
            _partition(outcome),
            "yes" if outcome.get("is_due") else "no",
            str(outcome.get("files", "")),
            str(outcome.get("new_files", "")) if outcome.get("is_due") else "",
            size_text(outcome.get("size_bytes")),
            str(outcome.get("why", "")),
        )
        for outcome in details.get("rebalance") or ()
    ]
    return tuple(_aligned(head, rows))


def conversion_lines(details: Mapping[str, Any]) -> Sequence[str]:
    """Return a line for each step of the conversion in `details`, in order."""
    outcome = details.get("conversion") or {}
    steps = [(str(number), str(step)) for number, step in enumerate(outcome.get("steps") or (), 1)]
    return tuple(_aligned(("step", f"{outcome.get('before')} to {outcome.get('after')}"), steps))


def erasure_lines(details: Mapping[str, Any], *, most: int = _MOST_LINES) -> Sequence[str]:
    """Return the numbers of a proof of erasure, and a line for each file that disproves it."""
    proof = details.get("erasure") or {}
    files, number = proof.get("left") or (), _files_left(proof)
    lines = [f"looked at {proof.get('files', 0)} files: {number} store such rows or cannot be read"]
    for file in files[:most]:
        rows = "not read" if file["rows"] is None else f"{file['rows']} rows"
        lines.append(f"{file['path']}: {rows}: {file['why']}")
    if number > most:
        lines.append(f"... and {number - most} more")
    return tuple(lines)


def _files_left(proof: Mapping[str, Any]) -> int:
    return len(proof.get("left") or ()) + int(proof.get("left_omitted", 0))


def answer_lines(details: Mapping[str, Any]) -> Sequence[str]:
    """Return the rows of a metastore query as lines; return no lines for any other job."""
    rows = details.get("rows") or ()
    head = tuple(dict.fromkeys(name for row in rows for name in row))
    return tuple(_aligned(head, [[str(row.get(name, "")) for name in head] for row in rows]))


def result_lines(result: JobResult, elapsed_s: float) -> Sequence[str]:
    """Return the table that ends a task's log: rows by kind, files, bytes, versions and seconds.

    A transaction has one row for each statement. `elapsed_s` is the total time of the job,
    including the time in which Spark starts and ends.
    """
    written = ("inserted", "updated", "deleted", "version") if result.write_ids else ()
    head = ["statement", "table", *written, "files", "bytes"]
    rows = [[_cell(name, part, result) for name in head] for part in result.statements]
    phases = result.phases or {"job": result.seconds}
    seconds = {"Spark": max(0.0, elapsed_s - result.seconds), **phases}
    return (
        f"{result.kind} of {result.table}: {came_of(result)} in {elapsed_s:.1f} s",
        *(() if "erasure" in result.details else _aligned(head, rows)),
        *_aligned(["seconds", *seconds], [["", *(f"{spent:.1f}" for spent in seconds.values())]]),
    )


def came_of(result: JobResult) -> str:
    """Describe what a job did; "nothing to do" means that it also kept, left and skipped nothing.

    Some texts end with a comma, because the caller appends "in 5.0 s".

    Example:
        >>> from airflow_hiveacid.jobs.job import JobResult, JobStatus
        >>> details = {"cleanings": [{"kept": [{"why": "transaction 7 is open"}]}]}
        >>> job = {"kind": "clean", "job_key": "k", "table": "d.t", "details": details}
        >>> came_of(JobResult(status=JobStatus.NOTHING_TO_DO, **job))
        'kept 1: transaction 7 is open'
    """
    details: Mapping[str, Any] = result.details
    if (proof := details.get("erasure")) is not None:
        files, time = several(proof.get("files", 0), "file"), proof.get("listed_at", "")
        if proof.get("proved"):
            return f"proved: none of {files} stored such a row at {time},"
        return f"not proved: {_files_left(proof)} of {files} at {time},"
    if result.status is not JobStatus.NOTHING_TO_DO:
        return str(result.status.value).replace("_", " ")
    parts = [
        f"{did} {reasons.total():,}: {_reasons_text(reasons)}"
        for did, reasons in (
            ("kept", _reasons_kept(details)),
            ("left", reasons_left(details)),
            ("skipped", Counter(f"{s['table']}: {s['why']}" for s in details.get("skipped") or ())),
        )
        if reasons
    ]
    if (rest := details.get("left")) is not None:  # by a change feed
        parts.append(f"left {several(rest['versions'], 'version')}: {rest['why']}")
    if not parts and details.get("window_ended"):
        parts = ["nothing started, because the window had ended,"]
    return "; ".join(parts) or "nothing to do"


def _reasons_kept(details: Mapping[str, Any]) -> Counter[str]:
    """Return why a cleaning of a table, or of many tables, kept paths, with their numbers."""
    reasons: Counter[str] = Counter()
    whys: list[str] = []
    for outcome in details.get("cleanings") or ():
        entries = outcome.get("kept") or ()
        if isinstance(entries, int):  # the totals of a table
            reasons[f"{outcome['table']}: {outcome['why_kept']}"] += entries
        else:
            whys += (entry["why"] for entry in entries)
    return reasons + counted(whys)


def reasons_left(details: Mapping[str, Any]) -> Counter[str]:
    """Return why compactions that are due were not done, with their numbers."""
    return counted(
        outcome["why"]
        for outcome in details.get("compactions") or ()
        if not outcome.get("done") and (outcome.get("is_hindered") or outcome.get("kind") != "none")
    )


def _reasons_text(reasons: Counter[str]) -> str:
    shown = reasons.most_common(_MOST_REASONS)
    texts = [why if len(reasons) == 1 else f"{why} ({number:,})" for why, number in shown]
    rest = len(reasons) - len(shown)
    return "; ".join((*texts, *([f"and {several(rest, 'more reason')}"] if rest else ())))


def _cell(name: str, statement: Mapping[str, Any], result: JobResult) -> str:
    match name:
        case "statement":
            return str(statement["kind"])
        case "table":
            return str(statement["table"])
        case "version":
            return str(result.write_ids.get(statement["table"], ""))
        case "files":
            return f"{statement['files']:,}"
        case "bytes":
            return size_text(statement["size_bytes"]) or "0 B"
        case _:
            return f"{statement['rows'][name]:,}"


def size_text(size_bytes: object) -> str:
    """Return a size as text, in units of 1024; empty for zero bytes."""
    if not isinstance(size_bytes, int) or not size_bytes:
        return ""
    size = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < _KIBI:
            return f"{size_bytes} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= _KIBI
    return f"{size:.1f} TiB"


def _partition(outcome: Mapping[str, Any]) -> str:
    return str(outcome.get("partition") or "(table)")


def _skipped_lines(details: Mapping[str, Any]) -> Iterator[str]:
    skipped = details.get("skipped") or ()
    return _aligned(("skipped table", "why"), [(entry["table"], entry["why"]) for entry in skipped])


def _aligned(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, most: int = _MOST_LINES
) -> Iterator[str]:
    if not rows:
        return
    shown = [head, *rows[:most]]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    for row in shown:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()
    if len(rows) > most:
        yield f"... and {len(rows) - most} more"
