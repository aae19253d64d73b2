"""The servers and the disk that all drivers share, with their faults.

The tables are on a separate file system (tmpfs), which can fill up without harm to others.
Mounting one needs root; without it the disk is never full, and the report says so. Alternatively
they are on an HDFS of one name node and one data node, or on an S3 (moto), which never fill up.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Final, assert_never
from unittest.mock import patch

from pyarrow import fs as pafs

from airflow_hiveacid.local import postgres, process, site, stack
from airflow_hiveacid.local.distribution import METASTORE_S3A, SPARK_S3A
from airflow_hiveacid.local.server import LocalMetastore
from airflow_hiveacid.plan.compaction import ONLY_HIVE_4_READS
from airflow_hiveacid.storage.stores.locations import open_location
from tests.contract.stores.mini_hdfs import MiniHdfs
from tests.proofs.campaign.hive_reader import HiveOptions
from tests.proofs.campaign.record import Record
from tests.proofs.campaign.schedule import Incident, ServerFault
from tests.proofs.campaign.setting import Reach, Store
from tests.support.s3_lab import MotoS3

HOUSEKEEPING_S: Final = 2.0
_DISK_MB: Final = 512
_CHUNK: Final = bytes(1 << 20)
_CRUMB: Final = bytes(1 << 12)
_MOST_STARTS: Final = 5
_RETRY_S: Final = 1.0


class Ground:
    """The servers and the disk of one part of a campaign. Mutable: it tracks their state."""

    def __init__(
        self, folder: Path, *, version: str, timeout_s: float, record: Record, store: Store
    ) -> None:
        self._folder = folder
        self._store = store
        self._stack = ExitStack()
        self._record = record
        self._config = site.LocalMetastoreConfig(
            version=version,
            data_dir=folder / "metastore",
            txn_timeout_s=timeout_s,
            housekeeping_interval_s=HOUSEKEEPING_S,
            ends_with_parent=True,
        )
        # Servers end with the thread that started them, so one thread starts them all.
        self._thread = ThreadPoolExecutor(1)
        self._metastore: LocalMetastore | None = None
        self._postgres: postgres.LocalPostgres | None = None
        self._repair: Future[None] | None = None
        self._incident: Incident | None = None
        self._began_s = self._mend_at = 0.0
        self._waiting: list[Incident] = []
        self.has_disk = False
        self.reach = Reach()
        self.hive = HiveOptions()
        self._warehouse = self._disk.as_uri()

    @property
    def uri(self) -> str:
        """The metastore's address, which does not change."""
        if self._metastore is None:
            raise process.LocalServerError("the metastore was never started")
        return self._metastore.uri

    def place_of(self, database: str) -> str:
        """Return the location of a database, as a URI."""
        return f"{self._warehouse}/{database}.db"

    @property
    def parameters(self) -> Mapping[str, str]:
        """The tables' parameters: on S3 only Hive 4 may read them, for compactions of buckets."""
        return {ONLY_HIVE_4_READS: "true"} if self._store is Store.S3 else {}

    @property
    def is_calm(self) -> bool:
        """True if no fault is active."""
        return self._incident is None

    def start(self) -> None:
        """Mount the disk and start the servers."""
        match self._store:
            case Store.HDFS:
                home = self._folder / "hdfs"
                home.mkdir(parents=True)
                self._warehouse = self._stack.enter_context(MiniHdfs.started(home)).uri
            case Store.S3:
                self._start_s3()
            case Store.DISK:
                self._mount()
            case _:
                assert_never(self._store)
        self._metastore, self._postgres = self._thread.submit(
            stack.start_on_postgres, self._config, self._record.say
        ).result()

    def expect(self, incidents: Sequence[Incident]) -> None:
        """Set the incidents to come from now on."""
        self._began_s, self._waiting = self._record.now_s, list(incidents)

    def tick(self) -> None:
        """Start an incident that is due, and mend one that is over."""
        incident = self._incident
        if incident is None:
            if self._waiting and self._record.now_s >= self._began_s + self._waiting[0].at_s:
                self._begin(self._waiting.pop(0))
            return
        if incident.fault is ServerFault.DISK_FULL and self._record.now_s < self._mend_at:
            self._fill()
        if self._repair is None and self._record.now_s >= self._mend_at:
            self._repair = self._thread.submit(self._mend, incident)
        if self._repair is not None and self._repair.done():
            self._repair.result()
            self._record.note("mended", fault=incident.fault.value)
            self._incident = self._repair = None

    def calm(self) -> None:
        """Cancel further incidents, and wait until all are mended."""
        self._waiting = []
        while not self.is_calm:
            self.tick()
            time.sleep(0.1)

    def stop(self) -> None:
        """Stop the servers and remove the disk."""
        if self._metastore is not None and self._postgres is not None:
            self._thread.submit(self._metastore.stop).result()
            self._thread.submit(self._postgres.destroy).result()
        self._thread.shutdown()
        self._stack.close()
        self._unmount()

    def keep_tables(self, target: Path) -> None:
        """Copy the tables' files, to find out what went wrong."""
        if self._store is not Store.DISK:
            fs, root = open_location(f"{self._warehouse}/")
            pafs.copy_files(root, str(target), source_filesystem=fs)
            return
        shutil.copytree(self._disk, target, dirs_exist_ok=True)

    # Faults

    def _begin(self, incident: Incident) -> None:
        if incident.fault is ServerFault.DISK_FULL and not self.has_disk:
            self._record.note("left_out", fault=incident.fault.value)
            return
        self._incident, self._mend_at = incident, self._record.now_s + incident.lasts_s
        self._record.note(f"incident {incident.fault.value}", lasts_s=incident.lasts_s)
        if self._metastore is None or self._postgres is None:
            return
        match incident.fault:
            case ServerFault.METASTORE_KILLED:
                self._metastore.kill()
            case ServerFault.METASTORE_RESTARTED:
                self._repair = self._thread.submit(self._metastore.restart)
            case ServerFault.DATABASE_KILLED:
                self._postgres.kill()
            case ServerFault.DISK_FULL:
                self._record.full_disks.append((self._record.now_s, None))
                self._fill()

    def _mend(self, incident: Incident) -> None:
        if incident.fault is ServerFault.DISK_FULL:
            self._filler.unlink(missing_ok=True)
            began, _ = self._record.full_disks[-1]
            self._record.full_disks[-1] = (began, self._record.now_s)
            return
        for attempt in range(1, _MOST_STARTS + 1):
            try:
                if self._postgres is not None:
                    self._postgres.start()
                if self._metastore is not None:
                    self._metastore.start()
            except process.LocalServerError:
                # A killed database's children keep its memory for a moment.
                if attempt == _MOST_STARTS:
                    raise
                time.sleep(_RETRY_S)
            else:
                return

    # The store

    def _start_s3(self) -> None:
        """Start a server as a separate process, known to this process, drivers and readers."""
        self._folder.mkdir(parents=True, exist_ok=True)
        server = self._stack.enter_context(
            MotoS3.beside(Path(sys.executable), self._folder / "moto.log")
        )
        self._warehouse = f"s3a://{server.bucket}/warehouse"
        self._config = dataclasses.replace(
            self._config, access=server.access, extra_settings=server.warehouse
        )
        jars = os.pathsep.join(map(str, SPARK_S3A.fetch()))
        self.reach = Reach(
            environment=server.environment,
            spark={
                "spark.driver.extraClassPath": jars,
                **{f"spark.hadoop.{name}": value for name, value in server.settings.items()},
            },
        )
        self.hive = HiveOptions(
            settings=server.settings | server.secrets, jars=METASTORE_S3A.fetch()
        )
        self._stack.enter_context(patch.dict(os.environ, server.environment))

    @property
    def _disk(self) -> Path:
        return self._folder / "disk"

    @property
    def _filler(self) -> Path:
        return self._disk / "_filler"

    def _fill(self) -> None:
        with self._filler.open("ab", buffering=0) as file:
            for piece in (_CHUNK, _CRUMB):
                try:
                    while file.write(piece) == len(piece):
                        pass
                except OSError:  # the disk is full, as intended
                    continue

    def _mount(self) -> None:
        self._disk.mkdir(parents=True)
        if os.geteuid() != 0:
            return
        size = f"size={_DISK_MB}m"
        done = _run("mount", "-t", "tmpfs", "-o", size, "tmpfs", str(self._disk))
        self.has_disk = done.returncode == 0

    def _unmount(self) -> None:
        if self.has_disk:
            _run("umount", str(self._disk))


def unmount_leftovers(folder: Path) -> None:
    """Unmount disks that a killed campaign left mounted below a folder."""
    for disk in folder.glob("*/disk"):
        if disk.is_mount():
            _run("umount", "--lazy", str(disk))


def _run(program: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([program, *arguments], check=False, capture_output=True)
