"""The time zones in which the stripes of an ORC file were written.

Java's writer stores the time zone of its JVM in each stripe's footer, so the stripes of one file
can have different zones (Hive's CONCATENATE copies stripes).
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pyarrow import fs as pafs

from airflow_hiveacid.format.errors import UnsupportedFileError
from airflow_hiveacid.storage.acid.read.acid_file import has_acid_columns
from airflow_hiveacid.storage.orc.footer import OrcTail, TypeKind, Writer
from airflow_hiveacid.storage.orc.view import TIMESTAMP_KINDS, writer_time_zones
from airflow_hiveacid.storage.values.time_zones import TimeZone, zone_of

_KNOWN_TO_ARROW: Final = frozenset({"UTC", "GMT"})
_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class StripeZones:
    """The stripes to read, and the name of each stripe's zone; "" if the stripe names none."""

    tail: OrcTail
    stripes: tuple[int, ...]
    names: tuple[str, ...]

    @property
    def are_known_to_arrow(self) -> bool:
        """Whether Arrow reads the stripes, and their timestamps as Java does."""
        return _KNOWN_TO_ARROW.issuperset(self.names)

    def parts(self, column_ids: Iterable[int]) -> Iterator[tuple[TimeZone | None, tuple[int, ...]]]:
        """Yield the stripes in order, grouped by zone; None means UTC, or no timestamps."""
        kinds = (self.tail.types[column_id].kind for column_id in self.tail.below(column_ids))
        if self.are_known_to_arrow or TypeKind.TIMESTAMP not in kinds:
            yield None, self.stripes
            return
        if "" in self.names:
            # Java's readers use the zone of their own JVM.
            _log.warning(
                "ORC file does not state its time zone: its timestamps are read as by a Hive that"
                " runs in UTC path=%s",
                self.tail.path,
            )
        pairs = zip(map(self._zone, self.names), self.stripes, strict=True)
        for zone, group in itertools.groupby(pairs, key=lambda pair: pair[0]):
            yield zone, tuple(stripe for _, stripe in group)

    def _zone(self, name: str) -> TimeZone | None:
        try:
            zone = zone_of(name or "UTC")
        except LookupError as error:
            raise UnsupportedFileError(
                path=self.tail.path,
                reason=f"its timestamps were written in the time zone {name!r}, but this reader has"
                " no rules for this zone. Install a newer Python package tzdata",
            ) from error
        return None if zone.is_utc else zone


def zones_of(fs: pafs.FileSystem, tail: OrcTail, stripes: Sequence[int]) -> StripeZones:
    """Read the zones of these stripes from their footers, if they may contain a zone that matters.

    The other stripes count as written in UTC.
    """
    names = (
        writer_time_zones(fs, tail, stripes)
        if _may_differ_from_utc(tail)
        else ("UTC",) * len(stripes)
    )
    return StripeZones(tail=tail, stripes=tuple(stripes), names=names)


def _may_differ_from_utc(tail: OrcTail) -> bool:
    match tail.footer.writer:
        case Writer.JAVA:
            # Hive and ORC state the zone only if there are timestamps. Old Presto counts as Java,
            # and always states the zone. It does not write ACID files or the software's version.
            is_presto = not (tail.footer.software_version or has_acid_columns(tail))
            return is_presto or _has_timestamps(tail)
        case Writer.CPP:  # Arrow's, of this provider
            return _has_timestamps(tail) and not has_acid_columns(tail)
        case _:
            return True


def _has_timestamps(tail: OrcTail) -> bool:
    return any(type_.kind in TIMESTAMP_KINDS for type_ in tail.types)
