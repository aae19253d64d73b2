package judge;

import com.google.gson.JsonObject;
import io.trino.plugin.hive.HivePlugin;
import io.trino.spi.security.Identity;
import io.trino.testing.DistributedQueryRunner;
import io.trino.testing.MaterializedRow;
import io.trino.testing.TestingSession;
import java.math.BigDecimal;
import java.nio.file.Path;
import java.time.LocalDateTime;
import java.time.format.DateTimeFormatter;
import java.time.format.DateTimeFormatterBuilder;
import java.time.temporal.ChronoField;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * Trino in one process, over a metastore and local files, or those of a store that is said.
 *
 * <p>Request: {sql}. Values in rows as {@code JsonRow.java} describes them for Hive.
 */
public final class TrinoServer {
  private static final DateTimeFormatter CLOCK =
      new DateTimeFormatterBuilder()
          .appendPattern("uuuu-MM-dd HH:mm:ss")
          .appendFraction(ChronoField.NANO_OF_SECOND, 0, 9, true)
          .toFormatter();

  private TrinoServer() {}

  /** Arguments: the metastore's URI, a folder for everything temporary, properties of the catalog. */
  public static void main(String[] args) throws Exception {
    DistributedQueryRunner engine =
        DistributedQueryRunner.builder(
                TestingSession.testSessionBuilder()
                    .setIdentity(Identity.ofUser(System.getProperty("user.name")))
                    .setCatalog("hive")
                    .setSchema("default")
                    .build())
            .setWorkerCount(0)
            .setBaseDataDir(Optional.of(Path.of(args[1])))
            .build();
    engine.installPlugin(new HivePlugin());
    Map<String, String> properties =
        new HashMap<>(
            Map.of(
                "hive.metastore", "thrift",
                "hive.metastore.uri", args[0],
                "hive.metastore-cache-ttl", "0s", // others write as well
                "hive.security", "allow-all",
                "hive.timestamp-precision", "NANOSECONDS",
                "fs.hadoop.enabled", "true")); // its own local file system fails on ACID tables at file:
    for (int i = 2; i < args.length; i++) {
      String[] property = args[i].split("=", 2);
      properties.put(property[0], property[1]);
    }
    engine.createCatalog("hive", "hive", properties);
    LineServer.serve((request, rows) -> execute(engine, request.get("sql").getAsString(), rows));
  }

  private static JsonObject execute(DistributedQueryRunner engine, String sql, LineServer.Rows rows) {
    for (MaterializedRow row : engine.execute(sql).getMaterializedRows()) {
      rows.add(list(row.getFields()));
    }
    return new JsonObject();
  }

  private static String list(List<?> values) {
    List<String> texts = new ArrayList<>();
    for (Object value : values) {
      texts.add(text(value));
    }
    return "[" + String.join(", ", texts) + "]";
  }

  private static String text(Object value) {
    if (value == null) {
      return "null";
    }
    if (value instanceof Double || value instanceof Float) {
      double wide = ((Number) value).doubleValue();
      boolean finite = !Double.isNaN(wide) && !Double.isInfinite(wide);
      return finite ? Double.toString(wide) : JsonText.quoted(Double.toString(wide));
    }
    if (value instanceof BigDecimal decimal) {
      return JsonText.quoted(decimal.toPlainString());
    }
    if (value instanceof Number || value instanceof Boolean) {
      return value.toString();
    }
    if (value instanceof byte[] bytes) {
      return JsonText.quoted(java.util.HexFormat.of().formatHex(bytes));
    }
    if (value instanceof LocalDateTime clock) {
      return JsonText.quoted(CLOCK.format(clock));
    }
    if (value instanceof List<?> values) {
      return list(values);
    }
    if (value instanceof MaterializedRow row) {
      return list(row.getFields());
    }
    return JsonText.quoted(value.toString());
  }
}
