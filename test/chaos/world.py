"""All the servers of a run: Redis Cluster, tarry nodes, ZooKeeper, and what stands between them.

Everything is on loopback, in one folder, started here and ended here by its own process.
"""
import contextlib
import http.client
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(TOP / "test/system"))
import mariadb_server  # noqa: E402
import redis_cluster  # noqa: E402
import zookeeper  # noqa: E402
from redis_cluster import free_port, until  # noqa: E402

from clock import Clock  # noqa: E402
import mutants  # noqa: E402
from relay import Control  # noqa: E402

SLOTS = 256
LEASE_S = 3
PATIENCE_S = 120


def stopped(pid):
    """Does a process stand still?"""
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        return stat.read().rpartition(")")[2].split()[0] == "T"


class Tarry:
    """One node, which may be killed, paused and started again; its ports stay the same."""

    def __init__(self, world, name, flags):
        self.world, self.name, self.flags = world, name, flags
        self.http, self.beanstalk = free_port(world.ports), free_port(world.ports)
        self.log = world.folder / f"{name}.log"
        self.process = None

    def start(self):
        before = self.world.clocks[self.name].before() if self.world.clocks else []
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [*before, self.world.options.binary, "serve", "--engine", "redis",
                 "--set", f"redis.servers={self.world.servers}", "--set", f"cluster.lease={LEASE_S}s",
                 "--http", f"127.0.0.1:{self.http}", "--beanstalk", f"127.0.0.1:{self.beanstalk}", *self.flags],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, env=self.world.environment)
        self.world.named(self.process.pid, self.name)

    def get(self, path, patience_s=5):
        """(status, JSON), or (0, {}) when it does not answer."""
        wire = http.client.HTTPConnection("127.0.0.1", self.http, timeout=patience_s)
        try:
            wire.request("GET", path)
            reply = wire.getresponse()
            return reply.status, json.loads(reply.read() or b"{}")
        except (OSError, http.client.HTTPException, ValueError):
            return 0, {}
        finally:
            wire.close()

    def is_ready(self):
        """Serves it? That jobs were lost, or a clock is off, it says for a while after; it serves all the same."""
        assert self.process.poll() is None, f"{self.name} ended: " + self.log.read_text(errors="replace")[-3000:]
        status, said = self.get("/readyz")
        codes = {r["code"] for r in said.get("reasons", ())}
        return status != 0 and codes <= {"redis_lost", "redis_clock"}

    def redis(self, counter):
        """One of its counters; 0 when it does not answer."""
        return self.get("/v1/stats")[1].get("redis", {}).get(counter, 0)

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)
        until(lambda: stopped(self.process.pid))

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)


class Cluster(redis_cluster.Cluster):
    """A Redis Cluster, perhaps behind relays and with clocks of its own."""

    def __init__(self, world):
        super().__init__()
        self.paused = set()
        for i, node in enumerate(self.nodes):
            node.name = f"r{i + 1}"
            if world.options.relays:
                node.public = (free_port(world.ports), free_port(world.ports))
                node.flags += ["--cluster-announce-port", str(node.public[0]),
                               "--cluster-announce-bus-port", str(node.public[1])]
            if world.clocks:
                node.before = world.clocks[node.name].before()
            start = node.start

            def started(node=node, start=start):
                start()
                world.named(node.process.pid, node.name)
                return node
            node.start = started
        self.servers = ",".join(f"127.0.0.1:{node.public[0]}" for node in self.nodes)

    def relays(self):
        return [(public, real, node.name) for node in self.nodes
                for public, real in zip(node.public, (node.port, node.bus))]

    def alive(self):
        return [node for node in super().alive() if node not in self.paused]

    def primaries(self):
        return [node for node in self.alive() if self.is_primary(node)]

    def epoch(self, node):
        """The config epoch that it has, or 0."""
        return self.known(node).get(node.id, (0, 0, 0))[2]


class World:
    def __init__(self, folder, options, history):
        self.folder, self.options, self.history = pathlib.Path(folder), options, history
        self.ports = set()
        self.tags = [redis_cluster.hash_slot(slot) for slot in range(SLOTS)]  # of our slots
        self.nodes, self.all_nodes = [], []  # those that clients may use now; all
        self.cluster = self.relay = self.zoo = self.sql = self.database = None
        self.clean = set()  # servers that take over in a planned way: nothing may be lost
        self.slots_used, self.slots_busy = [], []  # of ours, by the load: all; those that are always used
        self.moves = []     # (begin, end, slot of ours, name of the target)
        self.silences = []  # (server, begin, end): it stood still or was dead
        self.clocks = {}
        bugs = mutants.of_kind(options.mutant, mutants.BUG)
        self.environment = {**os.environ, "CLUSTER_BUG": bugs[0]} if bugs else None  # of the nodes

    def start(self):
        if self.options.clocks:
            library = Clock.make_library(self.folder)
            names = ["sql"] + [f"r{i}" for i in range(1, 7)] + [f"n{i}" for i in range(1, self.options.nodes + 1)]
            self.clocks = {name: Clock(self.folder, name, library) for name in names}
        redis_cluster.Node.apart = True
        self.cluster = Cluster(self)
        self.servers = self.cluster.servers
        if self.options.relays:
            self.relay = Control(self.cluster.relays())
        self.cluster.start()  # `stop` ends it, wherever this ends
        flags = list(self.options.flags)
        if self.options.wait and "unconfirmed" not in self.options.mutant:
            flags += ["--set", f"redis.wait_replicas={self.options.wait}"]
        if self.options.zookeeper:
            zookeeper.ZooKeeper.apart = True
            self.zoo = zookeeper.Ensemble(self.options.zookeeper)
            self.zoo.__enter__()
            flags += ["--set", f"zookeeper.servers={self.zoo.address}", "--set", f"zookeeper.session={LEASE_S}s"]
        if self.options.sql:
            flags += self.start_sql()
        for i in range(self.options.nodes):
            node = Tarry(self, f"n{i + 1}", flags)
            self.all_nodes.append(node)
            node.start()
        until(self.is_ready, PATIENCE_S)
        self.nodes = list(self.all_nodes)

    def start_sql(self):
        """A MariaDB with our tables; gives the flags of a server that uses it."""
        mariadb_server.Server.apart = True
        self.sql = mariadb_server.Server()
        if self.clocks:
            self.sql.before = self.clocks["sql"].before()
        self.sql.start()
        self.database = self.sql.database()
        url = ["--set", f"sql.url=mariadb://127.0.0.1:{self.sql.port}/{self.database}",
               "--set", f"sql.user={self.database}", "--set", "sql.password=word"]
        done = subprocess.run([self.options.binary, "sql", "migrate", *url], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return url

    def is_ready(self):
        return all(node.is_ready() for node in self.all_nodes)

    def named(self, pid, name):
        if self.relay is not None:
            self.relay.name(pid, name)

    def slots_on(self, server):
        return self.slots_in((server.ask("CLUSTER", "NODES") or b"").decode())

    def slots_in(self, text):
        """Slots of ours that a server has, by its own CLUSTER NODES."""
        out = []
        for line in text.splitlines():
            words = line.split()
            if "myself" in words[2]:
                for part in words[8:]:
                    if part[0] != "[":
                        begin, _, end = part.partition("-")
                        out.append(range(int(begin), int(end or begin) + 1))
        return [slot for slot, tag in enumerate(self.tags) if any(tag in part for part in out)]

    def heal(self):
        """Nothing is broken any more; waits until all of it agrees."""
        if self.relay is not None:
            self.relay.rules()
        for name, clock in self.clocks.items():
            if clock.offset:
                self.set_clock(name, 0)
        for server in self.cluster.nodes:
            if server.process is None:
                server.start()
            elif server in self.cluster.paused:
                server.go_on()
                self.cluster.paused.discard(server)
        if self.sql is not None and self.sql.process.poll() is not None:
            self.sql.start()
        for node in self.all_nodes:
            if node.process.poll() is None:
                node.go_on()
            else:
                node.start()
        self.cluster.whole()
        until(self.is_ready, PATIENCE_S)
        self.nodes = list(self.all_nodes)

    def set_clock(self, name, offset):
        """Only one clock decides: that of the database, if there is one, which is believed whatever it says;
        else those of Redis, which are compared with the nodes'."""
        self.clocks[name].set(offset)
        decides = name == "sql" if self.options.sql else name[0] == "r"
        self.history.event("clock", who=name, offset=offset, kind="decides" if decides else "is nothing",
                           **({"believed": True} if name == "sql" else {}))

    def describe(self):
        """What each server says of itself and the others, for who looks for trouble."""
        out = []
        for server in self.cluster.alive():
            out.append(f"== {server.name} {server.port} {server.public} pid {server.process.pid}")
            for words in (("ROLE",), ("CLUSTER", "INFO"), ("CLUSTER", "NODES")):
                said = server.ask(*words)
                out.append(said.decode() if isinstance(said, bytes) else repr(said))
        return "\n".join(out)

    def stop(self):
        """Ends all, by process id, whatever state it is in. Logs stay."""
        for node in self.all_nodes:
            node.kill()
        if self.cluster is not None:
            for server in self.cluster.nodes:
                with contextlib.suppress(OSError):
                    shutil.copy(f"{self.cluster.folder}/{server.port}.log", self.folder / f"{server.name}.log")
        for part in (self.zoo, self.sql, self.cluster):
            if part is not None:
                part.__exit__()
        if self.relay is not None:
            self.relay.close()

    def ended(self):
        """A node that is gone although nobody has killed it: what it said last."""
        for node in self.nodes:
            if node.process.poll() is not None:
                return f"{node.name} ended by itself ({node.process.returncode}):\n" + \
                    node.log.read_text(errors="replace")[-2000:]
        return None
