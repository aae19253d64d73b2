"""Removal of the paths that a plan of a cleaning names, and the staging directories of a location.

A path that was replaced after it was listed stays.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterable

from airflow_hiveacid.format.ids import TxnId
from airflow_hiveacid.format.names import STAGING_PREFIX, BaseName, parse_directory_name
from airflow_hiveacid.format.state.directories import FileEntry, Listing
from airflow_hiveacid.format.table import PartitionInfo
from airflow_hiveacid.plan.cleaning import CleaningPlan, Removal, StagingDirectory
from airflow_hiveacid.storage.stores.filesystem import delete_directory, delete_file
from airflow_hiveacid.storage.stores.listing import files_below, tree_size
from airflow_hiveacid.storage.stores.locations import open_location
from airflow_hiveacid.storage.stores.threads import side_by_side

log = logging.getLogger("hiveacid")


def is_staging(name: str) -> bool:
    """Return whether a directory is a writer's staging directory."""
    return name.startswith(STAGING_PREFIX)


def staging_directories(
    partition: PartitionInfo, names: Iterable[str]
) -> tuple[StagingDirectory, ...]:
    """Return the staging directories at a location, with size and time of the newest change."""
    staging = []
    for name in names:
        if not is_staging(name):
            continue
        number = name.removeprefix(STAGING_PREFIX).partition("-")[0]
        size, newest = tree_size(*open_location(f"{partition.location.rstrip('/')}/{name}"))
        staging.append(
            StagingDirectory(
                path=name,
                txn_id=TxnId(int(number)) if number.isdecimal() else None,
                modified_s=newest,
                size_bytes=size,
            )
        )
    return tuple(staging)


def remove_paths(
    partition: PartitionInfo, plan: CleaningPlan, listing: Listing | None
) -> CleaningPlan:
    """Remove the plan's unchanged paths; return a plan with only the removed paths.

    Staging directories need no check, because their names are never reused.
    """
    judged: dict[str, list[FileEntry]] = {}
    for file in listing.files if listing else ():
        for path in {file.path, file.path.partition("/")[0]}:
            judged.setdefault(path, []).append(file)

    def remove(removal: Removal) -> bool:
        fs, path = open_location(f"{partition.location.rstrip('/')}/{removal.path}")
        if not is_staging(removal.path):
            files = files_below(partition.location, removal.path)
            if files and files != tuple(judged.get(removal.path, ())):
                log.warning("skipped a path that was replaced after it was listed: %s", path)
                return False
        log.info("removing %s: %s", path, removal.why)
        if is_directory_name(removal.path.rpartition("/")[2]):
            delete_directory(fs, path)
        else:
            delete_file(fs, path)
        return True

    # Remove bases first. Otherwise, a reader for which this cleaner does not wait could find an old
    # base without its deltas.
    bases, remainder = _bases_first(plan.remove)
    is_removed = [*side_by_side(remove, bases), *side_by_side(remove, remainder)]
    removed_paths = {
        r.path for r, is_gone in zip((*bases, *remainder), is_removed, strict=True) if is_gone
    }
    return dataclasses.replace(
        plan, remove=tuple(r for r in plan.remove if r.path in removed_paths)
    )


def _bases_first(removals: Iterable[Removal]) -> tuple[list[Removal], list[Removal]]:
    parts: tuple[list[Removal], list[Removal]] = ([], [])
    for removal in removals:
        parts[not isinstance(parse_directory_name(removal.path), BaseName)].append(removal)
    return parts


def is_directory_name(name: str) -> bool:
    """Return whether a name is that of a base, a delta or a staging directory."""
    return is_staging(name) or parse_directory_name(name) is not None
