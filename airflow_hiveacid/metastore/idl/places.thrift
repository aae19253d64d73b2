/*
 * Partitions without their column lists, which make up most of a response. A response is read with
 * these structs if only names, locations and parameters are needed. The reader skips the missing
 * fields. These structs are never sent.
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
