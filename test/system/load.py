"""Kills a server under load, again and again, and holds what it says against a record of what was
promised. test_kill.py runs a few dozen rounds of it, tools/soak hundreds.

The record (`Record`) knows of each job what was acknowledged and what is in doubt: sent, but not
answered when the server died. It complains (`Wrong`) about

    lost      acknowledged, or seen once, not deleted, and not there
    back      there again after a delete was acknowledged
    early     handed out before the wall clock of the client at sending, and the delay
    unburied  handed out though buried with acknowledgement, and not kicked since
    twice     handed out while somebody else holds it, or an id given to two jobs
    unknown   a body that nobody sent, or under another id

To keep `early` sharp, jobs of the tube "timed" are never kicked but by id, and only those of the
tube "plain", which are never delayed, are buried and kicked by number.

One seed decides the moments of the kills and what each connection does; how the answers interleave
is up to the machines.
"""
import hashlib
import itertools
import random
import selectors
import signal
import socket
import struct
import time
from collections import deque

from client import Client
from harness import PATIENCE_S

LIVE_MAX = 600  # producers wait while so many jobs are there
TIMED, PLAIN = "timed", "plain"
DELAY_MAX_S = 3


class Wrong(AssertionError):
    """A promise was broken."""


def digest(body):
    return hashlib.blake2b(body, digest_size=16).digest()


class Job:
    """What is known of one job, acknowledged or not."""

    def __init__(self, body, tube, earliest, ttr_s):
        self.head = body[:24]
        self.digest = digest(body)
        self.tube = tube
        self.ttr_s = ttr_s
        self.earliest = earliest  # wall time before which nobody may get it
        self.id = None
        self.known = False        # acknowledged or seen: it must be there
        self.gone = "no"          # "doubt": a delete had no answer; "yes"
        self.deletes = 0          # under way
        self.kicks = 0            # by id, under way
        self.holder = None
        self.held_since = 0       # wall time at which the holder asked for a job, or later
        self.parked = False       # buried for certain
        self.turn = 0             # one up with each hand-out and kick
        self.handed = 0

    def __repr__(self):
        return (f"job {self.id} {self.head!r} in {self.tube}: known={self.known} "
                f"gone={self.gone} parked={self.parked} handed={self.handed}")


class Record:
    """All jobs, and what may and may not be heard of them.

    Answers of several connections are heard in another order than they were given, so what is
    under way counts: a delete or kick from its sending to its answer.
    """

    def __init__(self):
        self.jobs = {}     # by digest of the body
        self.ids = {}      # by id
        self.order = []    # ids as they became known
        self.left = set()  # jobs that are not gone for certain
        self.kicks = 0     # by number, sent
        self.kicking = 0   # and under way

    # ---- puts ----

    def put(self, body, tube, delay_s, wall, ttr_s=60):
        job = Job(body, tube, wall + delay_s, ttr_s)
        self.jobs[job.digest] = job
        self.left.add(job)
        return job

    def inserted(self, job, id):
        self.named(job, id)
        job.known = True

    def named(self, job, id):
        """This job has this id, and no other has."""
        if self.ids.setdefault(id, job) is not job:
            raise Wrong(f"twice: id {id} of {self.ids[id]} and of {job}")
        if job.id not in (None, id):
            raise Wrong(f"unknown: {job} under id {id}")
        if job.id is None:
            job.id = id
            self.order.append(id)

    def seen(self, id, body):
        """It is there: the job."""
        job = self.jobs.get(digest(body))
        if job is None:
            raise Wrong(f"unknown: id {id}, body {body[:80]!r}, which nobody sent")
        self.named(job, id)
        if job.gone == "yes":
            raise Wrong(f"back: {job}")
        job.gone = "no"
        job.known = True
        return job

    # ---- hand-outs and what comes of them ----

    def reserved(self, holder, id, body, wall, asked=None):
        """asked: wall time when the reserve was sent, from when on its lease may run."""
        job = self.seen(id, body)
        if wall < job.earliest:
            raise Wrong(f"early: by {job.earliest - wall:.6f} s, {job}")
        if job.parked:
            raise Wrong(f"unburied: {job}")
        if job.holder is not None and wall < job.held_since + job.ttr_s:
            raise Wrong(f"twice: {holder} gets what {job.holder} holds, {job}")
        job.holder = holder
        job.held_since = wall if asked is None else asked
        job.handed += 1
        job.turn += 1
        return job

    def give_up(self, job):
        """A release or bury is on its way: what released() or buried() wants to know."""
        job.holder = None
        if job.kicks or self.kicking:
            return None  # it may be undone at once
        return job.turn, self.kicks

    def released(self, job, before, earliest):
        if before == (job.turn, self.kicks):
            job.earliest = earliest

    def buried(self, job, before):
        if before == (job.turn, self.kicks):
            job.parked = True

    def kick(self):
        """A kick by number is on its way: any job of its tube may be ready from now on."""
        self.kicks += 1
        self.kicking += 1
        for job in self.left:
            if job.tube == PLAIN:
                job.parked = False

    def kicked(self):
        self.kicking -= 1

    def kick_job(self, job):
        job.kicks += 1
        job.turn += 1
        job.parked = False
        job.earliest = 0

    def kicked_job(self, job):
        job.kicks -= 1

    # ---- deletes, peeks ----

    def delete(self, job):
        job.deletes += 1

    def deleted(self, job):
        if job.gone == "yes":
            raise Wrong(f"back: deleted a second time, {job}")
        job.deletes -= 1
        self.is_gone(job)

    def is_gone(self, job):
        job.gone = "yes"
        job.holder = None
        self.left.discard(job)

    def not_deleted(self, job):
        """Not found; so somebody holds it, or it is gone."""
        job.deletes -= 1

    def not_found(self, job, sure=True):
        """A peek did not find it; sure: it should have been there when the peek was sent."""
        if sure and self.must_be(job):
            raise Wrong(f"lost: {job}")
        if job.gone == "doubt" and not job.deletes:
            self.is_gone(job)

    def must_be(self, job):
        return job.known and job.gone == "no" and not job.deletes

    # ---- a connection or the server dies ----

    def hang_up(self, holder):
        """What it held is free. What it had under way may yet happen, so it counts as such until
        the server dies."""
        for job in self.left:
            if job.holder == holder:
                job.holder = None

    def crash(self):
        self.kicking = 0
        for job in self.left:
            job.holder = None
            job.kicks = 0
            if job.deletes:
                job.gone = "doubt"
                job.deletes = 0

    def alive(self):
        return [job for job in self.left if self.must_be(job)]

    def doubtful(self):
        return [job for job in self.left if not self.must_be(job)]

    def forget(self):
        """Puts in doubt that were not there when everything was handed out: they never were."""
        for job in list(self.left):
            if not job.known:
                self.is_gone(job)


class Worker:
    """A connection that keeps several commands under way. Subclasses decide which."""

    def __init__(self, load, number, dice):
        self.load = load
        self.record = load.record
        self.name = f"{load.round}.{number}"
        self.dice = dice
        self.client = Client(load.port)
        self.client.socket.setblocking(False)
        self.out = bytearray()
        self.pending = deque()  # (what to do with the reply, its arguments)
        self.open = True
        self.begin()

    # ---- sending and receiving ----

    def send(self, line, then, *args):
        """Queues a command; then(reply, *args) is called with the answer."""
        self.out += line if isinstance(line, bytes) else line.encode() + b"\r\n"
        self.pending.append((then, args))

    def write(self):
        try:
            while self.out:
                sent = self.client.socket.send(self.out)
                del self.out[:sent]
        except BlockingIOError:
            pass
        except OSError:
            self.open = False

    def read(self):
        try:
            self.client.more()
        except BlockingIOError:
            return
        except (OSError, EOFError):
            self.open = False
        while True:
            reply = self.client.whole()
            if reply is None:
                return
            then, args = self.pending.popleft()
            self.load.answers += 1
            then(reply, *args)

    def hang_up(self):
        """In the middle of whatever is under way, orderly or by a reset."""
        if self.dice.random() < 0.5:
            self.client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                          struct.pack("ii", 1, 0))
        self.client.close()
        self.record.hang_up(self.name)

    def drain(self):
        """All that was answered before the server died."""
        while self.open:
            self.client.socket.settimeout(PATIENCE_S)
            self.read()
        self.client.close()

    # ---- what it does ----

    def begin(self):
        """Its first commands."""

    def step(self):
        """More commands, when there is room for them."""

    def expect(self, reply, *words):
        if reply.word not in words:
            raise Wrong(f"{self.name}: {reply} instead of {' or '.join(words)}")


class Producer(Worker):
    """Puts in bursts, into both tubes."""

    def begin(self):
        self.count = 0
        self.tube = TIMED
        self.send("use " + TIMED, self.expect, "USING")

    def step(self):
        if self.load.live() > LIVE_MAX:
            return
        if self.dice.random() < 0.2:
            self.tube = self.dice.choice([TIMED, PLAIN])
            self.send("use " + self.tube, self.expect, "USING")
        for _ in range(self.dice.randint(1, 16)):
            self.count += 1
            delay = self.dice.randint(0, DELAY_MAX_S) if self.tube == TIMED else 0
            size = self.dice.choice([0, 10, 200, 200, 2000, 20000])
            body = b"%s.%d " % (self.name.encode(), self.count) + self.dice.randbytes(size)
            ttr = self.dice.choice([1, 60, 60])
            job = self.record.put(body, self.tube, delay, time.time(), ttr)
            line = self.client.put_bytes(body, delay=delay, ttr=ttr,
                                         pri=self.dice.choice([0, 1024, 2000]))
            self.send(line, self.inserted, job)

    def inserted(self, reply, job):
        self.expect(reply, "INSERTED")
        self.record.inserted(job, int(reply.args[0]))


class Filler(Producer):
    """Puts large bodies, without a limit, until the disk is full; then it is told so."""

    def step(self):
        for _ in range(self.dice.randint(1, 16)):
            self.count += 1
            delay = self.dice.randint(0, DELAY_MAX_S)
            body = b"%s.%d " % (self.name.encode(), self.count)
            body += body[-1:] * self.dice.choice([200, 20000, 60000, 65000])
            job = self.record.put(body, self.tube, delay, time.time())
            self.send(self.client.put_bytes(body, delay=delay), self.inserted, job)

    def inserted(self, reply, job):
        if reply.word == "OUT_OF_MEMORY":
            self.load.refused += 1
            self.record.is_gone(job)
        else:
            super().inserted(reply, job)


class Consumer(Worker):
    """Reserves, and does with what it gets whatever can be done."""

    def begin(self):
        for tube in (TIMED, PLAIN):
            self.send("watch " + tube, self.expect, "WATCHING")

    def step(self):
        for _ in range(self.dice.randint(1, 8)):
            wait_s = 1 if self.dice.random() < 0.05 else 0
            self.send(f"reserve-with-timeout {wait_s}", self.reserved, time.time())

    def reserved(self, reply, asked):
        self.expect(reply, "RESERVED", "TIMED_OUT", "DEADLINE_SOON")
        if reply.word != "RESERVED":
            return
        id = int(reply.args[0])
        job = self.record.reserved(self.name, id, reply.body, time.time(), asked)
        end = asked + job.ttr_s  # from then on its lease may have run out
        what = self.dice.random()
        if what < 0.1:
            return  # kept until the end
        if what < 0.2:
            self.send(f"touch {id}", self.expect_held, end, "TOUCHED")
        if what < 0.4 and job.tube == PLAIN:
            self.send(f"bury {id} 1024", self.buried, end, job, self.record.give_up(job))
        elif what < 0.6:
            delay = self.dice.randint(0, 2) if job.tube == TIMED else 0
            earliest = time.time() + delay
            self.send(f"release {id} 1024 {delay}", self.released, end, job,
                      self.record.give_up(job), earliest)
        else:
            self.record.delete(job)
            self.send(f"delete {id}", self.deleted, end, job)

    def expect_held(self, reply, end, word):
        """Is it this word? If not, the lease must have run out."""
        self.expect(reply, word, "NOT_FOUND" if time.time() >= end else word)
        return reply.word == word

    def buried(self, reply, end, job, before):
        if self.expect_held(reply, end, "BURIED"):
            self.record.buried(job, before)

    def released(self, reply, end, job, before, earliest):
        if self.expect_held(reply, end, "RELEASED"):
            self.record.released(job, before, earliest)

    def deleted(self, reply, end, job):
        if self.expect_held(reply, end, "DELETED"):
            self.record.deleted(job)
        else:
            self.record.not_deleted(job)


class Meddler(Worker):
    """Peeks, deletes and kicks other people's jobs."""

    def begin(self):
        self.send("use " + PLAIN, self.expect, "USING")

    def step(self):
        if self.dice.random() < 0.2:
            self.record.kick()
            self.send(f"kick {self.dice.randint(1, 20)}", self.kicked)
        order = self.record.order
        if not order:
            return
        for _ in range(self.dice.randint(1, 8)):
            back = min(int(self.dice.expovariate(1 / 300)) + 1, len(order))
            job = self.record.ids[order[-back]]  # rather a young one
            what = self.dice.random()
            if what < 0.7:
                self.send(f"peek {job.id}", self.peeked, job, self.record.must_be(job),
                          job.gone == "yes")
            elif what < 0.85:
                self.record.kick_job(job)
                self.send(f"kick-job {job.id}", self.kicked_job, job)
            elif job.gone != "yes":
                self.record.delete(job)
                self.send(f"delete {job.id}", self.deleted, job)

    def kicked(self, reply):
        self.expect(reply, "KICKED")
        self.record.kicked()

    def kicked_job(self, reply, job):
        self.expect(reply, "KICKED", "NOT_FOUND")
        self.record.kicked_job(job)

    def peeked(self, reply, job, sure, gone):
        self.expect(reply, "FOUND", "NOT_FOUND")
        if reply.word == "NOT_FOUND":
            self.record.not_found(job, sure)
        elif gone:
            raise Wrong(f"back: peeked, {job}")
        elif (reply.args[0], digest(reply.body)) != (str(job.id), job.digest):
            raise Wrong(f"unknown: {reply.args} with another body, {job}")

    def deleted(self, reply, job):
        self.expect(reply, "DELETED", "NOT_FOUND")
        if reply.word == "DELETED":
            self.record.deleted(job)
        else:
            self.record.not_deleted(job)


WORKERS = [Producer, Producer, Consumer, Consumer, Consumer, Meddler]


class Load:
    """Rounds of: start, check, work, kill."""

    def __init__(self, start, seed, kill_s=(0.05, 0.6), longer_s=1.5, stops=True):
        """start(): a server like harness.Server, on the same data each time. One round in ten
        lasts longer by up to longer_s; with stops, one in ten ends with SIGTERM, as it should."""
        self.start = start
        self.seed = seed
        self.kill_s = kill_s
        self.longer_s = longer_s
        self.stops = stops
        self.record = Record()
        self.round = 0
        self.kills = 0
        self.answers = 0
        self.refused = 0
        self.port = None
        self.kinds = WORKERS  # what the connections of a round do

    def live(self):
        """About how many jobs there are; counted only now and then."""
        if self.answers >= self.count_at:
            self.count_at = self.answers + 100
            self.count = len(self.record.alive())
        return self.count

    def check_start(self, server, sample):
        """What a server says that has just started."""
        jobs = server.ready()[0] if hasattr(server, "ready") else None
        least, doubt = len(self.record.alive()), len(self.record.doubtful())
        if jobs is not None and not least <= jobs <= least + doubt:
            raise Wrong(f"lost or back: {jobs} jobs at the start, not {least} to {least + doubt}")
        self.port = server.port()
        gone = [job for job in self.record.ids.values() if job.gone == "yes"]
        if sample is not None and len(gone) > sample:
            gone = random.Random(f"{self.seed}/{self.round}").sample(gone, sample)
        self.check_all(gone + [job for job in self.record.ids.values() if job.gone != "yes"])

    def check_all(self, jobs):
        with Client(self.port) as client:
            for at in range(0, len(jobs), 200):
                some = jobs[at:at + 200]
                client.send("".join(f"peek {job.id}\r\n" for job in some))
                for job in some:
                    reply = client.reply()
                    if reply.word == "FOUND":
                        self.record.seen(int(reply.args[0]), reply.body)
                    elif reply.word == "NOT_FOUND":
                        self.record.not_found(job)
                    else:
                        raise Wrong(f"{reply} to a peek")

    def worker(self, number, kind):
        return kind(self, number, random.Random(f"{self.seed}/{self.round}/{number}"))

    def work(self, seconds):
        """Keeps the connections busy for so long; gives them."""
        self.count_at = self.answers
        dice = random.Random(f"{self.seed}/{self.round}")
        numbers = itertools.count()
        workers = [self.worker(next(numbers), kind) for kind in self.kinds]
        end = time.monotonic() + seconds
        with selectors.DefaultSelector() as select:
            for worker in workers:
                select.register(worker.client.socket, selectors.EVENT_READ, worker)
            while time.monotonic() < end:
                if dice.random() < 0.002:  # one goes, another comes
                    gone = workers.pop(0)
                    select.unregister(gone.client.socket)
                    gone.hang_up()
                    workers.append(self.worker(next(numbers), type(gone)))
                    select.register(workers[-1].client.socket, selectors.EVENT_READ, workers[-1])
                for key, _ in select.select(0.005):
                    key.data.read()
                for worker in workers:
                    if len(worker.pending) < 24 and dice.random() < 0.5:
                        worker.step()
                    worker.write()
                    if not worker.open:
                        raise Wrong(f"{worker.name}: the server hung up")
        return workers

    def run_round(self):
        dice = random.Random(f"{self.seed}/kill/{self.round}")
        number = signal.SIGTERM if self.stops and dice.random() < 0.1 else signal.SIGKILL
        longer_s = dice.uniform(0, self.longer_s) if dice.random() < 0.1 else 0
        if dice.random() < 0.1:  # a start is cut short, too
            with self.start() as server:
                time.sleep(dice.uniform(0, 0.03))
                server.stop(signal.SIGKILL)
        with self.start() as server:
            self.check_start(server, sample=200)
            workers = self.work(dice.uniform(*self.kill_s) + longer_s)
            if server.process.poll() is not None:
                raise Wrong(f"the server ended by itself: {server.process.returncode}")
            server.process.send_signal(number)
            for worker in workers:
                worker.drain()
            status = server.process.wait(timeout=PATIENCE_S)
            if status != (0 if number == signal.SIGTERM else -number):
                raise Wrong(f"the server ended with {status}")
            self.kills += number == signal.SIGKILL
        self.record.crash()
        self.round += 1

    def finish(self):
        """Looks at every job there ever was, and takes all out."""
        with self.start() as server:
            self.check_start(server, sample=None)
            with Client(self.port) as client:
                client.say("use " + PLAIN)
                self.record.kick()
                while client.say("kick 1000") != "KICKED 0":
                    pass
                self.record.kicked()
                for tube in (TIMED, PLAIN):
                    client.say("watch " + tube)
                while True:
                    found = client.reserve(DELAY_MAX_S + 1)
                    if found is None:
                        break
                    job = self.record.reserved("finish", *found, time.time())
                    self.record.delete(job)
                    if client.say(f"delete {job.id}") != "DELETED":
                        raise Wrong(f"lost: {job}")
                    self.record.deleted(job)
            left = self.record.alive()
            if left:
                raise Wrong(f"lost: {len(left)} never handed out, {left[0]}")
            self.record.forget()
            server.stop(signal.SIGKILL)
        with self.start() as server:
            self.check_start(server, sample=1000)
            if hasattr(server, "ready") and server.ready()[0] != 0:
                raise Wrong("back: jobs at the start, though all were deleted")
            server.stop()

    def summary(self):
        jobs = self.record.jobs.values()
        return (f"seed={self.seed} rounds={self.round} kills={self.kills} jobs={len(jobs)} "
                f"acknowledged={sum(job.known for job in jobs)} "
                f"handed_out={sum(job.handed for job in jobs)} answers={self.answers}")
