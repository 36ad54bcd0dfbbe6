# Every target sets up what it needs first; stamps in .venv keep that from happening twice.
PYTHON ?= python3
UV_VERSION := 0.13.7
BIN := .venv/bin
ARGS ?=

# Some images tell Python to write no bytecode; then every process compiles all that it imports anew, for seconds.
export PYTHONDONTWRITEBYTECODE :=

# Installs with uv, or with pip where uv does not reach an index (it does not read pip's settings).
install = $(BIN)/uv pip install -q -p $(BIN)/python $(1) || $(BIN)/python -m pip install -q $(1)
compile = UV_CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/uv pip compile -q --universal --python-version 3.11 \
          --generate-hashes --no-annotate --no-emit-index-url $(1)

# Generated code refuses runtimes older than its compiler, for nothing that it uses: what it calls is in protobuf since 4.25
# and in grpcio since 1.66. Without these checks pyproject.toml can name the ranges that are tested.
any_runtime = -e '/ import runtime_version as /d' -e '/^_runtime_version\./,/^\)/d' -e '/^GRPC_GENERATED_VERSION/,/^    \)$$/d'

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-long check format bench bench-peers docs lab proto lock clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: .venv/.java ## Make .venv with Moulin, Spark and, if need be, Java (PYTHON=... chooses the Python)

demo: setup ## Take the tour: a lake from its first row to its recovery
	@$(BIN)/moulin demo $(ARGS)

test: .venv/.test ## Run the tests, two at a time (ARGS="-k catalog" is passed on)
	$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder $(ARGS)

test-long: .venv/.test ## Run the tests that take minutes
	$(BIN)/pytest -m long $(ARGS)

check: .venv/.test ## Check format, lint, types and layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/.test ## Format the code and fix what can be fixed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: .venv/.bench ## Measure against plain Parquet, polars, DuckDB and others
	$(BIN)/python -m benchmarks --chart ratios.svg $(ARGS)

bench-peers: .venv/.bench ## Measure against Delta, Iceberg and Paimon on Spark, which it fetches from Maven Central
	$(BIN)/python -m benchmarks peers --runs 3 --fetched .venv/peers --chart ratios-peers.svg $(ARGS)

docs: .venv/.docs ## Build the site into .venv/site
	PYTHONPATH=. NO_MKDOCS_2_WARNING=1 .venv/docs/bin/mkdocs build -q
	@echo "Open .venv/site/start.html"

lab: .venv/.lab ## Open the notebook in JupyterLab
	.venv/lab/bin/jupyter lab lab/moulin.ipynb $(ARGS)

proto: .venv/.test ## Generate moulin/_proto from proto/
	$(BIN)/python -m grpc_tools.protoc -I proto --python_out=moulin/_proto --pyi_out=moulin/_proto $$(find proto -name '*.proto')
	$(BIN)/python -m grpc_tools.protoc -I proto --grpc_python_out=moulin/_proto $$(grep -l '^service' -r proto)
	@find moulin/_proto -name '*_pb2*' -exec sed -i -E 's/^from moulin\.(format|lake|meta)\.v1 import/from moulin._proto.moulin.\1.v1 import/' {} +
	@find moulin/_proto -name '*_pb2*.py' -exec sed -i -E $(any_runtime) {} +

lock: $(BIN)/uv ## Write the locks anew (ARGS=--upgrade moves to the newest versions)
	@$(call compile,pyproject.toml --extra spark --extra serve --extra postgres $(ARGS) -o requirements/demo.lock)
	@$(call compile,pyproject.toml --extra spark --extra serve --extra postgres --extra duckdb --extra shell --extra connect --extra mcp --group test $(ARGS) -c requirements/demo.lock -o requirements/test.lock)
	@$(call compile,pyproject.toml --extra spark --extra serve --extra postgres --group bench $(ARGS) -c requirements/test.lock -o requirements/bench.lock)
	@$(call compile,--group java $(ARGS) -c requirements/test.lock -o requirements/java.lock)
	@$(call compile,--group adbc $(ARGS) -o requirements/adbc.lock)
	@$(call compile,--group pyspark-client $(ARGS) -o requirements/pyspark-client.lock)
	@$(call compile,--group dbt $(ARGS) -o requirements/dbt.lock)
	@$(call compile,--group schemathesis $(ARGS) -o requirements/schemathesis.lock)
	@$(call compile,--group docs $(ARGS) -o requirements/docs.lock)
	@$(call compile,pyproject.toml --extra duckdb --group ibis $(ARGS) -o requirements/ibis.lock)
	@$(call compile,pyproject.toml --group dagster $(ARGS) -o requirements/dagster.lock)
	@$(call compile,pyproject.toml --extra duckdb --extra serve --group lab $(ARGS) -c requirements/test.lock -o requirements/lab.lock)

clean: ## Remove .venv and everything that was generated
	rm -rf .venv dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/uv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo 'Moulin needs Python 3.11 or newer, and "$(PYTHON)" is not: try make PYTHON=python3.11.' >&2; exit 1; }
	@echo "Making .venv ..."
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install -q --disable-pip-version-check uv==$(UV_VERSION)

.venv/.demo: requirements/demo.lock pyproject.toml | $(BIN)/uv
	@echo "Installing Moulin and Spark (about 500 MB to fetch the first time) ..."
	@$(call install,-r requirements/demo.lock)
	@$(call install,--no-deps -e .)
	@touch $@

.venv/.java: .venv/.demo
	@$(BIN)/python -m moulin.pipeline.java --check || \
	  { echo "Installing Java, as none of version 17 or newer was found ..."; $(call install,-r requirements/java.lock); }
	@$(BIN)/python -m moulin.pipeline.java
	@touch $@

.venv/.test: requirements/test.lock .venv/.java
	@echo "Installing what the tests need ..."
	@$(call install,-r requirements/test.lock)
	@touch $@

.venv/.bench: requirements/bench.lock .venv/.java
	@echo "Installing the engines to compare with ..."
	@$(call install,-r requirements/bench.lock)
	@touch $@

# Its own environment: the site needs nothing of Moulin's, whose code is read and not run.
.venv/.docs: requirements/docs.lock | $(BIN)/uv
	@echo "Installing what the site is built with ..."
	@$(BIN)/python -m venv .venv/docs
	@$(BIN)/uv pip install -q -p .venv/docs/bin/python -r requirements/docs.lock || .venv/docs/bin/python -m pip install -q -r requirements/docs.lock
	@touch $@

# Its own environment, too: JupyterLab brings a hundred packages.
.venv/.lab: requirements/lab.lock pyproject.toml | $(BIN)/uv
	@echo "Installing JupyterLab ..."
	@$(BIN)/python -m venv .venv/lab
	@$(BIN)/uv pip install -q -p .venv/lab/bin/python -r requirements/lab.lock || .venv/lab/bin/python -m pip install -q -r requirements/lab.lock
	@$(BIN)/uv pip install -q -p .venv/lab/bin/python --no-deps -e . || .venv/lab/bin/python -m pip install -q --no-deps -e .
	@touch $@
