"""More due jobs than memory is for: a tube is parked, others do not notice.

PARK_JOBS=5000000 PARK_NEAR=2500000 makes it the full-size burst; figures are printed (pytest -s)."""
import os
import socket
import threading
import time

import pytest

from client import Client, tarry_with_port
from harness import PATIENCE_S, sanitized

pytestmark = pytest.mark.skipif(sanitized(), reason="too slow with a sanitizer")

JOBS = int(os.environ.get("PARK_JOBS", 200_000))
NEAR = int(os.environ.get("PARK_NEAR", 20_000))
DELAY_S = int(os.environ.get("PARK_DELAY", 8))
FLAGS = ("--sync", "never", "--set", f"memory.near={NEAR}")
CHUNK = 1000
BODY = b"x" * 100


def talk(s, lines, count, end=b"\r\n"):
    """Sends all, gives everything up to `count` replies that each end with `end`."""
    s.sendall(lines)
    replies = b""
    while replies.count(end) < count:
        piece = s.recv(1 << 20)
        assert piece, "the server hung up"
        replies += piece
    return replies


def connect(port):
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)


def fill(port, tube, count, due_at):
    """Puts jobs that are due at about the same second."""
    with connect(port) as s:
        talk(s, b"use %s\r\n" % tube, 1)
        for at in range(0, count, CHUNK):
            delay = max(0, round(due_at - time.time()))
            put = b"put 2000 %d 60 %d\r\n%s\r\n" % (delay, len(BODY), BODY)
            talk(s, put * CHUNK, CHUNK)


def drain(port, tube, count):
    """Takes and deletes `count` jobs; gives their ids."""
    ids = set()
    with connect(port) as s:
        talk(s, b"watch %s\r\nignore default\r\n" % tube, 2)
        while len(ids) < count:
            n = min(200, count - len(ids))
            text = talk(s, b"reserve-with-timeout 60\r\n" * n, n * 2)
            got = [int(w.split()[1]) for w in text.split(b"\r\n") if w.startswith(b"RESERVED")]
            assert got, f"{len(ids)} of {count} came"
            assert not ids & set(got), "a job came twice"
            ids |= set(got)
            talk(s, b"".join(b"delete %d\r\n" % id for id in got), len(got))
    return ids


def trickle(port, stop, late):
    """Jobs of another tube, each due in a second; when they come, and how late."""
    with connect(port) as s:
        talk(s, b"use other\r\nwatch other\r\nignore default\r\n", 3)
        while not stop.is_set():
            begin = time.monotonic()
            talk(s, b"put 10 1 60 1\r\nx\r\n", 1)
            text = talk(s, b"reserve-with-timeout 60\r\n", 2)
            late.append((time.time(), time.monotonic() - begin - 1))
            talk(s, b"delete %s\r\n" % text.split()[1], 1)


def test_a_burst_is_parked_and_nobody_else_waits(tmp_path):
    late = []
    with tarry_with_port(tmp_path / "store", *FLAGS) as server:
        stop = threading.Event()
        others = [threading.Thread(target=trickle, args=(server.port(), stop, late))
                  for _ in range(20)]
        due_at = time.time() + DELAY_S
        fill(server.port(), b"burst", JOBS, due_at)
        for thread in others:
            thread.start()
        time.sleep(max(0, due_at + 2 - time.time()))
        with Client(server.port()) as client:
            table = client.table("stats-tube burst")
            assert int(table["current-jobs-ready"]) + int(table["current-jobs-delayed"]) == JOBS
        begin = time.monotonic()
        assert len(drain(server.port(), b"burst", JOBS)) == JOBS
        took = time.monotonic() - begin
        with Client(server.port()) as client:
            assert client.say("peek-ready") == "NOT_FOUND"
        stop.set()
        for thread in others:
            thread.join()
    late = sorted(by for at, by in late if at > due_at)
    print(f"\n{JOBS} jobs drained in {took:.1f} s, {JOBS / took:.0f}/s; {len(late)} others: "
          f"p50 {late[len(late) // 2] * 1e3:.1f} ms, p99 {late[len(late) * 99 // 100] * 1e3:.1f} ms")
    assert late[len(late) // 2] < 2  # bench/pressure has the figures; who waits for the others waits for all of them


def test_ready_jobs_that_nobody_takes_survive_a_kill(tmp_path):
    """A consumer is away; the server is killed; all jobs are still there, once."""
    store = tmp_path / "store"
    with tarry_with_port(store, *FLAGS) as server:
        fill(server.port(), b"burst", JOBS // 2, 0)
        time.sleep(0.5)
        os.kill(server.process.pid, 9)
        server.process.wait(PATIENCE_S)
    with tarry_with_port(store, *FLAGS) as server:
        with Client(server.port()) as client:
            table = client.table("stats-tube burst")
            count = int(table["current-jobs-ready"])
            assert count == int(table["current-jobs-ready"]) + int(table["current-jobs-delayed"])
        assert len(drain(server.port(), b"burst", count)) == count
