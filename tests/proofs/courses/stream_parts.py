"""The processes of a stream: a writer in Python or in Spark, a reader, and a compactor.

Each is started with a plan, a JSON file that all of them share, and with a box (see
`campaign/process.py`). The writers may be killed at any time.

    python -m tests.proofs.courses.stream_parts ROLE PLAN --box FOLDER
"""

from __future__ import annotations

import argparse
import io
import json
import logging
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from pyarrow import json as arrow_json

from airflow_hiveacid.format.codec import JsonValue
from airflow_hiveacid.format.errors import HiveAcidError
from airflow_hiveacid.format.table import Column
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.jobs.job import JobSpec, JobStatus, StreamSpec
from airflow_hiveacid.lake.connection import Lake, connect
from airflow_hiveacid.metastore.client import connect as client_of
from tests.proofs.campaign.process import Box
from tests.proofs.courses.latency import look_at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS: Final = (
    Column(name="unit", type="bigint"),
    Column(name="position", type="int"),
    Column(name="text", type="string"),
)
SCHEMA: Final = pa.schema([("unit", pa.int64()), ("position", pa.int32()), ("text", pa.string())])
TEXT: Final = ("the row ", " of unit ")
"""The two parts of a row's text, before its position and before its unit."""

TOPIC: Final = "events"
_DDL: Final = "unit bigint, position int, text string"
_STREAM: Final = "events"
_PAUSE_S: Final = 0.1
_LOOK_PAUSE_S: Final = 0.3
_COMPACTS_EVERY_S: Final = 15.0
_FULL_LOOK_EVERY_S: Final = 60.0
_MOST_FILES: Final = 200
_MOST_MESSAGES: Final = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What the processes of one stream share.

    Attributes:
        broker: The address of Kafka, or None for files in `landing`.
        unit_rows: The rows of a file, or of a message.
        every_s: Seconds between the beginnings of two batches.
        jars: The jars of Spark's connector for Kafka.
    """

    metastore: str
    table: str
    folder: str
    broker: str | None
    unit_rows: int
    every_s: float
    jars: str

    @property
    def landing(self) -> Path:
        return Path(self.folder) / "landing"

    def write(self, file: Path) -> None:
        file.write_text(json.dumps(asdict(self)))

    @classmethod
    def read(cls, file: Path) -> Plan:
        return cls(**json.loads(file.read_text()))

    @property
    def endpoint(self) -> MetastoreEndpoint:
        return MetastoreEndpoint(uris=(self.metastore,))


def unit_lines(number: int, rows: int) -> bytes:
    """Return the rows of a unit as JSON, a line each."""
    row, unit = TEXT
    lines = (
        f'{{"unit": {number}, "position": {at}, "text": "{row}{at}{unit}{number}"}}\n'
        for at in range(rows)
    )
    return "".join(lines).encode()


def unit_file(landing: Path, number: int) -> Path:
    return landing / f"unit-{number:09}.json"


# ---- a writer in Python --------------------------------------------------------------------------


def write_in_python(lake: Lake, plan: Plan, box: Box) -> None:
    """Write the source's units until the box is over."""
    batches = _from_kafka if plan.broker else _from_files
    writer = lake.stream_writer(plan.table, stream=_STREAM)
    box.say_ready()
    result = writer.run(
        lambda offsets: _paced(batches(plan, offsets), plan.every_s),
        is_ending=lambda: box.is_over,
    )
    print(result, flush=True)


def _paced(
    batches: Iterator[tuple[pa.Table, JsonValue] | None], every_s: float
) -> Iterator[tuple[pa.Table, JsonValue] | None]:
    """Yield batches whose beginnings are at least so many seconds apart."""
    began_s = 0.0
    while True:
        if (wait_s := began_s + every_s - time.monotonic()) > 0:
            time.sleep(min(wait_s, _PAUSE_S))
            yield None
            continue
        batch = next(batches)
        if batch is None:
            time.sleep(_PAUSE_S)
        else:
            began_s = time.monotonic()
        yield batch


def _from_files(plan: Plan, offsets: JsonValue) -> Iterator[tuple[pa.Table, JsonValue] | None]:
    """Yield the rows of new files, in the order of their names, and the last name."""
    last = str(offsets or "")
    while True:
        names = sorted(p.name for p in plan.landing.glob("*.json") if p.name > last)[:_MOST_FILES]
        if names:
            last = names[-1]
            yield _parsed([(plan.landing / name).read_bytes() for name in names]), last
        else:
            yield None


def _from_kafka(plan: Plan, offsets: JsonValue) -> Iterator[tuple[pa.Table, JsonValue] | None]:
    """Yield the rows of new messages, and the next offset of each partition."""
    from confluent_kafka import Consumer, TopicPartition  # noqa: PLC0415 - for Kafka alone

    consumer = Consumer(
        {
            "bootstrap.servers": plan.broker,
            "group.id": _STREAM,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    following: dict[str, Any] = dict(offsets) if isinstance(offsets, dict) else {}
    partitions = consumer.list_topics(TOPIC, timeout=30).topics[TOPIC].partitions
    consumer.assign(
        [TopicPartition(TOPIC, number, following.get(str(number), 0)) for number in partitions]
    )
    while True:
        messages = [one for one in consumer.consume(_MOST_MESSAGES, 0.2) if not one.error()]
        following |= {str(one.partition()): one.offset() + 1 for one in messages}
        yield (_parsed([one.value() for one in messages]), dict(following)) if messages else None


def _parsed(texts: list[bytes]) -> pa.Table:
    options = arrow_json.ParseOptions(explicit_schema=SCHEMA)
    return arrow_json.read_json(io.BytesIO(b"".join(texts)), parse_options=options)


# ---- a writer in Spark ---------------------------------------------------------------------------


def _write_in_spark(plan: Plan, box: Box) -> None:
    from airflow_hiveacid.spark import acid, streams  # noqa: PLC0415 - for Spark alone
    from airflow_hiveacid.spark.writing.context import JobContext  # noqa: PLC0415
    from tests.proofs.bench.lab import session  # noqa: PLC0415

    settings = {"spark.master": "local[2]", "spark.driver.memory": "1g"}
    # Each batch is small, so more tasks would only cost.
    settings["spark.sql.shuffle.partitions"] = "2"
    if plan.jars:
        settings["spark.jars"] = plan.jars
    spark = session(box.folder, settings)
    job = JobSpec(
        job_key="stream of the course",
        metastore=plan.endpoint,
        job=StreamSpec(application="courses.py", inserts=(plan.table,)),
    )

    def program(spark: SparkSession, task: acid.Task) -> None:
        checkpoint = (Path(plan.folder) / "checkpoint").as_uri()
        rows = _of_kafka(spark, plan) if plan.broker else _of_files(spark, plan)
        box.say_ready()
        streams.stream(rows, plan.table, task, checkpoint=checkpoint, every_s=plan.every_s)

    with client_of(plan.endpoint) as client:
        acid.run_program(JobContext.of(spark, job, client), program)


def _of_files(spark: SparkSession, plan: Plan) -> DataFrame:
    source = spark.readStream.schema(_DDL).option("maxFilesPerTrigger", _MOST_FILES)
    return source.json(plan.landing.as_uri())


def _of_kafka(spark: SparkSession, plan: Plan) -> DataFrame:
    source = spark.readStream.format("kafka").option("subscribe", TOPIC)
    source = source.option("kafka.bootstrap.servers", str(plan.broker))
    rows = source.option("startingOffsets", "earliest").load()
    lines = rows.selectExpr("explode(split(trim(CAST(value AS STRING)), '\\n')) AS line")
    return lines.selectExpr(f"from_json(line, '{_DDL}') AS row").select("row.*")


# ---- a reader ------------------------------------------------------------------------------------


def read(lake: Lake, plan: Plan, box: Box) -> None:
    """Look for new units until the box is over; each minute, look at all units.

    A line of the box's polls is `{"seen_s": ..., "new": [...], "wrong": [...], "rows": ...}`. The
    time is that after the read, when a program has the rows.
    """
    known = np.zeros(0, dtype=bool)
    full_at_s = time.monotonic() + _FULL_LOOK_EVERY_S
    table = lake.table(plan.table)
    with box.polls.open("a") as polls:
        box.say_ready()
        while not box.is_over:
            is_full = time.monotonic() >= full_at_s
            if is_full:
                full_at_s = time.monotonic() + _FULL_LOOK_EVERY_S
            # Statistics exclude older files, so a look costs little however large the table is.
            missing = np.flatnonzero(~known)
            low = 0 if is_full else int(missing[0]) if len(missing) else len(known)
            scan = table.refresh().scan(
                ["unit", "position"], "unit >= :low", parameters={"low": low}
            )
            rows = scan.to_arrow()
            seen_s = time.time()
            table.close()  # so that a cleaning need not wait for the next look
            look = look_at(rows["unit"].to_numpy(), rows["position"].to_numpy(), plan.unit_rows)
            wrong = [*look.wrong]
            if gone := {*np.flatnonzero(known[low:]) + low} - {*look.whole}:
                wrong.append(f"{len(gone)} units that were seen are gone, such as {min(gone)}")
            if look.whole and look.whole[-1] >= len(known):
                known = np.append(known, np.zeros(look.whole[-1] + 1 - len(known), dtype=bool))
            new = [number for number in look.whole if not known[number]]
            known[new] = True
            line = {"seen_s": seen_s, "new": new, "wrong": wrong, "rows": rows.num_rows}
            polls.write(json.dumps(line) + "\n")
            polls.flush()
            time.sleep(_LOOK_PAUSE_S)


# ---- a compactor ---------------------------------------------------------------------------------


def compact(lake: Lake, plan: Plan, box: Box) -> None:
    """Compact what is due, and clean, until the box is over; a line is printed for each."""
    table = lake.table(plan.table)
    box.say_ready()
    due_s = time.monotonic()
    while not box.is_over:
        if time.monotonic() < due_s:
            time.sleep(_PAUSE_S)
            continue
        due_s = time.monotonic() + _COMPACTS_EVERY_S
        try:
            deltas = max((health.deltas for health in table.health()), default=0)
            is_done = table.compact().status is JobStatus.COMMITTED
            table.clean()
            print(json.dumps({"deltas": deltas, "compacted": is_done}), flush=True)
        except HiveAcidError as error:  # such as a conflict; the next turn tries again
            print(json.dumps({"error": str(error)}), flush=True)


SPARK: Final = "spark"
ROLES: Final[dict[str, Callable[[Lake, Plan, Box], None]]] = {
    "python": write_in_python,
    "reader": read,
    "compactor": compact,
}


def main() -> int:
    """Play one role."""
    parser = argparse.ArgumentParser()
    parser.add_argument("role", choices=(SPARK, *ROLES))
    parser.add_argument("plan", type=Path)
    parser.add_argument("--box", type=Path, required=True)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    plan, box = Plan.read(given.plan), Box(folder=given.box)
    if given.role == SPARK:
        _write_in_spark(plan, box)
    else:
        with connect(plan.endpoint) as lake:
            ROLES[given.role](lake, plan, box)
    return 0


if __name__ == "__main__":
    sys.exit(main())
