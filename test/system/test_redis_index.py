"""Scripts for a store whose truth is in a database (claim, index, raise, scan, own), against a real
redis-server. Redis is an index of rows there; all times are given. See redis_slot.py."""
import random

import pytest

from redis_server import Error
from redis_slot import (NODE, OTHER, OWNER, SECOND, SLOT, T0, UUID, Slot, header, notices, number,
                        server)  # noqa: F401  pylint: disable=unused-import

CLAIM_US = 3 * SECOND
WINDOW = 600 * SECOND
HOT = 50_000
ANY = 2**32 - 1
LEASE = bytes.fromhex("a1a1a1a100000001")


def jid(n):
    return "%014x" % (n * 1024 + SLOT)


def image(how, n, ver=1, due=T0, prio=1024, attempts=0, at=0, lease=LEASE, ttl=0, tag="", topic=1,
          name="t", now=None, size=0):
    """A row as an image: reserved if it has an `at`."""
    now = T0 if now is None else now
    set_ = b"p" if at else b"s" if due > now else b"r"
    flags = (8 | 64 if ttl else 0) | (32 if tag else 0)
    text = set_ + bytes([flags]) + number(ver, 4) + number(prio, 4) + number(due, 7) + number(attempts, 4)
    text += number(at, 7) + lease if at else b""
    text += number(T0, 7) + number(0, 7) + number(size, 3)
    text += number(0, 7) + number(ttl, 7) + number(2**32 - 1, 4) if ttl else b""
    text += bytes([len(name)]) + name.encode()
    text += bytes([len(tag), 0, 0, 0]) + tag.encode() if tag else b""
    return how.encode() + bytes([topic]) + jid(n).encode() + text


def gone(n, ver=ANY, topic=1):
    return b"G" + bytes([topic]) + jid(n).encode() + number(ver, 4)


class Index(Slot):
    """A slot that is an index."""

    def __init__(self, redis, scripts=None):
        super().__init__(redis, scripts)
        self.raise_(T0 + WINDOW, "")

    def text(self, name):
        text = self.scripts[name]
        if name not in ("claim", "index", "raise", "scan", "shed", "own"):
            return super().text(name)
        assert "TIME" not in text, "the time is the database's"
        return text

    def index(self, *images, hot=HOT, **more):
        said = self.call("index", self.now, hot, *images, **more)
        assert said[0] == b"OK" and int(said[1], 16) == self.now, said
        return said

    def put_in(self, *images, **more):
        """The letters."""
        return self.index(*images, **more)[5].decode()

    def claim(self, count=1, tag="", wait=0, most=16, version=0, room=2**20, **more):
        said = self.call("claim", self.now, count, tag, wait, most, version, room, **more)
        assert said[0] == b"OK" and int(said[1], 16) == self.now, said
        return said

    def claims(self, *args, **more):
        """[(letter, number)]"""
        text = self.claim(*args, **more)[9].decode()
        return [(text[i], int(text[i + 1:i + 15], 16) // 1024) for i in range(0, len(text), 15)]

    def raise_(self, upto, epoch, **more):
        return self.call("raise", self.now, upto, epoch, **more)

    def loaded(self, topic="t"):
        return int(self.redis("HGET", self.key(topic + ":c"), "loaded") or -1)

    def own(self, node, epoch, given):
        return self.eval("own", [self.key("m")], UUID, node, epoch, given)

    def scan(self, count=100):
        """{number: header}, and how many pages that took."""
        cursor, out, pages = b"0", {}, 0
        while cursor != b"0" or pages == 0:
            said = self.call("scan", self.now, cursor, count, topics=())
            assert said[0] == b"OK", said
            cursor, pages = said[4], pages + 1
            for i in range(5, len(said), 2):
                out[int(said[i], 16) // 1024] = header(said[i + 1])
        return out, pages

    def entries(self, topic="t"):
        """{number: (set, ver, due or end)}: headers and sets agree."""
        out = {}
        for id_, h in zip(*[iter(self.redis("HGETALL", self.key("h")))] * 2):
            h = header(h)
            if h["topic"].decode() == topic:
                out[int(id_, 16) // 1024] = (h["set"], h["ver"], h["at"] if h["set"] == "p" else h["due"])
        for name in ("store", "ready", "prep"):
            members = self.redis("ZRANGE", self.key(f"{topic}:{name}"), 0, -1, "WITHSCORES")
            there = {int(m[-14:], 16) // 1024: int(s) for m, s in zip(*[iter(members)] * 2)}
            assert sorted(there) == sorted(n for n, e in out.items() if e[0] == name[0]), (name, there, out)
            if name != "ready":
                assert all(out[n][2] == score for n, score in there.items())
        return out


@pytest.fixture
def slot(server):  # noqa: F811
    client = server.client()
    yield Index(client)
    client.close()


def test_a_row_from_commit_to_its_end(slot):
    assert slot.put_in(image("I", 1, due=T0 + 30 * SECOND)) == "O"
    assert slot.entries() == {1: ("s", 1, T0 + 30 * SECOND)}
    assert slot.claims() == []
    slot.now += 30 * SECOND
    assert slot.claims() == [("C", 1)]
    assert slot.entries() == {1: ("p", 1, slot.now + CLAIM_US)}, "a claim changes no version"
    assert slot.claims() == []
    end = slot.now + 60 * SECOND
    assert slot.put_in(image("I", 1, ver=2, due=T0 + 30 * SECOND, at=end, attempts=1)) == "O"
    assert slot.entries() == {1: ("p", 2, end)}
    assert slot.put_in(gone(1, 2)) == "G"
    assert slot.entries() == {}
    assert slot.empty()


def test_never_early_by_the_time_that_is_given(slot):
    slot.put_in(image("I", 1, due=T0 + SECOND))
    slot.now += SECOND - 1
    said = slot.claim()
    assert said[9] == b"" and int(said[4], 16) == T0 + SECOND and said[5] == b"0"
    slot.now += 1
    assert slot.claims() == [("C", 1)]


def test_a_claim_ends(slot):
    slot.put_in(image("I", 1))
    assert slot.claims() == [("C", 1)]
    said = slot.claim()
    assert said[9] == b"" and int(said[4], 16) == slot.now + CLAIM_US, "who waits knows when"
    slot.now += CLAIM_US - 1
    assert slot.claims() == []
    slot.now += 1
    assert slot.claims() == [("C", 1)]
    assert slot.entries() == {1: ("p", 1, slot.now + CLAIM_US)}


def test_a_claim_in_vain(slot):
    """What the row said: not due, reserved by another, dead, gone."""
    slot.put_in(*[image("I", n) for n in (1, 2, 3, 4)])
    assert len(slot.claims(4)) == 4
    later = slot.now + 9 * SECOND
    said = slot.put_in(image("I", 1, ver=3, due=later), image("I", 2, ver=2, at=later), gone(3, 2), gone(4))
    assert said == "OOGG"
    assert slot.entries() == {1: ("s", 3, later), 2: ("p", 2, later)}


def test_a_claim_put_back(slot):
    """The row is as old as the entry, but not due: the node's clock was ahead."""
    slot.put_in(image("I", 1, ver=3))
    slot.claims()
    assert slot.put_in(image("I", 1, ver=3, now=T0 - 1)) == "O"
    assert slot.entries() == {1: ("s", 3, T0)}


def test_an_estimate_that_is_behind(slot):
    """What one node took for due, another one does not yet: it knows when to ask again (seed 49)."""
    slot.put_in(image("I", 1, due=T0 + 9, now=T0 + 9))
    said = slot.claim()
    assert said[9] == b"" and said[4] == b"%014x" % (T0 + 9)
    assert slot.entries() == {1: ("s", 1, T0 + 9)}


def test_a_repeat_claims_the_same(slot):
    slot.put_in(*[image("I", n) for n in range(1, 6)])
    first = slot.claims(2, op=100)
    assert first == [("C", 1), ("C", 2)]
    assert slot.claims(2, op=100) == first
    slot.put_in(image("I", 2, ver=2, at=slot.now + SECOND))
    assert slot.claims(2, op=100) == first[:1], "one of them has its image since"
    assert slot.claims(2, op=101) == [("C", 3), ("C", 4)]
    assert slot.call("claim", slot.now, 1, "", 0, 16, 0, op=100) == [b"STALE"]


def test_only_what_is_due_before_loaded(slot):
    edge = T0 + WINDOW
    assert slot.put_in(image("I", 1, due=edge), image("I", 2, due=edge - 1)) == "TO"
    assert slot.entries() == {2: ("s", 1, edge - 1)}
    assert slot.put_in(image("I", 2, ver=2, due=edge)) == "T"
    assert slot.entries() == {}
    assert slot.put_in(image("I", 3, ver=2, at=edge + SECOND)) == "O", "one that is reserved is always there"


def test_a_topic_that_is_not_loaded(slot):
    said = slot.index(image("I", 1, name="new"), topics=("new",))
    assert said[5] == b"T" and said[2] == b"ffffffff" and int(said[4][:14], 16) == 0
    assert slot.loaded("new") == 0 and slot.entries("new") == {}
    assert slot.redis("ZSCORE", slot.key("a"), "new") == b"%d" % slot.now, "its owner is to load it"
    assert slot.index(image("I", 1, name="new"), topics=("new",))[2] == b"00000000"


def test_versions(slot):
    slot.put_in(image("I", 1, ver=5, due=T0 + SECOND))
    assert slot.put_in(image("I", 1, ver=4, due=T0)) == "V"
    assert slot.put_in(gone(1, 4)) == "V"
    assert slot.entries() == {1: ("s", 5, T0 + SECOND)}
    assert slot.put_in(image("I", 1, ver=5, due=T0 + SECOND)) == "O", "a repeat"
    assert slot.put_in(image("F", 1, ver=3, due=T0 + 2 * SECOND)) == "O"
    assert slot.entries() == {1: ("s", 3, T0 + 2 * SECOND)}
    assert slot.put_in(gone(1, 3)) == "G" and slot.put_in(gone(1, 3)) == "G"


def test_several_images_of_a_job_in_a_call(slot):
    said = slot.put_in(image("I", 1), image("I", 1, ver=3, due=T0 + SECOND), image("I", 1, ver=2), gone(2),
                       image("I", 2, ver=9), gone(2, 8), image("I", 3), gone(3, 1))
    assert said == "OOVGOVOG"
    assert slot.entries() == {1: ("s", 3, T0 + SECOND), 2: ("r", 9, T0)}
    assert slot.put_in(image("I", 4), image("M", 4), gone(4, 1)) == "OOG", "seed 9 of the simulation"
    slot.put_in(gone(1), gone(2))
    assert slot.empty()


def test_an_image_that_mends(slot):
    slot.put_in(image("I", 1), image("I", 2, due=T0 + SECOND), image("I", 3), image("I", 5, ttl=SECOND))
    assert slot.claims(1) == [("C", 1)]
    for name in ("store", "ready", "x"):
        slot.redis("DEL", slot.key("t:" + name))  # half a script
    said = slot.put_in(image("M", 1), image("M", 2, due=T0 + SECOND), image("M", 3), image("M", 4),
                       image("M", 5, ttl=SECOND), image("M", 1, ver=0))
    assert said == "OOOOOV"
    assert slot.entries() == {1: ("p", 1, T0 + CLAIM_US), 2: ("s", 1, T0 + SECOND), 3: ("r", 1, T0),
                              4: ("r", 1, T0), 5: ("r", 1, T0)}, "a claim that is under way is left alone"
    assert slot.redis("ZRANGE", slot.key("t:x"), 0, -1) == [jid(5).encode()]
    assert slot.put_in(image("M", 3, ver=2, due=T0 + SECOND)) == "O"
    assert slot.entries()[3] == ("s", 2, T0 + SECOND)


def test_leases_that_end_and_jobs_that_expire(slot):
    end = T0 + 5 * SECOND
    slot.put_in(image("I", 1, ver=2, at=end), image("I", 2, ttl=SECOND, due=T0 + SECOND), image("I", 3, prio=9999))
    slot.now = end
    assert slot.claims(1) == [("E", 2), ("E", 1), ("C", 3)]
    assert {e[0] for e in slot.entries().values()} == {"p"}
    assert slot.redis("ZCARD", slot.key("t:x")) == 0
    slot.now += CLAIM_US  # nobody did anything: they are claimed like others, and the row knows
    assert sorted(slot.claims(3)) == [("C", 1), ("C", 2), ("C", 3)]


def test_what_the_owner_looks_after(slot):
    end = T0 + 5 * SECOND
    slot.put_in(image("I", 1, ver=2, at=end), image("I", 2, ttl=SECOND, due=T0 + SECOND), image("I", 3))
    assert slot.redis("ZSCORE", slot.key("a"), "t") == b"%d" % (T0 + 2 * SECOND)
    slot.claims(1)  # job 3; whoever has claimed it dies
    slot.claim(1, wait=T0 + 60 * SECOND)
    slot.now = T0 + 4 * SECOND
    said = slot.claim(0)
    assert said[9] == b"E" + jid(2).encode() and int(said[4], 16) == end and said[3] == b"01" + NODE.encode()
    assert slot.entries()[3] == ("r", 1, T0)
    assert slot.redis("ZSCORE", slot.key("a"), "t") == b"%d" % end
    slot.put_in(gone(2))
    slot.now = end
    assert slot.claims(0) == [("E", 1)]
    slot.put_in(gone(1))
    slot.now += CLAIM_US
    assert slot.claims(0) == []
    assert slot.redis("ZSCORE", slot.key("a"), "t") == b"%d" % (slot.now + 86400 * SECOND), "an empty one is not seen"
    slot.put_in(*[image("I", n, ver=2, at=slot.now) for n in range(10, 30)])
    said = slot.claim(0, most=16)
    assert len(said[9]) == 16 * 15 and said[5] == b"1"
    assert len(slot.claims(0)) == 4


def test_the_owner_is_told_of_a_topic(slot):
    """Whether it has something there, or its owner is to load it; and behind settings."""
    slot.call("conf", 1, "dead_keep", 10 * SECOND, topics=("u",))
    for topic, due in (("t", T0), ("u", T0 + 100 * SECOND)):
        said = slot.index(image("I", 1, due=due), topics=(topic,))
        assert said[3] == OWNER, said
        assert slot.redis("ZSCORE", slot.key("a"), topic) is not None
        assert slot.index(image("I", 2, due=due), topics=(topic,))[3] == b""


def test_bodies_come_as_far_as_there_is_room(slot):
    slot.put_in(*[image("I", n, size=400) for n in range(1, 6)], image("I", 6, size=5000, due=T0 + SECOND))
    said = slot.claim(9, wait=T0 + 60 * SECOND, room=1000)
    assert said[9] == b"".join(b"C" + jid(n).encode() for n in (1, 2)) and int(said[8], 16) == 800
    assert said[5] == b"1" and int(said[4], 16) == slot.now, "there is more"
    assert slot.redis("ZCARD", slot.key("t:w")) == 0, "who asks again at once need not be told"
    assert slot.claims(1, room=1000) == [("C", 3)]
    slot.put_in(*[image("I", n, ver=2, at=T0 + SECOND, size=400) for n in (1, 2, 3)])
    slot.now += SECOND
    assert slot.claims(9, room=1000) == [("E", 1), ("E", 2)], "their rows are read with bodies, too"
    assert slot.claims(0, room=1000) == [("E", 3)]
    assert slot.claims(9, room=1000) == [("C", 4), ("C", 5)]
    assert slot.claims(9, room=1000) == [("C", 6)], "one always"
    slot.put_in(*[image("I", n, ver=3, at=slot.now, size=400) for n in (1, 2, 3)])
    assert len(slot.claims(0, room=1000)) == 3, "housekeeping reads no bodies"


def test_what_is_in_front_hides_nothing(slot):
    slot.put_in(image("I", 1, ttl=SECOND, prio=0), image("I", 2, prio=1))
    slot.now += 2 * SECOND
    said = slot.claim(1, wait=T0 + 60 * SECOND)
    assert said[9] == b"E" + jid(1).encode() and said[5] == b"1", "there is a job behind it"
    assert slot.claims(1) == [("C", 2)]
    slot.put_in(gone(1), gone(2), image("I", 3, prio=5))
    slot.redis("ZADD", slot.key("t:ready"), 0, "%014x" % T0 + jid(9))  # left behind by half a script
    assert slot.claim(1)[5] == b"1"
    assert slot.claims(1) == [("C", 3)]
    assert slot.claim(1)[5] == b"0"


def test_order_and_tag(slot):
    slot.put_in(image("I", 1, prio=5), image("I", 2, prio=5, due=T0 - 1), image("I", 3, prio=1),
                image("I", 4, prio=9, tag="red"), image("I", 5, prio=1, due=T0 + 1))
    slot.now += 1
    assert slot.claims(1) == [("C", 3)]
    assert slot.claims(1, tag="red") == [("C", 4)]
    assert slot.claims(9) == [("C", 5), ("C", 2), ("C", 1)]


def test_more_than_are_wanted(slot):
    slot.put_in(*[image("I", n) for n in range(1, 5)], *[image("I", n, due=T0 + 1) for n in range(5, 9)])
    slot.now += 1
    said = slot.claim(3)
    assert said[5] == b"1" and int(said[4], 16) == slot.now and int(said[7], 16) == 5
    said = slot.claim(5)
    assert len(said[9]) == 75 and said[5] == b"0" and int(said[7], 16) == 0
    assert int(said[6], 16) == T0 + WINDOW


def test_limits_hold(slot):
    slot.put_in(*[image("I", n) for n in range(1, 9)])
    slot.conf(3, in_flight=3)
    assert len(slot.claims(8, version=3)) == 3 and slot.claims(8) == []
    slot.claim(1, wait=T0 + 60 * SECOND)
    said = slot.index(gone(1))
    assert said[3] == b"01" + NODE.encode(), "one more may be had"
    assert len(slot.claims(8)) == 1
    slot.conf(4, in_flight="", rate=1000, burst=1)
    assert len(slot.claims(8)) == 1
    assert int(slot.claim(8)[4], 16) == slot.now + SECOND
    slot.now += SECOND
    assert len(slot.claims(8)) == 1
    slot.conf(5, rate="", burst="", out=slot.now + SECOND)
    assert slot.claims(8) == []
    slot.now += SECOND
    assert slot.claim(8, version=6)[9] == b"", "it does not know the settings yet"
    assert len(slot.claims(8, version=5)) > 0


def test_a_full_set(slot):
    """There are no more than hot_max; later ones are known by `loaded`."""
    slot.put_in(*[image("I", n, due=T0 + n * SECOND) for n in (10, 20, 30, 40)], hot=4)
    assert slot.loaded() == T0 + WINDOW
    assert slot.put_in(image("I", 50, due=T0 + 50 * SECOND), hot=4) == "T"
    assert slot.loaded() == T0 + 50 * SECOND and len(slot.entries()) == 4
    said = slot.index(image("I", 15, due=T0 + 15 * SECOND, ttl=SECOND), image("I", 60, due=T0 + 60 * SECOND), hot=4)
    assert said[5] == b"OT" and (int(said[4][:14], 16), int(said[4][14:], 16)) == (T0 + 40 * SECOND, 4)
    assert sorted(slot.entries()) == [10, 15, 20, 30] and slot.loaded() == T0 + 40 * SECOND
    assert slot.put_in(image("I", 31, due=T0 + 31 * SECOND), image("I", 5, due=T0 + 5 * SECOND), hot=4) == "TO"
    assert sorted(slot.entries()) == [5, 10, 15, 20] and slot.loaded() == T0 + 30 * SECOND
    slot.now += 30 * SECOND
    assert slot.claims(9) == [("E", 15), ("C", 5), ("C", 10), ("C", 20)]
    assert slot.put_in(image("I", 70, ver=2, at=slot.now + SECOND), hot=4) == "O", "reserved ones do not count"


def test_a_full_set_of_due_jobs(slot):
    slot.put_in(*[image("I", n, prio=n) for n in range(1, 5)], hot=4)
    assert slot.put_in(image("I", 5, prio=0, due=T0 + 1, now=T0 + 1), hot=4) == "T"
    assert slot.loaded() == T0 + 1 and len(slot.entries()) == 4
    said = slot.claim(3)
    assert (int(said[6], 16), int(said[7], 16)) == (T0 + 1, 1), "there is room, and more in the database"


def test_waiting_and_waking(slot):
    slot.claim(1, wait=T0 + 60 * SECOND)
    said = slot.index(image("I", 1, due=T0 + 20 * SECOND))
    assert said[3] == b"01" + NODE.encode() + OWNER, "told of the first, and stays"
    assert slot.index(image("I", 2, due=T0 + 30 * SECOND))[3] == b""
    assert slot.index(image("I", 3, due=T0 + 5 * SECOND))[3] == b"01" + NODE.encode()
    assert slot.index(image("I", 4))[3] == b"01" + NODE.encode()
    assert slot.index(image("I", 5))[3] == b"", "it was told, and asks"
    slot.claim(9, wait=T0 + 60 * SECOND)
    assert slot.index(image("I", 6, due=T0 + WINDOW))[3] == b"", "this one is not here"
    assert slot.index(image("I", 4, ver=2, at=T0 + SECOND))[3] == b""


def test_a_full_redis_makes_nothing_new(slot):
    """`index` is refused at its start; `shed` changes what is there, drops, and makes no entry."""
    far = T0 + WINDOW
    assert slot.put_in(*[image("I", n) for n in (1, 2, 3)]) == "OOO"
    slot.redis("CONFIG", "SET", "maxmemory", "1")
    try:
        with pytest.raises(Error, match="OOM"):
            slot.index(gone(1))
        letters = slot.call("shed", slot.now, -HOT, gone(1), image("I", 2, ver=2, due=T0 + SECOND), image("I", 4),
                            image("M", 5), image("F", 6), image("I", 3, ver=2, due=far), image("I", 7, due=far))[5]
        assert letters == b"GOFFFTT"
        said, _ = slot.scan()
        assert {n: h["ver"] for n, h in said.items()} == {2: 2}
        assert slot.claims() == [], "it is due later"
    finally:
        slot.redis("CONFIG", "SET", "maxmemory", "0")
    assert slot.put_in(image("I", 4)) == "O"


def test_loaded_is_raised_by_the_owner(slot):
    assert slot.raise_(T0 + 2 * WINDOW, "1") == [b"OUSTED", b"0", b""]
    assert slot.own(NODE, 0, 7) == [b"OK", b"7"]
    assert slot.raise_(T0 + 2 * WINDOW, "6")[0] == b"OUSTED"
    said = slot.raise_(T0 + 2 * WINDOW, "7")
    assert [int(x, 16) for x in said[4:]] == [T0 + WINDOW, T0 + 2 * WINDOW, 0]
    said = slot.raise_(T0 + WINDOW, "7")
    assert [int(x, 16) for x in said[4:]] == [T0 + 2 * WINDOW, T0 + 2 * WINDOW, 0], "it is never lowered here"
    slot.node = OTHER
    assert slot.raise_(T0 + 3 * WINDOW, "7") == [b"OUSTED", b"7", NODE.encode()], "an equal epoch of another"
    assert slot.loaded() == T0 + 2 * WINDOW
    assert slot.own(OTHER, 0, 8) == [b"OK", b"8"]
    slot.node = NODE
    assert slot.raise_(T0 + 3 * WINDOW, "7")[0] == b"OUSTED"
    assert slot.own(NODE, 0, 7) == [b"STALE", b"8", OTHER.encode()]
    assert slot.own(NODE, 0, 8) == [b"STALE", b"8", OTHER.encode()]


def test_loaded_of_a_topic_that_is_made(slot):
    said = slot.raise_(T0 + WINDOW, "", topics=("new",))
    assert said[2] == b"ffffffff" and [int(x, 16) for x in said[4:]] == [0, T0 + WINDOW, 0]
    slot.raise_(T0 + 2 * WINDOW, "", topics=("new",))
    assert slot.loaded("new") == T0 + WINDOW, "there may be rows by now"
    assert slot.put_in(image("I", 1, name="new"), topics=("new",)) == "O"
    slot.redis("HSET", slot.key("old:c"), "spread", "1", "order", "due", "loaded", "0")
    slot.raise_(T0 + WINDOW, "", topics=("old",))
    assert slot.loaded("old") == 0, "one that was lost has rows"


def test_a_raise_is_done_once(slot):
    """A repeat is told where it began; one that comes late does not raise what a full set has lowered since."""
    assert slot.own(NODE, 0, 7) == [b"OK", b"7"]
    first = slot.raise_(T0 + 2 * WINDOW, "7")
    op = slot.op
    assert slot.raise_(T0 + 2 * WINDOW, "7", op=op) == first
    due = T0 + WINDOW + SECOND
    assert slot.put_in(image("I", 1), image("I", 2), image("I", 3, due=due), hot=2) == "OOT"
    assert slot.loaded() == due
    said = slot.raise_(T0 + 2 * WINDOW, "7", op=op)
    assert [int(x, 16) for x in said[4:]] == [T0 + WINDOW, due, 2]
    assert slot.loaded() == due
    slot.raise_(T0 + 3 * WINDOW, "7")
    assert slot.raise_(T0 + 4 * WINDOW, "7", op=op) == [b"STALE"]
    assert slot.loaded() == T0 + 3 * WINDOW


def test_a_raise_fixes_nothing(slot):
    """Somebody waits for a topic that is not made yet: spread and order are those of whoever makes it."""
    assert slot.own(NODE, 0, 7) == [b"OK", b"7"]
    slot.raise_(T0 + WINDOW, "7", topics=("new",))
    slot.claim(topics=("new",))
    assert slot.put_in(image("I", 1, name="new"), topics=("new",), spread="4", order="id") == "O"
    assert slot.redis("HMGET", slot.key("new:c"), "spread", "order") == [b"4", b"id"]
    assert slot.loaded("new") == T0 + WINDOW


def test_all_that_is_there(slot):
    for at in range(0, 1000, 100):
        slot.put_in(*[image("I", n + 1, ver=n + 1) for n in range(at, at + 100)])
    said, pages = slot.scan(50)
    assert pages > 5 and {n: h["ver"] for n, h in said.items()} == {n: n for n in range(1, 1001)}


def test_a_slot_of_another_store_or_life(slot):
    calls = {"claim": (slot.now, 1, "", 0, 16, 0), "index": (slot.now, HOT, image("I", 1)),
             "raise": (slot.now, T0 + 2 * WINDOW, ""), "scan": (slot.now, "0", 9)}
    run = slot.run
    for name, args in calls.items():
        slot.run = "2" * 40
        assert slot.call(name, *args) == [b"CHECK"]
        slot.run = run
        slot.redis("HSET", slot.key("m"), "uuid", "v" * 32)
        assert slot.call(name, *args) == [b"OTHER", b"v" * 32]
        slot.redis("HSET", slot.key("m"), "uuid", UUID)
    slot.redis("DEL", slot.key("m"))
    for name, args in calls.items():
        assert slot.call(name, *args) == [b"NOSLOT"]
    assert slot.entries() == {}


class Rows:
    """Rows that change, and the images of them that are on their way."""

    def __init__(self, dice):
        self.dice, self.rows, self.vers, self.flying = dice, {}, {}, []

    def change(self, n, now):
        ver = self.vers.get(n, 0) + 1
        kind = self.dice.randrange(4)
        if ver > 1 and n not in self.rows:
            return  # it has ended
        self.vers[n] = ver
        if kind == 0 and ver > 1:
            del self.rows[n]
            self.flying.append(gone(n, ver - 1))
            return
        row = {"ver": ver, "due": now + self.dice.randrange(-20, 90) * SECOND, "prio": self.dice.randrange(3)}
        if kind == 1:
            row["at"] = now + self.dice.randrange(1, 30) * SECOND
        self.rows[n] = row
        self.flying.append(image("I", n, now=now, **row))

    def land(self, slot, hot):
        """Some arrive, in any order, some twice."""
        self.dice.shuffle(self.flying)
        some = [self.flying.pop() for _ in range(min(len(self.flying), self.dice.randrange(1, 6)))]
        if self.dice.randrange(4) == 0:
            self.flying.append(some[0])
        before = slot.entries()
        slot.put_in(*some, hot=hot)
        assert all(e[1] >= before[n][1] for n, e in slot.entries().items() if n in before), "an older one"

    def settle(self, slot, now, hot):
        """As an owner does it: what is there that should not be, then what should be and is not."""
        there, _ = slot.scan()
        for n, h in there.items():
            if n not in self.rows:
                slot.put_in(gone(n, h["ver"]), hot=hot)
            elif self.rows[n]["ver"] != h["ver"]:
                slot.put_in(image("I", n, now=now, **self.rows[n]), hot=hot)
        for n, row in sorted(self.rows.items(), key=lambda item: item[1]["due"]):
            if "at" in row or row["due"] < slot.loaded():
                slot.put_in(image("M", n, now=now, **row), hot=hot)


def run_rows(slot, seed, hot):
    dice = random.Random(seed)
    rows = Rows(dice)
    for _ in range(60):
        slot.now += dice.randrange(2 * SECOND)
        for _ in range(dice.randrange(1, 4)):
            rows.change(dice.randrange(1, 25), slot.now)
        if rows.flying and dice.randrange(3):
            rows.land(slot, hot)
        if dice.randrange(3) == 0:
            for _, n in slot.claims(dice.randrange(1, 4)):  # each gets its row's image
                row = rows.rows.get(n)
                rows.flying.append(gone(n) if row is None else image("I", n, now=slot.now, **row))
        waiting = [e for e in slot.entries().values() if e[0] in "sr"]
        assert len(waiting) <= hot
    while rows.flying:
        rows.land(slot, hot)
    rows.settle(slot, slot.now, hot)
    loaded = slot.loaded()
    have = {n: v[1] for n, v in slot.entries().items()}
    want = {n: r["ver"] for n, r in rows.rows.items() if "at" in r or r["due"] < loaded}
    assert {n: have.get(n) for n in want} == want, "rows that are not there"
    assert all(n in rows.rows and rows.rows[n]["ver"] == v for n, v in have.items()), "what is no row"


@pytest.mark.parametrize("seed", range(6))
def test_any_images_in_any_order(slot, seed):
    slot.raise_(T0 + WINDOW, "")
    run_rows(slot, seed, HOT if seed % 2 else 6)


def rows_of_a_few_seeds(slot):
    for seed in range(4):
        run_rows(Index(slot.redis, slot.scripts), seed, HOT if seed % 2 else 6)


MUTATIONS = {  # script; what it says, and what it says then; the test that is to notice
    "ver is not looked at": ("index", [("if e.is and e.is.ver > j.ver then", "if false then")], test_versions),
    "a drop of any ver": ("index", [("e.is.ver > get('>I4', what, 17)", "false")], test_versions),
    "equal versions are newer": ("index", [("if e.is and e.is.ver > j.ver then", "if e.is and e.is.ver >= j.ver then")],
                                 test_a_claim_put_back),
    "loaded is not looked at": ("index", [("j.due >= e.t.loaded", "false")], test_only_what_is_due_before_loaded),
    "loaded stays when it is full": ("index", [("t.loaded, t.count = math.min(t.loaded, one.due), t.count - 1",
                                                "t.count = t.count - 1")], test_a_full_set),
    "it is never full": ("index", [("t.changed > 0 and t.count > most", "false")], test_a_full_set),
    "earlier images of a call are not seen": ("index", [("e.is, e.touched, e.at = j, true, at", "e.new = j")],
                                              test_several_images_of_a_job_in_a_call),
    "mending disturbs claims": ("index", [("if e.is and e.is.ver >= j.ver then", "if e.is and e.is.ver > j.ver then")],
                                test_an_image_that_mends),
    "mending puts nothing in its place": ("index", [("elseif e.mend and not e.touched then", "elseif false then")],
                                          test_an_image_that_mends),
    "nobody is woken": ("index", [("local nodes, told = waiters(list)", "local nodes, told = '', {}")],
                        test_waiting_and_waking),
    "room that comes free wakes nobody": ("index", [("t.freed = t.freed or t.in_flight", "")], test_limits_hold),
    "no claim end": ("claim", [("now + 3000000", "now + 3000000000")], test_a_claim_ends),
    "a claim is a version": ("claim", [("j.set, j.lease, j.at = 'p', NO_LEASE, now + 3000000",
                                        "j.set, j.lease, j.at, j.ver = 'p', NO_LEASE, now + 3000000, j.ver + 1")],
                             test_a_row_from_commit_to_its_end),
    "due is not looked at": ("claim", [("call('ZRANGE', t.store, '-inf', till, 'BYSCORE', 'LIMIT', 0, want + 65)",
                                        "call('ZRANGE', t.store, 0, -1)"), ("elseif j.due > now then", "elseif false then")],
                             test_never_early_by_the_time_that_is_given),
    "nobody knows when to ask again": ("claim", [("sooner(j.due)", "")], test_an_estimate_that_is_behind),
    "a repeat claims others": ("claim", [("if kept then", "if false then")], test_a_repeat_claims_the_same),
    "leases that end are claims": ("claim", [("(set == 'p' and j.lease ~= NO_LEASE) or", "")],
                                   test_leases_that_end_and_jobs_that_expire),
    "what expired is claimed": ("claim", [("or (j.was_expiry or now + 1) <= now", "")],
                                test_leases_that_end_and_jobs_that_expire),
    "the agenda is not set": ("claim", [("call('ZADD', AGENDA, dec(nxt or now + DAY), t.name)", "")], test_what_the_owner_looks_after),
    "an idle topic is not looked after": ("claim", [("if nxt or stays then", "if nxt then")], test_what_the_owner_looks_after),
    "the owner is not told": ("index", [("owner = owner or is_first(t) or t.over", "")], test_the_owner_is_told_of_a_topic),
    "limits are not looked at": ("claim", [("if t.in_flight then", "if false then")], test_limits_hold),
    "old settings will do": ("claim", [("tonumber(t.pv) < tonumber(ARGV[REST + 5])", "false")], test_limits_hold),
    "bodies of any size": ("claim", [("bytes + size > room", "false")], test_bodies_come_as_far_as_there_is_room),
    "a body too large is never handed out": ("claim", [("and #out > 0", "")], test_bodies_come_as_far_as_there_is_room),
    "what is in front hides all": ("claim", [("or (claims < want and behind and tag == '')", "")],
                                   test_what_is_in_front_hides_nothing),
    "no epoch on loaded": ("raise", [("if is[2] ~= NODE or is[1] ~= epoch then", "if false then")],
                           test_loaded_is_raised_by_the_owner),
    "an equal epoch will do": ("raise", [("is[2] ~= NODE or", "")], test_loaded_is_raised_by_the_owner),
    "loaded of a topic that has rows": ("raise", [("(epoch ~= '' or not t.loaded) and upto or 0", "upto")],
                                        test_loaded_of_a_topic_that_is_made),
    "a full Redis takes more": ("shed", [("full and not e.old", "false")], test_a_full_redis_makes_nothing_new),
    "a full Redis takes no change": ("shed", [("full and not e.old", "full")], test_a_full_redis_makes_nothing_new),
    "a raise that is late": ("raise", [("hex(math.min(num(rest, 15, 28), t.loaded or 0))", "sub(rest, 15, 28)")],
                             test_a_raise_is_done_once),
    "a raise is done again": ("raise", [("if kept then", "if false then")], test_a_raise_is_done_once),
    "a raise keeps no number": ("raise", [("commit(list, remember(vers, '', hex(was) .. hex(is)), {})", "")],
                                test_a_raise_is_done_once),
    "a first image forgets what is loaded": ("index", [("'loaded', dec(t.loaded))", "'loaded', '0')")],
                                             test_a_raise_fixes_nothing),
    "an old epoch is entered": ("own", [("given < epoch or", "")], test_loaded_is_raised_by_the_owner),
    "equal epochs of two": ("own", [("or (given == epoch and got[3] ~= ARGV[2])", "")],
                            test_loaded_is_raised_by_the_owner),
    "one page": ("scan", [("ARGV[REST + 1], 'COUNT'", "'0', 'COUNT'"), ("'', page[1]}", "'', '0'}")],
                 test_all_that_is_there),
    "in any order: ver": ("index", [("if e.is and e.is.ver > j.ver then", "if false then")], rows_of_a_few_seeds),
    "in any order: sets": ("index", [("j.was_due, j.was_prio, j.was_at = old.was_due, old.was_prio, old.was_at", "")],
                           rows_of_a_few_seeds),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_mutations_are_noticed(slot, name):
    notices(slot, *MUTATIONS[name])
