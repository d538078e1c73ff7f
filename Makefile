# `make` lists the targets. `make demo` and `make test` need nothing but Rust: they first install missing packages. All
# other targets are in lab/Makefile; `make lab` lists them.

CARGO ?= cargo
LOOM = RUSTC_WORKSPACE_WRAPPER=$(CURDIR)/tests/cfg/cmwq_loom
PORTABLE = RUSTC_WORKSPACE_WRAPPER=$(CURDIR)/tests/cfg/cmwq_portable

# Features that are off by default. With all of them, one build serves all tests.
FEATURES = serde tracing metrics control testing __testing
APART = --exclude rivals --exclude instructions --exclude screenshot --exclude cmwq-models
EVERYTHING = --workspace $(APART) --all-features

# The length of `make soak`, and its seed (by default taken from the clock).
SECONDS = 600
SOAK_ARGS = --seconds $(SECONDS) $(if $(SEED),--seed $(SEED))

.PHONY: help setup demo test check loom soak bench gate

help:
	@echo "make demo   run the demo: checksums of /usr/share/doc, and the four timelines"
	@echo "make test   run the whole test suite: unit, integration, model, documentation and loom tests"
	@echo "make check  check format, lints and documentation; warnings are errors"
	@echo "make bench  run the main benchmarks (QUICK=1 for a first look)"
	@echo "make loom   run every loom model at its own depth; ONLY=limiter runs those of one file"
	@echo "make soak   run every operation at random for SECONDS=600 seconds with exact accounts; SEED=n repeats a run"
	@echo "make gate   run the checks that take too long for the CI, a line for each; continues after an interruption"
	@echo "make lab    list the rest: comparisons with other crates, instruments, other machines and targets, sanitizers"

# hwlocality links hwloc by a description for static linking, which also requires libudev.
setup:
	@sh .ci/setup

demo: setup
	@mkdir -p target
	$(CARGO) build --release --example checksum
	$(CARGO) build --release -p timelines
	@echo
	@echo "== SHA-512 of every file under /usr/share/doc, against sha512sum =="
	@target/release/examples/checksum --threads-report /usr/share/doc > target/checksum.cmwq; \
		test $$? -le 1
	@find /usr/share/doc -type f -print0 | LC_ALL=C sort -z | xargs -0 sha512sum > target/checksum.coreutils
	@cmp target/checksum.cmwq target/checksum.coreutils && \
		echo "$$(wc -l < target/checksum.cmwq) lines, byte for byte those of sha512sum"
	@echo
	@echo "== Three items on one CPU: documented and measured =="
	@target/release/timelines

# Elsewhere a skip that `.ci/skips` does not explain is a failure.
test: ANY_SKIP = 1
test: setup
	@ANY_SKIP="$(ANY_SKIP)" CARGO="$(CARGO)" PACKAGES="$(EVERYTHING)" bash .ci/test suite yields models

check: setup
	$(CARGO) fmt --all --check
	$(CARGO) clippy $(EVERYTHING) --all-targets -- -D warnings
	$(CARGO) clippy --all-targets -- -D warnings
	$(CARGO) clippy --no-default-features --all-targets -- -D warnings
	set -e; for feature in $(FEATURES); do \
		$(CARGO) clippy --no-default-features --features $$feature --lib -- -D warnings; \
	done
	$(PORTABLE) $(CARGO) check --lib --all-features
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --no-deps
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc $(EVERYTHING) --no-deps

loom: setup
	$(LOOM) $(CARGO) test -p cmwq-models --profile loom models::$(ONLY)

soak: setup
	$(CARGO) test --release --test soak -- $(SOAK_ARGS)

bench: setup
	$(CARGO) bench --bench timelines -- $(if $(QUICK),--quick)
	$(CARGO) bench --bench queueing -- $(if $(QUICK),--quick)
	$(CARGO) bench --bench counters -- $(if $(QUICK),--quick)
	$(CARGO) bench --bench timers -- $(if $(QUICK),--quick)
	$(CARGO) bench --bench affinity_scopes -- $(if $(QUICK),--quick)
	$(CARGO) bench --bench dump -- $(if $(QUICK),--quick)

# Takes an hour and a half. Lines that are green for the same contents of the tree are not run again.
gate: setup
	@CARGO="$(CARGO)" bash tests/gate/run $(ONLY)

include lab/Makefile
