# Two commands are enough: `make run` and `make test`. Both create .venv themselves from the hash-locked requirements.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PORT ?= 8080
# Test processes. Each has its own database and its own copy of the product; a file is never split.
WORKERS ?= 2
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help run test test-full check fmt proto bench vendor lock migrations clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  \033[1m%-12s\033[0m %s\n", $$1, $$2}'

$(STAMP): requirements/dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Poolgate needs Python 3.11 or newer; $(PYTHON) is %d.%d. Name another: make PYTHON=python3.12 ..." % sys.version_info[:2])'
	@echo "Installing into $(VENV) (once; about a minute) ..."
	@$(BIN)/python -m pip --version > /dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@touch $@

.venv: $(STAMP) ## Create the virtual environment

run: $(STAMP) ## Start everything with demo data and the simulator (PORT=8080)
	@$(BIN)/python manage.py up --demo --port $(PORT) $(ARGS)

test: $(STAMP) ## Run the tests that CI runs (at most 10 minutes)
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -m "not full" $(ARGS)

test-full: $(STAMP) ## Run everything, the heavy tests and real clients from npm included
	@$(BIN)/python -m pytest -rs $(ARGS)

check: $(STAMP) ## Format, lint, types, import contracts, migrations
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy .
	@$(BIN)/lint-imports
	@$(BIN)/python manage.py makemigrations --check --dry-run

fmt: $(STAMP) ## Format and fix what can be fixed
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

proto: $(STAMP) ## Regenerate protobufs/ from the .proto
	@$(BIN)/python -m grpc_tools.protoc -Iprotobufs --python_out=protobufs --pyi_out=protobufs protobufs/agent_v1.proto

bench: $(STAMP) ## Measure CPU per request and per chunk against a bare relay (3 minutes)
	@$(BIN)/python -m bench $(ARGS)

vendor: $(STAMP) ## Fetch the pinned panel assets again and check their hashes
	@$(BIN)/python static/vendor/fetch.py

lock: $(STAMP) ## Compile requirements/*.txt with every version and hash
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --custom-compile-command "make lock" pyproject.toml -o requirements/runtime.txt $(ARGS)
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --custom-compile-command "make lock" --extra embedded --extra dev pyproject.toml -o requirements/dev.txt $(ARGS)

migrations: $(STAMP) ## Write migrations for changed models
	@$(BIN)/python manage.py makemigrations

clean: ## Remove the virtual environment and caches (never var/)
	@rm -rf $(VENV) .mypy_cache .ruff_cache .import_linter_cache
