"""Random calls on both ports against a model: a server with a test clock, killed and restarted in
between, must say what some lines of Python say. MODEL_SEEDS=n runs more of them."""
import os
import random
import signal

import pytest

from client import Client
from web import Web, web_port, web_server

SEEDS = int(os.environ.get("MODEL_SEEDS", "4"))
STEPS = 300
TOPICS = ["a", "b"]
KEYS = ["k1", "k2", "k3"]
TTR, BACKOFF, RETRIES = 10_000, 1_000, 2  # ms, ms, attempts after the first


class Job:
    def __init__(self, number, topic, key, body, due, priority, ttr):
        self.id, self.topic, self.key, self.body = number, topic, key, body
        self.due, self.priority, self.ttr = due, priority, ttr
        self.state, self.attempts, self.lease, self.ends = "delayed", 0, None, None
        self.restarted = self.buried = False


class Model:
    """All that should be there; time in ms since the beginning."""

    def __init__(self):
        self.now = 0
        self.jobs = {}

    def settle(self, job):
        """What is due is ready."""
        if job.state == "delayed" and job.due <= self.now:
            job.state = "ready"

    def by_key(self, topic, key):
        return next((job for job in self.jobs.values() if key and (job.topic, job.key) == (topic, key)),
                    None)

    def fail(self, job, at):
        """An attempt came to nothing: by the backoff, or to the dead."""
        job.lease = job.ends = None
        if job.attempts > RETRIES:
            job.state, job.buried = "dead", False
        else:
            job.state, job.due = "delayed", at + BACKOFF

    def advance(self, by):
        """From event to event."""
        end = self.now + by
        while True:
            times = [job.due for job in self.jobs.values() if job.state == "delayed"]
            times += [job.ends for job in self.jobs.values() if job.state == "reserved"]
            self.now = min([t for t in times if t <= end], default=end)
            happened = False
            for job in self.jobs.values():
                if job.state == "reserved" and job.ends <= self.now:
                    self.fail(job, self.now)
                    happened = True
                if job.state == "delayed" and job.due <= self.now:
                    job.state = "ready"
                    happened = True
            if not happened:
                self.now = end
                return

    def reserve(self, topic, count):
        ready = [job for job in self.jobs.values() if job.topic == topic and job.state == "ready"]
        return sorted(ready, key=lambda job: (job.priority, job.due, job.id))[:count]


class Play:
    def __init__(self, folder, seed):
        self.random = random.Random(seed)
        self.folder = folder
        self.model = Model()
        self.old = []  # (id, lease) that must be refused
        self.server = None
        self.start()
        self.base = self.web.get("/v1/clock").json["now_ms"]
        for topic in TOPICS:
            policy = f'{{"ttr":"10s","retries":{RETRIES},"backoff":"1s","dead_keep":"36500d"}}'
            assert self.web.ask("PUT", f"/v1/topics/{topic}", policy).status == 200

    def start(self):
        self.server = web_server(self.folder / "store", "--test-clock").__enter__()
        self.web = Web(web_port(self.server))
        self.beanstalk = Client(self.server.port())

    def end(self):
        self.beanstalk.close()
        if self.server:
            self.server.__exit__()

    # ---- looking ----

    def same(self, job, seen):
        assert seen["id"] == str(job.id) and seen["topic"] == job.topic, (vars(job), seen)
        assert seen["state"] == job.state, (vars(job), seen)
        assert seen["priority"] == job.priority and seen["attempts"] == job.attempts, (vars(job), seen)
        assert seen.get("key") == job.key and seen["ttr_ms"] == job.ttr
        if job.state != "dead":
            assert abs(seen["due_ms"] - self.base - job.due) <= 1, (vars(job), seen)
        if "late_ms" in seen and not job.restarted:  # since when it is ready is not kept
            assert seen["late_ms"] == 0, (vars(job), seen)

    def look(self, job):
        seen = self.web.get(f"/v1/jobs/{job.id}")
        assert seen.status == 200, (vars(job), seen)
        self.same(job, seen.json)
        assert seen.json["body"] == job.body

    def some(self):
        jobs = list(self.model.jobs.values())
        return self.random.choice(jobs) if jobs else None

    def path(self, job):
        return self.random.choice([f"/v1/jobs/{job.id}"] +
                                  ([f"/v1/topics/{job.topic}/keys/{job.key}"] if job.key else []))

    # ---- calls ----

    def push(self):
        topic, key = self.random.choice(TOPICS), self.random.choice(KEYS + [None] * 4)
        delay, priority = self.random.choice([0, 0, 500, 3000, 60_000, 30 * 86400_000]), self.random.randrange(3)
        how = self.random.choice(["replace", "keep", "error"])
        body = str(self.random.random())
        query = {"delay": f"{delay}ms", "priority": priority, "on_conflict": how}
        answer = self.web.post(f"/v1/topics/{topic}/jobs", body, **query, **({"key": key} if key else {}))
        there = self.model.by_key(topic, key)
        if there is None:
            assert answer.status == 201, answer
            job = Job(int(answer.json["id"]), topic, key, body, self.model.now + delay, priority, TTR)
            self.model.jobs[job.id] = job
        elif how == "error" or (how == "replace" and there.state == "reserved"):
            assert answer.status == 409 and answer.json["error"]["state"] == there.state, answer
            return
        else:
            assert answer.status == 200 and answer.json["created"] is False, answer
            job = there
            if how == "replace":
                job.body, job.due, job.priority = body, self.model.now + delay, priority
                job.state, job.attempts = "delayed", 0
        self.model.settle(job)
        self.same(job, answer.json)

    def cancel(self):
        job = self.some()
        if job is None:
            return
        force = self.random.random() < 0.3
        answer = self.web.ask("DELETE", self.path(job), force="true" if force else "false")
        if job.state == "reserved" and not force:
            assert answer.status == 409 and answer.json["error"]["state"] == "reserved"
            return
        assert answer.status == 200 and answer.json["was"] == job.state, (answer, vars(job))
        del self.model.jobs[job.id]
        if job.lease:
            self.old.append((job.id, job.lease))
        assert self.web.get(f"/v1/jobs/{job.id}").status == 404

    def edit(self):
        job = self.some()
        if job is None:
            return
        delay, priority = self.random.choice([0, 2000, 90_000]), self.random.randrange(3)
        answer = self.web.ask("PATCH", self.path(job), f'{{"delay":"{delay}ms","priority":{priority}}}')
        if job.state in ("reserved", "dead"):
            assert answer.status == 409 and answer.json["error"]["state"] == job.state
            return
        job.due, job.priority, job.state = self.model.now + delay, priority, "delayed"
        self.model.settle(job)
        assert answer.status == 200, answer
        self.same(job, answer.json)

    def wake(self):
        job, what = self.some(), self.random.choice(["fire", "kick"])
        if job is None:
            return
        answer = self.web.post(f"{self.path(job)}/{what}")
        if job.state != {"fire": "delayed", "kick": "dead"}[what]:
            assert answer.status == 409 and answer.json["error"]["state"] == job.state
            return
        job.state, job.due = "ready", self.model.now
        job.attempts = 0 if what == "kick" else job.attempts
        self.same(job, answer.json)

    def reserve(self):
        topic, count = self.random.choice(TOPICS), self.random.choice([1, 1, 5])
        ttr = self.random.choice([None, 2000])
        answer = self.web.post(f"/v1/topics/{topic}/reserve", count=count,
                               **({"ttr": f"{ttr}ms"} if ttr else {}))
        wanted = self.model.reserve(topic, count)
        if not wanted:
            assert answer.status == 204, answer
            return
        assert [int(seen["id"]) for seen in answer.json["jobs"]] == [job.id for job in wanted]
        for job, seen in zip(wanted, answer.json["jobs"]):
            job.state, job.lease, job.ends = "reserved", seen["lease"], self.model.now + (ttr or TTR)
            job.held = ttr or TTR
            job.attempts += 1
            self.same(job, seen)
            assert seen["body"] == job.body

    def finish(self):
        held = [job for job in self.model.jobs.values() if job.state == "reserved"]
        what = self.random.choice(["ack", "release", "bury", "touch"])
        if not held or self.random.random() < 0.2:
            if self.old:
                number, lease = self.random.choice(self.old)
                answer = self.web.post(f"/v1/jobs/{number}/{what}", lease=lease)
                assert answer.status == (409 if number in self.model.jobs else 404), answer
            return
        job = self.random.choice(held)
        query = {"delay": "4s"} if what == "release" and self.random.random() < 0.5 else {}
        answer = self.web.post(f"/v1/jobs/{job.id}/{what}", lease=job.lease, **query)
        assert answer.status == 200, answer
        if what == "touch":
            job.ends = self.model.now + job.held
            return
        self.old.append((job.id, job.lease))
        if what == "ack":
            del self.model.jobs[job.id]
            return
        job.lease = job.ends = None
        if what == "bury":
            job.state, job.buried = "dead", True
        elif query and job.attempts <= RETRIES:
            job.state, job.due = "delayed", self.model.now + 4000
        else:
            self.model.fail(job, self.model.now)
        self.same(job, answer.json)

    def put(self):
        """The other port: the same jobs."""
        topic, body = self.random.choice(TOPICS), str(self.random.random())
        delay, priority = self.random.choice([0, 2, 86400]), self.random.randrange(3)
        assert self.beanstalk.say(f"use {topic}") == f"USING {topic}"
        number = self.beanstalk.put(body.encode(), delay=delay, pri=priority, ttr=10)
        job = Job(number, topic, None, body, self.model.now + delay * 1000, priority, TTR)
        self.model.jobs[number] = job
        self.model.settle(job)
        self.look(job)

    def peek(self):
        job = self.some()
        if job is None:
            return
        assert self.beanstalk.peek(job.id) == job.body.encode()
        stats = self.beanstalk.table(f"stats-job {job.id}")
        states = {"delay": "delayed", "delayed": "delayed", "buried": "dead"}
        assert states.get(stats["state"], stats["state"]) == job.state, (stats, vars(job))
        assert (stats["tube"], int(stats["pri"])) == (job.topic, job.priority)

    def change_there(self):
        """delete and kick-job, which are refused in other states than over HTTP."""
        job = self.some()
        if job is None:
            return
        if self.random.random() < 0.5:
            done = self.beanstalk.say(f"delete {job.id}")
            assert done == ("NOT_FOUND" if job.state == "reserved" else "DELETED"), (done, vars(job))
            if job.state != "reserved":
                del self.model.jobs[job.id]
            return
        done = self.beanstalk.say(f"kick-job {job.id}")
        kicked = job.state in ("delayed", "dead")
        assert done == ("KICKED" if kicked else "NOT_FOUND"), (done, vars(job))
        if kicked:  # what was buried keeps its count, as in beanstalkd
            job.attempts = 0 if job.state == "dead" and not job.buried else job.attempts
            job.state, job.due = "ready", self.model.now
            self.look(job)

    def advance(self):
        by = self.random.choice([1, 999, 1000, 5000, 20_000, 30 * 86400_000])
        held = {job.id: job.lease for job in self.model.jobs.values() if job.lease}
        self.model.advance(by)
        answer = self.web.post("/v1/clock/advance", by=f"{by}ms")
        assert answer.json["now_ms"] - self.base == self.model.now
        self.old += [(number, lease) for number, lease in held.items()
                     if self.model.jobs[number].lease is None]

    def restart(self):
        killed = self.random.random() < 0.5
        number = signal.SIGKILL if killed else signal.SIGTERM
        assert self.server.stop(number) == (-signal.SIGKILL if killed else 0)
        self.end()
        self.start()
        for job in self.model.jobs.values():  # the last hand-outs may be forgotten, no more
            seen = self.web.get(f"/v1/jobs/{job.id}").json
            job.restarted = True
            if killed and job.state == "reserved" and seen["state"] == "ready":
                self.old.append((job.id, job.lease))
                job.state, job.lease, job.ends, job.attempts = "ready", None, None, seen["attempts"]

    def check(self):
        for job in self.model.jobs.values():
            self.look(job)
        for topic in TOPICS:
            stat = self.web.get(f"/v1/topics/{topic}").json
            for state in ("delayed", "ready", "reserved", "dead"):
                count = sum((job.topic, job.state) == (topic, state) for job in self.model.jobs.values())
                assert stat[state] == count, (topic, state)
            listed = self.web.get("/v1/jobs", topic=topic, limit=1000).json
            assert listed["cursor"] is None
            assert sorted(int(seen["id"]) for seen in listed["jobs"]) == sorted(
                job.id for job in self.model.jobs.values() if job.topic == topic)

    def step(self):
        calls = ([self.push] * 6 + [self.reserve] * 5 + [self.finish] * 5 + [self.cancel, self.edit,
                 self.wake] * 2 + [self.advance] * 3 + [self.put, self.peek, self.change_there])
        if self.random.random() < 0.01:
            self.restart()
        else:
            self.random.choice(calls)()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_calls(seed, tmp_path):
    play = Play(tmp_path, seed)
    try:
        for number in range(STEPS):
            play.step()
            if number % 25 == 24:
                play.check()
        play.check()
        assert play.server.stop() == 0
    finally:
        play.end()
