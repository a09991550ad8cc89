# Everything a person or CI does here. `make` alone lists it.
# Empty: scripts/setup chooses.
PYTHON ?=
BIN := .venv/bin

.PHONY: help setup run check test escape agents projects conformance bench surface soak kills siege vm docs clean

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1|\2/p' Makefile | column -t -s '|'

setup: ## install what is missing: bubblewrap, git, ripgrep, a virtual environment, the locked dependencies
	@sh scripts/setup $(if $(PYTHON),"$(PYTHON)")

run: setup ## programs in the sandbox and a test repaired in a workspace, by a real MCP client
	@$(BIN)/python examples/demo.py

check: setup ## lint, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: setup ## all tests, as this user and, when that is root, as an ordinary one too
	@scripts/test

escape: setup ## the hostile programs alone, as a table
	@$(BIN)/python -m tests.escape

agents: setup ## real coding agents from npm in gloveport exec, against a provider that demands the key
	@$(BIN)/python -m tests.agents

projects: setup ## real projects by the tools of a workspace alone: installed, tested, watched, served; a table
	@$(BIN)/python -m tests.projects $(NAMES) $(foreach one,$(TOOLCHAINS),--toolchain $(one))

conformance: setup ## the official MCP conformance suite against this server (needs npm)
	@$(BIN)/python tests/conformance/run.py

bench: setup ## measure, each figure against a named baseline of the same run
	@$(BIN)/python -m bench $(BENCH) $(if $(RUNS),--runs $(RUNS))

surface: setup ## what a client loads of Gloveport and reads of its answers, in tokens, within budgets
	@$(BIN)/python -m bench.surface

soak: setup ## 20,000 runs, good and bad, after which nothing may be left of them
	@$(BIN)/python -m bench.soak $(RUNS) $(if $(SESSIONS),--sessions $(SESSIONS))

kills: setup ## 500 servers killed at random moments, after which nothing may be left of them
	@$(BIN)/python -m bench.kills $(ROUNDS)

siege: setup ## hostile runs within the default limits: what they cost an honest caller and the host (an hour)
	@$(BIN)/python -m bench.siege $(CASES) $(if $(SEED),--seed $(SEED)) $(if $(SCALE),--scale $(SCALE))

vm: setup ## contract suite and hostile programs in a Debian 13 with Ubuntu's AppArmor profile for bubblewrap (root)
	@scripts/vm

docs: setup ## write the generated pages of docs/ anew
	@$(BIN)/python scripts/generate_docs.py

clean: ## remove what the targets made
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
