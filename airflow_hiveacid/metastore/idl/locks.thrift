/*
 * Locks, and the record of the partitions that a transaction has written.
 */
namespace py airflow_hiveacid.metastore.gen.locks

enum LockLevel {
  DB = 1
  TABLE = 2
  PARTITION = 3
}

/* 3.1 has only 1 to 3: it reads a 4 as a missing value, and refuses the whole request. */
enum LockType {
  SHARED_READ = 1
  SHARED_WRITE = 2
  EXCLUSIVE = 3
  EXCL_WRITE = 4
}

enum LockState {
  ACQUIRED = 1
  WAITING = 2
  ABORT = 3
  NOT_ACQUIRED = 4
}

enum DataOperationType {
  SELECT = 1
  INSERT = 2
  UPDATE = 3
  DELETE = 4
  UNSET = 5
  NO_TXN = 6
}

struct LockComponent {
  1: required LockType type
  2: required LockLevel level
  3: required string dbname
  4: optional string tablename
  5: optional string partitionname
  6: optional DataOperationType operationType
  /*
   * If false, the server does not record the component as written by the transaction, so conflict
   * detection and compaction ignore it. There is no default, since a default would be sent.
   */
  7: optional bool isTransactional
  /* If true, add_dynamic_partitions names the partitions later. */
  8: optional bool isDynamicPartitionWrite
}

struct LockRequest {
  1: required list<LockComponent> component
  2: optional i64 txnid
  3: required string user
  4: required string hostname
  /* At most 128 characters; show_locks returns it. */
  5: optional string agentInfo
}

struct LockResponse {
  1: required i64 lockid
  2: required LockState state
  /* 4.x only. */
  3: optional string errorMessage
}

struct CheckLockRequest {
  1: required i64 lockid
  2: optional i64 txnid
  3: optional i64 elapsed_ms
}

struct UnlockRequest {
  1: required i64 lockid
}

struct ShowLocksRequest {
  1: optional string dbname
  2: optional string tablename
  3: optional string partname
  /* 4.x only; 3.1 ignores it and returns the locks of all transactions. */
  5: optional i64 txnid
}

/* One component of a lock request. */
struct ShowLocksResponseElement {
  1: required i64 lockid
  2: required string dbname
  3: optional string tablename
  4: optional string partname
  5: required LockState state
  6: required LockType type
  7: optional i64 txnid
  /* Milliseconds since 1970; 0 for a lock of a transaction, which has the heartbeat instead. */
  8: required i64 lastheartbeat
  9: optional i64 acquiredat
  10: required string user
  11: required string hostname
  12: optional i32 heartbeatCount
  13: optional string agentInfo
  14: optional i64 blockedByExtId
  15: optional i64 blockedByIntId
  16: optional i64 lockIdInternal
}

struct ShowLocksResponse {
  1: list<ShowLocksResponseElement> locks
}

struct AddDynamicPartitions {
  1: required i64 txnid
  /* Hive 3 added this field and renumbered the others; for older clients 2 is the database. */
  2: required i64 writeid
  3: required string dbname
  4: required string tablename
  5: required list<string> partitionnames
  /* The server reads a missing value as UPDATE. */
  6: optional DataOperationType operationType
}
