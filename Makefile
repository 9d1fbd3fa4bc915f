# Two commands matter to a newcomer: `make demo` and `make test`. Each sets up everything it needs.

PYTHON ?= python3
VENV ?= .venv
# CI sets this to constraints.txt: the versions that were tested together.
CONSTRAINTS ?=

bin := $(VENV)/bin
pip := $(bin)/python -m pip --disable-pip-version-check --quiet
workers = $(shell $(bin)/python -c 'import os; print(min((os.cpu_count() or 1) + 1, 8))')
constrained := $(if $(CONSTRAINTS),--constraint $(CONSTRAINTS))

.DEFAULT_GOAL := help

.PHONY: help
help: ## Say what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1|\2/' | column -t -s '|'

$(bin)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or later is needed: make PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)

# Enough to pull a model while the binding is compiled.
$(VENV)/.package: pyproject.toml | $(bin)/python
	@echo "Installing lsp-calib."
	@$(pip) install $(constrained) --editable .
	@touch $@

$(VENV)/.local: pyproject.toml $(VENV)/.package
	@echo "Installing llama.cpp's binding (it is compiled: some minutes the first time)."
	@eval "$$($(bin)/python -m lsp_calib.inference.local.compiler)" && $(pip) install $(constrained) --editable '.[local]'
	@touch $@

$(VENV)/.dev: pyproject.toml $(VENV)/.local
	$(pip) install $(constrained) --editable '.[local,dev]'
	@touch $@

.PHONY: model
model: $(VENV)/.local ## Get the small default model (98 MB, once)
	@$(bin)/lsp-calib models pull smollm2-135m

# MODEL: a model's name. Unless given, the recommended one where memory and disk allow, else the smallest.
MODEL ?=

.PHONY: demo
demo: $(VENV)/.package ## Set up everything and show what it does; MODEL=smollm2-135m: on the small model (98 MB)
	@mkdir -p build; $(MAKE) --no-print-directory $(VENV)/.local >build/local.log 2>&1 & compiling=$$!; \
	trap 'kill $$compiling 2>/dev/null' EXIT; \
	$(if $(wildcard $(VENV)/.local),,echo "llama.cpp is compiled meanwhile: some minutes the first time.";) \
	$(bin)/lsp-calib models pull $(MODEL) || exit $$?; \
	$(if $(wildcard $(VENV)/.local),,echo "Waiting for llama.cpp.";) \
	wait $$compiling || { cat build/local.log; exit 1; }
	@$(bin)/lsp-calib demo $(if $(MODEL),--model $(MODEL))

# The tool gets the versions of $(VENV), and its build of llama.cpp's binding from pip's cache: nothing is compiled twice.
EXTRAS ?= local

.PHONY: install
install: $(VENV)/.local ## Put lsp-calib on your PATH, with uv or pipx where one is installed
	@mkdir -p build/tool
	@$(pip) freeze --exclude-editable > build/tool/versions.txt
	@if command -v uv >/dev/null; then \
	  $(binding) && uv tool install --quiet --force --reinstall-package lsp-calib --python $(bin)/python \
	    --constraints build/tool/versions.txt --find-links build/tool '.[$(EXTRAS)]' && \
	  echo "lsp-calib is in $$(uv tool dir --bin). Where that is not on your PATH: uv tool update-shell"; \
	elif command -v pipx >/dev/null; then \
	  $(binding) && pipx install --force --python $(abspath $(bin))/python \
	    --pip-args='--constraint $(CURDIR)/build/tool/versions.txt --find-links $(CURDIR)/build/tool' '.[$(EXTRAS)]'; \
	else \
	  echo 'Neither uv nor pipx is installed. Put this line into the file that your shell reads at its start:'; \
	  echo '  export PATH="$(abspath $(bin)):$$PATH"'; \
	fi
binding = $(pip) wheel --no-deps --wheel-dir build/tool $$(grep '^llama_cpp_python==' build/tool/versions.txt)

# What measures time runs last, with nothing beside it. Before, so many at once as $(4) says: what needs no model; the
# model in a test's own process, on one processor; servers and their model processes, one after the other.
# $(1): the tests to choose from. $(2), $(3): the same for those that need no model, and options for them.
define pytest
@code=0; logs=$$(mktemp -d); \
$(MAKE) --no-print-directory -k -j$(4) .without-model .in-process .with-servers \
  logs=$$logs with='$(1)' without='$(2)' options='$(3)' || code=1; \
cat $$logs/*; rm -r $$logs; \
$(run-pytest) -m '$(1) and alone' || code=1; \
exit $$code
endef
# Bytecode is kept whatever the environment says: otherwise each process of pytest and each that a test starts compiles
# all of the source again. Where there is none yet, one process compiles it for all workers (.without-model).
run-pytest = PYTHONDONTWRITEBYTECODE= LSP_CALIB_REQUIRE_MODEL=1 $(bin)/python -m pytest

.PHONY: .in-process .with-servers .without-model
.in-process:
	@$(run-pytest) tests/unit -m '$(with) and model and not alone' >$(logs)/1 2>&1
.with-servers:
	@$(run-pytest) --ignore=tests/unit -m '$(with) and model and not alone' >$(logs)/2 2>&1
.without-model:
	@$(if $(wildcard tests/unit/__pycache__),,$(run-pytest) --collect-only -q >/dev/null 2>&1 || :)
	@$(run-pytest) -m '($(without)) and not (model or alone)' -n $(workers) --dist worksteal $(options)

.PHONY: test
test: $(VENV)/.dev model ## Set up everything and run the tests; ARGS: for pytest, such as one test
ifdef ARGS
	$(run-pytest) $(ARGS)
else
	$(call pytest,not long,not long,,2)
endif

# A file's tests run in one process: what several compare with is computed once, from all records, for minutes.
.PHONY: test-long
test-long: $(VENV)/.dev model ## The longer suites: simulations, kills, fuzzed files, hostile code, real-model runs
ifdef ARGS
	$(run-pytest) -m long $(ARGS)
else
	$(call pytest,long,long or hypothesis,--hypothesis-profile=thorough --dist loadfile,3)
endif

# The same tests: tests/marks.py reads the variable.
.PHONY: test-thorough
test-thorough: export LSP_CALIB_THOROUGH := 1
test-thorough: test-long ## The longer suites at full size: 200 killed servers, every reference program

# Node.js for what builds and tests the extension of VS Code: the one here if it is recent enough, otherwise one from the
# package index. VS Code in a browser (code-server) wants version 24.
vscode := editor-configs/vscode
extension := build/lsp-calib.vsix
node = PATH="$$($(CURDIR)/.ci/node $(1)):$$PATH"

$(vscode)/node_modules/.package-lock.json: $(vscode)/package-lock.json
	cd $(vscode) && $(call node,22) npm ci --no-audit --no-fund --loglevel=error

# The wheel is the server as it is here; the locks say what else is installed with it.
.PHONY: vsix
vsix: $(VENV)/.dev $(vscode)/node_modules/.package-lock.json ## Package the extension of VS Code, with the server in it
	mkdir -p $(dir $(extension))
	rm -f $(vscode)/server/*.whl
	$(pip) wheel --no-deps --wheel-dir $(vscode)/server .
	$(bin)/python tests/programs/write_server_manifest.py
	cd $(vscode) && $(call node,22) npm run --silent check
	cd $(vscode) && $(call node,22) npm run --silent bundle
	cd $(vscode) && $(call node,22) npm run --silent package -- --out ../../$(extension)

.PHONY: server-lock
server-lock: $(VENV)/.dev ## Write the locks with which the extension of VS Code installs the server
	$(PYTHON) -m venv build/uv && build/uv/bin/python -m pip --disable-pip-version-check --quiet install uv
	$(bin)/python tests/programs/write_server_lock.py --uv build/uv/bin/uv

.PHONY: test-vscode
test-vscode: $(vscode)/node_modules/.package-lock.json ## The unit tests of the extension of VS Code
	cd $(vscode) && $(call node,22) npm run --silent check
	cd $(vscode) && $(call node,22) npm test --silent

# As root it installs Chromium and what code-server is compiled with; otherwise they must be there. Editors are set up in
# the user's cache (.ci/editors). What a machine cannot set up is named, and its tests skip and say so: without a package
# index of npm there is no extension, while one that does not compile or package is a failure.
.PHONY: test-editors
test-editors: $(VENV)/.dev model ## Set up real editors (apt: as root) and test in them; ARGS: for pytest
	$(pip) install $(constrained) --editable '.[local,dev,editors]'
ifneq (,$(or $(findstring vscode,$(ARGS)),$(if $(findstring tests/editors/,$(ARGS)),,all)))
	@if $(MAKE) --no-print-directory $(vscode)/node_modules/.package-lock.json; then \
	  $(MAKE) --no-print-directory vsix test-vscode; \
	else rm -f $(extension); echo "== skipped here: the extension of VS Code, whose npm packages could not be installed"; fi
endif
	@eval "$$(.ci/editors $(ARGS))" && $(run-pytest) $(or $(ARGS),tests/editors)

.PHONY: soak
soak: $(VENV)/.dev model ## Four editors at work for an hour; ARGS: --minutes 5
	$(bin)/python tests/programs/soak.py $(ARGS)

.PHONY: bench
bench: $(VENV)/.dev ## Time the calibration library beside scikit-learn, the features of a suggestion, and refits
	$(bin)/python -m pytest tests/benchmarks -m long --benchmark-group-by=group --benchmark-columns=median,min,max $(ARGS)
	$(bin)/python tests/programs/text_features_speed.py
	$(bin)/python tests/programs/store_speed.py

.PHONY: lint
lint: $(VENV)/.dev ## Check style, types and which room imports which
	$(bin)/ruff check .
	$(bin)/ruff format --check .
	$(bin)/mypy
	$(bin)/lint-imports --no-logo --no-cache

.PHONY: format
format: $(VENV)/.dev ## Format the code
	$(bin)/ruff check --fix .
	$(bin)/ruff format .

.PHONY: settings
settings: $(VENV)/.dev ## Write the table of settings into docs/reference.md and VS Code's package.json
	$(bin)/python tests/programs/write_settings.py

.PHONY: calibrators
calibrators: $(VENV)/.dev ## Fit the shipped calibrators again from records and pinned sources, and write the tables
	for name in $(notdir $(basename $(wildcard models/records/lines/line-*.jsonl))); do \
		$(bin)/lsp-calib calibrate --quiet --records models/records/lines/$$name.jsonl \
			--sources $${LSP_CALIB_DATA:?}/projects --output models/calibrators/$$name.json || exit 1; \
	done
	for file in models/records/languages/*.jsonl; do \
		language=$$(head -1 $$file | sed 's/.*"language":"\([a-z]*\)".*/\1/'); \
		$(bin)/lsp-calib calibrate --quiet --records $$file --sources $${LSP_CALIB_DATA:?}/projects-$$language \
			--output models/calibrators/$$(basename $$file .jsonl).json || exit 1; \
	done
	$(bin)/python tests/programs/rebuild_records.py
	$(bin)/python tests/programs/pooled_curves.py --write
	$(bin)/python tests/programs/language_transfer.py --write
	$(bin)/python tests/programs/sure_parts.py --write
	$(bin)/python tests/programs/typed_along.py --write
	$(bin)/python tests/programs/hiding.py --write
	$(bin)/python tests/programs/second_opinion.py --write
	$(bin)/python tests/programs/signs_worth.py --write
	for model in qwen2.5-coder-1.5b smollm2-135m; do \
		$(bin)/python tests/programs/summary_confidence.py models/records/summaries/summary-$$model-*.jsonl \
			--fit models/calibrators/summary-$$model.json || exit 1; \
	done
	$(bin)/python tests/programs/next_edits.py --write
	$(bin)/python tests/programs/write_confidence.py

.PHONY: confidence
confidence: $(VENV)/.dev ## Write the tables on the shipped records and calibrators into the documentation
	$(bin)/python tests/programs/write_confidence.py

# TAG, where the workflow of releases sets it, has to be that of the version.
.PHONY: release
release: $(VENV)/.dev ## Build a release: wheel, sdist, extension of VS Code and SHA256SUMS in build/release
	@$(bin)/python tests/programs/release.py --versions
	$(MAKE) --no-print-directory vsix
	$(bin)/python tests/programs/release.py

.PHONY: release-check
release-check: release model ## Build a release, check what it holds, and install it in fresh environments
	$(bin)/python tests/programs/release_check.py

.PHONY: lock
lock: $(VENV)/.dev ## Write the installed versions to constraints.txt
	$(bin)/python -m pip freeze --exclude-editable --exclude lsp-calib > constraints.txt

.PHONY: clean
clean: ## Remove what was made here (models and feedback stay)
	rm -rf $(VENV) $(vscode)/node_modules $(vscode)/out build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
