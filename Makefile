# Everything a person or CI runs. Needs Python 3.11 or newer (with venv) and make; the rest is set up in this folder.

.DEFAULT_GOAL := help
.PHONY: help setup build synth format lint types imports templates quick tests check e2e test up down demo bench load simulate mutants mutation nightly audit ci lock clean
MAKEFLAGS += --no-print-directory

STAGE ?= dev
STAGES := local dev prod
ARGS ?=
SEEDS ?= 500
JOBS ?= 1000
USERS ?= 16

# The newest Python that works and can make environments; `make PYTHON=/path/to/python …` chooses another.
CANDIDATES = "$(PYTHON)" python3.14 python3.13 python3.12 python3.11 python3 python
BASE = $$(sh gnomon/local/find_python.sh $(CANDIDATES))
IN := .venv/bin/python -m gnomon.local.toolchain run

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Install everything that is needed, locked, into .venv and .local (again only what changed)
	@python=$(BASE) && PYTHONPATH=. "$$python" -m gnomon.local.toolchain setup

build: setup ## Package the functions with their dependencies for a stage (STAGE=dev) into .build
	@$(IN) python -m infra.bundle --stage $(STAGE)

synth: setup ## Synthesize every stage in an empty environment into .build/synth; cdk-nag has its say
	@$(IN) python -m gnomon.local.synth $(STAGES)

format: setup ## Rewrite the sources in the one format
	@$(IN) ruff format .
	@$(IN) ruff check --fix .

lint: setup ## Format and lint, without changing anything
	@$(IN) ruff format --check .
	@$(IN) ruff check .

types: setup ## Strict types
	@$(IN) mypy

imports: setup ## Imports go one way
	@$(IN) lint-imports

templates: synth ## The synthesized templates, by cfn-lint (W3005: DependsOn that the CDK adds to be sure)
	@$(IN) cfn-lint --ignore-checks W3005 --template .build/synth/dev/*.template.json .build/synth/prod/*.template.json
	@# W3037: an action that only the emulator knows, see action_aliases in infra/stage.py
	@$(IN) cfn-lint --ignore-checks W3005 W3037 --template .build/synth/local/*.template.json

quick: setup ## Tests that take a moment (ARGS="-k cron")
	@$(IN) pytest -n 2 -m "not e2e and not slow and not nightly" $(ARGS)

tests: setup ## All tests that need no stack, slow ones included (ARGS="-k cron")
	@$(IN) pytest -n 2 -m "not e2e and not nightly" $(ARGS)

check: lint types imports templates quick ## What to run before each commit, in three minutes

e2e: setup ## End-to-end tests, on the running stack or on one of their own (ARGS="-k cron")
	@$(IN) python -m gnomon.local.e2e -- $(ARGS)

test: setup ## Set up and run all tests, end to end included
	@$(MAKE) tests
	@$(MAKE) e2e

up: setup ## Start the local stack, or bring it up to date; returns when it is ready (GNOMON_PORT=4566)
	@$(IN) python -m gnomon.local.stack

down: ## Stop the local stack and remove its state
	@python=$(BASE) && PYTHONPATH=. "$$python" -m gnomon.local.emulator

demo: setup ## The whole product in two minutes: stack, jobs, retries, history
	@$(IN) python -m gnomon.local.demo

bench: setup ## Print the budgets beside their floors: times, calls, costs, lateness (ARGS=--write: docs/benchmarks.md)
	@$(IN) python -m bench $(ARGS)

load: setup ## Many creations and forced retries at once, judged by every job's end (JOBS=1000 USERS=16; docs/load.md)
	@$(IN) python -m bench.load --jobs $(JOBS) --users $(USERS) $(ARGS)

simulate: setup ## Stories that try to lose a job, in virtual time (SEEDS=500)
	@$(IN) python -m tests.simulation --seeds $(SEEDS)

mutants: setup ## Break the code in each named way, and show what catches it
	@$(IN) python -m tests.simulation.mutants

mutation: setup ## Change the domain and use cases in one small way at a time, count what no test notices (ARGS="--since main~5")
	@$(IN) python -m gnomon.local.mutation $(ARGS)

nightly: setup ## What takes hours: long simulations, all mutants, crowds of jobs
	@$(IN) pytest -n 2 -m nightly $(ARGS)
	@$(IN) python -m tests.simulation --seeds 5000

audit: setup ## Known vulnerabilities of all locked packages, and what ships with the functions (CycloneDX)
	@$(IN) python -m gnomon.local.audit

ci: ## What CI runs: check and e2e, side by side where they can, on a stack of its own; leaves nothing running
	@$(MAKE) -j 2 lint types imports templates
	@$(IN) python -m gnomon.local.e2e --fresh --everything -- $(ARGS)

lock: setup ## Resolve the requirements anew into the lock files (ARGS=--upgrade for newer versions)
	@$(IN) python -m gnomon.local.lock $(ARGS)

clean: ## Stop every local stack of this folder and remove everything that was made
	@python=$(BASE) && PYTHONPATH=. "$$python" -m gnomon.local.emulator --all
	@rm -rf .local .build cdk.out .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage htmlcov
	@if [ -h .venv ]; then echo ".venv is a link and stays"; else rm -rf .venv; fi
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
