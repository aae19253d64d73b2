package judge;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.serde2.FetchFormatter;
import org.apache.hadoop.hive.serde2.objectinspector.ListObjectInspector;
import org.apache.hadoop.hive.serde2.objectinspector.MapObjectInspector;
import org.apache.hadoop.hive.serde2.objectinspector.ObjectInspector;
import org.apache.hadoop.hive.serde2.objectinspector.PrimitiveObjectInspector;
import org.apache.hadoop.hive.serde2.objectinspector.StructField;
import org.apache.hadoop.hive.serde2.objectinspector.StructObjectInspector;
import org.apache.hadoop.hive.serde2.objectinspector.UnionObjectInspector;

/**
 * A row as one JSON array in which nothing is lost.
 *
 * <p>Integers and booleans are themselves; a float is written as the double it widens to, NaN and the infinities as
 * strings; binary as lower-case hex; a map as a list of [key, value] sorted by its own text; a struct as an object;
 * a union as {tag, value}; everything else (decimal, date, timestamp, char with its padding) as Hive's own text.
 */
public final class JsonRow implements FetchFormatter<String> {
  @Override
  public void initialize(Configuration conf, Properties properties) {}

  @Override
  public void close() {}

  @Override
  public String convert(Object row, ObjectInspector inspector) {
    StructObjectInspector struct = (StructObjectInspector) inspector;
    StringBuilder out = new StringBuilder("[");
    append(out, struct, row);
    return out.append(']').toString();
  }

  /** Appends the fields of a row, separated by commas, without brackets. */
  static void append(StringBuilder out, StructObjectInspector struct, Object row) {
    String separator = "";
    for (StructField field : struct.getAllStructFieldRefs()) {
      out.append(separator);
      value(out, struct.getStructFieldData(row, field), field.getFieldObjectInspector());
      separator = ", ";
    }
  }

  static void value(StringBuilder out, Object data, ObjectInspector inspector) {
    if (data == null) {
      out.append("null");
      return;
    }
    switch (inspector.getCategory()) {
      case PRIMITIVE:
        primitive(out, ((PrimitiveObjectInspector) inspector).getPrimitiveJavaObject(data));
        break;
      case LIST:
        list(out, data, (ListObjectInspector) inspector);
        break;
      case MAP:
        map(out, data, (MapObjectInspector) inspector);
        break;
      case STRUCT:
        struct(out, data, (StructObjectInspector) inspector);
        break;
      default:
        UnionObjectInspector union = (UnionObjectInspector) inspector;
        out.append("{\"tag\": ").append(union.getTag(data)).append(", \"value\": ");
        value(out, union.getField(data), union.getObjectInspectors().get(union.getTag(data)));
        out.append('}');
    }
  }

  private static void primitive(StringBuilder out, Object value) {
    if (value instanceof Float || value instanceof Double) {
      double wide = ((Number) value).doubleValue();
      boolean finite = !Double.isNaN(wide) && !Double.isInfinite(wide);
      out.append(finite ? Double.toString(wide) : JsonText.quoted(Double.toString(wide)));
    } else if (value instanceof Boolean || value instanceof Long || value instanceof Integer
        || value instanceof Short || value instanceof Byte) {
      out.append(value);
    } else if (value instanceof byte[]) {
      StringBuilder hex = new StringBuilder();
      for (byte b : (byte[]) value) {
        hex.append(String.format("%02x", b & 0xff));
      }
      out.append(JsonText.quoted(hex.toString()));
    } else {
      out.append(value == null ? "null" : JsonText.quoted(value.toString()));
    }
  }

  private static void list(StringBuilder out, Object data, ListObjectInspector inspector) {
    List<?> items = inspector.getList(data);
    List<String> texts = new ArrayList<>();
    for (Object item : items) {
      texts.add(text(item, inspector.getListElementObjectInspector()));
    }
    out.append('[').append(String.join(", ", texts)).append(']');
  }

  private static void map(StringBuilder out, Object data, MapObjectInspector inspector) {
    List<String> pairs = new ArrayList<>();
    for (Map.Entry<?, ?> entry : inspector.getMap(data).entrySet()) {
      String key = text(entry.getKey(), inspector.getMapKeyObjectInspector());
      pairs.add("[" + key + ", " + text(entry.getValue(), inspector.getMapValueObjectInspector()) + "]");
    }
    Collections.sort(pairs);
    out.append('[').append(String.join(", ", pairs)).append(']');
  }

  private static void struct(StringBuilder out, Object data, StructObjectInspector inspector) {
    if (inspector.getStructFieldsDataAsList(data) == null) {
      out.append("null");
      return;
    }
    List<String> fields = new ArrayList<>();
    for (StructField field : inspector.getAllStructFieldRefs()) {
      Object part = inspector.getStructFieldData(data, field);
      fields.add(JsonText.quoted(field.getFieldName()) + ": " + text(part, field.getFieldObjectInspector()));
    }
    out.append('{').append(String.join(", ", fields)).append('}');
  }

  private static String text(Object data, ObjectInspector inspector) {
    StringBuilder out = new StringBuilder();
    value(out, data, inspector);
    return out.toString();
  }
}
