# Every target does its own set-up in .venv; nothing but Python 3.11+ is needed.
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3 python; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
ARGS ?=

.PHONY: help demo serve test check bench release-check clean venv-demo venv-test torture torture-embedded torture-kafka closed-loop

help:  ## what there is
	@grep -E '^[a-z-]+:.*## ' Makefile | sed 's/:.*## /\t/' | expand -t 18

demo: venv-demo  ## a real RAG app, a bad deploy, and what Groundwatch says of it
	@$(BIN)/groundwatch demo $(ARGS)

serve: venv-demo  ## the monitor, all in one process
	@$(BIN)/groundwatch serve $(ARGS)

test: check  ## every test that this machine can run
	$(BIN)/pytest -n auto $(ARGS)

check: venv-test  ## style, types, import order
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: venv-test  ## measurements; never asserted
	@for f in tests/bench/bench_*.py; do echo "== $$f" >&2; $(BIN)/python $$f || exit 1; done

torture: venv-test  ## kill -9 under load, KILLS times the monitor, then KILLS times collectors on Kafka with broker restarts
	$(BIN)/python tests/harness/torture_both.py --kills $(or $(KILLS),20)

torture-embedded: venv-test  ## the first half of it: the monitor with its own span log
	$(BIN)/python tests/harness/torture.py --kills $(or $(KILLS),20)

torture-kafka: venv-test  ## the second half: two collectors on a topic, and the broker after every tenth kill
	$(BIN)/python tests/harness/kafka_torture.py --kills $(or $(KILLS),20)

closed-loop: venv-test  ## RUNS days with duplicates, crashes, moved partitions, late feedback and overload: bias, coverage, budget
	$(BIN)/python tests/bench/bench_partition_loop.py --runs $(or $(RUNS),20)

release-check:  ## build, install in clean environments, run the demo from the wheel, sizes, licences, pip-audit
	@$(PYTHON) deploy/release_check.py

clean:  ## remove what was built
	rm -rf .venv dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

venv-demo venv-test: venv-%:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed and was not found on PATH" >&2; exit 2; }
	@$(PYTHON) deploy/bootstrap.py $*
