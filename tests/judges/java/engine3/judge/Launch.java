package judge;

import java.io.File;
import java.net.URL;
import java.net.URLClassLoader;
import java.util.ArrayList;
import java.util.List;

/** Starts the engine below a URLClassLoader, to which Hive 3.1.3 casts its own loader: Java 9 gives another. */
public final class Launch {
  private Launch() {}

  public static void main(String[] args) throws Exception {
    List<URL> entries = new ArrayList<>();
    for (String entry : System.getProperty("java.class.path").split(File.pathSeparator)) {
      entries.add(new File(entry).toURI().toURL());
    }
    URLClassLoader loader = new URLClassLoader(entries.toArray(new URL[0]), ClassLoader.getPlatformClassLoader());
    Thread.currentThread().setContextClassLoader(loader);
    loader.loadClass("judge.Engine3Server").getMethod("main", String[].class).invoke(null, (Object) args);
  }
}
