"""The result of one combination, and the page docs/clusters.md with all of them.

An area is a module of this package with a function `cells`: it starts its servers, tries its
combinations one after another, and yields a cell for each. Cells of other areas and of omitted
combinations stay as the last run left them. A whole run of an area removes those that it has not
tried (`drop_others`).
"""

from __future__ import annotations

import fcntl
import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.support.documents import DOCS, put_between, table_line

JSON: Final = DOCS / "clusters.json"
PAGE: Final = DOCS / "clusters.md"
SUPPORT: Final = DOCS / "reference" / "support.md"
RAN: Final = "ran"
FAILED: Final = "failed"
NOT_RUN: Final = "not run"
REFUSED: Final = "refused with an error"

_NOTHING_MORE: Final = "-"
_LONGEST_NOTE: Final = 600
MARK: Final = "clusters: written by `make clusters`"
# The parameters of a test, at the end of its name or before the version of PySpark.
_PARAMETERS: Final = re.compile(r"\[(.*)\](?=$|, PySpark )")
_HEAD, _TAIL = Path(__file__).with_name("page.md").read_text().split("<!-- cells -->")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One combination with its versions and result.

    `place` says where a job of Spark's ran.
    """

    area: str
    combination: str
    version: str
    outcome: str
    note: str = ""
    place: Place | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        return self.area, self.combination, self.version

    def to_json(self) -> dict[str, Any]:
        """Return the cell's entry in the file."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One combination before it is tried: `do` returns the note, and `outcome` is what it shows."""

    area: str
    version: str
    name: str
    do: Callable[[], str]
    outcome: str = RAN
    place: Place | None = None


def tried(trials: Iterable[Trial], only: str) -> Iterator[Cell]:
    """Yield a cell for each trial with the words in its name, after running it."""
    for trial in trials:
        if only not in trial.name:
            continue
        try:
            outcome, note = trial.outcome, trial.do()
        except Exception as error:  # noqa: BLE001 - the table reports it
            outcome, note = FAILED, f"{type(error).__name__}: {str(error)[-_LONGEST_NOTE:]}"
        yield Cell(
            area=trial.area,
            combination=trial.name,
            version=trial.version,
            outcome=outcome,
            note=note,
            place=trial.place,
        )


def read(json_file: Path = JSON) -> list[Cell]:
    """Return the cells of earlier runs."""
    text = json_file.read_text() if json_file.exists() else ""
    if not text:
        return []
    return [
        Cell(**{**one, "place": Place(*one["place"]) if "place" in one else None})
        for one in json.loads(text)
    ]


def keep(
    cells: Iterable[Cell], json_file: Path = JSON, page: Path = PAGE, support: Path | None = None
) -> None:
    """Add cells to those of earlier runs, in all files."""
    with _alone(json_file):
        known = {cell.key: cell for cell in (*read(json_file), *cells)}
        _write([known[key] for key in sorted(known)], json_file, page, support)


def drop_others(
    cells: Iterable[Cell], json_file: Path = JSON, page: Path = PAGE, support: Path | None = None
) -> None:
    """Remove other cells of these cells' areas, which an older run has left."""
    tried = {cell.key for cell in cells}
    areas = {area for area, _, _ in tried}
    with _alone(json_file):
        kept = [cell for cell in read(json_file) if cell.area not in areas or cell.key in tried]
        _write(kept, json_file, page, support)


@contextmanager
def _alone(json_file: Path) -> Iterator[None]:
    """Lock out other runs while the block reads and writes, since areas may run in parallel."""
    with json_file.open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _write(cells: list[Cell], json_file: Path, page: Path, support: Path | None) -> None:
    json_file.write_text(json.dumps([cell.to_json() for cell in cells], indent=1) + "\n")
    page.write_text(page_of(cells))
    if support is not None:
        support.write_text(put_between(support.read_text(), MARK, overview(cells)))


def overview(cells: Iterable[Cell]) -> str:
    """Return the table of support.md."""
    return overview_of(
        (cell.place, cell.outcome != FAILED)
        for cell in cells
        if cell.place and cell.outcome != NOT_RUN
    )


def page_of(cells: Iterable[Cell]) -> str:
    """Return the page, with a table for each area."""
    lines, area = [_HEAD], None
    for cell in cells:
        if cell.area != area:
            area = cell.area
            lines.append(f"\n## {area}\n\n| combination | version | outcome | details |\n")
            lines.append("|---|---|---|---|\n")
        name = _PARAMETERS.sub(r" (\1)", cell.combination)
        texts = (name, cell.version, cell.outcome, cell.note or _NOTHING_MORE)
        lines.append(table_line(*texts) + "\n")
    return "".join([*lines, _TAIL])


# ---- the table of support.md ---------------------------------------------------------------------


SPARKS: Final = (
    "local",
    "standalone, client",
    "YARN, client",
    "YARN, cluster",
    "Kubernetes, client",
    "Kubernetes, cluster",
)
LOGINS: Final = ("none", "Kerberos", "token", "password", "JWT")
STORES: Final = ("disk", "HDFS", "HDFS behind Kerberos", "S3")

_NOT_RUN: Final = "not run"


class Place(NamedTuple):
    """The place of a job: one of `SPARKS`, of `LOGINS` and of `STORES`."""

    spark: str
    login: str
    store: str


def overview_of(found: Iterable[tuple[Place, bool]]) -> str:
    """Return the table of places where a job ran as expected; one failure counts as failure.

    Example:
        >>> ran = [(Place("local", "none", "disk"), True)]
        >>> ran.append((Place("local", "Kerberos", "disk"), False))
        >>> overview_of(ran).splitlines()[2]
        '| local | none; Kerberos: failed | not run | not run | not run |'

    Raises:
        ValueError: a place is not in the table.
    """
    went: dict[Place, bool] = {}
    for place, is_well in found:
        if place.spark not in SPARKS or place.login not in LOGINS or place.store not in STORES:
            raise ValueError(f"{place} has no place in the table")
        went[place] = went.get(place, True) and is_well
    lines = [f"| Spark | {' | '.join(STORES)} |", "|---" * (1 + len(STORES)) + "|"]
    for spark in SPARKS:
        texts = [_text(went, spark, store) for store in STORES]
        lines.append(f"| {' | '.join((spark, *texts))} |")
    return "\n".join(lines) + "\n"


def _text(went: dict[Place, bool], spark: str, store: str) -> str:
    told = [
        login if went[place] else f"{login}: failed"
        for login in LOGINS
        if (place := Place(spark, login, store)) in went
    ]
    return "; ".join(told) or _NOT_RUN
