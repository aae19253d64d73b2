package judge;

/** Texts as JSON that no terminal and no default charset can harm. */
final class JsonText {
  private JsonText() {}

  static String quoted(String text) {
    StringBuilder out = new StringBuilder("\"");
    for (char c : text.toCharArray()) {
      if (c == '"' || c == '\\') {
        out.append('\\').append(c);
      } else if (c < ' ') {
        out.append(String.format("\\u%04x", (int) c));
      } else {
        out.append(c);
      }
    }
    return ascii(out.append('"').toString());
  }

  /** JSON text with every character outside ASCII as an escape: no terminal or default charset can harm it. */
  static String ascii(String json) {
    StringBuilder out = new StringBuilder(json.length());
    for (char c : json.toCharArray()) {
      if (c > '~') {
        out.append(String.format("\\u%04x", (int) c));
      } else {
        out.append(c);
      }
    }
    return out.toString();
  }
}
