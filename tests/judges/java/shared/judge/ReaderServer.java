package judge;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hive.ql.io.AcidInputFormat;
import org.apache.hadoop.hive.ql.io.AcidUtils;
import org.apache.hadoop.hive.ql.io.RecordIdentifier;
import org.apache.hadoop.hive.ql.io.orc.OrcInputFormat;
import org.apache.hadoop.hive.ql.io.orc.OrcStruct;
import org.apache.hadoop.hive.serde2.objectinspector.StructObjectInspector;
import org.apache.hadoop.hive.serde2.typeinfo.StructTypeInfo;
import org.apache.hadoop.hive.serde2.typeinfo.TypeInfo;
import org.apache.hadoop.hive.serde2.typeinfo.TypeInfoUtils;
import org.apache.hadoop.io.NullWritable;
import org.apache.hadoop.mapred.FileInputFormat;
import org.apache.hadoop.mapred.InputSplit;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapred.RecordReader;
import org.apache.hadoop.mapred.Reporter;

/**
 * Hive's ORC input format over one ACID directory and a given snapshot, without a metastore.
 *
 * <p>Request: {directory, write_ids, txns, schema, buckets, vectorized, settings}. Each row is
 * [{writeid, bucketid, rowid}, column...] in the order of the splits; the other side sorts.
 */
public final class ReaderServer {
  private ReaderServer() {}

  public static void main(String[] args) throws Exception {
    LineServer.serve(ReaderServer::read);
  }

  private static JsonObject read(JsonObject request, LineServer.Rows rows) throws Exception {
    StructTypeInfo schema =
        (StructTypeInfo) TypeInfoUtils.getTypeInfoFromTypeString(request.get("schema").getAsString());
    JobConf conf = conf(request, schema);
    FileInputFormat.setInputPaths(conf, new Path(request.get("directory").getAsString()));
    boolean vectorized = request.get("vectorized").getAsBoolean();
    if (vectorized) {
      VectorRows.configure(conf, schema);
    }
    OrcInputFormat format = new OrcInputFormat();
    InputSplit[] splits = format.getSplits(conf, 1);
    for (InputSplit split : splits) {
      if (vectorized) {
        VectorRows.read(format, split, conf, schema, rows);
      } else {
        readRows(format, split, conf, schema, rows);
      }
    }
    JsonObject answer = new JsonObject();
    answer.addProperty("splits", splits.length);
    return answer;
  }

  private static JobConf conf(JsonObject request, StructTypeInfo schema) {
    String names = String.join(",", schema.getAllStructFieldNames());
    List<String> typeNames = new ArrayList<>();
    for (TypeInfo type : schema.getAllStructFieldTypeInfos()) {
      typeNames.add(type.getTypeName());
    }
    String types = String.join(":", typeNames);
    JobConf conf = new JobConf();
    conf.set("fs.defaultFS", "file:///");
    conf.set("columns", names);
    conf.set("columns.types", types);
    conf.set("schema.evolution.columns", names);
    conf.set("schema.evolution.columns.types", types);
    conf.setBoolean("hive.io.file.read.all.columns", true);
    conf.set("hive.io.file.readcolumn.ids", "");
    conf.set("hive.txn.valid.writeids", request.get("write_ids").getAsString());
    conf.set("hive.txn.valid.txns", request.get("txns").getAsString());
    conf.set("bucket_count", request.get("buckets").getAsString());
    conf.setBoolean("transactional", true);
    conf.set("transactional_properties", "default");
    AcidUtils.setAcidOperationalProperties(conf, true, AcidUtils.AcidOperationalProperties.getDefault());
    conf.setBoolean("hive.vectorized.execution.enabled", false);
    conf.setBoolean("mapreduce.input.fileinputformat.input.dir.recursive", true);
    conf.set("hive.exec.orc.split.strategy", "BI"); // a split a file; the settings may ask for one a stripe
    conf.setBoolean("orc.schema.evolution.case.sensitive", false); // query-based compaction writes lower case
    for (Map.Entry<String, JsonElement> setting : request.getAsJsonObject("settings").entrySet()) {
      conf.set(setting.getKey(), setting.getValue().getAsString());
    }
    return conf;
  }

  private static void readRows(
      OrcInputFormat format, InputSplit split, JobConf conf, StructTypeInfo schema, LineServer.Rows rows)
      throws IOException {
    StructObjectInspector inspector = (StructObjectInspector) OrcStruct.createObjectInspector(schema);
    try (Closing<NullWritable, OrcStruct> reader = new Closing<>(format.getRecordReader(split, conf, Reporter.NULL))) {
      NullWritable key = reader.it.createKey();
      OrcStruct row = reader.it.createValue();
      while (reader.it.next(key, row)) {
        StringBuilder out = new StringBuilder("[");
        identity(out, ((AcidInputFormat.AcidRecordReader<?, ?>) reader.it).getRecordIdentifier());
        out.append(", ");
        JsonRow.append(out, inspector, row);
        rows.add(out.append(']').toString());
      }
    }
  }

  static void identity(StringBuilder out, RecordIdentifier id) {
    out.append("{\"writeid\": ").append(id.getWriteId());
    out.append(", \"bucketid\": ").append(id.getBucketProperty());
    out.append(", \"rowid\": ").append(id.getRowId()).append('}');
  }

  /** Hadoop's record readers are not closeable by the language's own statement. */
  static final class Closing<K, V> implements AutoCloseable {
    final RecordReader<K, V> it;

    Closing(RecordReader<K, V> reader) {
      it = reader;
    }

    @Override
    public void close() throws IOException {
      it.close();
    }
  }
}
