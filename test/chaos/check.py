"""The judge of a history: which promises were broken, and figures.

Nothing here asks a server; a history is all it needs, so hand-made ones test it (test_chaos_check.py).
All comparisons are between moments of one clock, the harness', and only what is certain counts: a call
took effect at some moment between its begin and its end; a lease that came with an answer was held from
that answer until its time ran out, counted from the question.

    lost        pushed for certain, and neither ended nor handed out by the end of the run
    early       handed out before it was due, or before a release's delay was over
    back        handed out after an ack or a cancel that was answered with success
    twice       ended twice with success; or one id for two pushes; or two live jobs with one key
    overlap     handed out while somebody held it
    fenced      an ack, release or touch by a lease that was over succeeded
    stranger    a body that nobody pushed, or whose push was refused, or that was replaced
    denied      said not to be there, and it was
    epoch       a slot's epoch went back, or has two owners

What Redis alone cannot promise is excused, and counted: `undo` events name slots and the time in which
what their server answered may not have reached the server that followed it. `clock` events declare how
far the clock that decides was off, which is how early a job may be and how short a lease; one of Redis that
is off by more than SKEW_MOST_S must be noticed, and excuses nothing. All else is wrong.
"""
import binascii
import collections
import math

SLOTS = 256
SKEW_MOST_S = 5.2  # the scripts refuse at 5 s from the node's clock
CLOCK_SEEN_S = 0.5  # a call that has read the clock before a step may be done so long after it

Handout = collections.namedtuple("Handout", "call id body lease topic port begin end")


def slot_of(topic):
    return binascii.crc32(topic.encode()) % SLOTS


def percentile(numbers, part):
    ranked = sorted(numbers)
    return ranked[min(len(ranked) - 1, int(len(ranked) * part))] if ranked else None


class Undos:
    """What failovers may have undone."""

    def __init__(self, events):
        self.spans = [(set(e["slots"]), e["begin"], e["end"]) for e in events if e["is"] == "undo"]

    def has(self, topic, *calls):
        """May one of these, of jobs of a topic, have been undone?"""
        slot = slot_of(topic)
        return any(slot in slots and call.begin <= end and call.end >= begin
                   for slots, begin, end in self.spans for call in calls)

    def before(self, slot, moment):
        return any(slot in slots and begin <= moment for slots, begin, _ in self.spans)


class Clocks:
    """How far clocks of Redis servers were off, and when."""

    def __init__(self, events):
        self.spans = []  # offset, from, to
        self.most = math.inf if any(e.get("believed") for e in events) else SKEW_MOST_S
        open_ = {}
        for e in events:
            if e["is"] != "clock" or e.get("kind", "decides") != "decides":
                continue  # one by which nothing is handed out, a node's for one
            offset, since = open_.pop(e["who"], (0, 0))
            self.spans.append((offset, since, e["t"] + CLOCK_SEEN_S))
            open_[e["who"]] = (e["offset"], e["t"])
        self.spans += [(offset, since, math.inf) for offset, since in open_.values()]

    def spread(self, begin, end):
        """By how much two looks at the time between these moments may differ."""
        seen = [offset for offset, since, to in self.spans
                if since <= end and to >= begin and abs(offset) <= self.most] + [0]
        return max(seen) - min(seen)

    def ahead(self, begin, end):
        """Was one of them ahead then? What was made due by it may be that late."""
        return any(offset > 0 and since <= end and to >= begin for offset, since, to in self.spans)

    def behind(self, begin, end):
        """Was one of them behind then? By that one leases go on, and nothing is handed out."""
        return any(offset < 0 and since <= end and to >= begin for offset, since, to in self.spans)


class Job:
    """All that is known of one id."""

    def __init__(self, topic):
        self.topic = topic
        self.pushes, self.handed, self.ends, self.calls = [], [], [], []


class Judge:
    def __init__(self, calls, events):
        self.calls, self.events = calls, events
        self.undos, self.clocks = Undos(events), Clocks(events)
        self.wrong = []  # (kind, words)
        self.counts = collections.Counter()
        self.pushes = {}  # body -> call
        self.jobs = {}    # id -> Job
        self.recovered = set()  # bodies whose push was not answered, and which came
        self.closed = {e["conn"]: e["since"] for e in events if e["is"] == "closed"}
        self.read()

    def say(self, kind, words):
        self.wrong.append((kind, words))

    def job(self, id_, topic):
        return self.jobs.setdefault(id_, Job(topic))

    # ---- reading ----

    def read(self):
        for call in self.calls:
            if call.op == "push":
                self.pushes[call.args["body"]] = call
        for call in self.calls:
            if call.op == "push":
                if call.how == "ok":
                    self.job(call.got["id"], call.args["topic"]).pushes.append(call)
            elif call.op == "reserve":
                for got in call.got.get("jobs", ()) if call.how == "ok" else ():
                    self.handed(call, got)
            else:
                job = self.job(call.args["id"], call.args["topic"])
                job.calls.append(call)
                if call.op in ("ack", "cancel"):
                    job.ends.append(call)

    def handed(self, call, got):
        """A job came. Who pushed it?"""
        topic = call.args["topic"]
        push = self.pushes.get(got["body"])
        if push is None or push.args["topic"] != topic:
            self.say("stranger", f"{got} of {topic}: nobody pushed it")
            return
        if push.how == "fail" or (push.how == "ok" and push.got.get("kept")):
            self.say("stranger", f"{got}: its push was refused: {push}")
        if push.how == "unknown":
            self.recovered.add(got["body"])
        elif push.how == "ok" and push.got["id"] != got["id"] and not push.got.get("kept"):
            self.say("stranger", f"{got}: it was pushed as {push.got['id']}")
        self.job(got["id"], topic).handed.append(
            Handout(call, got["id"], got["body"], got["lease"], topic, call.args["port"], call.begin, call.end))

    # ---- leases ----

    def ttr(self, handout):
        return self.pushes[handout.body].args["ttr"]

    def by_lease(self, handout):
        """Calls that named this lease, from this hand-out on (a beanstalk connection is one lease)."""
        return [c for c in self.jobs[handout.id].calls
                if c.args.get("lease") == handout.lease and c.begin >= handout.end]

    def held_until(self, handout):
        """It was held at least until then."""
        end = handout.begin + self.ttr(handout)
        for call in self.by_lease(handout):
            if call.op == "touch" and call.how == "ok" and call.begin < end:
                end = max(end, call.begin + self.ttr(handout))
            elif call.op != "touch":
                return min(end, call.begin)
        for call in self.jobs[handout.id].ends:
            if call.args.get("force") and call.end >= handout.begin:
                end = min(end, max(call.begin, handout.begin))
        if handout.port == "beanstalk":  # it ends with its connection, which may have broken any time
            end = min(end, self.closed.get(handout.lease, math.inf))
        return end

    def over_at(self, handout):
        """It had certainly run out by then."""
        end = handout.end + self.ttr(handout)
        for call in self.by_lease(handout):
            if call.op == "touch" and call.how != "fail":
                end = max(end, call.end + self.ttr(handout))
        return end

    # ---- promises ----

    def run(self):
        for id_, job in self.jobs.items():
            self.check_ids(id_, job)
            self.check_ends(id_, job)
            self.check_overlap(id_, job)
            self.check_fences(id_, job)
            self.check_denied(id_, job)
            self.check_lost(id_, job)
            for handout in job.handed:
                self.check_early(handout, job)
                self.check_version(handout, job)
        self.check_keys()
        self.check_epochs()
        for e in self.events:
            if e["is"] == "wrong":
                self.say(e["kind"], e["words"])
        return self.wrong

    def check_ids(self, id_, job):
        made = [p for p in job.pushes if not p.got.get("kept") and p.got.get("made", True)]
        if len(made) > 1:
            self.say("twice", f"id {id_} was given to {made}")

    def check_ends(self, id_, job):
        done = [e for e in job.ends if e.how == "ok"]
        sure = [e for e in done if not self.undos.has(job.topic, e)]
        if len(sure) > 1:
            self.say("twice", f"{id_} was ended by {sure}")
        for end in done:
            for h in job.handed:
                if h.begin >= end.end:
                    if end in sure:
                        self.say("back", f"{id_} handed out by {h.call} after {end}")
                    else:
                        self.counts["ends undone"] += 1

    def check_overlap(self, id_, job):
        ranked = sorted(job.handed, key=lambda h: h.begin)
        if len(ranked) > 1:
            self.counts["handed out again"] += len(ranked) - 1
        for a in ranked:
            until = self.held_until(a)
            for b in ranked:
                if b is a or b.begin < a.end or b.end > until - self.clocks.spread(a.begin, b.end):
                    continue
                if self.undos.has(job.topic, a, b, *self.by_lease(a)):
                    self.counts["overlaps undone"] += 1
                else:
                    self.say("overlap", f"{id_}: {a.call} held it until {until:.3f}, and {b.call} got it")

    def check_fences(self, id_, job):
        for call in job.calls:
            if call.how != "ok" or call.op not in ("ack", "release", "touch") or not call.args.get("lease"):
                continue
            mine = [h for h in job.handed if h.lease == call.args["lease"] and h.end <= call.begin]
            if not mine:
                continue
            own = max(mine, key=lambda h: h.end)
            beanstalk = own.port == "beanstalk"  # whose delete of a ready job is a cancel
            for h in job.handed:
                if h.lease != own.lease and h.begin >= own.end and h.end <= call.begin and (
                        not beanstalk or call.end <= self.held_until(h)):
                    if not self.undos.has(job.topic, own, h, call):
                        self.say("fenced", f"{id_}: {call} succeeded, though {h.call} had it by then")
            over = self.over_at(own)
            if not beanstalk and call.begin > over + self.clocks.spread(own.begin, call.end):
                if not self.clocks.behind(own.begin, call.end) and not self.undos.has(job.topic, own, call):
                    self.say("fenced", f"{id_}: {call} succeeded, though its lease was over at {over:.3f}")

    def check_denied(self, id_, job):
        for call in job.calls:
            if call.got.get("code") != "not_found" or call.args["port"] == "beanstalk":
                continue
            if not any(p.end <= call.begin for p in job.pushes):
                continue
            later = [h.call for h in job.handed if h.begin >= call.end] + [
                e for e in job.ends if e.how == "ok" and e.begin >= call.end]
            if later and not self.undos.has(job.topic, call, *job.pushes, *job.ends):
                self.say("denied", f"{id_}: {call}, and it was there: {later[0]}")

    def check_lost(self, id_, job):
        if not [p for p in job.pushes if not p.got.get("kept")]:
            return
        if any(e.how != "fail" for e in job.ends):
            self.counts["ended"] += 1
        elif self.undos.has(job.topic, *job.pushes):
            self.counts["pushes undone"] += 1
        else:
            self.say("lost", f"{id_}: {job.pushes[0]}, handed out {len(job.handed)} times")

    def due(self, handout, job):
        """Not before then, for certain."""
        push = self.pushes[handout.body]
        due = push.begin + push.args["delay"]
        for call in job.calls:
            if call.op == "fire" and call.begin <= handout.end:
                return call.begin
            if (call.op == "release" and call.how == "ok" and push.end <= call.begin  # it was not replaced since
                    and call.end <= handout.begin):
                if not self.undos.has(job.topic, call):
                    due = max(due, call.begin + call.args["delay"])
        return due

    def check_early(self, handout, job):
        due = self.due(handout, job)
        early = due - handout.end - self.clocks.spread(self.pushes[handout.body].begin, handout.end)
        if early > 0 and not self.undos.has(job.topic, *job.pushes, handout):
            self.say("early", f"{handout.id}: {handout.call} got {handout.body} {early:.6f} s before it was due")

    def check_version(self, handout, job):
        mine = self.pushes[handout.body]
        for other in job.pushes:
            if (other is not mine and not other.got.get("kept") and other.begin >= mine.end
                    and handout.begin >= other.end and not self.undos.has(job.topic, other)):
                self.say("stranger", f"{handout.id}: {handout.call} got {handout.body}, which {other} had replaced")

    def check_keys(self):
        """Two jobs with one key, of which the first was certainly alive while the second was pushed."""
        by_key = collections.defaultdict(list)
        for id_, job in self.jobs.items():
            for push in job.pushes:
                if push.args.get("key"):
                    by_key[job.topic, push.args["key"]].append((id_, job, push))
        for all_ in by_key.values():
            for id_, job, push in all_:
                ended = min((e.begin for e in job.ends if e.how != "fail"), default=math.inf)
                for other_id, other, later in all_:
                    if (other_id != id_ and later.begin >= push.end and later.end <= ended
                            and not self.undos.has(job.topic, *job.pushes, *other.pushes, later)):
                        self.say("twice", f"{later} made {other_id}, while {id_} of {push} was alive")

    def check_epochs(self):
        last = {}
        for e in self.events:
            for slot, (epoch, owner) in e["slots"].items() if e["is"] == "epochs" else ():
                old_epoch, old_owner = last.get(slot, (0, None))
                last[slot] = (epoch, owner)
                if self.undos.before(int(slot), e["t"]):
                    continue
                if epoch < old_epoch or (epoch == old_epoch and old_owner not in (None, owner)):
                    self.say("epoch", f"slot {slot}: {old_epoch} of {old_owner}, then {epoch} of {owner}")

    # ---- figures ----

    def late(self):
        """Lateness in seconds of first hand-outs to somebody who waited: {before, during, after: [...]}."""
        spans = [(e["begin"], e["end"]) for e in self.events if e["is"] == "fault"]
        first = min((begin for begin, _ in spans), default=math.inf)
        out = {"before": [], "during": [], "after": []}
        for job in self.jobs.values():
            if not job.handed:
                continue
            h = min(job.handed, key=lambda h: h.end)
            push = self.pushes[h.body]
            if push.how != "ok" or self.clocks.ahead(push.begin, h.end):
                continue
            due = push.end + push.args["delay"]
            when = ("before" if h.end < first else
                    "during" if any(due <= end and h.end >= begin for begin, end in spans) else "after")
            out[when].append(max(0.0, h.end - max(due, h.begin)))
        return out

    def figures(self):
        """All that is counted, for the report."""
        self.counts["unknown pushes that came out"] = len(self.recovered)
        hows = collections.Counter(f"{c.op} {c.how}" for c in self.calls)
        late = {when: {"jobs": len(all_), "p50_ms": ms(percentile(all_, 0.5)), "p99_ms": ms(percentile(all_, 0.99)),
                       "most_ms": ms(max(all_, default=None))} for when, all_ in self.late().items()}
        return {"calls": dict(sorted(hows.items())), "counts": dict(sorted(self.counts.items())), "late": late}


def ms(seconds):
    return None if seconds is None else round(seconds * 1000, 1)
