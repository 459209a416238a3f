"""Far jobs on a real disk: slots become run files, kill -9 comes in between, nothing is lost.

A slot is 16 MiB, so this takes some 100,000 puts of 150 bytes for each; `memory.far` is set low so
that slots are promoted as soon as they are full."""
import contextlib
import os
import random
import socket
import time

import pytest

from client import Client, tarry_with_port
from harness import PATIENCE_S, sanitized

pytestmark = pytest.mark.skipif(sanitized(), reason="too slow with a sanitizer")

HOUR_S = 3600
BODY = 120
FLAGS = ("--sync", "never", "--set", "memory.far=1000")


def body(number):
    return b"%0*d" % (BODY, number)


def fill(port, first, count):
    """Puts jobs first .. first + count - 1, due in one to nine hours; gives their ids."""
    rng = random.Random(first)
    chunk = 2000
    ids = []
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as s:
        for at in range(first, first + count, chunk):
            here = range(at, min(at + chunk, first + count))
            s.sendall(b"".join(b"put 10 %d 60 %d\r\n%s\r\n"
                               % (rng.randint(HOUR_S, 9 * HOUR_S), BODY, body(n)) for n in here))
            replies = b""
            while replies.count(b"\r\n") < len(here):
                piece = s.recv(1 << 20)
                assert piece, "the server hung up"
                replies += piece
            ids += [int(line.split()[1]) for line in replies.splitlines()]
    return ids


def delayed(client):
    return int(client.table("stats-tube default")["current-jobs-delayed"])


def runs(store):
    return sorted(p.name for p in store.glob("g*.run"))


def wait_for_runs(store, at_least):
    end = time.monotonic() + PATIENCE_S
    while len(runs(store)) < at_least:
        assert time.monotonic() < end, f"only {runs(store)}"
        time.sleep(0.05)


def wait_until_written(store, text):
    """Without syncs what was answered is written a moment later."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        for path in [*store.glob("w.*"), *store.glob("g*.run")]:
            with contextlib.suppress(FileNotFoundError):  # a slot that has become a run
                if text in path.read_bytes():
                    return
    raise AssertionError("it is not written")


def test_far_jobs_go_to_run_files_and_come_back(tmp_path):
    store = tmp_path / "store"
    count = 450_000
    with tarry_with_port(store, *FLAGS) as server:
        assert fill(server.port(), 1, count) == list(range(1, count + 1))
        wait_for_runs(store, 1)
        with Client(server.port()) as client:
            assert delayed(client) == count
            rng = random.Random(7)
            gone = rng.sample(range(1, count + 1), 2000)
            for id in gone[:1000]:
                assert client.say(f"delete {id}") == "DELETED"
                assert client.say(f"delete {id}") == "NOT_FOUND"
            for id in rng.sample(sorted(set(range(1, count + 1)) - set(gone)), 200):
                assert client.ask(f"peek {id}").body == body(id)
            assert delayed(client) == count - 1000
            first = client.ask("peek-delayed").args[0]
            assert client.say("kick 500") == "KICKED 500"
            assert client.table(f"stats-job {first}")["state"] == "ready"
            assert delayed(client) == count - 1500


def test_kill_while_slots_become_runs(tmp_path):
    """What was written before a kill is there after it, once, whatever the promotion was doing."""
    store = tmp_path / "store"
    jobs = {}  # id -> number
    rng = random.Random(3)
    for round_ in range(5):
        with tarry_with_port(store, *FLAGS) as server:
            with Client(server.port()) as client:
                assert delayed(client) == len(jobs), f"round {round_}"
                for id in rng.sample(sorted(jobs), min(len(jobs), 300)):
                    assert client.say(f"delete {id}") == "DELETED"
                    del jobs[id]
            first = 1 + 130_000 * round_
            jobs.update(zip(fill(server.port(), first, 130_000), range(first, first + 130_000)))
            with Client(server.port()) as client:
                assert delayed(client) == len(jobs)
            wait_until_written(store, body(first + 130_000 - 1))
            time.sleep(rng.random() * 0.6)  # anywhere in the promotion
            os.kill(server.process.pid, 9)
            server.process.wait(PATIENCE_S)
    with tarry_with_port(store, *FLAGS) as server:
        with Client(server.port()) as client:
            assert delayed(client) == len(jobs)
            for id in rng.sample(sorted(jobs), 3000):
                assert client.ask(f"peek {id}").body == body(jobs[id])
            wait_for_runs(store, 1)  # on a slow machine each promotion may have been killed
