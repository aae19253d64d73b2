"""All error classes: what can go wrong, and whether the cause is temporary ("retryable").

    HiveAcidError
    |- InputError                      the request cannot be carried out; nothing was written
    |  |- ConfigurationError           a connection, option or file system setting is wrong
    |  |- ContractVersionError         operator and application have different contract versions
    |  |- SqlTextError                 a SQL statement cannot be executed as written
    |  |- InvalidNameError             a table, partition or directory name is invalid
    |  |- TableNotFoundError           |- PartitionNotFoundError
    |  |- NotTransactionalError        |- InsertOnlyTableError       |- SortedTableError
    |  |- UnsupportedTableError        |- TableDiffersError          |- DefinitionError
    |  |- UnknownColumnError           |- ColumnUpdateError          |- TypeMismatchError
    |  |- StructFieldsError            |- ExpressionError            |- SourceUnreadableError
    |  |- VersionRangeError            |- UnsafeTextError
    |  |- SparkNeededError             the engine in one process cannot run the statement
    |  |- ConstraintViolationError     a new row violates NOT NULL or CHECK
    |  |- ValueTooLargeError           a value or plan does not fit into the driver's memory
    |  |- ConversionRefusedError       a table cannot be converted to the requested kind
    |  |- OtherOwnerError              the directory belongs to another table or metastore
    |  |- StatementOrderError          one transaction cannot run these statements in this order
    |  |- SharedTargetError            two INSERTs of one FROM clause write to the same target
    |  |- MergeCardinalityError        two source rows match one target row
    |  |- SourceKeyError               rows to upsert have no key, or one key twice
    |  |- TwinRowIdsError              two rows of the table have one row ID
    |  |- VersionUnknownError          the table has no such version, or the time is too far ahead
    |  |- VersionDoubtfulError         it is unknown which writes were committed by that time
    |  |- TagTakenError                a tag with this name exists for a different version
    |  |- RerunRefusedError            the job was done before, and on_rerun is 'fail'
    |  `- StatementChangedError        the job was done before with a different statement
    |- MetastoreError
    |  |- MetastoreUnavailableError    retryable
    |  |  |- MetastoreInternalError    the server failed during the call
    |  |  `- MetastoreAnswerError      the response belongs to another call, or is unreadable
    |  |- ConnectionUnavailableError   retryable: Airflow did not return the connection
    |  |- MetastoreLoginError          Kerberos or the metastore rejects our login
    |  |- MetastoreVersionError        the server's version does not support the request
    |  `- MetastoreCallError           the server refused a call
    |- TransactionError
    |  |- TransactionAbortedError      retryable: timed out or killed
    |  |- WriteConflictError           retryable: another writer committed first
    |  |- OvertakenError               retryable: another transaction changed data we depend on
    |  |- TableChangedError            retryable: the definition changed after it was checked
    |  |- LockNotAcquiredError         retryable: waiting for the lock timed out
    |  |- SnapshotClosedError          a scan was read after its snapshot was closed or lost
    |  |- VersionNotSettledError       retryable: a write below the version is still open
    |  |- VersionNotYetError           retryable: the time is in the future by the metastore's clock
    |  |- CompactionNotDoneError       retryable: a requested compaction is blocked
    |  |- CompactionFailedError        a queued compaction ended without a result
    |  |- CompactionCancelledError     a user or the server withdrew the running compaction
    |  |- KeepingRefusedError          retryable: a pending compaction may remove files
    |  |- FencedError                  a newer copy of this task is running
    |  |- EarlierRunUnknownError       it is unknown whether an earlier try was committed
    |  `- CommitStateUnknownError      the response to a commit was lost; do not roll back
    |- StorageError
    |  |- LocationNotFoundError        retryable: a directory was dropped or moved
    |  |- SourceNotFoundError          retryable: the source may appear later
    |  |- StoreFullError               no space is left, or a quota is exceeded
    |  |- StoreUnavailableError        retryable: the store is unreachable or rejects requests
    |  |- LocationPermissionError      |- DirectoryExistsError
    |  |- NotEnoughHistoryError        retryable: a table's first base is newer than the snapshot
    |  |- CorruptFileError             |- DanglingDeleteError
    |  |  `- LedgerRollError           it is unknown which jobs have changed the table
    |  |- UnsupportedFileError
    |  |- ErasureNotProvedError        retryable: files still store rows that are to be erased
    |  |- ResultUnwritableError        the job did not start
    |  |- VersionGoneError             the version cannot be read from the remaining files
    |  |- ChangesGoneError             files that show the changes may be deleted
    |  |- FeedError                    the feed cannot continue from its stored position
    |  |- FeedOvertakenError           retryable: another process advanced the feed
    |- ClusterError
    |  |- ClusterUnavailableError      retryable: YARN or Kubernetes does not respond
    |  |- ClusterRefusedError          YARN or Kubernetes responds, but rejects our request
    |  |- ApplicationNotStartedError   retryable: waiting for a container timed out
    |  |- ApplicationForgottenError    retryable: the cluster has forgotten the application
    |  `- ExecutorsMissingError        retryable: the driver got no executor
    |- PartitionsFailedError           retryable: maintenance of some partitions failed
    `- JobFailedError                  the Spark application ended without a typed error
       `- TaskKilledError              Airflow has killed the task

`TableError` is the base class of errors about one table. Every error stores its data in attributes.
The message, `str(error)`, names the table, the problem and the remedy. The driver reports an error
to the operator as (class name, message); `error_class` finds the class by its name.
"""

from __future__ import annotations

from airflow_hiveacid.format.errors.applications import *
from airflow_hiveacid.format.errors.metastore import *
from airflow_hiveacid.format.errors.requests import *
from airflow_hiveacid.format.errors.stores import *
from airflow_hiveacid.format.errors.transactions import *
from airflow_hiveacid.format.errors.tree import *
from airflow_hiveacid.format.errors.versions import *
