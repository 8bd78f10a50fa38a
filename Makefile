# Needs Python 3.11 or newer, make, and a package registry that pip can reach. Nothing else.
# More words for a command go in ARGS:  make test ARGS="-k approve"

SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help .venv az tools run test test-all test-qemu test-release test-containers test-recipes check bench conformance docs dist audit clean

# The first Python that is new enough; name another with  make PYTHON=/path/to/python
new_enough := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do $$p -c '$(new_enough)' 2>/dev/null && echo $$p && exit; done; echo python3)

# What the caller's environment says must not change what we build or run. Of pip's settings only
# those that say where packages come from are kept.
pip_may_keep := INDEX_URL EXTRA_INDEX_URL FIND_LINKS NO_INDEX CERT CLIENT_CERT PROXY TRUSTED_HOST DEFAULT_TIMEOUT TIMEOUT RETRIES CACHE_DIR NO_CACHE_DIR CONFIG_FILE KEYRING_PROVIDER
unexport $(filter-out $(pip_may_keep:%=PIP_%),$(filter PIP_%,$(.VARIABLES)))
unexport PYTHONPATH PYTHONHOME PYTHONSAFEPATH PYTHONOPTIMIZE PYTHONWARNINGS
unexport PYTHONDONTWRITEBYTECODE PYTHONUNBUFFERED # without bytecode each of a thousand processes compiles
unexport PYTEST_PLUGINS PYTEST_DISABLE_PLUGIN_AUTOLOAD MYPYPATH

py := .venv/bin/python
pip_install := $(py) -m pip install -qq --disable-pip-version-check --constraint constraints.txt

help: ## show this list
	@sed -n 's/^\([a-z.-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 17

.venv: .venv/.ready ## set up everything that running and testing need

az: .venv-az/.ready ## set up the Azure CLI in .venv-az, for the tests that use it (700 MB)

tools: .venv-libcloud/.ready .venv-custodian/.ready .venv-ansible/.ready .local/javascript/.ready ## set up more of Azure's tools (2 GB; needs Python 3.12 and npm)

run: .venv ## start the service with a small demo fleet
	.venv/bin/fairwarning up --demo $(ARGS)

# More workers than cores: many tests wait for a process or a timer.
pytest := $(py) -m pytest -n $$(($$(getconf _NPROCESSORS_ONLN) + 4)) --dist worksteal

test: .venv/.compiled-tests ## run the tests, without the long campaigns
	$(pytest) -m "not campaign" $(ARGS)

test-all: test ## the same, then the long campaigns: simulator, crashes, cluster, certify, fuzzing
	$(pytest) -m "campaign or hypothesis" --hypothesis-profile=fixed $(ARGS)

# Of a target that needs other software: a run in which all tests are skipped has tested nothing.
optional := $(py) -m pytest -rs -p no:randomly --fail-if-all-skipped

test-qemu: .venv ## a real guest in QEMU is told, approves and is rebooted (minutes; needs libvirt and QEMU)
	FAIRWARNING_QEMU=1 $(optional) tests/release/qemu $(ARGS)

test-containers: .venv .local/containers/compose/.ready ## build and run the container image and compose.yaml (minutes; needs root and Podman)
	FAIRWARNING_CONTAINERS=1 $(optional) tests/release/containers $(ARGS)

test-recipes: .venv ## the recipes with the real HAProxy, nginx, Patroni, Redis and systemd of this machine (minutes)
	$(optional) tests/recipes -rP $(ARGS)

check: .venv ## lint, format, types, import rules, workflows
	$(py) -m ruff check
	$(py) -m ruff format --check
	$(py) -m mypy
	$(py) -m mypy --platform win32 --no-warn-unreachable src/fairwarning/guest src/fairwarning/cli/main.py
	.venv/bin/lint-imports --no-logo
	.venv/bin/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	.venv/bin/check-jsonschema --builtin-schema vendor.dependabot .github/dependabot.yml
	.venv/bin/check-jsonschema --builtin-schema vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml
	.venv/bin/check-jsonschema --builtin-schema vendor.github-issue-forms $(filter-out %/config.yml,$(wildcard .github/ISSUE_TEMPLATE/*.yml))
	.venv/bin/zizmor --offline --pedantic --no-progress --quiet .github

test-release: .venv ## all campaigns at the scale of a release (hours; continues where it was interrupted)
	$(py) -m tests.release.campaigns $(ARGS)

bench: .venv ## measure, each figure beside a peer's
	$(py) -m tests.bench $(ARGS)

conformance: .venv ## every row of the contract with the tests that prove it
	@$(py) -m tests.release.conformance $(ARGS)

docs: .venv/.docs ## build the documentation into site/
	$(py) -m zensical build --clean --strict $(ARGS)

# The time of all files: the same commit gives the same bytes.
dist: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 1580601600)
dist: .venv/.docs ## build the files of a release in dist/, with SBOMs and checksums
	@rm -rf dist
	$(py) -m deploy.dist dist
	$(py) -m twine check --strict dist/*.whl dist/fairwarning-[0-9]*.tar.gz

audit: .venv/.audit ## known vulnerabilities, age and checksums of all dependencies (needs the network)
	$(py) -m deploy.dependencies
	$(py) -m pip_audit --strict --disable-pip --no-deps --requirement constraints.txt

clean: ## remove whatever these commands made
	rm -rf .venv .venv-* site dist .coverage .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache .cache .local
	find . -name __pycache__ -prune -exec rm -rf {} +

# Stamps, so that nothing is done twice: new pins empty the environment, a new pyproject.toml
# installs what changed.
.venv/.pinned: constraints.txt
	@$(PYTHON) -c '$(new_enough)' 2>/dev/null || { echo "Fairwarning needs Python 3.11 or newer, and $(PYTHON) is not. Name one that is: make PYTHON=/path/to/python3" >&2; exit 1; }
	@echo "Setting up .venv (about a minute, once)"
	@$(PYTHON) -m venv --clear .venv
	@$(pip_install) --upgrade pip
	@touch $@

.venv/.ready: .venv/.pinned pyproject.toml
	@$(pip_install) --build-constraint constraints.txt --group dev --editable '.[server,postgres]'
	@touch $@

# Once, so that not every worker compiles all tests. An error in one of them is printed by the run.
.venv/.compiled-tests: .venv/.ready
	@echo "Compiling the tests (a quarter of a minute, once)"
	@$(py) -m pytest --collect-only -q > $@ || true

.venv/.docs: .venv/.ready
	@$(pip_install) --group docs
	@touch $@

.venv/.audit: .venv/.ready
	@$(pip_install) --group audit
	@touch $@

# Without our pins: it pins its own dependencies, and shares none with us.
.venv-az/.ready: .venv/.ready pyproject.toml
	@echo "Setting up .venv-az (about three minutes, once)"
	@$(PYTHON) -m venv --without-pip .venv-az
	@$(py) -m pip --python .venv-az/bin/python install -qq --disable-pip-version-check --group az
	@touch $@

# Likewise, each in an environment of its own.
.venv-libcloud/.ready .venv-custodian/.ready: .venv-%/.ready: .venv/.ready pyproject.toml
	@echo "Setting up .venv-$*"
	@$(PYTHON) -m venv --without-pip .venv-$*
	@$(py) -m pip --python .venv-$*/bin/python install -qq --disable-pip-version-check --group $*
	@touch $@

# Ansible needs a newer Python than we do. Its collection for Azure names its requirements in a file; the
# one that we leave out is for IoT hubs and needs a C compiler.
ANSIBLE_PYTHON ?= $(shell for p in python3.14 python3.13 python3.12 python3; do $$p -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null && echo $$p && exit; done; echo python3.12)

.venv-ansible/.ready: .venv/.ready pyproject.toml
	@echo "Setting up .venv-ansible (about ten minutes, once)"
	@$(ANSIBLE_PYTHON) -m venv --clear --without-pip .venv-ansible
	@$(py) -m pip --python .venv-ansible/bin/python install -qq --disable-pip-version-check --group ansible
	@grep -v '^azure-iot-hub' .venv-ansible/lib/python3.*/site-packages/ansible_collections/azure/azcollection/requirements.txt > .venv-ansible/requirements.txt
	@$(py) -m pip --python .venv-ansible/bin/python install -qq --disable-pip-version-check --requirement .venv-ansible/requirements.txt
	@touch $@

.local/javascript/.ready: Makefile
	@mkdir -p .local/javascript
	@npm install --prefix .local/javascript --no-audit --no-fund --loglevel=error @azure/identity@4 @azure/arm-compute@25 @azure/arm-resources@7
	@touch $@

# In an environment of its own, as it is a program that tests start.
.local/containers/compose/.ready: .venv/.ready
	@$(PYTHON) -m venv --clear --without-pip .local/containers/compose
	@$(py) -m pip --python .local/containers/compose/bin/python install -qq --disable-pip-version-check --constraint constraints.txt --group compose
	@touch $@
