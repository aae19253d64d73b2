/*
 * What a Hive 4 metastore declares that its calls may answer instead of a result.
 *
 * A call that declares nothing answers every fault as a Thrift application error with the text
 * "Internal error processing CALL"; the reason then stays in the server's log.
 */
namespace py airflow_hiveacid.metastore.gen.faults

/* The general one: bad input, a refused operation, a broken database. */
exception MetaException {
  1: string message
}

/* A database, table or partition is unknown. */
exception NoSuchObjectException {
  1: string message
}

/* A database, table or partition of this name is there already. */
exception AlreadyExistsException {
  1: string message
}

/* A definition the server does not accept. */
exception InvalidObjectException {
  1: string message
}

/* A change the server does not accept. */
exception InvalidOperationException {
  1: string message
}

/* The setting asked for is not for clients. */
exception ConfigValSecurityException {
  1: string message
}

/* The transaction was never there, or has ended and been forgotten. */
exception NoSuchTxnException {
  1: string message
}

/* The transaction was aborted: by a client, by the reaper, or by this very commit. */
exception TxnAbortedException {
  1: string message
}

/* A lock that belongs to an open transaction cannot be given back alone. */
exception TxnOpenException {
  1: string message
}

/* The lock was never there, or has been reaped. */
exception NoSuchLockException {
  1: string message
}
