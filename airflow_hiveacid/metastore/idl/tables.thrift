/*
 * Table and partition definitions, for the calls that hmsclient's Hive 2.3 stubs cannot make without
 * loss: creating an ACID table on 4.x needs the client's capabilities, statistics of an ACID table
 * are changed under a write ID, and a table sent back with 2.3 structs forgets its catalog and the
 * kind of its owner.
 */
namespace py airflow_hiveacid.metastore.gen.tables

enum PrincipalType {
  USER = 1
  ROLE = 2
  GROUP = 3
}

enum ClientCapability {
  TEST_CAPABILITY = 1
  /* Without it the server does not show insert-only tables. */
  INSERT_ONLY_TABLES = 2
}

/* Fields that are left out belong to privileges and to databases of other systems. */
struct Database {
  1: string name
  2: string description
  /* On 4.x where external tables go, on 3.1 where all go. */
  3: string locationUri
  4: map<string, string> parameters
  6: optional string ownerName
  7: optional PrincipalType ownerType
  8: optional string catalogName
  /* 4.x: where managed tables go. */
  10: optional string managedLocationUri
}

struct FieldSchema {
  1: string name
  2: string type
  3: string comment
}

struct SerDeInfo {
  1: string name
  2: string serializationLib
  3: map<string, string> parameters
}

/* 1 is ascending, 0 is descending. */
struct Order {
  1: string col
  2: i32 order
}

/*
 * Number 3, a map keyed by lists, is left out: what 0.17 generates for Python cannot read such a key.
 * So a skewed table can be read, and must not be sent back.
 */
struct SkewedInfo {
  1: list<string> skewedColNames
  2: list<list<string>> skewedColValues
}

struct StorageDescriptor {
  1: list<FieldSchema> cols
  2: string location
  3: string inputFormat
  4: string outputFormat
  5: bool compressed
  6: i32 numBuckets
  7: SerDeInfo serdeInfo
  8: list<string> bucketCols
  9: list<Order> sortCols
  10: map<string, string> parameters
  11: optional SkewedInfo skewedInfo
  12: optional bool storedAsSubDirectories
}

struct Table {
  1: string tableName
  2: string dbName
  3: string owner
  /* Seconds since 1970. */
  4: i32 createTime
  5: i32 lastAccessTime
  6: i32 retention
  7: StorageDescriptor sd
  8: list<FieldSchema> partitionKeys
  9: map<string, string> parameters
  10: string viewOriginalText
  11: string viewExpandedText
  12: string tableType
  14: optional bool temporary
  15: optional bool rewriteEnabled
  17: optional string catName
  18: optional PrincipalType ownerType
  /* 4.x, as all that follow. */
  19: optional i64 writeId
  20: optional bool isStatsCompliant
  22: optional i8 accessType
  23: optional list<string> requiredReadCapabilities
  24: optional list<string> requiredWriteCapabilities
  25: optional i64 id
  28: optional i64 txnId
}

struct Partition {
  1: list<string> values
  2: string dbName
  3: string tableName
  4: i32 createTime
  5: i32 lastAccessTime
  6: StorageDescriptor sd
  7: map<string, string> parameters
  9: optional string catName
  /* 4.x, as all that follow. */
  10: optional i64 writeId
  11: optional bool isStatsCompliant
}

struct ClientCapabilities {
  1: required list<ClientCapability> values
}

struct GetTableRequest {
  1: required string dbName
  2: required string tblName
  3: optional ClientCapabilities capabilities
  4: optional string catName
}

struct GetTableResult {
  1: required Table table
}

struct EnvironmentContext {
  1: map<string, string> properties
}

/* 4.x. */
struct CreateTableRequest {
  1: required Table table
  2: optional EnvironmentContext envContext
  /* Such as HIVEFULLACIDWRITE; without any the server refuses to create an ACID table. */
  9: optional list<string> processorCapabilities
  10: optional string processorIdentifier
}

/* 4.x, as all that follow. The write ID and the list let statistics of an ACID table be changed. */
struct AlterTableRequest {
  1: optional string catName
  2: required string dbName
  3: required string tableName
  4: required Table table
  5: optional EnvironmentContext environmentContext
  6: optional i64 writeId
  7: optional string validWriteIdList
}

struct AlterTableResponse {
}

struct AlterPartitionsRequest {
  1: optional string catName
  2: required string dbName
  3: required string tableName
  4: required list<Partition> partitions
  5: optional EnvironmentContext environmentContext
  6: optional i64 writeId
  7: optional string validWriteIdList
}

struct AlterPartitionsResponse {
}
