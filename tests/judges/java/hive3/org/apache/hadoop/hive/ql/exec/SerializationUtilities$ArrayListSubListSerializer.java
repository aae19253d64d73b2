package org.apache.hadoop.hive.ql.exec;

import java.util.ArrayList;
import java.util.List;
import org.apache.hive.com.esotericsoftware.kryo.Kryo;
import org.apache.hive.com.esotericsoftware.kryo.Serializer;
import org.apache.hive.com.esotericsoftware.kryo.io.Input;
import org.apache.hive.com.esotericsoftware.kryo.io.Output;

/**
 * Stands in for a nested class of Hive 3.1.3 that looks up a field which Java 9 removed from ArrayList.SubList.
 *
 * <p>The lookup fails when Hive makes its first Kryo, so that nothing that touches a plan would run. Here a part of
 * a list is carried as a list of its own.
 */
public final class SerializationUtilities$ArrayListSubListSerializer extends Serializer<List<?>> {
  @Override
  public void write(Kryo kryo, Output output, List<?> list) {
    kryo.writeClassAndObject(output, new ArrayList<>(list));
  }

  @Override
  public List<?> read(Kryo kryo, Input input, Class<List<?>> type) {
    return (List<?>) kryo.readClassAndObject(input);
  }

  @Override
  public List<?> copy(Kryo kryo, List<?> list) {
    return kryo.copy(new ArrayList<>(list));
  }
}
