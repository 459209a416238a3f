"""The Lua scripts of the engine on Redis, against a real redis-server: each step of a job's life. See redis_slot.py."""
import pytest

from redis_slot import (header, jobs_of, LEASE, notices, OWNER, SECOND, Slot, T0, what, server, slot)  # noqa: F401  pylint: disable=unused-import


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


def test_acks_in_rows(slot):
    """One lease, several ids: the quick way, the other one, and a repeat of both."""
    def row(lease, *jobs):
        return [b"a\1" + bytes([len(jobs)]) + bytes.fromhex(LEASE % lease), *jobs]
    for limits in ({}, {"in_flight": 100}):
        slot = Slot(slot.redis, slot.scripts)
        if limits:
            slot.conf(1, **limits)
        jobs = [slot.put(body="x" * i) for i in range(9)]
        slot.got(4, lease=1)
        slot.got(4, lease=2)
        acks = [*row(1, *jobs[:3]), *row(2, *jobs[4:6]), what("A", jobs[6], lease=2)]
        said = slot.call("edit", *acks)
        assert said[4:] == ([b"Op"] if not limits else 6 * [b"Op"])
        assert slot.call("edit", *acks, op=slot.op) == said
        assert slot.sets()["prep"] == [jobs[3], jobs[7]]
        said = slot.call("edit", *row(1, jobs[3], jobs[3], jobs[7], jobs[8], jobs[0]))
        assert [item[:1] for item in said[4:]] == [b"O", b"N", b"L", b"L", b"N"]
        assert slot.call("edit", *row(2, jobs[7], jobs[7]))[4:] == [b"Op", b"N"]
        assert slot.sets()["ready"] == [jobs[8]] and slot.sets()["prep"] == []


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


def test_what_the_topic_gives_is_fixed_by_the_push(slot):
    """What the push does not say itself; settings that come later are for later jobs."""
    def told(job):
        return tuple(slot.look(job)[name] for name in ("ttr", "ttl", "retries", "backoff"))
    before = slot.put()
    slot.conf(1, ttr=9 * SECOND, ttl=60 * SECOND, retries=1, backoff="l%d" % (7 * SECOND))
    given, named = slot.put(prio=1), slot.put(prio=2, key="k", tag="red")
    own = slot.put(prio=3, ttr=SECOND, ttl=2 * SECOND, retries=5, backoff="l5")
    assert told(given) == told(named) == (9 * SECOND, 60 * SECOND, 1, b"l7000000")
    assert [slot.look(named)[name] for name in ("key", "tag")] == [b"k", b"red"]
    assert told(own) == (SECOND, 2 * SECOND, 5, b"l5")
    slot.conf(2, ttr="", ttl=SECOND, retries=-1, backoff="")
    assert told(before) == (0, 0, 2**32 - 1, b"") and told(given) == told(named)
    later = (0, SECOND, 2**32 - 2, b"")
    assert told(slot.put(prio=9)) == later
    assert slot.push({"prio": 9, "key": "k"})[4][:1] == b"R" and told(named) == later
    slot.now += SECOND // 2
    got = slot.got()[0]
    assert got[0] == given and got[1]["at"] == slot.now + 9 * SECOND
    slot.do("R", given, "bk", lease=1)
    assert slot.look(given)["due"] == slot.now + 7 * SECOND
    slot.now += 7 * SECOND
    assert slot.got()[0][0] == given
    slot.do("R", given, "bk", lease=1)
    assert slot.look(given)["set"] == "d" and slot.look(given)["why"] == 5


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
        assert slot.sets()["dead"] == jobs[max(n - 1, 0):n + 1], "at once"
    assert slot.tend()[8] == b"0"


def test_dead_max_of_many_at_once(slot):
    """Whatever kills them; more than there may be: those that were dead before go at once, the owner sees to the rest."""
    def looked_at(said):
        assert OWNER in said[3]
        assert float(slot.redis("ZSCORE", slot.key("a"), "t")) <= slot.now
        slot.now += 1
        return slot.tend()[8]
    slot.conf(1, dead_max=2, retries=0)
    first = [slot.put(key=f"k{n}") for n in range(2)]
    slot.edit(*[what("V", job, "k") for job in first])
    slot.now += 1
    jobs = [slot.put(ttr=SECOND) for _ in range(5)]
    said = slot.edit(*[what("V", job, "k") for job in jobs[:3]])
    assert slot.sets()["dead"] == jobs[:3] and slot.redis("HLEN", slot.key("k")) == 0
    assert looked_at(said) == b"1" and slot.sets()["dead"] == jobs[1:3]
    slot.got(2)
    slot.now += SECOND
    slot.got(lease=2)  # finds them: their leases ran out
    assert slot.sets()["dead"] == jobs[3:]
    job = slot.put(ttr=SECOND)
    slot.got(lease=3, held=1)
    slot.now += 1
    assert slot.call("orphans", 500, bytes.fromhex("a1a1a1a1"), "", "")[6] == b"%014x" % 1
    assert slot.sets()["dead"] == [jobs[4], job]
    slot.do("K", jobs[4], "0")
    slot.now += 1
    slot.edit(what("V", jobs[4], "k"))
    assert slot.sets()["dead"] == [job, jobs[4]]
    said = slot.conf(2, dead_max=1)
    assert looked_at(said) == b"1" and slot.sets()["dead"] == [jobs[4]]


def test_dead_max_when_a_job_comes_back_in_the_same_call(slot):
    slot.conf(1, dead_max=2)
    jobs = [slot.put() for _ in range(4)]
    for job in jobs[:2]:
        slot.now += 1
        slot.do("V", job, "k")
    slot.now += 1
    slot.edit(what("K", jobs[0], "0"), *[what("V", job, "k") for job in jobs[2:]])
    assert slot.sets()["dead"] == jobs[2:] and slot.sets()["ready"] == jobs[:1]


def test_dead_max_and_leases_that_housekeeping_ends(slot):
    slot.conf(1, dead_max=2, retries=0)
    jobs = [slot.put(ttr=SECOND) for _ in range(4)]
    slot.got(4)
    slot.now += SECOND
    said = slot.tend()
    assert said[4:7] == [b"%014x" % slot.now, b"1", b"4"], "at once again: what died now stands there then"
    slot.now += 1
    assert slot.tend()[8] == b"2"
    assert slot.sets()["dead"] == jobs[2:]


MUTATIONS = {
    "due is not looked at": ("take", [("call('ZRANGE', store, '-inf', till, 'BYSCORE', 'LIMIT', '0', want + 1)",
                                       "call('ZRANGE', store, 0, -1)"), ("tonumber(first[2]) <= now", "true"),
                                      ("and is_due <= now", "")],
                             test_never_early),
    "any lease will do": ("edit", [("or j.lease~=leases[i]", "")], test_a_lease_that_ran_out),
    "tmax by any clock": ("push", [("agrees and now > tmax", "now > tmax")],
                          test_a_clock_far_ahead_that_is_put_right),
    "ids by any clock": ("push", [("agrees and floor(now", "floor(now")],
                         test_a_clock_far_ahead_that_is_put_right),
    "a wrong tmax stays": ("take", [("if agrees and tmax > now", "if false and tmax > now")],
                           test_a_latest_time_that_was_wrong),
    "ready is due": ("take", [("elseif j.set=='r'and j.due>now then j.set='s'", "")],
                     test_a_clock_that_goes_back_a_little),
    "what goes back to store is not told": ("take", [("sooner(j.due)", "")],
                                            test_who_waits_hears_of_what_is_not_due_any_more),
    "the caller's clock is not looked at": ("push", [("base = max(base, tonumber(ARGV[5]))", "")],
                                            test_a_clock_far_behind_makes_nothing_early),
    "a touch by a clock that is behind": ("edit", [("max(least,base+max(ttr", "max(least, now + max(ttr")],
                                          test_a_clock_far_behind_makes_nothing_early),
    "tmax as now": ("take", [("base=max(now,tmax)", "now=max(now,tmax)")],
                    test_a_clock_that_steps_back_hands_out_nothing),
    "quick: any lease will do": ("edit", [("and sub(h, 29, 36) == lease", "")],
                                 test_acks_of_plain_jobs),
    "quick: a lease has no end": ("edit", [("and ends > now", "")], test_acks_of_plain_jobs),
    "quick: an ack leaves its key": ("edit", [("flags % 64 < 32 and", "")], test_cancel),
    "quick: an ack twice in a call": ("edit", [("plain, last = id > last, id", "last = id")], test_cancel_and_ack_in_one_call),
    "quick: an ack twice in a row": ("edit", [("plain and id > last", "plain")], test_acks_in_rows),
    "quick: any order": ("take", [("and prio >= last", "")], test_order_of_what_is_due),
    "quick: the rest is forgotten": ("take", [("#members == 0 and #due <= want", "#members == 0")],
                                     test_order_of_what_is_due),
    "quick: ttl is not looked at": ("take", [("flags < 64 and", "")], test_ttl_met_by_a_take),
    "any number of dead ones": ("edit", [("for _, t in ipairs(list) do trim(t) end", "")], test_dead_max),
    "one that came back goes as a dead one": ("edit", [("not (t.left and t.left[j.id])", "true")],
                                              test_dead_max_when_a_job_comes_back_in_the_same_call),
    "the owner is not told of too many dead ones": ("edit", [("t.over = true", "")], test_dead_max_of_many_at_once),
    "the owner does not look again": ("tend", [("or over > 0", "")], test_dead_max_and_leases_that_housekeeping_ends),
    "fewer dead ones from now on: nobody looks": ("conf", [("t.over = not own and call('ZCARD', t.dead) > 0", "")],
                                                  test_dead_max_of_many_at_once),
    "quick: settings are not looked at": ("push", [("c[8] or c[9] or c[10] or c[11]", "false")],
                                          test_what_the_topic_gives_is_fixed_by_the_push),
    "settings are not fixed": ("push", [("if gives(t) then local", "if false then local")],
                               test_what_the_topic_gives_is_fixed_by_the_push),
    "what the push says does not count": ("push", [("j.ttr > 0 and j.ttr or", "")],
                                          test_what_the_topic_gives_is_fixed_by_the_push),
    "quick: keys are not looked at": ("push", [("if key_len > 0 or flags", "if key_len > 0 then count = 1 end if flags")], test_keys),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_mutations_are_noticed(slot, name):
    notices(slot, *MUTATIONS[name])
