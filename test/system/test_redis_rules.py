"""The Lua scripts of the engine on Redis, against a real redis-server: repeats, ids, limits, topics, waiting, and what is
left behind. See redis_slot.py; one test runs the scripts as they are, by their SHA-1."""
import hashlib
import re
import threading

import pytest

import redis_server
from redis_slot import (each_pushed, header, jobs_of, LEASE, LUA, NODE, notices, number, OTHER, OWNER, pushed,
                        SCRIPTS, SECOND, SETS, Slot, SLOT, T0, UUID, what, server, slot)  # noqa: F401  pylint: disable=unused-import


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


TWIN = 1 << 52  # a second call of the same kind is under way: its numbers are its own


def test_two_calls_under_way(slot):
    """Each of the two is repeated as if the other were not there."""
    first, second = slot.push({}, op=7), slot.push({}, op=TWIN + 2)
    assert slot.push({}, op=7) == first and slot.push({}, op=TWIN + 2) == second
    assert slot.push({}, op=6) == [b"STALE"] and slot.push({}, op=TWIN + 1) == [b"STALE"]
    assert slot.push({}, op=TWIN + 3)[0] == slot.push({}, op=8)[0] == b"OK"
    jobs = [job for job, _, _ in slot.got(4)]
    assert len(set(jobs)) == 4
    done = slot.edit(what("A", jobs[0], lease=1), op=9)
    other = slot.edit(what("A", jobs[1], lease=1), op=TWIN + 4)
    assert done[4:] == other[4:] == [b"Op"]
    assert slot.edit(what("A", jobs[0], lease=1), op=9) == done
    assert slot.edit(what("A", jobs[1], lease=1), op=TWIN + 4) == other
    assert slot.edit(what("B", jobs[2], "k", lease=1), op=TWIN + 3) == [b"STALE"]


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
        assert sorted([far[3][:18], far[3][18:36]]) == both
        assert slot.push({"delay": 25 * SECOND})[3] == b""  # later than what they know
    now = slot.push({})
    assert sorted([now[3][:18], now[3][18:]]) == both
    assert slot.push({})[3] == b""  # told that there is something, once
    job = slot.got(2)[0][0]
    slot.got(lease=2, wait=T0 + 30 * SECOND)
    assert slot.edit(what("G", job, lease=1))[3] == b"01" + OTHER.encode()


def test_the_owner_is_told_of_a_topic(slot):
    """An empty agenda is looked at every ten minutes only; from the first job on it is not empty."""
    agenda = lambda topic: slot.redis("ZSCORE", slot.key("a"), topic)
    slot.conf(1, dead_keep=10 * SECOND)  # settings alone are nothing to look after
    assert agenda("t") is None
    assert slot.push({"delay": SECOND})[3] == OWNER
    assert slot.push({"delay": SECOND}, op=slot.op)[3] == OWNER, "a repeat, too"
    assert slot.push({"delay": SECOND})[3] == b""
    slot.call("conf", 1, "dead_keep", 10 * SECOND, topics=("u",))
    assert slot.push({"ttl": SECOND}, topics=("u",))[3] == OWNER, "the long way"
    assert agenda("t") == b"%d" % (T0 + 86400 * SECOND) and agenda("u") == b"%d" % (T0 + SECOND)
    slot.now += 2 * SECOND
    assert slot.tend()[4] == b"" and agenda("t") == b"%d" % (slot.now + 86400 * SECOND), "it stays"
    assert slot.call("pause", SECOND, 1, topics=("v",))[3] == OWNER and agenda("v") is not None, "one that is only held, too"
    assert slot.call("pause", 0, 1, topics=("v",))[3] == b""


def test_who_died_is_not_woken(slot):
    """He does not ask anew, and is forgotten when his time is over."""
    slot.got(wait=T0 + 30 * SECOND)
    slot.node = OTHER
    slot.got(wait=T0 + 60 * SECOND)
    slot.now += 30 * SECOND
    slot.node = "c3c3c3c300000003"
    assert slot.push({"delay": 20 * SECOND})[3] == b"01" + OTHER.encode() + OWNER
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
    slot.call("pause", 5 * SECOND, 1)
    slot.call("pause", 7 * SECOND, 1)
    assert counts()[7:11] == [T0 + 99 * SECOND, slot.now + 7 * SECOND, 7 * SECOND, 2]
    assert far in slot.sets()["store"]


def test_pause_of_the_beanstalk_port(slot):
    job = slot.put()
    assert slot.got(wait=T0 + 60 * SECOND, lease=9)[0][0] == job
    assert slot.do("G", job, lease=9)[:1] == b"O"
    slot.call("pause", 5 * SECOND, 1)
    said = slot.call("pause", 5 * SECOND, 1, op=slot.op)
    assert said[0] == b"OK" and slot.redis("HGET", slot.key("t:c"), "holds") == b"1"
    said = slot.take(wait=T0 + 60 * SECOND)
    assert jobs_of(said) == [] and int(said[4], 16) == T0 + 5 * SECOND
    assert slot.call("pause", 0, 0)[3] == b"01" + NODE.encode()
    assert slot.redis("HGET", slot.key("t:c"), "holds") == b"1", "to resume is not to pause"
    assert slot.call("pause", 0, 1)[0] == b"OK" and slot.redis("HGET", slot.key("t:c"), "holds") == b"2"
    assert slot.got()[0][0] == job


def test_with_a_database_its_clock_counts(slot):
    """Who pauses, and who waits, does so by the time that claims are told."""
    slot.put()
    later = T0 + 600 * SECOND
    assert int(slot.call("pause", 5 * SECOND, 1, later)[1], 16) == later
    assert int(slot.redis("HGET", slot.key("t:c"), "hold")) == later + 5 * SECOND
    slot.redis("ZADD", slot.key("t:w"), later + 60 * SECOND, NODE)
    assert slot.call("conf", 1, "ttr", 7, later)[1:4:2] == [b"%014x" % later, b"01" + NODE.encode()]
    assert slot.redis("HMGET", slot.key("t:c"), "pv", "ttr") == [b"1", b"7"]
    earlier = T0 - 600 * SECOND
    slot.redis("ZADD", slot.key("t:w"), earlier + 60 * SECOND, NODE)
    assert slot.call("conf", 2, "ttr", 8, earlier)[3] == b"01" + NODE.encode()
    slot.redis("ZADD", slot.key("t:w"), earlier + 60 * SECOND, NODE)
    assert slot.conf(3, ttr=9)[3] == b"", "without one that wait is over"


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


def test_nodes_have_one_coordinator(slot):
    """Who comes second, and has another one, does not start, and is not entered; who runs is not disturbed."""
    def beat(node, coordinator, starts="1", uuid=""):
        keys = ["tarry:{meta}:" + k for k in ("layout", "nodes", "where")]
        where = "addr-" + node[0] + " 1.0" + (coordinator and "\n" + coordinator)
        return slot.eval("beat", keys, node, where, 10 * SECOND, "1", "256", "tarry:", uuid, starts)
    assert beat(NODE, "redis", uuid=UUID)[0] == b"OK"
    for _ in range(2):
        assert beat(OTHER, "zookeeper at /a") == [b"COORD", b"addr-a 1.0\nredis"]
    assert beat(NODE, "redis")[7::2] == [NODE.encode()]
    assert beat(OTHER, "zookeeper at /a", starts="0")[7::2] == [NODE.encode(), OTHER.encode()]
    assert beat(NODE, "redis", starts="0")[0] == b"OK"
    slot.now += 10 * SECOND  # both are dead
    assert beat(OTHER, "zookeeper at /a")[7::2] == [OTHER.encode()]
    assert beat(NODE, "zookeeper at /b") == [b"COORD", b"addr-b 1.0\nzookeeper at /a"]
    assert beat(NODE, "zookeeper at /a")[0] == b"OK"
    assert beat("c" * 16, "")[0] == b"OK"  # of an older release, which does not say
    assert beat("d" * 16, "zookeeper at /a")[0] == b"OK"


def test_nodes_have_their_jobs_in_one_place(slot):
    def beat(node, truth, uuid="", version="1"):
        keys = ["tarry:{meta}:" + k for k in ("layout", "nodes", "where")]
        return slot.eval("beat", keys, node, "addr 1.0", 10 * SECOND, version, "256", "tarry:", uuid, "1",
                         *([truth] if truth else []))[:2]

    def mark():
        return slot.redis("HGET", "tarry:{meta}:layout", "truth")
    assert beat(NODE, "sql", UUID)[0] == b"OK" and mark() == b"sql"
    assert beat(OTHER, "redis", "v") == [b"TRUTH", b"sql"]
    assert beat(OTHER, "sql", UUID)[0] == beat(OTHER, "sql")[0] == b"OK"
    assert beat("c" * 16, "")[0] == b"OK", "an older release does not say"
    assert beat(OTHER, "redis", "v", version="2")[0] == b"DIFFERS"
    slot.redis("HDEL", "tarry:{meta}:layout", "truth")  # of an older release
    assert beat(OTHER, "sql", "v")[0] == b"OK" and mark() is None, "another store: that says the node"
    assert beat(NODE, "redis", "v")[0] == b"OK" and mark() == b"redis"
    assert beat(OTHER, "sql", "v") == beat(OTHER, "sql") == [b"TRUTH", b"redis"]
    assert beat(OTHER, "sql", UUID)[0] == b"OK" and mark() == b"sql", "the database knows it"
    assert beat(NODE, "redis") == [b"TRUTH", b"sql"]
    slot.redis("HDEL", "tarry:{meta}:layout", "truth")
    assert beat(OTHER, "sql")[0] == b"OK" and mark() == b"sql", "one that runs marks it, too"


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
    assert refused == {"push", "topic", "schedule", "index", "room"}
    assert all(text.startswith(("#!lua\n", "#!lua flags=allow-oom\n")) for text in SCRIPTS.values())


def test_scripts_keep_to_the_rules():
    """Every key comes from KEYS; no command that Redis Cluster or a long script would suffer from."""
    for path in LUA:
        text = path.read_text()
        assert not re.search(r"'[^'\n]*--[^'\n]*'", text), "make-lua would take that for a comment"
        for command, rest in re.findall(r"call\('(\w+)',? ?([^\n]*)", text):
            assert command in {"TIME", "HGET", "HMGET", "HSET", "HDEL", "ZADD", "ZREM", "ZRANGE", "ZCARD",
                               "ZREMRANGEBYRANK", "ZCOUNT", "DEL", "HKEYS", "HSCAN", "INFO", "RPUSH", "LTRIM", "EXPIRE"}, command
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

def test_rows_of_jobs_with_times(slot):
    """Each has its own delay, age and length: the quick way, the other one, and a repeat of both."""
    times = [(SECOND, 7), (0, 0), (3 * SECOND, 1), (5, 9), (2 * SECOND, 0)]
    bodies = ["a" * (i * i) for i in range(5)]
    row = [arg for (delay, age), body in zip(times, bodies) for arg in (number(delay, 7) + number(age, 7), body)]
    args = [pushed({"times": True, "count": 5, "prio": 3}, ("t",)), *row, pushed({"delay": 9}, ("t",)), "last"]
    for order in ("due", "id"):
        for limits in ({}, {"max_jobs": 1000}):
            slot = Slot(slot.redis, slot.scripts)
            if limits:
                slot.conf(1, **limits)
            slot.op += 1
            said = each_pushed(slot.call("push", 0, SLOT, *args, op=slot.op, order=order), args)
            assert each_pushed(slot.call("push", 0, SLOT, *args, op=slot.op, order=order), args) == said
            dues = [slot.now + delay - age for delay, age in times] + [slot.now + 9]
            assert [int(item[15:], 16) for item in said[4:]] == dues
            ids = [item[1:15].decode() for item in said[4:]]
            assert ids == ["%014x" % (int(ids[0], 16) + 1024 * i) for i in range(6)]
            assert slot.sets()["store"] == [ids[i] for i in (5, 0, 4, 2)]
            assert slot.sets()["ready"] == [ids[i] for i in ((3, 1) if order == "due" else (1, 3))]
            slot.now += 4 * SECOND
            got = {job: (head["due"], head["delay"], head["prio"], head["size"], body)
                   for job, head, body in slot.got(9)}
            assert got == {job: (due, delay, prio, len(body), body.encode()) for job, due, delay, prio, body in zip(
                ids, dues, [delay for delay, _ in times] + [9], [3] * 5 + [1024], [*bodies, "last"])}


MUTATIONS = {
    "a row has one time": ("push", [("due = base - old + delay", "due = base + delay")], test_rows_of_jobs_with_times),
    "a row has one length": ("push", [("delay, #body)", "delay, 0)")], test_rows_of_jobs_with_times),
    "quick: the next job is like this one": ("take", [("if h ~= was then", "if not was then")],
                                             test_rows_of_jobs_that_are_alike),
    "quick: the next header is like this one": ("edit", [("if h ~= was or leases[i] ~= lease then", "if not was then")],
                                                test_bytes_of_the_quick_ways),
    "a row is one job": ("push", [("for i = at + step, at + step * count, step do", "for i = at + step, at + step do")],
                         test_rows_of_jobs_that_are_alike),
    "bytes: an ack does not count": ("edit", [("bytes = bytes - size", "")],
                                     test_bytes_of_the_quick_ways),
    "bytes: a push does not count": ("push", [("bytes + size * count", "bytes")], test_bytes_of_the_quick_ways),
    "bytes: a replaced body stays": ("push", [("j.was_size = old.was_size or (old.was_set and old.size) or nil", "")],
                                     test_bytes_of_a_topic),
    "bytes: an edited body stays": ("edit", [("j.was_size or j.size, #body", "nil, #body")], test_bytes_of_a_topic),
    "bytes: no limit": ("push", [("t.max_bytes and more > less", "false")], test_bytes_of_a_topic),  # script; what it says, and what it says then; the test that is to notice
    "op is not kept": ("push", [("if kept then", "if false then")],
                       test_a_repeat_is_answered_as_before),
    "push: two under way are one": ("push", [("== '1' and 'P'", "== '1' and 'p'")], test_two_calls_under_way),
    "edit: two under way are one": ("edit", [("== '1' and 'E'", "== '1' and 'e'")], test_two_calls_under_way),
    "numbers by %.14g": ("push", [("score, front = fmt('%d', due <= now and prio or due)", "score, front = '' .. (due <= now and prio or due)")], test_big_numbers),
    "no jump": ("check", [("and 1048576", "and 0"), ("+1024*(wall%1048576)", "")],
                test_another_server_passes_over_ids),
    "equal jumps": ("check", [("+1024*(wall%1048576)", "")], test_two_failovers_in_a_row),
    "the dead wait": ("push", [("tonumber(all[at + 1]) > now", "true")], test_who_died_is_not_woken),
    "settings fix the spread": ("conf", [("{'pv'", "{'spread',t.spread,'order',t.order,'pv'")],
                                test_spread_before_the_first_job),
    "undone ids are the next ones": ("push", [("seen + 1048576", "seen + 1")], test_ids),
    "the node's word": ("push", [("slot_is[2] ~= life()", "false")],
                        test_a_connection_that_outlives_demotion_and_promotion),
    "jumps without end": ("check", [("seq + jump > 4398046511104", "false")], test_jumps_never_use_ids_up),
    "late calls are done": ("push", [("and sub(kept, 1, 14) > OP", "and false")],
                            test_what_comes_late_is_not_done),
    "quick: whatever the header says": ("take", [("h and sub(h, 1, 1) == set", "h")],
                                        test_two_entries_of_a_job),
    "quick: whatever the entry says": ("take", [("sub(members[i], 1, 14) == text", "true")],
                                       test_two_entries_of_a_job),
    "quick: limits are not looked at": ("take", [("and not (c[4] or c[5] or c[6] or c[7])", "")], test_rate),
    "quick: op is not kept": ("push", [("OP .. put('>I2I2', 8, #told) .. vers .. told .. 'n' .. put('>I7I7', base, from)", "''")],
                              test_a_repeat_is_answered_as_before),
    "quick: nobody is woken": ("push", [("and #call('ZRANGE', KEYS[11], '0', '0') == 0", "")],
                               test_waiting_and_waking),
    "quick: the owner is not told": ("push", [("told = '000000000000000000'", "")], test_the_owner_is_told_of_a_topic),
    "the owner is not told": ("push", [("owner = owner or is_first(t) or t.over", "")], test_the_owner_is_told_of_a_topic),
    "the owner is not told of a pause": ("pause", [("if t.is_new then look_at", "if false then look_at")], test_the_owner_is_told_of_a_topic),
    "an idle topic is not looked after": ("tend", [("if nxt or stays then", "if nxt then")], test_the_owner_is_told_of_a_topic),
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
    notices(slot, *MUTATIONS[name])
