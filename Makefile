# The commands of this repository. Everything is built by CMake and ninja under build/PRESET.
SHELL := /bin/bash
.DEFAULT_GOAL := build
JOBS ?= $(shell nproc)
CTEST := ctest --output-on-failure --no-tests=error --no-label-summary -j $(JOBS)

.PHONY: build serve test check claims format clean
.PHONY: packages-build packages-test build-release build-dev test-dev test-release

build: packages-build
	cmake --preset release -DYEOUL_TESTS=OFF
	cmake --build build/release -j $(JOBS)

serve: build
	build/release/yeoul serve $(ARGS)

# Sanitized unit and property tests first, then everything in release: ctest's summary comes last.
test: packages-test
	$(MAKE) --no-print-directory test-dev
	$(MAKE) --no-print-directory test-release

test-dev: packages-test
	cmake --preset dev
	cmake --build build/dev -j $(JOBS) --target sanitized_tests
	$(CTEST) --test-dir build/dev -L '^(unit|property)$$'

test-release: packages-test
	cmake --preset release -DYEOUL_TESTS=ON
	cmake --build build/release -j $(JOBS)
	$(CTEST) --test-dir build/release -LE '^nightly$$'

# The checks of the sources alone: seconds, no build.
check: packages-test
	python3 tools/check_layers.py .
	python3 tools/check_tidy.py .
	tools/check_format.sh .

# Every measurable promise, or those whose name matches: make claims ONLY=regex
claims: packages-test
	cmake --preset release -DYEOUL_TESTS=ON
	cmake --build build/release -j $(JOBS)
	python3 tools/claims.py --only '$(ONLY)'

format: packages-test
	git ls-files -z '*.h' '*.cc' | xargs -0 clang-format-19 -i

packages-build:
	@tools/install_packages.sh build

packages-test:
	@tools/install_packages.sh build test

clean:
	rm -rf build
