# Every target is one line of `python -m grader`, which makes .venv on first use. Without make (Windows): that line itself.
# Another Python: make lab PYTHON=python3.12. With torch, from chapter 06 on: make lab EXTRAS=qwen3.
# More arguments: make test ARGS="-k advantages", make lab ARGS="--no-browser --port 9000".
PYTHON ?= python3

.PHONY: help lab test release grade bench mistakes attacks

help:
	@$(PYTHON) -m grader help

lab:
	@$(PYTHON) -m grader lab $(if $(EXTRAS),--extras "$(EXTRAS)") $(ARGS)

test:
	@$(PYTHON) -m grader test $(ARGS)

release:
	@$(PYTHON) -m grader release $(ARGS)

grade:
	@$(PYTHON) -m grader grade grading/submitted --out grading/report $(ARGS)

bench:
	@$(PYTHON) -m grader bench $(ARGS)

mistakes:
	@$(PYTHON) -m grader mistakes $(ARGS)

attacks:
	@$(PYTHON) -m grader attacks $(ARGS)
