/*
 * The compaction queue. 3.1 has only compact2 and show_compact; 4.x adds the calls of a worker.
 */
namespace py airflow_hiveacid.metastore.gen.compaction

/* 3.1 has only 1 and 2. */
enum CompactionType {
  MINOR = 1
  MAJOR = 2
  REBALANCE = 3
  ABORT_TXN_CLEANUP = 4
}

/* The server compares names as they were sent, so send them in lower case. */
struct CompactionRequest {
  1: required string dbname
  2: required string tablename
  3: optional string partitionname
  4: required CompactionType type
  5: optional string runas
  6: optional map<string, string> properties
  /* This and the following fields: 4.x only. */
  7: optional string initiatorId
  8: optional string initiatorVersion
  9: optional string poolName
}

struct CompactionResponse {
  /* If an equal request is already in the queue: its ID on 3.1, and -1 on 4.x. */
  1: required i64 id
  2: required string state
  3: required bool accepted
  /* 4.x only. */
  4: optional string errormessage
}

/* These fields are 4.x only; 3.1 ignores them and returns the whole queue. */
struct ShowCompactRequest {
  3: optional string dbName
  4: optional string tbName
  5: optional string partName
}

struct ShowCompactResponseElement {
  1: required string dbname
  2: required string tablename
  3: optional string partitionname
  4: required CompactionType type
  /* The state in words, such as "initiated" or "ready for cleaning". */
  5: required string state
  6: optional string workerid
  /* Times are milliseconds since 1970. */
  7: optional i64 start
  8: optional string runAs
  /* This is a write ID, although the name says transaction ID. */
  9: optional i64 hightestTxnId
  10: optional string metaInfo
  11: optional i64 endTime
  12: optional string hadoopJobId
  13: optional i64 id
  /* This and the following fields: 4.x only. */
  14: optional string errorMessage
  15: optional i64 enqueueTime
  16: optional string workerVersion
  17: optional string initiatorId
  18: optional string initiatorVersion
  19: optional i64 cleanerStart
  20: optional string poolName
  /* The cleaner waits until all transactions with lower IDs have ended. */
  21: optional i64 nextTxnId
  22: optional i64 txnId
  23: optional i64 commitTime
  /* Hive's definition has the same spelling. */
  24: optional i64 hightestWriteId
}

struct ShowCompactResponse {
  1: required list<ShowCompactResponseElement> compacts
}

/* 4.x only. */
struct FindNextCompactRequest {
  1: optional string workerId
  2: optional string workerVersion
  3: optional string poolName
}

/*
 * 4.x only. An entry of the queue that a worker has claimed. The worker sends all fields back, some
 * of them changed. The server stores all of them in the entry or in the queue's history.
 */
struct CompactionInfoStruct {
  1: required i64 id
  2: required string dbname
  3: required string tablename
  4: optional string partitionname
  5: required CompactionType type
  6: optional string runas
  7: optional string properties
  8: optional bool toomanyaborts
  /* One character. */
  9: optional string state
  10: optional string workerId
  11: optional i64 start
  /* The server reads a missing value as 0; then mark_cleaned forgets too many writes. */
  12: optional i64 highestWriteId
  13: optional string errorMessage
  14: optional bool hasoldabort
  15: optional i64 enqueueTime
  16: optional i64 retryRetention
  17: optional string poolname
}

/* The field is unset if the queue has no entry for this worker. */
struct OptionalCompactionInfoStruct {
  1: optional CompactionInfoStruct ci
}
