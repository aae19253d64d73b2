/*
 * Partitions without what takes most of their room: each comes with a column list of its own. The
 * answer to a call is read with these structs where only names, places and parameters are asked for;
 * what they leave out is passed over while it is read. Never sent.
 */
namespace py airflow_hiveacid.metastore.gen.places

struct StorageDescriptor {
  2: string location
}

struct Partition {
  1: list<string> values
  6: StorageDescriptor sd
  7: map<string, string> parameters
}
