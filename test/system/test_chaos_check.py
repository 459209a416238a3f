"""The judge of test/chaos: histories made by hand, good ones and one for each way to break a promise."""
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "chaos"))
from check import Clocks, Judge, slot_of  # noqa: E402
from history import Call, History, load  # noqa: E402
from monitor import without  # noqa: E402

TOPIC = "t"


class Story:
    """Calls and events, written down by hand. Times are seconds."""

    def __init__(self):
        self.calls, self.events = [], []

    def call(self, op, begin, end, how="ok", got=None, **args):
        call = Call(len(self.calls) + 1, op, begin, {"topic": TOPIC, "port": "http", **args})
        call.close(end, how, got or {})
        self.calls.append(call)
        return self

    def push(self, begin, end, id_="1", body="a", how="ok", **args):
        got = {"id": id_, "made": args.pop("made", True), "kept": args.pop("kept", False)} if how == "ok" else {}
        return self.call("push", begin, end, how, got, **{"body": body, "delay": 0, "ttr": 4, **args})

    def handed(self, begin, end, id_="1", body="a", lease="l1", **args):
        return self.call("reserve", begin, end, got={"jobs": [{"id": id_, "body": body, "lease": lease}]}, **args)

    def ack(self, begin, end, how="ok", id_="1", lease="l1", **args):
        return self.call("ack", begin, end, how, id=id_, lease=lease, **args)

    def cancel(self, begin, end, how="ok", id_="1", **args):
        return self.call("cancel", begin, end, how, id=id_, **args)

    def event(self, kind, t=0.0, /, **what):
        self.events.append({"t": t, "is": kind, **what})
        return self

    def undone(self, begin, end):
        return self.event("undo", slots=[slot_of(TOPIC)], begin=begin, end=end, server="r1", gap=1)

    def wrong(self):
        return [kind for kind, _ in Judge(self.calls, self.events).run()]


def whole():
    """One job, from its push to its ack."""
    return Story().push(0, 1).handed(1, 2).ack(3, 4)


GOOD = {
    "pushed, handed out, acked": whole(),
    "cancelled": Story().push(0, 1).cancel(2, 3),
    "an ack without an answer": Story().push(0, 1).handed(1, 2).ack(3, 4, "unknown"),
    "a push without an answer that came": Story().push(0, 1, how="unknown").handed(1, 2).ack(3, 4),
    "a push without an answer that never came": Story().push(0, 1, how="unknown"),
    "a refused push": Story().push(0, 1, how="fail"),
    "handed out again after its lease": Story().push(0, 1).handed(1, 2).handed(5.1, 5.2, lease="l2").ack(6, 7, lease="l2"),
    "the second one waited for long": Story().push(0, 1).handed(1, 2).handed(2, 6, lease="l2").ack(6, 7, lease="l2"),
    "released, and handed out": whole().push(10, 11, "2", "b").handed(11, 12, "2", "b").call(
        "release", 12, 13, id="2", lease="l1", delay=1).handed(13, 14, "2", "b", "l2").ack(14, 15, "ok", "2", "l2"),
    "touched": Story().push(0, 1).handed(1, 2).call("touch", 4, 4.5, id="1", lease="l1").ack(7, 8),
    "its connection broke": Story().push(0, 1).handed(1, 2, lease="c", port="beanstalk").event(
        "closed", conn="c", since=2).handed(2.5, 3, lease="l2").ack(3, 3.5, lease="l2"),
    "a delete of a ready job by who had it": Story().push(0, 1).handed(1, 2, lease="c", port="beanstalk").handed(
        6, 6.5, lease="l2").call("release", 7, 7.5, id="1", lease="l2", delay=0).ack(8, 9, lease="c", port="beanstalk"),
    "a key was replaced": Story().push(0, 1, key="k").push(2, 3, body="b", key="k", made=False).handed(
        3, 4, body="b").ack(5, 6),
    "released, replaced, handed out": Story().push(0, 1, key="k").handed(1, 2).call(
        "release", 2, 2.1, id="1", lease="l1", delay=9).push(2.2, 2.3, body="b", key="k", made=False).handed(
            3, 4, body="b", lease="l2").ack(5, 6, lease="l2"),
    "a key was kept": Story().push(0, 1, key="k").push(2, 3, body="b", key="k", made=False, kept=True).handed(
        3, 4).ack(5, 6),
    "a key was free again": Story().push(0, 1, key="k").cancel(2, 3).push(4, 5, "2", "b", key="k").cancel(6, 7, id_="2"),
    "a failover undid the push": Story().push(0, 1).undone(0.9, 1.1),
    "a failover undid the ack": whole().handed(5, 6, lease="l2").ack(6, 7, lease="l2").undone(3.5, 4.5),
    "a failover undid the lease": Story().push(0, 1).handed(1, 2).handed(2.5, 3, lease="l2").ack(
        4, 5, lease="l2").undone(1.5, 2.5),
    "a primary's clock was ahead": Story().event("clock", 0.5, who="r1", offset=3).push(
        0, 0.1, delay=10).handed(7.2, 7.3).ack(8, 9),
    "a clock was ahead when it came": Story().push(0, 1).handed(1, 2).event(
        "clock", 2, who="r1", offset=4).handed(2.5, 3, lease="l2").ack(3, 4, lease="l2"),
    "an ack by a clock that was behind": Story().push(0, 1).handed(1, 2).event(
        "clock", 3, who="r1", offset=-3600).ack(7, 8),
    "epochs rise": whole().event("epochs", 1, slots={"7": [1, "n1"]}).event("epochs", 2, slots={"7": [2, "n2"]}),
}

BAD = {
    "never came": ("lost", Story().push(0, 1)),
    "came, and was not finished": ("lost", Story().push(0, 1).handed(1, 2)),
    "an ack that was refused ends nothing": ("lost", Story().push(0, 1).handed(1, 2).ack(3, 4, "fail")),
    "lost, and undone was another one": ("lost", Story().push(0, 1).undone(2, 3)),
    "lost, and undone was another slot": ("lost", Story().push(0, 1).event(
        "undo", slots=[slot_of(TOPIC) + 1], begin=0, end=9, server="r1", gap=1)),
    "before its delay": ("early", Story().push(0, 1, delay=5).handed(4, 4.9).ack(4.95, 5)),
    "before its release's delay": ("early", Story().push(0, 1).handed(1, 2).call(
        "release", 2, 3, id="1", lease="l1", delay=2).handed(3, 3.9, lease="l2").ack(4, 5, lease="l2")),
    "earlier than the clock was ahead": ("early", Story().event(
        "clock", 0.5, who="r1", offset=1).push(0, 0.1, delay=10).handed(7, 8).ack(8, 9)),
    "a clock an hour ahead is noticed": ("early", Story().event(
        "clock", 0.5, who="r1", offset=3600).push(0, 0.1, delay=60).handed(7, 8).ack(8, 9)),
    "a node's clock was ahead": ("early", Story().event(
        "clock", 0.5, who="n1", offset=3, kind="is nothing").push(0, 0.1, delay=10).handed(7.2, 7.3).ack(8, 9)),
    "after its ack": ("back", whole().handed(5, 6, lease="l2")),
    "after its cancel": ("back", Story().push(0, 1).cancel(2, 3).handed(3, 4)),
    "after an ack that another failover undid": ("back", whole().handed(9, 9.5, lease="l2").undone(5, 6)),
    "acked twice": ("twice", whole().ack(3.5, 4.5)),
    "acked and cancelled": ("twice", whole().cancel(3.5, 4.5)),
    "an id twice": ("twice", whole().push(10, 11, "1", "b")),
    "an id twice after a failover": ("twice", whole().push(10, 11, "1", "b").undone(0, 20)),
    "a key twice": ("twice", Story().push(0, 1, key="k").push(2, 3, "2", "b", key="k").cancel(4, 5).cancel(
        6, 7, id_="2")),
    "two at once": ("overlap", Story().push(0, 1).handed(1, 2).handed(2.5, 3, lease="l2").ack(4, 4.5, lease="l2")),
    "two at once, after a touch": ("overlap", Story().push(0, 1).handed(1, 2).call(
        "touch", 4, 4.5, id="1", lease="l1").handed(6, 6.5, lease="l2").ack(7, 8, lease="l2")),
    "two at once, one of the beanstalk port": ("overlap", Story().push(0, 1).handed(
        1, 2, lease="c", port="beanstalk").event("closed", conn="c", since=4.5).handed(2.5, 3, lease="l2").ack(
            4, 4.5, lease="l2")),
    "an ack by the old lease": ("fenced", Story().push(0, 1).handed(1, 2).handed(6, 6.5, lease="l2").ack(7, 8)),
    "a touch by the old lease": ("fenced", Story().push(0, 1).handed(1, 2).handed(6, 6.5, lease="l2").call(
        "touch", 7, 8, id="1", lease="l1").ack(8, 9, lease="l2")),
    "an ack by the old lease, and a clock was behind": ("fenced", Story().push(0, 1).handed(1, 2).handed(
        6, 6.5, lease="l2").event("clock", 3, who="r1", offset=-3600).ack(7, 8)),
    "an ack after the lease ended": ("fenced", Story().push(0, 1).handed(1, 2).ack(6.5, 7)),
    "nobody pushed it": ("stranger", whole().handed(5, 6, "2", "x").ack(6, 7, id_="2")),
    "of another topic": ("stranger", Story().push(0, 1).handed(1, 2, topic="u")),
    "its push was refused": ("stranger", Story().push(0, 1, how="fail").handed(1, 2).ack(3, 4)),
    "its push kept another one": ("stranger", Story().push(0, 1, key="k").push(
        2, 3, body="b", key="k", made=False, kept=True).handed(3, 4, body="b").ack(5, 6)),
    "it was replaced": ("stranger", Story().push(0, 1, key="k").push(2, 3, body="b", key="k", made=False).handed(
        3, 4).ack(5, 6)),
    "not found, and there": ("denied", Story().push(0, 1).call(
        "cancel", 2, 3, "fail", {"code": "not_found"}, id="1").handed(4, 5).ack(6, 7)),
    "an epoch went back": ("epoch", whole().event("epochs", 1, slots={"7": [2, "n1"]}).event(
        "epochs", 2, slots={"7": [1, "n1"]})),
    "one epoch, two owners": ("epoch", whole().event("epochs", 1, slots={"7": [2, "n1"]}).event(
        "epochs", 2, slots={"7": [2, "n2"]})),
    "the harness saw it": ("stuck", whole().event("wrong", kind="stuck", words="nothing moves")),
}


@pytest.mark.parametrize("name", GOOD)
def test_a_good_one(name):
    assert GOOD[name].wrong() == []


@pytest.mark.parametrize("name", BAD)
def test_a_bad_one(name):
    kind, story = BAD[name]
    assert kind in story.wrong()


def test_a_history_is_read_as_it_was_written(tmp_path):
    made = History(tmp_path / "h")
    call = made.invoke("push", topic=TOPIC, body="a", delay=0, ttr=1, port="http")
    made.done(call, "ok", id="1")
    made.invoke("push", topic=TOPIC, body="b", delay=0, ttr=1, port="http")
    made.event("undo", slots=[1], begin=0, end=1, server="r1", gap=0)
    made.close()
    calls, events = load(tmp_path / "h")
    assert [(c.op, c.how, c.args["body"]) for c in calls] == [("push", "ok", "a"), ("push", "unknown", "b")]
    assert calls[0].got == {"id": "1"} and calls[1].end == float("inf")
    assert [e["is"] for e in events] == ["undo"] and Judge(calls, events).run()[0][0] == "lost"


def test_lateness_before_during_and_after():
    judge = Judge(whole().push(10, 11, "2", "b").handed(10.5, 12, "2", "b").ack(12, 13, id_="2").push(
        20, 21, "3", "c").handed(20, 23, "3", "c").ack(23, 24, id_="3").event("fault", begin=9, end=15).calls,
        [{"t": 15, "is": "fault", "name": "x", "begin": 9, "end": 15}])
    assert judge.late() == {"before": [1.0], "during": [1.0], "after": [2.0]}


def test_how_far_clocks_may_differ():
    clocks = Clocks([{"t": 10, "is": "clock", "who": "r1", "offset": -2}, {"t": 20, "is": "clock", "who": "r1", "offset": 0},
                     {"t": 15, "is": "clock", "who": "r2", "offset": 1}])
    assert clocks.spread(0, 9) == 0 and clocks.spread(11, 12) == 2 and clocks.spread(16, 17) == 3
    assert clocks.spread(30, 40) == 1 and clocks.ahead(30, 40) and not clocks.ahead(11, 12)


def test_what_a_server_could_not_answer_is_not_undone():
    assert without(0, 10, [(2, 4), (9, 12)]) == [(0, 2), (4, 9)]
