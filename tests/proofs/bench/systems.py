"""The systems that can be measured, and the settings that each needs in its session."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tests.proofs.bench.acid import AcidTable
from tests.proofs.bench.peers import (
    DELTA,
    ICEBERG,
    DeltaTable,
    IcebergTable,
    delta_settings,
    iceberg_settings,
)
from tests.proofs.bench.records import OURS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from airflow_hiveacid.format.table import Column
    from tests.proofs.bench.contender import Contender
    from tests.proofs.bench.lab import Lab


def _nothing(_folder: Path) -> dict[str, str]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """One system. `settings` returns its session's settings, given a folder for its jars.

    `create` makes an empty table with a name and columns.
    """

    name: str
    create: Callable[[Lab, str, Sequence[Column]], Contender]
    settings: Callable[[Path], Mapping[str, str]] = field(default=_nothing)


SYSTEMS: Final[Mapping[str, System]] = {
    OURS: System(name=OURS, create=AcidTable.create),
    DELTA: System(name=DELTA, create=DeltaTable.create, settings=delta_settings),
    ICEBERG: System(name=ICEBERG, create=IcebergTable.create, settings=iceberg_settings),
}
PEERS: Final = tuple(name for name in SYSTEMS if name != OURS)
