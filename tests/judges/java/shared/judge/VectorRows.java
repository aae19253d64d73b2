package judge;

import java.io.IOException;
import java.util.List;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.ql.exec.Utilities;
import org.apache.hadoop.hive.ql.exec.vector.ColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.LongColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.StructColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.VectorExtractRow;
import org.apache.hadoop.hive.ql.exec.vector.VectorizedRowBatch;
import org.apache.hadoop.hive.ql.exec.vector.VectorizedRowBatchCtx;
import org.apache.hadoop.hive.ql.io.RecordIdentifier;
import org.apache.hadoop.hive.ql.io.orc.OrcInputFormat;
import org.apache.hadoop.hive.ql.metadata.HiveException;
import org.apache.hadoop.hive.ql.metadata.VirtualColumn;
import org.apache.hadoop.hive.ql.plan.MapWork;
import org.apache.hadoop.hive.serde2.objectinspector.ObjectInspector;
import org.apache.hadoop.hive.serde2.typeinfo.StructTypeInfo;
import org.apache.hadoop.hive.serde2.typeinfo.TypeInfo;
import org.apache.hadoop.hive.serde2.typeinfo.TypeInfoUtils;
import org.apache.hadoop.io.NullWritable;
import org.apache.hadoop.mapred.InputSplit;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapred.RecordReader;
import org.apache.hadoop.mapred.Reporter;

/**
 * The vectorised ACID reader, which finds deleted rows in another way than the row reader does.
 *
 * <p>Hive hands it the batch layout through the plan of a map task, so a plan with nothing else in it is made up.
 */
final class VectorRows {
  private VectorRows() {}

  static void configure(JobConf conf, StructTypeInfo schema) {
    List<TypeInfo> types = schema.getAllStructFieldTypeInfos();
    int width = types.size();
    String[] names = schema.getAllStructFieldNames().toArray(new String[width + 1]);
    names[width] = VirtualColumn.ROWID.getName();
    TypeInfo[] infos = types.toArray(new TypeInfo[width + 1]);
    infos[width] = VirtualColumn.ROWID.getTypeInfo();
    int[] dataColumns = new int[width];
    for (int i = 0; i < width; i++) {
      dataColumns[i] = i;
    }
    MapWork work = new MapWork();
    work.setVectorMode(true);
    work.setUseVectorizedInputFileFormat(true);
    work.setVectorizedRowBatchCtx(new VectorizedRowBatchCtx(
        names, infos, null, dataColumns, 0, 1, new VirtualColumn[] {VirtualColumn.ROWID}, new String[0], null));
    conf.setBoolean("hive.vectorized.execution.enabled", true);
    HiveConf.setVar(conf, HiveConf.ConfVars.PLAN, "/judge-plan"); // a key of an in-memory map, never a file
    Utilities.setMapWork(conf, work);
  }

  @SuppressWarnings({"unchecked", "rawtypes"})
  static void read(
      OrcInputFormat format, InputSplit split, JobConf conf, StructTypeInfo schema, LineServer.Rows rows)
      throws IOException, HiveException {
    List<TypeInfo> types = schema.getAllStructFieldTypeInfos();
    VectorExtractRow extract = new VectorExtractRow();
    extract.init(types.toArray(new TypeInfo[0]));
    RecordReader raw = format.getRecordReader(split, conf, Reporter.NULL); // batches behind the row reader's type
    try (ReaderServer.Closing<NullWritable, VectorizedRowBatch> reader = new ReaderServer.Closing<>(raw)) {
      NullWritable key = reader.it.createKey();
      VectorizedRowBatch batch = reader.it.createValue();
      while (reader.it.next(key, batch)) {
        for (int i = 0; i < batch.size; i++) {
          rows.add(row(batch, batch.selectedInUse ? batch.selected[i] : i, extract, types));
        }
      }
    }
  }

  private static String row(VectorizedRowBatch batch, int at, VectorExtractRow extract, List<TypeInfo> types) {
    Object[] values = new Object[types.size()];
    extract.extractRow(batch, at, values);
    ColumnVector[] id = ((StructColumnVector) batch.cols[types.size()]).fields;
    StringBuilder out = new StringBuilder("[");
    ReaderServer.identity(
        out, new RecordIdentifier(number(id[0], at), (int) number(id[1], at), number(id[2], at)));
    for (int i = 0; i < values.length; i++) {
      out.append(", ");
      ObjectInspector inspector = TypeInfoUtils.getStandardWritableObjectInspectorFromTypeInfo(types.get(i));
      JsonRow.value(out, values[i], inspector);
    }
    return out.append(']').toString();
  }

  private static long number(ColumnVector column, int at) {
    return ((LongColumnVector) column).vector[column.isRepeating ? 0 : at];
  }
}
