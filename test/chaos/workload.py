"""Load: producers and consumers on both ports, each a thread with dice of its own.

They use whichever nodes are there (`world.nodes` may change any time), let leases run out, come too late
with an ack, give back, hold on, cancel, go away. `drain` ends the pushing and waits until all that was
pushed is out again.
"""
import collections
import itertools
import random
import threading
import time

from clients import Beanstalk, Gone, Http

TOPICS = tuple(f"chaos-{i}" for i in range(6))
TUBES = tuple(f"tube-{i}" for i in range(3))  # made by the beanstalk port; both ports use all of them
RARE = tuple(f"rare-{i}" for i in range(4))   # seldom used: their slots have seen nothing for a while
ALL = TOPICS + TUBES + RARE
RECENT = 200


class Load:
    def __init__(self, world, history, seed, pace=0.02):
        self.world, self.history, self.seed, self.pace = world, history, seed, pace
        self.pushing, self.running = True, True
        self.numbers = itertools.count(1)
        self.lock = threading.Lock()
        self.alive = {}  # id -> topic: pushed, and not ended as far as we know
        self.gone = set()
        self.seen = set()  # bodies that were handed out
        self.later = []    # (when, job, topic): acks to come
        self.recent = collections.deque(maxlen=RECENT)
        self.faults = []  # of the threads
        self.oks = collections.Counter()  # (op, node)
        parts = [(Http, self.produce)] * 2 + [(Beanstalk, self.put)] + \
            [(Http, self.consume)] * 3 + [(Beanstalk, self.work)] * 2
        self.threads = [threading.Thread(target=self.live, args=(kind, part, random.Random(f"{seed}-{i}")))
                        for i, (kind, part) in enumerate(parts)]

    def start(self):
        for thread in self.threads:
            thread.start()

    def stop(self):
        self.pushing = self.running = False
        for thread in self.threads:
            if thread.ident is not None:
                thread.join()

    def live(self, kind, part, dice):
        """A thread: connects somewhere, does its part, and when that breaks connects elsewhere."""
        client = None
        try:
            while self.running and (self.pushing or part in (self.consume, self.work)):
                try:
                    if client is None:
                        client = kind(self.history, dice.choice(self.world.nodes))
                    if part(client, dice) or dice.random() < 0.005:
                        client.close()
                        client = None
                except (Gone, OSError):
                    if client is not None:
                        client.close()
                    client = None
                    time.sleep(0.05)
        except BaseException as fault:  # pylint: disable=broad-except
            self.faults.append(repr(fault))
            raise
        finally:
            if client is not None:
                client.close()

    # ---- producers ----

    def pushed(self, client, id_, topic):
        if id_ is not None:
            with self.lock:
                if id_ not in self.gone:  # one that was kept or replaced may have ended meanwhile
                    self.alive[id_] = topic
            self.recent.append((id_, topic))
            self.oks["push", client.node.name] += 1

    def ended(self, id_, how):
        if how != "fail":
            with self.lock:
                self.gone.add(id_)
                self.alive.pop(id_, None)

    def cancel(self, client, dice):
        if self.recent:
            id_, topic = dice.choice(self.recent)
            self.ended(id_, client.cancel(id_, topic))

    def produce(self, client, dice):
        topic = dice.choice(RARE if dice.random() < 0.03 else TOPICS + TUBES)
        throw = dice.random()
        body = f"{self.seed}-{next(self.numbers)}"
        delay, ttr = dice.choice((0, 0, 0.05, 0.4, 2)), dice.choice((1, 2, 4))
        if throw < 0.1:
            self.cancel(client, dice)
        elif throw < 0.3:
            key = f"key-{dice.randrange(40)}"
            self.pushed(client, client.push(topic, body, delay, ttr, key,
                                            dice.choice(("replace", "keep", "error"))), topic)
        else:
            self.pushed(client, client.push(topic, body, delay, ttr), topic)
        time.sleep(self.pace * dice.random() * 2)

    def put(self, client, dice):
        topic = dice.choice(TUBES + TOPICS[:2])
        if dice.random() < 0.1:
            self.cancel(client, dice)
        else:
            body = f"{self.seed}-{next(self.numbers)}"
            self.pushed(client, client.push(topic, body, dice.choice((0, 0, 1)), dice.choice((2, 3))), topic)
        time.sleep(self.pace * dice.random() * 2)

    # ---- consumers ----

    def consume(self, client, dice):
        self.do_later(client)
        topic = dice.choice(RARE if dice.random() < 0.1 else TOPICS + TUBES)
        for job in client.reserve(topic, dice.choice((1, 4, 10)), 200) or ():
            self.use(client, dice, job, topic)

    def work(self, client, dice):
        topic = dice.choice(TUBES + TOPICS[:2])
        for job in client.reserve(topic, dice.choice((0, 1))) or ():
            self.use(client, dice, job, topic)
        return self.pushing and dice.random() < 0.01

    def use(self, client, dice, job, topic):
        """What a consumer does with a job."""
        throw = dice.random() if self.pushing else 0
        again = job["body"] in self.seen
        self.seen.add(job["body"])
        if throw > 0.97:
            return  # it is forgotten, and its lease runs out
        if client.port == "http" and self.pushing and throw < (0.6 if again else 0.2):
            # It is held for a while; often for too long, and another one may have it by then.
            self.later.append((time.monotonic() + dice.choice((0.3, 0.9, 1.5, 2.5, 4.5)), job, topic))
            return
        if throw > 0.92:
            client.change("touch", job, topic)
            time.sleep(0.3)
        elif throw > 0.84:
            client.change("release", job, topic, delay=dice.choice((0, 1)))
            return
        self.ack(client, job, topic)

    def ack(self, client, job, topic):
        how = client.change("ack", job, topic)
        self.ended(job["id"], how)
        if how == "ok":
            self.oks["ack", client.node.name] += 1

    def do_later(self, client):
        """Acks of jobs that were held, whose time has come; by any node."""
        now = time.monotonic()
        for one in [one for one in list(self.later) if one[0] <= now]:
            try:
                self.later.remove(one)
            except ValueError:
                continue  # another thread was quicker
            self.ack(client, *one[1:])

    # ---- the end ----

    def total(self, op):
        return sum(n for (what, _), n in list(self.oks.items()) if what == op)

    def progress(self, patience_s, more=15):
        """Waits until so many more pushes and acks have succeeded: it works (again). Gives how long that
        took; None: not in this time."""
        began = time.monotonic()
        push, ack = self.total("push") + more, self.total("ack") + more
        while time.monotonic() < began + patience_s:
            if self.total("push") >= push and self.total("ack") >= ack:
                return round(time.monotonic() - began, 3)
            time.sleep(0.02)
        return None

    def left(self):
        with self.lock:
            return dict(self.alive)
