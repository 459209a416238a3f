# The front door. Everything a developer or CI runs has one name here; meson and tools/ do the work.

SEED ?= 1
SEEDS ?= 5000
SWARM ?=
SECONDS ?= 60
ARGS ?=
PREFIX ?= /usr/local

.PHONY: all help run test check sim mutants fuzz coverage bench bench-quick \
	bench-scale bench-100m bench-pressure cluster chaos lint fmt asan tsan soak soak-flat soak-redis powerloss deb install clean
.DEFAULT_GOAL := all

all:                  ## build
	@tools/setup run
	@ninja -C $$(tools/configure gcc)

help:                 ## this list
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run:                  ## build and start the server; ARGS="--data DIR ..."
	@tools/setup run
	@ninja -C $$(tools/configure gcc) tarry
	build/tarry serve $(ARGS)

test:                 ## everything CI runs: lint, gcc, clang, sanitizers, simulation, system
	@tools/setup test
	@tools/test-all all

check:                ## the quick part before a commit: lint, unit tests, short simulation
	@tools/setup test
	@tools/test-all check

sim: all              ## long simulation; SEED=first SEEDS=how many SWARM=name
	build/tarry-sim $(SEED) $(SEEDS) $(SWARM)

mutants:              ## does the simulator find every fault we plant? writes doc/mutations.md
	@tools/setup run
	@ninja -C $$(tools/configure mutants) tarry-sim-mutants
	build-mutants/tarry-sim-mutants $(if $(SWARM),$(SWARM),--table doc/mutations.md)

soak: all             ## kill -9 under load, again and again; MINUTES=10 or ROUNDS=n SEED=n
	@tools/setup test
	@tools/soak

soak-flat: all        ## steady load: is memory, disk, files, lateness flat? MINUTES=60 RATE=500; draws doc/
	@tools/setup test
	@tools/soak-flat --svg doc/soak.svg

soak-redis: all       ## three nodes on a Redis Cluster, a fault every few seconds; MINUTES=10 SEED=n
	@tools/setup test
	@tools/soak-redis

powerloss: all        ## power cuts under load: a disk that forgets what was not synced; CUTS=200 SEED=n
	@tools/setup test
	@TARRY_BIN=build/tarry STORE_TOOL=build/store-tool POWERLOSS_SO=$$PWD/build/libpowerloss.so \
		CUTS=$(or $(CUTS),200) SEED=$(or $(SEED),1) \
		/usr/bin/python3 -B -m pytest -q -s -p no:cacheprovider test/system/test_powerloss.py

fuzz:                 ## fuzz each parser; SECONDS= or MINUTES= each, TARGET="beanstalk web ..."
	@tools/setup test
	@tools/fuzz $(if $(MINUTES),$$(($(MINUTES) * 60)),$(SECONDS)) $(TARGET) $(NAME)

coverage:             ## branches of the engine that unit tests and simulation reach
	@tools/setup test
	@tools/coverage

bench: all            ## beside beanstalkd, Redis and an echo; ROWS=put,cycle REPS=n; writes doc/
	@tools/setup test
	@/usr/bin/python3 -B bench/run --write --rows "$(ROWS)" --reps $(or $(REPS),0)

bench-quick: all      ## the same in two minutes, rough, only printed
	@tools/setup test
	@/usr/bin/python3 -B bench/run --quick --rows "$(ROWS)" --reps $(or $(REPS),0)

bench-scale: all      ## 10 million far jobs, beside beanstalkd and Redis; ROWS= IDLE=300; writes doc/
	@tools/setup test
	@/usr/bin/python3 -B bench/scale --write --idle $(or $(IDLE),0) --rows "$(ROWS)"

bench-100m: all       ## 100 million far jobs, alone; 17 GB of disk; ROWS= IDLE=300; writes doc/
	@tools/setup test
	@/usr/bin/python3 -B bench/scale --write --jobs 100000000 --alone --idle $(or $(IDLE),0) \
		--rows "$(ROWS)"

bench-pressure: all   ## commits during promotion and merge, lateness beside a huge tube; writes doc/
	@tools/setup test
	@/usr/bin/python3 -B bench/pressure --write --rows "$(ROWS)" --reps $(or $(REPS),0)

cluster:              ## three nodes on a Redis Cluster of 3 + 3, MariaDB, ZooKeeper, until Ctrl-C; ARGS=--redis-only
	@tools/setup test
	@ninja -C $$(tools/configure gcc) tarry
	@tools/cluster $(ARGS)

chaos: all            ## faults on a whole cluster, and a judge; MINUTES=2 SEED=n FAULTS=a,b ARGS="--wait 1"
	@tools/setup test
	@tools/chaos --minutes $(or $(MINUTES),2) $(if $(filter-out file,$(origin SEED)),--seed $(SEED)) \
		--faults "$(FAULTS)" $(ARGS)

lint:                 ## layers, purity, headers, shape, clang-format, clang-tidy, cppcheck
	@tools/setup test
	@tools/test-all lint

fmt:                  ## rewrite to the house format
	@tools/setup test
	@tools/check-format --fix

asan:                 ## tests under address and undefined-behaviour sanitizers, slow checks on
	@tools/setup test
	@tools/test-all asan

tsan:                 ## tests under the thread sanitizer
	@tools/setup test
	@tools/test-all tsan

deb:                  ## a Debian package of the server, into build/
	@tools/setup deb
	@ninja --quiet -C $$(tools/configure gcc) tarry
	@packaging/build-deb build

install: all          ## install under PREFIX (/usr/local), DESTDIR is honoured
	meson configure build -Dprefix=$(PREFIX)
	meson install -C build

clean:                ## remove the build folders
	rm -rf build build-asan build-clang build-cov build-mutants build-tsan
