# Everything there is to do with this repository. `make demo` and `make test` need nothing but Rust: they install
# what is missing first.

CARGO ?= cargo
LOOM = RUSTC_WORKSPACE_WRAPPER=$(CURDIR)/tests/cfg/cmwq_loom
PORTABLE = RUSTC_WORKSPACE_WRAPPER=$(CURDIR)/tests/cfg/cmwq_portable

# What is not on by default. With all of them, one build serves all tests.
FEATURES = serde tracing metrics control
APART = --exclude rivals --exclude instructions --exclude cmwq-models
BENCHES = -p rivals -p instructions
EVERYTHING = --workspace $(APART) --all-features

# How long `make soak` goes on, and from which seed (the clock's, if none is given).
SECONDS = 600
SOAK_ARGS = --seconds $(SECONDS) $(if $(SEED),--seed $(SEED))

# AddressSanitizer keeps freed memory. Nightly's standard library is not instrumented, which it would refuse without the flag.
# Memory is not used again there, so that a thread that touches an item that is gone is seen.
ASAN = RUSTFLAGS="--cfg cmwq_uncached -Zsanitizer=address -Cunsafe-allow-abi-mismatch=sanitizer" CARGO_TARGET_DIR=target/address

# How many seeds `make yields` goes through.
SEEDS ?= 3

.PHONY: help setup demo test flaky gate spec test-vm portable check features loom loom-mutants yields soak soak-asan \
	soak-tsan nightly timelines-check undeclared-check bench bench-check bench-counters rivals lab-peers cross cross-check \
	check-benches package screenshot

help:
	@echo "make demo          run the main job: checksums of /usr/share/doc, and the four timelines"
	@echo "make test          the whole test suite: unit, integration, model, documentation and loom tests"
	@echo "make flaky         the suite again and again, RUNS=20 times alone, beside a load, and on one CPU: what ever failed"
	@echo "make gate          what takes too long for the CI and must hold all the same, a line for each; resumes"
	@echo "make spec          write tests/SPEC.md, what proves what, from the comments of tests"
	@echo "make test-vm       what depends on the machine, on emulated ones: caches, NUMA nodes, CPUs that come and go"
	@echo "make portable      cargo test on what systems other than Linux get: no pinning, no nice levels"
	@echo "make check         format, lints and documentation, all warnings being errors"
	@echo "make features      the library with each pair of features, and by the minimum Rust version, where that is installed"
	@echo "make loom          every loom model, each as deep as it says; ONLY=gate takes those of one file"
	@echo "make loom-mutants  show that the loom models can fail"
	@echo "make yields        integration tests with yields around every atomic and lock, from SEEDS=3 seeds"
	@echo "make soak          every operation at random for SECONDS=600 seconds, accounts checked; SEED=n repeats a run"
	@echo "make soak-asan     the same under AddressSanitizer, with a nightly compiler"
	@echo "make soak-tsan     the same and the integration tests under ThreadSanitizer, with a standard library of its own"
	@echo "make timelines-check   the four timelines on real threads, against the documented ones: wants a quiet machine"
	@echo "make undeclared-check  how soon blocking without a guard is found, against what is aimed at: the same"
	@echo "make nightly       all of these as deep as a night is long: hours"
	@echo "make bench         all benchmarks (QUICK=1 for a first look)"
	@echo "make bench-check   instructions of the hot operations, against those recorded; UPDATE=1 records them,"
	@echo "                   ONLY=\"run guard\" takes some, PROFILE=1 shows functions, JSON=1 prints JSON"
	@echo "make bench-counters  what counting costs, against a build without, both in turns for ROUNDS=9 rounds; CHECK=1 fails"
	@echo "                   if it is more than 5 % of an empty item"
	@echo "make rivals        cmwq and what would be picked instead on the same work (QUICK=1 for a first look)"
	@echo "make cross         cross-check, and tests on aarch64 and with musl; TARGETS=... takes some, ONLY=flush some tests"
	@echo "make cross-check   compile the library for aarch64, musl, Windows and macOS: minutes the first time"
	@echo "make lab-peers     the tests of published pools, unchanged, over cmwq: RUNS=10 times beside a load"
	@echo "make check-benches lints and tests of what nothing else compiles: that comparison, bench-check and the lab"
	@echo "make screenshot    draw the pictures in docs anew, from the tool itself"
	@echo "make setup         install hwloc's headers and pkg-config, where that can be done"

# hwlocality links hwloc statically described, which asks for libudev as well.
setup:
	@sh .ci/setup

demo: setup
	@mkdir -p target
	$(CARGO) build --release --examples
	@echo
	@echo "== SHA-512 of every file under /usr/share/doc, against sha512sum =="
	@target/release/examples/checksum --threads-report /usr/share/doc > target/checksum.cmwq; \
		test $$? -le 1
	@find /usr/share/doc -type f -print0 | LC_ALL=C sort -z | xargs -0 sha512sum > target/checksum.coreutils
	@cmp target/checksum.cmwq target/checksum.coreutils && \
		echo "$$(wc -l < target/checksum.cmwq) lines, byte for byte those of sha512sum"
	@echo
	@echo "== Three items on one CPU: documented and measured =="
	@target/release/examples/timelines

test: setup
	@CARGO="$(CARGO)" PACKAGES="$(EVERYTHING)" bash .ci/test suite sysfs yields models

# Hours. What a call finds is added to what others found at the same contents of the tree.
flaky: setup
	@CARGO="$(CARGO)" PACKAGES="$(EVERYTHING)" bash tests/flaky/run $(or $(RUNS),20)

# An hour and a half; what is green at the same contents of the tree is not run again.
gate: setup
	@CARGO="$(CARGO)" bash tests/gate/run $(ONLY)

spec: setup
	CMWQ_BLESS=1 $(CARGO) test $(EVERYTHING) --test tidy the_table_of_proofs

# Kept apart: it emulates whole machines, and has to fetch a kernel once. MACHINES="nodes hotplug" boots only these.
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

# What `make check` leaves out: it takes each feature by itself, none, and all.
features: setup
	@CARGO="$(CARGO)" bash .ci/features

portable: setup
	@CARGO="$(CARGO)" bash .ci/test portable

loom: setup
	$(LOOM) $(CARGO) test -p cmwq-models --profile loom models::$(ONLY)

loom-mutants: setup
	bash tests/mutants/run

yields: setup
	CARGO="$(CARGO)" bash tests/yields/run $(SEEDS) it model soak

# 100 000 cases of item states, long random runs and stress (of flushes, 10^6 and 10^4), many seeds of yields, a long soak, and
# all mutants.
nightly: setup
	CMWQ_ITEM_CASES=100000 CMWQ_SIM_RUNS=20000 PROPTEST_CASES=5000 $(CARGO) test --release --lib --test model
	CMWQ_SIM_RUNS=1000000 $(CARGO) test --release --lib -- sim::flushes
	CMWQ_STRESS=5 $(CARGO) test --release --test it
	CMWQ_STRESS=45 $(CARGO) test --release --test it -- no_flush_hangs
	CARGO="$(CARGO)" bash tests/yields/run 10 it model soak
	$(MAKE) timelines-check undeclared-check
	$(MAKE) bench-counters CHECK=1
	$(MAKE) features
	$(MAKE) portable
	$(MAKE) soak
	$(MAKE) lab-peers
	bash tests/mutants/run

# Times on real threads. Each is a median or a percentile of many, and what does not hold is measured again.
timelines-check: setup
	$(CARGO) run --release --example timelines -- --check

undeclared-check: setup
	$(CARGO) run --release --example undeclared -- --check

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

# Some seconds for each operation. A busy machine makes it slower, not different.
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

# A first look is not written down.
rivals: setup
	$(CARGO) run --release -p rivals -- $(if $(QUICK),--quick,--write docs/benchmarks.md)

# Without hwloc's headers, so without `setup`.
cross-check:
	CARGO="$(CARGO)" bash tests/cross/run check $(TARGETS)

cross: cross-check
	@CARGO="$(CARGO)" ONLY="$(ONLY)" bash .ci/test $(or $(TARGETS),aarch64-unknown-linux-gnu x86_64-unknown-linux-musl)

# Exits with 1 if a test failed that is not expected to; PEERS="threadpool yastl" takes some.
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
	$(CARGO) package --workspace $(APART)

screenshot: setup
	$(CARGO) build --release $(EVERYTHING) --bins --examples
	target/release/examples/screenshot target/release/cmwqctl docs
