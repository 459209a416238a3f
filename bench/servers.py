"""The servers under test, each in a folder and on a port of its own, and what else the machine does.

A server is started for one run and ended by its process id; its folder goes with it.
"""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request

TOP = pathlib.Path(__file__).resolve().parent.parent
BUILD = TOP / "build"
TICK = os.sysconf("SC_CLK_TCK")
START_S = 60  # a server that does not answer by then has failed


def tarry(sync, port_of="beanstalk"):
    """On one port only."""
    off = "http" if port_of == "beanstalk" else "beanstalk"
    return lambda port, data: [BUILD / "tarry", "serve", "--data", data / "store", "--sync", sync,
                               f"--{port_of}", f"127.0.0.1:{port}", f"--{off}", "off",
                               "--set", "outlet.allow_private=on"]  # for webhooks on loopback


def beanstalkd(*flags):
    def command(port, data):
        log = ["-b", data, *flags] if flags else []
        return ["beanstalkd", "-l", "127.0.0.1", "-p", port, *log]
    return command


def redis(*flags):
    return lambda port, data: ["redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", data,
                               "--save", "", "--daemonize", "no", *flags]


SERVERS = {
    "tarry always": tarry("always"),
    "tarry 50ms": tarry("50ms"),
    "tarry never": tarry("never"),
    "beanstalkd": beanstalkd(),
    "beanstalkd -f50": beanstalkd("-f50"),
    "beanstalkd -f0": beanstalkd("-f0"),
    "beanstalkd -F": beanstalkd("-F"),
    "redis": redis("--appendonly", "no"),
    "redis everysec": redis("--appendonly", "yes", "--appendfsync", "everysec"),
    "redis always": redis("--appendonly", "yes", "--appendfsync", "always"),
    "echo": lambda port, data: [BUILD / "bench-echo", data / "port"],
    "tarry always, HTTP": tarry("always", "http"),
    "tarry never, HTTP": tarry("never", "http"),
    "tarry crowded, HTTP": lambda port, data: [*tarry("never", "http")(port, data),
                                               "--set", "limits.connections=20000"],
    "echo, HTTP": lambda port, data: [BUILD / "bench-echo-http", data / "port"],
}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """`with Server("redis", folder) as s:` gives one that answers; afterwards it is gone."""

    def __init__(self, name, scratch, store=None):
        """store: a folder that is used up, on the same file system."""
        self.name = name
        self.proto = "redis" if name.startswith("redis") else \
            "http" if name.endswith("HTTP") else "beanstalk"
        self.data = pathlib.Path(tempfile.mkdtemp(prefix="run.", dir=scratch))
        if store is not None:
            os.rename(store, self.data / "store")
        self.port = free_port()
        self.process = None

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.kill()
        shutil.rmtree(self.data, ignore_errors=True)

    @property
    def pid(self):
        return self.process.pid

    def spawn(self, env=None):
        """Starts it and does not wait. env: variables besides ours."""
        command = [str(word) for word in SERVERS[self.name](self.port, self.data)]
        with open(self.data / "said", "ab") as said:
            self.process = subprocess.Popen(command, cwd=self.data, stdin=subprocess.DEVNULL,
                                            stdout=said, stderr=said,
                                            env={**os.environ, **(env or {})})

    def start(self):
        self.spawn()
        until = time.monotonic() + START_S
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > until:
                said = (self.data / "said").read_text(errors="replace")
                raise RuntimeError(f"{self.name} does not start: {said[-500:]}")
            time.sleep(0.005)

    def kill(self):
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        if self.process is not None:
            self.process.wait()

    def ask(self, text):
        """Sends a line, gives the first bytes of the answer, or nothing."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), 5) as s:
                s.sendall(text.encode() + b"\r\n")
                return s.recv(65536).decode(errors="replace")
        except OSError:
            return ""

    def answers(self):
        if self.name.startswith("echo"):
            port = self.data / "port"
            self.port = int(port.read_text() or 0) if port.exists() else 0
            return self.port > 0
        if self.proto == "http":
            return self.get("/healthz") is not None
        return self.ask("PING").startswith("+PONG") if self.proto == "redis" else \
            self.ask("list-tube-used").startswith("USING")

    def get(self, path, method="GET", body=None):
        """What the HTTP port answers, or None."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", method=method,
                                         data=body and body.encode())
        try:
            with urllib.request.urlopen(request, timeout=5) as reply:
                return json.load(reply)
        except (OSError, ValueError):
            return None

    def stats(self):
        """beanstalk's stats as {key: text}."""
        lines = [line.split(": ", 1) for line in self.ask("stats").splitlines() if ": " in line]
        return dict(lines)

    def longest_us(self):
        """The longest turn of tarry's loop."""
        if self.proto == "http":
            return (self.get("/v1/stats") or {}).get("loop_longest_us", "nan")
        return self.stats().get("tarry-loop-longest-us", "nan")

    def pending(self):
        """How many jobs it says it holds, or None."""
        if self.name.startswith("echo"):
            return None
        if self.proto == "http":
            counts = self.get("/v1/topics/default") or {}
            return counts.get("ready", 0) + counts.get("delayed", 0)
        if self.proto == "redis":
            return int(self.ask("HLEN q:jobs").lstrip(":") or 0)
        stats = self.stats()
        return sum(int(stats.get(f"current-jobs-{kind}", 0)) for kind in ("ready", "delayed"))

    def disk_bytes(self):
        """What `du` says of its folder, without our own file of what it said."""
        return sum(path.stat().st_blocks * 512 for path in self.data.rglob("*")
                   if path.is_file() and path.name not in ("said", "port"))

    def rss_bytes(self):
        for line in pathlib.Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        return 0

    def written_bytes(self):
        """Given to write calls so far; see bench/watch.h why not write_bytes."""
        text = pathlib.Path(f"/proc/{self.pid}/io").read_text()
        return int(text.split("wchar:", 1)[1].split()[0])

    def cpu_s(self):
        """Of all threads that are there."""
        found = pathlib.Path(f"/proc/{self.pid}/task").glob("*/schedstat")
        return sum(int(path.read_text().split()[0]) for path in found) / 1e9

    def forget_cache(self, everything):
        """Its files leave the page cache, and, if that is wanted and allowed, all else does."""
        for path in self.data.rglob("*"):
            if path.is_file():
                with open(path, "rb") as f:
                    os.fsync(f.fileno())
                    os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        if everything:
            with contextlib.suppress(OSError):
                pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")

    def sleeps(self):
        """How often its threads went to sleep so far."""
        count = 0
        for status in pathlib.Path(f"/proc/{self.pid}/task").glob("*/status"):
            for line in status.read_text().splitlines():
                if line.startswith("voluntary_ctxt_switches"):
                    count += int(line.split()[1])
        return count


class Others:
    """What the machine did besides, between `with` and its end."""

    def __enter__(self):
        self.before = self.look()
        return self

    def __exit__(self, *_):
        (stat0, procs0, at0), (stat1, procs1, at1) = self.before, self.look()
        self.seconds = max(at1 - at0, 1e-3)
        self.busy_s = sum(stat1[i] - stat0[i] for i in (0, 1, 2, 5, 6)) / TICK
        self.steal = (stat1[7] - stat0[7]) / TICK / self.seconds
        self.used_s = {key: (cpu - procs0.get(key, 0)) / TICK for key, cpu in procs1.items()}
        self.load1 = float(pathlib.Path("/proc/loadavg").read_text().split()[0])

    @staticmethod
    def look():
        stat = pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
        procs = {}
        for entry in pathlib.Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    head, tail = (entry / "stat").read_text().rsplit(")", 1)
                except OSError:
                    continue
                words = tail.split()
                procs[int(entry.name), head.split("(", 1)[1]] = int(words[11]) + int(words[12])
        return [int(word) for word in stat], procs, time.monotonic()

    def besides(self, pids, ended_s=0):
        """{load1, steal, others}: `others` in CPUs used by what is not ours. ended_s: what
        processes of ours used that have ended since."""
        pids = set(pids) | {os.getpid()}
        ours = ended_s + sum(used for (pid, _), used in self.used_s.items() if pid in pids)
        rest = {name: used for (pid, name), used in self.used_s.items()
                if pid not in pids and used / self.seconds >= 0.05}
        most = sorted(rest, key=rest.get, reverse=True)[:3]
        return {"load1": self.load1, "steal": round(self.steal, 3),
                "others": round(max(self.busy_s - ours, 0) / self.seconds, 2),
                "busy": ",".join(most).replace(" ", "_") or "-"}
