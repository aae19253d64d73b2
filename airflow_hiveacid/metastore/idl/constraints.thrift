/*
 * The constraints on a table's rows. Primary and foreign keys are left out, since Hive does not
 * enforce them. Each struct names the table and the column; the column of a CHECK may be empty. Of
 * Hive's three flags only the first is defined here: it tells whether Hive enforces the constraint.
 */
namespace py airflow_hiveacid.metastore.gen.constraints

struct SQLNotNullConstraint {
  1: string catName
  2: string table_db
  3: string table_name
  4: string column_name
  5: string nn_name
  6: bool enable_cstr
}

struct SQLDefaultConstraint {
  1: string catName
  2: string table_db
  3: string table_name
  4: string column_name
  5: string default_value
  6: string dc_name
  7: bool enable_cstr
}

struct SQLCheckConstraint {
  1: string catName
  2: string table_db
  3: string table_name
  4: string column_name
  5: string check_expression
  6: string dc_name
  7: bool enable_cstr
}

/* The following requests are for 3.1, with one call for each kind. */
struct NotNullConstraintsRequest {
  1: required string catName
  2: required string db_name
  3: required string tbl_name
}

struct NotNullConstraintsResponse {
  1: required list<SQLNotNullConstraint> notNullConstraints
}

struct DefaultConstraintsRequest {
  1: required string catName
  2: required string db_name
  3: required string tbl_name
}

struct DefaultConstraintsResponse {
  1: required list<SQLDefaultConstraint> defaultConstraints
}

struct CheckConstraintsRequest {
  1: required string catName
  2: required string db_name
  3: required string tbl_name
}

struct CheckConstraintsResponse {
  1: required list<SQLCheckConstraint> checkConstraints
}

/* 4.x returns all kinds in one call. */
struct SQLAllTableConstraints {
  4: optional list<SQLNotNullConstraint> notNullConstraints
  5: optional list<SQLDefaultConstraint> defaultConstraints
  6: optional list<SQLCheckConstraint> checkConstraints
}

struct AllTableConstraintsRequest {
  1: required string dbName
  2: required string tblName
  3: required string catName
}

struct AllTableConstraintsResponse {
  1: required SQLAllTableConstraints allTableConstraints
}
