# What one types: `make help` tells.

CARGO ?= cargo
SILTSTONE := ./target/release/siltstone
DEMO_DB := demo-db
# The demo reads so much, in bytes, if it finds it: more than 300,000 chunks.
DEMO_BYTES := 1600000000
# Real files that a machine with Rust has, in the order in which they are taken until there are enough.
DEMO_CANDIDATES := $(shell rustc --print sysroot) $(HOME)/.cargo/registry /usr/share /usr/bin /usr/lib

.PHONY: help demo test fuzz sanitize lint bench build

help: ## Tell what can be made
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

build: ## Build the command line in release mode
	$(CARGO) build --release --package siltstone-cli

demo: build ## Index the chunks of real files of this machine, and tell what that took
	rm -rf $(DEMO_DB)
	@set --; bytes=0; for path in $(DEMO_CANDIDATES); do \
		[ -d "$$path" ] || continue; \
		[ "$$bytes" -lt $(DEMO_BYTES) ] || break; \
		set -- "$$@" "$$path"; \
		bytes=$$((bytes + 1024 * $$(du -sk "$$path" 2>/dev/null | cut -f1))); \
	done; \
	echo "$(SILTSTONE) dedup --db $(DEMO_DB) $$*"; \
	$(SILTSTONE) dedup --db $(DEMO_DB) "$$@"

test: ## Run all tests
	$(CARGO) test --workspace
	$(CARGO) test --package siltstone-network --features af-xdp --test af_xdp
	$(CARGO) test --manifest-path fuzz/Cargo.toml --target-dir target

fuzz: ## Search for bytes that break a decoder, FUZZ_SECONDS (60) each; needs a C++ compiler
	fuzz/run

sanitize: ## Run threads under ThreadSanitizer and Shuttle, the device folder under AddressSanitizer
	.ci/sanitize

lint: ## Check the format and the lints
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(CARGO) clippy --package siltstone-network --features af-xdp --all-targets -- -D warnings
	$(CARGO) fmt --manifest-path fuzz/Cargo.toml --check
	$(CARGO) clippy --manifest-path fuzz/Cargo.toml --target-dir target --lib --test corpus -- -D warnings

bench: build ## Run the usual benchmarks of a database, small
	$(SILTSTONE) bench db --fixed --key-size 20 --value-size 44 --num 1000000
	$(SILTSTONE) bench db --key-size 20 --value-size 1000 --num 500000
