"""Servers that die and jobs that freeze, with metastores whose patience ends after seconds."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from airflow_hiveacid.format import conflicts, errors, ids
from airflow_hiveacid.format.table import Column, TableInfo, TableRef
from airflow_hiveacid.jobs.endpoint import MetastoreEndpoint
from airflow_hiveacid.local.releases import HIVE_3, HIVE_4
from airflow_hiveacid.local.server import LocalMetastore
from airflow_hiveacid.local.site import LocalMetastoreConfig
from airflow_hiveacid.metastore.catalog import NewTable
from airflow_hiveacid.metastore.client import MetastoreClient, connect
from airflow_hiveacid.metastore.transactions.transaction import begin
from airflow_hiveacid.storage.acid.read.scan import scan
from tests.contract.bench import access, commit, month, start, wait_until
from tests.support.chosen_versions import chosen
from tests.support.terms import job_terms

pytestmark = pytest.mark.server

INSERT, UPDATE = conflicts.DataOperation.INSERT, conflicts.DataOperation.UPDATE
TIMEOUT_S: Final = 4.0
_ROOT: Final = Path(__file__).resolve().parents[3]
_JOB: Final = Path(__file__).resolve().parents[1] / "frozen_job.py"
_WRITING_JOB: Final = Path(__file__).resolve().parents[1] / "writing_job.py"
_COLUMNS: Final = (Column(name="id", type="bigint"),)
# 3.1's initiator forgets empty aborted transactions; so often that it can be watched.
_SETTINGS: Final = {"hive.compactor.check.interval": "1s"}


@pytest.fixture(scope="module", params=[HIVE_3, HIVE_4], ids=lambda release: release.version)
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalMetastore]:
    release = request.param
    config = LocalMetastoreConfig(
        version=chosen(release.version),
        data_dir=tmp_path_factory.mktemp("impatient"),
        txn_timeout_s=TIMEOUT_S,
        housekeeping_interval_s=0.5,
        initiator_on=release is HIVE_3,
        ends_with_parent=True,
        extra_settings=_SETTINGS,
    )
    with LocalMetastore(config) as metastore:
        yield metastore


@pytest.fixture
def hms(server: LocalMetastore) -> LocalMetastore:
    """The server, started again if a test before had to leave it dead."""
    server.start()
    return server


@pytest.fixture
def client(hms: LocalMetastore) -> Iterator[MetastoreClient]:
    endpoint = MetastoreEndpoint(uris=(hms.uri,), connect_timeout_s=5, call_timeout_s=30)
    with connect(endpoint) as made:
        yield made


@pytest.fixture
def table(client: MetastoreClient, request: pytest.FixtureRequest) -> TableInfo:
    return make_table(client, request.node.originalname[-100:])


def make_table(client: MetastoreClient, name: str, **changes: object) -> TableInfo:
    new = NewTable(ref=TableRef("default", name), columns=_COLUMNS, **changes)  # type: ignore[arg-type]
    return client.create_table(new)


def is_visible(client: MetastoreClient, table: TableInfo, write_id: ids.WriteId) -> bool:
    write_ids = client.valid_write_ids([table.ref], client.valid_txns())
    return write_ids[table.ref].is_visible(write_id)


def job(hms: LocalMetastore, table: TableInfo, program: Path = _JOB) -> subprocess.Popen[str]:
    """Starts a job and returns when it holds its locks, or has committed."""
    process = subprocess.Popen(
        [sys.executable, str(program), hms.uri, str(table.ref)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
    )
    assert process.stdout is not None
    told = process.stdout.readline().strip()
    assert told == "committed" if program is _WRITING_JOB else told.isdigit()
    return process


def test_only_3x_shows_an_aborted_write_without_registered_partitions_as_committed(
    hms: LocalMetastore, client: MetastoreClient
) -> None:
    """Why `register_partitions` comes before any file. If this fails, Hive was mended."""
    columns = (Column(name="month", type="string"),)
    table = make_table(client, "forgotten", partition_columns=columns)
    client.add_partitions(table, [month("1")])
    bare, known, later = (start(client, access(table, INSERT)) for _ in range(3))
    for mine in (known, later):
        client.add_dynamic_partitions(mine.txn_id, mine.write_id, table.ref, [month("1")], INSERT)
    client.abort_txn(bare.txn_id)
    client.abort_txn(known.txn_id)
    commit(client, later.txn_id)
    if hms.config.release is HIVE_3:
        wait_until(lambda: is_visible(client, table, bare.write_id), timeout_s=120)
    else:
        time.sleep(2.0)
        assert not is_visible(client, table, bare.write_id)
    assert not is_visible(client, table, known.write_id)
    assert is_visible(client, table, later.write_id)


@pytest.mark.promise("T17", "T19")
def test_a_frozen_job_cannot_commit_later_and_a_killed_job_leaves_no_lock(
    hms: LocalMetastore, client: MetastoreClient
) -> None:
    tables = [make_table(client, name) for name in ("frozen", "killed", "healthy")]
    frozen, killed, healthy = (job(hms, table) for table in tables)
    try:
        frozen.send_signal(signal.SIGSTOP)
        killed.kill()
        wait_until(lambda: not client.show_locks(tables[1].ref))
        wait_until(lambda: not client.show_locks(tables[0].ref))
        frozen.send_signal(signal.SIGCONT)
        assert frozen.communicate("", timeout=30)[0].strip() == "TransactionAbortedError"
        # The one beside them has lived for longer than the time-out as well.
        assert client.show_locks(tables[2].ref)
        assert healthy.communicate("", timeout=30)[0].strip() == "committed"
    finally:
        for process in (frozen, killed, healthy):
            process.kill()
            process.communicate()


@pytest.mark.promise("T18")
def test_heartbeats_keep_a_transaction_alive_past_the_timeout(
    client: MetastoreClient, table: TableInfo
) -> None:
    silent = client.open_txn()
    with begin(client, job_terms(), writes=[access(table, INSERT)]) as txn:
        wait_until(lambda: silent not in client.valid_txns().open)
        time.sleep(1.0)
        told = {t.txn_id: t for t in client.open_txns_info()}[txn.txn_id]
        assert told.started_s is not None
        assert told.last_heartbeat_s is not None
        assert told.last_heartbeat_s - told.started_s >= TIMEOUT_S / 2 - 0.5
    assert is_visible(client, table, txn.write_ids[table.ref])


@pytest.mark.promise("T22")
@pytest.mark.long_cases("3.1.3")
def test_a_committed_row_survives_a_kill_of_its_job_and_of_the_metastore(
    hms: LocalMetastore, client: MetastoreClient, table: TableInfo
) -> None:
    """The server's process holds its database, too."""
    writer = job(hms, table, program=_WRITING_JOB)
    hms.kill()
    writer.kill()
    writer.communicate()
    with pytest.raises(errors.MetastoreUnavailableError, match="refused"):
        client.valid_txns()
    hms.start()
    write_ids = client.valid_write_ids([table.ref], client.valid_txns())[table.ref]
    (rows,) = scan(table.location, table.columns, write_ids)
    assert rows.to_pylist() == [{table.columns[0].name: 7}]


@pytest.mark.long_cases("3.1.3")
def test_a_metastore_restart_during_a_transaction_leaves_all_of_it_or_nothing(
    hms: LocalMetastore, client: MetastoreClient, table: TableInfo
) -> None:
    outcome = "committed"
    try:
        with begin(client, job_terms(), writes=[access(table, INSERT)]) as txn:
            hms.restart()
    except errors.TransactionAbortedError:
        outcome = "aborted"  # it took longer to come back than it is patient
    assert is_visible(client, table, txn.write_ids[table.ref]) is (outcome == "committed")
    wait_until(lambda: not client.show_locks(table.ref))


@pytest.mark.long_cases("3.1.3")
def test_a_metastore_killed_before_the_commit_raises_commit_state_unknown(
    hms: LocalMetastore, client: MetastoreClient, table: TableInfo
) -> None:
    def die(step: str) -> None:
        if step == "body_done":
            hms.kill()

    with (
        pytest.raises(errors.CommitStateUnknownError, match="may or may not"),
        begin(client, job_terms(on_step=die), writes=[access(table, INSERT)]) as txn,
    ):
        pass
    hms.start()
    wait_until(lambda: not client.show_locks(table.ref))
    assert not is_visible(client, table, txn.write_ids[table.ref])
