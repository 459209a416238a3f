"""Scripts that go through all jobs of a topic, some entries at a time, against a real redis-server:
purge, jobs of dead nodes, lists; and what an owner does for its slots. See redis_slot.py."""
import random

import pytest

import redis_slot as base
from redis_slot import (NODE, OTHER, RUN, SECOND, T0, UUID, header, notices,
                        server, slot)  # noqa: F401  pylint: disable=unused-import

DELAYED, READY, RESERVED, DEAD = 2, 4, 8, 16
ANY = DELAYED | READY | RESERVED | DEAD


def purge(slot, look=500, last="", between=None, **more):
    """A whole walk. Gives (last id, how many)."""
    place, count = ["s", "", ""], 0
    while place[0] != "":
        said = slot.call("purge", look, last, *place, **more)
        assert said[0] == b"OK", said
        last = said[4].decode()
        place = [x.decode() for x in said[5:8]]
        count += int(said[8], 16)
        if between:
            between()
    return last, count


def fill(slot):
    """Jobs in each set: 3 delayed, 2 ready, 2 reserved, 1 dead."""
    ids = [slot.put(key="dead"), slot.put(), slot.put()]
    slot.got(3)
    slot.do("B", ids[0], "k", lease=1)
    ids += [slot.put(), slot.put(prio=1, ttl=9 * SECOND)]
    ids += [slot.put(delay=n * SECOND, key=f"k{n}", ttl=SECOND) for n in (1, 2, 3)]
    is_ = slot.sets()
    assert [len(is_[s]) for s in ("store", "ready", "prep", "dead")] == [3, 2, 2, 1]
    return ids


@pytest.mark.parametrize("look", (1, 2, 500))
def test_purge(slot, look):  # noqa: F811
    fill(slot)
    slot.put(topic=1)
    assert purge(slot, look)[1] == 9
    assert slot.empty() and slot.redis("EXISTS", slot.key("t:x")) == 0
    assert slot.redis("HLEN", slot.key("k")) == 0
    assert purge(slot)[1] == 0


def test_purge_spares_what_comes_later(slot):  # noqa: F811
    ids = fill(slot)
    news = []
    last, count = purge(slot, 1, between=lambda: len(news) < 9 and news.append(slot.put(prio=len(news) % 2)))
    assert count == len(ids)
    assert sorted(slot.sets()["ready"]) == sorted(news)
    assert purge(slot, last=last)[1] == 0
    assert purge(slot)[1] == len(news)


def test_a_repeated_purge_counts_once(slot):  # noqa: F811
    fill(slot)
    said = slot.call("purge", 2, "", "s", "", "")
    assert int(said[8], 16) == 2
    assert slot.call("purge", 2, "", "s", "", "", op=slot.op) == said
    assert len(slot.sets()["store"]) == 1


def test_purge_of_few_is_one_step(slot):  # noqa: F811
    """So none of them gets away from one set into another that was looked at before."""
    ids = fill(slot)
    said = slot.call("purge", 500, "", "s", "", "")
    assert said[5] == b"" and int(said[8], 16) == len(ids)


def test_purge_makes_room(slot):  # noqa: F811
    slot.conf(1, in_flight=1)
    slot.push({}, {})
    slot.got(1)
    slot.got(1, lease=2, wait=T0 + 60 * SECOND)
    said = slot.call("purge", 500, "", "p", "", "")
    assert said[3] == b"01" + NODE.encode() and int(said[8], 16) == 1


def bulk(slot, what, ids, by=0, to=0, states=ANY, due=(0, 0), tag="", **more):
    """What became of each."""
    said = slot.call("bulk", what, by, to, states, *due, tag, "".join(ids), **more)
    assert said[0] == b"OK", said
    return said[5].decode()


def test_bulk_cancels(slot):  # noqa: F811
    ids = fill(slot)
    every = sum(slot.sets().values(), [])
    held = slot.sets()["prep"]
    assert bulk(slot, "C", every) == "".join("P" if job in held else "O" for job in every)
    assert slot.sets() == {"store": [], "ready": [], "prep": held, "dead": []}
    assert bulk(slot, "C", every) == "".join("P" if job in held else "N" for job in every)
    assert slot.redis("HLEN", slot.key("k")) == 0 and slot.redis("EXISTS", slot.key("t:x")) == 0
    last = int(slot.call("bulk", "C", 0, 0, ANY, 0, 0, "", "")[4], 16)
    assert int(max(ids), 16) <= last < int(slot.put(), 16)


def test_bulk_looks_once_more(slot):  # noqa: F811
    """What was listed may have changed since: state, due time, tag."""
    job = slot.put(delay=5 * SECOND, tag="red")
    for no in ({"states": READY | DEAD}, {"due": (T0 + 5 * SECOND + 1, 0)}, {"due": (0, T0 + 5 * SECOND)},
               {"tag": "blue"}):
        assert bulk(slot, "C", [job], **no) == "N", no
    assert bulk(slot, "C", [job], states=DELAYED, due=(T0 + 5 * SECOND, T0 + 5 * SECOND + 1), tag="red") == "O"


def test_bulk_shifts(slot):  # noqa: F811
    far, near, ready = slot.put(delay=9 * SECOND, ttl=SECOND), slot.put(delay=2 * SECOND), slot.put()
    slot.now += SECOND
    assert bulk(slot, "S", [far, near, ready], by=-5 * SECOND) == "OOO"
    dues = [slot.look(job)["due"] - T0 for job in (far, near, ready)]
    assert dues == [4 * SECOND, SECOND, 0]  # the past means now, and never later than it was
    assert slot.sets() == {"store": [far], "ready": [ready, near], "prep": [], "dead": []}
    assert float(slot.redis("ZSCORE", slot.key("t:x"), far)) == T0 + 5 * SECOND
    assert bulk(slot, "S", [far, near, ready], by=3 * SECOND) == "OOO"
    assert [slot.look(job)["due"] - T0 for job in (far, near, ready)] == [7 * SECOND, 4 * SECOND, 3 * SECOND]
    assert bulk(slot, "S", [ready], to=T0 + 6 * SECOND) == "O"
    assert slot.look(ready)["due"] == T0 + 6 * SECOND
    assert bulk(slot, "S", [ready], to=1) == "O"
    assert slot.look(ready)["due"] == slot.now and slot.sets()["ready"] == [ready]
    assert bulk(slot, "S", [far], by=4320432000000000) == "P"  # later than a job may be
    slot.got(1)
    assert bulk(slot, "S", [ready], by=SECOND) == "P"
    slot.do("B", ready, "k", lease=1)
    assert bulk(slot, "S", [ready], by=SECOND) == "P"


def test_bulk_kicks(slot):  # noqa: F811
    job, far, ready = slot.put(), slot.put(delay=SECOND), slot.put(prio=9000)
    slot.got(1)
    slot.do("B", job, "k", lease=1)
    assert bulk(slot, "K", [job, far, ready]) == "OOP"
    is_ = slot.look(job)
    assert (is_["set"], is_["attempts"], is_["kicks"], is_["due"]) == ("r", 0, 1, slot.now)
    assert sorted(slot.sets()["ready"]) == sorted([job, far, ready])


def test_a_repeated_bulk_is_done_once(slot):  # noqa: F811
    job = slot.put(delay=SECOND)
    args = ("bulk", "S", 5 * SECOND, 0, ANY, 0, 0, "", job)
    said = slot.call(*args)
    assert slot.call(*args, op=slot.op) == said and said[5] == b"O"
    assert slot.look(job)["due"] == T0 + 6 * SECOND


def test_bulk_wakes(slot):  # noqa: F811
    job = slot.put(delay=SECOND)
    slot.got(1, wait=T0 + 60 * SECOND)
    said = slot.call("bulk", "S", -SECOND, 0, ANY, 0, 0, "", job)
    assert said[3] == b"01" + NODE.encode()


def orphans(slot, node, look=500):
    place, count = ["", ""], 0
    while True:
        said = slot.call("orphans", look, bytes.fromhex(node[:8]), *place)
        assert said[0] == b"OK", said
        place, count = [x.decode() for x in said[4:6]], count + int(said[6], 16)
        if place[0] == "":
            return count


@pytest.mark.parametrize("look", (1, 2, 500))
def test_jobs_of_a_dead_node(slot, look):  # noqa: F811
    ids = [slot.put() for _ in range(6)]
    held = [j[0] for j in slot.got(2, held=1)]
    slot.got(1, lease=2)  # over HTTP: its lease goes on
    slot.node = OTHER
    slot.call("take", 2, bytes.fromhex("b2b2b2b200000001"), 0, "", 0, 1, 0, 1 << 19, "0" * 14)
    slot.got(9, lease=77, wait=T0 + 60 * SECOND)
    assert orphans(slot, NODE, look) == 2
    assert slot.sets()["ready"] == held
    assert sorted(slot.sets()["prep"]) == sorted(set(ids) - set(held))
    is_ = slot.look(held[0])
    assert (is_["attempts"], is_["releases"], is_["timeouts"], is_["due"]) == (1, 0, 0, T0)
    assert orphans(slot, NODE, look) == 0
    assert orphans(slot, OTHER, look) == 2


def test_jobs_of_a_dead_node_wake(slot):  # noqa: F811
    slot.put()
    slot.got(1, held=1)
    slot.node = OTHER
    slot.got(1, lease=2, wait=T0 + 60 * SECOND)
    said = slot.call("orphans", 500, bytes.fromhex(NODE[:8]), "", "")
    assert said[3] == b"01" + OTHER.encode()
    assert slot.call("orphans", 500, bytes.fromhex(NODE[:8]), "", "", op=slot.op) == said


def page(slot, set_, look=500, most=100, states=ANY, due=(0, 0), after=("0", ""), tag=""):
    """[(id, header)] of all calls for one set; in order, as far as the set is."""
    place, jobs = ["", ""], []
    while True:
        said = slot.call("list", set_, *place, look, most, states, *due, *after, tag)
        assert said[0] == b"OK", said
        place = [x.decode() for x in said[4:6]]
        got = [(said[i].decode(), header(said[i + 1])) for i in range(6, len(said), 2)]
        assert len(got) <= most
        jobs += got
        if place[0] == "" or (set_ in "sd" and len(jobs) >= most):
            return jobs


@pytest.mark.parametrize("look", (1, 3, 500))
def test_list_of_store_is_in_order(slot, look):  # noqa: F811
    dice = random.Random(look)
    due = {slot.put(delay=dice.randrange(1, 9), tag=dice.choice("ab")): None for _ in range(40)}
    due = {job: slot.look(job)["due"] for job in due}
    wanted = sorted(due, key=lambda job: (due[job], job))
    assert [j[0] for j in page(slot, "s", look, most=40)] == wanted
    seen, after = [], ("0", "")
    while True:  # page by page
        jobs = page(slot, "s", look, most=7, after=after)[:7]
        seen += [j[0] for j in jobs]
        if len(jobs) < 7:
            break
        after = (str(jobs[-1][1]["due"]), jobs[-1][0])
    assert seen == wanted
    part = [j for j in wanted if T0 + 3 <= due[j] < T0 + 6]
    assert [j[0] for j in page(slot, "s", look, due=(T0 + 3, T0 + 6))] == part
    tagged = [j for j in wanted if slot.look(j)["tag"] == b"a"]
    assert [j[0] for j in page(slot, "s", look, tag="a")] == tagged
    slot.now += 5
    assert [j[0] for j in page(slot, "s", look, states=DELAYED)] == [j for j in wanted if due[j] > T0 + 5]
    assert [j[0] for j in page(slot, "s", look, states=READY)] == [j for j in wanted if due[j] <= T0 + 5]


def test_list_of_the_other_sets(slot):  # noqa: F811
    ids = []
    for n in range(30):
        ids.append(slot.put(prio=100 - n))
        slot.now += 1
    by_due = [j[0] for j in page(slot, "r")]
    assert by_due == ids
    assert [j[0] for j in page(slot, "r", most=5)] == ids[:5]
    after = (str(T0 + 4), ids[4])
    assert [j[0] for j in page(slot, "r", most=5, after=after)] == ids[5:10]
    assert sorted(j[0] for j in page(slot, "r", look=4)) == ids  # in slices: who asks puts them in order
    first = [j[0] for j in slot.got(10)]
    assert sorted(first) == ids[20:]
    assert [j[0] for j in page(slot, "p")] == ids[20:]
    assert page(slot, "p", states=ANY - RESERVED) == []
    for n, job in enumerate(first):
        slot.now += 1
        slot.do("B", job, "k", lease=1)
    assert [j[0] for j in page(slot, "d")] == first
    at = slot.look(first[3])["at"]
    assert [j[0] for j in page(slot, "d", most=4, after=(str(at), first[3]))] == first[4:8]


def test_a_list_goes_on_though_its_place_is_gone(slot):  # noqa: F811
    """Many jobs of one moment, and those that were told last are gone when it goes on."""
    said = slot.push(*[{"delay": SECOND} for _ in range(100)])
    ids = [s[1:15].decode() for s in said[4:]]
    jobs = page(slot, "s", most=40)[:40]
    assert [j[0] for j in jobs] == ids[:40]
    for job in ids[30:50]:
        slot.do("C", job, "0")
    assert [j[0] for j in page(slot, "s", after=(str(T0 + SECOND), ids[39]))] == ids[50:]


def test_forecast(slot):  # noqa: F811
    for n in (1, 1, 2, 5, 9):
        slot.put(delay=n * SECOND)
    slot.call("push", 0, base.SLOT, base.pushed({"delay": 2 * SECOND}, ("u",)), "x", topics=("u",))
    slot.put()
    text = slot.call("forecast", T0, 2 * SECOND, 4, topics=("t", "u"))[4]
    assert [int(text[i:i + 14], 16) for i in range(0, 56, 14)] == [2, 2, 1, 0]


def test_fields_of_dead_nodes(slot):  # noqa: F811
    slot.put()
    slot.got()
    slot.node = OTHER
    slot.put()
    before = set(slot.redis("HKEYS", slot.key("m")))

    def sweep(*dead, run=RUN):
        return slot.redis("EVAL", slot.scripts["sweep"], 1, slot.key("m"), UUID, run, *dead)
    assert sweep("c" * 16) == [b"OK", b"0"]
    assert sweep(NODE, "c" * 16) == [b"OK", b"2"]
    gone = {b"p" + NODE.encode(), b"t" + NODE.encode()}
    assert before - set(slot.redis("HKEYS", slot.key("m"))) == gone
    assert sweep(OTHER, run="another") == [b"CHECK"]
    assert slot.got(lease=5)  # all else is as it was


def test_bury_by_force(slot):  # noqa: F811
    far, job = slot.put(delay=SECOND), slot.put()
    for id_ in (far, job):
        is_ = header(slot.do("V", id_, "k")[1:])
        assert (is_["set"], is_["why"], is_["buries"], is_["attempts"]) == ("d", 4, 1, 0)
        assert slot.do("V", id_, "k")[:2] == b"Sd"
    slot.put()
    held = slot.got()[0][0]
    assert slot.do("V", held, "k")[:2] == b"Sp"
    assert slot.do("V", "0" * 14, "k") == b"N"


MUTATIONS = {  # as in test_redis_scripts.py
    "purge: what comes later, too": ("purge", [("num(ids[i], 1, 14) <= num(last, 1, 14)", "true")],
                                     test_purge_spares_what_comes_later),
    "purge: a set a call": ("purge", [("until more or set == '' or look <= 0", "until true")],
                            test_purge_of_few_is_one_step),
    "purge: no room is told": ("purge", [("t.freed = t.freed or (set == 'p' and t.in_flight)", "")],
                               test_purge_makes_room),
    "purge: op is not kept": ("purge", [("remember(vers, nodes, pack(replies))", "nil")],
                              test_a_repeated_purge_counts_once),
    "purge: keys stay": ("purge", [("gone_keys[#gone_keys + 1] = t.name", "local _ = t.name")],
                         lambda s: test_purge(s, 500)),
    "orphans: whoever holds it": ("orphans", [("and sub(j.lease, 1, 4) == name", "")],
                                  lambda s: test_jobs_of_a_dead_node(s, 500)),
    "orphans: held or not": ("orphans", [("j.flags % 4 >= 2 and", "")],
                             lambda s: test_jobs_of_a_dead_node(s, 500)),
    "list: the rest of its moment is passed over": ("list", [("low = middle + 1", "low = high")],
                                           test_a_list_goes_on_though_its_place_is_gone),
    "list: in the order of the set": ("list", [("if not in_order then", "if false then")],
                                      test_list_of_the_other_sets),
    "bulk: whatever it is now": ("bulk", [("not is_meant(j)", "false")], test_bulk_looks_once_more),
    "bulk: op is not kept": ("bulk", [("remember(vers, nodes, pack(replies))", "nil")],
                             test_a_repeated_bulk_is_done_once),
    "bulk: reserved ones, too": ("bulk", [("j.set == 'p' and 'P' or", "")], test_bulk_cancels),
    "bulk: sooner may be later": ("bulk", [("return math.min(due, base)", "return base")], test_bulk_shifts),
    "bulk: attempts are counted on": ("bulk", [("j.attempts = j.set == 'd' and 0 or j.attempts", "")],
                                      test_bulk_kicks),
    "sweep: all of them": ("sweep", [("and dead[string.sub(field, 2)]", "")], test_fields_of_dead_nodes),
    "forecast: both ends": ("forecast", [("'(' .. dec(from + i * step)", "dec(from + i * step)")], test_forecast),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_mutations_are_noticed(slot, name):  # noqa: F811
    notices(slot, *MUTATIONS[name])
