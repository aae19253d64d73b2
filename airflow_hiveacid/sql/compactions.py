"""ALTER TABLE ... COMPACT as a job description: sqlglot does not read it, so it is read here.

Example:
    >>> from airflow_hiveacid.sql.text import statements_of
    >>> compaction_of(statements_of("ALTER TABLE db.t COMPACT 'major'")[0], None).choice.value
    'major'
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.table import PartitionName
from airflow_hiveacid.jobs.specs import CompactionChoice, CompactSpec
from airflow_hiveacid.sql.inserts import partition_value
from airflow_hiveacid.sql.literals import constant
from airflow_hiveacid.sql.names import table_name
from airflow_hiveacid.sql.tokens import Kind

if TYPE_CHECKING:
    from airflow_hiveacid.sql.text import Piece

_FORM: Final = "write ALTER TABLE db.t [PARTITION (column = value)] COMPACT 'minor' | 'major'"
_CHOICES: Final = {"minor": CompactionChoice.MINOR, "major": CompactionChoice.MAJOR}


def compaction_of(piece: Piece, database: str | None) -> CompactSpec:
    """`ALTER TABLE t [PARTITION (...)] COMPACT 'minor' | 'major' [AND WAIT]`.

    A task always waits for its compaction, so AND WAIT says nothing new.

    Raises:
        SqlTextError: it is something else.
    """
    words = [token.word for token in piece.tokens]
    if words[1:2] != ["TABLE"] or "COMPACT" not in words:
        piece.fail("of ALTER only COMPACT is supported", _FORM)
    table = table_name(piece, database, 2)
    partition, at = _partition(piece, table.end)
    if words[at : at + 1] != ["COMPACT"]:
        where = piece.tokens[at] if at < len(piece) else piece.tokens[-1].end
        piece.fail("this is no COMPACT", _FORM, where)
    kind = piece[at + 1 : at + 2]
    is_text = bool(kind.tokens) and kind.tokens[0].kind is Kind.STRING
    choice = _CHOICES.get(str(constant(kind)).lower()) if is_text else None
    if choice is None:
        kind.fail("a compaction is 'minor' or 'major' here", _FORM)
    if words[at + 2 :] not in ([], ["AND", "WAIT"]):
        piece.fail(
            "what follows the kind of compaction is not supported", _FORM, piece.tokens[at + 2]
        )
    return CompactSpec(target=table.full, partition=partition, choice=choice)


def _partition(piece: Piece, at: int) -> tuple[str | None, int]:
    """The partition's name, if there is one, and the index after it."""
    words = [token.word for token in piece.tokens[at : at + 2]]
    if words != ["PARTITION", "("]:
        return None, at
    end = piece.closing(at + 1)
    columns: list[str] = []
    values: list[str] = []
    for part in piece[at + 2 : end].split(","):
        name = part.tokens[0].name if part.tokens else None
        if name is None or name.lower() in columns:
            part.fail("this is no partition column, or it is named twice", _FORM)
        columns.append(name.lower())
        value = partition_value(part[1:])
        # A partition is called after its column's own value, which is in lower case if it is truth.
        values.append(value.lower() if part.word(2) in {"TRUE", "FALSE"} else value)
    return str(PartitionName(tuple(columns), tuple(values))), end + 1
