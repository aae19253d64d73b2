"""The page of the use cases: for each, a chart and a table of what was measured last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, Final

from tests.proofs.bench.grid import Grid, mebi_text, ratio_text, seconds_text, setting_text
from tests.proofs.bench.lab import Setting
from tests.proofs.bench.records import OURS, Record
from tests.proofs.bench.systems import PEERS
from tests.proofs.courses.cases import UseCase
from tests.proofs.courses.chart import Bars, Chart, Lines
from tests.proofs.courses.tables import IN_PYTHON
from tests.support.documents import DOCS, EVIDENCE, put_between

PAGE: Final = EVIDENCE / "use-cases.md"
IMAGES: Final = DOCS / "images"
_WRITER: Final = "written by `make courses`"
_NAMES: Final = {
    OURS: "this provider in Spark",
    IN_PYTHON: "this provider in Python",
    "delta": "Delta",
    "iceberg": "Iceberg",
}
_WHATS: Final = {
    "load": "load the table",
    "change": "one round's change",
    "maintain": "compaction and cleaning, all rounds",
    "read": "read every column",
    "erase": "erase: rewrite files, remove old ones",
    "prove": "prove that they are gone",
}
_SUMS: Final = ("maintain",)
_FLAT_WITHIN: Final = 1.1
_LIMITS_S: Final = {"the aim for p50: 3 s": 3.0, "the aim for p99: 15 s": 15.0}


def figures(records: Sequence[Record]) -> dict[str, dict[str, Record]]:
    """Return for each kind of work each system's figure: the median, or the sum over rounds."""
    runs: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        runs.setdefault((record.case.rsplit(".", 1)[1], record.system), []).append(record)
    found: dict[str, dict[str, Record]] = {}
    for (what, system), parts in runs.items():
        combine: Any = sum if what in _SUMS else median
        found.setdefault(what, {})[system] = _combined(parts, combine)
    return found


def _combined(parts: Sequence[Record], combine: Any) -> Record:  # noqa: ANN401 - sum or median
    return replace(
        parts[0],
        seconds=combine([part.seconds for part in parts]),
        cpu_seconds=combine([part.cpu_seconds for part in parts]),
        bytes=int(combine([part.bytes for part in parts])),
    )


def grid_of(case: UseCase, records: Sequence[Record]) -> Grid:
    """Return a line for each kind of work and system, with ratios to each peer."""
    found = figures(records)
    peers = [name for name in _NAMES if name in PEERS and name in found["load"]]
    rows = [
        (
            f"{_WHATS[what]}: {_NAMES[system]}",
            seconds_text(figure.seconds),
            seconds_text(figure.cpu_seconds),
            *(_ratio(figure, systems.get(peer), "seconds") for peer in peers),
            *(_ratio(figure, systems.get(peer), "cpu_seconds") for peer in peers),
            mebi_text(figure.bytes),
        )
        for what, systems in found.items()
        for system, figure in systems.items()
    ]
    header = (
        *("work", "wall s", "CPU s"),
        *(f"{kind} / {_NAMES[peer]}'s" for kind in ("wall", "CPU") for peer in peers),
        "MiB written",
    )
    return Grid(title=f"{case.name}: {case.words}", header=header, rows=tuple(rows))


def _ratio(figure: Record, other: Record | None, field: str) -> str:
    if other is None or figure.system in PEERS:
        return ""
    return ratio_text(getattr(figure, field) / max(getattr(other, field), 0.01))


def chart_of(case: UseCase, records: Sequence[Record]) -> Chart:
    """Return reads over the hours, if the use case has them; otherwise bars of its work."""
    systems = list(dict.fromkeys(record.system for record in records))
    if case.reads:
        series = {_NAMES[system]: read_line(records, system, case.reads) for system in systems}
        return Lines(
            title=f"{case.name}: seconds to read every column of {case.rows:,} rows",
            x_label="hours of changes",
            y_label="seconds",
            about="; ".join(
                f"{name}: {line[0][1]:.2f} after the first hour, {line[-1][1]:.2f} after the last"
                for name, line in series.items()
            ),
            series=series,
        )
    found = figures(records)
    groups = {
        f"{what}, {kind}": {
            _NAMES[system]: getattr(figure, field) for system, figure in found[what].items()
        }
        for what in ("change", "erase")
        if what in found
        for kind, field in (("wall", "seconds"), ("CPU", "cpu_seconds"))
    }
    return Bars(
        title=f"{case.name}: seconds of a change of {case.changes:,} in {case.rows:,} rows"
        f"{', and of the erasure' if case.erases else ''}",
        x_label="work",
        y_label="seconds",
        about="; ".join(
            f"{group}: " + ", ".join(f"{name} {value:.1f}" for name, value in values.items())
            for group, values in groups.items()
        ),
        groups=groups,
    )


def read_line(records: Sequence[Record], system: str, reads: int) -> list[tuple[float, float]]:
    """Return the median seconds of the reads after each hour."""
    rounds: dict[int, list[float]] = {}
    for record in records:
        if record.system == system and record.case.endswith(".read"):
            rounds.setdefault(record.run // reads, []).append(record.seconds)
    return [(float(number + 1), median(seconds)) for number, seconds in sorted(rounds.items())]


def reads_text(records: Sequence[Record], reads: int) -> list[str]:
    """Return a sentence for each system: how reads at the end compare with those at the start."""
    lines = []
    for system in dict.fromkeys(record.system for record in records):
        seconds = [value for _, value in read_line(records, system, reads)]
        sixth = max(1, len(seconds) // 6)
        ratio = median(seconds[-sixth:]) / median(seconds[:sixth])
        lines.append(
            f"- {_NAMES[system]}: reads at the end took {ratio:.2f} of those at the beginning"
            f" (asked: at most {_FLAT_WITHIN:g})."
        )
    return lines


def stream_part(outcomes: Mapping[str, Mapping[str, Any]]) -> tuple[str, Mapping[str, Chart]]:
    """Return the text about streams, and a chart of each by its name."""
    header = (
        *("stream", "minutes", "rows", "kills", "p50 s", "p99 s", "p99 s between kills", "most s"),
        *("compactions", "most deltas", "cores busy", "lost, doubled, half seen"),
    )
    rows, charts = [], {}
    for name, one in outcomes.items():
        engine, source = name.split("-")
        words = f"{engine.capitalize()} from {'Kafka' if source == 'kafka' else source}"
        rows.append(
            (
                words,
                f"{one['seconds'] / 60:.0f}",
                f"{one['rows']:,}",
                f"{len(one['kills_s'])}",
                *(f"{one[field]:.1f}" for field in _LATENCIES),
                f"{one['compactions']}",
                f"{one['most_deltas']}",
                f"{one['cores']:.2f}",
                "; ".join(one["wrong"]) or "none",
            )
        )
        charts[name] = Lines(
            title=f"W16: seconds from source to reader, {words}",
            x_label="minutes; a dotted line is a kill of the writer",
            y_label="seconds",
            about=f"p50 {one['p50_s']:.1f} s, p99 {one['p99_s']:.1f} s, of all {one['rows']:,} rows"
            f" with {len(one['kills_s'])} kills",
            series={
                "p50 of each minute": [(minute, p50) for minute, p50, _ in one["minutes"]],
                "p99 of each minute": [(minute, p99) for minute, _, p99 in one["minutes"]],
            },
            limits=_LIMITS_S,
            events=[kill_s / 60 for kill_s in one["kills_s"]],
        )
    grid = Grid(title="W16: streams", header=header, rows=tuple(rows))
    return grid.markdown(), charts


_LATENCIES: Final = ("p50_s", "p99_s", "between_kills_p99_s", "most_s")


def write_case(
    case: UseCase,
    records: Sequence[Record],
    setting: Setting,
    killed: Sequence[Mapping[str, Any]],
    *,
    page: Path = PAGE,
    images: Path = IMAGES,
) -> None:
    """Write the part of one use case into the page, and its chart beside the other images."""
    body = [setting_text(setting, records), grid_of(case, records).markdown()]
    if case.reads:
        body.append("\n".join(reads_text(records, case.reads)))
    body += [
        f"{_NAMES[one['system']]}: killed {one['kills']} times while it applied"
        f" {one['rounds']} logs of {one['events'] // one['rounds']:,} events, it applied each"
        f" event once; {one['refused']} logs were repeated and refused."
        for one in killed
    ]
    _write(case.name, body, {case.name.lower(): chart_of(case, records)}, page, images)


def write_streams(
    outcomes: Mapping[str, Mapping[str, Any]], *, page: Path = PAGE, images: Path = IMAGES
) -> None:
    """Write the part of the streams into the page, and their charts beside the other images."""
    text, charts = stream_part(outcomes)
    named = {f"w16-{name}": chart for name, chart in charts.items()}
    _write("W16", [text], named, page, images)


def _write(
    name: str, body: list[str], charts: Mapping[str, Chart], page: Path, images: Path
) -> None:
    pictures = []
    for file, chart in charts.items():
        (images / f"{file}.svg").write_text(chart.svg(), encoding="utf-8")
        pictures.append(f"![{chart.title}. {chart.about}](../images/{file}.svg)")
    text = page.read_text(encoding="utf-8")
    put = put_between(text, f"{name}: {_WRITER}", "\n\n".join([*pictures, *body]))
    page.write_text(put, encoding="utf-8")
