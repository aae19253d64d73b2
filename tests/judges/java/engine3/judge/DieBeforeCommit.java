package judge;

import org.apache.hadoop.hive.ql.hooks.ExecuteWithHookContext;
import org.apache.hadoop.hive.ql.hooks.HookContext;

/** A hook that fails a statement whose files are in place already: its transaction aborts, the files stay. */
public final class DieBeforeCommit implements ExecuteWithHookContext {
  @Override
  public void run(HookContext context) {
    throw new IllegalStateException("this writer was told to fail before its commit");
  }
}
