"""The tables of the main course: our steps and scans beside flat files and beside the peers.

Each ratio to flat files comes from one process; ratios to a peer are between two processes of one
run. People write the page's prose; only the text between two markers is replaced.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from tests.proofs.bench.grid import (
    Grid,
    mebi_text,
    ratio_text,
    replaced,
    seconds_text,
    setting_text,
)
from tests.proofs.bench.queries import QUERIES
from tests.proofs.bench.records import OURS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tests.proofs.bench.figures import Figure, Pair
    from tests.proofs.bench.machine import Setting

BEGIN: Final = "<!-- figures: written by `python -m tests.proofs.bench report` -->"
END: Final = "<!-- end of figures -->"

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


def grids(found: Sequence[Pair]) -> tuple[Grid, ...]:
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


def page(text: str, found: Sequence[Pair], setting: Setting) -> str:
    """Return the page with these figures between its markers.

    Raises:
        ValueError: A marker is missing.
    """
    figures = [pair.figure for pair in found]
    blocks = [setting_text(setting, figures), *(grid.markdown() for grid in grids(found))]
    return replaced(text, BEGIN, END, blocks)


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


def _highest(pairs: Sequence[Pair], peak: Callable[[Figure], int]) -> str:
    return mebi_text(max(peak(pair.figure) for pair in pairs))


def _memory_step(case: str) -> str:
    if not case.startswith(_SCAN):
        return _STEPS.get(case, case)
    _, state, _ = case.split(".")
    return f"scans: {_STATES[state]}"
