"""A real Redis Cluster on loopback: primaries with a replica each, of Debian's redis-server.

Needs nothing of the tests (tools/cluster uses it, too). Everything is in one temporary folder; each
server is ended by its own process. Use with `with`.
"""
import shutil
import signal
import subprocess
import tempfile
import time

import ports
from redis_server import Client, Error

PATIENCE_S = 120
HASH_SLOTS = 16384


def free_port(taken):
    """A port that nobody has, and none of these, which has it noted."""
    while (port := ports.free_port()) in taken:
        pass
    taken.add(port)
    return port


def until(what, patience=PATIENCE_S, pause=0.02):
    """The first true thing that what() gives."""
    end = time.monotonic() + patience
    while True:
        found = what()
        if found:
            return found
        assert time.monotonic() < end, f"waited {patience} s for {what}"
        time.sleep(pause)


def crc16(data):
    """The sum of a key that Redis Cluster places it by."""
    crc = 0
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xffff
    return crc


def hash_slot(tag):
    """Of keys with {tag} in them."""
    return crc16(str(tag).encode()) % HASH_SLOTS


class Node:
    """One redis-server, which can be killed, paused, and started again."""

    apart = False  # True: Ctrl-C in a terminal is not for them

    def __init__(self, folder, port, bus, flags):
        self.folder, self.port, self.bus, self.flags = folder, port, bus, flags
        self.public = (port, bus)  # where others find it: something may stand in front of it
        self.before = []           # a command that starts it, and its arguments
        self.address = f"127.0.0.1:{port}"
        self.process = None
        self.wire = None

    def start(self):
        cluster = ["--cluster-enabled", "yes", "--cluster-config-file", f"nodes-{self.port}.conf",
                   "--cluster-port", str(self.bus), "--cluster-node-timeout", "2000"] if self.bus else []
        with open(f"{self.folder}/{self.port}.log", "ab") as log:
            self.process = subprocess.Popen(
                [*self.before, "redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--dir", self.folder,
                 "--save", "", "--appenddirname", f"aof-{self.port}",
                 "--repl-diskless-sync-delay", "0", *cluster, *self.flags],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=self.apart)
        until(self.answers)
        return self

    def answers(self):
        assert self.process.poll() is None, open(f"{self.folder}/{self.port}.log").read()[-2000:]
        try:
            return self("PING") == b"PONG"
        except (OSError, AssertionError, Error):
            self.hang_up()
            return False

    def __call__(self, *args):
        """One command, over a connection that is kept."""
        if self.wire is None:
            self.wire = Client(self.port)
        return self.wire(*args)

    def ask(self, *args):
        """The same; None when it is not there."""
        try:
            return self(*args)
        except (OSError, AssertionError):
            self.hang_up()
            return None

    def hang_up(self):
        if self.wire is not None:
            self.wire.close()
            self.wire = None

    def info(self, section):
        """A section of INFO as a dict."""
        lines = self("INFO", section).decode().splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)

    def kill(self):
        """As a crash: nothing is tidied up."""
        self.hang_up()
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)


class Single:
    """One redis-server without a cluster."""

    def __init__(self, *flags):
        self.folder = tempfile.mkdtemp(prefix="tarry-redis-")
        self.node = Node(self.folder, free_port(set()), None, ["--appendonly", "yes", *flags])
        self.servers = self.node.address

    def __enter__(self):
        self.node.start()
        return self

    def __exit__(self, *_):
        self.node.kill()
        shutil.rmtree(self.folder)


class Cluster:
    """Primaries, and a replica for each; `nodes` has the primaries of the start first."""

    def __init__(self, primaries=3, replicas=1, flags=()):
        taken = set()
        self.folder = tempfile.mkdtemp(prefix="tarry-redis-")
        self.first = primaries
        self.nodes = [Node(self.folder, free_port(taken), free_port(taken),
                           ["--appendonly", "yes", *flags])
                      for _ in range(primaries * (1 + replicas))]
        self.servers = ",".join(node.address for node in self.nodes)

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for node in self.nodes:
            node.kill()
        shutil.rmtree(self.folder)

    def start(self):
        for i, node in enumerate(self.nodes):
            node.start()
            node("CLUSTER", "SET-CONFIG-EPOCH", i + 1)
            node.id = node("CLUSTER", "MYID")
        for i, node in enumerate(self.nodes[:self.first]):
            from_, to = (HASH_SLOTS * n // self.first for n in (i, i + 1))
            node("CLUSTER", "ADDSLOTSRANGE", from_, to - 1)
        for node in self.nodes:  # each by itself: gossip alone takes seconds
            for other in self.nodes:
                if other is not node:
                    node("CLUSTER", "MEET", "127.0.0.1", *other.public)
        until(lambda: all(len(self.known(node)) == len(self.nodes) for node in self.nodes))
        for i, node in enumerate(self.nodes[self.first:]):
            node("CLUSTER", "REPLICATE", self.nodes[i % self.first].id)
        self.whole()

    def known(self, node):
        """What a node knows: id -> (address, flags, epoch, the id of its primary)."""
        text = node.ask("CLUSTER", "NODES")
        out = {}
        for line in (text or b"").decode().splitlines():
            words = line.split()
            if "handshake" not in words[2]:
                out[words[0].encode()] = (words[1].split("@")[0], words[2].split(","), int(words[6]),
                                          words[3].encode())
        return out

    def state(self, node):
        text = node.ask("CLUSTER", "INFO")
        return dict(line.split(":", 1) for line in (text or b"").decode().splitlines())

    def alive(self):
        return [node for node in self.nodes if node.process is not None]

    def is_whole(self):
        """Do all that live agree that all is well, with every replica in step?"""
        for node in self.alive():
            if self.state(node).get("cluster_state") != "ok":
                return False
            role = node.ask("ROLE")
            if role is None or (role[0] == b"slave" and role[3] != b"connected"):
                return False
            if len(self.known(node)) < len(self.nodes):
                return False
        return sum(self.is_primary(n) for n in self.alive()) == self.first

    def whole(self):
        until(self.is_whole)

    def is_primary(self, node):
        role = node.ask("ROLE")
        return role is not None and role[0] == b"master"

    def replica_of(self, primary):
        found = [n for n in self.alive()
                 if self.known(n).get(n.id, (0, 0, 0, b""))[3] == primary.id]
        return found[0] if found else None

    def failover(self, primary, how=()):
        """Its replica takes over, by CLUSTER FAILOVER [FORCE|TAKEOVER]. Gives the new primary."""
        replica = until(lambda: self.replica_of(primary))
        assert not self.is_primary(replica)
        for _ in range(8):  # one that is not over after five seconds gives up
            replica("CLUSTER", "FAILOVER", *how)
            end = time.monotonic() + 6
            while time.monotonic() < end:
                if self.is_primary(replica) and not self.is_primary(primary):
                    return replica
                time.sleep(0.02)
        raise AssertionError("no failover")

    def move(self, slot, to, pause=0.0, keys=1):
        """Moves a hash slot to another primary, a few keys at a time, with a pause after each: so that
        commands meet ASK and TRYAGAIN. Gives how many keys went."""
        source = self.owner(slot)
        assert source is not to
        moved = 0
        to("CLUSTER", "SETSLOT", slot, "IMPORTING", source.id)
        source("CLUSTER", "SETSLOT", slot, "MIGRATING", to.id)
        while True:
            names = source("CLUSTER", "GETKEYSINSLOT", slot, keys)
            if not names:
                break
            source("MIGRATE", "127.0.0.1", to.port, "", 0, 60000, "KEYS", *names)
            moved += len(names)
            time.sleep(pause)
        for node in [to, source] + [n for n in self.alive() if self.is_primary(n)]:
            node("CLUSTER", "SETSLOT", slot, "NODE", to.id)
        return moved

    def owner_or_none(self, slot):
        """The node that has a hash slot, as the primaries that live say."""
        for node in self.alive():
            if self.is_primary(node):
                for range_ in node.ask("CLUSTER", "SLOTS") or ():
                    if range_[0] <= slot <= range_[1]:
                        return next(n for n in self.nodes if n.public[0] == range_[2][1])
        return None

    def owner(self, slot):
        return until(lambda: self.owner_or_none(slot))

    def counts(self):
        """How often the nodes that live have sent somebody elsewhere, by the word they used."""
        out = {}
        for node in self.alive():
            for name, value in node.info("errorstats").items():
                word = name.removeprefix("errorstat_")
                out[word] = out.get(word, 0) + int(value.split("=")[1])
        return out
