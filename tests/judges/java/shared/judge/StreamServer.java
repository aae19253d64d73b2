package judge;

import org.apache.hadoop.hive.conf.HiveConf;

/** A streaming writer in a process of its own, which a test can kill. Requests: see {@link StreamBatch}. */
public final class StreamServer {
  private StreamServer() {}

  public static void main(String[] args) throws Exception {
    HiveConf base = new HiveConf(StreamServer.class);
    LineServer.serve((request, rows) -> StreamBatch.answer(base, request));
  }
}
