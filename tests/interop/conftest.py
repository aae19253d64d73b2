"""Knows the judges as fixtures: Hive's engine and its bare readers, for the whole session.

Each is a process that starts when the first test asks for it. The `new_york` ones run in a time
zone with daylight saving: no value may depend on it. Tests keep apart by database names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from airflow_hiveacid.local.server import LocalMetastore
from tests.judges.bare import BareReader
from tests.judges.engine import HiveJudge
from tests.judges.engine3 import Hive3Engine

_NEW_YORK: Final = "America/New_York"


@pytest.fixture(scope="session")
def hive_judge(hive_metastore: LocalMetastore) -> Iterator[HiveJudge]:
    """Hive 4.0.1's engine over the session's metastore."""
    with HiveJudge(hive_metastore.uri) as judge:
        yield judge


@pytest.fixture(scope="session")
def hive_judge_new_york(hive_metastore: LocalMetastore) -> Iterator[HiveJudge]:
    """The same engine, over the same metastore, in New York."""
    with HiveJudge(hive_metastore.uri, timezone=_NEW_YORK) as judge:
        yield judge


@pytest.fixture(scope="session")
def hive_3_new_york() -> Iterator[Hive3Engine]:
    """Hive 3.1.3's engine in New York, with a metastore of its own."""
    with Hive3Engine(timezone=_NEW_YORK) as engine:
        yield engine


@pytest.fixture(scope="session")
def bare_reader_4() -> Iterator[BareReader]:
    """The ORC reader of Hive 4.0.1."""
    with BareReader("4.0.1") as reader:
        yield reader


@pytest.fixture(scope="session")
def bare_reader_3() -> Iterator[BareReader]:
    """The ORC reader of Hive 3.1.3."""
    with BareReader("3.1.3") as reader:
        yield reader


@pytest.fixture(scope="session")
def bare_reader_4_new_york() -> Iterator[BareReader]:
    """The ORC reader of Hive 4.0.1 in New York."""
    with BareReader("4.0.1", timezone=_NEW_YORK) as reader:
        yield reader


@pytest.fixture(scope="session")
def bare_reader_3_new_york() -> Iterator[BareReader]:
    """The ORC reader of Hive 3.1.3 in New York."""
    with BareReader("3.1.3", timezone=_NEW_YORK) as reader:
        yield reader


AgreedRows = Callable[..., list[list[Any]]]
"""Returns the rows on which all readers agree, by identity; arguments of `BareReader.read`."""


@pytest.fixture(scope="session")
def agreed_rows(
    bare_reader_4: BareReader,
    bare_reader_3: BareReader,
    bare_reader_4_new_york: BareReader,
    bare_reader_3_new_york: BareReader,
) -> AgreedRows:
    """Both versions, by row and vectorised, in both time zones; for directories both can read."""
    readers = (bare_reader_4, bare_reader_3, bare_reader_4_new_york, bare_reader_3_new_york)

    def read(directory: Path | str, write_ids: str, schema: str, **more: Any) -> list[list[Any]]:  # noqa: ANN401
        rows: list[list[Any]] | None = None
        for reader in readers:
            for vectorized in (False, True):
                found = reader.read(directory, write_ids, schema, vectorized=vectorized, **more)
                name = f"{reader.version} in {reader.timezone}, vectorized={vectorized}"
                assert rows is None or found == rows, f"{name} disagrees with those before it"
                rows = found
        assert rows is not None
        return rows

    return read
