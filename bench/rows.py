"""What is measured: each row of the goals that the beanstalk port can meet, its runs and its verdict.

A row has cases, run in turn, again and again; then `judge` compares medians. A case is a function
of the Bench (see `run`) that gives a dict of figures.
"""
import statistics
import time

from servers import Server

RECORD = 140  # bytes of a put in the log, about; for the disk's limit


class Goal:
    """One comparison: `value` beside what is wanted."""

    def __init__(self, text, value, wanted, least=True, unit="×"):
        self.text, self.value, self.wanted, self.least, self.unit = text, value, wanted, least, unit

    @property
    def met(self):
        return self.value >= self.wanted if self.least else self.value <= self.wanted

    def words(self):
        sign = "≥" if self.least else "≤"
        if self.value != self.value:
            return f"{self.text}: not measured"
        if self.wanted is None:
            return f"{self.text}: {self.value:.2f} {self.unit}"
        return (f"{self.text}: **{self.value:.2f} {self.unit}**, goal {sign} {self.wanted:.3g} "
                f"{self.unit}: {'met' if self.met else '**not met**'}")


def at_least(text, value, wanted, unit="×"):
    return Goal(text, value, wanted, True, unit)


def at_most(text, value, wanted, unit="×"):
    return Goal(text, value, wanted, False, unit)


def only(text, value, unit="×"):
    """For comparison: no goal, or one that is not for this size."""
    return Goal(text, value, None, True, unit)


class Results:
    """{case: [figures of each repetition]}."""

    def __init__(self):
        self.of = {}

    def add(self, case, figures):
        self.of.setdefault(case, []).append(figures)

    def all(self, case, key):
        return [float(f[key]) for f in self.of.get(case, []) if key in f]

    def median(self, case, key):
        found = self.all(case, key)
        return statistics.median(found) if found else float("nan")

    def ratio(self, case, other, key="ops"):
        below = self.median(other, key)
        return self.median(case, key) / below if below else float("nan")

    def cpu_each(self, case):
        """Server CPU, in us for each operation: seconds per million."""
        found = [float(f["server_cpu"]) / max(float(f["jobs"]), 1) * 1e6
                 for f in self.of.get(case, []) if "server_cpu" in f]
        return statistics.median(found) if found else float("nan")


SPEED = [("ops/s", "ops", 1), ("p50 µs", "p50_us", 1), ("p99 µs", "p99_us", 1),
         ("p999 µs", "p999_us", 1)]
LATE = [("late p50 ms", "late_p50_us", 1e3), ("late p99 ms", "late_p99_us", 1e3),
        ("late p999 ms", "late_p999_us", 1e3), ("late max ms", "late_max_us", 1e3)]
START = [("ready ms", "ready_ms", 1)]
FAR = [("RAM B/job", "ram_job", 1), ("disk B/job", "disk_job", 1), ("put/s", "ops", 1),
       *START, ("first job ms", "job_ms", 1)]


class Row:
    """reps: at most so many; long: not in a quick run; columns: (head, key, divisor)."""

    def __init__(self, name, title, cases, judge, columns=None, reps=None, long=False):
        self.name, self.title, self.cases, self.judge = name, title, cases, judge
        self.columns, self.reps, self.long = columns or SPEED, reps, long


# ---- Cases.

def load(server, mode, conns, depth, **flags):
    """A run of bench-load against a fresh server."""
    def case(bench):
        with Server(server, bench.scratch) as s:
            more = {key: value(bench) if callable(value) else value for key, value in flags.items()}
            got = bench.load(s, mode, conns=conns, depth=depth, **more)
            held = s.pending() if mode in ("put", "cycle") else None
            if held is not None and held != (int(got["jobs"]) if mode == "put" else 0):
                got.setdefault("failed", f"holds {held}")
            if s.name.startswith("tarry"):
                got["longest_us"] = s.longest_us()
            return got
    return case


def by_seconds(bench):
    return bench.seconds


def calib(bench):
    return bench.calib()


def put(server, conns, depth):
    return load(server, "put", conns, depth, seconds=by_seconds)


def cycle(server, conns=64, depth=16):
    return load(server, "cycle", conns, depth, seconds=by_seconds)


def burst_once(bench, server, ahead):
    with Server(server, bench.scratch) as s:
        side = None
        if s.proto == "beanstalk":
            side = bench.spawn_load(s, "trickle", delay_start_s=ahead - 4, conns=9, depth=1,
                                    rate=100, seconds=5, tube="side", limit=150)
        got = bench.load(s, "burst", conns=16, depth=16, count=bench.many, ahead=ahead, limit=150)
        if side is not None:
            beside = bench.join_load(side)
            got["side_p99_us"] = beside.get("late_p99_us", "nan")
            got["side_max_us"] = beside.get("late_max_us", "nan")
            if "failed" in beside:
                got.setdefault("failed", f"beside: {beside['failed']}")
        if s.name.startswith("tarry"):
            got["longest_us"] = s.longest_us()
        return got


def burst(server, fill_s):
    """All jobs due in one second; besides, some on another tube, which should not be late. fill_s:
    how long a million puts may take. On a busy machine that may not do: then once more."""
    def case(bench):
        ahead = 4 + round(fill_s * bench.many / 1e6)
        got = burst_once(bench, server, ahead)
        if got.get("failed", "").startswith("filled too slowly"):
            got = burst_once(bench, server, ahead * 4)
        return got
    return case


def trickle(server, background):
    def case(bench):
        with Server(server, bench.scratch) as s:
            got = bench.load(s, "trickle", conns=17, depth=1, rate=1000, limit=200,
                             seconds=bench.trickle_s, background=background(bench))
            got["cpu_share"] = float(got["server_cpu"]) / float(got["secs"])
            return got
    return case


def far(server):
    """Memory and disk for far jobs; then kill -9, and how soon it is back."""
    def case(bench):
        with Server(server, bench.scratch) as s:
            empty = s.rss_bytes()
            got = bench.load(s, "put", conns=16, depth=16, count=bench.far, limit=150)
            one = bench.load(s, "put", conns=1, depth=1, count=1, delay=0)
            if "failed" in one:
                got.setdefault("failed", f"one more: {one['failed']}")
            got["ram_job"] = (s.rss_bytes() - empty) / bench.far
            time.sleep(bench.settle_s)
            got["disk_job"] = s.disk_bytes() / bench.far
            if s.name in ("beanstalkd", "redis"):
                return got
            s.kill()
            since = time.monotonic_ns() // 1000
            s.spawn()
            back = bench.load(s, "first", since=since, limit=120)
            got["ready_ms"], got["job_ms"] = back["ready_ms"], back["job_ms"]
            # On Redis the generator names the jobs, and the last took the first one's name.
            if s.pending() != bench.far + (s.proto == "beanstalk"):
                got.setdefault("failed", f"holds {s.pending()}")
            if "failed" in back:
                got.setdefault("failed", f"first job: {back['failed']}")
            return got
    return case


def start(server):
    """How soon a new server on an empty store answers."""
    def case(bench):
        s = Server(server, bench.scratch)
        try:
            since = time.monotonic_ns() // 1000
            s.spawn()
            until = time.monotonic() + 20
            while not s.answers() and time.monotonic() < until:
                pass
            return {"ready_ms": round((time.monotonic_ns() // 1000 - since) / 1e3, 1)}
        finally:
            s.__exit__()
    return case


def idle(server):
    """Wake-ups of a server with far jobs and nothing to do."""
    def case(bench):
        with Server(server, bench.scratch) as s:
            filled = bench.load(s, "put", conns=16, depth=16, count=bench.far, limit=150)
            time.sleep(bench.settle_s + 25)  # promotion begins after ten idle seconds
            before = s.sleeps()
            time.sleep(bench.idle_s)
            wakes = {"wakes_min": round((s.sleeps() - before) * 60 / bench.idle_s, 2)}
            return {**wakes, **{key: filled[key] for key in ("failed",) if key in filled}}
    return case


def sustained(server, mode="put", plot=None):
    """A long run. plot: name and title of the picture of its put latency."""
    def case(bench):
        with Server(server, bench.scratch) as s:
            more = {"series": bench.scratch / "series"} if plot else {}
            got = bench.load(s, mode, conns=64, depth=16, seconds=bench.sustained_s,
                             limit=bench.sustained_s + 60, **more)
            if s.name.startswith("tarry"):  # the others write to their sockets the same way
                got["logged_mb"] = round(float(got["wchar"]) / 1e6)
            if plot:
                bench.plot(more["series"], *plot)
            return got
    return case


# ---- Verdicts.

def commit_limit(r, in_flight):
    """in_flight / T_commit of the bytes that so many puts have, from the calibration."""
    bytes_each = in_flight * RECORD
    sizes = [4096, 16384, 65536, 262144, 1048576]
    times = [r.median("calib", f"sync{size}_us") for size in sizes]
    best = max(i for i, size in enumerate(sizes) if i == 0 or size <= bytes_each)
    at = times[best]
    if best + 1 < len(sizes) and bytes_each > sizes[best]:
        part = (bytes_each - sizes[best]) / (sizes[best + 1] - sizes[best])
        at += part * (times[best + 1] - times[best])
    return in_flight / (at / 1e6)


def durable_16x1(r):
    t_sync = r.median("calib", "sync4096_us") / 1e6
    t_echo = 1 / r.median("echo", "ops")
    limit = 16 / (t_sync + 16 * t_echo)
    return [
        at_least("tarry always / redis always", r.ratio("tarry always", "redis always"), 2.5),
        at_least("tarry always / beanstalkd -f0", r.ratio("tarry always", "beanstalkd -f0"), 7),
        at_least(f"or: tarry always / (16/(T_sync + 16·t_echo) = {limit:.0f}/s)",
                 r.median("tarry always", "ops") / limit, 0.8),
    ]


def durable_64x16(r):
    limit = commit_limit(r, 1024)
    return [
        at_least("tarry always / redis always", r.ratio("tarry always", "redis always"), 4.5),
        at_least("tarry always / beanstalkd -f0", r.ratio("tarry always", "beanstalkd -f0"), 60),
        at_most(f"no alarm: tarry always / (1024/T_commit = {limit:.0f}/s)",
                r.median("tarry always", "ops") / limit, 1),
    ]


def weak_16x1(r):
    goals = []
    for name in ("tarry never", "tarry 50ms"):
        goals += [
            at_least(f"{name} / echo", r.ratio(name, "echo"), 0.85),
            at_least(f"{name} / beanstalkd", r.ratio(name, "beanstalkd"), 1.3),
            at_most(f"{name} / beanstalkd, server CPU for each put",
                    r.cpu_each(name) / r.cpu_each("beanstalkd"), 0.8),
        ]
    return goals


def weak_64x16(r):
    goals = []
    for name in ("tarry never", "tarry 50ms"):
        goals += [at_least(f"{name} / beanstalkd", r.ratio(name, "beanstalkd"), 7),
                  at_least(f"{name} / redis", r.ratio(name, "redis"), 3.5)]
    return goals


def cycles(r):
    return [
        at_least("tarry never / beanstalkd (stretch 8)", r.ratio("tarry never", "beanstalkd"), 6),
        at_least("tarry never / redis (stretch 2)", r.ratio("tarry never", "redis"), 1.6),
        at_least("tarry always / redis always (stretch 3)",
                 r.ratio("tarry always", "redis always"), 2.2),
    ]


def bursts(r):
    return [
        at_least("tarry never / beanstalkd (stretch 7)", r.ratio("tarry never", "beanstalkd"), 5),
        at_least("tarry never / redis (stretch 2)", r.ratio("tarry never", "redis"), 1.5),
        at_most("longest turn of the loop", r.median("tarry never", "longest_us") / 1e3, 5, "ms"),
        at_most("p99 lateness on another tube", r.median("tarry never", "side_p99_us") / 1e3, 10,
                "ms"),
    ]


def lateness(r):
    allowed = r.median("calib", "timer_p99_us") / 1e3 + 0.25
    goals = []
    for name in ("tarry never", "tarry never, pending"):
        goals += [
            at_most(f"{name}: p50", r.median(name, "late_p50_us") / 1e3, 0.15, "ms"),
            at_most(f"{name}: p99 (timer's p99 + 0.25)", r.median(name, "late_p99_us") / 1e3,
                    allowed, "ms"),
            at_most(f"{name}: max", r.median(name, "late_max_us") / 1e3, 5, "ms"),
        ]
    return goals + [at_most("tarry never / beanstalkd, server CPU",
                            r.ratio("tarry never", "beanstalkd", "cpu_share"), 0.33)]


def tubes(r):
    def cost(name, key):
        return r.cpu_each(f"{name}, {key}") / r.cpu_each(f"{name}, {key} 1")
    return [
        at_most("tarry never, a tube for each job: CPU with 10,000 / with 1",
                cost("tarry never", "switch"), 1.15),
        at_most("tarry never, each connection watches its 625: CPU with 10,000 / with 1",
                cost("tarry never", "share"), 1.15),
        only("beanstalkd, a tube for each job: CPU with 10,000 / with 1",
             cost("beanstalkd", "switch")),
    ]


def fars(r):
    """The goals are for 10 M and more, and memory's needs run files: told, not judged."""
    return [
        only("RAM for each job", r.median("tarry never", "ram_job"), "B"),
        only("disk for each job after idle (goal at 10 M: 170)",
             r.median("tarry never", "disk_job"), "B"),
        only("start: beanstalkd -f50 / tarry never (goal at 10 M: 15)",
             r.ratio("beanstalkd -f50", "tarry never", "ready_ms")),
        only("start: redis everysec / tarry never (goal at 10 M: 15)",
             r.ratio("redis everysec", "tarry never", "ready_ms")),
        at_most("first job out after ready",
                r.median("tarry never", "job_ms") - r.median("tarry never", "ready_ms"), 100, "ms"),
    ]


def starts(r):
    return [at_most("first answer on an empty store", r.median("tarry always", "ready_ms"), 100,
                    "ms")]


def idles(r):
    return [at_most("wake-ups in a minute", r.median("tarry always", "wakes_min"), 1, "/min")]


def lasts(r):
    return [
        at_least("tarry always / redis always", r.ratio("tarry always", "redis always"), 2.2),
        at_most("put p99 / that of a short run",
                r.median("tarry always", "put_p99_us")
                / r.median("tarry always, short", "put_p99_us"), 3),
        at_least("written, in rings of 64 MiB", r.median("tarry always", "logged_mb") / 67.1, 3),
    ]


# ---- The rows.

def several(names, make, *args):
    return {name: make(name, *args) for name in names}


def tube_cases():
    found = {}
    for server in ("tarry never", "beanstalkd"):
        for count in (1, 10000):
            tail = "" if count > 1 else " 1"
            found[f"{server}, switch{tail}"] = load(server, "tubes", 16, 1, seconds=by_seconds,
                                                    tubes=count)
            if server != "beanstalkd":
                found[f"{server}, share{tail}"] = load(server, "tubes", 16, 1, seconds=by_seconds,
                                                       tubes=count, share=True)
    return found


ROWS = [
    Row("put-durable-16x1", "Durable put, 16×1",
        {"calib": calib, **several(["tarry always", "redis always", "beanstalkd -f0", "echo"],
                                   put, 16, 1)}, durable_16x1),
    Row("put-durable-64x16", "Durable put, 64×16",
        {"calib": calib, **several(["tarry always", "redis always", "beanstalkd -f0", "echo"],
                                   put, 64, 16)}, durable_64x16),
    Row("put-weak-16x1", "Put, weaker sync, 16×1",
        several(["tarry never", "beanstalkd", "tarry 50ms", "beanstalkd -f50", "redis", "echo"],
                put, 16, 1), weak_16x1),
    Row("put-weak-64x16", "Put, weaker sync, 64×16",
        several(["tarry never", "beanstalkd", "redis", "tarry 50ms", "beanstalkd -f50",
                 "redis everysec", "echo"], put, 64, 16), weak_64x16),
    Row("cycle", "Put → reserve → delete, 64×16",
        several(["tarry never", "beanstalkd", "redis", "tarry always", "redis always", "echo"],
                cycle), cycles),
    Row("burst", "All due within one second, 16×16 consumers",
        {"tarry never": burst("tarry never", 3), "redis": burst("redis", 10),
         "beanstalkd": burst("beanstalkd", 18)}, bursts, columns=[SPEED[0], *LATE], reps=3),
    Row("trickle", "Lateness, 1,000 jobs/s at random moments",
        {"calib": calib, "tarry never": trickle("tarry never", lambda bench: 0),
         "beanstalkd": trickle("beanstalkd", lambda bench: 0),
         "tarry never, pending": trickle("tarry never", lambda bench: bench.far)},
        lateness, columns=[*LATE, ("CPU share", "cpu_share", 1)]),
    Row("tubes", "10,000 tubes, 16×1", tube_cases(), tubes),
    Row("far", "Far jobs: memory, disk, start after kill -9",
        several(["tarry never", "beanstalkd -f50", "redis everysec"], far), fars,
        columns=FAR, reps=2),
    Row("start", "Start on an empty store",
        several(["tarry always", "beanstalkd", "redis"], start), starts, columns=START),
    Row("idle", "Idle with far jobs", several(["tarry always"], idle), idles,
        columns=[("wake-ups/min", "wakes_min", 1)], reps=1, long=True),
    Row("sustained", "Durable put → reserve → delete, 64×16, a minute",
        {"tarry always, short": load("tarry always", "cycle", 64, 16, seconds=by_seconds),
         "tarry always": sustained("tarry always", "cycle", plot=(
             "performance-sustained.svg",
             "durable put → reserve → delete, 64×16: latency of the put in each second")),
         "redis always": sustained("redis always", "cycle")}, lasts,
        columns=[*SPEED, ("logged MB", "logged_mb", 1)], reps=1, long=True),
]
