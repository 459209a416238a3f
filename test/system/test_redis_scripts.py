"""The Lua scripts of the engine on Redis, against a real redis-server: each step of a job's life.

Time is pasted into the text of the scripts, so that nothing waits and "a microsecond too early" can
be tried. One test runs the scripts as they are, by their SHA-1.
"""
import hashlib
import importlib.machinery
import importlib.util
import pathlib
import re
import threading

import pytest

import redis_server

TOP = pathlib.Path(__file__).resolve().parents[2]
LUA = sorted((TOP / "src/cluster/lua").glob("*.lua"))
MAKE = importlib.machinery.SourceFileLoader("make_lua", str(TOP / "tools/make-lua"))
make_lua = importlib.util.module_from_spec(importlib.util.spec_from_loader("make_lua", MAKE))
MAKE.exec_module(make_lua)
SCRIPTS = make_lua.scripts(LUA)

SLOT = 5
T0 = 1_800_000_000_000_000  # us
SECOND = 1_000_000
UUID, RUN = "u" * 32, "1" * 40
NODE = "a1a1a1a100000001"
OTHER = "b2b2b2b200000002"
LEASE = "a1a1a1a1%08x"
SETS = ("store", "ready", "prep", "dead", "c", "w", "x")
NO_RETRIES_OF_ITS_OWN = 2**32 - 1


def header(text):
    """A header as a dict; see src/cluster/header.c."""
    job, at = {"set": chr(text[0]), "flags": text[1]}, 2

    def read(*fields):
        nonlocal at
        for name, width in fields:
            job[name] = int.from_bytes(text[at:at + width], "big")
            at += width

    read(("ver", 4), ("prio", 4), ("due", 7), ("attempts", 4))
    job.update(at=0, lease="", ttr=0, ttl=0, retries=NO_RETRIES_OF_ITS_OWN, timeouts=0, releases=0,
               buries=0, kicks=0, why=0)
    if job["set"] in "pd":
        read(("at", 7))
        job["lease"], at = text[at:at + 8].hex(), at + 8
    read(("created", 7), ("delay", 7), ("size", 3))
    if job["flags"] & 8:
        read(("ttr", 7), ("ttl", 7), ("retries", 4))
    if job["flags"] & 16:
        read(("timeouts", 4), ("releases", 4), ("buries", 4), ("kicks", 4), ("why", 1))
    assert bool(job["flags"] & 64) == (job["ttl"] > 0)
    lengths = {"topic": text[at], "tag": 0, "key": 0, "backoff": 0}
    job["topic"], at = text[at + 1:at + 1 + text[at]], at + 1 + text[at]
    if job["flags"] & 32:
        lengths.update(tag=text[at], key=text[at + 1], backoff=text[at + 2] << 8 | text[at + 3])
        at += 4
    for name in ("tag", "key", "backoff"):
        job[name], at = text[at:at + lengths[name]], at + lengths[name]
    job["schedule"] = text[at:]
    assert job["flags"] & 32 or job["schedule"] == b""
    return job


def number(value, width):
    return value.to_bytes(width, "big")


def pushed(j, names):
    """The first argument of a job that is pushed."""
    tag, key, backoff = (j.get(f, "").encode() for f in ("tag", "key", "backoff"))
    ttr, ttl, retries = j.get("ttr", 0), j.get("ttl", 0), j.get("retries", NO_RETRIES_OF_ITS_OWN)
    own = ttr > 0 or ttl > 0 or retries != NO_RETRIES_OF_ITS_OWN
    texts = tag + key + backoff
    flags = j.get("flags", 0) | 8 * own | 32 * bool(texts) | 68 * (ttl > 0)
    topic = names[j.get("topic", 1) - 1].encode()
    end = number(ttr, 7) + number(ttl, 7) + number(retries, 4) if own else b""
    end += bytes([len(topic)]) + topic
    if texts:
        end += bytes([len(tag), len(key)]) + number(len(backoff), 2) + tag
    key_at = 26 + len(end)
    kind, time = (b"a", j["at"]) if "at" in j else (b"d", j.get("delay", 0))
    return (bytes([j.get("topic", 1)]) + j.get("on", "r").encode() + kind + number(time, 7) +
            number(j.get("age", 0), 7) + bytes([flags]) + number(j.get("prio", 1024), 4) +
            number(key_at if key else j.get("count", 1), 2) + bytes([len(key)]) + end +
            (key + backoff if texts else b""))


def what(kind, job, rest="", lease=None, topic=1):
    """The first argument of an edit."""
    lease = bytes.fromhex(LEASE % lease) if lease else bytes(8)
    return kind.encode() + bytes([topic]) + job.encode() + lease + rest.encode()


def each_pushed(said, args):
    """The reply to a push of these jobs, with one item for each."""
    if said[0] != b"OK" or said[4][:1] != b"n":
        return said
    base, job = int(said[4][1:15], 16), int(said[4][15:], 16)
    items, at = [], 0
    while at < len(args):
        kind, time, age = args[at][2:3], *(int.from_bytes(args[at][i:i + 7], "big") for i in (3, 10))
        due = base - age + time if kind == b"d" else max(time, base)
        count = 1 if args[at][24] else int.from_bytes(args[at][22:24], "big")
        for _ in range(count):
            items.append(b"N%014x%014x" % (job, due))
            job += 1024
        at += 1 + count
    return said[:4] + items


class Slot:
    """One slot of a store, as a node uses it."""

    def __init__(self, redis, scripts=None):
        self.redis, self.scripts = redis, scripts or SCRIPTS
        self.now, self.node, self.op, self.run = T0, NODE, 0, RUN
        self.wall = None  # None: right
        self.life = None  # None: the node knows it
        redis("FLUSHALL")
        assert self.check(fresh="1") == [b"OK", b"new", b"0", b"", self.run.encode()]

    def key(self, name):
        return "tarry:{%d}:%s" % (SLOT, name)

    def text(self, name):
        """The script with the time in it, and with the life of the server."""
        text, count = re.subn(r"redis\.call\('TIME'\)|call\('TIME'\)",
                              "({'%d','%d'})" % divmod(self.now, SECOND), self.scripts[name])
        assert count == 1
        return re.sub(r"(redis\.)?call\('INFO', ?'replication'\)", f"'master_replid:{self.life or self.run}'", text)

    def eval(self, name, keys, *args):
        return self.redis("EVAL", self.text(name), len(keys), *keys, *args)

    def check(self, fresh="0", seen=0):
        wall = self.now if self.wall is None else self.wall
        return self.eval("check", [self.key("m")], UUID, seen, wall, fresh)

    def call(self, name, *args, topics=("t",), op=None, spread="1", order="due"):
        """Runs a script of jobs. op: of a call that is repeated."""
        if op is None:
            self.op += 1
            op = self.op
        keys = [self.key(k) for k in "mhbka"]
        about = []
        for topic in topics:
            keys += [self.key(f"{topic}:{s}") for s in SETS]
            about += [topic, spread, order]
        wall = self.now if self.wall is None else self.wall
        return self.eval(name, keys, UUID, self.run, self.node, "%014x" % op, wall, len(topics), *about,
                         *args)

    def push(self, *jobs, seen=0, **more):
        """Each job: a dict. Gives the reply, with one item for each."""
        args = []
        for j in jobs:
            args += [pushed(j, more.get("topics", ("t",))), j.get("body", "x")]
        return each_pushed(self.call("push", seen, SLOT, *args, **more), args)

    def put(self, **job):
        """One new job: its id."""
        said = self.push(job)
        assert said[0] == b"OK" and said[4][:1] == b"N", said
        return said[4][1:15].decode()

    def take(self, count=1, lease=1, ttr=0, tag="", wait=0, held=0, least=0, room=512 * 1024, heard=0, **more):
        return self.call("take", count, bytes.fromhex(LEASE % lease), ttr, tag, wait, held, least, room,
                         "%014x" % heard, **more)

    def got(self, *args, **more):
        """[(id, header, body)] of a take."""
        said = self.take(*args, **more)
        assert said[0] == b"OK", said
        return jobs_of(said)

    def edit(self, *whats, **more):
        """The reply, with one item for each."""
        said = self.call("edit", *whats, **more)
        return said + [b"Op"] * (len(whats) - 1) if said[4:] == [b"Op"] else said

    def do(self, kind, job, rest="", lease=None):
        said = self.edit(what(kind, job, rest, lease))
        assert said[0] == b"OK", said
        return said[4]

    def look(self, job):
        said = self.call("look", "1", "01" + job)
        return header(said[4]) if said[4] else None

    def tend(self, most=64, forget=0, **more):
        return self.call("tend", most, forget, **more)

    def conf(self, version, **fields):
        return self.call("conf", version, *[x for f in fields.items() for x in f])

    def sets(self, topic="t"):
        """Which ids are in which set; and no id is in two of them."""
        out = {}
        for name in ("store", "ready", "prep", "dead"):
            members = self.redis("ZRANGE", self.key(f"{topic}:{name}"), 0, -1)
            out[name] = [m[-14:].decode() for m in members]
        every = sum(out.values(), [])
        assert len(set(every)) == len(every)
        assert sorted(every) == sorted(k.decode() for k in self.redis("HKEYS", self.key("h")))
        assert sorted(every) == sorted(k.decode() for k in self.redis("HKEYS", self.key("b")))
        counted = [self.redis("HGET", key, "bytes") for key in self.redis("KEYS", self.key("*:c"))]
        assert sum(int(n or 0) for n in counted) == sum(map(len, self.redis("HVALS", self.key("b"))))
        return out

    def empty(self):
        """Is nothing left but the slot's own records?"""
        left = {k.decode().split(":", 2)[2] for k in self.redis("KEYS", "*")}
        return left <= {"m", "a", "t:c", "t:w"}


def jobs_of(said):
    rest = said[6:]
    return [(rest[i].decode(), header(rest[i + 1]), rest[i + 2]) for i in range(0, len(rest), 3)]


@pytest.fixture(scope="module")
def server():
    with redis_server.Server() as s:
        yield s


@pytest.fixture
def slot(server):
    client = server.client()
    yield Slot(client)
    client.close()


def test_a_job_from_push_to_ack(slot):
    job = slot.put(delay=30 * SECOND, body=b"\0\xff\r\n", tag="red", key="order-42")
    is_ = slot.look(job)
    assert (is_["set"], is_["due"], is_["created"]) == ("s", T0 + 30 * SECOND, T0)
    assert (is_["topic"], is_["tag"], is_["key"]) == (b"t", b"red", b"order-42")
    slot.now += 30 * SECOND
    [(got, head, body)] = slot.got()
    assert (got, body, head["attempts"], head["at"]) == (job, b"\0\xff\r\n", 1, slot.now + 60 * SECOND)
    assert slot.sets() == {"store": [], "ready": [], "prep": [job], "dead": []}
    assert slot.got() == []
    assert slot.do("A", job, lease=1) == b"Op"
    assert slot.do("A", job, lease=1) == b"N"
    assert slot.empty()


def test_never_early(slot):
    job = slot.put(delay=SECOND)
    slot.now += SECOND - 1
    said = slot.take()
    assert jobs_of(said) == [] and int(said[4], 16) == T0 + SECOND and said[5] == b"0"
    slot.now += 1
    assert [j[0] for j in slot.got()] == [job]


def test_age_and_absolute_times(slot):
    early = slot.put(delay=10 * SECOND, age=3 * SECOND)
    assert slot.look(early)["due"] == T0 + 7 * SECOND
    assert slot.look(slot.put(at=T0 - 5))["due"] == T0
    assert slot.look(slot.put(at=T0 + 5))["due"] == T0 + 5


def test_a_clock_that_steps_back_hands_out_nothing(slot):
    slot.now += 10 * SECOND
    slot.put(delay=0)
    slot.now -= 5 * SECOND
    assert slot.take()[0] == b"CLOCK"
    late = slot.put(delay=SECOND)  # counts from the latest time that was seen
    assert slot.look(late)["due"] == T0 + 11 * SECOND
    slot.now += 5 * SECOND
    assert len(slot.got(2)) == 1
    slot.wall = slot.now + 6 * SECOND
    assert slot.take()[0] == b"CLOCK"
    assert slot.tend()[0] == b"CLOCK"


def test_a_clock_far_ahead_that_is_put_right(slot):
    """A push meanwhile raises neither the latest time that was seen nor ids: later ones go on."""
    one = slot.put()
    slot.wall = T0
    slot.now += 3600 * SECOND
    wrong = slot.put(delay=SECOND)
    assert slot.look(wrong)["due"] == T0 + 3601 * SECOND  # late, not early
    slot.put(key="k")
    slot.edit(what("A", one, lease=1))
    assert slot.take()[0] == b"CLOCK"
    assert int(slot.redis("HGET", slot.key("m"), "tmax")) == T0
    slot.now, slot.wall = T0 + SECOND, None
    assert [j[0] for j in slot.got()] == [one]
    two = slot.put(delay=SECOND)
    assert slot.look(two)["due"] == T0 + 2 * SECOND and int(two, 16) - int(one, 16) <= 1001 * 1024
    slot.run = "2" * 40
    slot.now, slot.wall = T0 + 10**7 * SECOND, T0
    slot.check()
    assert int(slot.redis("HGET", slot.key("m"), "seq")) < int(two, 16) // 1024 + 2**31


def test_a_clock_far_behind_makes_nothing_early(slot):
    """The slot was idle, so the latest time that it has seen is old: the caller's clock counts, if it is later."""
    held = slot.put()
    slot.put()
    assert len(slot.got(2, ttr=9 * SECOND)) == 2
    slot.now += 8 * SECOND  # nothing is asked for so long
    slot.wall = slot.now
    slot.now -= 3600 * SECOND
    late, plain = slot.put(delay=5 * SECOND, key="k"), slot.put(delay=5 * SECOND)
    [said] = slot.edit(what("T", held, "%014x" % (4 * SECOND), lease=1))[4:]
    assert said[:1] == b"O"
    by_id = slot.put()
    [said] = slot.edit(what("H", by_id, "%014x0" % (4 * SECOND), lease=7))[4:]
    assert said[:1] == b"O"
    slot.now, slot.wall = slot.wall, None  # it is put right
    for job in (late, plain):
        assert slot.look(job)["due"] == slot.now + 5 * SECOND
    for job in (held, by_id):
        assert slot.look(job)["at"] == slot.now + 4 * SECOND
    assert slot.got(9, lease=2) == []


def test_a_latest_time_that_was_wrong(slot):
    """The node's clock was as wrong as the server's: two that agree later put it right."""
    slot.now += 3600 * SECOND
    one = slot.put(delay=0)
    slot.now = T0 + SECOND
    slot.wall = T0 + 3600 * SECOND  # a node that still is
    assert slot.take()[0] == b"CLOCK"
    slot.wall = None
    assert slot.take()[0] == b"OK"
    late = slot.put(delay=SECOND)
    assert slot.look(late)["due"] == T0 + 2 * SECOND
    slot.now += 2 * SECOND
    assert [j[0] for j in slot.got(2)] == [late]
    slot.now = T0 + 3600 * SECOND
    assert [j[0] for j in slot.got(1)] == [one]


def test_a_clock_that_goes_back_a_little(slot):
    """Less than a second: nothing is held back but what is not due any more."""
    slot.push({}, {})
    slot.now += SECOND // 2
    slot.put()
    slot.got()  # the rest is moved to ready
    slot.now -= SECOND // 4
    assert len(slot.got(9, lease=2)) == 1
    slot.now += SECOND // 4
    assert len(slot.got(9, lease=3)) == 1


def test_who_waits_hears_of_what_is_not_due_any_more(slot):
    """It goes from ready back to store, when that was looked at already; nobody else will tell when it is due."""
    slot.push({}, {})
    due = slot.now
    slot.got()
    slot.now -= SECOND // 4
    said = slot.take(9, lease=2, wait=slot.now + 60 * SECOND)
    assert jobs_of(said) == [] and int(said[4], 16) == due


def test_order(slot):
    ids = {}
    for name, prio, delay in (("c", 5, 2), ("a", 1, 9), ("b", 5, 1), ("d", 5, 2)):
        ids[name] = slot.put(prio=prio, delay=delay * SECOND)
    slot.now += 10 * SECOND
    assert [j[0] for j in slot.got(2)] == [ids["a"], ids["b"]]
    assert slot.sets()["ready"] == [ids["c"], ids["d"]]  # the rest of what was due was moved
    assert [j[0] for j in slot.got(9)] == [ids["c"], ids["d"]]


def test_order_of_the_beanstalk_port(slot):
    args = dict(order="id")
    slot.push({"delay": 2 * SECOND}, {"delay": SECOND}, **args)
    slot.now += 3 * SECOND
    got = [j[0] for j in slot.got(1, **args)] + [j[0] for j in slot.got(1)]
    assert got == sorted(got)  # by id, whatever a later caller believes


def test_order_of_what_is_due(slot):
    """It is in store by its due time, and all of it goes out by priority."""
    late = slot.put(prio=1, delay=9)
    early = slot.put(prio=5, delay=1)
    last = slot.put(prio=9, delay=3)
    slot.now += 10
    assert [j[0] for j in slot.got(3)] == [late, early, last]
    job = slot.put(prio=5, delay=1)
    urgent = slot.put(prio=1, delay=2)
    slot.now += 10
    assert [j[0] for j in slot.got(1, lease=2)] == [urgent]
    assert [j[0] for j in slot.got(1, lease=3)] == [job]


def test_priority_beats_what_was_moved_before(slot):
    for _ in range(3):
        slot.put(prio=5)
    slot.got(1)
    urgent = slot.put(prio=1)
    assert [j[0] for j in slot.got(1)] == [urgent]


def test_a_lease_that_ran_out(slot):
    job = slot.put(ttr=SECOND, backoff="l0")
    slot.got(lease=1)
    slot.now += SECOND
    assert slot.look(job)["set"] == "r"  # nobody has touched it
    assert slot.do("A", job, lease=1)[:1] == b"L"
    [(got, head, _)] = slot.got(lease=2)
    assert (got, head["attempts"], head["timeouts"]) == (job, 2, 1)
    assert slot.do("A", job, lease=1)[:1] == b"L"
    assert slot.do("A", job, lease=2) == b"Op"


def test_acks_of_plain_jobs(slot):
    """The way that nearly all acks go."""
    job, other = slot.put(ttr=SECOND), slot.put()
    slot.got(2)
    slot.now += SECOND
    assert slot.do("A", job, lease=1)[:1] == b"L"
    slot.now += 5 * SECOND
    slot.got(lease=2)
    assert slot.do("A", job, lease=1)[:1] == b"L"
    said = slot.edit(what("A", other, lease=1), what("A", job, lease=2))
    assert said[4:] == [b"Op", b"Op"]
    assert slot.edit(what("A", other, lease=1), what("A", job, lease=2), op=slot.op) == said
    assert slot.empty()


def test_the_last_microsecond_of_a_lease(slot):
    job = slot.put(ttr=SECOND)
    slot.got()
    slot.now += SECOND - 1
    assert slot.got(lease=2) == []
    assert slot.do("T", job, "0" * 14, lease=1)[:1] == b"O"
    assert slot.look(job)["at"] == slot.now + SECOND
    slot.now += SECOND - 1
    assert slot.do("A", job, lease=1) == b"Op"


def test_retries_and_dead_and_kick(slot):
    job = slot.put(retries=1, backoff="l4000000,9000000")
    slot.got()
    said = slot.do("R", job, "bk", lease=1)
    assert said[:1] == b"O" and header(said[1:])["due"] == slot.now + 4 * SECOND
    slot.now += 4 * SECOND - 1
    assert slot.got() == []
    slot.now += 1
    assert slot.got(lease=2)[0][1]["attempts"] == 2
    said = slot.do("R", job, "d%014xk" % SECOND, lease=2)
    assert said[:1] == b"D" and header(said[1:])["why"] == 5
    assert slot.sets()["dead"] == [job]
    assert slot.do("A", job, lease=2)[:1] == b"L"
    said = slot.do("K", job, "0")
    assert said[:1] == b"O" and header(said[1:])["attempts"] == 0
    assert slot.got(lease=3)[0][0] == job


def test_sixteen_retries(slot):
    job = slot.put(backoff="l0")
    for n in range(17):
        assert slot.got(lease=n + 1)[0][1]["attempts"] == n + 1
        said = slot.do("R", job, "bk", lease=n + 1)
    assert said[:1] == b"D"
    beanstalk = slot.put(flags=1)
    for n in range(40):
        assert slot.got(lease=n + 1)[0][0] == beanstalk
        assert slot.do("R", beanstalk, "bk", lease=n + 1)[:1] == b"O"


def test_backoff_grows_and_jitter_only_adds(slot):
    job = slot.put(backoff="e1000000,200,5000000,100")
    for n, wait in enumerate((1, 2, 4, 5, 5)):
        slot.got(lease=n + 1)
        due = header(slot.do("R", job, "bk", lease=n + 1)[1:])["due"]
        assert wait * SECOND <= due - slot.now <= wait * SECOND * 1.1
        slot.now = due


def test_bury_release_and_give_back(slot):
    job = slot.put()
    slot.got()
    said = header(slot.do("G", job, lease=1)[1:])
    assert (said["attempts"], said["set"], said["due"]) == (0, "r", T0)
    slot.got(lease=2)
    said = header(slot.do("R", job, "d%014x%08x" % (3 * SECOND, 7), lease=2)[1:])
    assert (said["set"], said["due"], said["prio"], said["releases"]) == ("s", T0 + 3 * SECOND, 7, 1)
    slot.now += 3 * SECOND
    slot.got(lease=3)
    said = header(slot.do("B", job, "k", lease=3)[1:])
    assert (said["set"], said["why"], said["buries"], said["prio"]) == ("d", 4, 1, 7)


def test_cancel(slot):
    job = slot.put(delay=SECOND, key="k")
    assert slot.do("C", job, "0") == b"Os"
    assert slot.do("C", job, "0") == b"N"
    job = slot.put(key="k")
    slot.got()
    assert slot.do("C", job, "0")[:2] == b"Sp"
    assert slot.do("C", job, "1") == b"Op"
    assert slot.do("A", job, lease=1) == b"N"
    job = slot.put(delay=SECOND)
    slot.now += SECOND
    assert slot.do("C", job, "0") == b"Or"  # due, though nothing was moved
    job = slot.put(key="k2")
    slot.got()
    assert slot.do("A", job, lease=1) == b"Op"
    assert slot.empty()
    assert slot.redis("HLEN", slot.key("k")) == 0


def test_cancel_and_ack_in_one_call(slot):
    job = slot.put()
    slot.got()
    said = slot.edit(what("C", job, "1"), what("A", job, lease=1))
    assert said[4:] == [b"Op", b"N"]
    job = slot.put()
    slot.got()
    said = slot.edit(what("A", job, lease=1), what("C", job, "0"), what("T", job, "0" * 14, lease=1))
    assert said[4:] == [b"Op", b"N", b"N"]
    job = slot.put()
    slot.got()
    assert slot.edit(what("A", job, lease=1), what("A", job, lease=1))[4:] == [b"Op", b"N"]
    assert slot.empty()


def test_edit_and_fire(slot):
    job = slot.put(delay=50 * SECOND)
    change = what("E", job, "%02x" % 63 + "d%014x%014x%08x%014x%014x" % (
        9 * SECOND, 0, 3, 2 * SECOND, 4 * SECOND))
    said = slot.edit(change, "blue", "new")
    is_ = header(said[4][1:])
    assert [is_[f] for f in ("due", "prio", "ttr", "ttl", "tag")] == [
        T0 + 9 * SECOND, 3, 2 * SECOND, 4 * SECOND, b"blue"]
    assert slot.do("F", job)[:1] == b"O"
    assert slot.do("F", job)[:1] == b"S"
    [(_, head, body)] = slot.got()
    assert body == b"new" and head["at"] == T0 + 2 * SECOND
    assert slot.edit(change, "blue", "new")[4][:2] == b"Sp"


def test_keys(slot):
    job = slot.put(key="k", delay=SECOND)
    other = slot.put(delay=SECOND)
    assert slot.push({"key": "k", "on": "k"})[4][:15] == b"K" + job.encode()
    assert slot.push({"key": "k", "on": "e"})[4][:15] == b"E" + job.encode()
    said = slot.push({"key": "k", "delay": 5 * SECOND, "body": "y", "prio": 3})
    assert said[4][:15] == b"R" + job.encode()
    assert (header(said[4][15:])["due"], header(said[4][15:])["ver"]) == (T0 + 5 * SECOND, 2)
    assert slot.sets()["store"] == [other, job]
    slot.now += 5 * SECOND
    assert slot.got()[0][0] == job
    assert slot.push({"key": "k"})[4][:1] == b"X"
    slot.do("B", job, "k", lease=1)
    assert slot.push({"key": "k"})[4][:1] == b"R"  # a dead one comes back under its id
    assert slot.look(job)["set"] == "r" and slot.look(job)["attempts"] == 0
    slot.got(2, lease=2)
    assert slot.do("A", job, lease=2) == b"Op"
    assert slot.put(key="k") != job


def test_the_same_key_twice_in_one_call(slot):
    said = slot.push({"key": "k"}, {"key": "k", "prio": 1, "body": "y"}, {"key": "k", "on": "k"})
    job = said[4][1:15]
    assert [s[:15] for s in said[4:]] == [b"N" + job, b"R" + job, b"K" + job]
    [(got, head, body)] = slot.got(9)
    assert (got, head["prio"], body) == (job.decode(), 1, b"y")


def test_ttl(slot):
    job = slot.put(delay=SECOND, ttl=2 * SECOND)
    tried = slot.put(delay=SECOND, ttl=2 * SECOND, prio=1)
    slot.now += SECOND
    assert slot.got()[0][0] == tried  # was handed out: it does not expire any more
    slot.do("R", tried, "d%014xk" % 0, lease=1)
    slot.now += 2 * SECOND
    assert slot.look(job)["set"] == "d" and slot.look(job)["why"] == 3
    assert slot.tend()[7] == b"1"
    assert slot.sets() == {"store": [], "ready": [tried], "prep": [], "dead": [job]}
    assert slot.redis("ZCARD", slot.key("t:x")) == 0


def test_ttl_met_by_a_take(slot):
    slot.put(ttl=SECOND)
    slot.now += SECOND
    assert slot.got() == []
    assert len(slot.sets()["dead"]) == 1


def test_tend(slot):
    slot.conf(1, dead_keep=10 * SECOND)
    jobs = [slot.put(ttr=SECOND, backoff="l0") for _ in range(5)]
    slot.got(5)
    slot.now += SECOND
    said = slot.tend(3)
    assert said[5:7] == [b"1", b"3"]
    said = slot.tend(3)
    assert said[5:7] == [b"0", b"2"] and said[4] == b""
    assert sorted(slot.sets()["ready"]) == jobs
    slot.got(1, lease=2)
    slot.do("B", jobs[0], "k", lease=2)
    slot.tend()
    assert float(slot.redis("ZSCORE", slot.key("a"), "t")) == slot.now + 10 * SECOND
    slot.now += 10 * SECOND - 1
    assert slot.tend()[8] == b"0"
    slot.now += 1
    assert slot.tend()[8] == b"1"
    assert slot.look(jobs[0]) is None


def test_dead_max(slot):
    slot.conf(1, dead_max=2)
    jobs = [slot.put() for _ in range(4)]
    for n, job in enumerate(jobs):
        slot.now += 1
        slot.got(1, lease=n + 1)
        slot.do("B", job, "k", lease=n + 1)
    assert slot.tend()[8] == b"2"
    assert slot.sets()["dead"] == jobs[2:]


def test_a_repeat_is_answered_as_before(slot):
    args = ({}, {"delay": 50 * SECOND, "age": 7}, {"at": T0 + 70 * SECOND})
    said = slot.push(*args)
    assert slot.push(*args, op=slot.op) == said and len(said) == 7
    slot.do("C", said[4][1:15].decode(), "0")
    said = slot.push({"body": "1"}, {"body": "2", "key": "k"})
    assert slot.push({"body": "1"}, {"body": "2", "key": "k"}, op=slot.op) == said
    assert len(slot.sets()["ready"]) == 2
    first = slot.take(2)
    slot.now += 5
    again = slot.take(2, op=slot.op)
    assert jobs_of(again) == jobs_of(first)
    job = jobs_of(first)[0][0]
    ack = what("A", job, lease=1)
    said = slot.edit(ack)
    assert said[4] == b"Op"
    assert slot.edit(ack, op=slot.op)[4] == b"Op"
    assert slot.edit(ack)[4] == b"N"


def test_what_comes_late_is_not_done(slot):
    slot.push({})
    slot.push({})
    assert slot.push({}, op=slot.op - 1) == [b"STALE"]
    slot.got()
    slot.got(lease=2)
    assert slot.take(lease=1, op=slot.op - 1) == [b"STALE"]
    assert len(slot.sets()["ready"]) == 0 and len(slot.sets()["prep"]) == 2
    slot.node = OTHER  # each node has its own numbers
    assert slot.push({}, op=1)[0] == b"OK"


def test_a_repeated_take_gives_only_what_it_still_holds(slot):
    slot.push({"ttr": SECOND, "backoff": "l0"}, {"ttr": 9 * SECOND})
    slot.got(2)
    op = slot.op
    slot.now += SECOND
    slot.tend()
    assert len(jobs_of(slot.take(2, op=op))) == 1


def test_ids(slot):
    one, two = slot.put(), slot.put()
    assert int(two, 16) == int(one, 16) + 1024 and int(one, 16) % 1024 == SLOT
    assert int(one, 16) // 1024 == T0 // 1000 - 1704067200000 + 1
    three = slot.push({}, seen=int(two, 16) // 1024)[4][1:15]
    assert int(three, 16) == int(two, 16) + 1024
    three = slot.push({}, seen=int(three, 16) // 1024 + 50)[4][1:15]  # of an undone life
    assert int(three, 16) == int(two, 16) + (51 + 2**20) * 1024
    slot.now -= 3600 * SECOND
    assert int(slot.put(), 16) > int(three, 16)


def test_another_server_passes_over_ids(slot):
    one = slot.put()
    slot.run = "2" * 40
    assert slot.push({}) == [b"CHECK"]
    assert slot.take() == [b"CHECK"]
    assert slot.check()[1] == b"jumped"
    assert slot.check()[1] == b"same"
    assert int(slot.put(), 16) - int(one, 16) > 2**20 * 1024
    slot.redis("FLUSHALL")
    assert slot.push({}) == [b"NOSLOT"]
    assert slot.check()[1] == b"new"
    assert int(slot.put(), 16) - int(one, 16) > 2**30 * 1024 - 1024


def test_two_failovers_in_a_row(slot):
    """Both come back to the same state: the second must not give the ids of the first again."""
    before = slot.redis("DUMP", slot.key("m"))
    ids = []
    for life in range(3):
        slot.redis("RESTORE", slot.key("m"), 0, before, "REPLACE")
        slot.now += 1000
        slot.run = f"{life + 2}" * 40
        slot.check()
        ids += [slot.put() for _ in range(20)]
    assert len(set(ids)) == 60


def test_a_connection_that_outlives_demotion_and_promotion(slot):
    """It was told once whom it speaks to: a push asks again, and other calls ask by `check`."""
    one = slot.put()
    slot.life = "2" * 40
    assert slot.push({}) == [b"CHECK"]
    assert slot.check()[1::3] == [b"jumped", b"2" * 40]
    # Another node is told by its calls; a check of its own changes nothing.
    assert slot.take() == [b"CHECK"]
    assert slot.check()[1::3] == [b"same", b"2" * 40]
    slot.run = slot.life
    assert int(slot.put(), 16) - int(one, 16) > 2**20 * 1024


def test_jumps_never_use_ids_up(slot):
    seqs = []
    for life in range(3):
        slot.redis("HSET", slot.key("m"), "seq", str(2**42 - 2**21 + life))
        slot.run = f"{life + 2}" * 40
        assert slot.check()[1] == b"jumped"
        seqs.append(int(slot.redis("HGET", slot.key("m"), "seq")))
    assert max(seqs) < 2**42


def test_the_life_of_a_real_server():
    """Demoted and promoted again it has another one, as the scripts see it."""
    with redis_server.Server() as s:
        redis = s.client()
        keys = ["tarry:{5}:" + k for k in "mhbka"] + ["tarry:{5}:t:" + k for k in SETS]

        def push(run, op):
            return redis("EVAL", SCRIPTS["push"], len(keys), *keys, UUID, run, NODE, "%014x" % op, 0, 1,
                         "t", "1", "due", 0, SLOT, pushed({}, ("t",)), "x")
        said, first = [], redis("EVAL", SCRIPTS["check"], 1, keys[0], UUID, 0, 2**53 - 1, "0")
        assert first[1] == b"new" and len(first[4]) == 40
        said.append(push(first[4], 1))
        redis("REPLICAOF", "127.0.0.1", "1")
        redis("REPLICAOF", "NO", "ONE")
        assert said[0][0] == b"OK" and push(first[4], 1)[2:] == said[0][2:]  # a repeat needs no new id
        assert push(first[4], 2) == [b"CHECK"]
        then = redis("EVAL", SCRIPTS["check"], 1, keys[0], UUID, 0, 2**53 - 1, "0")
        assert then[1] == b"jumped" and then[4] != first[4]
        assert push(then[4], 3)[0] == b"OK"
        redis.close()


def test_a_slot_of_another_store(slot):
    slot.redis("HSET", slot.key("m"), "uuid", "another")
    for said in (slot.push({}), slot.take(), slot.edit(what("A", "0" * 14, lease=1)), slot.check(),
                 slot.tend(), slot.call("look", "1", "01" + "0" * 14)):
        assert said == [b"OTHER", b"another"]


def test_spread_is_fixed(slot):
    slot.put()
    assert slot.push({}, spread="4") == [b"SPREAD", b"t", b"1"]
    assert slot.take(spread="4")[0] == b"SPREAD"


def test_spread_before_the_first_job(slot):
    def fix(spread):
        return slot.redis("EVAL", SCRIPTS["fix"], 2, slot.key("m"), slot.key("t:c"), UUID, spread)
    slot.conf(3, ttr=5)
    assert fix(4) == [b"OK"] and fix(4) == [b"OK"]
    assert slot.push({}) == [b"SPREAD", b"t", b"4"]
    assert slot.push({}, spread="4", order="id")[0] == b"OK"
    assert slot.redis("HGET", slot.key("t:c"), "order") == b"id"  # with the first job
    assert fix(8) == [b"SPREAD", b"4"]
    slot.redis("HSET", slot.key("m"), "uuid", "another")
    assert fix(4) == [b"OTHER", b"another"]


def test_big_numbers(slot):
    """Lua prints with 14 digits; ids and times may have 16."""
    slot.now = 2**52 + 12345  # the year 2112
    slot.redis("HSET", slot.key("m"), "seq", str(2**42 - 1))
    job = slot.push({"delay": 2**52 - 99999})[4]
    assert job[15:] == b"%014x" % (2**53 - 99999 + 12345)
    assert int(job[1:15], 16) == 2**52 + SLOT
    assert float(slot.redis("ZSCORE", slot.key("t:store"), job[1:15])) == 2**53 - 99999 + 12345
    assert slot.look(job[1:15].decode())["due"] == 2**53 - 99999 + 12345


def test_rate(slot):
    slot.conf(1, rate=2000, burst=2)  # two a second
    slot.push(*[{} for _ in range(9)])
    assert len(slot.got(9)) == 2
    said = slot.take(9, lease=2)
    assert jobs_of(said) == [] and int(said[4], 16) == slot.now + SECOND // 2
    slot.now += SECOND // 2 - 1
    assert slot.got(9, lease=2) == []
    slot.now += 1
    assert len(slot.got(9, lease=3)) == 1
    slot.now += 3600 * SECOND
    assert len(slot.got(9, lease=4)) == 2


def test_in_flight(slot):
    slot.conf(1, in_flight=2)
    slot.push(*[{"ttr": SECOND} for _ in range(5)])
    jobs = slot.got(5)
    assert len(jobs) == 2
    assert slot.got(5, lease=2, wait=slot.now + 9 * SECOND) == []
    said = slot.edit(what("A", jobs[0][0], lease=1))
    assert said[3] == b"01" + NODE.encode()  # there is room: who waits is told
    assert len(slot.got(5, lease=3)) == 1


def test_pause(slot):
    slot.put()
    slot.conf(1, out=T0 + 5 * SECOND)
    said = slot.take()
    assert jobs_of(said) == [] and int(said[4], 16) == T0 + 5 * SECOND
    slot.now += 5 * SECOND
    slot.conf(2, out="", **{"in": T0 + 9 * SECOND})
    assert slot.push({})[4] == b"P"
    assert len(slot.got()) == 1
    slot.now += 4 * SECOND
    assert slot.push({})[4][:1] == b"N"


def test_conf_goes_forward_only(slot):
    assert slot.conf(5, ttr=7 * SECOND)[2] == b"00000005"
    assert slot.conf(4, ttr=9 * SECOND)[2] == b"00000005"
    slot.put()
    assert slot.got()[0][1]["at"] == T0 + 7 * SECOND
    slot.conf(6, ttr="")
    slot.put()
    assert slot.got(lease=2)[0][1]["at"] == T0 + 60 * SECOND


def test_waiting_and_waking(slot):
    assert slot.got(wait=T0 + 30 * SECOND) == []
    slot.node = OTHER
    assert slot.got(wait=T0 + 30 * SECOND) == []
    both = [b"01" + NODE.encode(), b"01" + OTHER.encode()]
    for delay in (20, 10, 9):  # told when to ask, they wait all the same
        far = slot.push({"delay": delay * SECOND})
        assert sorted([far[3][:18], far[3][18:]]) == both
        assert slot.push({"delay": 25 * SECOND})[3] == b""  # later than what they know
    now = slot.push({})
    assert sorted([now[3][:18], now[3][18:]]) == both
    assert slot.push({})[3] == b""  # told that there is something, once
    job = slot.got(2)[0][0]
    slot.got(lease=2, wait=T0 + 30 * SECOND)
    assert slot.edit(what("G", job, lease=1))[3] == b"01" + OTHER.encode()


def test_who_died_is_not_woken(slot):
    """He does not ask anew, and is forgotten when his time is over."""
    slot.got(wait=T0 + 30 * SECOND)
    slot.node = OTHER
    slot.got(wait=T0 + 60 * SECOND)
    slot.now += 30 * SECOND
    slot.node = "c3c3c3c300000003"
    assert slot.push({"delay": 20 * SECOND})[3] == b"01" + OTHER.encode()
    assert slot.redis("ZRANGE", slot.key("t:w"), 0, -1) == [OTHER.encode()]
    slot.node = OTHER
    slot.now += 30 * SECOND
    assert len(slot.got(2, wait=T0 + 90 * SECOND)) == 1  # it was about to be forgotten itself
    assert slot.push({"delay": SECOND})[3] == b"01" + OTHER.encode()
    slot.now += 30 * SECOND
    assert slot.push({})[3] == b""


def test_wake_ups_of_a_dead_node_go_by_themselves(slot):
    key = "tarry:{n%s}:wake" % OTHER
    assert slot.redis("EVAL", SCRIPTS["wake"], 1, key, 120, "5 t 0", "5 u 7") == [b"OK"]
    assert slot.redis("LRANGE", key, 0, -1) == [b"5 t 0", b"5 u 7"]
    assert 100 < slot.redis("TTL", key) <= 120
    for _ in range(30):
        slot.redis("EVAL", SCRIPTS["wake"], 1, key, 120, *[f"5 t {i}" for i in range(64)])
    assert slot.redis("LLEN", key) == 1000


def test_a_lease_end_wakes(slot):
    slot.put(ttr=SECOND, backoff="l0")
    slot.got()
    assert slot.got(lease=2, wait=T0 + 30 * SECOND) == []
    slot.now += SECOND
    assert slot.tend()[3] == b"01" + NODE.encode()


def test_tags(slot):
    slot.push({"tag": "a"}, {"tag": "b"}, {}, {"tag": "b"})
    assert [j[1]["tag"] for j in slot.got(9, tag="b")] == [b"b", b"b"]
    assert len(slot.sets()["ready"]) == 2


def test_kick_of_a_topic(slot):
    jobs = [slot.put(retries=0) for _ in range(3)]
    far = slot.put(delay=SECOND)
    slot.got(3)
    for job in jobs:
        slot.now += 1
        slot.do("R", job, "bk", lease=1)
    said = slot.call("kick", 2, "0", "")
    assert said[4] == b"d" and int(said[5], 16) == 2
    assert slot.sets()["ready"] == jobs[:2] and slot.sets()["dead"] == jobs[2:]
    assert slot.call("kick", 2, "0", "", op=slot.op) == said
    slot.call("kick", 2, "0", "")
    assert int(slot.call("kick", 2, "0", "d")[5], 16) == 0
    assert slot.call("kick", 2, "0", "")[4:] == [b"s", b"%014x" % 1]  # no dead one is left
    assert slot.look(far)["set"] == "r"


def test_entries_without_a_job_are_dropped(slot):
    """Half a script, or a key that moved alone, leaves such things behind."""
    job = slot.put()
    for name in ("store", "ready", "prep", "x", "dead"):
        member = "%014x" % (T0 - 5) + "%014x" % 77 if name == "ready" else "%014x" % 77
        slot.redis("ZADD", slot.key("t:" + name), 5, member)
    slot.redis("ZADD", slot.key("t:prep"), 5, job)  # it is in ready
    assert [j[0] for j in slot.got(9)] == [job]
    slot.tend()
    slot.conf(1, dead_keep=1)
    slot.tend()
    assert slot.sets() == {"store": [], "ready": [], "prep": [job], "dead": []}


def test_two_entries_of_a_job(slot):
    """Half a script added and did not remove."""
    job = slot.put()
    slot.redis("ZADD", slot.key("t:ready"), 1024, "%014x" % (T0 - 9) + job)
    assert [j[0] for j in slot.got(9)] == [job]
    slot.redis("ZADD", slot.key("t:ready"), 1024, "%014x" % T0 + job)
    assert slot.got(9, lease=2) == []
    assert slot.sets() == {"store": [], "ready": [], "prep": [job], "dead": []}
    assert slot.do("A", job, lease=1) == b"Op"


def test_max_jobs(slot):
    slot.conf(1, max_jobs=3)
    said = slot.push({"key": "k"}, {"delay": SECOND}, {}, {}, {"key": "k"})
    assert [s[:1] for s in said[4:]] == [b"N", b"N", b"N", b"F", b"R"]
    slot.got(1)
    assert slot.push({})[4] == b"F"  # handed out, delayed and dead ones count
    slot.do("A", slot.got(1, lease=2)[0][0], lease=2)
    assert slot.push({})[4][:1] == b"N"


def test_counts(slot):
    def counts():
        text = slot.call("counts")[4]
        return [int(text[14 * i:14 * i + 14], 16) for i in range(11)] + [
            int(text[154:162], 16)] + [int(text[162 + 14 * i:176 + 14 * i], 16) for i in range(4)]
    assert counts() == [0] * 16
    far = slot.put(delay=9 * SECOND)
    soon = slot.put(delay=2 * SECOND, prio=7)
    slot.put(prio=2000)
    slot.put(prio=1500, ttl=SECOND)
    assert counts()[:7] == [2, 0, 2, 0, 0, T0 + 2 * SECOND, T0]
    slot.got(1, ttr=SECOND)
    assert counts()[:5] == [1, 0, 2, 1, 0]
    slot.now += 2 * SECOND  # a lease ends and waits for its second try, one becomes due, and nobody looks
    n = counts()
    assert n[:5] == [2, 1, 2, 0, 0] and T0 + 2 * SECOND < n[5] <= T0 + 2 * SECOND + SECOND // 10
    assert n[11:14] == [7, T0 + 2 * SECOND, int(soon, 16)]
    slot.do("B", slot.got(1, lease=2)[0][0], "k", lease=2)
    assert counts()[4] == 1 and counts()[15] == int(soon, 16)
    slot.conf(1, out=T0 + 99 * SECOND)
    slot.call("pause", 5 * SECOND)
    slot.call("pause", 7 * SECOND)
    assert counts()[7:11] == [T0 + 99 * SECOND, slot.now + 7 * SECOND, 7 * SECOND, 2]
    assert far in slot.sets()["store"]


def test_pause_of_the_beanstalk_port(slot):
    job = slot.put()
    assert slot.got(wait=T0 + 60 * SECOND, lease=9)[0][0] == job
    assert slot.do("G", job, lease=9)[:1] == b"O"
    slot.call("pause", 5 * SECOND)
    said = slot.call("pause", 5 * SECOND, op=slot.op)
    assert said[0] == b"OK" and slot.redis("HGET", slot.key("t:c"), "holds") == b"1"
    said = slot.take(wait=T0 + 60 * SECOND)
    assert jobs_of(said) == [] and int(said[4], 16) == T0 + 5 * SECOND
    assert slot.call("pause", 0)[3] == b"01" + NODE.encode()
    assert slot.got()[0][0] == job


def test_a_connection_and_its_jobs(slot):
    job = slot.put(ttr=SECOND, backoff="l5000000")
    slot.got(held=1)
    slot.now += SECOND
    is_ = slot.look(job)  # the lease of a connection: it goes back at once
    assert (is_["set"], is_["due"], is_["timeouts"]) == ("r", T0, 1)
    slot.got(held=1, lease=2)
    assert slot.do("D", job, lease=1)[:1] == b"L"
    is_ = header(slot.do("D", job, lease=2)[1:])
    assert (is_["set"], is_["attempts"], is_["releases"]) == ("r", 2, 0)
    last = slot.put(retries=0, prio=1)
    slot.got(held=1, lease=3)
    assert slot.do("D", last, lease=3)[:1] == b"D"
    [(_, head, _)] = slot.got(lease=4, least=99 * SECOND)
    assert head["at"] == slot.now + 99 * SECOND


def test_reserve_by_id(slot):
    far = slot.put(delay=50 * SECOND)
    is_ = header(slot.do("H", far, "%014x1" % (3 * SECOND), lease=5)[1:])
    assert (is_["set"], is_["at"], is_["attempts"], is_["due"]) == ("p", T0 + 3 * SECOND, 1, T0)
    assert is_["flags"] & 2 and is_["lease"] == LEASE % 5
    assert slot.do("H", far, "%014x0" % 0, lease=6)[:2] == b"Sp"
    slot.do("B", far, "k", lease=5)
    assert header(slot.do("H", far, "%014x0" % 0, lease=6)[1:])["at"] == T0 + 60 * SECOND
    assert slot.do("A", far, lease=6) == b"Op"
    assert slot.do("H", far, "%014x0" % 0, lease=7) == b"N"
    assert slot.empty()


def test_fire_and_kick_wake(slot):
    far = slot.put(delay=50 * SECOND)
    slot.got(wait=T0 + 60 * SECOND)
    assert slot.edit(what("F", far))[3] == b"01" + NODE.encode()
    slot.do("C", far, "0")
    slot.put(delay=50 * SECOND)
    slot.got(wait=T0 + 60 * SECOND)
    assert slot.call("kick", 1, "0", "")[3] == b"01" + NODE.encode()


def test_short_hashes_are_tables(slot):
    """A hash as one string would be searched from its front for each job."""
    slot.put()
    assert slot.redis("OBJECT", "ENCODING", slot.key("h")) == b"hashtable"
    assert slot.redis("OBJECT", "ENCODING", slot.key("b")) == b"hashtable"
    slot.redis("FLUSHALL")
    slot.check(fresh="1")
    slot.put(key="k")
    assert slot.redis("OBJECT", "ENCODING", slot.key("h")) == b"hashtable"
    slot.sets()


def test_two_topics_of_a_slot(slot):
    said = slot.push({"topic": 1}, {"topic": 2, "key": "k"}, {"topic": 1, "key": "k"}, topics=("t", "u"))
    ids = [s[1:15].decode() for s in said[4:]]
    assert len(set(ids)) == 3
    assert slot.redis("ZCARD", slot.key("t:ready")) == 2
    assert [j[0] for j in slot.got(9, topics=("u",))] == ids[1:2]
    said = slot.edit(what("A", ids[1], lease=1), what("C", ids[0], "0", topic=2), topics=("u", "t"))
    assert said[4:] == [b"Op", b"Or"]


def test_a_million_hands(server, slot):
    """Real time, by SHA-1, from several connections: each job is handed out once."""
    slot.redis("FLUSHALL")
    shas = {n: slot.redis("SCRIPT", "LOAD", t).decode() for n, t in SCRIPTS.items()}
    assert shas == {n: hashlib.sha1(t.encode()).hexdigest() for n, t in SCRIPTS.items()}
    run = slot.redis("EVALSHA", shas["check"], 1, slot.key("m"), UUID, 0, 2**53 - 1, "1")[4]
    keys = [slot.key(k) for k in "mhbka"] + [slot.key("t:" + s) for s in SETS]
    handed, lock = [], threading.Lock()

    def call(client, node, op, name, *args):
        seconds, us = map(int, client("TIME"))
        return client("EVALSHA", shas[name], len(keys), *keys, UUID, run, node, "%014x" % op,
                      seconds * SECOND + us, 1, "t", "1", "due", *args)

    job = pushed({}, ("t",))
    jobs = [job, "body"] * 100
    made = [said[1:15].decode() for n in range(5)
            for said in each_pushed(call(slot.redis, NODE, n + 1, "push", 0, SLOT, *jobs), jobs)[4:]]

    def work(number):
        client, op = server.client(), 0
        node = "c%07x%08x" % (number, number)
        while True:
            op += 2
            lease = node[:8] + "%08x" % op
            got = jobs_of(call(client, node, op, "take", 7, bytes.fromhex(lease), 0, "", 0, 0, 0,
                               1 << 19, "0" * 14))
            if not got:
                break
            with lock:
                handed.extend(j[0] for j in got)
            said = call(client, node, op + 1, "edit",
                        *[b"A\1" + j[0].encode() + bytes.fromhex(lease) for j in got])
            assert said[4:] == [b"Op"]
        client.close()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(handed) == sorted(made) and len(made) == 500
    assert slot.empty()


def test_ownership(slot):
    def own(node, epoch):
        return slot.redis("EVAL", SCRIPTS["own"], 1, slot.key("m"), UUID, node, epoch)
    assert own(NODE, 0) == [b"OK", b"1"]
    assert own(NODE, 0) == [b"OK", b"1"]
    assert own(OTHER, 0) == [b"STALE", b"1", NODE.encode()]
    assert own(OTHER, 1) == [b"OK", b"2"]
    assert own(NODE, 1) == [b"STALE", b"2", OTHER.encode()]
    assert slot.check()[2:4] == [b"2", OTHER.encode()]


def test_only_the_owner_tends(slot):
    slot.put(ttl=SECOND)
    slot.now += 2 * SECOND
    assert slot.call("tend", 64, 0, 1)[:3] == [b"OUSTED", b"0", b""]
    own = [1, slot.key("m"), UUID]
    assert slot.redis("EVAL", SCRIPTS["own"], *own, NODE, 0) == [b"OK", b"1"]
    assert slot.redis("EVAL", SCRIPTS["own"], *own, OTHER, 1) == [b"OK", b"2"]
    for epoch in (1, 2):  # late, and with the epoch of another one
        assert slot.call("tend", 64, 0, epoch) == [b"OUSTED", b"2", OTHER.encode()]
    assert slot.redis("EVAL", SCRIPTS["own"], *own, NODE, 2) == [b"OK", b"3"]
    assert slot.call("tend", 64, 0, 3)[7] == b"1"  # one expired


def test_members_and_layout(slot):
    def beat(node, lease=10 * SECOND, slots="256", uuid="", version="1"):
        keys = ["tarry:{meta}:" + k for k in ("layout", "nodes", "where")]
        return slot.eval("beat", keys, node, "addr-" + node[0], lease, version, slots, "tarry:", uuid)
    assert beat(NODE) == [b"NONE"]
    said = beat(NODE, uuid=UUID)
    assert said[3:] == [b"1", b"256", b"tarry:", UUID.encode(), NODE.encode(), b"addr-a"]
    assert beat(OTHER, slots="512") == [b"DIFFERS", b"1", b"256", b"tarry:", UUID.encode()]
    assert beat(OTHER, uuid="v")[6] == UUID.encode()
    assert beat(NODE)[7::2] == [OTHER.encode(), NODE.encode()]
    slot.now += 10 * SECOND
    assert beat(OTHER)[7::2] == [OTHER.encode()]
    assert beat(NODE)[7::2] == [OTHER.encode(), NODE.encode()]
    assert beat(NODE, lease=0)[7::2] == [OTHER.encode()]
    assert beat(OTHER)[7::2] == [OTHER.encode()]


def test_a_take_has_room_for_so_many_bytes(slot):
    ids = [slot.put(body="x" * 100) for _ in range(20)]
    said = slot.take(20, room=1250, wait=T0 + 60 * SECOND)
    assert [j[0] for j in jobs_of(said)] == ids[:12]
    assert (int(said[4], 16), said[5]) == (T0, b"1")  # the rest at once
    assert slot.redis("ZCARD", slot.key("t:w")) == 0  # so nobody is to be told
    assert [j[0] for j in slot.got(5, lease=2, room=50)] == ids[12:13]  # one always
    assert slot.sets() == {"store": [], "ready": ids[13:], "prep": ids[:13], "dead": []}
    said = slot.take(7, lease=3, room=700)
    assert len(jobs_of(said)) == 7 and said[5] == b"0"


def test_a_take_by_tag_has_room_for_so_many_bytes(slot):
    ids = [slot.put(body="x" * 100, tag="red") for _ in range(20)]
    said = slot.take(20, tag="red", room=1250, wait=T0 + 60 * SECOND)
    assert [j[0] for j in jobs_of(said)] == ids[:12]
    assert (int(said[4], 16), said[5]) == (T0, b"1")
    assert slot.redis("ZCARD", slot.key("t:w")) == 0
    assert slot.sets() == {"store": [], "ready": ids[12:], "prep": ids[:12], "dead": []}
    assert [j[0] for j in slot.got(20, lease=2, tag="red")] == ids[12:]


def test_what_nobody_heard_of_goes_back(slot):
    first, second, third = (slot.put() for _ in range(3))
    assert [j[0] for j in slot.got(lease=1)] == [first]
    heard = slot.op
    lost = slot.take(2, lease=2)
    assert [j[0] for j in jobs_of(lost)] == [second, third]
    assert slot.do("A", third, lease=2) == b"Op"
    lost_op, slot.op = slot.op, slot.op + 1
    assert slot.take(0, lease=3, heard=heard, op=slot.op)[0] == b"OK"
    assert slot.sets() == {"store": [], "ready": [second], "prep": [first], "dead": []}
    assert slot.look(second)["attempts"] == 0
    assert slot.take(2, lease=2, op=lost_op) == [b"STALE"]
    assert slot.take(0, lease=3, heard=heard, op=slot.op)[0] == b"OK"
    assert [j[0] for j in slot.got(2, lease=4)] == [second]
    assert slot.take(0, lease=5, heard=slot.op)[0] == b"OK"  # that one was heard
    assert slot.sets()["prep"] == [first, second]


def test_what_goes_back_wakes_and_may_be_another_ones(slot):
    job = slot.put(ttr=SECOND, delay=0)
    slot.take(lease=1)
    slot.node = OTHER
    slot.take(lease=2, wait=T0 + 60 * SECOND)
    slot.node = NODE
    said = slot.take(0, lease=3, heard=0)
    assert said[3] == b"01" + OTHER.encode()
    assert [j[0] for j in slot.got(lease=4)] == [job]
    heard = slot.op - 1
    slot.now += SECOND
    slot.node, slot.op = OTHER, 50
    assert jobs_of(slot.take(lease=5)) == []  # its backoff
    slot.now += 2 * SECOND
    assert [j[0] for j in slot.got(lease=6)] == [job]
    slot.node, slot.op = NODE, 20
    assert slot.take(0, lease=7, heard=heard)[0] == b"OK"
    assert slot.look(job)["lease"] == LEASE % 6


HOUR = 3600 * SECOND


def test_a_topic_that_nobody_needs_is_forgotten(slot):
    job = slot.put()
    assert slot.redis("ZSCORE", slot.key("a"), "t") == b"%d" % (T0 + 24 * HOUR)
    slot.got()
    assert slot.do("A", job, lease=1) == b"Op"
    said = slot.tend(forget=HOUR)
    assert (int(said[4], 16), said[9]) == (T0 + HOUR, b"0")
    slot.now += HOUR - 1
    said = slot.tend(forget=HOUR)
    assert (int(said[4], 16), said[9]) == (T0 + HOUR, b"0")
    slot.now += 1
    said = slot.tend(forget=HOUR)
    assert (int(said[4], 16), said[9]) == (slot.now + 60 * SECOND, b"1")
    for _ in range(2):
        assert slot.call("forget")[4] == b"1"
        assert [k.decode().split(":", 2)[2] for k in slot.redis("KEYS", "*")] == ["m"]
    assert slot.push({})[2] == b"ffffffff"  # it was not there: it is to be listed again
    assert slot.push({})[2] == b"00000000"
    assert slot.push({"key": "k"}, topics=("u",), op=slot.op + 1)[2] == b"ffffffff"


def test_a_topic_that_is_needed_is_not_forgotten(slot):
    def looked(topic="t", **more):
        said = slot.tend(forget=HOUR, **more)
        assert slot.call("forget", **more)[4] == said[9]
        return said[9], int(said[4], 16) - slot.now

    slot.put(delay=1000 * HOUR)
    assert looked() == (b"0", 24 * HOUR)
    slot.now += 24 * HOUR
    assert looked() == (b"0", 24 * HOUR)
    for state in ("dead", "ready", "prep"):
        slot = Slot(slot.redis, slot.scripts)
        slot.conf(0)  # nothing
        job = slot.put(ttr=900 * HOUR)
        if state != "ready":
            slot.got()
        if state == "dead":
            assert slot.do("B", job, "k", lease=1)[:1] == b"O"
        assert looked()[0] == b"0"
        slot.now += 26 * HOUR
        assert looked()[0] == b"0"
    slot = Slot(slot.redis, slot.scripts)  # somebody waits
    assert slot.do("C", slot.put(), "1") == b"Or"
    slot.got(lease=2, wait=T0 + 30 * HOUR)
    slot.tend(forget=HOUR)
    slot.now += 26 * HOUR
    assert looked()[0] == b"0"
    slot.now += 5 * HOUR
    assert slot.tend(forget=HOUR)[9] == b"0"
    slot.now += HOUR
    assert looked()[0] == b"1"
    slot.put()
    slot.conf(7, ttr=SECOND)  # it has settings
    assert slot.do("C", slot.got()[0][0], "1") == b"Op"
    slot.tend(forget=HOUR)
    slot.now += HOUR
    assert slot.tend(forget=HOUR)[9] == b"0" and slot.call("forget")[4] == b"0"


def test_the_entry_of_a_topic_that_is_forgotten(slot):
    def topic(*args):
        return slot.eval("topic", ["list", "outlets"], "t", *args)

    def is_there():
        return slot.redis("HGET", "list", "t")

    assert topic("-") == [b"OK", b"00000000-"]
    assert topic("f", NODE)[0] == b"OK" and is_there() == b"00000000f" + NODE.encode()
    assert topic("-") == [b"OK", b"00000000-"]  # a push came in between
    assert topic("x", NODE)[0] == b"OK" and is_there() == b"00000000-"
    assert topic("f", NODE)[0] == b"OK"
    assert topic("f", OTHER)[0] == b"OK"
    assert topic("x", NODE)[0] == b"OK" and is_there() is not None  # the other one's
    assert topic("x", OTHER)[0] == b"OK" and is_there() is None
    assert topic("f", NODE)[0] == b"OK" and is_there() is None
    topic("k")
    assert topic("f", NODE)[0] == b"NO" and is_there() == b"00000000k"
    slot.redis("HSET", "list", "t", "00000000f" + NODE)
    assert topic("k", "0", "settings", "0")[0] == b"OK"
    assert topic("f", NODE)[0] == b"NO"
def test_only_what_adds_memory_is_refused_when_it_is_full():
    refused = {name for name, text in SCRIPTS.items() if text.startswith("#!lua\n")}
    assert refused == {"push", "topic", "schedule"}
    assert all(text.startswith(("#!lua\n", "#!lua flags=allow-oom\n")) for text in SCRIPTS.values())


def test_scripts_keep_to_the_rules():
    """Every key comes from KEYS; no command that Redis Cluster or a long script would suffer from."""
    for path in LUA:
        text = path.read_text()
        assert not re.search(r"'[^'\n]*--[^'\n]*'", text), "make-lua would take that for a comment"
        for command, rest in re.findall(r"call\('(\w+)',? ?([^\n]*)", text):
            assert command in {"TIME", "HGET", "HMGET", "HSET", "HDEL", "ZADD", "ZREM", "ZRANGE", "ZCARD",
                               "ZCOUNT", "DEL", "HKEYS", "HSCAN", "INFO", "RPUSH", "LTRIM", "EXPIRE"}, command
            first = re.split(r"[,)]", rest)[0]
            names = r"[A-Z]+|KEYS\[\d+\]|t\.\w+|key|conf|store|ready|prep|from"
            assert command in ("TIME", "INFO") or re.fullmatch(names, first), (path.name, rest)


def test_bytes_of_a_topic(slot):
    """Bodies are counted, whatever happens to a job, and no more are taken than the limit says."""
    slot.conf(1, max_bytes=10)
    said = slot.push({"body": "four"}, {"body": "three", "key": "k"}, {"body": "xx"}, {"body": "y"})
    assert [s[:1] for s in said[4:]] == [b"N", b"N", b"F", b"N"]
    first, keyed = said[4][1:15].decode(), said[5][1:15].decode()
    assert slot.redis("HGET", slot.key("t:c"), "bytes") == b"10"
    assert slot.push({"body": "longer", "key": "k"})[4] == b"F"
    assert slot.push({"body": "thr", "key": "k"}, {"body": "threes", "key": "k"})[4:5][0][:1] == b"R"
    slot.sets()
    assert slot.push({"body": "th", "key": "k"})[4][:1] == b"R"
    slot.sets()
    edit = "08d" + "0" * 28 + "0" * 8 + "0" * 28
    assert slot.edit(what("E", first, edit), "", "seven77")[4][:1] == b"O"
    assert slot.edit(what("E", first, edit), "", "eight888")[4] == b"F"
    assert slot.redis("HGET", slot.key("t:c"), "bytes") == b"10"
    taken = slot.got(3)
    assert slot.do("A", taken[0][0], lease=1) == b"Op"
    slot.sets()
    slot.do("C", keyed, "1")
    slot.sets()
    for job, _, _ in slot.got(9, lease=2) + taken[1:]:
        slot.do("C", job, "1")
    slot.sets()
    assert slot.redis("HGET", slot.key("t:c"), "bytes") == b"0"


def test_bytes_of_the_quick_ways(slot):
    said = slot.push(*[{"body": "x" * n} for n in range(20)])
    assert len(said) == 24
    slot.sets()
    taken = slot.got(20)
    acks = [what("A", job, lease=1) for job, _, _ in taken[:15]]
    assert slot.edit(*acks)[4:] == [b"Op"] * 15
    slot.sets()
    slot.conf(1, max_bytes=1000)
    slot.put(body="more")
    slot.sets()


def test_rows_of_jobs_that_are_alike(slot):
    """One what, several bodies: the quick way, the other one, and a repeat of both."""
    rows = [({"count": 3, "delay": SECOND, "age": 7}, ["a1", "a2", "a3"]), ({"prio": 3}, ["b"]),
            ({"count": 20}, ["c%03d" % i for i in range(20)])]
    for limits in ({}, {"max_jobs": 1000}):
        args = [arg for job, bodies in rows for arg in (pushed(job, ("t",)), *bodies)]
        said = slot.call("push", 0, SLOT, *args)
        assert len(said) == (5 if not limits else 28)
        said = each_pushed(said, args)
        ids = [item[1:15].decode() for item in said[4:]]
        assert [int(item[15:], 16) for item in said[4:]] == 3 * [slot.now + SECOND - 7] + 21 * [slot.now]
        assert ids == ["%014x" % (int(ids[0], 16) + 1024 * i) for i in range(24)]
        assert each_pushed(slot.call("push", 0, SLOT, *args, op=slot.op), args) == said
        sets = slot.sets()
        assert sets["store"] == ids[:3] and sets["ready"] == ids[3:]
        taken = slot.got(24)
        slot.now += SECOND
        taken += slot.got(24)
        assert [job for job, _, _ in taken] == ids[3:] + ids[:3]
        bodies = {job: body for job, _, body in taken}
        heads = [header(slot.redis("HGET", slot.key("h"), job)) for job in ids]
        due = 3 * [slot.now - 7] + 21 * [slot.now - SECOND]
        assert [(h["prio"], h["due"]) for h in heads] == [*zip(3 * [1024] + [3] + 20 * [1024], due)]
        assert [bodies[job] for job in ids] == [body.encode() for _, row in rows for body in row]
        assert [header(slot.redis("HGET", slot.key("h"), job))["size"] for job in ids] == 3 * [2] + [1] + 20 * [4]
        assert slot.edit(*[what("A", job, lease=1) for job in ids])[4:] == [b"Op"] * 24
        assert slot.redis("HGET", slot.key("t:c"), "bytes") == b"0"
        slot.sets()
        slot.conf(1, max_jobs=1000)


MUTATIONS = {
    "quick: the next job is like this one": ("take", [("if h ~= was then", "if not was then")],
                                             test_rows_of_jobs_that_are_alike),
    "quick: the next header is like this one": ("edit", [("if h ~= was or leases[i] ~= lease then", "if not was then")],
                                                test_bytes_of_the_quick_ways),
    "a row is one job": ("push", [("for i = at + 1, at + count do", "for i = at + 1, at + 1 do")],
                         test_rows_of_jobs_that_are_alike),
    "bytes: an ack does not count": ("edit", [("bytes = bytes - size", "")],
                                     test_bytes_of_the_quick_ways),
    "bytes: a push does not count": ("push", [("bytes + size * count", "bytes")], test_bytes_of_the_quick_ways),
    "bytes: a replaced body stays": ("push", [("j.was_size = old.was_size or (old.was_set and old.size) or nil", "")],
                                     test_bytes_of_a_topic),
    "bytes: an edited body stays": ("edit", [("j.was_size or j.size, #body", "nil, #body")], test_bytes_of_a_topic),
    "bytes: no limit": ("push", [("t.max_bytes and more > less", "false")], test_bytes_of_a_topic),  # script; what it says, and what it says then; the test that is to notice
    "due is not looked at": ("take", [("call('ZRANGE', store, '-inf', till, 'BYSCORE', 'LIMIT', '0', want + 1)",
                                       "call('ZRANGE', store, 0, -1)"), ("tonumber(first[2]) <= now", "true"),
                                      ("and is_due <= now", "")],
                             test_never_early),
    "op is not kept": ("push", [("if kept then", "if false then")],
                       test_a_repeat_is_answered_as_before),
    "any lease will do": ("edit", [("or j.lease~=leases[i]", "")], test_a_lease_that_ran_out),
    "numbers by %.14g": ("push", [("score = fmt('%d', score)", "score = ''..score")], test_big_numbers),
    "no jump": ("check", [("and 1048576", "and 0"), ("+1024*(wall%1048576)", "")],
                test_another_server_passes_over_ids),
    "equal jumps": ("check", [("+1024*(wall%1048576)", "")], test_two_failovers_in_a_row),
    "tmax by any clock": ("push", [("agrees and now > tmax", "now > tmax")],
                          test_a_clock_far_ahead_that_is_put_right),
    "ids by any clock": ("push", [("agrees and floor(now", "floor(now")],
                         test_a_clock_far_ahead_that_is_put_right),
    "a wrong tmax stays": ("take", [("if agrees and tmax > now", "if false and tmax > now")],
                           test_a_latest_time_that_was_wrong),
    "the dead wait": ("push", [("tonumber(all[at + 1]) > now", "true")], test_who_died_is_not_woken),
    "settings fix the spread": ("conf", [("{'pv'", "{'spread',t.spread,'order',t.order,'pv'")],
                                test_spread_before_the_first_job),
    "undone ids are the next ones": ("push", [("seen + 1048576", "seen + 1")], test_ids),
    "the node's word": ("push", [("slot_is[2] ~= life()", "false")],
                        test_a_connection_that_outlives_demotion_and_promotion),
    "jumps without end": ("check", [("seq + jump > 4398046511104", "false")], test_jumps_never_use_ids_up),
    "ready is due": ("take", [("elseif j.set=='r'and j.due>now then j.set='s'", "")],
                     test_a_clock_that_goes_back_a_little),
    "what goes back to store is not told": ("take", [("sooner(j.due)", "")],
                                            test_who_waits_hears_of_what_is_not_due_any_more),
    "the caller's clock is not looked at": ("push", [("base = max(base, tonumber(ARGV[5]))", "")],
                                            test_a_clock_far_behind_makes_nothing_early),
    "a touch by a clock that is behind": ("edit", [("j.ver+1,base+max(ttr", "j.ver + 1, now + max(ttr")],
                                          test_a_clock_far_behind_makes_nothing_early),
    "tmax as now": ("take", [("base=max(now,tmax)", "now=max(now,tmax)")],
                    test_a_clock_that_steps_back_hands_out_nothing),
    "late calls are done": ("push", [("and sub(kept, 1, 14) > OP", "and false")],
                            test_what_comes_late_is_not_done),
    "quick: any lease will do": ("edit", [("and sub(h, 29, 36) == lease", "")],
                                 test_acks_of_plain_jobs),
    "quick: a lease has no end": ("edit", [("and ends > now", "")], test_acks_of_plain_jobs),
    "quick: an ack leaves its key": ("edit", [("flags % 64 < 32 and", "")], test_cancel),
    "quick: an ack twice in a call": ("edit", [("or seen[id]", "")], test_cancel_and_ack_in_one_call),
    "quick: whatever the header says": ("take", [("h and sub(h, 1, 1) == set", "h")],
                                        test_two_entries_of_a_job),
    "quick: whatever the entry says": ("take", [("sub(members[i], 1, 14) == text", "true")],
                                       test_two_entries_of_a_job),
    "quick: any order": ("take", [("and prio >= last", "")], test_order_of_what_is_due),
    "quick: the rest is forgotten": ("take", [("#members == 0 and #due <= want", "#members == 0")],
                                     test_order_of_what_is_due),
    "quick: ttl is not looked at": ("take", [("flags < 64 and", "")], test_ttl_met_by_a_take),
    "quick: limits are not looked at": ("take", [("and not (c[5] or c[6] or c[7] or c[8])", "")], test_rate),
    "quick: op is not kept": ("push", [("OP .. put('>I2I2', 8, 0) .. vers .. 'n' .. put('>I7I7', base, from)", "''")],
                              test_a_repeat_is_answered_as_before),
    "quick: keys are not looked at": ("push", [("if key_len > 0 or flags", "if key_len > 0 then count = 1 end if flags")], test_keys),
    "quick: nobody is woken": ("push", [("and #call('ZRANGE', KEYS[11], '0', '0') == 0", "")],
                               test_waiting_and_waking),
    "no limit of jobs": ("push", [("return t.count > t.max_jobs", "return false")], test_max_jobs),
    "quick: any number of bytes": ("take", [("if bytes > room and i > 1 then", "if false then")],
                                   test_a_take_has_room_for_so_many_bytes),
    "any number of bytes": ("take", [("if bytes > room and k + i > 1 then", "if false then")],
                            test_a_take_by_tag_has_room_for_so_many_bytes),
    "what was heard goes back": ("take", [("sub(last, 1, 14) > ARGV[REST + 8]", "true")],
                                 test_what_nobody_heard_of_goes_back),
    "another one's goes back": ("take", [("and j.lease == sub(rest, 1, 8)", "")],
                                test_what_goes_back_wakes_and_may_be_another_ones),
    "a topic with jobs is forgotten": ("forget", [("call('ZCARD', t.store) + call('ZCARD', t.ready) +"
                                                   " call('ZCARD', t.prep) + call('ZCARD', t.dead) == 0", "true")],
                                       test_a_topic_that_is_needed_is_not_forgotten),
    "one that is waited for is forgotten": ("forget", [("#call('ZRANGE', t.wait", "0*#call('ZRANGE', t.wait")],
                                            test_a_topic_that_is_needed_is_not_forgotten),
    "a mark is left": ("topic", [("if is and string.sub(is, 9, 9) == 'f' then", "if false then")],
                       test_the_entry_of_a_topic_that_is_forgotten),
    "strays stay": ("take", [("push_to(t.stray,key,member)", "")],
                    test_entries_without_a_job_are_dropped),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_mutations_are_noticed(slot, name):
    script, changes, test = MUTATIONS[name]
    text = SCRIPTS[script]
    for old, new in changes:
        pattern = r"\s*".join(map(re.escape, old.replace(" ", "")))
        text, count = re.subn(pattern, lambda _, new=new: new, text, count=1)
        assert count == 1, "the script says that no more"
    test(Slot(slot.redis))
    with pytest.raises(AssertionError):
        test(Slot(slot.redis, dict(SCRIPTS, **{script: text})))
