/*
 * The log of events, which a metastore keeps if it was given DbNotificationListener.
 */
namespace py airflow_hiveacid.metastore.gen.notifications

/* Events above a number, in the order of their numbers. */
struct NotificationEventRequest {
  1: required i64 lastEvent
  2: optional i32 maxEvents
  /* 4.x. */
  3: optional list<string> eventTypeSkipList
}

struct NotificationEvent {
  1: required i64 eventId
  /* Seconds since 1970, by the clock of the server's process. */
  2: required i32 eventTime
  3: required string eventType
  4: optional string dbName
  5: optional string tableName
  6: required string message
  /* How the message is written: JSON as it is, or gzip(...) of it in base64. */
  7: optional string messageFormat
  8: optional string catName
}

struct NotificationEventResponse {
  1: required list<NotificationEvent> events
}

struct CurrentNotificationEventId {
  1: required i64 eventId
}

/*
 * The same events without their messages, which may be longer than a text that is read may be: one
 * of thousands of new partitions has 17 MB. What is left out is skipped while it is read. Never sent.
 */
struct EventHead {
  1: required i64 eventId
  2: required i32 eventTime
  3: required string eventType
  4: optional string dbName
  5: optional string tableName
}

struct EventHeads {
  1: required list<EventHead> events
}
