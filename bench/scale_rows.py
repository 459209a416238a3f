"""The tables of bench/scale: their columns, and what is wanted of the figures."""
from rows import LATE, Row, SPEED, at_least, at_most, only

PEERS = ("beanstalkd -F", "redis everysec")
DISK = [("disk B/job", "disk_job", 1)]
FILL = [("put/s", "ops", 1), ("jobs", "jobs", 1), ("p99 µs", "p99_us", 1),
        ("RAM MB at most", "ram_most", 1e6), ("RAM B/job at the end", "ram_end", 1),
        ("RAM B/job idle", "ram_job", 1), ("written B/job", "written_job", 1), *DISK,
        ("s until idle", "settle_s", 1)]
START = [("ready ms", "ready_ms", 1), ("port ms", "port_ms", 1), ("first job ms", "job_ms", 1),
         ("RAM MB", "ram", 1e6)]
SINCE = [("take/s", "ops", 1), ("ready ms", "ready_ms", 1), ("first job ms", "job_ms", 1),
         ("RAM MB at most", "ram_most", 1e6)]


def ram(r, jobs):
    goals = [
        at_most("RAM for each far job, idle", r.median("tarry never", "ram_job"), 4, "B"),
        only("RAM for each far job, when the last put is answered",
             r.median("tarry never", "ram_end"), "B"),
        only("RAM for each keyed far job (goal 24; keys need the library or HTTP)", float("nan")),
        at_most("disk for each job after idle", r.median("tarry never", "disk_job"), 170, "B"),
        only("written for each far job", r.median("tarry never", "written_job"), "B"),
        only("written for each young job", r.median("tarry never, young", "written_job"), "B"),
    ]
    if jobs >= 100_000_000:
        goals.append(at_most("RAM at most", r.median("tarry never", "ram_most") / 2**30, 3, "GiB"))
    return goals + [only(f"{name} / tarry never, {what}", r.ratio(name, "tarry never", key))
                    for name in PEERS if name in r.of
                    for what, key in (("RAM", "ram_job"), ("disk", "disk_job"))]


def puts(r, _):
    def base(case):
        return r.median(case, "cpu_all") / r.cpu_each("1,000 pending")
    return [at_most("server CPU for each put, with the promotion that follows / at 1,000 pending",
                    base("all pending"), 1.2),
            only("the same without what follows",
                 r.cpu_each("all pending") / r.cpu_each("1,000 pending"))]


def starts(r, _):
    goals = [at_most("ready after kill -9", r.median("tarry never", "ready_ms") / 1e3, 2, "s")]
    goals += [at_least(f"{name} / tarry never", r.ratio(name, "tarry never", "ready_ms"), 15)
              for name in PEERS if name in r.of]
    goals += [at_most(f"{case}: first job after ready",
                      r.median(case, "job_ms") - r.median(case, "ready_ms"), 100, "ms")
              for case in ("tarry never", "tarry never, cold")]
    return goals + [only("tarry never, cold: ready",
                         r.median("tarry never, cold", "ready_ms") / 1e3, "s")]


def overdue(r, _):
    case = "tarry never"
    return [at_most("first job after ready",
                    r.median(case, "job_ms") - r.median(case, "ready_ms"), 100, "ms"),
            *(only(f"tarry never / {name}, taken", r.ratio(case, name))
              for name in PEERS if name in r.of)]


def idle(r, _):
    return [at_most("wake-ups in a minute", r.median("tarry never", "wakes_min"), 1, "/min")]


def lateness(r, _):
    allowed = r.median("calib", "timer_p99_us") / 1e3 + 0.25
    case = "tarry never"
    return [at_most("p50", r.median(case, "late_p50_us") / 1e3, 0.15, "ms"),
            at_most("p99 (timer's p99 + 0.25)", r.median(case, "late_p99_us") / 1e3, allowed, "ms"),
            at_most("max", r.median(case, "late_max_us") / 1e3, 5, "ms"),
            *(at_most(f"tarry never / {name}, server CPU", r.ratio(case, name, "cpu_share"), 0.33)
              for name in PEERS[:1] if name in r.of)]


def beside(*words):
    """tarry's rate for each question beside the peers'."""
    def judge(r, _):
        return [only(f"tarry never / {name}, {word}",
                     r.ratio(f"tarry never, {word}", f"{name}, {word}"))
                for word in words for name in PEERS if f"{name}, {word}" in r.of]
    return judge


QUESTIONS = {  # word of the table: (--ask, connections)
    "peek by id": ("peek", 16),
    "state by id": ("state", 16),
    "count of a tube": ("count", 16),
    "first of a tube": ("first", 1),
}


def tables(tag, jobs):
    """{short name: Row}."""
    def row(name, title, judge, columns):
        return Row(f"scale-{tag}-{name}", f"{tag}: {title}", {}, lambda r: judge(r, jobs), columns)
    return {
        "fill": row("fill", "far jobs in, 64×16; due in 1 to 30 days, 16 tubes", ram, FILL),
        "put": row("put", "put, 16×1, with so many pending", puts,
                   [*SPEED, ("CPU s/M, promotion included", "cpu_all", 1)]),
        "start": row("start", "start after kill -9", starts, START),
        "overdue": row("overdue", "all are overdue: start, then take, 16×16", overdue, SINCE),
        "idle": row("idle", "idle", idle, [("wake-ups/min", "wakes_min", 1),
                                           ("CPU ms/min", "cpu_min", 1), ("seconds", "secs", 1)]),
        "late": row("late", "lateness, 1,000 jobs/s at random moments", lateness,
                    [*LATE, ("CPU share", "cpu_share", 1)]),
        "ask": row("ask", "questions", beside(*QUESTIONS), SPEED),
        "change": row("change", "random far jobs change, 16×16", beside("cancel", "reschedule"),
                      [*SPEED, *DISK]),
    }
