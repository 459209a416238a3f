"""A slot of Redis as tests of the scripts see it: what is sent, what is answered, what stands in it.

Time is pasted into the text of the scripts, so that nothing waits and "a microsecond too early" can
be tried.
"""
import importlib.machinery
import importlib.util
import pathlib
import re

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
OWNER = b"0" * 18  # of the slot, in a list of those who are to be told
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
    flags = j.get("flags", 0) | 8 * own | 32 * bool(texts) | 64 * (ttl > 0)
    topic = names[j.get("topic", 1) - 1].encode()
    end = number(ttr, 7) + number(ttl, 7) + number(retries, 4) if own else b""
    end += bytes([len(topic)]) + topic
    if texts:
        end += bytes([len(tag), len(key)]) + number(len(backoff), 2) + tag
    key_at = 26 + len(end)
    kind, time = (b"a", j["at"]) if "at" in j else (b"D" if "times" in j else b"d", j.get("delay", 0))
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
        kind, count = args[at][2:3], 1 if args[at][24] else int.from_bytes(args[at][22:24], "big")
        step = 2 if kind == b"D" else 1  # times in front of each body
        for i in range(count):
            times = args[at + 1 + 2 * i] if step == 2 else args[at][3:17]
            time, age = int.from_bytes(times[:7], "big"), int.from_bytes(times[7:], "big")
            due = max(time, base) if kind == b"a" else base - age + time
            items.append(b"N%014x%014x" % (job, due))
            job += 1024
        at += 1 + step * count
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

def notices(slot, script, changes, test):
    """A test that is good with the scripts as they are, and is not when one of them has other words."""
    text = SCRIPTS[script]
    for old, new in changes:
        pattern = r"\s*".join(map(re.escape, old.replace(" ", "")))
        text, count = re.subn(pattern, lambda _, new=new: new, text, count=1)
        assert count == 1, "the script says that no more"
    test(type(slot)(slot.redis))
    with pytest.raises(AssertionError):
        test(type(slot)(slot.redis, dict(SCRIPTS, **{script: text})))


@pytest.fixture(scope="module")
def server():
    with redis_server.Server() as s:
        yield s


@pytest.fixture
def slot(server):
    client = server.client()
    yield Slot(client)
    client.close()
