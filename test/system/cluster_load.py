"""Load on several nodes of one store over HTTP, and a judge of what they promised.

Producers push jobs with and without a delay, consumers reserve and ack them, each over whichever node
is there. All is written down with the harness's own clock, which is that of the servers, too: they are
on one machine. The judge complains about

    lost      a push was answered with success, and the job never came
    back      handed out after its ack was answered with success
    early     handed out before it was due, counted from when the push was sent
    stranger  a body that nobody pushed

A failover may undo what a primary answered just before (replication is asynchronous). `undone` names
the moments: jobs whose push or ack was answered in the second before one are excused, and counted.
"""
import http.client
import itertools
import json
import random
import threading
import time
from collections import Counter

UNDONE_S = 1.0
HEARD_S = 1.5  # so late an answer from before may be heard; nobody takes over so soon (cluster-node-timeout is 2 s)
LEASE_S = 4
EXCUSED_S = 7  # so long what may be excused is waited for: longer than a lease
PATIENCE_S = 120


class Job:
    def __init__(self, due):
        self.due = due       # not before, by time.monotonic()
        self.pushed = None   # when success was heard
        self.acked = None
        self.doubts = 0      # acks without a clear answer
        self.handed = 0


class Storm:
    """Use with `with`: it loads from then on; `settle` ends it."""

    def __init__(self, ports, topics=("storm-a", "storm-b", "storm-c"), seed=1, pace=0.003):
        self.ports = list(ports)  # of nodes that live; may be changed any time
        self.topics = list(topics)
        self.pace = pace
        self.lock = threading.Lock()
        self.jobs = {}
        self.wrong = []
        self.answers = Counter()  # "push 201", "reserve 503 redis_away", ...
        self.undone = []
        self.late = []            # seconds from due to the hand-out
        self.pushing = True
        self.running = True
        self.seed = seed
        self.numbers = itertools.count()
        self.threads = [threading.Thread(target=self.guarded,  # there is somebody at each port
                                         args=(part, random.Random(f"{seed}{i}"), self.ports[i % len(self.ports)]))
                        for i, part in enumerate([self.produce] * 3 + [self.consume] * 4)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.pushing = self.running = False
        for thread in self.threads:
            thread.join()

    # ---- requests ----

    def guarded(self, part, dice, first):
        try:
            wire = http.client.HTTPConnection("127.0.0.1", first, timeout=30)
            while self.running and (part == self.consume or self.pushing):
                if wire is None:
                    wire = http.client.HTTPConnection("127.0.0.1", dice.choice(self.ports), timeout=30)
                try:
                    keep = part(wire, dice)
                except (OSError, http.client.HTTPException):
                    keep = False
                if not keep or wire.port not in self.ports:
                    wire.close()
                    wire = None
                    time.sleep(0.02)
            if wire is not None:
                wire.close()
        except BaseException as fault:  # pylint: disable=broad-except
            self.wrong.append(repr(fault))
            raise

    def ask(self, wire, what, path, body=None):
        """(status, what it says); the connection may break."""
        try:
            wire.request("POST", path, body=body)
            reply = wire.getresponse()
            text = reply.read()
        except (OSError, http.client.HTTPException):
            self.answers[f"{what} broken"] += 1
            raise
        said = json.loads(text) if text else {}
        code = said["error"]["code"] if "error" in said else ""
        self.answers[f"{what} {reply.status} {code}".strip()] += 1
        return reply.status, said

    def produce(self, wire, dice):
        body = f"{self.seed}-{next(self.numbers)}"
        delay_ms = dice.choice((0, 0, 50, 400))
        job = self.jobs[body] = Job(time.monotonic() + delay_ms / 1000)
        status, _ = self.ask(wire, "push", f"/v1/topics/{dice.choice(self.topics)}/jobs"
                             f"?delay={delay_ms}ms&ttr={LEASE_S}s&retries=-1&backoff=100ms", body)
        if status in (200, 201):
            job.pushed = time.monotonic()
        time.sleep(self.pace)
        return status < 500

    def consume(self, wire, dice):
        asked = time.monotonic()
        status, said = self.ask(wire, "reserve",
                                f"/v1/topics/{dice.choice(self.topics)}/reserve?wait=300ms&count=5")
        now = time.monotonic()
        for got in said.get("jobs", ()) if status == 200 else ():
            job = self.handed(got["body"], asked, now)
            if job is not None:
                self.end(wire, got, job)
        if status >= 500:
            time.sleep(0.05)
        return status < 500

    def handed(self, body, asked, now):
        """A job came."""
        with self.lock:
            job = self.jobs.get(body)
            if job is None:
                self.wrong.append(f"stranger: {body}")
                return None
            job.handed += 1
            if now < job.due:
                self.wrong.append(f"early: {body} by {job.due - now:.6f} s")
            # One that was heard of a lease late may have been handed out before that ack.
            late = job.acked is not None and asked < job.acked and now - asked > LEASE_S - 1
            if job.acked is not None and not late and not self.may_be_undone(job.acked):
                self.wrong.append(f"back: {body}, {now - job.acked:.3f} s after its ack")
            if job.handed == 1:
                self.late.append(now - max(job.due, asked))
            return job

    def end(self, wire, got, job):
        job.doubts += 1
        status, _ = self.ask(wire, "ack", f"/v1/jobs/{got['id']}/ack?lease={got['lease']}")
        if status in (200, 204):
            job.acked = time.monotonic()
        job.doubts -= status in (200, 204, 404, 409)

    # ---- the judge ----

    def may_be_undone(self, moment):
        return any(-UNDONE_S <= moment - at <= HEARD_S for at in self.undone)

    def missing(self):
        """Jobs that were pushed for certain and did not come."""
        return [body for body, job in list(self.jobs.items())
                if job.pushed is not None and job.acked is None]

    def settle(self):
        """No new jobs; waits until all are done, and gives what is wrong."""
        self.pushing = False
        began = time.monotonic()
        while time.monotonic() < began + PATIENCE_S:
            left = self.missing()
            if time.monotonic() > began + EXCUSED_S:
                left = [body for body in left if not self.excused(self.jobs[body])]
            if not left:
                break
            time.sleep(0.05)
        self.running = False
        for thread in self.threads:
            thread.join()
        wrong = list(self.wrong)
        for body in self.missing():
            job = self.jobs[body]
            if not self.excused(job):
                wrong.append(f"lost: {body}, handed out {job.handed} times")
        return wrong

    def excused(self, job):
        """Its ack had no answer, and it came at least once; or a failover has undone its push."""
        return (job.doubts > 0 and job.handed > 0) or self.may_be_undone(job.pushed)

    def pushed(self):
        return sum(job.pushed is not None for job in list(self.jobs.values()))

    def acked(self):
        return sum(job.acked is not None for job in list(self.jobs.values()))

    def wait_for_pushes(self, more, patience=PATIENCE_S):
        """Until so many more were answered with success: it works (again)."""
        want = self.pushed() + more
        end = time.monotonic() + patience
        while self.pushed() < want:
            assert time.monotonic() < end, f"no pushes: {self.answers}"
            time.sleep(0.02)
