package judge;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hive.common.ValidWriteIdList;
import org.apache.hadoop.hive.metastore.IMetaStoreClient;
import org.apache.hadoop.hive.metastore.api.FieldSchema;
import org.apache.hadoop.hive.metastore.api.Partition;
import org.apache.hadoop.hive.metastore.api.StorageDescriptor;
import org.apache.hadoop.hive.metastore.api.Table;
import org.apache.hadoop.hive.metastore.api.TableValidWriteIds;

/** What the metastore says about a table, with the snapshot a reader would get now. */
final class Described {
  private Described() {}

  /** Each version keeps the method in another class. */
  interface ReaderList {
    ValidWriteIdList of(TableValidWriteIds found);
  }

  static JsonObject table(IMetaStoreClient client, String db, String name, ReaderList readerList) throws Exception {
    Table table = client.getTable(db, name);
    JsonArray partitions = new JsonArray();
    if (table.getPartitionKeysSize() > 0) {
      for (Partition partition : client.listPartitions(db, name, (short) -1)) {
        JsonObject one = new JsonObject();
        one.add("values", strings(partition.getValues()));
        one.addProperty("location", path(partition.getSd()));
        partitions.add(one);
      }
    }
    JsonObject parameters = new JsonObject();
    for (Map.Entry<String, String> entry : new TreeMap<>(table.getParameters()).entrySet()) {
      parameters.addProperty(entry.getKey(), entry.getValue());
    }
    String txns = client.getValidTxns(0).writeToString();
    List<TableValidWriteIds> found = client.getValidWriteIds(Collections.singletonList(db + "." + name), txns);
    JsonObject answer = new JsonObject();
    answer.addProperty("location", path(table.getSd()));
    answer.add("columns", columns(table.getSd().getCols()));
    answer.add("partition_columns", columns(table.getPartitionKeys()));
    answer.add("partitions", partitions);
    answer.addProperty("buckets", table.getSd().getNumBuckets());
    answer.add("bucket_columns", strings(table.getSd().getBucketCols()));
    answer.add("parameters", parameters);
    answer.addProperty("valid_write_id_list", readerList.of(found.get(0)).writeToString());
    answer.addProperty("valid_txn_list", txns);
    return answer;
  }

  private static String path(StorageDescriptor sd) {
    return new Path(sd.getLocation()).toUri().getPath();
  }

  private static JsonElement strings(List<String> values) {
    JsonArray array = new JsonArray();
    if (values != null) {
      values.forEach(array::add);
    }
    return array;
  }

  private static JsonArray columns(List<FieldSchema> fields) {
    JsonArray array = new JsonArray();
    for (FieldSchema field : fields) {
      JsonArray pair = new JsonArray();
      pair.add(field.getName());
      pair.add(field.getType());
      array.add(pair);
    }
    return array;
  }
}
