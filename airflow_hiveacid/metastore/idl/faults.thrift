/*
 * The exceptions that a Hive 4 metastore declares for its calls.
 *
 * If a call declares no exception, every error becomes a Thrift application error with the text
 * "Internal error processing CALL". Then only the server's log contains the reason.
 */
namespace py airflow_hiveacid.metastore.gen.faults

/* A general error: bad input, a refused operation, a failure of the database. */
exception MetaException {
  1: string message
}

/* The database, table or partition does not exist. */
exception NoSuchObjectException {
  1: string message
}

/* A database, table or partition of this name already exists. */
exception AlreadyExistsException {
  1: string message
}

/* The server does not accept the definition. */
exception InvalidObjectException {
  1: string message
}

/* The server does not accept the change. */
exception InvalidOperationException {
  1: string message
}

/* The server does not disclose the requested setting. */
exception ConfigValSecurityException {
  1: string message
}

/* The transaction never existed, or it has ended and the server has deleted its record. */
exception NoSuchTxnException {
  1: string message
}

/* The transaction was aborted by a client, after a time-out, or by this commit. */
exception TxnAbortedException {
  1: string message
}

/* A lock of an open transaction cannot be released before the transaction ends. */
exception TxnOpenException {
  1: string message
}

/* The lock never existed, or the server has removed it after a time-out. */
exception NoSuchLockException {
  1: string message
}
