# `make setup` prepares a fresh Debian or Ubuntu machine (as root); the rest runs from it.

PYTHON ?= /usr/bin/python3
VENV := .venv
BIN := $(VENV)/bin
APT := python3 python3-venv python3-dev gcc libc6-dev make clang llvm libbpf1 libbpf-dev \
	libseccomp2 bubblewrap nftables iproute2 util-linux strace zsh fish openssl faketime \
	python3-bpfcc postgresql systemd openssh-server openssh-client chromium

LANGUAGES := python3-psycopg2 python3-pytest nodejs npm default-jdk-headless golang-go ruby \
	php-cli perl redis-server sudo iputils-ping curl wget git zip unzip \
	chromium

RUNTIMES := debootstrap runc podman buildah runsc golang-github-containers-common

EMULATION := qemu-system-x86 mmdebstrap busybox-static kmod cpio e2fsprogs \
	debian-archive-keyring qemu-system-arm gcc-aarch64-linux-gnu libc6-dev-arm64-cross \
	gcc-arm-linux-gnueabihf libc6-dev-armhf-cross

.PHONY: setup demo test test-sandboxes test-kernels test-kernels-slice test-faults fuzz fuzz-all fuzz-imports gallery gallery-slice check lint types proto schema docs bench bench-accuracy calibrate clean

setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml requirements.lock bpf/events.h $(wildcard bpf/*.h bpf/*.c) tools/apt
	tools/apt $(APT)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --disable-pip-version-check -c requirements.lock -e '.[collector,postgres,mcp,test]'
	$(BIN)/python bpf/build.py
	touch $@

demo: setup
	$(BIN)/python tests/scenarios/demo.py

test: setup
	$(BIN)/python -m pytest -q -n 2 -m "not gallery and not sandboxes and not kernels and not faults" tests

# What the probe says of sandboxes of real runtimes; the first run makes a root for them.
test-sandboxes: setup
	tools/apt $(RUNTIMES)
	$(BIN)/python -m pytest -q -m sandboxes tests/sandboxes

# More than two hundred random kills on each database, cut networks, full disks, mutated
# messages. Of one round that failed: make test-faults FAULTS="--seed N".
test-faults: setup
	$(BIN)/python -m pytest -q -n 2 tests/faults $(FAULTS)
	$(BIN)/python -m pytest -q -n 2 --store postgresql tests/faults/test_faults.py $(FAULTS)

# Damaged files against the importers of outcomes, a hundred thousand of them.
fuzz-imports: setup
	$(BIN)/python -m pytest -q --fuzz 100000 tests/fuzz

# Two hundred workflows in each sandbox profile, explained, beside what the profile implies.
fuzz: setup
	tools/apt $(LANGUAGES)
	mkdir -p build
	rm -f build/fuzz.db
	$(BIN)/collector fuzz --limit 200 --db build/fuzz.db

# All thousand of them in each.
fuzz-all: setup
	tools/apt $(LANGUAGES)
	mkdir -p build
	$(BIN)/collector fuzz --run thousand --db build/fuzz.db

# The whole gallery, with every language and server that its scenarios need.
gallery: setup
	tools/apt $(LANGUAGES)
	$(BIN)/python -m pytest -q -n 2 tests/scenarios

# Every sixth of them, with what happens to be installed.
gallery-slice: setup
	$(BIN)/python -m pytest -q -n 2 -m gallery --slice 6 tests/scenarios

# The senses on Debian's kernels, old and new, each booted in emulation; writes docs/kernels.md.
test-kernels: setup
	tools/apt $(EMULATION)
	$(BIN)/python -m pytest -q tests/kernels

# Every twelfth test, on the oldest of them and on one of arm64.
test-kernels-slice: setup
	tools/apt $(EMULATION)
	$(BIN)/python -m pytest -q --guest-every 12 --kernels 5.10,arm64-6.1 tests/kernels

check: lint types

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy
	$(BIN)/mypy --config-file pyproject.toml bench

# Python for proto/, under the package that ships it.
proto: setup
	$(BIN)/python -m grpc_tools.protoc -Iprobe/wire=proto/probe/v1 \
		--python_out=. --pyi_out=. --grpc_python_out=. probe/wire/stream.proto

schema: setup
	$(BIN)/python -m probe.schema > probe/report.schema.json
	$(BIN)/python -m probe.doctor.schema > probe/doctor.schema.json

docs: setup
	$(BIN)/python tools/document.py

bench: setup
	$(BIN)/python -m bench

# How often the verdict is right, beside a baseline; with the languages that are there.
bench-accuracy: setup
	$(BIN)/python -m bench.accuracy

# The weights of the grounds for a suspect, fitted anew on the galleries.
calibrate: setup
	mkdir -p build
	$(BIN)/python -m bench.accuracy --json build/known.json
	$(BIN)/python -m bench.calibration build/known.json

clean:
	rm -rf $(VENV) probe/engine/objects build dist
