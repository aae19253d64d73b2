package judge;

import com.google.gson.JsonObject;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.ql.DriverFactory;
import org.apache.hadoop.hive.ql.IDriver;
import org.apache.hadoop.hive.ql.hooks.ExecuteWithHookContext;
import org.apache.hadoop.hive.ql.hooks.HookContext;
import org.apache.hadoop.hive.ql.session.SessionState;

/** A statement in a session of its own that waits, its files in place, to be told to commit or to fail. */
public final class OpenWriter implements ExecuteWithHookContext {
  private static final String NAME = "judge.open.writer";
  private static final long PATIENCE_S = 180;
  private static final Map<String, OpenWriter> OPEN = new ConcurrentHashMap<>();

  private final CountDownLatch written = new CountDownLatch(1);
  private final CountDownLatch decided = new CountDownLatch(1);
  private volatile boolean commit;
  private FutureTask<Void> statement;

  /** Hive makes an instance of its own for the hook; it finds the waiting writer by name. */
  public OpenWriter() {}

  static JsonObject begin(HiveConf base, String name, String sql) throws Exception {
    OpenWriter writer = new OpenWriter();
    OPEN.put(name, writer);
    writer.statement = new FutureTask<>(() -> {
      HiveConf conf = new HiveConf(base);
      conf.set("hive.exec.post.hooks", OpenWriter.class.getName());
      conf.set(NAME, name);
      SessionState.start(new SessionState(conf)).setIsSilent(true);
      try (IDriver driver = DriverFactory.newDriver(conf)) {
        driver.run(sql);
      } finally {
        writer.written.countDown(); // a statement that fails early must not leave begin() waiting
      }
      return null;
    });
    Thread thread = new Thread(writer.statement, "open-writer-" + name);
    thread.setDaemon(true);
    thread.start();
    if (!writer.written.await(PATIENCE_S, TimeUnit.SECONDS)) {
      throw new IllegalStateException("the writer " + name + " did not reach its commit");
    }
    if (writer.statement.isDone()) {
      writer.statement.get();
    }
    return new JsonObject();
  }

  static JsonObject end(String name, boolean commit) throws Exception {
    OpenWriter writer = OPEN.remove(name);
    writer.commit = commit;
    writer.decided.countDown();
    try {
      writer.statement.get(PATIENCE_S, TimeUnit.SECONDS);
    } catch (java.util.concurrent.ExecutionException e) {
      if (commit) {
        throw e;
      }
    }
    return new JsonObject();
  }

  @Override
  public void run(HookContext context) throws Exception {
    OpenWriter writer = OPEN.get(context.getConf().get(NAME));
    writer.written.countDown();
    writer.decided.await();
    if (!writer.commit) {
      throw new IllegalStateException("this writer was told to fail before its commit");
    }
  }
}
