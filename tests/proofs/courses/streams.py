"""The course of a stream: its source, its writer that is killed, a reader and compactions beside.

Everything runs on this machine: a metastore on PostgreSQL, a Kafka broker if it is the source, and
the processes of `stream_parts.py`. In the end every row is read and compared with what was made.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from airflow_hiveacid.format.table import TableRef
from airflow_hiveacid.lake.connection import connect
from airflow_hiveacid.local.process import ServerConfig, tail
from airflow_hiveacid.metastore.catalog import NewTable
from airflow_hiveacid.metastore.client import connect as client_of
from tests.proofs.bench.lab import FOLDER, REPOSITORY
from tests.proofs.bench.meter import cpu_seconds
from tests.proofs.bench.recorder import WrongRowsError
from tests.proofs.bench.systems import jars_below
from tests.proofs.campaign.process import CampaignProcess
from tests.proofs.courses.broker import KafkaBroker
from tests.proofs.courses.latency import Latencies, Unit, latencies, look_at
from tests.proofs.courses.stream_parts import COLUMNS, TEXT, TOPIC, Plan, unit_file, unit_lines
from tests.proofs.programs import Say, metastore, working_folder

ENGINES: Final = ("python", "spark")
SOURCES: Final = ("files", "kafka")
_DATABASE: Final = "streams"
_CLIENT: Final = REPOSITORY / "build" / "kafka-client"
_SPARK_JARS: Final = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.1",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.1.1",
    "org.apache.kafka:kafka-clients:3.9.1",
    "org.apache.commons:commons-pool2:2.12.1",
)
_EVERY_S: Final = 1.5
_START_S: Final = 180.0
_END_S: Final = 120.0
_TICK_S: Final = 0.02
_MOST_FAILED_STARTS: Final = 20
_SEED: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamCourse:
    """One stream: the writer's engine, the source, the minutes of its source, and the kills.

    `units_per_s` units of `unit_rows` rows are made: files, or Kafka's messages.
    """

    engine: str
    source: str
    minutes: float
    kills: int

    @property
    def name(self) -> str:
        return f"{self.engine}-{self.source}"

    @property
    def unit_rows(self) -> int:
        return 500 if self.source == "files" else 50

    @property
    def units_per_s(self) -> float:
        return 2 if self.source == "files" else 20

    def kill_times(self) -> list[float]:
        """Return when the writer is killed, in seconds: at random in equal parts of the time."""
        dice, part_s = random.Random(_SEED), self.minutes * 60 / max(1, self.kills)
        return [part_s * (number + dice.uniform(0.3, 0.9)) for number in range(self.kills)]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOutcome:
    """What a stream did. `cores` is how many were busy with it; `minutes` as in `Latencies`.

    `wrong` are sentences about rows that were lost, doubled, half seen or seen and gone.
    """

    name: str
    seconds: float
    rows: int
    kills_s: list[float]
    failed_starts: int
    looks: int
    compactions: int
    most_deltas: int
    cores: float
    p50_s: float
    p99_s: float
    most_s: float
    between_kills_p99_s: float
    minutes: list[tuple[float, float, float]]
    wrong: list[str]


def run_stream(course: StreamCourse, say: Say, kept: Path | None = None) -> StreamOutcome:
    """Run one stream, and return what was measured.

    Raises:
        WrongRowsError: a process cannot start.
    """
    with working_folder(kept, f"hiveacid-{course.name}") as folder, ExitStack() as stack:
        server = stack.enter_context(metastore(folder, on_postgres=True))
        broker, jars = None, ""
        if course.source == "kafka":
            sys.path.insert(0, str(_CLIENT))
            broker = stack.enter_context(KafkaBroker(ServerConfig(data_dir=folder / "kafka")))
            if course.engine == "spark":
                jars = jars_below(_SPARK_JARS, FOLDER / "jars" / "spark-kafka")
        plan = Plan(
            metastore=server.uri,
            table=f"{_DATABASE}.events",
            folder=str(folder),
            broker=None if broker is None else broker.address,
            unit_rows=course.unit_rows,
            every_s=_EVERY_S,
            jars=jars,
        )
        plan.landing.mkdir()
        with client_of(plan.endpoint) as client:
            client.create_database(_DATABASE)
            client.create_table(NewTable(ref=TableRef.parse(plan.table), columns=COLUMNS))
        plan.write(folder / "plan.json")
        return _Stream(course, plan, say).run()


class _Stream:
    """One stream that runs. Mutable: it stores its processes, and when it made each unit."""

    def __init__(self, course: StreamCourse, plan: Plan, say: Say) -> None:
        self._course, self._plan, self._say = course, plan, say
        self._folder = Path(plan.folder)
        self._made_s: list[float] = []
        self._kills_s: list[float] = []
        self._lives = self._failed_starts = 0

    def run(self) -> StreamOutcome:
        with ExitStack() as stack:
            make = stack.enter_context(self._source())
            make()  # so that the topic exists
            beside = [
                stack.enter_context(self._running(role, role)) for role in ("reader", "compactor")
            ]
            writer = self._next_writer()
            stack.callback(self._end_writer)
            cpu_s, began_s, began = cpu_seconds(os.getpid()), time.time(), time.monotonic()
            self._play(make, writer, began)
            seconds, used_s = time.monotonic() - began, cpu_seconds(os.getpid()) - cpu_s
            reader, compactor = beside
            seen_s, wrong, looks = self._await_reader(reader)
            for process in (*beside, self._writer):
                process.box.say_over()
            notes = [
                json.loads(line)
                for line in compactor.box.log.read_text().splitlines()
                if line.startswith("{")
            ]
        units = [
            Unit(number, made_s, seen_s[number])
            for number, made_s in enumerate(self._made_s)
            if made_s >= began_s and number in seen_s
        ]
        times: Latencies = latencies(units, self._kills_s, began_s)
        outcome = StreamOutcome(
            name=self._course.name,
            seconds=round(seconds, 1),
            rows=len(self._made_s) * self._course.unit_rows,
            kills_s=[round(kill_s - began_s, 1) for kill_s in self._kills_s],
            failed_starts=self._failed_starts,
            looks=looks,
            compactions=sum(bool(note.get("compacted")) for note in notes),
            most_deltas=max((note.get("deltas", 0) for note in notes), default=0),
            cores=round(used_s / seconds, 2),
            wrong=wrong + self._check(),
            **asdict(times),
        )
        self._say(f"{outcome}")
        return outcome

    def _play(self, make: Callable[[], None], writer: CampaignProcess, began: float) -> None:
        """Make units at their times, kill the writer at its times, and start it again."""
        course, kills = self._course, self._course.kill_times()
        while (passed_s := time.monotonic() - began) < course.minutes * 60:
            while len(self._made_s) - 1 < passed_s * course.units_per_s:
                make()
            is_due = bool(kills) and passed_s >= kills[0]
            if is_due or writer.has_ended:
                if is_due:
                    kills.pop(0)
                    self._kills_s.append(time.time())
                    self._say(f"kill {len(self._kills_s)} of {course.kills}")
                else:
                    self._failed_starts += 1
                    if self._failed_starts > _MOST_FAILED_STARTS:
                        raise WrongRowsError(f"the writer cannot start: {tail(writer.box.log)}")
                    self._say(f"the writer ended: {tail(writer.box.log, lines=3)}")
                writer.end()
                writer = self._start_writer()
            time.sleep(_TICK_S)

    def _next_writer(self) -> CampaignProcess:
        writer = self._start_writer()
        _await(lambda: writer.box.is_ready, writer, _START_S)
        return writer

    def _end_writer(self) -> None:
        self._writer.end()

    def _start_writer(self) -> CampaignProcess:
        self._lives += 1
        self._writer = self._process(self._course.engine, f"writer-{self._lives}")
        return self._writer

    def _process(self, role: str, name: str) -> CampaignProcess:
        paths = os.pathsep.join([str(REPOSITORY), str(_CLIENT)])
        environment = {**os.environ, "PYTHONPATH": paths}
        plan = str(self._folder / "plan.json")
        command = [sys.executable, "-m", "tests.proofs.courses.stream_parts", role, plan]
        return CampaignProcess(self._folder / name, command, environment)

    @contextmanager
    def _running(self, role: str, name: str) -> Iterator[CampaignProcess]:
        process = self._process(role, name)
        try:
            _await(lambda: process.box.is_ready, process, _START_S)
            yield process
        finally:
            process.end()

    @contextmanager
    def _source(self) -> Iterator[Callable[[], None]]:
        """Yield a function that makes the next unit."""
        rows, landing = self._course.unit_rows, self._plan.landing

        def note() -> int:
            self._made_s.append(time.time())
            return len(self._made_s) - 1

        def make_file() -> None:
            number = len(self._made_s)
            scratch = landing / ".new"
            scratch.write_bytes(unit_lines(number, rows))
            note()
            scratch.rename(unit_file(landing, number))

        if self._plan.broker is None:
            yield make_file
            return
        from confluent_kafka import Producer  # noqa: PLC0415 - for Kafka alone

        producer = Producer({"bootstrap.servers": self._plan.broker, "linger.ms": 5})

        def make_message() -> None:
            number = len(self._made_s)
            value = unit_lines(number, rows)
            note()
            producer.produce(TOPIC, value)
            producer.poll(0)
            if number == 0:
                producer.flush(30)

        yield make_message
        producer.flush(30)

    def _await_reader(self, reader: CampaignProcess) -> tuple[dict[int, float], list[str], int]:
        """Wait until the reader has seen every unit; return when, and what was wrong."""
        ends_s = time.monotonic() + _END_S
        while True:
            seen_s: dict[int, float] = {}
            wrong: list[str] = []
            lines = reader.box.polls.read_text().splitlines()
            for line in lines[:-1]:  # the last one may be unfinished
                look: dict[str, Any] = json.loads(line)
                seen_s |= dict.fromkeys(look["new"], look["seen_s"])
                wrong += look["wrong"]
            if len(seen_s) >= len(self._made_s) or time.monotonic() >= ends_s:
                return seen_s, wrong, len(lines)
            if reader.has_ended:
                raise WrongRowsError(f"the reader ended: {tail(reader.box.log)}")
            if self._writer.has_ended:  # as after a kill at the very end
                self._start_writer()
            time.sleep(1)

    def _check(self) -> list[str]:
        """Read every row, and return what is wrong."""
        with connect(self._plan.endpoint) as lake:
            rows = lake.table(self._plan.table).scan().to_arrow()
        made, unit_rows = len(self._made_s), self._course.unit_rows
        look = look_at(rows["unit"].to_numpy(), rows["position"].to_numpy(), unit_rows)
        wrong = look.wrong[:10]
        if look.whole != list(range(made)):
            lost = sorted({*range(made)} - {*look.whole})
            wrong.append(f"{len(lost)} of {made} units are lost, such as {lost[:3]}")
        return wrong + wrong_texts(rows)


def wrong_texts(rows: pa.Table) -> list[str]:
    """Return a sentence if some text is not that of its row."""
    parts = [rows[name].cast(pa.string()) for name in ("position", "unit")]
    empty = pa.scalar("")
    expected = pc.binary_join_element_wise(
        pa.scalar(TEXT[0]), parts[0], pa.scalar(TEXT[1]), parts[1], empty
    )
    count = pc.sum(pc.not_equal(rows["text"], expected), min_count=0).as_py()
    return [f"{count} rows have a wrong text"] if count else []


def _await(is_there: Callable[[], bool], process: CampaignProcess, most_s: float) -> None:
    ends_s = time.monotonic() + most_s
    while not is_there():
        if process.has_ended or time.monotonic() >= ends_s:
            raise WrongRowsError(f"a process does not start: {tail(process.box.log)}")
        time.sleep(_TICK_S)
