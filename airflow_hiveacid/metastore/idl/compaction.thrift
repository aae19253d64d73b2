/*
 * The compaction queue. 3.1 offers compact2 and show_compact; the worker's half is 4.x.
 */
namespace py airflow_hiveacid.metastore.gen.compaction

/* 3.1 ends at 2. */
enum CompactionType {
  MINOR = 1
  MAJOR = 2
  REBALANCE = 3
  ABORT_TXN_CLEANUP = 4
}

/* Names are compared as they were sent: lower case, please. */
struct CompactionRequest {
  1: required string dbname
  2: required string tablename
  3: optional string partitionname
  4: required CompactionType type
  5: optional string runas
  6: optional map<string, string> properties
  /* 4.x, as all that follow. */
  7: optional string initiatorId
  8: optional string initiatorVersion
  9: optional string poolName
}

struct CompactionResponse {
  /* A request that is in the queue already: 3.1 answers its ID, 4.x answers -1. */
  1: required i64 id
  2: required string state
  3: required bool accepted
  /* 4.x. */
  4: optional string errormessage
}

/* Both fields are 4.x; 3.1 answers with everything. */
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
  /* In words: "initiated", "ready for cleaning". */
  5: required string state
  6: optional string workerid
  /* Times are milliseconds since 1970. */
  7: optional i64 start
  8: optional string runAs
  /* Holds a write ID, in spite of its name. */
  9: optional i64 hightestTxnId
  10: optional string metaInfo
  11: optional i64 endTime
  12: optional string hadoopJobId
  13: optional i64 id
  /* 4.x, as all that follow. */
  14: optional string errorMessage
  15: optional i64 enqueueTime
  16: optional string workerVersion
  17: optional string initiatorId
  18: optional string initiatorVersion
  19: optional i64 cleanerStart
  20: optional string poolName
  /* The cleaner waits until no transaction below this one is open. */
  21: optional i64 nextTxnId
  22: optional i64 txnId
  23: optional i64 commitTime
  /* Spelled so on the other side too, not that a binary protocol cared. */
  24: optional i64 hightestWriteId
}

struct ShowCompactResponse {
  1: required list<ShowCompactResponseElement> compacts
}

/* 4.x. */
struct FindNextCompactRequest {
  1: optional string workerId
  2: optional string workerVersion
  3: optional string poolName
}

/*
 * 4.x. A claimed entry of the queue. The worker sends back what it got, changed where it knows
 * better: the server writes all of it into the entry or into its history.
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
  /* Unset is taken as 0, and mark_cleaned then forgets more than was cleaned. */
  12: optional i64 highestWriteId
  13: optional string errorMessage
  14: optional bool hasoldabort
  15: optional i64 enqueueTime
  16: optional i64 retryRetention
  17: optional string poolname
}

/* Unset: the queue holds nothing for this worker. */
struct OptionalCompactionInfoStruct {
  1: optional CompactionInfoStruct ci
}
