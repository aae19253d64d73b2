"""The models, percentiles and charts of the use cases: nothing is measured here."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pyarrow as pa
import pytest

from tests.contract.fake_metastore import FakeMetastore
from tests.contract.manual_clock import ManualClock
from tests.proofs.bench.lab import Setting
from tests.proofs.bench.recorder import WrongRowsError
from tests.proofs.bench.records import OURS, Record
from tests.proofs.bench.sales import KEY, OPERATION
from tests.proofs.campaign.process import Box
from tests.proofs.courses import report, rows, stream_parts, streams
from tests.proofs.courses.cases import USE_CASES
from tests.proofs.courses.chart import Bars, Lines
from tests.proofs.courses.latency import Unit, latencies, look_at
from tests.proofs.courses.rows import GONE, VERSION, Model
from tests.proofs.courses.streams import StreamOutcome
from tests.unit.lake.lakes import Warehouse

UNIT_ROWS = 3


def of_model(model: Model) -> pa.Table:
    keys = np.flatnonzero(model.versions != GONE)
    return rows.rows_of(keys, model.versions[keys], model.days)


def test_the_newest_event_of_a_key_says_whether_it_has_a_row() -> None:
    model = Model.of(300, 1_000, days=4)
    log = rows.change_log(model, 500, 1)
    assert log[VERSION].to_pylist() != sorted(log[VERSION].to_pylist())
    expected = dict.fromkeys(range(300), 0)
    for event in sorted(log.to_pylist(), key=lambda event: event[VERSION]):
        if event[OPERATION] == "D":
            expected.pop(event[KEY], None)
        else:
            expected[event[KEY]] = event[VERSION]
    assert {k: v for k, v in enumerate(model.versions.tolist()) if v != GONE} == expected
    upserts, deletes = rows.newest(log)
    table = dict.fromkeys(range(300), 0)
    for key in deletes[KEY].to_pylist():
        table.pop(key, None)
    table |= dict(zip(upserts[KEY].to_pylist(), upserts[VERSION].to_pylist(), strict=True))
    assert table == expected


def test_an_upsert_and_a_delete_change_the_model() -> None:
    model = Model.of(100, 200)
    changed = rows.upsert(model, 20, 5, version=1)
    assert (model.rows, changed.num_rows, len(set(changed[KEY].to_pylist()))) == (105, 20, 20)
    gone = rows.strewn(model, 3, 10)
    assert sorted(gone[KEY].to_pylist()) == list(range(3, 105, 10))
    assert model.rows == 94
    model.require(of_model(model).to_batches(), "the table")


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda t: t.slice(1), "1 wrong keys: 0 is in version -1 instead of 0"),
        (lambda t: pa.concat_tables([t, t.slice(4, 1)]), "a key twice"),
        (
            lambda t: t.set_column(
                t.column_names.index("quantity"), "quantity", pa.array([0] * 9 + [101], pa.int32())
            ),
            "wrong values in quantity",
        ),
    ],
)
def test_a_missing_a_doubled_and_a_wrong_row_are_found(
    damage: Callable[[pa.Table], pa.Table], told: str
) -> None:
    model = Model.of(10, 20)
    with pytest.raises(WrongRowsError, match=told):
        model.require(damage(of_model(model)).to_batches(), "the table")


# ---- streams -------------------------------------------------------------------------------------


def looked(*pairs: tuple[int, int]) -> tuple[list[int], int]:
    units, positions = np.array(pairs).T
    look = look_at(units, positions, UNIT_ROWS)
    return look.whole, len(look.wrong)


def test_only_a_unit_whose_rows_are_seen_once_is_whole() -> None:
    whole = [(7, 0), (7, 1), (7, 2)]
    assert looked(*whole) == ([7], 0)
    assert looked(*whole, (8, 0), (8, 2)) == ([7], 1)
    assert looked(*whole, (8, 0), (8, 1), (8, 1)) == ([7], 1)
    assert looked(*whole, (7, 2)) == ([], 1)


def test_a_unit_that_waits_for_a_killed_writer_counts_apart() -> None:
    units = [Unit(number, float(number), number + 1.0) for number in range(200)]
    units[60:70] = [Unit(number, float(number), 75.0) for number in range(60, 70)]
    found = latencies(units, [60.5], 0.0)
    assert (found.p50_s, found.most_s, found.between_kills_p99_s) == (1.0, 15.0, 1.0)
    assert found.p99_s > 10
    assert [minute for minute, *_ in found.minutes] == [0, 1, 2, 3]
    assert found.minutes[0] == (0, 1, 1)


def test_a_writer_is_killed_as_often_as_asked_within_its_time() -> None:
    course = streams.StreamCourse(engine="python", source="files", minutes=10, kills=20)
    times = course.kill_times()
    assert (len(times), times) == (20, sorted(times))
    assert 0 < times[0] < times[-1] < 600


def test_the_lines_of_a_unit_are_read_as_its_rows() -> None:
    read = stream_parts._parsed([stream_parts.unit_lines(4, 2), stream_parts.unit_lines(5, 1)])
    assert read.schema == stream_parts.SCHEMA
    assert read["unit"].to_pylist() == [4, 4, 5]
    assert streams.wrong_texts(read) == []
    assert streams.wrong_texts(read.set_column(2, "text", pa.array(["x"] * 3))) != []


class ShortBox(Box):
    """The box of a process that ends after some looks at it."""

    left = 0

    @property
    def is_over(self) -> bool:
        type(self).left -= 1
        return type(self).left < 0


def test_a_reader_sees_what_a_writer_has_written(
    server: FakeMetastore, clock: ManualClock, tmp_path: Path
) -> None:
    plan = stream_parts.Plan(
        metastore="thrift://h:1",
        table="default.events",
        folder=str(tmp_path),
        broker=None,
        unit_rows=UNIT_ROWS,
        every_s=0.0,
        jars="",
    )
    plan.landing.mkdir()
    warehouse = Warehouse(server, clock, tmp_path)
    warehouse.create(plan.table, columns=stream_parts.COLUMNS)
    for number in range(2):
        lines = stream_parts.unit_lines(number, UNIT_ROWS)
        stream_parts.unit_file(plan.landing, number).write_bytes(lines)
    box, ShortBox.left = ShortBox(folder=tmp_path), 3
    with warehouse.connect() as lake:
        stream_parts.write_in_python(lake, plan, box)
        ShortBox.left = 2
        stream_parts.read(lake, plan, box)
    looks = [json.loads(line) for line in box.polls.read_text().splitlines()]
    assert [(look["new"], look["wrong"], look["rows"]) for look in looks] == [
        ([0, 1], [], 2 * UNIT_ROWS),
        ([], [], 0),
    ]


# ---- charts and the page -------------------------------------------------------------------------


def texts_of(svg: str) -> set[str]:
    return {element.text or "" for element in ET.fromstring(svg).iter()}


def test_a_chart_has_axes_units_a_legend_and_its_figures_in_words() -> None:
    lines = Lines(
        title="reads & writes",
        x_label="hours",
        y_label="seconds",
        about="3 after an hour",
        series={"ours": [(1, 3.0), (2, 3.5)], "theirs": [(1, 4.0), (2, 9.0)]},
        limits={"the aim: 15 s": 15},
        events=[1.5],
    )
    wanted = {"reads & writes", "hours", "seconds", "3 after an hour", "ours", "theirs", "20"}
    assert wanted | {"the aim: 15 s"} <= texts_of(lines.svg())
    groups = {"change": {"ours": 0.0, "theirs": 0.07}}
    bars = Bars(title="t", x_label="work", y_label="seconds", about="a", groups=groups)
    assert {"change", "0.07", "0.1"} <= texts_of(bars.svg())


def record(name: str, what: str, system: str, run: int, seconds: float) -> Record:
    return Record(
        case=f"course.{name}.{what}",
        system=system,
        process=system,
        run=run,
        seconds=seconds,
        cpu_seconds=2 * seconds,
        other_cpu_seconds=0.0,
        bytes=1 << 20,
        rows=10,
        driver_peak_bytes=0,
        jvm_peak_bytes=0,
        worker_peak_bytes=0,
    )


def test_each_use_case_has_its_place_on_the_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(report.PAGE.read_text())
    setting = Setting(**dict.fromkeys(Setting.__slots__, 1))  # type: ignore[arg-type]
    for case in USE_CASES.values():
        kinds = ["change", "maintain", *(["read"] if case.reads else []), "load"]
        found = [
            record(case.name, what, system, run, seconds)
            for what in kinds
            for system, seconds in ((OURS, 1.0), ("iceberg", 2.0))
            for run in range(6)
        ]
        killed = [{"system": OURS, "kills": 9, "rounds": 4, "events": 400, "refused": 3}]
        told = killed if case.is_killed else []
        report.write_case(case, found, setting, told, page=page, images=tmp_path)
    outcome = StreamOutcome(
        name="python-kafka",
        seconds=120.0,
        rows=1_000,
        kills_s=[60.0],
        failed_starts=0,
        looks=9,
        compactions=2,
        most_deltas=12,
        cores=0.4,
        p50_s=1.2,
        p99_s=4.0,
        most_s=6.0,
        between_kills_p99_s=2.0,
        minutes=[(0.0, 1.0, 2.0), (1.0, 1.1, 4.0)],
        wrong=[],
    )
    report.write_streams({"python-kafka": asdict(outcome)}, page=page, images=tmp_path)
    text = page.read_text()
    changed = [line for line in text.splitlines() if line.startswith("| one round's change")]
    assert changed[0].split(" | ")[1:5] == ["1.00", "2.00", "0.50", "0.50"]
    assert "killed 9 times while it applied 4 logs of 100 events" in text
    assert "reads at the end took 1.00 of those at the beginning" in text
    assert "| Python from Kafka | 2 | 1,000 | 1 | 1.2 | 4.0 | 2.0 | 6.0 |" in text
    for name in ("w13", "w14", "w15", "w16-python-kafka", "w17"):
        assert f"images/{name}.svg)" in text
        assert ET.parse(tmp_path / f"{name}.svg")
