# A Spark cluster from the pip package: the same PySpark, pandas and pyarrow as on the driver's side.
FROM python:3.11-slim-bookworm

RUN apt-get update \
 && apt-get install -y --no-install-recommends openjdk-17-jre-headless procps \
 && rm -rf /var/lib/apt/lists/*

COPY constraints.txt pyproject.toml /opt/hiveacid/
RUN python3 -m venv /opt/spark-venv \
 && /opt/spark-venv/bin/pip install --no-cache-dir --constraint /opt/hiveacid/constraints.txt --upgrade pip \
 && /opt/spark-venv/bin/pip install --no-cache-dir --constraint /opt/hiveacid/constraints.txt \
      --group /opt/hiveacid/pyproject.toml:spark-runtime

# Hadoop's libraries want a name for the user that they run as.
RUN useradd --uid 1000 --gid 0 --no-create-home spark

ENV PYSPARK_PYTHON=/opt/spark-venv/bin/python PATH=/opt/spark-venv/bin:$PATH
ENTRYPOINT ["spark-class"]
