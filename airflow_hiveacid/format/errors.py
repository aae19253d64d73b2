"""The whole error tree: what can go wrong, and whether trying again can help.

    HiveAcidError
    |- InputError                      what was asked for cannot be done; nothing was written
    |  |- ConfigurationError           a connection, option or file system setting is wrong
    |  |- ContractVersionError         operator and application speak different versions
    |  |- SqlTextError                 a statement's text, with its line and column
    |  |- InvalidNameError             not a table, partition or directory name
    |  |- TableNotFoundError           |- PartitionNotFoundError
    |  |- NotTransactionalError        |- InsertOnlyTableError       |- SortedTableError
    |  |- UnsupportedTableError        |- TableDiffersError          |- DefinitionError
    |  |- UnknownColumnError           |- PartitionColumnUpdateError |- BucketColumnUpdateError
    |  |- TypeMismatchError            |- StructFieldsError          |- ExpressionError
    |  |- SourceUnreadableError        |- VersionRangeError
    |  |- ConstraintViolationError     a new row that NOT NULL or CHECK does not allow
    |  |- ConversionRefusedError       a table that cannot become what it is asked to be
    |  |- StatementOrderError          statements that no one transaction can hold in this order
    |  |- SharedTargetError            INSERTs of one FROM clause that would hide each other
    |  |- MergeCardinalityError        two source rows for one target row
    |  |- VersionUnknownError          a version that the table has not, or a time far ahead
    |  |- VersionDoubtfulError         nobody knows what was committed at that time
    |  |- TagTakenError                a tag of that name stands for another version
    |  |- RerunRefusedError            the job was done before
    |  `- StatementChangedError        the job was done before, with another statement
    |- MetastoreError
    |  |- MetastoreUnavailableError    retryable
    |  |- MetastoreLoginError          Kerberos or the metastore does not know who we say we are
    |  |- MetastoreVersionError        the server cannot do what is needed
    |  `- MetastoreCallError           the server refused a call
    |- TransactionError
    |  |- TransactionAbortedError      retryable: reaped or killed
    |  |- WriteConflictError           retryable: another writer committed first
    |  |- OvertakenError               retryable: somebody replaced what was to be written
    |  |- TableChangedError            retryable: another definition since the statement was checked
    |  |- LockNotAcquiredError         retryable: waited long enough
    |  |- VersionNotSettledError       retryable: a write below the version is still open
    |  |- VersionNotYetError           retryable: a time that is not over by the metastore's clock
    |  |- KeepingRefusedError          retryable: a compaction is on its way, which may remove files
    |  |- FencedError                  a newer copy of this task has taken over
    |  |- EarlierRunUnknownError       nobody can tell whether an earlier try was committed
    |  `- CommitStateUnknownError      the answer to commit was lost; nothing may be undone
    |- StorageError
    |  |- LocationNotFoundError        retryable: dropped or moved a moment ago
    |  |- SourceNotFoundError          retryable: it may be late
    |  |- StoreUnavailableError        retryable: it does not answer, or takes nothing for now
    |  |- LocationPermissionError      |- DirectoryExistsError
    |  |- NotEnoughHistoryError        retryable: a table's first base came since the snapshot
    |  |- CorruptFileError             |- DanglingDeleteError
    |  |- UnsupportedFileError
    |  |- ResultUnwritableError        nothing was begun
    |  |- VersionGoneError             compacted away: what is left does not hold it any more
    |  |- ChangesGoneError             files that a range of changes needs may be gone
    |  |- FeedError                    a feed's place does not go on with this table
    |  |- FeedOvertakenError           retryable: another task has written the range meanwhile
    |- ClusterError
    |  |- ClusterUnavailableError      retryable: YARN does not answer
    |  |  `- KubernetesUnavailableError
    |  |- ClusterRefusedError          YARN answers, but not us
    |  |  `- KubernetesRefusedError
    |  |- ApplicationNotStartedError   retryable: it waited for its place long enough
    |  |- ApplicationForgottenError    retryable: the cluster knows nothing of it any more
    |  `- ExecutorsMissingError        retryable: a driver that nobody gave an executor
    |- PartitionsFailedError           retryable: some partitions could not be maintained
    `- JobFailedError                  the Spark application ended without a typed error

Every error carries its data in fields and its text in `str(error)`: what is wrong with which table,
and what to do. An error crosses the seam as (class name, message); `error_class` finds the class
again.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from airflow_hiveacid.format.winner import Winner

if TYPE_CHECKING:
    from collections.abc import Mapping

# A list of a million write IDs, or of ten thousand partitions, would fill logs and XComs.
_LONGEST_SHOWN: Final = 300
_MOST_SHOWN: Final = 20


class HiveAcidError(Exception):
    """Root of every error this package raises on purpose."""

    retryable: bool = False
    """Whether doing the same again, unchanged, may succeed."""

    def __reduce__(self) -> tuple[object, ...]:
        # The default calls the class with the message alone, which keyword-only data refuses, so an
        # error would not come back from another process.
        return rebuild, (type(self).__name__, str(self)), self.__dict__


class RetryableError(HiveAcidError):
    """Mixed into errors after which the same work may simply be tried again."""

    retryable = True


class InputError(HiveAcidError):
    """What was asked for cannot be done; nothing has been written."""


class MetastoreError(HiveAcidError):
    """The metastore could not be asked, or said no."""


class TransactionError(HiveAcidError):
    """A transaction could not go on."""


class StorageError(HiveAcidError):
    """Files are not as they must be."""


class ConfigurationError(InputError):
    """A connection, option or file system setting is wrong; the message says how to mend it."""


class ContractVersionError(InputError):
    """A job description or result was written by another version of this package."""

    def __init__(self, *, found: object, supported: int, side: str, detail: str = "") -> None:
        self.found, self.supported, self.side = found, supported, side
        super().__init__(
            f"job contract version {found!r} met version {supported}: the {side} is older."
            f"{' ' + detail if detail else ''} Install the same release of"
            " airflow-provider-hiveacid in the Airflow environment and in the --py-files zip."
        )


class InvalidNameError(InputError):
    """A text is no table, partition, directory or file name of the format."""

    def __init__(self, *, name: str, what: str) -> None:
        self.name, self.what = name, what
        shown = name if len(name) <= _LONGEST_SHOWN else f"{name[:_LONGEST_SHOWN]}..."
        super().__init__(f"{shown!r} is not a valid {what}")


class SqlTextError(InputError):
    """A statement's text cannot be done as it stands; `line` and `column` count from 1."""

    def __init__(
        self, *, statement: int, line: int, column: int, problem: str, remedy: str
    ) -> None:
        self.statement, self.line, self.column = statement, line, column
        self.problem, self.remedy = problem, remedy
        super().__init__(
            f"statement {statement}, line {line}, column {column}: {problem}; {remedy}"
        )


class _TableError(InputError):
    """Shared shape of errors about one table."""

    def __init__(self, *, table: object, detail: str) -> None:
        self.table = str(table)
        super().__init__(f"table {table}: {detail}")


class TableNotFoundError(_TableError):
    """The metastore does not know the table."""

    def __init__(self, *, table: object) -> None:
        super().__init__(
            table=table, detail="does not exist in the metastore; check the name and the connection"
        )


class PartitionNotFoundError(_TableError):
    """The metastore does not know the partition."""

    def __init__(self, *, table: object, partition: object) -> None:
        self.partition = str(partition)
        super().__init__(table=table, detail=f"has no partition {partition}")


class NotTransactionalError(_TableError):
    """The table is not transactional."""

    def __init__(self, *, table: object) -> None:
        super().__init__(
            table=table,
            detail="is not transactional; only tables with transactional=true can be changed or"
            " compacted, and have versions",
        )


class InsertOnlyTableError(_TableError):
    """Rows of an insert-only table were to be changed."""

    def __init__(self, *, table: object, operation: str) -> None:
        self.operation = operation
        super().__init__(
            table=table,
            detail=f"is insert-only, so {operation} is impossible: its rows have no identity."
            " Use a full-ACID table (transactional_properties=default)",
        )


class SortedTableError(_TableError):
    """The table has SORTED BY columns."""

    def __init__(self, *, table: object, columns: tuple[str, ...]) -> None:
        self.columns = columns
        super().__init__(
            table=table,
            detail=f"is SORTED BY {', '.join(columns)}; full-ACID files are sorted by row identity,"
            " so sorted tables cannot be written or compacted. Recreate it without SORTED BY",
        )


class UnsupportedTableError(_TableError):
    """The table is of a kind this release does not handle; the message says what to do."""


class TableDiffersError(_TableError):
    """A table that was to be made exists already, with another shape."""

    def __init__(self, *, table: object, differences: tuple[str, ...]) -> None:
        self.differences = differences
        super().__init__(
            table=table,
            detail=f"exists already and is not what was asked for: {'; '.join(differences)}. It was"
            " not touched; change the request, or drop the table",
        )


class DefinitionError(_TableError):
    """What was to be defined is there already, or a definition cannot become what was asked for."""


class UnknownColumnError(_TableError):
    """A column was named that the table does not have."""

    def __init__(self, *, table: object, column: str, known: tuple[str, ...]) -> None:
        self.column, self.known = column, known
        super().__init__(table=table, detail=f"has no column {column!r}; it has {', '.join(known)}")


class PartitionColumnUpdateError(_TableError):
    """A partition column was to be updated."""

    def __init__(self, *, table: object, column: str) -> None:
        self.column = column
        super().__init__(
            table=table,
            detail=f"partition column {column!r} cannot be updated; delete the row and insert it"
            " again",
        )


class BucketColumnUpdateError(_TableError):
    """A bucket column was to be updated."""

    def __init__(self, *, table: object, column: str) -> None:
        self.column = column
        super().__init__(
            table=table,
            detail=f"bucket column {column!r} cannot be updated; delete the row and insert it"
            " again",
        )


class TypeMismatchError(_TableError):
    """A value's type does not fit the column."""

    def __init__(self, *, table: object, column: str, column_type: str, value_type: str) -> None:
        self.column, self.column_type, self.value_type = column, column_type, value_type
        super().__init__(
            table=table,
            detail=f"column {column!r} is {column_type}, the value is {value_type}, which does not"
            " fit; cast it",
        )


class StructFieldsError(_TableError):
    """A struct value has other fields than the column that it goes to."""

    def __init__(
        self, *, table: object, path: str, missing: tuple[str, ...], unknown: tuple[str, ...]
    ) -> None:
        self.path, self.missing, self.unknown = path, missing, unknown
        wrong = [
            *([f"lacks {', '.join(missing)}"] if missing else []),
            *([f"has {', '.join(unknown)}, which the column does not"] if unknown else []),
        ]
        super().__init__(
            table=table,
            detail=f"the struct for {path!r} {' and '.join(wrong)}; structs are stored by the names"
            " of their fields, so name each field of the column once",
        )


class ExpressionError(_TableError):
    """A condition or expression cannot be resolved."""

    def __init__(self, *, table: object, expression: str, reason: str) -> None:
        self.expression, self.reason = expression, reason
        super().__init__(table=table, detail=f"cannot use the expression {expression!r}: {reason}")


class SourceUnreadableError(InputError):
    """The source of an insert or merge is not what it was said to be: another format or query."""

    def __init__(self, *, source: str, reason: str) -> None:
        self.source, self.reason = source, reason
        super().__init__(f"source {source}: {reason}")


class VersionRangeError(_TableError):
    """A range of versions ends before it begins."""

    def __init__(self, *, table: object, since: int, until: int) -> None:
        self.since, self.until = since, until
        super().__init__(
            table=table,
            detail=f"there are no changes since version {since} until version {until}: the range"
            " ends before it begins. Give the earlier one as since",
        )


class MergeCardinalityError(_TableError):
    """More than one source row matched one target row."""

    def __init__(self, *, table: object, count: int, example: str) -> None:
        self.count, self.example = count, example
        super().__init__(
            table=table,
            detail=f"{count} target row(s) are matched by more than one source row (first:"
            f" {example}); nothing was written. Make the source unique on the join keys",
        )


class ConstraintViolationError(_TableError):
    """A new row that the table's NOT NULL or CHECK does not allow."""

    def __init__(self, *, table: object, constraint: str, demand: str) -> None:
        self.constraint, self.demand = constraint, demand
        super().__init__(
            table=table,
            detail=f"demands {demand} (constraint {constraint}), and a new row is otherwise;"
            " nothing was written. Leave such rows out, give them other values, or drop the"
            " constraint",
        )


class ConversionRefusedError(_TableError):
    """A table cannot be converted, or would not have the same rows; it is what it was."""

    def __init__(self, *, table: object, to: str, why: str) -> None:
        self.to, self.why = to, why
        super().__init__(table=table, detail=f"cannot become {to}: {why}. Nothing was changed")


class StatementOrderError(InputError):
    """Statements of one transaction that its files could not tell apart, in this order."""

    def __init__(self, *, table: object, statement: int, overwriting: int) -> None:
        self.table, self.statement, self.overwriting = table, statement, overwriting
        super().__init__(
            f"statement {statement} changes table {table}, which statement {overwriting} of the"
            " same transaction overwrites: readers take an overwrite's files for all that a"
            f" transaction has written there. Make statement {statement} a part of the overwrite's"
            " query, put it before the overwrite, or give it a transaction of its own"
        )


class SharedTargetError(InputError):
    """INSERTs of one FROM clause that write the same place, which one of them overwrites."""

    def __init__(self, *, table: object, statement: int, other: int) -> None:
        self.table, self.statement, self.other = table, statement, other
        super().__init__(
            f"INSERTs {other} and {statement} of one FROM clause write table {table}, and one of"
            " them overwrites it, which would remove what the other writes. Make one INSERT of"
            " both, with UNION ALL, or name different static partitions"
        )


class VersionUnknownError(_TableError):
    """The table has no such version, or the time that was asked for is far ahead."""


class VersionDoubtfulError(_TableError):
    """Nobody knows whether some writes were committed by a time.

    `doubtful` says of each what is known. `before` is the version without any of them, 0 if there
    is none, and `after` the one with all of them.
    """

    def __init__(
        self, *, table: object, when: str, doubtful: tuple[str, ...], before: int, after: int
    ) -> None:
        self.when, self.doubtful, self.before, self.after = when, doubtful, before, after
        first = "; ".join(doubtful[:_MOST_SHOWN])
        more = len(doubtful) - _MOST_SHOWN
        without = f"version {before}, without them, or " if before else ""
        super().__init__(
            table=table,
            detail=f"what was committed at {when} is not known exactly: {first}"
            + (f"; and {more} more" if more > 0 else "")
            + f". Ask for {without}version {after}, with them",
        )


class TagTakenError(_TableError):
    """A tag of that name stands for another version."""

    def __init__(self, *, table: object, tag: str, stands_for: str) -> None:
        self.tag, self.stands_for = tag, stands_for
        super().__init__(
            table=table,
            detail=f"has a tag {tag!r} for {stands_for}; remove it first, or choose another name",
        )


class RerunRefusedError(_TableError):
    """The job has been done before, and the user asked for an error in that case."""

    def __init__(self, *, table: object, job_key: str, txn_id: int, when: str) -> None:
        self.job_key, self.txn_id, self.when = job_key, txn_id, when
        super().__init__(
            table=table,
            detail=f"{job_key} was done by {_earlier(txn_id)} at {when} and on_rerun is 'fail'."
            " Nothing was written; with on_rerun='apply' a cleared task applies its change again",
        )


class StatementChangedError(_TableError):
    """The job has been done before under this key, but as another statement."""

    def __init__(
        self, *, table: object, job_key: str, txn_id: int, when: str, differing: tuple[str, ...]
    ) -> None:
        self.job_key, self.txn_id, self.when = job_key, txn_id, when
        self.differing = differing
        super().__init__(
            table=table,
            detail=f"{_earlier(txn_id)} did {job_key} at {when} with another"
            f" {', '.join(differing)}, so this is no mere repetition. Nothing was written."
            " Clear the task, with on_rerun=apply, to apply the new statement as well",
        )


def _earlier(txn_id: int) -> str:
    """Who did it: not every definition needs a transaction."""
    return f"transaction {txn_id}" if txn_id else "an earlier try"


class MetastoreUnavailableError(MetastoreError, RetryableError):
    """No metastore of the list could be reached, or the connection broke or timed out."""

    def __init__(self, *, uris: tuple[str, ...], method: str, reason: str) -> None:
        self.uris, self.method, self.reason = uris, method, reason
        super().__init__(
            f"metastore {', '.join(uris)} did not answer {method}: {reason}. Check that it runs and"
            " is reachable"
        )


class MetastoreLoginError(MetastoreError):
    """Every metastore of the list, or Kerberos, refused the login for a reason that stays."""

    def __init__(self, *, uris: tuple[str, ...], reason: str) -> None:
        self.uris, self.reason = uris, reason
        super().__init__(f"no login at metastore {', '.join(uris)}: {reason}")


class MetastoreVersionError(MetastoreError):
    """The server is too old or too new for what is needed."""


class MetastoreCallError(MetastoreError):
    """The server refused a call."""

    def __init__(self, *, method: str, reason: str) -> None:
        self.method, self.reason = method, reason
        super().__init__(f"the metastore refused {method}: {reason}")


class TransactionAbortedError(TransactionError, RetryableError):
    """The transaction was aborted by the server: it timed out or somebody aborted it."""

    def __init__(self, *, txn_id: int, reason: str) -> None:
        self.txn_id, self.reason = txn_id, reason
        super().__init__(
            f"transaction {txn_id} is aborted: {reason}. None of its changes are visible"
        )


class WriteConflictError(TransactionError, RetryableError):
    """Another transaction changed the same partition and committed first.

    `winner` is whose it was, as far as anybody knows; `policies` are those of the tables.
    """

    def __init__(self, *, txn_id: int, reason: str, winner: Winner | None = None) -> None:
        self.txn_id, self.reason, self.winner = txn_id, reason, winner or Winner()
        self.policies: dict[str, str] = {}
        super().__init__(
            f"transaction {txn_id} lost against another writer: {reason}. None of its changes are"
            " visible"
        )


class OvertakenError(TransactionError, RetryableError):
    """Somebody who began later changed what this transaction was to read or to add to."""

    def __init__(self, *, table: object, txn_id: int, why: str) -> None:
        self.table, self.txn_id, self.why = str(table), txn_id, why
        super().__init__(
            f"table {table}: transaction {txn_id} was overtaken: {why}. None of its changes are"
            " visible; run it again"
        )


class TableChangedError(TransactionError, RetryableError):
    """The table's definition changed between the check of the statement and its locks."""

    def __init__(self, *, table: object, what: str) -> None:
        self.table, self.what = str(table), what
        super().__init__(
            f"table {table}: its {what} changed while the job began. Nothing was written; run it"
            " again"
        )


class LockNotAcquiredError(TransactionError, RetryableError):
    """A lock was not granted within its bound; the waiting request was taken back."""

    def __init__(
        self, *, tables: tuple[str, ...], lock_id: int, waited_s: float, holders: str
    ) -> None:
        self.tables, self.lock_id, self.waited_s, self.holders = tables, lock_id, waited_s, holders
        super().__init__(
            f"no lock on {', '.join(tables)} after {waited_s:.1f} s (lock {lock_id}); held by:"
            f" {holders or 'unknown'}. SHOW LOCKS tells more; raise lock_timeout_s or try again"
            " later"
        )


class VersionNotSettledError(TransactionError, RetryableError):
    """A write at or below the version is still open, so the version's rows could change."""

    def __init__(self, *, table: object, version: int, write_id: int, who: str = "") -> None:
        self.table, self.version, self.write_id, self.who = str(table), version, write_id, who
        super().__init__(
            f"table {table}: version {version} is not settled, since write ID {write_id} is still"
            f" open{who and f' ({who})'}; try again when it has ended, or ask for version"
            f" {write_id - 1}"
        )


class VersionNotYetError(TransactionError, RetryableError):
    """The time that was asked for is not over yet by the metastore's clock, which may lag behind.

    A run's own `data_interval_end` is that of Airflow's clock.
    """

    def __init__(self, *, table: object, when: str, now: str) -> None:
        self.table, self.when, self.now = str(table), when, now
        super().__init__(
            f"table {table}: has no state at {when} yet; by the metastore's clock it is {now}. Try"
            " again when that time is over"
        )


class KeepingRefusedError(TransactionError, RetryableError):
    """A compaction is on its way whose cleaning may remove what is to be kept."""

    def __init__(self, *, table: object, waiting: str) -> None:
        self.table, self.waiting = str(table), waiting
        super().__init__(
            f"table {table}: nothing is kept yet, since {waiting} and its cleaning may remove"
            " files; try again when it is done"
        )


class FencedError(TransactionError):
    """A newer copy of the same task runs; this one has withdrawn."""

    def __init__(self, *, job_key: str, txn_id: int, newer_txn_id: int) -> None:
        self.job_key, self.txn_id, self.newer_txn_id = job_key, txn_id, newer_txn_id
        super().__init__(
            f"transaction {txn_id} of {job_key} has withdrawn: transaction {newer_txn_id} of the"
            " same task is newer"
        )


class CommitStateUnknownError(TransactionError):
    """The answer to commit was lost and its fate could not be found out; nothing was undone."""

    def __init__(self, *, txn_id: int, reason: str) -> None:
        self.txn_id, self.reason = txn_id, reason
        super().__init__(
            f"transaction {txn_id} may or may not be committed: {reason}. Nothing was deleted; run"
            " the task again: it finds out by its job key and does not apply the change twice"
        )


class LocationNotFoundError(StorageError, RetryableError):
    """A table's or partition's directory is not there: dropped meanwhile, or a wrong path."""

    def __init__(self, *, location: str) -> None:
        self.location = location
        super().__init__(
            f"location {location} does not exist; was its table or partition dropped or moved a"
            " moment ago? If not, check the path"
        )


class SourceNotFoundError(StorageError, RetryableError):
    """The source of an insert or merge is not there, or holds no files yet."""

    def __init__(self, *, source: str, reason: str) -> None:
        self.source, self.reason = source, reason
        super().__init__(f"source {source}: {reason}")


class StoreUnavailableError(StorageError, RetryableError):
    """A store could not be reached, does not know us just now, or takes no changes for now."""

    def __init__(self, *, location: str, action: str, reason: str) -> None:
        self.location, self.action, self.reason = location, action, reason
        super().__init__(f"cannot {action} {location} for now: {reason}")


class EarlierRunUnknownError(TransactionError):
    """An earlier try of this job may have been committed, and nothing is left that tells."""

    def __init__(self, *, table: object, job_key: str, txn_id: int, when: str, why: str) -> None:
        self.table, self.job_key, self.txn_id, self.when = str(table), job_key, txn_id, when
        self.why = why
        super().__init__(
            f"table {table}: transaction {txn_id} of {job_key} was about to commit at {when};"
            f" {why}. Nothing was written. Look whether the change is in the table; clear the task"
            " to apply it (again)"
        )


class LocationPermissionError(StorageError):
    """The location may not be read or written."""

    def __init__(self, *, location: str, action: str, reason: str) -> None:
        self.location, self.action, self.reason = location, action, reason
        super().__init__(f"no permission to {action} {location}: {reason}")


class DirectoryExistsError(StorageError):
    """A directory that was to be published exists already."""

    def __init__(self, *, path: str) -> None:
        self.path = path
        super().__init__(
            f"{path} exists already; it was not touched. Another compactor may be at work; or, if"
            " this is a transaction's own directory, write IDs have begun anew over old files: the"
            " metastore was restored from a backup, or the table made again over an old location."
            " Then move the old files away"
        )


class CorruptFileError(StorageError):
    """A file is not readable as what its name says it is."""

    def __init__(self, *, path: str, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(f"{path} is damaged: {reason}. Nothing was written")


class DanglingDeleteError(StorageError):
    """A delete event points at a row that no live file can hold."""

    def __init__(self, *, path: str, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(f"{path} holds delete events without their rows: {reason}")


class NotEnoughHistoryError(StorageError, RetryableError):
    """The snapshot is older than every base that is left.

    That of a table's first major compaction, if a write was open when the snapshot was taken: its
    name says nothing of who may read it, so that Hive 3.1 and Trino can. The next try sees it.
    """

    def __init__(self, *, location: str, high_watermark: int, oldest_base: str) -> None:
        self.location, self.high_watermark, self.oldest_base = location, high_watermark, oldest_base
        super().__init__(
            f"{location}: not enough history for write ID {high_watermark}; the oldest base left is"
            f" {oldest_base}. Read a newer snapshot"
        )


class VersionGoneError(StorageError):
    """What is left of a table does not hold a version any more, or nobody can prove that it does.

    `oldest` is the oldest version that can be read, 0 where nobody knows.
    """

    def __init__(self, *, table: object, what: str, oldest: int, why: str) -> None:
        self.table, self.what, self.oldest, self.why = str(table), what, oldest, why
        if oldest:
            text = f"{what} is compacted away: the oldest readable version is {oldest} ({why})"
        else:
            text = f"{what} is not there any more ({why}). Ask for a later one, or the present"
        super().__init__(f"table {table}: {text}")


class ChangesGoneError(StorageError):
    """What was changed in a range of versions cannot be told from the files that are left.

    `oldest` is the oldest version since which it can be told, 0 where nobody knows.
    """

    def __init__(self, *, table: object, since: int, oldest: int, why: str) -> None:
        self.table, self.since, self.oldest, self.why = str(table), since, oldest, why
        told = f" The oldest version since which they can be read is {oldest}." if oldest else ""
        super().__init__(
            f"the changes of {table} since version {since} are gone: {why}.{told} Read the table as"
            " a whole (of a feed, when_gone='whole' does), and its changes from there"
        )


class FeedError(StorageError):
    """A feed of changes cannot go on from where it stopped; somebody has to begin it anew."""

    def __init__(self, *, location: str, reason: str) -> None:
        self.location, self.reason = location, reason
        super().__init__(
            f"the feed at {location} cannot go on: {reason}. Remove it, or give another location,"
            " and it begins with the table as a whole"
        )


class FeedOvertakenError(StorageError, RetryableError):
    """Somebody else went on with a feed of changes meanwhile, as an earlier try that was lost."""

    def __init__(self, *, location: str) -> None:
        self.location = location
        super().__init__(
            f"{location} was written by somebody else meanwhile, and was not touched. Try again:"
            " what this task wrote itself is found, and else the feed goes on from there. If it is"
            " there without a _changes.json, nobody wrote it: remove it"
        )


class UnsupportedFileError(StorageError):
    """A file has a form this release does not handle."""

    def __init__(self, *, path: str, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(f"{path} cannot be handled: {reason}")


class ResultUnwritableError(StorageError):
    """A driver cannot write where its result has to go; it found out before it began anything."""

    def __init__(self, *, place: str, user: str, reason: str) -> None:
        self.place, self.user, self.reason = place, user, reason
        super().__init__(
            f"the driver, whose user is {user}, cannot write its result to {place}: {reason}."
            " Nothing was begun. In cluster mode that lies below result_dir (operator argument, or"
            " field of the metastore's connection): let this user make directories there, or name"
            " another place that workers and drivers both reach"
        )


class ClusterError(HiveAcidError):
    """Whoever runs our drivers could not be asked, or has not run one."""


class ClusterUnavailableError(ClusterError, RetryableError):
    """YARN's resource manager gave no answer that can be used."""

    def __init__(self, *, asked: str, reason: str) -> None:
        self.asked, self.reason = asked, reason
        super().__init__(
            f"YARN's resource manager does not say {asked}: {reason}. It is asked at"
            " yarn_resourcemanager_webapp_address of the Spark connection, else as yarn-site.xml in"
            " HADOOP_CONF_DIR says"
        )


class ClusterRefusedError(ClusterError):
    """YARN's resource manager answers, and does not take our login, or lets us not do this."""

    def __init__(self, *, asked: str, reason: str) -> None:
        self.asked, self.reason = asked, reason
        super().__init__(
            f"YARN's resource manager does not tell us {asked}: {reason}. With Kerberos it is asked"
            " by principal and keytab of the operator or of the Spark connection, else by the"
            " tickets of KRB5CCNAME or the keytab of KRB5_CLIENT_KTNAME; without, in the name of"
            " proxy_user, HADOOP_USER_NAME or the worker's user; any other login is yarn_rm_auth of"
            " the operator. That user has to have the right to see and to end the application. One"
            " that runs goes on meanwhile, and may commit: the next try asks first what it did"
        )


class KubernetesUnavailableError(ClusterUnavailableError):
    """The API server of Kubernetes gave no answer that can be used."""

    def __init__(self, *, asked: str, reason: str) -> None:
        self.asked, self.reason = asked, reason
        # Past its parent, whose sentence is of another server.
        super(ClusterUnavailableError, self).__init__(
            f"the API server of Kubernetes does not say {asked}: {reason}. It is asked where the"
            " Spark connection's master is, with the login that spark-submit has: settings"
            " spark.kubernetes.authenticate.*, else KUBECONFIG, else the pod's service account"
        )


class KubernetesRefusedError(ClusterRefusedError):
    """The API server of Kubernetes answers, and does not take our login, or lets us not do this."""

    def __init__(self, *, asked: str, reason: str) -> None:
        self.asked, self.reason = asked, reason
        super(ClusterRefusedError, self).__init__(
            f"the API server of Kubernetes does not tell us {asked}: {reason}. It is asked with the"
            " login that spark-submit has: settings spark.kubernetes.authenticate.*, else"
            " KUBECONFIG, else the pod's service account; that one has to have the right to get,"
            " list and delete pods of the namespace. A driver that runs goes on meanwhile, and may"
            " commit: the next try asks first what it did"
        )


class ApplicationNotStartedError(ClusterError, RetryableError):
    """An application got no container in time; it was ended, and nothing was written.

    `queue` is YARN's; on Kubernetes it is the namespace, which `place` calls by its name.
    """

    def __init__(  # noqa: PLR0913 - one sentence for both clusters
        self,
        *,
        application: str,
        queue: str,
        waited_s: float,
        diagnostics: str,
        place: str = "queue",
        waited_for: str = "YARN to start its driver's or application master's container",
    ) -> None:
        self.application, self.queue = application, queue
        self.waited_s, self.diagnostics = waited_s, diagnostics
        what = f"{application} in {place} {queue}" if application else "spark-submit"
        why = diagnostics.strip() or "it does not say why"
        super().__init__(
            f"{what} has waited {waited_s:.0f} s for {waited_for}, and was ended: {why}. Nothing"
            " was written. start_timeout_s (operator argument, or option of section [hiveacid]) is"
            " how long it may wait"
        )


class ApplicationForgottenError(ClusterError, RetryableError):
    """Nothing is known of an application that was submitted, and it left no result."""

    def __init__(self, *, application: str, cluster: str = "YARN") -> None:
        self.application = application
        super().__init__(
            f"{cluster} knows nothing of {application} any more, and it left no result. It may have"
            " committed: a retry asks the metastore, and does only what was not done"
        )


class ExecutorsMissingError(ClusterError, RetryableError):
    """A driver runs, and the cluster gives it no executor; nothing was begun."""

    def __init__(self, *, application: str, master: str, waited_s: float) -> None:
        self.application, self.master, self.waited_s = application, master, waited_s
        super().__init__(
            f"{application} at {master} has waited {waited_s:.0f} s for its first executor: the"
            " cluster or queue is full, or none of its nodes can give what an executor asks for."
            " Nothing was begun. start_timeout_s (operator argument, or option of section"
            " [hiveacid]) is how long it may wait"
        )


class PartitionsFailedError(RetryableError):
    """Maintenance of some partitions failed; the others are done and need not be repeated."""

    def __init__(self, *, table: object, failed: Mapping[str, str], of: int) -> None:
        self.table, self.failed, self.of = str(table), dict(failed), of
        first = islice(self.failed.items(), _MOST_SHOWN)
        lines = "".join(f"\n  {name}: {why}" for name, why in first)
        more = len(self.failed) - _MOST_SHOWN
        super().__init__(
            f"table {table}: {len(self.failed)} of {of} partitions failed; the others are done and"
            f" need not be repeated. Failed:{lines}"
            + (f"\n  and {more} more, which the application's log names" if more > 0 else "")
        )


class JobFailedError(HiveAcidError):
    """The Spark application ended without saying why in a typed way."""


def error_class(name: str) -> type[HiveAcidError]:
    """Find the class with this name in the tree; an unknown name gives `JobFailedError`."""
    pending: list[type[HiveAcidError]] = [HiveAcidError]
    while pending:
        candidate = pending.pop()
        if candidate.__name__ == name:
            return candidate
        pending.extend(candidate.__subclasses__())
    return JobFailedError


def rebuild(name: str, message: str) -> HiveAcidError:
    """Make an error of the named class that carries only its message, as across the seam."""
    cls = error_class(name)
    error = cls.__new__(cls)
    Exception.__init__(error, message)
    return error
