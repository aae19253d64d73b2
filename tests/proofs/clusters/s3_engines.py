"""Every engine as a reader of S3 tables that we, Hive and Trino write in turns.

They read after each statement. The lives are those of the matrix (`make judge`); only the tables'
location differs.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from pyspark.sql import SparkSession

from airflow_hiveacid.format.table import TableInfo
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.jobs.maintenance import CompactionChoice
from airflow_hiveacid.local.distribution import METASTORE_S3A
from airflow_hiveacid.local.server import LocalMetastore
from airflow_hiveacid.local.site import LocalMetastoreConfig
from airflow_hiveacid.metastore.client import connect
from airflow_hiveacid.plan.compaction import ONLY_HIVE_4_READS
from tests.contract.stores.s3_fronts import notes_what_is_replaced
from tests.judges.bare import BareReader
from tests.judges.engine import HiveJudge
from tests.judges.trino import TrinoJudge, why_not
from tests.proofs.clusters.cells import FAILED, RAN, Cell
from tests.proofs.matrix.course import Ground, lead
from tests.proofs.matrix.explanations import explanation, is_explained
from tests.proofs.matrix.kinds import ALTERNATING, HIVE_4, KINDS, OURS, TRINO, Kind
from tests.proofs.matrix.readers import (
    ArrowReader,
    BareHiveReader,
    HiveReader,
    NativeReader,
    Reader,
    TrinoReader,
)
from tests.proofs.matrix.records import Life
from tests.proofs.matrix.writers import HiveWriter, OurWriter, TrinoWriter, why_not_led
from tests.support import s3_lab, s3_session, spark_lab

_AREA: Final = "S3, read by every engine"
_REPLACED: Final = (
    "Trino distributes the rows that it deletes to its writers by their whole bucket property, so"
    " two writers create the same file (Trino issue 14636). On a disk, Trino then fails with File"
    " already exists. On S3, the second file replaces the first file, and the rows that the first"
    " file deleted reappear for every engine"
)
_OF_TRINO: Final = {"fs.native-s3.enabled": "true", "s3.path-style-access": "true"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Course:
    """The lives that run at one metastore: numbers of kinds, by writer.
    With `hides`, the tables' owner declares that only Hive 4 reads them during compactions, so
    results of several files are made. No engine reads them meanwhile here.
    """

    metastore: str
    hides: bool
    lives: Mapping[str, tuple[int, ...]]

    def name(self, writer: str, kind: Kind) -> str:
        more = f", {ONLY_HIVE_4_READS}" if self.hides else ""
        return f"{kind.name}: {writer}{more}"


_COURSES: Final = (
    _Course(
        metastore="4.0.1",
        hides=True,
        lives={OURS: (1, 4, 9), HIVE_4: (0, 1), TRINO: (0,), ALTERNATING: (1, 6)},
    ),
    _Course(metastore="4.0.1", hides=False, lives={OURS: (0, 2)}),
    _Course(metastore="3.1.3", hides=False, lives={OURS: (0, 2)}),
)


@dataclass(frozen=True)
class _HidingLab(spark_lab.Lab):
    """A laboratory whose tables declare that only Hive 4 reads them."""

    def table(
        self,
        name: str,
        columns: Mapping[str, str],
        **options: Any,  # noqa: ANN401
    ) -> TableInfo:
        parameters = {**options.pop("parameters", {}), ONLY_HIVE_4_READS: "true"}
        return super().table(name, columns, parameters=parameters, **options)


@dataclass(frozen=True, slots=True, kw_only=True)
class _OurWriter(OurWriter):
    """Our writer, which records the results of compactions."""

    compactions: list[str]

    def minor(self) -> None:
        self._compact(CompactionChoice.MINOR)

    def major(self) -> None:
        self._compact(CompactionChoice.MAJOR)
        self.table.lab.clean(self.table.name)

    def _compact(self, choice: CompactionChoice) -> None:
        details: Any = self.table.lab.compact(self.table.name, choice).details
        for one in details["compactions"]:
            made = ", ".join(one["outputs"]) if one["done"] else f"none: {one['why']}"
            self.compactions.append(f"{choice.value} compaction made {made}")


def cells(folder: Path, only: str) -> Iterator[Cell]:
    """Yield a cell for each life with the words in its name, after running it."""
    asked = [
        (course, writer, KINDS[number])
        for course in _COURSES
        for writer, numbers in course.lives.items()
        for number in numbers
        if only in course.name(writer, KINDS[number])
    ]
    if not asked:
        return
    spark = spark_lab.small_session()
    with ExitStack() as stack:
        stack.callback(spark.stop)
        server = stack.enter_context(s3_lab.MotoS3.started())
        stack.enter_context(s3_session.knowing(spark, server))
        replaced: list[str] = []
        stack.enter_context(server.behind(notes_what_is_replaced("/delete_delta_", replaced)))
        for course in _COURSES:
            lives = [(writer, kind) for at, writer, kind in asked if at is course]
            if lives:
                made: list[str] = []
                with _ground(folder, course, server, spark, made) as ground:
                    for writer, kind in lives:
                        made.clear()
                        replaced.clear()
                        yield _cell(ground, course, writer, kind, _Seen(made, replaced))


@contextmanager
def _ground(
    folder: Path, course: _Course, server: s3_lab.MotoS3, spark: SparkSession, made: list[str]
) -> Iterator[Ground]:
    settings = server.settings | server.secrets
    with ExitStack() as stack:
        config = LocalMetastoreConfig(
            version=course.metastore,
            data_dir=folder / f"metastore-{_COURSES.index(course)}",
            access=server.access,
            extra_settings=server.warehouse,
            ends_with_parent=True,
        )
        metastore = stack.enter_context(LocalMetastore(config))
        endpoint = MetastoreEndpoint(uris=(metastore.uri,))
        client = stack.enter_context(connect(endpoint))
        database = f"engines_{uuid.uuid4().hex[:8]}"
        client.create_database(database, f"s3a://{server.bucket}/{database}")
        make = _HidingLab if course.hides else spark_lab.Lab
        lab = make(spark=spark, endpoint=endpoint, client=client, db=database)
        jars = METASTORE_S3A.fetch()
        bare = stack.enter_context(BareReader("3.1.3", settings=settings, jars=jars))
        readers: list[Reader] = [NativeReader(), ArrowReader(), BareHiveReader(bare)]
        ground = Ground(
            lab=lab,
            hive=None,  # type: ignore[arg-type] # unused, since no life begins with it
            writers={OURS: lambda table: _OurWriter(table=table, compactions=made)},
            readers=readers,
        )
        if course.metastore.startswith("3"):
            yield ground
            return
        hive = stack.enter_context(HiveJudge(metastore.uri, settings=settings, jars=jars))
        writers = {**ground.writers, HIVE_4: lambda table: HiveWriter(table=table, engine=hive)}
        readers.append(HiveReader(hive))
        if why_not() is None:
            trino = stack.enter_context(TrinoJudge(metastore.uri, properties=_properties(server)))
            writers[TRINO] = lambda table: TrinoWriter(table=table, engine=trino)
            readers.append(TrinoReader(trino))
        yield Ground(lab=lab, hive=hive, writers=writers, readers=readers)


def _properties(server: s3_lab.MotoS3) -> dict[str, str]:
    """Return the properties of Trino's own client; its keys are in the environment."""
    found = server.settings
    return {
        **_OF_TRINO,
        "s3.endpoint": found["fs.s3a.endpoint"],
        "s3.region": found["fs.s3a.endpoint.region"],
    }


class _Seen(NamedTuple):
    """Other events: compactions, and delete files that others replaced."""

    compactions: Sequence[str]
    replaced: Sequence[str]


def _cell(ground: Ground, course: _Course, writer: str, kind: Kind, seen: _Seen) -> Cell:
    why = why_not_led(kind, writer)
    if writer == TRINO and TRINO not in ground.writers:
        why = why_not()
    heard: list[str] = []
    if why is not None:
        outcome, note = "not run", why
    else:
        life = lead(ground, kind, writer, heard.append)
        told = "; ".join((_told(life), *seen.compactions))
        last = life.taken[-1] if life.taken else None
        if is_explained(life):
            outcome, note = RAN, told
        elif seen.replaced and last is not None and last.done_by == TRINO:
            outcome, note = "Trino loses rows", f"at {last.step}: {_REPLACED}; until then: {told}"
        else:
            outcome, note = FAILED, " / ".join((*heard, told))
    return Cell(
        area=_AREA,
        combination=course.name(writer, kind),
        version=f"metastore {course.metastore}",
        outcome=outcome,
        note=note,
    )


def _told(life: Life) -> str:
    """Return each reader's number of right steps, and why it was not asked, or wrong."""
    parts = []
    for name, found in life.answers.items():
        text = f"{name} {found.right}/{len(life.taken)}"
        unread = sum(map(len, found.unread.values()))
        if unread:
            text += f" ({unread} not asked: {'; '.join(found.unread)})"
        if found.wrong:
            reasons = {str(explanation(name, life, seen)) for seen in found.wrong}
            text += f" ({'; '.join(sorted(reasons))})"
        parts.append(text)
    others = [f"{taken.step} by {taken.done_by}" for taken in life.taken if taken.failures]
    if others and life.writer != ALTERNATING:
        parts.append(f"taken by others: {', '.join(others)}")
    return ", ".join(parts)
