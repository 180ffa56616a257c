# `make help` lists the targets.

CARGO ?= cargo
SILTSTONE := ./target/release/siltstone
DEMO_DB := demo-db
# Systems and processors, besides that of the machine, for which the library has to compile: one of 32 bits, and one
# that is not Linux. `make weekly` adds the others.
PLATFORMS ?= i686-unknown-linux-gnu x86_64-apple-darwin
ALL_PLATFORMS := $(PLATFORMS) aarch64-unknown-linux-gnu x86_64-unknown-freebsd
PREFIX ?= /usr/local
# The files for pkg-config name the prefix: a relative path and a tilde, which not all shells expand here, become absolute.
absolute = $(abspath $(patsubst ~/%,$(HOME)/%,$(1)))
override PREFIX := $(call absolute,$(PREFIX))
override DESTDIR := $(call absolute,$(DESTDIR))
# The features with an engine each.
ENGINES := silt mica flashkey flashstore bloomstore
# Features of the command: parquet, af-xdp, count-heap.
FEATURES ?=
# Installs a program that works on the project, compiled quickly rather than well.
INSTALL_TOOL := CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
	$(CARGO) install --quiet --locked
# Features that are off by default, tested and checked as well: those of the libraries.
OPTIONAL := siltstone/serde,siltstone/tracing,siltstone-network/af-xdp
# Those of all test programs: with others, the library would be built again.
TESTED := siltstone-cli/parquet,$(OPTIONAL)
# Where tests put their databases: in memory if that has 4 GB, because most of their time on a drive is spent in syncs.
# The tests of the device are on the drive in any case.
TEST_TMPDIR ?= $(shell df -Pk /dev/shm 2>/dev/null | awk -v other="$${TMPDIR:-/tmp}" \
	'NR == 2 && $$4 > 4000000 { print "/dev/shm"; found = 1 } END { if (!found) print other }')
PYTHON ?= python3
SHARE = $(DESTDIR)$(PREFIX)/share
CAPI := crates/siltstone-capi
# Where the libraries of the C interface are built, and the version of the interface.
CAPI_BUILT := target/release
CAPI_ABI := 0
# What the files for pkg-config have as the prefix.
CAPI_PREFIX = $(PREFIX)
STRIP ?= strip
VERSION := $(shell sed -n '/^\[workspace.package\]/,/^version/s/^version = "\(.*\)"/\1/p' Cargo.toml)
# The bytes that the demo reads, if it finds as many: more than 300,000 chunks.
DEMO_BYTES := 1600000000
# Directories of a machine with Rust, read in this order until there are enough bytes.
DEMO_CANDIDATES = $(shell rustc --print sysroot) $(HOME)/.cargo/registry /usr/share /usr/bin /usr/lib

.PHONY: help demo test test-clients test-evidence test-python test-python-all wheel fuzz sanitize weekly mutants lint lint-evidence platforms \
	engines build-cost bench evidence figures build install install-shared build-capi install-capi install-capi-files \
	release book version deny semver

help: ## List the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

build: ## Build the command in release mode
	$(CARGO) build --release --package siltstone-cli --features "$(FEATURES)"

# What a program is built from is not run as root: under sudo, `make install` installs what `make build` has built.
UNPRIVILEGED = $(if $(SUDO_UID),,$(1))
BUILT = test -e $(1) || { echo "make: $(1) does not exist; run make $(2) first, without sudo" >&2; exit 1; }

install: $(call UNPRIVILEGED,build) ## Install the command, its man pages and the completions of shells below PREFIX (/usr/local); compiles nothing under sudo
	@$(call BUILT,$(SILTSTONE),build)
	install -D $(SILTSTONE) $(DESTDIR)$(PREFIX)/bin/siltstone
	$(STRIP) $(DESTDIR)$(PREFIX)/bin/siltstone
	$(MAKE) --no-print-directory install-shared SILTSTONE=$(SILTSTONE)

# The man pages and completions, which the command prints.
install-shared:
	$(SILTSTONE) man $(SHARE)/man/man1
	install -d $(SHARE)/bash-completion/completions $(SHARE)/zsh/site-functions $(SHARE)/fish/vendor_completions.d
	$(SILTSTONE) completions bash > $(SHARE)/bash-completion/completions/siltstone
	$(SILTSTONE) completions zsh > $(SHARE)/zsh/site-functions/_siltstone
	$(SILTSTONE) completions fish > $(SHARE)/fish/vendor_completions.d/siltstone.fish

build-capi: ## Build the C library in release mode
	$(CARGO) build --release --package siltstone-capi

install-capi: $(call UNPRIVILEGED,build-capi) ## Install the C library below PREFIX (/usr/local), on Linux: headers, pkg-config and CMake files; compiles nothing under sudo
	@$(call BUILT,$(CAPI_BUILT)/libsiltstone_capi.so,build-capi)
	$(MAKE) --no-print-directory install-capi-files

install-capi-files:
	install -d $(DESTDIR)$(PREFIX)/include $(DESTDIR)$(PREFIX)/lib/pkgconfig $(DESTDIR)$(PREFIX)/lib/cmake/siltstone
	cd $(CAPI)/include && find . -type f -exec install -D -m 644 {} $(DESTDIR)$(PREFIX)/include/{} \;
	install $(CAPI_BUILT)/libsiltstone_capi.so $(DESTDIR)$(PREFIX)/lib/libsiltstone.so.$(CAPI_ABI)
	ln -sf libsiltstone.so.$(CAPI_ABI) $(DESTDIR)$(PREFIX)/lib/libsiltstone.so
	install -m 644 $(CAPI_BUILT)/libsiltstone_capi.a $(DESTDIR)$(PREFIX)/lib/libsiltstone.a
	$(STRIP) $(DESTDIR)$(PREFIX)/lib/libsiltstone.so.$(CAPI_ABI)
	$(STRIP) --strip-debug $(DESTDIR)$(PREFIX)/lib/libsiltstone.a
	for file in pkgconfig/siltstone.pc cmake/siltstone/siltstone-config.cmake cmake/siltstone/siltstone-config-version.cmake; do \
		sed 's|@PREFIX@|$(CAPI_PREFIX)|; s|@VERSION@|$(VERSION)|; s|@ABI@|$(CAPI_ABI)|' $(CAPI)/install/$${file##*/}.in \
			> $(DESTDIR)$(PREFIX)/lib/$$file || exit 1; \
	done

MDBOOK ?= $(or $(shell command -v mdbook),$(or $(CARGO_HOME),$(HOME)/.cargo)/bin/mdbook)
book: ## Make a site of docs/ in target/book, and check its links
	$(MDBOOK) --version || $(INSTALL_TOOL) mdbook
	packaging/book $(MDBOOK)

version: # Prints the version of the release.
	@echo $(VERSION)

release: ## Build what a release consists of in dist/, for x86-64 and aarch64, and inspect it
	packaging/release

demo: build ## Index the chunks of files of this machine, and print what that cost
	rm -rf $(DEMO_DB)
	@set --; bytes=0; for path in $(DEMO_CANDIDATES); do \
		[ -d "$$path" ] || continue; \
		[ "$$bytes" -lt $(DEMO_BYTES) ] || break; \
		set -- "$$@" "$$path"; \
		bytes=$$((bytes + 1024 * $$(du -sk "$$path" 2>/dev/null | cut -f1))); \
	done; \
	echo "$(SILTSTONE) dedup --db $(DEMO_DB) $$*"; \
	$(SILTSTONE) dedup --db $(DEMO_DB) "$$@"

# The test program `claims` includes the examples, so they are not built for themselves.
test: export TMPDIR = $(TEST_TMPDIR)
test: ## Run all tests; SILTSTONE_SEEDS (500) is how many crashing databases are simulated per engine
	$(CARGO) test --workspace --features $(TESTED) --tests
	$(CARGO) test --workspace --features $(TESTED) --doc
	SILTSTONE_MODULE=$$(ls target/debug/deps/lib_siltstone.so target/debug/deps/lib_siltstone.dylib 2>/dev/null) \
		crates/siltstone-python/test

CLIENTS_ARGS ?=
test-clients: ## Run clients of Redis, and compare the replies to random commands with those of a real Redis; CLIENTS_ARGS=--short
	crates/siltstone-server/tests/clients/run $(CLIENTS_ARGS)

# The workspace of the evidence, without the stores of others.
EVIDENCE := --manifest-path evidence/Cargo.toml

test-evidence: export TMPDIR = $(TEST_TMPDIR)
test-evidence: ## Run every table and figure of the papers at a tiny size
	$(CARGO) test $(EVIDENCE)

lint-evidence: ## Check the format of evidence/, and run clippy
	$(CARGO) fmt $(EVIDENCE) --check
	$(CARGO) clippy $(EVIDENCE) --all-targets -- -D warnings

evidence: ## Run the tables and figures of the papers, write docs/EVIDENCE.md, and fill the documents; EVIDENCE_ARGS adds options, FEATURES=peers other stores
	$(CARGO) run --release $(EVIDENCE) --features "$(FEATURES)" -- run all --budget 60min --plot docs/plots/evidence \
		--page docs/EVIDENCE.md $(EVIDENCE_ARGS)
	$(CARGO) run --release $(EVIDENCE) --features "$(FEATURES)" -- documents

# What `make figures` measures: a set of commands of a document, and the numbers of keys.
FIGURES := engines
KEYS := 1e6,1e7
figures: ## Measure the figures of docs/PERFORMANCE.md for KEYS (1e6,1e7) keys; FIGURES=large FEATURES=peers KEYS=2e6 those of docs/COMPARISON.md
	$(CARGO) build --release --package siltstone-cli
	$(CARGO) run --release $(EVIDENCE) --features "$(FEATURES)" -- figures $(FIGURES) --keys $(KEYS)

test-python: ## Build the Python package, and run its tests
	crates/siltstone-python/test

test-python-all: ## Like test-python, with PyTorch, Ray, Spark, S3 and pyright, which are large
	SILTSTONE_PYTHON_ALL=1 crates/siltstone-python/test

wheel: ## Build the wheel of the Python package in dist/
	$(PYTHON) -m venv target/wheel-venv
	target/wheel-venv/bin/pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .

fuzz: export TMPDIR = $(TEST_TMPDIR)
fuzz: ## Fuzz the decoders, FUZZ_SECONDS (60) per target; needs a C++ compiler
	FUZZ_FEATURES=$(TESTED) fuzz/run

sanitize: ## Run Shuttle on schedules of threads, and AddressSanitizer on siltstone-device; SANITIZE=all adds ThreadSanitizer
	.ci/sanitize $(SANITIZE)

# There are some thousand mutants, and each is compiled and tested: a run takes one part of them, that of the week.
MUTANTS ?= $(shell expr $$(date +%V) % 40)/40
# Crates, and the files of the library that decide and that have formats. Features differ, so each is a run of its own,
# which ends with 2 or 3 if tests find not all changes.
MUTATE = mkdir -p target/mutants/$(1) && { $(CARGO) mutants --sharding round-robin --shard $(MUTANTS) --package $(1) \
	--output target/mutants/$(1) $(2); case $$? in 0 | 2 | 3) ;; *) exit 1 ;; esac; }
mutants: ## Change the code in one place at a time, and list those that no test finds, at most one of 20; MUTANTS=2/40 is the third of 40 parts
	$(CARGO) mutants --version || $(INSTALL_TOOL) cargo-mutants
	$(call MUTATE,siltstone-index)
	$(call MUTATE,siltstone-mica)
	$(call MUTATE,siltstone-device,--features testing --features io-uring)
	$(call MUTATE,siltstone,--file 'src/engine/*/policy.rs' --file 'src/engine/*/policy/**' \
		--file 'src/store/log_format.rs' --file 'src/store/manifest/**')
	@cd target/mutants && missed=$$(cat */mutants.out/missed.txt | wc -l) && \
		found=$$(cat */mutants.out/caught.txt */mutants.out/timeout.txt | wc -l) && \
		echo "$$missed of $$((missed + found)) changes were not found: target/mutants/*/mutants.out/missed.txt" && \
		[ $$((20 * missed)) -le $$((missed + found)) ]

weekly: ## What takes hours: all platforms, many seeds, mutants, tests on a drive, large packages, long fuzzing, benchmarks
	$(MAKE) lint PLATFORMS="$(ALL_PLATFORMS)"
	SILTSTONE_SEEDS=100000 SILTSTONE_MODEL_OPERATIONS=50000 $(MAKE) test-python-all test TEST_TMPDIR=$${TMPDIR:-/tmp}
	SILTSTONE_SEEDS=10000 $(MAKE) sanitize bench SANITIZE=all
	FUZZ_OPT_LEVEL=3 $(MAKE) fuzz FUZZ_SECONDS=600
	$(MAKE) mutants

lint: platforms engines ## Check the format, run clippy and rustdoc, and check the library for other platforms and with each engine alone
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --features $(OPTIONAL) --all-targets -- -D warnings
	$(CARGO) clippy --package siltstone --package siltstone-index --package siltstone-device --package siltstone-mica --package siltstone-network -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --no-deps --workspace --features $(OPTIONAL)

DENY := bans licenses sources
deny: ## Check what dependencies may be; DENY=advisories also known faults in them, which needs the network
	$(CARGO) deny --version || $(INSTALL_TOOL) cargo-deny
	$(CARGO) deny --locked --workspace check --hide-inclusion-graph $(DENY)

LAST_TAG = $(shell git describe --tags --abbrev=0 --match 'v*' HEAD^ 2>/dev/null)
semver: ## Compare the public interface of the library with that of the last release
ifeq ($(LAST_TAG),)
	@echo "there is no earlier release to compare with"
else
	$(CARGO) semver-checks --version || $(INSTALL_TOOL) cargo-semver-checks
	$(CARGO) semver-checks --package siltstone --baseline-rev $(LAST_TAG)
endif

platforms: ## Check the library for other platforms; PLATFORMS= checks none
ifneq ($(strip $(PLATFORMS)),)
	@command -v rustup >/dev/null || { echo "make: rustup installs the standard library of other platforms, and there is no \
	rustup; install it, or use PLATFORMS= to check this platform alone" >&2; exit 1; }
	rustup target add $(PLATFORMS)
	$(CARGO) check --package siltstone $(addprefix --target ,$(PLATFORMS))
endif

engines: ## Check the library with each engine alone
	for engine in $(ENGINES); do \
		$(CARGO) check --package siltstone --no-default-features --features $$engine || exit 1; \
	done

build-cost: ## Print what a program with all engines, and with each alone, costs to compile
	.ci/build-cost default $(ENGINES)

bench: build ## Run the standard benchmarks of a database on few records
	$(SILTSTONE) bench db --fixed --key-size 20 --value-size 44 --num 1000000
	$(SILTSTONE) bench db --key-size 20 --value-size 1000 --num 500000
