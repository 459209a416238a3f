"""A disk that is full: puts are refused, everything else goes on, nothing acknowledged is lost.

The disk is a small tmpfs in a mount namespace of its own, which a shell keeps alive while servers
come and go. Without root it is a namespace of a user of its own; where neither may be made, the
tests are skipped.
"""
import json
import os
import random
import signal
import subprocess
import time

import pytest

from client import Client, tarry_with_port
from harness import PATIENCE_S, sanitized
from load import Consumer, Filler, Load, Meddler
from web import Web, web_port, web_server

SIZE_MIB = 192
BODY_BYTES = 60000


class Disk:
    """A tmpfs that only its own commands see."""

    def __init__(self, folder, mib=SIZE_MIB):
        self.folder = folder
        self.enter = []
        unshare = ["unshare", "-m"] if os.getuid() == 0 else ["unshare", "-Urm"]
        self.shell = subprocess.Popen(
            [*unshare, "sh", "-c", f"mount -t tmpfs -o size={mib}m tmpfs '{folder}' "
             "&& echo mounted && read line"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        said = self.shell.stdout.readline()
        if said != "mounted\n":
            self.close()
            pytest.skip(f"may not mount: {said.strip()}")
        user = [] if os.getuid() == 0 else ["-U", "--preserve-credentials"]
        self.enter = ["nsenter", "-t", str(self.shell.pid), "-m", *user]

    def run(self, *command):
        done = subprocess.run([*self.enter, *command], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def free_bytes(self):
        blocks, size = self.run("stat", "-f", "-c", "%a %S", str(self.folder)).split()
        return int(blocks) * int(size)

    def grow(self, mib):
        self.run("mount", "--options-mode", "ignore", "-o", f"remount,size={mib}m", "tmpfs",
                 str(self.folder))

    def server(self):
        return tarry_with_port(self.folder / "store", before=self.enter)

    def close(self):
        self.shell.stdin.close()
        self.shell.wait(timeout=PATIENCE_S)
        self.shell.stdout.close()


@pytest.fixture
def disk(tmp_path):
    made = Disk(tmp_path)
    yield made
    made.close()


def body_of(number):
    return b"%08d" % number * (BODY_BYTES // 8)


def fill(client, kept, window=8, delay=0):
    """Puts until one is refused; what was acknowledged goes into kept: {id: number}."""
    number, under_way, refused = len(kept), [], False
    while under_way or not refused:
        while len(under_way) < window and not refused:
            client.send(client.put_bytes(body_of(number), delay=delay))
            under_way.append(number)
            number += 1
        reply = client.reply()
        sent = under_way.pop(0)
        if reply.word == "INSERTED":
            kept[int(reply.args[0])] = sent
        else:
            assert reply.word == "OUT_OF_MEMORY", reply
            refused = True
        assert len(kept) * BODY_BYTES < 2 * SIZE_MIB << 20, "it never fills"


def check(client, kept, deleted=()):
    """All that is kept is there, byte for byte, and nothing that was deleted."""
    for id, number in kept.items():
        assert client.peek(id) == body_of(number), f"job {id} is lost"
    for id in deleted:
        assert client.peek(id) is None, f"job {id} is back"


def put_at_last(client):
    """A put is taken, sooner or later: its id."""
    end = time.monotonic() + PATIENCE_S
    while True:
        client.send(client.put_bytes(body_of(0)))
        reply = client.reply()
        if reply.word == "INSERTED":
            return int(reply.args[0])
        assert reply.word == "OUT_OF_MEMORY", reply
        assert time.monotonic() < end, "puts are still refused"
        time.sleep(0.05)


def test_full_disk_refuses_puts_and_nothing_else(disk):
    kept, deleted = {}, []
    with disk.server() as server:
        with Client(server.port()) as client, Client(server.port()) as other:
            fill(client, kept)
            print(f"full jobs={len(kept)} bytes={len(kept) * BODY_BYTES} of={SIZE_MIB << 20} "
                  f"free_bytes={disk.free_bytes()}")
            assert len(kept) * BODY_BYTES > SIZE_MIB << 18  # a quarter at the least
            # The other commands, on the full disk, for each of two connections.
            for worker in (client, other):
                for verb, answer in (("touch {}", "TOUCHED"), ("release {} 9 0", "RELEASED"),
                                     ("bury {} 9", "BURIED"), ("delete {}", "DELETED")):
                    id, body = worker.reserve()
                    assert body == body_of(kept[id])
                    assert worker.say(verb.format(id)) == answer
                    if answer == "DELETED":
                        deleted.append(id)
                        del kept[id]
                assert worker.say("kick 10") == "KICKED 1"
                assert worker.ask("stats").word == "OK"
                assert worker.ask("list-tubes").word == "OK"
            assert server.stop(signal.SIGKILL) == -signal.SIGKILL
    with disk.server() as server:  # it starts on the full disk, too
        assert server.ready()[0] == len(kept)
        with Client(server.port()) as client:
            check(client, kept, deleted)
            for _ in range(len(kept) * 3 // 4):
                id, body = client.reserve()
                assert body == body_of(kept[id])
                assert client.say(f"delete {id}") == "DELETED"
                deleted.append(id)
                del kept[id]
            kept[put_at_last(client)] = 0  # by itself, now that there is room
            for number in range(1, 50):
                kept[client.put(body_of(number))] = number
            assert server.stop(signal.SIGKILL) == -signal.SIGKILL
    with disk.server() as server:
        assert server.ready()[0] == len(kept)
        with Client(server.port()) as client:
            check(client, kept, deleted)
        assert server.stop() == 0


@pytest.mark.skipif(sanitized(), reason="takes long, and the test before has the same paths")
def test_full_disk_that_grows(disk):
    kept = {}
    with disk.server() as server:
        with Client(server.port()) as client:
            fill(client, kept, window=1, delay=3600)
            disk.grow(2 * SIZE_MIB)
            kept[put_at_last(client)] = 0
            before = len(kept)
            fill(client, kept)
            assert len(kept) > before + 200
            assert server.stop(signal.SIGKILL) == -signal.SIGKILL
    with disk.server() as server:
        assert server.ready()[0] == len(kept)
        with Client(server.port()) as client:
            check(client, kept)
        assert server.stop() == 0


def test_full_disk_filled_by_somebody_else(disk):
    """Others take all the space while the server has jobs; then give it back."""
    kept, deleted = {}, []
    with disk.server() as server:
        with Client(server.port()) as client:
            for number in range(100):
                kept[client.put(body_of(number))] = number
            hog = str(disk.folder / "hog")
            subprocess.run([*disk.enter, "dd", "if=/dev/zero", f"of={hog}", "bs=1M"],
                           capture_output=True)
            assert disk.free_bytes() == 0
            fill(client, kept)  # what it had set aside before is used up, then it refuses
            for _ in range(50):
                id, body = client.reserve()
                assert client.say(f"delete {id}") == "DELETED"
                deleted.append(id)
                assert body == body_of(kept.pop(id))
            disk.run("rm", hog)
            kept[put_at_last(client)] = 0
            check(client, kept, deleted)
            assert server.stop(signal.SIGKILL) == -signal.SIGKILL
    with disk.server() as server:
        assert server.ready()[0] == len(kept)
        with Client(server.port()) as client:
            check(client, kept, deleted)
        assert server.stop() == 0


@pytest.fixture
def small_disk(tmp_path):
    made = Disk(tmp_path, 112)
    yield made
    made.close()


@pytest.mark.skipif(sanitized(), reason="takes long")
def test_kill_on_a_full_disk(small_disk):
    """The load of test_kill.py, filling the disk, emptying it, and filling it again."""
    load = Load(small_disk.server, "1", kill_s=(0.2, 0.8))
    fill, empty = [Filler] * 4 + [Consumer, Meddler], [Consumer] * 5 + [Meddler]
    refused = []
    for kinds in (fill, empty, fill):
        load.kinds = kinds
        end = time.monotonic() + PATIENCE_S
        before = load.refused
        while load.refused == before if kinds is fill else len(load.record.alive()) > 500:
            load.run_round()
            assert time.monotonic() < end
        load.run_round()
        refused.append(load.refused - before)
    load.finish()
    print(f"{load.summary()} refused={refused}")
    assert refused[0] and refused[2] and not refused[1]


class Hours:
    """Clients of a server with a test clock, and what they know of each job."""

    def __init__(self, disk):
        self.disk = disk
        self.random = random.Random(1)
        self.due = {}      # of jobs that wait: {id: ms}
        self.gone = set()  # acknowledged or cancelled
        self.refused = 0
        self.now_ms = 0

    def start(self):
        self.server = web_server(self.disk.folder / "store", "--test-clock", before=self.disk.enter)
        self.web = Web(web_port(self.server))
        self.now_ms = self.web.get("/v1/clock").json["now_ms"]

    def end(self, number):
        self.web.close()
        status = self.server.stop(number)
        self.server.__exit__()
        return status

    def body(self, delay_s):
        return b"%08d" % delay_s * (BODY_BYTES // 8)

    def push(self):
        """A job that is due in some minutes or hours; False: it was refused."""
        delay_s = self.random.randrange(60, 3 * 3600)
        answer = self.web.post("/v1/topics/t/jobs", self.body(delay_s), delay=delay_s)
        if answer.status == 507:
            assert answer.code == "disk_full", answer
            self.refused += 1
            return False
        assert answer.status == 201, answer
        self.due[answer.json["id"]] = answer.json["due_ms"]
        return True

    def fill(self):
        while self.push():
            assert len(self.due) * BODY_BYTES < 2 * SIZE_MIB << 20, "it never fills"

    def advance(self, minutes):
        answer = self.web.post("/v1/clock/advance", by=f"{minutes}m")
        assert answer.status == 200, answer
        self.now_ms = answer.json["now_ms"]

    def take(self):
        """All that is due is handed out, whole and once, and acknowledged."""
        got = set()
        while jobs := self.web.reserve("t", count=50):
            for job in jobs:
                assert job["id"] in self.due, f"job {job['id']} is back, or twice"
                assert self.due[job["id"]] <= self.now_ms, "early"
                assert job["body"].encode() == self.body(int(job["body"][:8]))
                got.add(job["id"])
                del self.due[job["id"]]
            done = self.web.post("/v1/ack", json.dumps(
                [{"id": job["id"], "lease": job["lease"]} for job in jobs]))
            assert done.status == 200 and b"error" not in done.body, done
        late = [id for id, due in self.due.items() if due <= self.now_ms]
        assert not late, f"{len(late)} jobs are due and were not handed out"
        self.gone |= got
        return len(got)

    def cancel(self, count):
        for id in self.random.sample(sorted(self.due), min(count, len(self.due))):
            answer = self.web.ask("DELETE", f"/v1/jobs/{id}")
            assert answer.status == 200 and answer.json["cancelled"], answer
            del self.due[id]
            self.gone.add(id)


@pytest.mark.skipif(sanitized(), reason="takes long")
def test_hours_on_a_full_disk(small_disk):
    """Twelve hours of test clock: full, and full again as soon as there is room; killed on the way."""
    hours = Hours(small_disk)
    handed = 0
    hours.start()
    try:
        hours.fill()
        with Client(hours.server.port()) as client:
            client.send(client.put_bytes(b"x" * BODY_BYTES))
            assert client.reply().word == "OUT_OF_MEMORY"
        assert hours.web.get("/readyz").status == 503
        for half in range(24):
            hours.advance(30)
            taken = hours.take()
            hours.cancel(3)
            handed += taken
            end = time.monotonic() + PATIENCE_S
            while taken and not hours.push():  # by itself, as there is room
                assert time.monotonic() < end, "pushes are still refused"
                time.sleep(0.02)
            hours.fill()
            if half % 8 == 5:
                assert hours.end(signal.SIGKILL) == -signal.SIGKILL
                hours.start()
                assert hours.server.ready()[0] == len(hours.due)
        print(f"hours={half // 2 + 1} handed={handed} refused={hours.refused} left={len(hours.due)}")
        assert hours.refused > 24 and handed > 500
        hours.advance(4 * 60)
        hours.take()
        assert not hours.due
        for id in random.Random(2).sample(sorted(hours.gone), 50):
            assert hours.web.get(f"/v1/jobs/{id}").status == 404
    finally:
        assert hours.end(signal.SIGTERM) == 0
