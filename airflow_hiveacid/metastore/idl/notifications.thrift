/*
 * The log of events, which a metastore keeps if DbNotificationListener is configured.
 */
namespace py airflow_hiveacid.metastore.gen.notifications

/* A request for the events after `lastEvent`, in ascending order. */
struct NotificationEventRequest {
  1: required i64 lastEvent
  2: optional i32 maxEvents
  /* 4.x only. */
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
  /* The encoding of the message: plain JSON, or JSON in gzip and base64. */
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
 * The same events without their messages, which may be too long to read: the message about thousands
 * of new partitions has 17 MB. The reader skips the missing fields. These structs are never sent.
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
