"""The port to databases (src/remote/sql*.c) on a real MariaDB, through sql-tool, which has a model of each job: what
is answered is true, whatever is killed or cut off meanwhile."""
import itertools
import os
import random
import select
import socket
import subprocess
import threading
import time

import pytest

from harness import PATIENCE_S, tarry
from mariadb_server import Server
from ports import free_port

TOOL = os.environ.get("SQL_TOOL", "")
pytestmark = pytest.mark.skipif(not TOOL, reason="built without libmariadb")
ALL_RIGHT = {"wrong": 0, "missing": 0, "extra": 0, "miscounted": 0}


@pytest.fixture(scope="module")
def maria():
    with Server() as server:
        yield server


def make(maria):
    """A database with tables: its name."""
    name = maria.database()
    maria.ask(tarry("sql", "migrate", "--print").stdout, name)
    return name


class Tool:
    """A running sql-tool."""

    def __init__(self, port, name, seconds, *more, conns=3, seed=1):
        self.process = subprocess.Popen(
            [TOOL, f"mariadb://127.0.0.1:{port}/{name}", name, "word", str(conns), str(seconds), str(seed), *more],
            stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"

    def result(self):
        out, _ = self.process.communicate(timeout=PATIENCE_S * 4)
        assert self.process.returncode == 0, out
        counts = {key: int(value) for key, value in (part.split("=") for part in out.split())}
        print(counts)
        assert {key: counts[key] for key in ALL_RIGHT} == ALL_RIGHT, counts
        return counts


class Relay:
    """Between the tool and the server: of every so-many commits it loses the answer, or the commit itself, or is late
    with it, when the tool has been cut off already."""

    def __init__(self, port, seed, every=12, ways=("before", "after", "late")):
        self.target = port
        self.random = random.Random(seed)
        self.every = every
        self.lost = dict.fromkeys(ways, 0)
        self.turns = itertools.cycle(self.lost)  # each of them in turn: a slow machine has few commits
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.open = True
        self.threads = [threading.Thread(target=self.accept)]
        self.threads[0].start()

    def accept(self):
        while self.open:
            if not select.select([self.listener], [], [], 0.1)[0]:
                continue
            client, _ = self.listener.accept()
            try:
                server = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                client.close()
                continue
            for each in (client, server):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            thread = threading.Thread(target=self.carry, args=(client, server))
            self.threads.append(thread)
            thread.start()

    def carry(self, client, server):
        """Both ways, until one side or a whim ends it."""
        cut = False
        with client, server:
            while self.open:
                ready, _, _ = select.select([client, server], [], [], 0.1)
                try:
                    if client in ready:
                        data = client.recv(1 << 20)
                        if not data:
                            return
                        if b"; COMMIT" in data and b"UPDATE `lane`" in data and self.random.randrange(self.every) == 0:
                            how = next(self.turns)
                            self.lost[how] += 1
                            if how == "hold":  # it is done, and nobody hears of it or of anything else
                                self.every = 1 << 30
                                server.sendall(data)
                                time.sleep(5)
                                return
                            if how == "before":
                                return
                            if how == "late":
                                client.close()
                                time.sleep(0.1)
                                server.sendall(data)
                                server.recv(1 << 20)
                                return
                            cut = True
                        server.sendall(data)
                    if server in ready:
                        data = server.recv(1 << 20)
                        if not data:
                            return
                        if cut:  # it was done: nobody hears of it
                            return
                        client.sendall(data)
                except OSError:
                    return

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.open = False
        for thread in self.threads:
            thread.join()
        self.listener.close()


def test_lost_commits_are_found_out(maria):
    """Answers that do not come, and commits that never came: the lane tells one from the other. This
    test is the first, as a server that has just been started is not asked to kill old connections: locks have to do."""
    with Relay(maria.port, seed=5, every=6) as relay:
        counts = Tool(relay.port, make(maria), 3, seed=5).result()
        assert min(relay.lost.values()) > 0, relay.lost
    assert counts["lookups"] > 0 and counts["unsure"] == 0
    assert counts["undone"] == 0  # those that were not done were done again


def test_an_answer_that_is_late_is_looked_up(maria):
    """As the server has it: an answer is waited for longer than what became of a commit is looked for."""
    with Relay(maria.port, seed=5, every=3, ways=["hold"]) as relay:
        counts = Tool(relay.port, make(maria), 1, "server", seed=5).result()
        assert relay.lost == {"hold": 1}
    assert counts["lookups"] == 1 and counts["unsure"] == counts["undone"] == 0


def test_all_is_as_it_was_answered(maria):
    counts = Tool(maria.port, make(maria), 2).result()
    assert counts["done"] > 20 and counts["undone"] == counts["unsure"] == 0
    assert counts["lookups"] == 0


def test_two_at_once(maria):
    """Two nodes in one database, in the same slots: rows of both are locked next to each other."""
    name = make(maria)
    tools = [Tool(maria.port, name, 1, seed=seed, conns=2) for seed in (3, 4)]
    counts = [tool.process.communicate(timeout=PATIENCE_S * 4)[0] for tool in tools]
    for out in counts:  # counts and pages are of both
        assert "wrong=0 missing=0 extra=0" in out and "unsure=0" in out, counts
    assert maria.ask("SELECT COUNT(*) FROM lane", name) == "4\n"
    assert maria.ask("SELECT SUM(waiting), SUM(reserved), SUM(bytes) FROM cnt", name) == \
        maria.ask("SELECT SUM(state = 0), SUM(state = 1), SUM(LENGTH(body)) FROM job", name)
    assert maria.ask("SELECT COUNT(*) FROM job_key", name) == \
        maria.ask("SELECT COUNT(*) FROM job WHERE jkey IS NOT NULL", name)


def test_one_bad_item_fails_alone(maria):
    counts = Tool(maria.port, make(maria), 1, "bad", seed=6).result()
    assert counts["refused"] == counts["undone"] > 0 and counts["halvings"] > 0
    assert counts["done"] > counts["refused"]


def test_server_killed_in_the_middle(maria):
    name = make(maria)
    tool = Tool(maria.port, name, 4, seed=7)
    time.sleep(1)  # some load
    maria.kill()
    maria.start()
    counts = tool.result()
    assert counts["undone"] + counts["lookups"] > 0 and counts["connects"] > 3  # or all were in the midst of a commit
    assert counts["unsure"] == 0


def test_connections_killed_by_somebody(maria):
    name = make(maria)
    tool = Tool(maria.port, name, 3, seed=8)
    for _ in range(10):
        time.sleep(0.1)
        for number in maria.ask(f"SELECT id FROM information_schema.processlist WHERE user = '{name}'").split():
            maria.ask(f"KILL {number}", check=False)
    counts = tool.result()
    assert counts["connects"] > 3 and counts["unsure"] == 0


def test_locks_that_do_not_come(maria):
    """Somebody else holds rows for longer than a lock is waited for (1 s): it is tried again."""
    name = make(maria)
    tool = Tool(maria.port, name, 4, seed=9)
    holder = subprocess.Popen(["mariadb", "--no-defaults", f"--socket={maria.path}", "--user=root", name], text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    holder.stdin.write("START TRANSACTION; SELECT lane FROM lane FOR UPDATE; DO SLEEP(2.5); COMMIT;\n")
    holder.stdin.close()
    counts = tool.result()
    assert holder.wait(PATIENCE_S) == 0
    assert counts["repeats"] + counts["halvings"] > 0 and counts["undone"] == counts["unsure"] == 0


def test_nobody_there():
    done = subprocess.Popen([TOOL, f"mariadb://127.0.0.1:{free_port()}/d", "u", "p", "2", "1", "1"],
                            stdout=subprocess.PIPE)
    time.sleep(0.3)
    assert done.poll() is None  # it goes on trying
    done.kill()
    done.communicate()
