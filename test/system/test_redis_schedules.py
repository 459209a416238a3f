"""The scripts of schedules on Redis (schedule.lua, roster.lua), and what other scripts tell them.

See redis_slot.py: against a real redis-server, with the time in the texts; and mutations of the
scripts that must be noticed.
"""
import pytest

from redis_slot import (SCRIPTS, SECOND, SETS, SLOT, T0, UUID, Slot, pushed, what,
                        server)  # noqa: F401  pylint: disable=unused-import

A, B, C = "a" * 30, "b" * 30, "c" * 30
NO_ID = "0" * 14
OWNER = b"0" * 18  # the mark for the owner of the slot


class Plans(Slot):
    """A slot with schedules."""

    def schedule(self, *args, topics=("t",), op=None):
        if op is None:
            self.op += 1
            op = self.op
        keys = [self.key(k) for k in "mhbka"]
        about = []
        for topic in topics:
            keys += [self.key(f"{topic}:{s}") for s in SETS]
            about += [topic, "1", "due"]
        return self.eval("schedule", [*keys, self.key("s")], UUID, self.run, self.node, "%014x" % op, self.now,
                         len(topics), *about, *args)

    def set(self, stamp, new, live="n", state="s0", due=None, entry="", nxt="", op=None, **job):
        """Moves the schedule p on; due: with a job, which it waits for."""
        args = ["s", "p", stamp, new, "-", live, state, "def" if stamp == "" else "", nxt, entry, 0, SLOT]
        if due is not None:
            args += [pushed({"at": due, "tag": "x", **job}, ("t",)) + b"p", "body"]
        said = self.schedule(*args, op=op)
        assert said[0] == b"OK", said
        return said[4].decode()

    def state(self):
        text = self.redis("HGET", self.key("s"), "sp")
        return text and (text[:30].decode(), text[30:31].decode(), text[31:45].decode(), text[45:].decode())

    def agenda(self):
        flat = self.redis("ZRANGE", self.key("a"), 0, -1, "WITHSCORES")
        return {flat[i].decode(): int(flat[i + 1]) for i in range(0, len(flat), 2)}

    def roster(self, kind, stamp, arg):
        keys = ["tarry:{meta}:roster", "tarry:{meta}:order"]
        return [part.decode() for part in self.eval("roster", keys, kind, "p", stamp, arg)]

    def occurrence(self, **job):
        """Sets p, and makes a job of it: its id."""
        self.set("", A)
        said = self.set(A, B, live="j", due=self.now, **job)
        assert said[0] == "O"
        return said[1:15]


@pytest.fixture
def slot(server):
    client = server.client()
    yield Plans(client)
    client.close()


def test_each_tick_once(slot):
    slot.set("", A, nxt=T0 + SECOND)
    assert slot.agenda() == {"@p": T0 + SECOND} and slot.state() == (A, "-", NO_ID, "s0")
    slot.now += SECOND
    tick = {"due": T0 + SECOND, "entry": "@p", "nxt": T0 + 2 * SECOND, "live": "j"}
    said = slot.set(A, B, state="s1", **tick)
    job = said[1:15]
    assert said[0] == "O" and int(said[15:], 16) == T0 + SECOND
    assert slot.state() == (B, "-", job, "s1") and slot.agenda()["@p"] == T0 + 2 * SECOND
    assert slot.set(A, C, state="s1", **tick) == "C"  # another owner had read the same
    slot.node = "b2b2b2b200000002"
    assert slot.set(A, C, state="s1", **tick) == "C"
    assert slot.sets()["ready"] == [job] and slot.state()[0] == B
    assert slot.look(job)["due"] == T0 + SECOND


def test_a_repeat_is_answered_as_before(slot):
    slot.set("", A)
    first = slot.set(A, B, due=T0, live="j")
    assert slot.set(A, B, due=T0, live="j", op=slot.op) == first
    assert len(slot.sets()["ready"]) == 1


def test_due_is_exact(slot):
    slot.set("", A)
    late = slot.set(A, B, due=T0 - 5 * SECOND)
    early = slot.set(B, C, due=T0 + SECOND)
    assert slot.look(late[1:15])["due"] == T0 - 5 * SECOND
    assert slot.sets() == {"store": [early[1:15]], "ready": [late[1:15]], "prep": [], "dead": []}
    assert slot.state()[2] == NO_ID  # nobody waits for them


@pytest.mark.parametrize("end", ["ack", "cancel", "bury", "last", "expires", "purge"])
def test_whatever_ends_an_occurrence_says_so(slot, end):
    job = slot.occurrence(**{"last": {"retries": 0, "ttr": SECOND}, "expires": {"ttl": SECOND}}.get(end, {}))
    assert slot.agenda().keys() <= {"t", "@p"}
    if end in ("ack", "bury", "last"):
        assert [got[0] for got in slot.got()] == [job]
    slot.now += 2 * SECOND if end in ("last", "expires") else 5
    if end in ("last", "expires"):
        said = slot.tend()
    elif end == "purge":
        said = slot.call("purge", 100, "", "r", "", "")
    else:
        said = slot.edit(what({"ack": "A", "cancel": "C", "bury": "B"}[end], job, {"cancel": "0", "bury": "k"}.get(end, ""),
                              None if end == "cancel" else 1))
    assert said[0] == b"OK" and said[3].endswith(OWNER), said
    assert slot.agenda()[f"!{job}p"] == slot.now
    # The owner takes note of it, once.
    slot.set(B, C, entry=f"!{job}p")
    assert slot.state()[2] == NO_ID and f"!{job}p" not in slot.agenda()


def test_what_does_not_end_says_nothing(slot):
    job = slot.occurrence()
    slot.got()
    said = slot.edit(what("R", job, "d" + "%014x" % SECOND + "k", 1))
    assert said[3] == b"" and slot.agenda().keys() == {"t"}
    slot.now += SECOND
    slot.got(lease=2)
    slot.do("B", job, "k", 2)
    agenda = slot.agenda()
    slot.now += SECOND
    slot.do("K", job, "0")  # it lives again, but has told its end
    slot.got(lease=3)
    slot.do("A", job, "", 3)
    assert slot.agenda()[f"!{job}p"] > agenda[f"!{job}p"]  # and once more, which nobody waits for
    plain = slot.put()
    assert slot.edit(what("C", plain, "0"))[3] == b""


def test_a_new_tag_leaves_the_schedule(slot):
    job = slot.occurrence()
    said = slot.edit(what("E", job, "20" + "d" + NO_ID * 2 + "00000400" + NO_ID * 2), "", "")
    assert said[0] == b"OK" and said[4][:1] == b"O", said
    assert slot.edit(what("C", job, "0"))[3] == OWNER


def test_a_topic_that_takes_none(slot):
    slot.set("", A, nxt=T0)
    slot.conf(1, **{"in": T0 + 10 * SECOND})
    assert slot.set(A, B, due=T0, entry="@p") == "P"
    assert slot.state()[:2] == (A, "h") and slot.agenda()["@p"] == T0 + SECOND
    slot.conf(2, **{"in": "", "max_jobs": 1})
    slot.put()
    assert slot.set(A, B, due=T0, entry="@p") == "F"
    slot.conf(3, max_jobs="")
    assert slot.set(A, B, due=T0, entry="@p")[0] == "O" and slot.state()[:2] == (B, "-")


def test_a_clock_that_is_off_makes_no_tick(slot):
    slot.set("", A, nxt=T0)
    slot.redis("HSET", slot.key("m"), "tmax", T0 + 5 * SECOND)
    args = ["s", "p", A, B, "-", "n", "s1", "", "", "@p", 0, SLOT]
    assert slot.schedule(*args)[0] == b"CLOCK" and slot.state()[0] == A


def test_run_later_and_gone(slot):
    slot.set("", A, nxt=T0)
    said = slot.schedule("r", "p", "", *[""] * 7, 0, SLOT, pushed({}, ("t",)), "now")
    assert said[4][:1] == b"O" and slot.state()[0] == A and len(slot.sets()["ready"]) == 1
    slot.schedule("l", "p", "", "@p", 7 * SECOND, topics=())
    assert slot.agenda()["@p"] == T0 + 7 * SECOND
    assert slot.schedule("g", "p", B, "", topics=())[4] == b"C"
    assert slot.schedule("g", "p", "*", "", topics=())[4][:1] == b"O"
    assert slot.state() is None and "@p" not in slot.agenda()
    assert slot.redis("EXISTS", slot.key("s")) == 0


def test_roster(slot):
    ok, number, before = slot.roster("p", A, SLOT)
    assert (ok, before) == ("OK", NO_ID) and int(number, 16) % 1024 == SLOT
    assert slot.roster("p", A, SLOT) == [ok, number, before]
    assert slot.roster("c", B, number) == ["OK"]
    stands = slot.redis("HGET", "tarry:{meta}:roster", "p").decode()
    slot.roster("p", C, SLOT)  # somebody sets it again
    assert slot.roster("d", B, stands) == ["OK"]  # whose end was begun before
    assert (slot.redis("HGET", "tarry:{meta}:roster", "p") or b"")[:14].decode() == number
    # To another slot: the number before is known until it is there.
    _, moved, before = slot.roster("p", A, 7)
    assert before == number and int(moved, 16) > int(number, 16) and int(moved, 16) % 1024 == 7
    assert slot.roster("p", B, 7) == ["OK", moved, number]
    assert slot.roster("h", "", SLOT) == ["OK"] and slot.roster("h", "", 9) == ["CHANGED"]
    assert slot.roster("c", B, number) == ["CHANGED"]
    assert slot.roster("c", B, moved) == ["OK"] and slot.roster("p", C, 7)[2] == NO_ID
    assert slot.roster("h", "", SLOT) == ["CHANGED"]
    assert slot.redis("ZRANGE", "tarry:{meta}:order", 0, -1, "WITHSCORES") == [b"p", str(int(moved, 16)).encode()]
    slot.roster("d", "", slot.redis("HGET", "tarry:{meta}:roster", "p"))
    assert slot.redis("EXISTS", "tarry:{meta}:roster", "tarry:{meta}:order") == 0
    assert slot.roster("h", A, 7)[0] == "OK"  # its owner has met it: it is known again
    assert slot.redis("HGET", "tarry:{meta}:roster", "p")


MUTATIONS = {
    "a tick does not look at the stamp":
        ("schedule", "sub(is, 1, 30) ~= stamp and stamp ~= '*' and what ~= 'r'", "false", test_each_tick_once),
    "a tick keeps no answer":
        ("schedule", "commit(list, remember(vers, nodes, pack({said})), told)", "commit(list, nil, told)",
         test_a_repeat_is_answered_as_before),
    "an ack tells no end": ("edit", "ends[#ends + 1], ends[#ends + 2]", "local _, _",
                            lambda slot: test_whatever_ends_an_occurrence_says_so(slot, "ack")),
    "the owner is not told": ("edit", "{}, {}, #ends > 0", "{}, {}, false",
                              lambda slot: test_whatever_ends_an_occurrence_says_so(slot, "ack")),
    "a new tag ends the wait": ("edit", "set_texts(j, tag, key, text, plan)", "set_texts(j, tag, key, text, '')",
                                test_a_new_tag_leaves_the_schedule),
    "a name goes though it was set again": ("roster", "if is == ARGV[4] then", "if is then", test_roster),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_mutations_are_noticed(slot, name):
    script, old, new, test = MUTATIONS[name]
    assert SCRIPTS[script].count(old) == 1, f"{script}.lua says that no more"
    slot.scripts = {**SCRIPTS, script: SCRIPTS[script].replace(old, new)}
    with pytest.raises(AssertionError):
        test(slot)
