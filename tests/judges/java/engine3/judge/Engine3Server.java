package judge;

import com.google.gson.JsonObject;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.HiveMetaStoreClient;
import org.apache.hadoop.hive.metastore.api.CompactionType;
import org.apache.hadoop.hive.metastore.txn.TxnUtils;
import org.apache.hadoop.hive.ql.IDriver;
import org.apache.hadoop.hive.ql.processors.CommandProcessor;
import org.apache.hadoop.hive.ql.processors.CommandProcessorFactory;
import org.apache.hadoop.hive.ql.processors.CommandProcessorResponse;
import org.apache.hadoop.hive.ql.session.SessionState;
import org.apache.hadoop.hive.ql.txn.compactor.Cleaner;
import org.apache.hadoop.hive.ql.txn.compactor.Worker;

/**
 * Hive 3.1.3's engine with a metastore of its own inside the process, for making golden directories.
 *
 * <p>Requests by {@code op}: execute {sql}; describe {db, table}; compact {db, table, partition, kind}; clean.
 */
public final class Engine3Server {
  private static HiveConf base;

  private Engine3Server() {}

  public static void main(String[] args) throws Exception {
    base = new HiveConf(Engine3Server.class);
    SessionState.start(new SessionState(base)).setIsSilent(true);
    LineServer.serve(Engine3Server::answer);
  }

  private static JsonObject answer(JsonObject request, LineServer.Rows rows) throws Exception {
    switch (request.get("op").getAsString()) {
      case "execute":
        return execute(request.get("sql").getAsString(), rows);
      case "describe":
        return Described.table(
            new HiveMetaStoreClient(base), request.get("db").getAsString(), request.get("table").getAsString(),
            TxnUtils::createValidReaderWriteIdList);
      case "compact":
        return compact(request);
      case "clean":
        Cleaner cleaner = new Cleaner();
        cleaner.setThreadId(1);
        cleaner.setConf(new HiveConf(base));
        cleaner.init(new AtomicBoolean(true), new AtomicBoolean());
        cleaner.run();
        return new JsonObject();
      default:
        throw new IllegalArgumentException("unknown op in " + request);
    }
  }

  private static JsonObject execute(String sql, LineServer.Rows rows) throws Exception {
    HiveConf conf = SessionState.get().getConf();
    conf.set("list.sink.output.formatter", JsonRow.class.getName());
    try (CommandProcessor processor = CommandProcessorFactory.get(sql.trim().split("\\s+"), conf)) {
      if (processor instanceof IDriver) {
        IDriver driver = (IDriver) processor;
        CommandProcessorResponse response = driver.run(sql);
        if (response.getResponseCode() != 0) {
          throw new IllegalStateException(response.getErrorMessage(), response.getException());
        }
        List<Object> page = new ArrayList<>();
        while (driver.getResults(page)) {
          page.forEach(row -> rows.add(row.toString()));
          page.clear();
        }
      } else {
        processor.run(sql.trim().replaceFirst("^\\S+\\s*", ""));
      }
    } finally {
      conf.unset("list.sink.output.formatter");
    }
    return new JsonObject();
  }

  @SuppressWarnings("deprecation") // the newer call wants properties and answers nothing more
  private static JsonObject compact(JsonObject request) throws Exception {
    boolean whole = request.get("partition").isJsonNull();
    new HiveMetaStoreClient(base).compact(
        request.get("db").getAsString(), request.get("table").getAsString(),
        whole ? null : request.get("partition").getAsString(),
        CompactionType.valueOf(request.get("kind").getAsString().toUpperCase()));
    Worker worker = new Worker();
    worker.setThreadId(1);
    worker.setConf(new HiveConf(base));
    worker.init(new AtomicBoolean(true), new AtomicBoolean());
    SessionState session = SessionState.get();
    worker.run();
    // Of an insert-only table it compacts by a query, in a session of its own, which it takes off the thread.
    SessionState.setCurrentSessionState(session);
    return new JsonObject();
  }
}
