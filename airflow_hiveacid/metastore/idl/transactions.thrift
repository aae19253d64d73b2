/*
 * Transactions and write IDs.
 *
 * A comment marks each field that Hive 3.1 lacks; a 3.1 server skips it. Only fields that are sent or
 * read are defined here. The other fields are for replication, statistics and other purposes.
 */
namespace py airflow_hiveacid.metastore.gen.transactions

/* Sent only to 4.x. A read-only transaction must not allocate write IDs. */
enum TxnType {
  DEFAULT = 0
  REPL_CREATED = 1
  READ_ONLY = 2
  COMPACTION = 3
  MATER_VIEW_REBUILD = 4
  SOFT_DELETE = 5
  REBALANCE_COMPACTION = 6
}

enum TxnState {
  COMMITTED = 1
  ABORTED = 2
  OPEN = 3
}

struct OpenTxnRequest {
  1: required i32 num_txns
  2: required string user
  3: required string hostname
  /* The server accepts this value but never returns it. */
  4: optional string agentInfo
  /* 4.x only. */
  7: optional TxnType txn_type
}

struct OpenTxnsResponse {
  1: required list<i64> txn_ids
}

/*
 * 4.x only. A client recognizes a 4.x server by its support for this request. The list must be sent,
 * empty if nothing is excluded: 4.0.1 fails without it.
 */
struct GetOpenTxnsRequest {
  1: optional list<TxnType> excludeTxnTypes
}

struct GetOpenTxnsResponse {
  1: required i64 txn_high_water_mark
  /* Open and aborted transactions, ascending. */
  2: required list<i64> open_txns
  /* Unset if no transaction is open. */
  3: optional i64 min_open_txn
  /* Bit i is set if open_txns[i] is aborted; bit 0 is the lowest bit of the first byte. */
  4: required binary abortedBits
}

struct TxnInfo {
  1: required i64 id
  2: required TxnState state
  3: required string user
  4: required string hostname
  5: optional string agentInfo
  6: optional i32 heartbeatCount
  7: optional string metaInfo
  /* Milliseconds since 1970, by the clock of the server's database. */
  8: optional i64 startedTime
  9: optional i64 lastHeartbeatTime
}

struct GetOpenTxnsInfoResponse {
  1: required i64 txn_high_water_mark
  2: required list<TxnInfo> open_txns
}

struct AbortTxnRequest {
  1: required i64 txnid
}

struct CommitTxnRequest {
  1: required i64 txnid
  /*
   * 4.x only. True means that all writers hold exclusive locks; then the server does NOT check for
   * write-write conflicts. The server reads a missing value as true, so the default here is false.
   */
  6: optional bool exclWriteEnabled = 0
  /* 4.x only. The server knows the type from `open_txns`. */
  7: optional TxnType txn_type
}

struct HeartbeatRequest {
  1: optional i64 lockid
  2: optional i64 txnid
}

struct HeartbeatTxnRangeRequest {
  /* Both ends inclusive. */
  1: required i64 min
  2: required i64 max
}

struct HeartbeatTxnRangeResponse {
  1: required set<i64> aborted
  2: required set<i64> nosuch
}

struct AllocateTableWriteIdsRequest {
  1: required string dbName
  2: required string tableName
  3: optional list<i64> txnIds
}

struct TxnToWriteId {
  1: required i64 txnId
  2: required i64 writeId
}

struct AllocateTableWriteIdsResponse {
  1: required list<TxnToWriteId> txnToWriteIds
}

struct MaxAllocatedTableWriteIdRequest {
  1: required string dbName
  2: required string tableName
}

struct MaxAllocatedTableWriteIdResponse {
  1: required i64 maxWriteId
}

struct GetValidWriteIdsRequest {
  /* Each name is "db.table". */
  1: required list<string> fullTableNames
  /* A valid transaction list as text. 3.1 requires the list, and cannot read ranges in it. */
  2: optional string validTxnList
}

struct TableValidWriteIds {
  1: required string fullTableName
  2: required i64 writeIdHighWaterMark
  /* Open and aborted write IDs, ascending. */
  3: required list<i64> invalidWriteIds
  /* Unset if no write ID is open. */
  4: optional i64 minOpenWriteId
  /* As in GetOpenTxnsResponse. */
  5: required binary abortedBits
}

struct GetValidWriteIdsResponse {
  1: required list<TableValidWriteIds> tblValidWriteIds
}
