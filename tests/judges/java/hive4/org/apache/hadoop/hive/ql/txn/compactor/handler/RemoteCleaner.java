package org.apache.hadoop.hive.ql.txn.compactor.handler;

import java.io.IOException;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.IMetaStoreClient;
import org.apache.hadoop.hive.metastore.ReplChangeManager;
import org.apache.hadoop.hive.metastore.api.GetOpenTxnsResponse;
import org.apache.hadoop.hive.metastore.api.GetValidWriteIdsRequest;
import org.apache.hadoop.hive.metastore.api.GetValidWriteIdsResponse;
import org.apache.hadoop.hive.metastore.api.MetaException;
import org.apache.hadoop.hive.metastore.api.NoSuchObjectException;
import org.apache.hadoop.hive.metastore.api.Partition;
import org.apache.hadoop.hive.metastore.api.ShowCompactResponseElement;
import org.apache.hadoop.hive.metastore.api.Table;
import org.apache.hadoop.hive.metastore.txn.TxnStore;
import org.apache.hadoop.hive.metastore.txn.entities.CompactionInfo;
import org.apache.hadoop.hive.ql.txn.compactor.FSRemover;
import org.apache.hadoop.hive.ql.txn.compactor.MetadataCache;
import org.apache.thrift.TException;

/**
 * Hive's own compaction cleaner where the metastore's database is out of reach.
 *
 * <p>The cleaner wants a TxnStore, which is JDBC; the few questions it asks are answered here over Thrift. The
 * package is Hive's because the cleaner's class is visible there only.
 */
public final class RemoteCleaner extends CompactionCleaner {
  private static final char READY_FOR_CLEANING = 'r'; // TxnStore keeps the letter to itself

  private final IMetaStoreClient client;

  public RemoteCleaner(HiveConf conf, IMetaStoreClient client) throws Exception {
    this(conf, client, new MetadataCache(true));
  }

  private RemoteCleaner(HiveConf conf, IMetaStoreClient client, MetadataCache databases) throws Exception {
    super(conf, store(client, databases), new MetadataCache(false), false,
        new FSRemover(conf, ReplChangeManager.getInstance(conf), databases));
    this.client = client;
  }

  @Override
  protected Table resolveTable(String db, String table) throws MetaException {
    return found(() -> client.getTable(db, table));
  }

  @Override
  protected Partition resolvePartition(String db, String table, String partition) throws MetaException {
    return found(() -> client.getPartition(db, table, partition));
  }

  private interface Lookup<T> {
    T get() throws TException;
  }

  private static <T> T found(Lookup<T> lookup) throws MetaException {
    try {
      return lookup.get();
    } catch (NoSuchObjectException e) {
      return null;
    } catch (TException e) {
      throw new MetaException(e.toString());
    }
  }

  private static TxnStore store(IMetaStoreClient client, MetadataCache databases) {
    return (TxnStore) Proxy.newProxyInstance(
        RemoteCleaner.class.getClassLoader(), new Class<?>[] {TxnStore.class}, (proxy, method, args) -> {
          switch (method.getName()) {
            case "findMinOpenTxnIdForCleaner":
            case "findMinTxnIdSeenOpen":
              GetOpenTxnsResponse open = client.getOpenTxns();
              return open.isSetMin_open_txn() ? open.getMin_open_txn() : open.getTxn_high_water_mark() + 1;
            case "findReadyToClean":
              return ready(client, databases, (Long) args[0]);
            case "getOpenTxns":
              return client.getOpenTxns();
            case "getValidWriteIds":
              GetValidWriteIdsRequest wanted = (GetValidWriteIdsRequest) args[0];
              return new GetValidWriteIdsResponse(
                  client.getValidWriteIds(wanted.getFullTableNames(), wanted.getValidTxnList()));
            case "markCleaned":
              client.markCleaned(CompactionInfo.compactionInfoToStruct((CompactionInfo) args[0]));
              return null;
            case "markFailed":
              client.markFailed(CompactionInfo.compactionInfoToStruct((CompactionInfo) args[0]));
              return null;
            case "markRefused":
              client.markRefused(CompactionInfo.compactionInfoToStruct((CompactionInfo) args[0]));
              return null;
            case "toString":
              return "TxnStore over Thrift";
            default:
              if (method.getReturnType() == void.class) {
                return null;
              }
              throw new UnsupportedOperationException(method.getName());
          }
        });
  }

  private static List<CompactionInfo> ready(IMetaStoreClient client, MetadataCache databases, long minOpen)
      throws Exception {
    List<CompactionInfo> ready = new ArrayList<>();
    for (ShowCompactResponseElement seen : client.showCompactions().getCompacts()) {
      boolean aReaderMayNeedTheOldFiles = seen.getNextTxnId() > minOpen;
      if (!"ready for cleaning".equals(seen.getState()) || aReaderMayNeedTheOldFiles) {
        continue;
      }
      CompactionInfo info =
          new CompactionInfo(seen.getDbname(), seen.getTablename(), seen.getPartitionname(), seen.getType());
      info.id = seen.getId();
      info.runAs = seen.getRunAs();
      info.nextTxnId = seen.getNextTxnId();
      info.txnId = seen.getTxnId();
      info.state = READY_FOR_CLEANING;
      info.minOpenWriteId = -1;
      info.highestWriteId = highestWriteId(client, info);
      databases.computeIfAbsent(info.dbname, () -> client.getDatabase(info.dbname));
      ready.add(info);
    }
    return ready;
  }

  /** From the directory that the compaction's transaction wrote: 4.0.1 leaves the field of the answer empty. */
  private static long highestWriteId(IMetaStoreClient client, CompactionInfo info) throws TException, IOException {
    Path location;
    try {
      location = new Path(info.partName == null
          ? client.getTable(info.dbname, info.tableName).getSd().getLocation()
          : client.getPartition(info.dbname, info.tableName, info.partName).getSd().getLocation());
    } catch (NoSuchObjectException e) {
      return 0; // dropped meanwhile: the cleaner finds that out by itself
    }
    Pattern written = Pattern.compile("(?:base|(?:delete_)?delta_\\d+)_(\\d+)_v0*" + info.txnId);
    long highest = 0;
    for (FileStatus entry : location.getFileSystem(new Configuration()).listStatus(location)) {
      Matcher match = written.matcher(entry.getPath().getName());
      if (match.matches()) {
        highest = Math.max(highest, Long.parseLong(match.group(1)));
      }
    }
    return highest;
  }
}
