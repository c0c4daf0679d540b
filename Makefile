# The commands of this repository. Everything is built by CMake and ninja under build/PRESET.
#   make build | serve | test | check | format | claims [ONLY=regex] | nightly
SHELL := /bin/bash
.DEFAULT_GOAL := build
JOBS ?= $(shell nproc)
PYTHON ?= $(firstword $(wildcard /usr/bin/python3) python3)
FUZZ_SECONDS ?= 180
CTEST := ctest --output-on-failure --no-tests=error --no-label-summary -j $(JOBS)

# $(call build_preset,PRESET,ninja targets): configures with the tests and builds.
build_preset = cmake --preset $(1) -DYEOUL_TESTS=ON && cmake --build build/$(1) -j $(JOBS) $(addprefix --target ,$(2))

.NOTPARALLEL:
.PHONY: build serve test check claims format nightly clean
.PHONY: packages-build packages-test packages-nightly test-dev test-release
.PHONY: nightly-release nightly-clang nightly-tidy nightly-asan nightly-tsan nightly-fuzz nightly-aarch64 nightly-soak

build: packages-build
	cmake --preset release -DYEOUL_TESTS=OFF
	cmake --build build/release -j $(JOBS)

# Answers on 127.0.0.1 and prints how to ask. Other checkpoints and options: make serve ARGS="--model DIR"
serve: build
	build/release/yeoul serve $(ARGS)

# Sanitized unit and property tests first, then everything in release: ctest's summary comes last.
test: test-dev test-release

test-dev: packages-test
	$(call build_preset,dev,sanitized_tests)
	$(CTEST) --test-dir build/dev -L '^(unit|property)$$'

test-release: packages-test
	$(call build_preset,release)
	$(CTEST) --test-dir build/release -LE '^nightly$$'

# The sources alone: seconds, nothing is built.
check: packages-test
	$(PYTHON) tools/check_layers.py .
	$(PYTHON) tools/check_tidy.py .
	tools/check_format.sh .

# Every measurable promise, or those whose name matches ONLY, a JSON line each.
claims: packages-test
	$(call build_preset,release) >&2
	@$(PYTHON) tools/claims.py --only '$(ONLY)'

format: packages-test
	git ls-files -z '*.h' '*.cc' | xargs -0 clang-format-19 -i

# What takes longer than a change should wait for. Each part can be run alone.
nightly: nightly-release nightly-clang nightly-tidy nightly-asan nightly-tsan nightly-fuzz nightly-aarch64 nightly-soak

nightly-release: packages-nightly
	$(call build_preset,release)
	$(CTEST) --test-dir build/release -L '^nightly$$'

nightly-clang: packages-nightly
	$(call build_preset,clang)
	$(CTEST) --test-dir build/clang -LE '^(nightly|check)$$'

nightly-tidy: packages-nightly
	cmake --preset clang
	run-clang-tidy-19 -quiet -j $(JOBS) -p build/clang '/(src|apps)/.*(?<!_test)\.cc$$'

# What make test leaves out of its sanitized half: the server end to end and the simulation.
nightly-asan: packages-nightly
	$(call build_preset,dev)
	$(CTEST) --test-dir build/dev -L '^(simulation|e2e)$$'

# Whatever runs threads: the simulation, the server end to end, and the unit tests.
nightly-tsan: packages-nightly
	$(call build_preset,tsan)
	$(CTEST) --test-dir build/tsan -L '^(unit|simulation|e2e)$$'

nightly-fuzz: packages-nightly
	$(PYTHON) tools/run_fuzzers.py --seconds $(FUZZ_SECONDS)

nightly-aarch64: packages-nightly
	tools/aarch64_sysroot.sh
	$(call build_preset,aarch64)
	$(CTEST) --test-dir build/aarch64 -L '^(unit|golden)$$'

# Two hours of mixed load; `make claims ONLY=soak` takes ten minutes.
nightly-soak: packages-nightly
	$(call build_preset,release,yeoul)
	$(PYTHON) tests/e2e/soak_claim.py build/release/yeoul --minutes 120

packages-build:
	@tools/install_packages.sh build

packages-test:
	@tools/install_packages.sh build test

packages-nightly:
	@tools/install_packages.sh build test nightly

clean:
	rm -rf build
