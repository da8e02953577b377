# Everything a newcomer needs; `make` alone lists it. Recipes print one line before anything that takes over two seconds.
.DEFAULT_GOAL := help
.PHONY: help setup demo unit test whole search simulation chaos bench docs sbom advisories lint clean lock

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
# The hot loops are compiled anew when they change, here and not in somebody's first run.
WARMED := $(VENV)/.warmed
LOOPS  := $(addprefix aggregator/,jit.py privacy/batch/distinct.py privacy/batch/guard.py) $(wildcard aggregator/privacy/kernel/*.py aggregator/kafka/native/*.py)
UV     := uv==0.13.8
# Compiled modules are kept, whatever the shell says: without them tests take a third longer, every process starts late.
unexport PYTHONDONTWRITEBYTECODE
# Further arguments, as in: make demo ARGS="--records 100000 --keep"
ARGS   ?=

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) $(WARMED) ## .venv from the lock, and Kafka's jars in the cache; nothing is done twice
	@$(BIN)/aggregator sandbox fetch

demo: setup ## three edges of real Kafka, real flights, the whole pipeline
	@$(BIN)/aggregator demo $(ARGS)

unit: setup ## what a change is tried with while it is made: no broker, no Spark, no long search
	@$(BIN)/pytest tests/unit --numprocesses 2 --dist loadfile -m "not slow" --hypothesis-profile daily $(ARGS)

# A JVM that lives for seconds is faster without its second compiler: brokers that start and die, Spark sessions.
test whole chaos: export JDK_JAVA_OPTIONS := -XX:TieredStopAtLevel=1

test: setup ## every test of a change, real brokers included; of properties 20 examples each
	@$(BIN)/pytest --numprocesses 4 --dist loadfile --no-loadscope-reorder -m "not mutation and not search and not whole" --hypothesis-profile daily $(ARGS)

whole: setup ## what a hub, or its page, does as a whole: each takes a quarter of a minute and more
	@$(BIN)/pytest --numprocesses 3 --dist loadfile --no-loadscope-reorder -m whole $(ARGS)

search: setup ## every property drawn in full, and the worst inputs of everything that has a budget
	@$(BIN)/pytest --numprocesses 2 tests/unit tests/simulation -m "search or (hypothesis and not mutation)" $(ARGS)

# As in: make simulation SCHEDULES=50000
SCHEDULES ?= 5000
simulation: setup ## 5,000 drawn schedules of the protocol; each of its rules and of privacy's removed; `make test` draws 200
	@SIMULATION_SCHEDULES=$(SCHEDULES) $(BIN)/pytest --numprocesses 2 tests/simulation tests/unit/privacy/test_mutation.py $(ARGS)

# As in: make chaos TRIALS=300 SEED=1 TABLE=tests/bench/results/trials.md
export TRIALS SEED TABLE TAKEOVERS
chaos: setup ## every fault on real brokers; TRIALS=n SEED=s for more mixed ones
	@$(BIN)/pytest tests/chaos $(ARGS)

bench: setup ## beside MirrorMaker 2, half an hour; ARGS="--rounds 1 --records 400000" for five minutes
	@$(BIN)/python -m tests.bench.beside_mm2 -o json $(ARGS)

docs: setup ## the documentation as a site, in build/site; every link is checked
	@$(BIN)/mkdocs build --quiet --config-file configs/site/mkdocs.yml

sbom: setup ## the bill of materials of what a user installs, in build/sbom.json
	@rm -rf build/release && $(BIN)/python -m venv --without-pip build/release
	@$(BIN)/uv pip install --quiet --python build/release/bin/python --constraint requirements.lock ".[glue,lineage,msk,otlp]"
	@$(BIN)/uv tool run --from cyclonedx-bom==7.5.0 cyclonedx-py environment --output-file build/sbom.json build/release/bin/python
	@$(BIN)/python -m tests.release.sbom build/sbom.json build/release "$${XDG_CACHE_HOME:-$$HOME/.cache}"/aggregator/kafka-4.3.1

advisories: sbom ## what is known against its packages; asks the registry's service, and names what that does not know
	@$(BIN)/uv tool run --from pip-audit==2.10.1 pip-audit --path build/release/lib/python3.11/site-packages

lint: setup ## ruff, formatting, mypy
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@echo "mypy …" && $(BIN)/mypy

clean: ## stop the sandbox and remove all that was built here; the jar cache stays
	@if [ -e .sandbox/sandbox.json ] && [ -x $(BIN)/aggregator ]; then $(BIN)/aggregator sandbox down --delete; fi
	rm -rf $(VENV) build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis spark-warehouse artifacts
	find aggregator tests jobs -name __pycache__ -type d -prune -exec rm -rf {} +

lock: $(BIN)/uv ## requirements.lock anew from pyproject.toml
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--extra demo --extra test pyproject.toml -o requirements.lock

$(BIN)/uv:
	@echo "making $(VENV) with $(PYTHON) …"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check "$(UV)"

$(WARMED): $(LOOPS) | $(STAMP)
	@echo "compiling the hot loops, once …"
	@$(BIN)/python -m aggregator.replicate.warmup
	@touch $@

$(STAMP): requirements.lock pyproject.toml | $(BIN)/uv
	@echo "installing the packages of requirements.lock; half a minute on a good line (pyspark is built from source) …"
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements.lock
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --editable .
	@touch $@
