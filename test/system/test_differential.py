"""Random talk to tarry and to beanstalkd at the same time: both must say the same.

A seed gives a sequence of commands over several connections. One connection acts at a time, and
its replies from both servers are compared before the next one acts, so nothing depends on who is
quicker. Job ids are compared by the order in which they were given.

By hand:  test_differential.py SEED          one sequence, with its log
          DIFF_SECONDS=600 pytest ...        for longer; DIFF_SEEDS=a-b for certain ones

Not compared: pid, version, uptime, rusage, host, binlog, id of the server, file, age. Quotes around
names are as in beanstalkd 1.13, which is not installed. Times left may differ by one second.

Avoided, because beanstalkd is wrong or 1.12 is not 1.13 (the first seven), or because a server is
free to choose:
- a time to run that ends unnoticed: after it, the holder says something;
- a time to run that ends while the holder waits, or while anyone waits for the job;
- the id of a put whose body is still on its way;
- lines of 225, 449 ... bytes, and CR inside of a line;
- two connections waiting for the same tube: who is served first depends on the past;
- bad numbers for reserve-with-timeout: 1.12 takes them for 0 or for ever;
- a bound for kick of 2^32 or more: its upper half is lost;
- the order of lists;
- one command that makes several jobs ready while someone waits: kick of more than one, or the
  end of a connection that holds jobs;
- two changes by time within 0.1 s, or a command within 0.3 s of one: the servers are not that
  much in step.
"""
import concurrent.futures
import os
import random
import re
import select
import socket
import sys
import threading
import time

import pytest

if __name__ == "__main__":
    for name, default in (("TARRY_BIN", "build/tarry"), ("STORE_TOOL", "build/store-tool")):
        os.environ.setdefault(name, default)

from beanstalk import BEANSTALKD, Beanstalkd, Conn, Tarry

SECONDS = float(os.environ.get("DIFF_SECONDS", 12))
SEEDS = os.environ.get("DIFF_SEEDS")
AT_ONCE = 12       # sequences; they mostly sleep
STEPS = 120        # of one sequence
PATIENCE_S = 60    # for a reply that must come
MARGIN_S = 0.3     # no command so near to a change by time
APART_S = 0.1      # between two changes by time
TUBES = ("default", "a", "b", "tube-3")
NEVER_COMPARED = {"age", "file", "pid", "version", "uptime", "rusage-utime", "rusage-stime", "id",
                  "hostname", "os", "platform", "binlog-oldest-index", "binlog-current-index",
                  "binlog-records-migrated", "binlog-records-written", "binlog-max-size"}
NEARLY_COMPARED = {"time-left", "pause-time-left"}

# Each has one reply. Those that would be commands if they were right must not change anything.
MALFORMED = [
    "", " ", "foo", "USE a", " use a", "use", "use ", "use  a", "use a b", "use -a", "use a,b",
    "use a ", "usea", "use\ta", "use a\tb", "use " + "x" * 201, "x" * 222, "x" * 224, "y" * 300,
    "z" * 1000, "use a\nb", "stats ", "statsx", "stats-", "stats-job", "stats-job x",
    "stats-job -1", "stats-tube", "stats-tube -", "stats-tube a b", "stats-tube nosuch",
    "reserve ", "reservex", "reserve-", "reserve-job", "reserve-job x", "reserve-job 1 1",
    "reserve-with-timeout", "reserve-with-timeout 99999999999999999999", "reserve-with-timeout\t0",
    "put", "put ", "put 1", "put 0 0 60", "put 0 0 60 x", "put 0 0 60 1 1", "put 0 0 60 1 ",
    "put -1 0 60 1", "put 0 0 60 -1", "put +1 0 60 1", "put 4294967296 0 60 1",
    "put 0 0 60 4294967296", "put 0 0 60\t1", "putx", "delete", "delete ", "delete x",
    "delete 18446744073709551616", "delete -1", "delete 1 1", "release", "release 1",
    "release 1 1", "release 1 1 1 1", "release 1 x 1", "release x 1 1",
    "release 999999 4294967296 0", "bury", "bury 1", "bury 1 1 1", "bury 999999 4294967296",
    "touch", "touch x", "touch 1 1", "kick", "kick ", "kick x", "kick 18446744073709551616",
    "kick-job", "kick-job x", "kick-job 1 1", "kick-", "peek", "peek x", "peek 1 1", "peek-",
    "peek-x", "peek-ready ", "peek-readyx", "peek-delayed x", "peek-buried\t", "watch", "watch ",
    "watch -a", "watch a b", "watchx", "ignore", "ignore ", "ignore -a", "ignore nosuch",
    "list-tubes ", "list-tubesx", "list-tubes-", "list-tube", "list-tube-usedx",
    "list-tubes-watched x", "pause-tube", "pause-tube a", "pause-tube a x", "pause-tube nosuch 0",
    "pause-tube a 0 0", "pause-tube a -1", "pause-tube a 4294967296", "pause-tubex 0", "pause",
    "qui", "nul\0", "quit\0",
]


class Mismatch(Exception):
    """The two servers did not say the same."""


class Slow(Exception):
    """The machine was too slow for this sequence: a change by time fell into a step."""


def parsed(reply, ids):
    """A reply as something to compare: without what may differ, ids as their place in the order."""
    head, _, rest = reply.partition(b"\r\n")
    words = head.split()
    if words[:1] == [b"INSERTED"] and len(words) == 2:
        ids.append(words[1])
        return [b"INSERTED", len(ids)]
    if words[:1] in ([b"RESERVED"], [b"FOUND"]) and words[1] in ids:
        return [words[0], ids.index(words[1]) + 1, words[2], rest]
    if words[:1] == [b"OK"] and rest.startswith(b"---\n"):
        lines = rest[4:-3].decode().split("\n")
        if lines[0].startswith("- "):
            return sorted(lines)
        stats = {key: value.strip('"') for key, value in (line.split(": ", 1) for line in lines)}
        job = {"job": ids.index(stats["id"].encode()) + 1} if "tube" in stats else {}
        return job | {key: value for key, value in stats.items() if key not in NEVER_COMPARED}
    return reply


def alike(one, two):
    if isinstance(one, dict) and isinstance(two, dict) and list(one) == list(two)[:len(one)]:
        return all(abs(int(value) - int(two[key])) <= 1 if key in NEARLY_COMPARED
                   else value == two[key] for key, value in one.items())
    return one == two


class Side:
    """One server and our connections to it."""

    def __init__(self, server):
        self.server = server
        self.conns = {}
        self.ids = []  # of jobs, in the order of their puts

    def conn(self, who):
        if who not in self.conns:
            self.conns[who] = Conn(self.server.address)
        return self.conns[who]

    def send(self, who, text, cuts):
        """Puts the ids in, and sends it in pieces."""
        data = re.sub(rb"<(\d+)>", lambda found: self.ids[int(found[1]) - 1], text)
        conn = self.conn(who)
        last = 0
        for cut in sorted(int(len(data) * part) for part in cuts):
            conn.send(data[last:cut])
            time.sleep(0.001)
            last = cut
        conn.send(data[last:])

    def replies(self, who, count):
        conn = self.conn(who)
        return [parsed(conn.reply(PATIENCE_S), self.ids) for _ in range(count)]

    def woken(self, waiting, count):
        """The replies to those of the waiting that were woken; there must be so many."""
        got = {}
        while len(got) < count:
            left = [who for who in waiting if who not in got]
            ready = [who for who in left if self.conns[who].got]
            if not ready:
                sockets = {self.conns[who].socket: who for who in left}
                ready = [sockets[s] for s in select.select(list(sockets), [], [], PATIENCE_S)[0]]
            if not ready:
                break
            for who in ready:
                got[who] = self.replies(who, waiting[who])
        return got

    def ends(self, who, count):
        """Closes our half: what comes before the end."""
        conn = self.conns.pop(who)
        conn.socket.shutdown(socket.SHUT_WR)
        said = [parsed(conn.reply(PATIENCE_S), self.ids) for _ in range(count)]
        while conn.more(PATIENCE_S):
            pass
        conn.socket.close()
        return said, conn.got, conn.ended

    def close(self):
        for conn in self.conns.values():
            conn.socket.close()


class Speaker:
    """What we know of one connection."""

    def __init__(self, name):
        self.name = name
        self.used = "default"
        self.watched = {"default"}


class Talk:
    """One sequence."""

    def __init__(self, seed, reference, other):
        self.dice = random.Random(seed)
        self.sides = Side(reference), Side(other)
        self.log = []
        self.speakers = [Speaker(name) for name in "ABCD"]
        self.born = len(self.speakers)
        self.waiting = {}  # who waits -> how many replies it will get
        self.held = {}     # job -> who holds it
        self.tube = {}     # job -> where it is
        self.ttr = {}      # job -> its time to run
        self.due = {}      # (what, which) -> when it changes by time
        self.changed = False  # since we last looked whether someone was woken
        self.topic = 1     # the job we talked about last
        self.timed = seed % 4 == 0
        self.expiry = self.timed and seed % 8 == 0  # then nobody waits

    # ---- talking ----

    def compare(self, what, one, two):
        self.log.append("    " + ", ".join("{...}" if isinstance(part, dict) else repr(part)
                                           for part in one))
        if not (len(one) == len(two) and all(map(alike, one, two))):
            raise Mismatch(f"{what}\n{self.sides[0].server.name} says {one!r}\n"
                           f"{self.sides[1].server.name} says {two!r}")
        return one

    def ask(self, who, text, count, cuts=()):
        """Sends to both and gives the replies, which are the same."""
        start = time.monotonic()
        self.log.append(f"{who}> {text!r}")
        for side in self.sides:
            side.send(who, text, cuts)
        one, two = (side.replies(who, count) for side in self.sides)
        self.in_step(start)
        same = self.compare(f"to {who}> {text!r}", one, two)
        self.changed = True
        return same

    def in_step(self, start):
        """Nothing must have changed by time while we talked."""
        now = time.monotonic()
        if any(start - 0.02 < when < now + 0.02 for when in self.due.values()):
            raise Slow

    def settle(self, delay=0):
        """Waits until no change by time is near now, nor near to one after such a delay."""
        late = 0
        while True:
            now = time.monotonic()
            near = [when for when in self.due.values() if abs(when - now) < MARGIN_S]
            past = [key for key, when in self.due.items() if when <= now - MARGIN_S]
            if near:
                time.sleep(max(0, min(near) + MARGIN_S - now))
            elif past:
                del self.due[past[0]]
                self.passed(*past[0])
                late = 3
            elif delay and any(abs(now + delay - when) < APART_S for when in self.due.values()):
                time.sleep(APART_S / 2)
            else:
                break
        self.wake(late)

    def passed(self, what, which):
        self.log.append(f"# {what} {which} has passed")
        self.changed = True
        if what == "ttr":
            who = self.held.pop(which, None)
            if who:
                self.ask(who, b"list-tube-used\r\n", 1)

    def wake(self, late):
        """Reads what waiting connections got. After a change by time, one side may be late."""
        if not (late or self.waiting and self.changed):
            return
        try:
            stats = self.ask("control", b"stats\r\n", 1)[0]
        except Mismatch as mismatch:
            if late == 0:
                raise
            self.log.append(f"# once more: {mismatch}")
            time.sleep(1)
            self.wake(late - 1)
            return
        self.changed = False
        count = len(self.waiting) - int(stats["current-waiting"])
        if count <= 0:
            return
        one, two = (side.woken(self.waiting, count) for side in self.sides)
        self.log.append(f"# woken: {sorted(one)}")
        self.compare("woken", [one], [two])
        for who, replies in one.items():
            del self.waiting[who]
            self.due.pop(("wait", who), None)
            self.reserved(who, replies[0])

    # ---- what follows from a reply ----

    def free(self, job):
        self.held.pop(job, None)
        for what in ("ready", "ttr", "soon"):
            self.due.pop((what, job), None)

    def reserved(self, who, reply):
        if reply[0] == b"RESERVED":
            job = reply[1]
            self.free(job)
            self.held[job] = who
            self.runs(job)

    def runs(self, job):
        if self.ttr[job] < 10:
            self.due["ttr", job] = time.monotonic() + self.ttr[job]
            self.due["soon", job] = time.monotonic() + self.ttr[job] - 1

    def later(self, job, delay):
        self.free(job)
        if 0 < delay < 10:
            self.due["ready", job] = time.monotonic() + delay

    # ---- commands: (bytes, number of replies, what to do with them, delay) ----

    def nothing(self, _):
        pass

    def some_job(self, speaker, held=0.1):
        """Often the one of the last command, or one that it holds; sometimes one that never was."""
        if not self.tube or self.dice.random() < 0.05:
            return 0, b"999999"
        own = [job for job, who in self.held.items() if who == speaker.name]
        if own and self.dice.random() < held:
            self.topic = self.dice.choice(own)
        elif self.dice.random() < 0.6:
            self.topic = max(1, len(self.tube) - int(self.dice.expovariate(0.2)))
        return self.topic, b"<%d>" % self.topic

    def some_delay(self, tube):
        if self.dice.random() < 0.6:
            return 0
        waited_for = any(tube in s.watched for s in self.speakers if s.name in self.waiting)
        if not self.timed or waited_for:
            return self.dice.choice((100, 200))
        return self.dice.choice((1, 1, 2, 100))

    def some_ttr(self):
        if self.expiry and self.dice.random() < 0.4:
            return self.dice.choice((2, 3))
        return self.dice.choice((60, 100, 4294967295))

    def some_pri(self):
        return self.dice.choice((0, 1, 1, 5, 5, 1023, 1024, 4294967295))

    def put(self, speaker, alone):
        tube = speaker.used
        delay = self.some_delay(tube) if alone else 0
        pri, ttr = self.some_pri(), self.some_ttr()
        body = self.dice.choice((b"", b"x", b"hello", b"\r\n", b"quit\r\n", b"\0\xff\n",
                                 b"y" * 300))

        def after(replies):
            job = replies[0][1]
            self.tube[job] = tube
            self.ttr[job] = ttr
            self.later(job, delay)
        return b"put %d %d %d %d\r\n%s\r\n" % (pri, delay, ttr, len(body), body), 1, after, delay

    def wrong_put(self, _speaker, _alone):
        text, count = self.dice.choice((
            (b"put 0 0 60 3\r\nabcde\r\n", 2), (b"put 0 0 60 2\r\nabcd", 1),
            (b"put 0 0 60 0\r\nxy", 1), (b"put 0 0 60 3\r\nab\r\nc\r\n", 2),
            (b"put 0 0 60 65536\r\n" + b"x" * 65538, 1), (b"put 0 0 60 3 \r\nabc\r\n", 2),
            (b"put 0 0\r\nlist-tube-used\r\n", 2), (b"put 0 0 60 65536 x\r\n" + b"x" * 65538, 1)))
        return text, count, self.nothing, 0

    def use(self, speaker, alone):
        tube = self.dice.choice(TUBES)
        if not alone:  # what comes with it must know where a put goes
            tube = speaker.used
        speaker.used = tube
        return b"use %s\r\n" % tube.encode(), 1, self.nothing, 0

    def watch(self, speaker, _alone):
        tube = self.dice.choice(TUBES)

        def after(_):
            speaker.watched.add(tube)
        return b"watch %s\r\n" % tube.encode(), 1, after, 0

    def ignore(self, speaker, _alone):
        tube = self.dice.choice(TUBES)

        def after(replies):
            if replies[0].startswith(b"WATCHING"):
                speaker.watched.discard(tube)
        return b"ignore %s\r\n" % tube.encode(), 1, after, 0

    def reserve(self, speaker, _alone):
        return b"reserve-with-timeout 0\r\n", 1, lambda r: self.reserved(speaker.name, r[0]), 0

    def reserve_job(self, speaker, _alone):
        _, text = self.some_job(speaker)
        return b"reserve-job %s\r\n" % text, 1, lambda r: self.reserved(speaker.name, r[0]), 0

    def delete(self, speaker, _alone):
        job, text = self.some_job(speaker, 0.3)

        def after(replies):
            if replies[0] == b"DELETED\r\n":
                self.free(job)
        return b"delete %s\r\n" % text, 1, after, 0

    def release(self, speaker, alone):
        job, text = self.some_job(speaker, 0.8)
        delay = self.some_delay(self.tube.get(job)) if alone else 0
        if delay:
            time.sleep(0.003)  # two in one millisecond: only beanstalkd tells them apart

        def after(replies):
            if replies[0] == b"RELEASED\r\n":
                self.later(job, delay)
        return b"release %s %d %d\r\n" % (text, self.some_pri(), delay), 1, after, delay

    def bury(self, speaker, _alone):
        job, text = self.some_job(speaker, 0.8)

        def after(replies):
            if replies[0] == b"BURIED\r\n":
                self.free(job)
        return b"bury %s %d\r\n" % (text, self.some_pri()), 1, after, 0

    def touch(self, speaker, _alone):
        job, text = self.some_job(speaker, 0.8)

        def after(replies):
            if replies[0] == b"TOUCHED\r\n":
                self.runs(job)
        return b"touch %s\r\n" % text, 1, after, 0

    def kick(self, _speaker, _alone):
        bound = b"1" if self.waiting else self.dice.choice((b"0", b"1", b"1", b"2", b"3 x", b"-1"))
        return b"kick %s\r\n" % bound, 1, self.nothing, 0

    def kick_job(self, speaker, _alone):
        job, text = self.some_job(speaker)

        def after(replies):
            if replies[0] == b"KICKED\r\n":
                self.free(job)
        return b"kick-job %s\r\n" % text, 1, after, 0

    def pause(self, _speaker, alone):
        tube = self.dice.choice(TUBES)
        delay = self.dice.choice((0, 0, 1, 100) if self.timed and alone else (0, 0, 100))

        def after(replies):
            self.due.pop(("pause", tube), None)
            if replies[0] == b"PAUSED\r\n" and 0 < delay < 10:
                self.due["pause", tube] = time.monotonic() + delay
        return b"pause-tube %s %d\r\n" % (tube.encode(), delay), 1, after, delay

    def look(self, speaker, _alone):
        job = self.some_job(speaker)[1]
        tube = self.dice.choice(TUBES).encode()
        return self.dice.choice((
            b"peek %s\r\n" % job, b"peek-ready\r\n", b"peek-delayed\r\n", b"peek-buried\r\n",
            b"stats-job %s\r\n" % job, b"stats-job %s\r\n" % job, b"stats-tube %s\r\n" % tube,
            b"stats-tube %s\r\n" % tube, b"stats\r\n", b"list-tubes\r\n", b"list-tube-used\r\n",
            b"list-tubes-watched\r\n")), 1, self.nothing, 0

    def malformed(self, _speaker, _alone):
        return self.dice.choice(MALFORMED).encode() + b"\r\n", 1, self.nothing, 0

    COMMANDS = [(put, 20), (wrong_put, 2), (use, 4), (watch, 4), (ignore, 3), (reserve, 14),
                (reserve_job, 4), (delete, 6), (release, 7), (bury, 7), (touch, 3), (kick, 5),
                (kick_job, 3), (pause, 2), (look, 22), (malformed, 4)]

    def command(self, speaker, alone):
        kinds, weights = zip(*self.COMMANDS)
        return self.dice.choices(kinds, weights)[0](self, speaker, alone)

    # ---- steps ----

    def some_cuts(self):
        if self.dice.random() < 0.8:
            return ()
        return [self.dice.random() for _ in range(self.dice.randint(1, 4))]

    def single(self, speaker):
        text, count, after, delay = self.command(speaker, True)
        self.settle(delay)
        after(self.ask(speaker.name, text, count, self.some_cuts()))

    def group(self, speaker):
        """Several commands in one packet."""
        parts = [self.command(speaker, False) for _ in range(self.dice.randint(2, 6))]
        self.settle()
        replies = self.ask(speaker.name, b"".join(part[0] for part in parts),
                           sum(part[1] for part in parts), self.some_cuts())
        for _, count, after, _ in parts:
            after(replies[:count])
            replies = replies[count:]

    def wait(self, speaker):
        """A reserve that has to wait, if there is nothing and nobody else waits for these tubes."""
        if self.expiry or any(speaker.watched & other.watched for other in self.speakers
                              if other.name in self.waiting):
            return
        late = [self.tube[job] for what, job in self.due if what == "ready"]
        if sum(tube in speaker.watched for tube in late) > 1:
            return
        reply = self.ask(speaker.name, b"reserve-with-timeout 0\r\n", 1)[0]
        self.reserved(speaker.name, reply)
        if reply != b"TIMED_OUT\r\n":
            return
        # What is pipelined behind it must count nowhere: it runs while the one who woke it goes on.
        text, count = self.dice.choice(((b"reserve\r\n", 1), (b"reserve-with-timeout 99\r\n", 1),
                                        (b"reserve\r\nkick-job 999999\r\nfoo\r\n", 3)))
        if self.timed and self.dice.random() < 0.3:
            text, count = b"reserve-with-timeout 1\r\n", 1
            self.settle(1)
            self.due["wait", speaker.name] = time.monotonic() + 1
        self.ask(speaker.name, text, 0)
        self.waiting[speaker.name] = count
        time.sleep(0.02)  # so that it waits before the next one speaks; there is no reply to tell

    def idle(self, _speaker):
        """Lets the next change by time happen."""
        if self.due:
            time.sleep(max(0, min(self.due.values()) - time.monotonic()))

    def leave(self, speaker):
        """Ends one connection, in one of three ways; a new one takes its place."""
        name = speaker.name
        if self.waiting and name in self.held.values():
            return
        how = self.dice.choice(("quit", "close", "half"))
        self.log.append(f"{name} leaves: {how}")
        if how == "quit":
            self.ask(name, b"quit\r\n", 0)
        if how == "close":
            for side in self.sides:
                side.conn(name).socket.close()
                del side.conns[name]
            time.sleep(0.02)
        else:
            for side in self.sides:
                side.conn(name)
            self.compare("the end", *([side.ends(name, 0)] for side in self.sides))
        for job in [job for job, who in self.held.items() if who == name]:
            self.free(job)
        self.born += 1
        self.speakers[self.speakers.index(speaker)] = Speaker(f"{name[0]}{self.born}")

    def run(self):
        for _ in range(STEPS // 2 if self.timed else STEPS):
            self.settle()
            free = [s for s in self.speakers if s.name not in self.waiting]
            if not free:
                free = [Speaker("E")]
            speaker = self.dice.choice(free)
            kinds = self.single, self.group, self.wait, self.leave, self.idle
            self.dice.choices(kinds, (70, 15, 10, 1, 8))[0](speaker)
        self.settle()
        self.ask("control", b"stats\r\nlist-tubes\r\n" + b"".join(
            b"stats-tube %s\r\n" % tube.encode() for tube in TUBES), 2 + len(TUBES))
        # So that nobody gets the jobs of those who leave.
        self.ask("control", b"".join(b"pause-tube %s 100\r\n" % tube.encode() for tube in TUBES),
                 len(TUBES))
        for name in list(self.sides[0].conns):
            count = self.waiting.pop(name, 0)
            self.log.append(f"{name} leaves at the end")
            self.compare("the end", *([side.ends(name, count)] for side in self.sides))


def run(seed, reference=Beanstalkd, other=Tarry, log=None):
    """One sequence on two fresh servers. True, or False if the machine was too slow for it."""
    with reference() as one, other() as two:
        talk = Talk(seed, one, two)
        try:
            talk.run()
        except Slow:
            return False
        except Exception as error:
            error.args = (f"seed {seed}\n" + "\n".join(talk.log) + f"\n{error}",)
            raise
        finally:
            if log is not None:
                log += talk.log
            for side in talk.sides:
                side.close()
    return True


def sweep(seeds, seconds, **servers):
    """Runs seeds side by side until the time is over: (done, too slow)."""
    end = time.monotonic() + seconds
    seeds = iter(seeds)
    lock = threading.Lock()
    results = []
    stop = threading.Event()

    def worker():
        while time.monotonic() < end and not stop.is_set():
            with lock:
                seed = next(seeds, None)
            if seed is None:
                return
            try:
                results.append(run(seed, **servers))
            except BaseException:
                stop.set()
                raise

    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        for job in [pool.submit(worker) for _ in range(AT_ONCE)]:
            job.result()
    return results.count(True), results.count(False)


def chosen_seeds():
    if SEEDS:
        first, _, last = SEEDS.partition("-")
        return range(int(first), int(last or first) + 1), 1e9
    return range(1, 1 << 40), SECONDS


needs_beanstalkd = pytest.mark.skipif(BEANSTALKD is None, reason="no beanstalkd")


@needs_beanstalkd
def test_tarry_says_what_beanstalkd_says():
    done, slow = sweep(*chosen_seeds())
    print(f"differential sequences={done} too_slow={slow}")
    assert done > slow


@needs_beanstalkd
def test_beanstalkd_says_what_beanstalkd_says():
    """The comparison itself is sound: no difference between two that are the same."""
    done, slow = sweep(range(1, 9), 60, other=Beanstalkd)
    assert done > slow


class Liar(Beanstalkd):
    """A beanstalkd behind a proxy that changes some words, of the server or of the client."""
    name = "liar"

    def __init__(self, said=None, heard=None):
        super().__init__()
        self.said = said
        self.heard = heard

    def __enter__(self):
        super().__enter__()
        self.behind = self.address
        self.door = socket.create_server(("127.0.0.1", 0))
        self.address = self.door.getsockname()
        threading.Thread(target=self.welcome, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.door.shutdown(socket.SHUT_RDWR)
        self.door.close()
        super().__exit__()

    def welcome(self):
        while True:
            try:
                client = self.door.accept()[0]
            except OSError:
                return
            server = socket.create_connection(self.behind)
            for ends in ((client, server, self.heard), (server, client, self.said)):
                threading.Thread(target=self.carry, args=ends, daemon=True).start()

    def carry(self, source, sink, change):
        for end in (source, sink):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            while data := source.recv(1 << 17):
                sink.sendall(data.replace(*change) if change else data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass


@needs_beanstalkd
@pytest.mark.parametrize("lie", [
    {}, {"said": (b"KICKED 1\r\n", b"KICKED 2\r\n")}, {"said": (b"UNKNOWN_COMMAND", b"BAD_FORMAT")},
    {"said": (b"releases: 1\n", b"releases: 2\n")}, {"said": (b"BURIED\r\n", b"BURIED\r\n\r\n")},
    {"heard": (b"ignore a\r\n", b"ignore c\r\n")}, {"heard": (b"put 5 ", b"put 1 ")},
    {"heard": (b"kick 1\r\n", b"kick 2\r\n")}, {"heard": (b"touch", b"bury 0 0\r\ntouch")},
], ids=str)
def test_a_lie_is_noticed(lie):
    """Sequences without time are enough; the empty lie shows that the proxy does no harm."""
    seeds = [seed for seed in range(1, 40) if seed % 4]
    if not lie:
        assert sweep(seeds[:6], 60, other=Liar)[0] == 6
        return
    with pytest.raises(Mismatch):
        sweep(seeds, 60, other=lambda: Liar(**lie))


if __name__ == "__main__":
    lines = []
    try:
        print("slow" if not run(int(sys.argv[1]), log=lines) else "\n".join(lines) + "\nthe same")
    except Mismatch as mismatch:
        sys.exit(str(mismatch))
