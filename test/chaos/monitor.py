"""Watches the Redis servers while a run goes on: who is a primary, and how far it has come.

From that it says after each promotion, wanted or not, what may be undone: the new primary knows up to
which offset it has what the old one wrote (`second_repl_offset`). All that the old one answered after the
last sample at or below that offset, and until it was seen to be no primary any more, may be lost; nothing
before. A planned failover loses nothing, and with `redis.wait_replicas` or a database a promotion does not,
either.
"""
import threading
import time

from redis_server import Client, Error

from world import SLOTS

PAUSE_S = 0.05
ANSWER_S = 0.3
EPOCHS_S = 3


class Sample:
    def __init__(self, at, info):
        self.at = at  # when it was asked: the offset is no older
        self.primary = info.get("role") == "master"
        self.life = info.get("master_replid")
        self.offset = int(info.get("master_repl_offset", 0))
        self.before = info.get("master_replid2")
        self.fork = int(info.get("second_repl_offset", -1))


class Watch:
    """Of one server."""

    def __init__(self, server):
        self.server = server
        self.wire = None
        self.samples = []

    def ask(self, now):
        try:
            if self.wire is None:
                self.wire = Client(self.server.port)
                self.wire.sock.settimeout(ANSWER_S)
            lines = self.wire("INFO", "replication").decode().splitlines()
            return Sample(now, dict(line.split(":", 1) for line in lines if ":" in line))
        except (OSError, AssertionError, Error):
            self.hang_up()
            return None

    def text(self):
        try:
            return self.wire("CLUSTER", "NODES").decode()
        except (OSError, AssertionError, Error):
            return ""

    def hang_up(self):
        if self.wire is not None:
            self.wire.close()
            self.wire = None


def without(begin, end, silences):
    """What is left of a span of time without those in which a server could not answer."""
    left = [(begin, end)]
    for since, to in silences:
        left = [part for a, b in left for part in ((a, min(b, since)), (max(a, to), b)) if part[0] <= part[1]]
    return left


class Monitor:
    def __init__(self, world, history):
        self.world, self.history = world, history
        self.watches = [Watch(server) for server in world.cluster.nodes]
        self.running = True
        self.promotions = []  # (watch, sample)
        self.asked_epochs = 0.0
        self.thread = threading.Thread(target=self.run)

    def start(self):
        self.thread.start()

    def run(self):
        while self.running:
            for watch in self.watches:
                if watch.server.process is None:
                    watch.hang_up()
                    continue
                sample = watch.ask(self.history.now())
                if sample is not None:
                    self.seen(watch, sample)
            if self.history.now() > self.asked_epochs + EPOCHS_S:
                self.epochs()
            time.sleep(PAUSE_S)

    def seen(self, watch, sample):
        last = watch.samples[-1] if watch.samples else None
        watch.samples.append(sample)
        if sample.primary and last is not None and not last.primary:
            name = watch.server.name
            self.promotions.append((watch, sample, name in self.world.clean, self.world.slots_in(watch.text())))
            self.history.event("promoted", server=name, clean=name in self.world.clean)

    def epochs(self):
        """Owners of slots and their epochs, from any node."""
        self.asked_epochs = self.history.now()
        nodes = self.world.nodes
        if nodes:
            node = nodes[int(self.asked_epochs) % len(nodes)]
            slots = node.get("/v1/cluster", patience_s=1)[1].get("slots", ())
            now = {s["slot"]: (s["epoch"], s["owner"]) for s in slots if s["known"] and s["owner"]}
            if now:
                self.history.event("epochs", slots=now, node=node.name)

    def stop(self):
        self.running = False
        self.thread.join()
        for watch in self.watches:
            watch.hang_up()

    # ---- what may be undone ----

    def primary_of_life(self, life):
        return next((w for w in self.watches if any(s.primary and s.life == life for s in w.samples)), None)

    def tell_undone(self):
        """Writes the `undo` events of all promotions, once the run is over."""
        for watch, sample, clean, slots in self.promotions:
            if clean or self.world.options.wait or self.world.options.sql:
                continue
            old = self.primary_of_life(sample.before)
            if old is None:  # nobody saw it before: then nothing can be said, and all is excused
                self.undo(watch, slots or range(SLOTS), 0, sample.at, None)
                continue
            lives = [s for s in old.samples if s.primary and s.life == sample.before]
            begin = max((s.at for s in lives if s.offset < sample.fork), default=0)
            after = [s.at for s in old.samples if s.at > lives[-1].at]
            end = max(after[0] if after else lives[-1].at + ANSWER_S, sample.at)
            silences = [(since, to) for name, since, to in self.world.silences if name == old.server.name]
            for a, b in without(begin, end, silences):
                self.undo(watch, slots, a, b, max(0, lives[-1].offset - sample.fork + 1))

    def undo(self, watch, slots, begin, end, gap):
        name = watch.server.name
        self.history.event("undo", slots=list(slots), begin=begin, end=end, server=name, gap=gap)
        moved = [slot for since, to, slot, target in self.world.moves if since <= end and to >= begin]
        if moved:  # what came by a move a moment ago goes as a whole
            self.history.event("undo", slots=moved, begin=0, end=end, server=name, gap=None)
