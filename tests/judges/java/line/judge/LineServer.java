package judge;

import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.BufferedOutputStream;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

/**
 * Answers requests until its input ends: a start of the virtual machine costs seconds, a request milliseconds.
 *
 * <p>A request is one JSON object a line on stdin. The answer on stdout is any number of rows, each a JSON array on
 * a line of its own, closed by one JSON object: the handler's result, or {@code {"error": text, "type": class}}, which
 * makes the rows before it void. Everything else that is printed goes to stderr.
 */
final class LineServer {
  interface Rows {
    void add(String jsonArray);
  }

  interface Handler {
    JsonObject answer(JsonObject request, Rows rows) throws Exception;
  }

  private LineServer() {}

  static void serve(Handler handler) throws IOException {
    // Not System.out: Trino has put its log there by now.
    OutputStream stdout = new FileOutputStream(FileDescriptor.out);
    PrintStream out = new PrintStream(new BufferedOutputStream(stdout, 1 << 16), false, "US-ASCII");
    System.setOut(System.err);
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    out.println("{\"ready\": true}");
    out.flush();
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      JsonObject answer;
      try {
        answer = handler.answer(JsonParser.parseString(line).getAsJsonObject(), out::println);
      } catch (Throwable t) { // the edge of the process: the other side decides what an error means
        t.printStackTrace();
        answer = new JsonObject();
        answer.addProperty("error", message(t));
        answer.addProperty("type", t.getClass().getName());
      }
      out.println(JsonText.ascii(answer.toString()));
      out.flush();
    }
    Runtime.getRuntime().halt(0); // engines leave threads behind that would keep the machine up
  }

  private static String message(Throwable t) {
    StringBuilder text = new StringBuilder(String.valueOf(t.getMessage()));
    for (Throwable cause = t.getCause(); cause != null; cause = cause.getCause()) {
      text.append(" <- ").append(cause);
    }
    return text.toString();
  }
}
