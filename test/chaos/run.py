"""One run: servers, load, faults one after the other, healing, the drain, and the judge.

    tools/chaos --minutes 5 --seed 7 --faults kill-node,split-primary

Each run leaves a folder with history.jsonl (every call and event), report.json (seed, faults with their
proofs, figures, what is wrong) and the logs of the nodes. Exit status: 0, all promises kept; 1, one was
broken; 2, a fault that was asked for did not happen, so the run proves nothing.
"""
import argparse
import contextlib
import json
import os
import pathlib
import random
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from check import Judge, slot_of  # noqa: E402
from clients import Gone, Http  # noqa: E402
from faults import FAULTS, NotProven  # noqa: E402
from history import History  # noqa: E402
import mutants  # noqa: E402
from workload import ALL, TOPICS, TUBES, Load  # noqa: E402
from monitor import Monitor  # noqa: E402
from world import TOP, World, until  # noqa: E402

PATIENCE_S = 120
DRAIN_S = 120
MUTANT_DRAIN_S = 5  # it is ill: when so long nothing was acked, what is left counts as lost
SHOWN = 12  # things that are wrong and told


def options(args):
    """The command line; also what it needs of the world."""
    parser = argparse.ArgumentParser(prog="tools/chaos", description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--minutes", type=float, default=2, help="how long faults go on")
    parser.add_argument("--seed", type=int, default=None, help="of the dice; any if none is given")
    parser.add_argument("--faults", default="", help=f"of these, by commas: {', '.join(FAULTS)}")
    parser.add_argument("--once", action="store_true", help="each fault once, in this order, however long it takes")
    parser.add_argument("--wait", type=int, default=0, help="redis.wait_replicas: then a failover may lose nothing")
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--zookeeper", type=int, default=0, metavar="N", help="so many ZooKeeper servers coordinate")
    parser.add_argument("--sql", action="store_true", help="with a MariaDB as the truth")
    parser.add_argument("--longest", type=float, default=15, help="seconds that a pause or split lasts at most")
    parser.add_argument("--offset", type=float, default=0, metavar="S", help="of clocks; 0: by the dice")
    parser.add_argument("--mutant", default="", help=f"deliberate bugs, by commas: {', '.join(mutants.MUTANTS)}")
    parser.add_argument("--out", default="", help="the folder of the run (build/chaos/...)")
    parser.add_argument("--binary", default=os.environ.get("TARRY_BIN", str(TOP / "build/tarry")))
    parser.add_argument("flags", nargs="*", help="flags of tarry serve, behind --")
    opt = parser.parse_args(args)
    opt.mutant = [name for name in opt.mutant.split(",") if name]
    for name in opt.mutant:
        if name not in mutants.MUTANTS:
            parser.error(f"--mutant: no {name!r} among {', '.join(mutants.MUTANTS)}")
        if not opt.sql and (mutants.of_kind([name], mutants.SQL) or mutants.of_kind([name], mutants.BUG)):
            parser.error(f"--mutant: {name} needs --sql")
    if len(mutants.of_kind(opt.mutant, mutants.BUG)) > 1:
        parser.error("--mutant: the engine can have one bug at a time")
    opt.wait = 1 if "unconfirmed" in opt.mutant else opt.wait
    opt.seed = random.randrange(1, 1 << 31) if opt.seed is None else opt.seed
    has = {"redis", "relays", "clocks"} | ({"zookeeper"} if opt.zookeeper else set()) | (
        {"sql", "loses"} if opt.sql else set())  # with a database Redis may lose all it has
    opt.faults = [f for f in opt.faults.split(",") if f] or [n for n, (_, needs) in FAULTS.items() if needs <= has]
    for name in opt.faults:
        if name not in FAULTS:
            parser.error(f"--faults: no {name!r} among {', '.join(FAULTS)}")
        if not FAULTS[name][1] <= has | {"loses"}:
            parser.error(f"--faults: {name} needs --zookeeper or --sql")
    needed = set().union(*(FAULTS[name][1] for name in opt.faults))
    opt.relays, opt.clocks = "relays" in needed, "clocks" in needed
    return opt


class Run:
    def __init__(self, opt, folder):
        self.opt, self.folder = opt, folder
        self.dice = random.Random(opt.seed)
        self.history = History(folder / "history.jsonl")
        self.world = World(folder, opt, self.history)
        self.world.slots_used = [slot_of(topic) for topic in ALL]
        self.world.slots_busy = [slot_of(topic) for topic in TOPICS + TUBES]
        self.faults = []
        self.not_proven = []

    def wrong(self, kind, words):
        self.history.event("wrong", kind=kind, words=words)

    def plan(self):
        """Names of faults: each of them once, in any order, then again, until the time is up."""
        if self.opt.once:
            yield from self.opt.faults
            return
        end = time.monotonic() + self.opt.minutes * 60
        while True:
            names = list(self.opt.faults)
            self.dice.shuffle(names)
            for name in names:
                if time.monotonic() > end:
                    return
                yield name

    def strike(self, name, load):
        """One fault, until all is well again."""
        begin = self.history.now()
        try:
            proof = FAULTS[name][0](self.world, self.dice)
        except NotProven as error:
            self.not_proven.append(f"{name}: {error}")
            proof = None
        self.world.heal()
        healed = self.history.now()
        took = load.progress(PATIENCE_S)
        self.history.event("fault", name=name, begin=begin, end=healed, proof=proof, again_after=took)
        if took is None:
            self.wrong("stuck", f"{PATIENCE_S} s after {name} pushes or acks do not succeed")
        ended = self.world.ended()
        if ended:
            self.wrong("crash", ended)
        if proof is not None:
            self.faults.append({"name": name, "at_s": round(begin, 1), "took_s": round(healed - begin, 1),
                                "again_after_s": took, **proof})
        print(f"{healed:7.1f} s  {name:16} {'not proven' if proof is None else json.dumps(proof)}; "
              f"at work after {took} s; pushed {load.total('push')}, acked {load.total('ack')}", flush=True)
        time.sleep(self.dice.random())
        return took is not None and not ended

    # ---- the end ----

    def counts(self):
        """Jobs by topic and state, as any node says; None: it does not."""
        out = {}
        for topic in ALL:
            status, said = self.world.nodes[0].get(f"/v1/topics/{topic}")
            if status not in (200, 404):
                return None
            out[topic] = {s: said.get(s, 0) for s in ("delayed", "ready", "reserved", "dead")} if status == 200 else {}
        return out

    def is_empty(self):
        counts = self.counts()
        return counts is not None and not any(any(c.values()) for c in counts.values())

    def drain(self, load, clocks):
        """Until no job is left. Those that a wrong clock has made late are fired. What nobody has although
        it was pushed is for the judge."""
        load.pushing = False
        patience = MUTANT_DRAIN_S if self.opt.mutant else DRAIN_S
        begin = time.monotonic()
        end, acked = begin + patience, load.total("ack")
        fired, empty = False, 0
        while time.monotonic() < end:
            if self.opt.mutant and load.total("ack") > acked and time.monotonic() < begin + DRAIN_S:
                end, acked = time.monotonic() + patience, load.total("ack")
            empty = empty + 1 if self.is_empty() else 0
            if empty > (0 if not load.left() else 10):
                return
            if clocks and not fired and time.monotonic() > begin + 8:
                fired = True
                self.fire(load)
            time.sleep(0.1)
        self.wrong("left", f"{time.monotonic() - begin:.0f} s after the end there are {self.counts()}, "
                           f"known to be: {list(load.left())[:5]}")

    def fire(self, load):
        """Those that are known to be, and those that are listed: a cancel without an answer may not have been done."""
        node = self.world.nodes[0]
        jobs = load.left()
        for topic in ALL:
            for job in node.get(f"/v1/jobs?topic={topic}&state=delayed&limit=1000")[1].get("jobs", ()):
                jobs[job["id"]] = topic
        client = Http(self.history, node)
        with contextlib.suppress(Gone):
            for id_, topic in jobs.items():
                client.fire(id_, topic)
        client.close()

    def converged(self):
        """Nothing of a job is in Redis any more: no header, body, key or entry of a set."""
        def rest():
            found = {}
            for slot in set(self.world.slots_used):
                owner = self.world.cluster.owner(self.world.tags[slot])
                keys = [f"tarry:{{{slot}}}:{name}" for name in ("h", "b", "k")]
                sizes = {key: owner("HLEN", key) for key in keys}
                for topic in [t for t in ALL if slot_of(t) == slot]:
                    for name in ("store", "ready", "prep", "dead", "x"):
                        key = f"tarry:{{{slot}}}:{topic}:{name}"
                        sizes[key] = owner("ZCARD", key)
                found.update({key: size for key, size in sizes.items() if size})
            return found
        if self.opt.sql:
            rows = self.world.sql.ask("SELECT COUNT(*) FROM job; SELECT COUNT(*) FROM job_key", self.world.database)
            if rows.split() != ["0", "0"]:
                first = self.world.sql.ask("SELECT id, state, ROUND(next_at / 1e6 - UNIX_TIMESTAMP(NOW(6))) FROM job LIMIT 9",
                                           self.world.database)
                self.wrong("left", f"rows of jobs and keys without a job: {rows.split()}; the first ones, their states, "
                                   f"and in how many seconds something is to be done: {first.splitlines()}")
        end = time.monotonic() + (0 if self.opt.mutant else PATIENCE_S)
        while rest() and time.monotonic() < end:
            time.sleep(0.2)
        if rest():
            self.wrong("left", f"in Redis, without a job: {rest()}")

    def go(self):
        world, opt = self.world, self.opt
        load = Load(world, self.history, opt.seed)
        try:
            world.start()
            monitor = Monitor(world, self.history)
            monitor.start()
            try:
                load.start()
                if load.progress(PATIENCE_S, more=20 if opt.mutant else 60) is None:
                    self.wrong("stuck", "it does not work at all")
                else:
                    for name in self.plan():
                        if not self.strike(name, load):
                            break
                    self.drain(load, opt.clocks)
            except AssertionError:
                (self.folder / "trouble.txt").write_text(world.describe())
                raise
            finally:
                load.stop()
                monitor.stop()
            until(world.is_ready, PATIENCE_S)
            self.converged()
            monitor.tell_undone()
        finally:
            load.stop()
            world.stop()
        for fault in load.faults:
            self.wrong("harness", fault)
        return self.judge()

    def judge(self):
        judge = Judge(self.history.calls, self.history.events)
        wrong = judge.run()
        self.history.close()
        undone = [e for e in self.history.events if e["is"] == "undo"]
        report = {"seed": self.opt.seed, "options": {k: str(v) for k, v in vars(self.opt).items()},
                  "faults": self.faults, "not_proven": self.not_proven,
                  "seconds": round(self.history.now(), 1), **judge.figures(),
                  "undo": [{"server": e["server"], "seconds": round(e["end"] - e["begin"], 2), "gap": e["gap"]}
                           for e in undone], "wrong": wrong}
        (self.folder / "report.json").write_text(json.dumps(report, indent=1) + "\n")
        return report


def tell(report, folder):
    print(f"calls: {report['calls']}\ncounts: {report['counts']}")
    for when, late in report["late"].items():
        print(f"late {when:6}: {late}")
    for kind, words in report["wrong"][:SHOWN]:
        print(f"WRONG {kind}: {words[:600]}")
    print(f"seed {report['seed']}: {len(report['faults'])} faults, {len(report['wrong'])} wrong"
          + "".join(f"; not proven: {n}" for n in report["not_proven"]) + f"; {folder}", flush=True)
    return 1 if report["wrong"] else 2 if report["not_proven"] or not report["faults"] else 0


def stop(*_):
    raise KeyboardInterrupt


def main(args=None):
    opt = options(args)
    signal.signal(signal.SIGTERM, stop)
    folder = pathlib.Path(opt.out or TOP / f"build/chaos/{time.strftime('%Y%m%d-%H%M%S')}-{opt.seed}")
    folder.mkdir(parents=True, exist_ok=True)
    print(f"seed {opt.seed}, {', '.join(opt.faults)}", flush=True)
    if opt.mutant:
        opt.binary = mutants.make(opt.mutant, opt.binary, folder)
    try:
        return tell(Run(opt, folder).go(), folder)
    except KeyboardInterrupt:
        print("\nended; all servers are gone")
        return 130


if __name__ == "__main__":
    sys.exit(main())
