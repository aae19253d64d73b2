package judge;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/** Hadoop's local file system without .crc files beside the data, and without a forked chmod for each file. */
public final class LocalFs extends LocalFileSystem {
  public LocalFs() {
    super(new PosixPermissions());
    setWriteChecksum(false);
    setVerifyChecksum(false);
  }

  /** Else one stream stands around another, and the Parquet of Hive 3.1.3 takes it for what the inner one is not. */
  @Override
  public FSDataInputStream open(Path path, int bufferSize) throws IOException {
    return getRawFileSystem().open(path, bufferSize);
  }

  private static final class PosixPermissions extends RawLocalFileSystem {
    @Override
    public void setPermission(Path path, FsPermission mode) throws IOException {
      String symbols = mode.getUserAction().SYMBOL + mode.getGroupAction().SYMBOL + mode.getOtherAction().SYMBOL;
      try {
        Files.setPosixFilePermissions(pathToFile(path).toPath(), PosixFilePermissions.fromString(symbols));
      } catch (NoSuchFileException e) {
        throw new FileNotFoundException(path.toString());
      }
    }
  }
}
