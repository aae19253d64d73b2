"""How the result of a compaction takes the place of its inputs, and when it is taken back.

A result with a `_v` suffix is void without its transaction: an abort removes it. One with a plain
name counts as soon as it is renamed, whatever becomes of the transaction: readers may have it open,
and it holds what its inputs hold. So it stays, unless it doubles rows beside the result of a
compactor that had taken our place (`plan.compaction.doubles_rows`). See docs/adr/0005 and 0012.

Takes what was staged and a way to look at the directory; must not know Spark.
"""

from __future__ import annotations

import dataclasses
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_hiveacid.format.names import parse_directory_name
from airflow_hiveacid.plan.compaction import doubles_rows
from airflow_hiveacid.spark.writing.publish import Publication, StagedDirectory
from airflow_hiveacid.storage.stores.filesystem import delete_directory
from airflow_hiveacid.storage.stores.listing import list_directories
from airflow_hiveacid.storage.stores.locations import open_location, scheme_of
from airflow_hiveacid.storage.stores.open_uploads import give_up, open_uploads
from airflow_hiveacid.storage.stores.traits import publishes_files

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hiveacid.format.acid_state import AcidState
    from airflow_hiveacid.format.names import BaseName, DeltaName
    from airflow_hiveacid.plan.compaction import CompactionPlan

log = logging.getLogger("hiveacid")


def live_names(state: AcidState) -> set[str]:
    """The names of the directories that are read."""
    return {d.text for d in state.live}


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """The staged result of one compaction. `look` shows the directory as the compaction sees it."""

    plan: CompactionPlan
    directories: tuple[StagedDirectory, ...]
    look: Callable[[], AcidState]
    _publication: Publication = field(default_factory=Publication)

    def remove_dead_siblings(self) -> None:
        """Remove what dead compactors of the same range have left.

        Hive's readers choose one of `delta_1_5_v12` and `delta_1_5_v15`; Trino reads both. Who
        calls this holds the lock that only compactors ask for, so who published the other is dead,
        and its transaction aborted in the snapshot that was taken with the lock. What that snapshot
        does not know to be aborted stays: it is an input, or, if it was we who stood still, what
        our successor has made.
        """
        location = self.plan.state.location.rstrip("/")
        if publishes_files(scheme_of(location)):
            self._stop_the_dead(location)  # before the look: what they show now, they showed before
        ranges = {_without_suffix(name) for name in self._names}
        for name in sorted({d.text for d in self.look().aborted} - self._names):
            if name != _without_suffix(name) in ranges:
                log.info("removing what a dead compactor left: %s/%s", location, name)
                delete_directory(*open_location(f"{location}/{name}"))

    def _stop_the_dead(self, location: str) -> None:
        """See to it that a compactor that only stood still shows nothing when it wakes.

        A rename would find the name taken. A suffix makes it another name, which an upload that is
        open can still appear under; so it is given up.
        """
        dead = [
            upload
            for upload in open_uploads(location)
            if (name := upload.path.partition("/")[0]) not in self._names
            and name != _without_suffix(name)
        ]
        for upload in dead:
            log.info("giving up what a dead compactor left: %s/%s", location, upload.path)
        give_up(location, dead)

    def publish(self) -> None:
        """Make the result visible.

        Raises:
            DirectoryExistsError: one is there already; it was not touched.
            StorageError: a rename failed.
        """
        self._publication.publish(self.directories)

    def take_back(self) -> None:
        """Remove the result where it must not stay; the transaction is known to be aborted."""
        is_void = any(name != _without_suffix(name) for name in self._names)
        if is_void or doubles_rows(self.plan, self._present()):
            self._publication.take_back()

    @property
    def _names(self) -> set[str]:
        return {d.directory for d in self.directories}

    def _present(self) -> list[BaseName | DeltaName]:
        names = list_directories(*open_location(self.plan.state.location))
        return [parsed for name in names if (parsed := parse_directory_name(name)) is not None]


def _without_suffix(directory: str) -> str:
    """The name without its visibility suffix; what is no directory of the format stays as it is."""
    name = parse_directory_name(directory)
    return str(dataclasses.replace(name, visibility_txn_id=None)) if name else directory
