# The entry points of the project. `make help` lists them.
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
PATHS := reconciler tests benchmarks tools
READY := $(VENV)/.ready
WORKERS ?= 3
export PYTHONDONTWRITEBYTECODE :=  # tests start Python a thousand times: modules are compiled once

.DEFAULT_GOAL := help
.PHONY: help demo test test-cluster lint types fmt golden bench bench-live soak sizing-report gpu-check pictures features verify docs chart manifests lock schemas kubectl-records cluster cluster-kind test-scheduler test-image test-large test-workers test-apply test-health differential clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

$(READY): pyproject.toml
	@echo "setting up $(VENV)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable . --group dev
	@touch $@

demo: $(READY) ## create a temporary config repository, change it, plan it, commit it
	@$(BIN)/python -m tools.demo

test: $(READY) ## run all tests that need no server, no built program and no network
	@$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal -m "not cluster" $(PYTEST)

test-cluster: $(READY) ## run the others; builds a real Kubernetes with its operators once (half an hour or more)
	@$(BIN)/python -m tests.cluster.build
	@$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal -m cluster $(PYTEST)

lint: $(READY) ## run ruff and the import contracts
	@$(BIN)/ruff check --quiet $(PATHS)
	@$(BIN)/ruff format --quiet --check $(PATHS)
	@$(BIN)/lint-imports --no-logo > .lint-imports.log 2>&1 || { cat .lint-imports.log; rm -f .lint-imports.log; exit 1; }
	@rm -f .lint-imports.log

types: $(READY) ## run mypy, strict
	@$(BIN)/mypy --no-error-summary

fmt: $(READY) ## format the code
	@$(BIN)/ruff format $(PATHS)
	@$(BIN)/ruff check --fix-only $(PATHS)

golden: $(READY) ## rewrite the expected outputs; review them as a diff
	@GOLDEN=1 $(BIN)/python -m pytest -q tests || true
	@git status --short

bench: $(READY) ## measure sizing, health, probe and agent; plan, lint, commit and --help against a lower bound and other tools
	@$(BIN)/python -m benchmarks.sizing.speed
	@$(BIN)/python -m benchmarks.evaluator
	@$(BIN)/python -m benchmarks.probing
	@$(BIN)/python -m benchmarks.agent
	@$(BIN)/python -m benchmarks.adopting
	@$(BIN)/python -m benchmarks.kaiwo
	@$(BIN)/python -m benchmarks.forecast
	@$(BIN)/python -m benchmarks.pages
	@$(BIN)/python -m benchmarks.run $(BENCH)

bench-live: $(READY) ## measure plans and applies on a real API server against bare requests, kubectl and Flux
	@$(BIN)/python -m tests.cluster.build control-plane crds sync-crds state flux-source flux-kustomize
	@$(BIN)/python -m benchmarks.live.run $(BENCH)

sizing-report: $(READY) ## compare predicted GPU memory with measured runs and other estimators
	@$(BIN)/python -m benchmarks.sizing.report

pictures: $(READY) ## draw the pictures of the README and the docs; needs Chromium
	@$(BIN)/python -m tools.pictures

features: $(READY) ## print every feature id with the tests that cover it
	@$(BIN)/python -m tools.features

docs: $(READY) ## generate docs/reference, the rules in policies/, and the definitions in the chart
	@$(BIN)/python -m tools.rules
	@$(BIN)/python -m tools.reference
	@$(BIN)/python -m tools.crds

chart: $(READY) ## generate the files of the Helm chart, and manifests/ from the chart where Helm is built
	@$(BIN)/python -m tools.chart.build

manifests: $(READY) ## build Helm once (about two minutes), then the same
	@$(BIN)/python -m tests.cluster.build helm
	@$(BIN)/python -m tools.chart.build

lock: $(READY) ## pin what the container image installs
	@$(BIN)/python -m tools.lock

schemas: $(READY) ## regenerate the Kubernetes schemas from a real API server
	@$(BIN)/python -m tools.refresh_schemas

kubectl-records: $(READY) ## record how the kubectl on PATH reads YAML and prints quantities
	@$(BIN)/python -m tools.record_kubectl

gpu-check: $(READY) ## measure an idle NVIDIA GPU of this machine, into gpu-check/, in under ten minutes; fails with error 6 if none is idle
	@$(BIN)/python -m tools.gpu_check $(GPU_CHECK)

test-scheduler: $(READY) ## run the gang tests with the real KAI scheduler
	@$(BIN)/python -m tests.cluster.build control-plane crds state kwok kai training-operator
	@$(BIN)/python -m pytest -q -m scheduler $(PYTEST)

soak: $(READY) ## run two controllers under random commits, kills and faults for an hour; MINUTES=5 for less
	@$(BIN)/python -m tests.live.controller.soak --minutes $(or $(MINUTES),60)

cluster: $(READY) ## start a cluster with 100 simulated GPU nodes, Kueue, KAI, Flux, Argo CD and Gitea; Ctrl-C stops it
	@$(BIN)/python -m tests.cluster.build
	@$(BIN)/python -m tests.cluster.bed.start $(CLUSTER)

cluster-kind: $(READY) ## create a similar cluster with kind, without Flux, Argo CD and Gitea; needs Docker, kind's images and helm
	@$(BIN)/python -m tests.cluster.build control-plane kwok kueue jobset training-operator kind
	@$(BIN)/python -m tests.cluster.bed.kind $(CLUSTER)

test-image: $(READY) ## run the build steps of the Dockerfile here; downloads packages
	@RECONCILER_TEST_IMAGE=1 $(BIN)/python -m pytest -q tests/chart/test_dockerfile.py $(PYTEST)

test-large: $(READY) ## run the tests with more and larger generated repositories, and properties with more examples
	@RECONCILER_TEST_LARGE=1 $(BIN)/python -m pytest -q --timeout 0 tests/system/test_large_files.py tests/system/test_determinism.py tests/system/test_mixed_repository.py tests/index/test_random_edits.py tests/index/test_gpu_moves.py $(PYTEST)
	@RECONCILER_TEST_LARGE=1 $(BIN)/python -m pytest -q --timeout 0 -m hypothesis $(PYTEST)

test-apply: $(READY) ## look for an unsafe apply on the real API server, in 300 random histories
	@RECONCILER_TEST_APPLY_RUNS=300 $(BIN)/python -m pytest -q --timeout 0 tests/live/apply/test_safety.py $(PYTEST)

test-health: $(READY) ## check ten thousand random histories of the health of a fleet
	@RECONCILER_TEST_HISTORIES=10000 $(BIN)/python -m pytest -q --timeout 0 -o faulthandler_timeout=0 tests/nodehealth/fleet/test_histories.py $(PYTEST)

test-workers: $(READY) ## run a job of one real cluster on another one with Kueue (MultiKueue)
	@$(BIN)/python -m tests.cluster.build control-plane crds state bed-state kwok kueue jobset
	@RECONCILER_TEST_LARGE=1 $(BIN)/python -m pytest -q tests/live/apply/test_torchrun.py -k worker $(PYTEST)

differential: $(READY) ## compare with the real components on large corpora; prints the figures of docs/correctness.md
	@$(BIN)/python -m tests.cluster.build control-plane crds state bed-state kwok kueue kueue-admission appwrapper-admission kai jobset training-operator
	@$(BIN)/python -m tests.differential $(DIFFERENTIAL)
	@RECONCILER_TEST_FORESTS=3000 RECONCILER_TEST_EDITS=0 RECONCILER_TEST_KAI_QUEUES=240 RECONCILER_TEST_WRAPPERS=1 $(BIN)/python -m pytest -q -s --timeout 0 tests/differential/test_wrapping.py tests/differential/test_kueue_admission.py tests/differential/test_kai_queues.py tests/differential/test_updates.py $(PYTEST)
	@RECONCILER_TEST_DIFFERENTIAL=1000000 $(BIN)/python -m pytest -q -s --timeout 0 tests/cluster/test_corpus.py tests/policies/test_catalogue_server.py -k "mutated or changed or grafted" $(PYTEST)
	@RECONCILER_TEST_LARGE=1 $(BIN)/python -m pytest -q --timeout 0 tests/cluster/test_agreement.py $(PYTEST)

verify: lint types test test-cluster ## run lint, types and all tests, and check that the working tree is clean
	@git diff --exit-code --stat
	@test -z "$$(git status --porcelain)"

clean: ## remove everything that was built in this folder
	@rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
