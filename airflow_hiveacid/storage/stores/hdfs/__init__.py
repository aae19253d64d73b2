"""Access to HDFS without a JVM in the Python process."""
