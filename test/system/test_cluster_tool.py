"""`make cluster`: what it says is there, is there; Ctrl-C leaves nothing of it."""
import json
import os
import pathlib
import re
import select
import signal
import subprocess
import time
import urllib.request

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]
PATIENCE_S = 240


class Tool:
    """tools/cluster, as soon as it has said what to try."""

    def __init__(self, *args):
        self.process = subprocess.Popen([TOP / "tools/cluster", *args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.said = ""

    def __enter__(self):
        end = time.monotonic() + PATIENCE_S
        while "Ctrl-C ends all of it." not in self.said:
            assert select.select([self.process.stdout], [], [], max(0, end - time.monotonic()))[0], self.said
            more = os.read(self.process.stdout.fileno(), 65536).decode()
            assert more, self.said
            self.said += more
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        self.said += self.process.communicate(timeout=PATIENCE_S)[0].decode()

    def pids(self):
        return [int(pid) for pid in re.findall(r"pid (\d+)", self.said)]

    def nodes(self):
        return re.findall(r"http (127\.0\.0\.1:\d+)", self.said)


def post(address, path, body=b""):
    with urllib.request.urlopen(urllib.request.Request(f"http://{address}{path}", body, method="POST"), timeout=PATIENCE_S) as answer:
        return json.loads(answer.read())


@pytest.mark.parametrize("args, processes", [
    ([], 6 + 1 + 1 + 3),  # three primaries and their replicas, ZooKeeper, MariaDB, three nodes
    (["--single", "--nodes", "2", "--redis-only"], 1 + 2),
])
def test_make_cluster(args, processes):
    with Tool(*args) as tool:
        pids = tool.pids()
        assert len(pids) == processes, tool.said
        first, *_, last = tool.nodes()
        job = post(first, "/v1/topics/mails/jobs?delay=100ms", b"hello")
        got = post(last, "/v1/topics/mails/reserve?wait=60s")["jobs"]
        assert [(one["id"], one["body"]) for one in got] == [(job["id"], "hello")]
    assert tool.process.returncode == 0, tool.said
    assert tool.said.endswith("ended\n"), tool.said
    for pid in pids:
        assert not pathlib.Path(f"/proc/{pid}").exists(), f"{pid} is still there:\n{tool.said}"
