package judge;

import com.google.gson.JsonObject;
import java.net.InetAddress;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.HiveMetaStoreClient;
import org.apache.hadoop.hive.metastore.api.DataOperationType;
import org.apache.hadoop.hive.metastore.api.LockComponent;
import org.apache.hadoop.hive.metastore.api.LockLevel;
import org.apache.hadoop.hive.metastore.api.LockRequest;
import org.apache.hadoop.hive.metastore.api.LockState;
import org.apache.hadoop.hive.metastore.api.LockType;
import org.apache.hadoop.hive.metastore.api.Table;
import org.apache.hadoop.hive.metastore.api.TxnToWriteId;
import org.apache.hadoop.hive.ql.io.AcidOutputFormat;
import org.apache.hadoop.hive.ql.io.RecordUpdater;
import org.apache.hadoop.hive.ql.io.orc.OrcOutputFormat;
import org.apache.hadoop.hive.serde2.objectinspector.ObjectInspectorFactory;
import org.apache.hadoop.hive.serde2.objectinspector.primitive.PrimitiveObjectInspectorFactory;

/**
 * What Hive's streaming ingest does, over a table (id bigint, name string): several transactions in one file.
 *
 * <p>Its own library is not published for 4.0.1, so this drives the record updater beneath it. Steps: open {db,
 * table, txns}, which answers the first write ID; write {rows, commit} for the next transaction of the batch; pour,
 * which writes rows of the next transaction until the process is killed; close, which aborts the unused ones.
 *
 * <p>Each transaction locks the table when its turn comes, as the library's do (HiveStreamingConnection): by that lock
 * the metastore knows that it writes, and does not forget that it was aborted. One whose turn never comes has no lock.
 * All that are left are kept alive by heartbeats, also as the library's are.
 */
final class StreamBatch {
  private static final int POURED_BYTES = 10_000;
  private static final int HEARTBEAT_SECONDS = 10;

  private static HiveConf conf;
  private static HiveMetaStoreClient metastore;
  private static ScheduledExecutorService heart;
  private static RecordUpdater updater;
  private static List<Long> txns;
  private static List<TxnToWriteId> writeIds;
  private static volatile int next;
  private static String db;
  private static String table;

  private StreamBatch() {}

  static JsonObject answer(HiveConf base, JsonObject request) throws Exception {
    JsonObject answer = new JsonObject();
    switch (request.get("step").getAsString()) {
      case "open":
        open(base, request.get("db").getAsString(), request.get("table").getAsString(), request.get("txns").getAsInt());
        answer.addProperty("first", writeIds.get(0).getWriteId());
        break;
      case "write":
        write(request.get("rows").getAsInt(), request.get("commit").getAsBoolean());
        break;
      case "pour":
        pour();
        break;
      default:
        close();
    }
    return answer;
  }

  private static void open(HiveConf base, String database, String name, int count) throws Exception {
    db = database;
    table = name;
    conf = base;
    metastore = new HiveMetaStoreClient(new HiveConf(base));
    List<Long> opened = metastore.openTxns(System.getProperty("user.name"), count).getTxn_ids();
    writeIds = metastore.allocateTableWriteIdsBatch(opened, db, name);
    // The metastore lists opened transactions in any order, and allocates write IDs in the order of their numbers.
    txns = writeIds.stream().map(TxnToWriteId::getTxnId).collect(Collectors.toList());
    next = 0;
    heart = Executors.newSingleThreadScheduledExecutor(StreamBatch::daemon);
    heart.scheduleWithFixedDelay(StreamBatch::beat, HEARTBEAT_SECONDS, HEARTBEAT_SECONDS, TimeUnit.SECONDS);
    Table found = metastore.getTable(db, name);
    Path location = new Path(found.getSd().getLocation());
    updater = new OrcOutputFormat().getRecordUpdater(location, new AcidOutputFormat.Options(new HiveConf(base))
        .inspector(ObjectInspectorFactory.getStandardStructObjectInspector(
            Arrays.asList("id", "name"),
            Arrays.asList(
                PrimitiveObjectInspectorFactory.javaLongObjectInspector,
                PrimitiveObjectInspectorFactory.javaStringObjectInspector)))
        .bucket(0)
        .minimumWriteId(writeIds.get(0).getWriteId())
        .maximumWriteId(writeIds.get(count - 1).getWriteId())
        .statementId(-1)
        .writingBase(false)
        .finalDestination(location));
  }

  private static Thread daemon(Runnable work) {
    Thread thread = new Thread(work);
    thread.setDaemon(true); // a killed or ended writer is not kept alive by its heart
    return thread;
  }

  private static void beat() {
    int first = next;
    if (first == txns.size()) {
      return;
    }
    try {
      // A connection of its own: a client serves one thread.
      HiveMetaStoreClient client = new HiveMetaStoreClient(new HiveConf(conf));
      client.heartbeatTxnRange(txns.get(first), txns.get(txns.size() - 1));
      client.close();
    } catch (Exception e) {
      System.err.println("no heartbeat this time: " + e);
    }
  }

  private static void lock(long txn) throws Exception {
    LockComponent component = new LockComponent(LockType.SHARED_READ, LockLevel.TABLE, db);
    component.setTablename(table);
    component.setOperationType(DataOperationType.INSERT);
    component.setIsTransactional(true);
    LockRequest request = new LockRequest(
        Collections.singletonList(component),
        System.getProperty("user.name"),
        InetAddress.getLocalHost().getHostName());
    request.setTxnid(txn);
    request.setAgentInfo("streaming");
    LockState state = metastore.lock(request).getState();
    if (state != LockState.ACQUIRED) {
      throw new IllegalStateException("transaction " + txn + " has no lock on " + db + "." + table + ": " + state);
    }
  }

  private static void write(int rows, boolean commit) throws Exception {
    lock(txns.get(next));
    long writeId = writeIds.get(next).getWriteId();
    for (int i = 0; i < rows; i++) {
      updater.insert(writeId, Arrays.asList((Object) (writeId * 100 + i), "streamed " + i));
    }
    updater.flush();
    if (commit) {
      metastore.commitTxn(txns.get(next));
    } else {
      metastore.rollbackTxn(txns.get(next));
    }
    next++;
  }

  private static void pour() throws Exception {
    lock(txns.get(next));
    long writeId = writeIds.get(next).getWriteId();
    Random random = new Random(7);
    for (long i = 0; ; i++) {
      // Texts that do not compress fill a stripe soon, which the file then holds without a footer after it.
      byte[] text = new byte[POURED_BYTES];
      random.nextBytes(text);
      updater.insert(writeId, Arrays.asList((Object) (writeId * 100 + i), Base64.getEncoder().encodeToString(text)));
    }
  }

  private static void close() throws Exception {
    heart.shutdownNow();
    updater.close(false);
    for (; next < txns.size(); next++) {
      metastore.rollbackTxn(txns.get(next));
    }
    metastore.close();
  }
}
