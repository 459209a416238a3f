"""What all runs share: sizes, the load generator, calibration, and a folder on a disk."""
import resource
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time

import report
from servers import BUILD, TOP, Others

BODY = 100
CHECKS = ("lost", "twice", "bad", "early", "wrong")


def figures_of(line):
    """'label key=value ...' as a dict."""
    return dict(word.split("=", 1) for word in shlex.split(line) if "=" in word)


class Bench:
    """Sizes of this run, and the tools for the cases."""

    def __init__(self, quick, scratch):
        self.scratch = scratch
        self.seconds = 0.6 if quick else 2.5
        self.many = 100_000 if quick else 1_000_000
        self.far = 50_000 if quick else 1_000_000
        self.trickle_s = 1.5 if quick else 8
        self.settle_s = 0.5 if quick else 5
        self.idle_s = 60
        self.polls = 1000 if quick else 10_000
        self.hooks = 5000 if quick else 50000
        self.schedules = 10_000 if quick else 100_000
        self.moved = 20_000 if quick else 500_000
        self.calib_ms = 40 if quick else 150
        self.pids = []

    def command(self, server, mode, flags):
        words = [BUILD / "bench-load", "--mode", mode, "--port", server.port, "--pid", server.pid,
                 "--proto", server.proto, "--body", BODY, "--label", "load"]
        if server.name.startswith("echo"):
            words.append("--echo")
        for name, value in flags.items():
            words += [f"--{name}"] if value is True else [f"--{name}", value]
        return [str(word) for word in words]

    def load(self, server, mode, **flags):
        """Runs the generator to its end; gives its figures and what else the machine did."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        with Others() as others:
            done = subprocess.run(self.command(server, mode, flags), capture_output=True,
                                  text=True, timeout=float(flags.get("limit", 120)) + 180)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        got = self.judged(done.returncode, done.stdout, done.stderr)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        got.update(others.besides([server.pid, *self.pids], used))
        return got

    @staticmethod
    def judged(status, said, errors):
        """The figures of a run that has ended; `failed` says which check did not hold."""
        got = figures_of(said)
        if status != 0 and "failed" not in got:
            counted = [f"{key}={got[key]}" for key in CHECKS if got.get(key, "0") != "0"]
            got["failed"] = " ".join(counted) or f"status {status} {errors.strip()}"
        return got

    def spawn_load(self, server, mode, delay_start_s, **flags):
        """The same beside something else, some seconds from now."""
        got = {}

        def work():
            time.sleep(delay_start_s)
            with subprocess.Popen(self.command(server, mode, flags), text=True,
                                  stdout=subprocess.PIPE) as process:
                self.pids = [process.pid]
                said = process.communicate(timeout=200)[0]
                got.update(self.judged(process.returncode, said, ""))
        thread = threading.Thread(target=work)
        thread.start()
        return thread, got

    def join_load(self, spawned):
        thread, got = spawned
        thread.join()
        self.pids = []
        return got

    def plot(self, series, name, title):
        subprocess.run([TOP / "bench" / "plot", series, self.pictures / name, title], check=True)

    def calib(self):
        """One flat dict of the calibration's lines."""
        with Others() as others:
            done = subprocess.run([BUILD / "bench-calib", self.scratch, str(self.calib_ms)],
                                  check=True, capture_output=True, text=True, timeout=60)
        got = {}
        for line in done.stdout.splitlines():
            f = figures_of(line)
            if f["what"] == "sync":
                got[f"sync{f['bytes']}_us"] = f["mean_us"]
                got[f"sync{f['bytes']}_p99_us"] = f["p99_us"]
            elif f["what"] == "echo":
                got[f"echo{f['depth']}_ops"] = f["ops"]
            elif f["what"] == "timer":
                got["timer_p50_us"], got["timer_p99_us"] = f["p50_us"], f["p99_us"]
            else:
                got["crc_gb_s"] = f["gb_s"]
        return {**got, **others.besides([], 0)}


def scratch_folder():
    """A folder on a real disk: TMPDIR, or else the build folder. It goes when we go, and servers do,
    also when we are told to end."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("bench: ended"))
    for place in (tempfile.gettempdir(), str(BUILD)):
        if report.file_system(place) not in ("tmpfs", "ramfs", "?"):
            return tempfile.TemporaryDirectory(prefix="tarry-bench.", dir=place)
    sys.exit("bench: no folder on a disk; set TMPDIR")
