# All tasks of this repository. `make demo` and `make test` need nothing but Rust: they first install missing packages.

CARGO ?= cargo
LOOM = RUSTC_WORKSPACE_WRAPPER=$(CURDIR)/tests/cfg/cmwq_loom
PORTABLE = RUSTC_WORKSPACE_WRAPPER=$(CURDIR)/tests/cfg/cmwq_portable

# Features that are off by default. With all of them, one build serves all tests.
FEATURES = serde tracing metrics control
APART = --exclude rivals --exclude instructions --exclude screenshot --exclude cmwq-models
BENCHES = -p rivals -p instructions -p screenshot
EVERYTHING = --workspace $(APART) --all-features

# The length of `make soak`, and its seed (by default taken from the clock).
SECONDS = 600
SOAK_ARGS = --seconds $(SECONDS) $(if $(SEED),--seed $(SEED))

# AddressSanitizer keeps freed memory. Nightly's standard library is not instrumented, and the sanitizer would refuse
# that without the flag. `cmwq_uncached` switches the reuse of cells off, so that accesses to freed items are found.
ASAN = RUSTFLAGS="--cfg cmwq_uncached -Zsanitizer=address -Cunsafe-allow-abi-mismatch=sanitizer" CARGO_TARGET_DIR=target/address

# The number of seeds of `make yields`.
SEEDS ?= 3

.PHONY: help setup demo test flaky gate spec test-vm portable check features loom loom-mutants yields soak soak-asan \
	soak-tsan nightly timelines-check undeclared-check timers-check bench bench-check bench-counters rivals lab-peers cross \
	cross-check check-benches package screenshot

help:
	@echo "make demo          run the demo: checksums of /usr/share/doc, and the four timelines"
	@echo "make test          the whole test suite: unit, integration, model, documentation and loom tests"
	@echo "make flaky         run the suite RUNS=20 times alone, beside a load, and on one CPU; list the tests that failed"
	@echo "make gate          run the checks that take too long for the CI, a line for each; continues after an interruption"
	@echo "make spec          write tests/SPEC.md, the table of promises and their tests"
	@echo "make test-vm       run machine-dependent checks on emulated machines: caches, NUMA nodes, CPUs that come and go"
	@echo "make portable      cargo test of the build for other systems than Linux: no pinning, no nice levels"
	@echo "make check         check format, lints and documentation; warnings are errors"
	@echo "make features      check the library with each pair of features, and with the minimum Rust version if installed"
	@echo "make loom          run every loom model at its own depth; ONLY=gate runs those of one file"
	@echo "make loom-mutants  show that the loom models can fail"
	@echo "make yields        run integration tests with yields around every atomic and lock, with SEEDS=3 seeds"
	@echo "make soak          run every operation at random for SECONDS=600 seconds with exact accounts; SEED=n repeats a run"
	@echo "make soak-asan     run the soak under AddressSanitizer, with a nightly compiler"
	@echo "make soak-tsan     run the soak and the integration tests under ThreadSanitizer, with an instrumented standard library"
	@echo "make timelines-check   compare the four timelines on real threads with the documented ones; needs a quiet machine"
	@echo "make undeclared-check  compare the delay until undeclared blocking is found with the aims; needs a quiet machine"
	@echo "make timers-check  measure the lateness of timers, and compare it with the aim; needs a quiet machine"
	@echo "make nightly       run the tests with large settings, for hours"
	@echo "make bench         run all benchmarks (QUICK=1 for a first look)"
	@echo "make bench-check   count instructions of hot operations, and compare with the record; UPDATE=1 records them,"
	@echo "                   ONLY=\"run guard\" runs some, PROFILE=1 shows functions, JSON=1 prints JSON"
	@echo "make bench-counters  measure the cost of counters, against a build without, in turns for ROUNDS=9 rounds;"
	@echo "                   CHECK=1 fails if it is over 5 % of an empty item"
	@echo "make rivals        compare cmwq with its alternatives on the same work (QUICK=1 for a first look)"
	@echo "make cross         cross-check, and run tests on aarch64 and with musl; TARGETS=... and ONLY=flush select some"
	@echo "make cross-check   compile the library for aarch64, musl, Windows and macOS: takes minutes the first time"
	@echo "make lab-peers     run the unchanged tests of published pools over cmwq, RUNS=10 times beside a load"
	@echo "make check-benches lint and test the packages of rivals, bench-check and lab-peers"
	@echo "make screenshot    draw the pictures in docs, from the tool's own output"
	@echo "make setup         install hwloc's headers and pkg-config, if possible"

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
	@ANY_SKIP="$(ANY_SKIP)" CARGO="$(CARGO)" PACKAGES="$(EVERYTHING)" bash .ci/test suite sysfs yields models

# Takes hours. Results are added to those of earlier calls for the same contents of the tree.
flaky: setup
	@CARGO="$(CARGO)" PACKAGES="$(EVERYTHING)" bash tests/flaky/run $(or $(RUNS),20)

# Takes an hour and a half. Lines that are green for the same contents of the tree are not run again.
gate: setup
	@CARGO="$(CARGO)" bash tests/gate/run $(ONLY)

spec: setup
	CMWQ_BLESS=1 $(CARGO) test $(EVERYTHING) --test tidy the_table_of_proofs

# Not part of `make test`: it emulates whole machines, and fetches a kernel once. MACHINES="nodes hotplug" boots only
# these.
test-vm: setup
	@sh .ci/setup-vm
	CARGO="$(CARGO)" bash tests/vm/run $(MACHINES)

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

# `make check` builds with each feature alone, with none, and with all. This adds the pairs.
features: setup
	@CARGO="$(CARGO)" COMPLETE="$(COMPLETE)" bash .ci/features

portable: setup
	@CARGO="$(CARGO)" PACKAGES="$(EVERYTHING)" bash .ci/test portable

loom: setup
	$(LOOM) $(CARGO) test -p cmwq-models --profile loom models::$(ONLY)

loom-mutants: setup
	bash tests/mutants/run

yields: setup
	CARGO="$(CARGO)" bash tests/yields/run $(SEEDS) it model soak

# 100 000 cases of item states, long random runs and stress tests (10^6 and 10^4 runs of flushes), many seeds of yields,
# a long soak, and all mutants.
nightly: setup
	CMWQ_ITEM_CASES=100000 CMWQ_SIM_RUNS=20000 PROPTEST_CASES=5000 $(CARGO) test --release --lib --test model
	CMWQ_SIM_RUNS=1000000 $(CARGO) test --release --lib -- sim::flushes
	CMWQ_STRESS=5 $(CARGO) test --release --test it
	CMWQ_STRESS=45 $(CARGO) test --release --test it -- no_flush_hangs
	CARGO="$(CARGO)" bash tests/yields/run 10 it model soak
	$(MAKE) timelines-check undeclared-check timers-check
	$(MAKE) bench-counters CHECK=1
	$(MAKE) features COMPLETE=1
	$(MAKE) portable
	$(MAKE) cross
	$(MAKE) soak
	$(MAKE) lab-peers
	bash tests/mutants/run

# Measures times on real threads. Each is a median or a percentile of many. A missed aim is measured again.
timelines-check: setup
	$(CARGO) run --release -p timelines -- --check

undeclared-check: setup
	$(CARGO) run --release -p undeclared -- --check

timers-check: setup
	$(CARGO) bench --bench timers -- --check

soak: setup
	$(CARGO) test --release --test soak -- $(SOAK_ARGS)

soak-asan: setup
	$(ASAN) $(CARGO) +nightly test --release --target $$(rustc -vV | sed -n 's/^host: //p') --test soak -- \
		$(SOAK_ARGS) --any-memory

soak-tsan: setup
	@CARGO="$(CARGO)" SOAK="$(SOAK_ARGS)" ONLY="$(ONLY)" bash .ci/test tsan

bench: setup
	$(CARGO) bench --bench timelines -- $(if $(QUICK),--quick)
	$(CARGO) bench --bench queueing -- $(if $(QUICK),--quick)
	$(CARGO) bench --bench counters -- $(if $(QUICK),--quick)
	$(CARGO) bench --bench timers -- $(if $(QUICK),--quick)
	$(CARGO) bench --bench affinity_scopes -- $(if $(QUICK),--quick)
	$(CARGO) bench --bench dump -- $(if $(QUICK),--quick)

# Takes some seconds for each operation. A busy machine makes it slower, but does not change the counts.
bench-check: setup
	@sh .ci/setup-valgrind
	@$(CARGO) run --release -p instructions -- $(ONLY) $(if $(UPDATE),--update) $(if $(PROFILE),--profile) \
		$(if $(JSON),--json)

UNCOUNTED = RUSTC_WORKSPACE_WRAPPER=$(CURDIR)/tests/cfg/cmwq_uncounted
OTHER_BENCH = sed -n 's/.*Executable .*(\(.*\))$$/\1/p'

bench-counters: setup
	$(UNCOUNTED) $(CARGO) bench --bench counters --no-run
	other=$$($(UNCOUNTED) $(CARGO) bench --bench counters --no-run 2>&1 | $(OTHER_BENCH)) && \
		$(CARGO) bench --bench counters -- --against "$$PWD/$$other" $(if $(CHECK),--check)

# The results of QUICK=1 are not written to the page.
rivals: setup
	$(CARGO) run --release -p rivals -- $(if $(QUICK),--quick,--write docs/benchmarks.md)

# The library is built without hwloc, so this needs no `setup`.
cross-check:
	CARGO="$(CARGO)" bash tests/cross/run check $(TARGETS)

cross: cross-check
	@CARGO="$(CARGO)" ONLY="$(ONLY)" bash .ci/test $(or $(TARGETS),aarch64-unknown-linux-gnu x86_64-unknown-linux-musl)

# Exits with 1 if a test failed unexpectedly. PEERS="threadpool yastl" selects some pools.
LAB = CARGO_TARGET_DIR=target/peers/target $(CARGO)
LAB_PEERS = --locked --manifest-path lab/peers/Cargo.toml

lab-peers: setup
	$(LAB) run --quiet $(LAB_PEERS) -p peers -- --runs $(or $(RUNS),10) $(if $(LOAD),--load $(LOAD)) $(PEERS)

check-benches: setup
	$(CARGO) fmt $(BENCHES) --check
	$(CARGO) clippy $(BENCHES) --all-targets -- -D warnings
	$(CARGO) test $(BENCHES)
	$(CARGO) fmt --manifest-path lab/peers/Cargo.toml --all --check
	$(LAB) clippy $(LAB_PEERS) --workspace -- -D warnings
	$(LAB) test $(LAB_PEERS) -p peers

package: setup
	$(CARGO) package -p cmwq -p cmwqctl

screenshot: setup
	$(CARGO) build --release -p cmwqctl -p screenshot
	target/release/screenshot target/release/cmwqctl docs
