"""The C library as programs use it: its example, what is installed, many threads, kill -9."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import time

import pytest

from harness import PATIENCE_S, sanitized, tarry

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
STORM = os.environ["STORM"]
LIVES = int(os.environ.get("LIVES", "6" if sanitized() else "30"))
SEED = os.environ.get("SEED", "1")


def run(*command, status=0, **more):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          timeout=PATIENCE_S * 4, **more)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


# ---- the example ----


def check_example(embed, store, **more):
    said = run(embed, store, **more)
    assert re.findall(r"(order-\d\d): (\w+)", said) == [
        ("order-41", "placed"), ("order-42", "placed"), ("order-43", "placed"),
        ("order-42", "paid"), ("order-41", "closed"), ("order-43", "closed")]


def test_the_example_closes_unpaid_orders(tmp_path):
    check_example(os.environ["EMBED"], tmp_path / "orders")
    check_example(os.environ["EMBED"], tmp_path / "orders")  # nothing is left of the first time


def kept_in(store):
    """Keys of the jobs that a store has."""
    done = tarry("export", store)
    if "there is no store" in done.stderr:  # it was killed before it had made one
        return set()
    assert done.returncode == 0, done.stderr
    return {json.loads(line).get("key") for line in done.stdout.splitlines()}


def test_the_example_goes_on_after_a_kill(tmp_path):
    """What it had pushed is there, and it can go on. (It pushes the same orders again, so its words alone prove nothing.)"""
    store = tmp_path / "orders"
    for patience in (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1, 1.5, 2):  # a machine may be busy
        embed = subprocess.Popen([os.environ["EMBED"], str(store)], stdout=subprocess.DEVNULL)
        time.sleep(patience)
        embed.kill()
        embed.wait()
        if {"order-41", "order-43"} <= kept_in(store):
            break
    else:
        pytest.fail("it never had pushed all and closed none when it was killed")
    said = run(os.environ["EMBED"], store)
    assert len(re.findall("closed", said)) == 2 and "order-42: closed" not in said
    assert kept_in(store) == set()


# ---- what is installed ----


def names(*command):
    return set(run(*command).split())


@pytest.mark.skipif(sanitized(), reason="the sanitizer has names of its own")
def test_only_tarry_is_seen():
    shared = names("nm", "-D", "--defined-only", "--format=just-symbols", os.environ["LIBTARRY_SO"])
    assert {"tarry_open", "tarry_push", "tarry_reserve", "tarry_strerror"} <= shared
    assert all(name.startswith("tarry_") for name in shared)
    static = run("nm", "-g", "--defined-only", "--format=just-symbols", os.environ["LIBTARRY_A"])
    static = {word for word in static.split() if not word.endswith(":")}
    assert static == shared
    in_header = set(re.findall(r"(?m)^TARRY_API [^(]*?(tarry_\w+)\(",
                               (TOP / "include/tarry.h").read_text()))
    assert shared == in_header


@pytest.mark.skipif(sanitized(), reason="programs would have to be built with it, too")
@pytest.mark.skipif(shutil.which("pkg-config") is None, reason="no pkg-config")
def test_an_installed_library_can_be_used(tmp_path):
    """As a user would: make install, then cc with pkg-config, shared and static."""
    build = pathlib.Path(os.environ["LIBTARRY_SO"]).parent
    run("meson", "install", "-C", build, "--no-rebuild", "--destdir", tmp_path / "root", cwd=TOP)
    found = list((tmp_path / "root").rglob("tarry.pc"))
    assert len(found) == 1
    more = {**os.environ, "PKG_CONFIG_PATH": str(found[0].parent),
            "PKG_CONFIG_SYSROOT_DIR": str(tmp_path / "root")}
    flags = run("pkg-config", "--cflags", "--libs", "tarry", env=more).split()
    libdir = found[0].parent.parent
    source = TOP / "examples/embed.c"
    run("cc", "-Wall", "-Werror", source, *flags, "-o", tmp_path / "shared")
    check_example(tmp_path / "shared", tmp_path / "a",
                  env={**os.environ, "LD_LIBRARY_PATH": str(libdir)})
    run("cc", "-Wall", "-Werror", source, "-I", tmp_path / "root/usr/local/include",
        libdir / "libtarry.a", "-pthread", "-o", tmp_path / "static")
    assert "libtarry" not in run("ldd", tmp_path / "static")
    check_example(tmp_path / "static", tmp_path / "b")


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++")
def test_the_header_is_good_for_cplusplus(tmp_path):
    program = tmp_path / "x.cc"
    program.write_text('#include "tarry.h"\nint main() { struct tarry_push p = TARRY_PUSH_INIT; '
                       'tarry_result r = TARRY_RESULT_INIT; return p.key != nullptr || r.existed; }\n')
    run("c++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only",
        "-I", TOP / "include", program)


# ---- threads, and kill -9 ----


def test_a_storm_of_threads(tmp_path):
    said = run(STORM, tmp_path / "store", "--threads", 16, "--ms", 3000, "--seed", SEED)
    found = dict(re.findall(r"(\w+)=(\d+)", said))
    print(said)
    assert int(found["acked"]) > 20 and int(found["cancelled"]) > 2  # how many they are is a matter of the machine


def test_a_storm_that_is_killed(tmp_path):
    print(run(STORM, tmp_path / "store", "--threads", 8, "--ms", 400, "--lives", LIVES,
              "--seed", SEED))


def test_lost_jobs_are_noticed(tmp_path):
    """Without a sync kill -9 takes the last moments; the storm must find that something is lost
    or, if it was a delete that was forgotten, back."""
    for seed in range(20):
        done = subprocess.run([STORM, str(tmp_path / str(seed)), "--threads", "8", "--ms", "100",
                               "--lives", "10", "--seed", str(seed), "--sync", "never"],
                              capture_output=True, text=True, timeout=PATIENCE_S)
        if done.returncode != 0:
            assert re.search(r"wrong: (lost|back|twice|deleted twice)", done.stderr), done.stderr
            return
    pytest.fail("twenty storms without a sync, and nothing was missed")
