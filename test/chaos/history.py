"""What was asked and what was answered: one line of JSON for each, in a file, and in memory as calls.

A call is invoked, and then it is ok (done, for certain), fail (not done, for certain) or unknown. Times
are seconds of the harness' own monotonic clock since the run began. Events that are no calls (faults,
clocks, samples) stand between them, with the name of their kind as `is`.
"""
import itertools
import json
import math
import threading
import time


class Call:
    """One request. `args` is what was asked, `got` what was answered."""

    def __init__(self, number, op, begin, args):
        self.number, self.op, self.begin, self.args = number, op, begin, args
        self.end = math.inf  # an unknown one may still be done, any time later
        self.how = "unknown"
        self.got = {}

    def close(self, end, how, got):
        self.how, self.got = how, got
        self.end = math.inf if how == "unknown" else end

    def __repr__(self):
        return f"#{self.number} {self.op} {self.args} {self.begin:.3f}..{self.end:.3f} {self.how} {self.got}"


class History:
    """Of one run, while it goes on. Threads: any."""

    def __init__(self, path, began=None):
        self.began = time.monotonic() if began is None else began
        self.file = open(path, "w", encoding="utf-8")
        self.lock = threading.Lock()
        self.numbers = itertools.count(1)
        self.calls, self.events = [], []

    def now(self):
        return time.monotonic() - self.began

    def write(self, line):
        with self.lock:
            if not self.file.closed:
                self.file.write(json.dumps(line) + "\n")

    def invoke(self, op, **args):
        call = Call(next(self.numbers), op, self.now(), args)
        with self.lock:
            self.calls.append(call)
        self.write({"t": round(call.begin, 6), "n": call.number, "is": "invoke", "op": op, **args})
        return call

    def done(self, call, how, **got):
        """how: ok, fail or unknown."""
        end = self.now()
        call.close(end, how, got)
        self.write({"t": round(end, 6), "n": call.number, "is": how, **got})

    def event(self, kind, /, **what):
        """Something that is no call. Gives it; `t` is when."""
        made = {"t": what.pop("t", None) or round(self.now(), 6), "is": kind, **what}
        with self.lock:
            self.events.append(made)
        self.write(made)
        return made

    def close(self):
        with self.lock:
            self.file.close()


def load(path):
    """(calls, events) of a history file."""
    calls, events = {}, []
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            said = json.loads(line)
            at, kind, number = said.pop("t"), said.pop("is"), said.pop("n", None)
            if number is None:
                events.append({"t": at, "is": kind, **said})
            elif kind == "invoke":
                calls[number] = Call(number, said.pop("op"), at, said)
            else:
                calls[number].close(at, kind, said)
    return list(calls.values()), events
