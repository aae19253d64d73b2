"""Knows what a history of a golden directory is.

A step is a HiveQL statement with `{t}` for the case's table, or one of

    !compact minor|major [p=x/q=y] [by query]    !clean    !dump (default: at the end)
    !begin NAME statement    !commit NAME    !abort NAME       a writer beside the others
    !fail statement                                            aborts, its files stay
    !stream open TXNS | commit ROWS | abort ROWS | close       several transactions in one file
    !load SOURCE_TABLE [overwrite]                             LOAD DATA of another table's files
    !convert                                                   make the table transactional
    !expect          the rows are those of now: what follows does not change them, and Hive's own
                     reader may not be able to read it

A statement may make one more table, `{t}_src`. `{rows}` stands for a source of 12000 rows,
0 to 11999 in its column `pos`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

ALL: Final = ("4.0.1", "3.1.3")
_ROWS: Final = "(select 1) one lateral view posexplode(split(space(11999), ' ')) r as pos, nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """One case.

    Attributes:
        note: What is special about the directory.
        steps: See the module.
        snapshots: Whether the case also says what other readers see: every lower high watermark,
            and every single write ID aborted.
    """

    name: str
    note: str
    steps: tuple[str, ...]
    versions: tuple[str, ...] = ALL
    snapshots: bool = False

    def steps_for(self, table: str) -> tuple[str, ...]:
        """Returns the steps with the names filled in, white space as single blanks."""
        return tuple(
            " ".join(step.replace("{t}", table).replace("{rows}", _ROWS).split())
            for step in self.steps
        )


def transactional_table(columns: str, layout: str = "", properties: str = "") -> str:
    return (
        f"create table {{t}} ({columns}) {layout} stored as orc "
        f"tblproperties ('transactional'='true'{properties})"
    )
