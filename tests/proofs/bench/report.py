"""The tables of all courses.

Main course: our steps and scans beside flat files and beside the peers. Each ratio to flat files
comes from one process; ratios to a peer are between two processes of one run. Cliffs: each case
beside its yardstick, and the growth of costs with size. Compactions: findings beside what is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from tests.proofs.bench.grid import Grid, mebi_text, ratio_text, seconds_text
from tests.proofs.bench.queries import QUERIES
from tests.proofs.bench.records import OURS, Finding, Pair, Record

_SCAN: Final = "scan."
_STEPS: Final = {
    "create": "write the base",
    "append": "append one batch",
    "delete": "delete one batch by key",
    "update": "UPDATE one column of 1 %",
    "merge": "MERGE",
    "changes.append": "read what an append changed, beside a full scan",
    "changes.update": "read what that UPDATE changed, beside a full scan",
    "changes.keys": "the same, of old values only the key's, beside a full scan",
    "compact.minor": "minor compaction",
    "compact.major": "major compaction",
}
_STATES: Final = {
    "base": "base only",
    "changed": "base, 10 deltas, 1 % deleted",
    "merged": "the same and a MERGE",
    "compacted": "after major compaction",
    "plain": "second table, base only: without timestamp and char",
    "stamped": "second table, base only: with both",
    "plain-changed": "second table, 10 deltas, 1 % deleted: without both",
    "stamped-changed": "second table, 10 deltas, 1 % deleted: with both",
}
_QUERIES: Final = {
    "count": "count(*)",
    "sum": "one column",
    "filter": "filter",
    "all": "all columns",
    "join": "join",
}

_Figures = dict[tuple[str, str], "Pair"]
"""Pairs by system and case."""


def sales_grids(found: Sequence[Pair]) -> tuple[Grid, ...]:
    """Return all tables: steps, scans, scans beside each peer, memory."""
    by_case = {(pair.figure.system, pair.figure.case): pair for pair in found}
    peers = [s for s in dict.fromkeys(system for system, _ in by_case) if s != OURS]
    ours = [pair for pair in found if pair.figure.system == OURS]
    scans = {p.figure.case: p for p in ours if p.figure.case.startswith(_SCAN)}
    return (
        _steps([pair for pair in ours if pair.figure.case not in scans], peers, by_case),
        _scans("Scans: ratio of CPU seconds to flat ORC (own seconds)", scans, _cpu),
        _scans("Scans: ratio of wall seconds to flat ORC (own seconds)", scans, _wall),
        *(
            _scans(
                f"Scans: ratio of CPU seconds to {peer} (ratio of {peer} to flat ORC)",
                scans,
                partial(_beside_peer, peer, by_case),
            )
            for peer in peers
        ),
        _memory(ours),
    )


def _steps(own: Sequence[Pair], peers: Sequence[str], by_case: _Figures) -> Grid:
    """Return a line for each step: our seconds, ratios to all others, theirs to flat files."""
    return Grid(
        title="Steps: CPU seconds, and ratios to flat ORC and to the peers",
        header=(
            *("step", "CPU s", "CPU / flat", *(f"CPU / {peer}'s" for peer in peers)),
            *(f"{peer} / flat" for peer in peers),
            *("wall s", "wall / flat", "MiB", "MiB of flat ORC"),
        ),
        rows=tuple(
            (
                _STEPS.get(pair.figure.case, pair.figure.case),
                seconds_text(pair.figure.cpu_seconds),
                ratio_text(pair.cpu_ratio),
                *(ratio_text(_to(pair, other)) for other in _others(pair, peers, by_case)),
                *(
                    "" if other is None else ratio_text(other.cpu_ratio)
                    for other in _others(pair, peers, by_case)
                ),
                seconds_text(pair.figure.seconds),
                ratio_text(pair.wall_ratio),
                mebi_text(pair.figure.bytes),
                mebi_text(pair.yardstick.bytes) if pair.yardstick else "",
            )
            for pair in own
        ),
    )


def _others(pair: Pair, peers: Sequence[str], by_case: _Figures) -> list[Pair | None]:
    return [by_case.get((peer, pair.figure.case)) for peer in peers]


def _to(pair: Pair, other: Pair | None) -> float | None:
    return None if other is None else pair.figure.cpu_over(other.figure)


def _scans(title: str, scans: Mapping[str, Pair], cell: Callable[[Pair], str]) -> Grid:
    return Grid(
        title=title,
        header=("state", *(_QUERIES[name] for name in QUERIES)),
        rows=tuple(
            (words, *(cell(pair) if pair else "" for pair in asked))
            for state, words in _STATES.items()
            if any(asked := [scans.get(f"{_SCAN}{state}.{name}") for name in QUERIES])
        ),
    )


def _cpu(pair: Pair) -> str:
    return f"{ratio_text(pair.cpu_ratio)} ({seconds_text(pair.figure.cpu_seconds)})"


def _wall(pair: Pair) -> str:
    return f"{ratio_text(pair.wall_ratio)} ({seconds_text(pair.figure.seconds)})"


def _beside_peer(peer: str, by_case: _Figures, pair: Pair) -> str:
    other = by_case.get((peer, pair.figure.case))
    if other is None:
        return ""
    return f"{ratio_text(_to(pair, other))} ({ratio_text(other.cpu_ratio)})"


def _memory(own: Sequence[Pair]) -> Grid:
    """Return the highest peaks of each step; the scans of one state count as one."""
    steps: dict[str, list[Pair]] = {}
    for pair in own:
        steps.setdefault(_memory_step(pair.figure.case), []).append(pair)
    return Grid(
        title="Peak resident memory, MiB",
        header=(
            "step",
            "driver's JVM",
            "JVM with flat ORC",
            "driver's Python",
            "largest Python worker",
        ),
        rows=tuple(
            (
                step,
                _highest(pairs, lambda figure: figure.jvm_peak_bytes),
                mebi_text(max(p.yardstick.jvm_peak_bytes if p.yardstick else 0 for p in pairs)),
                _highest(pairs, lambda figure: figure.driver_peak_bytes),
                _highest(pairs, lambda figure: figure.worker_peak_bytes),
            )
            for step, pairs in steps.items()
        ),
    )


def _highest(pairs: Sequence[Pair], peak: Callable[[Record], int]) -> str:
    return mebi_text(max(peak(pair.figure) for pair in pairs))


def _memory_step(case: str) -> str:
    if not case.startswith(_SCAN):
        return _STEPS.get(case, case)
    _, state, _ = case.split(".")
    return f"scans: {_STATES[state]}"


# ---- cliffs --------------------------------------------------------------------------------------

_PARTS: Final = {
    "partitions": "{size:,} partitions",
    "merge": "MERGE into 3 of {size:,} partitions",
    "deltas": "{size:,} deltas",
    "columns": "{size:,} columns",
    "texts": "texts of {size:,} bytes",
    "aborted": "{size:,} aborted write IDs",
    "planning": "planning {size:,}",
    "past": "as of the newest version, {size:,} rows",
}
_TITLES: Final = {
    "partitions": "Many partitions",
    "merge": "A MERGE that touches three partitions",
    "deltas": "Many deltas",
    "columns": "Many columns",
    "texts": "Long texts",
    "aborted": "Many aborted write IDs",
    "planning": "The driver's planning",
    "past": "An earlier version, beside the present of the same files (in place of flat ones)",
}
_WHATS: Final = {
    "count": "count(*)",
    "sum": "one column",
    "all": "all columns",
    "one": "one partition of them",
    "deleted-count": "count(*), 1 % deleted",
    "deleted-sum": "one column, 1 % deleted",
    "deleted-all": "all columns, after deletes",
    "deleted-one": "one partition of them, 1 % deleted",
    "merge": "",
    "delete": "delete by key",
    "create": "write the base",
    "update": "UPDATE one column of 1 %",
    "updated-all": "all columns, after the UPDATE",
    "base-count": "count(*) of one compacted base",
    "base-sum": "one column of one compacted base",
    "base-all": "all columns of one compacted base",
}


def cliff_grids(found: Sequence[Pair]) -> tuple[Grid, ...]:
    """Return all tables: one for each part, then the growth of cases measured in two sizes."""
    parts: dict[str, list[Pair]] = {}
    for pair in found:
        parts.setdefault(pair.figure.part, []).append(pair)
    growth = _growth([pair.figure for pair in found])
    return (*(_cases(_TITLES[part], pairs) for part, pairs in parts.items()), growth)


def _cases(title: str, found: Sequence[Pair]) -> Grid:
    return Grid(
        title=title,
        header=(
            *("case", "CPU / flat", "CPU s", "of flat ORC", "wall s", "of flat ORC"),
            *("JVM MiB", "driver's Python MiB", "largest worker MiB"),
        ),
        rows=tuple(
            (
                _words(pair.figure.case),
                ratio_text(pair.cpu_ratio),
                seconds_text(pair.figure.cpu_seconds),
                seconds_text(pair.yardstick.cpu_seconds) if pair.yardstick else "",
                seconds_text(pair.figure.seconds),
                seconds_text(pair.yardstick.seconds) if pair.yardstick else "",
                mebi_text(pair.figure.jvm_peak_bytes),
                mebi_text(pair.figure.driver_peak_bytes),
                mebi_text(pair.figure.worker_peak_bytes),
            )
            for pair in found
        ),
    )


def _growth(found: Sequence[Record]) -> Grid:
    by_what: dict[tuple[str, str], dict[int, Record]] = {}
    for figure in found:
        _, part, size, what = figure.case.split(".")
        by_what.setdefault((part, what), {})[int(size)] = figure
    rows = []
    for sizes in by_what.values():
        least, most = sizes[min(sizes)], sizes[max(sizes)]
        if len(sizes) > 1:
            rows.append(
                (
                    _words(most.case),
                    f"{min(sizes):,}",
                    ratio_text(most.cpu_over(least)),
                    f"{seconds_text(most.cpu_seconds)} / {seconds_text(least.cpu_seconds)}",
                )
            )
    header = ("case", "small case", "CPU ratio", "CPU s")
    return Grid(
        title="Growth: ratio of each large case to its small case", header=header, rows=(*rows,)
    )


def _words(case: str) -> str:
    _, part, size, what = case.split(".")
    title = _PARTS[part].format(size=int(size))
    if part == "planning":
        return f"{title} {what}"
    return f"{title}: {_WHATS[what]}" if _WHATS[what] else title


# ---- compactions ---------------------------------------------------------------------------------


def finding_grids(findings: Sequence[Finding]) -> tuple[Grid, ...]:
    rows = tuple(
        (
            finding.case,
            "" if finding.limit is None else f"at most {_number(finding.limit)} {finding.unit}",
            f"{_number(finding.value)} {finding.unit}",
            {True: "yes", False: "no", None: ""}[finding.is_met],
            ", ".join(map(_number, finding.runs)) if len(finding.runs) > 1 else "",
        )
        for finding in findings
    )
    header = ("case", "asked", "measured", "met", "runs")
    return (Grid(title="Compactions, beside what is asked of them", header=header, rows=rows),)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"
