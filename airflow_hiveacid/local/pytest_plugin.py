"""Pytest fixtures with a real Hive metastore, for our own tests and the tests of users.

To use the fixtures, add the plugin in the root `conftest.py`:

    pytest_plugins = ["airflow_hiveacid.local.pytest_plugin"]

The first test that needs a Hive version starts a server of that version. The server runs for the
whole session, so tests must use different database names. The first run on a machine downloads the
server with Maven. The variable HIVEACID_METASTORES chooses other releases: with `4.2.0,3.1.2`, the
fixtures of 4.0.1 yield a server of 4.2.0, and those of 3.1.3 a server of 3.1.2.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from airflow_hiveacid.local.releases import HIVE_3, HIVE_4, HiveRelease, release_for_tests
from airflow_hiveacid.local.server import LocalMetastore
from airflow_hiveacid.local.site import LocalMetastoreConfig
from airflow_hiveacid.local.stack import metastore_on_postgres

# A busy machine can halt a test for half a minute. A client without heartbeats then loses its
# transaction. A test of such a loss starts its own server with a shorter timeout.
TXN_TIMEOUT_S: Final = 60.0
# On Derby, the housekeeping of 4.0.1 and a commit can wait for each other's rows of WRITE_SET.
# Derby then ends one of them, and 4.0.1 repeats no commit whose batch of updates was ended: seen
# once in 700 commits with a housekeeping every 20 ms.
_HOUSEKEEPING_S: Final = 30.0


@pytest.fixture(scope="session")
def hive_metastore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalMetastore]:
    """Yield a Hive 4.0.1 metastore on Derby for the session; transactions time out after 60 s."""
    with LocalMetastore(_config(HIVE_4, tmp_path_factory)) as metastore:
        yield metastore


@pytest.fixture(scope="session")
def hive_metastore_3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalMetastore]:
    """Yield a Hive 3.1.3 metastore on Derby for the session; transactions time out after 60 s."""
    with LocalMetastore(_config(HIVE_3, tmp_path_factory)) as metastore:
        yield metastore


@pytest.fixture(scope="session")
def hive_metastore_on_postgres(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[LocalMetastore]:
    """Yield a Hive 4.0.1 metastore on PostgreSQL, for concurrency tests; Derby serialises calls."""
    with metastore_on_postgres(_config(HIVE_4, tmp_path_factory)) as metastore:
        yield metastore


def _config(default: HiveRelease, tmp_path_factory: pytest.TempPathFactory) -> LocalMetastoreConfig:
    release = release_for_tests(default)
    return LocalMetastoreConfig(
        version=release.version,
        data_dir=tmp_path_factory.mktemp(f"metastore-{release.version}"),
        txn_timeout_s=TXN_TIMEOUT_S,
        housekeeping_interval_s=_HOUSEKEEPING_S,
        ends_with_parent=True,
    )
