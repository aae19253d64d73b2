/*
 * The calls. Messages contain only the method's name and the numbers of its arguments and exceptions.
 */
include "compaction.thrift"
include "constraints.thrift"
include "faults.thrift"
include "locks.thrift"
include "notifications.thrift"
include "places.thrift"
include "tables.thrift"
include "transactions.thrift"

namespace py airflow_hiveacid.metastore.gen.service

service Metastore {
  /* The first call on a connection without a login. It returns the user's groups. */
  list<string> set_ugi(1: string user_name, 2: list<string> group_names)
      throws (1: faults.MetaException o1)
  /* A setting of the server, or the caller's default. */
  string get_config_value(1: string name, 2: string defaultValue)
      throws (1: faults.ConfigValSecurityException o1)
  /* The ID of the metastore's database. A restored dump has the ID of the original. */
  string get_metastore_db_uuid() throws (1: faults.MetaException o1)

  void create_database(1: tables.Database database)
      throws (1: faults.AlreadyExistsException o1, 2: faults.InvalidObjectException o2,
              3: faults.MetaException o3)
  tables.GetTableResult get_table_req(1: tables.GetTableRequest req)
      throws (1: faults.MetaException o1, 2: faults.NoSuchObjectException o2)
  /* 3.1 only. */
  void create_table(1: tables.Table tbl)
      throws (1: faults.AlreadyExistsException o1, 2: faults.InvalidObjectException o2,
              3: faults.MetaException o3, 4: faults.NoSuchObjectException o4)
  /* 4.x only. */
  void create_table_req(1: tables.CreateTableRequest request)
      throws (1: faults.AlreadyExistsException o1, 2: faults.InvalidObjectException o2,
              3: faults.MetaException o3, 4: faults.NoSuchObjectException o4)
  /* The response omits partitions that do not exist. */
  list<tables.Partition> get_partitions_by_names(
      1: string db_name, 2: string tbl_name, 3: list<string> names)
      throws (1: faults.MetaException o1, 2: faults.NoSuchObjectException o2)
  /* 3.1 only. */
  void alter_table_with_environment_context(
      1: string dbname, 2: string tbl_name, 3: tables.Table new_tbl,
      4: tables.EnvironmentContext environment_context)
      throws (1: faults.InvalidOperationException o1, 2: faults.MetaException o2)
  void alter_partitions_with_environment_context(
      1: string db_name, 2: string tbl_name, 3: list<tables.Partition> new_parts,
      4: tables.EnvironmentContext environment_context)
      throws (1: faults.InvalidOperationException o1, 2: faults.MetaException o2)
  /* 4.x only. */
  tables.AlterTableResponse alter_table_req(1: tables.AlterTableRequest req)
      throws (1: faults.InvalidOperationException o1, 2: faults.MetaException o2)
  tables.AlterPartitionsResponse alter_partitions_req(1: tables.AlterPartitionsRequest req)
      throws (1: faults.InvalidOperationException o1, 2: faults.MetaException o2)

  /* 3.1 only. */
  constraints.NotNullConstraintsResponse get_not_null_constraints(
      1: constraints.NotNullConstraintsRequest request)
      throws (1: faults.MetaException o1, 2: faults.NoSuchObjectException o2)
  constraints.DefaultConstraintsResponse get_default_constraints(
      1: constraints.DefaultConstraintsRequest request)
      throws (1: faults.MetaException o1, 2: faults.NoSuchObjectException o2)
  constraints.CheckConstraintsResponse get_check_constraints(
      1: constraints.CheckConstraintsRequest request)
      throws (1: faults.MetaException o1, 2: faults.NoSuchObjectException o2)
  /* 4.x only. */
  constraints.AllTableConstraintsResponse get_all_table_constraints(
      1: constraints.AllTableConstraintsRequest request)
      throws (1: faults.MetaException o1, 2: faults.NoSuchObjectException o2)

  transactions.OpenTxnsResponse open_txns(1: transactions.OpenTxnRequest rqst)
  /* On 4.x, read-only transactions are omitted. */
  transactions.GetOpenTxnsResponse get_open_txns()
  /* 4.x only. */
  transactions.GetOpenTxnsResponse get_open_txns_req(
      1: transactions.GetOpenTxnsRequest getOpenTxnsRequest)
  transactions.GetOpenTxnsInfoResponse get_open_txns_info()
  void abort_txn(1: transactions.AbortTxnRequest rqst)
      throws (1: faults.NoSuchTxnException o1)
  void commit_txn(1: transactions.CommitTxnRequest rqst)
      throws (1: faults.NoSuchTxnException o1, 2: faults.TxnAbortedException o2)
  void heartbeat(1: transactions.HeartbeatRequest ids)
      throws (1: faults.NoSuchLockException o1, 2: faults.NoSuchTxnException o2,
              3: faults.TxnAbortedException o3)
  transactions.HeartbeatTxnRangeResponse heartbeat_txn_range(
      1: transactions.HeartbeatTxnRangeRequest txns)

  transactions.AllocateTableWriteIdsResponse allocate_table_write_ids(
      1: transactions.AllocateTableWriteIdsRequest rqst)
      throws (1: faults.NoSuchTxnException o1, 2: faults.TxnAbortedException o2,
              3: faults.MetaException o3)
  transactions.GetValidWriteIdsResponse get_valid_write_ids(
      1: transactions.GetValidWriteIdsRequest rqst)
      throws (1: faults.NoSuchTxnException o1, 2: faults.MetaException o2)
  /* 4.x only. */
  transactions.MaxAllocatedTableWriteIdResponse get_max_allocated_table_write_id(
      1: transactions.MaxAllocatedTableWriteIdRequest rqst)
      throws (1: faults.MetaException o1)
  /* 4.x only. The lowest write IDs that a reader needs, by "db.table"; some servers ignore them. */
  void add_write_ids_to_min_history(1: i64 txnId, 2: map<string, i64> writeIds)
      throws (1: faults.MetaException o2)

  locks.LockResponse lock(1: locks.LockRequest rqst)
      throws (1: faults.NoSuchTxnException o1, 2: faults.TxnAbortedException o2)
  locks.LockResponse check_lock(1: locks.CheckLockRequest rqst)
      throws (1: faults.NoSuchTxnException o1, 2: faults.TxnAbortedException o2,
              3: faults.NoSuchLockException o3)
  void unlock(1: locks.UnlockRequest rqst)
      throws (1: faults.NoSuchLockException o1, 2: faults.TxnOpenException o2)
  locks.ShowLocksResponse show_locks(1: locks.ShowLocksRequest rqst)
  void add_dynamic_partitions(1: locks.AddDynamicPartitions rqst)
      throws (1: faults.NoSuchTxnException o1, 2: faults.TxnAbortedException o2)

  /* The number of the newest event; 0 if the server keeps no log. */
  notifications.CurrentNotificationEventId get_current_notificationEventId()
  /* If the user may not read the log, the result is an internal error. */
  notifications.NotificationEventResponse get_next_notification(
      1: notifications.NotificationEventRequest rqst)

  compaction.CompactionResponse compact2(1: compaction.CompactionRequest rqst)
  compaction.ShowCompactResponse show_compact(1: compaction.ShowCompactRequest rqst)
  /* This and the following calls: 4.x only. This call claims the oldest waiting entry. */
  compaction.OptionalCompactionInfoStruct find_next_compact2(
      1: compaction.FindNextCompactRequest rqst)
      throws (1: faults.MetaException o1)
  /* Records the transaction that compacts, and the highest write ID that it compacts. */
  void update_compactor_state(1: compaction.CompactionInfoStruct cr, 2: i64 txn_id)
  void set_hadoop_jobid(1: string jobId, 2: i64 cq_id)
  void mark_compacted(1: compaction.CompactionInfoStruct cr) throws (1: faults.MetaException o1)
  void mark_cleaned(1: compaction.CompactionInfoStruct cr) throws (1: faults.MetaException o1)
  void mark_failed(1: compaction.CompactionInfoStruct cr) throws (1: faults.MetaException o1)
  void mark_refused(1: compaction.CompactionInfoStruct cr) throws (1: faults.MetaException o1)
}

/* Calls of the same server; only parts of the responses are read. */
service Places {
  list<places.Partition> get_partitions_by_names(
      1: string db_name, 2: string tbl_name, 3: list<string> names)
      throws (1: faults.MetaException o1, 2: faults.NoSuchObjectException o2)
  notifications.EventHeads get_next_notification(
      1: notifications.NotificationEventRequest rqst)
}
