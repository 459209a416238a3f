"""A real ZooKeeper on loopback, of Debian's package: one server or an ensemble, in temporary folders, each
ended by its own process. Needs nothing of the tests (tools/cluster uses it, too). Use with `with`."""
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from ports import free_port

PATIENCE_S = 180
JARS = "/usr/share/java"
NEEDED = ("zookeeper", "zookeeper-jute", "slf4j-api", "slf4j-simple", "netty-all", "netty-handler",
          "netty-transport", "netty-buffer", "netty-common", "netty-codec", "netty-resolver",
          "commons-io", "commons-cli", "metrics-core", "snappy-java", "jline2")


class ZooKeeper:
    """A running server. tick_ms: sessions last from 2 to 20 of these, and end on one."""
    apart = False  # True: Ctrl-C in a terminal is not for it

    def __init__(self, tick_ms=500, more=""):
        """more: lines of its config."""
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tarry-zookeeper-"))
        self.process = None
        (self.folder / "zoo.cfg").write_text(
            f"dataDir={self.folder}/data\nclientPort={self.port}\nclientPortAddress=127.0.0.1\n"
            f"tickTime={tick_ms}\nadmin.enableServer=false\n4lw.commands.whitelist=*\n"
            "maxClientCnxns=0\nforceSync=no\n" + more)

    def start(self):
        self.launch()
        end = time.monotonic() + PATIENCE_S
        while self.mode() is None:
            assert self.process.poll() is None, self.said()[-3000:]
            assert time.monotonic() < end, self.said()[-3000:]
            time.sleep(0.05)
        return self

    def launch(self):
        """Starts it, and does not wait: one of an ensemble serves when most are there."""
        jars = [f"{JARS}/{name}.jar" for name in NEEDED if pathlib.Path(f"{JARS}/{name}.jar").exists()]
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                ["java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
                 "-Dzookeeper.jmx.log4j.disable=true", "-cp", ":".join(jars),
                 "org.apache.zookeeper.server.quorum.QuorumPeerMain", str(self.folder / "zoo.cfg")],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder,
                start_new_session=self.apart)

    def mode(self):
        """standalone, leader or follower; None: it does not serve."""
        for line in self.ask("srvr").splitlines():
            if line.startswith("Mode: "):
                return line[6:]
        return None

    def said(self):
        return (self.folder / "log").read_text(errors="replace")

    def ask(self, word):
        """One of its words of four letters; "": it does not answer."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=5) as wire:
                wire.sendall(word.encode())
                text = b""
                while more := wire.recv(65536):
                    text += more
                return text.decode()
        except OSError:
            return ""

    def ephemerals(self):
        """Paths that go with a session."""
        return [line.strip() for line in self.ask("dump").splitlines() if line.startswith("\t/")]

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()
        shutil.rmtree(self.folder)


class Ensemble:
    """Servers that elect one of them; of one it is just that server. Use with `with`."""

    def __init__(self, count=3, tick_ms=500):
        if count == 1:
            self.servers = [ZooKeeper(tick_ms)]
        else:
            ports = [(free_port(), free_port()) for _ in range(count)]
            lines = "".join(f"server.{i + 1}=127.0.0.1:{quorum}:{vote}\n" for i, (quorum, vote) in enumerate(ports))
            self.servers = [ZooKeeper(tick_ms, "initLimit=20\nsyncLimit=10\n" + lines) for _ in range(count)]
            for i, server in enumerate(self.servers):
                (server.folder / "data").mkdir()
                (server.folder / "data/myid").write_text(f"{i + 1}\n")
        self.address = ",".join(server.address for server in self.servers)

    def leader(self):
        """Who decides now, or None."""
        return next((s for s in self.servers if s.process is not None and s.mode() in ("leader", "standalone")), None)

    def serves(self):
        return all(s.process is not None and s.mode() is not None for s in self.servers)

    def ephemerals(self):
        """Paths that go with a session, as the leader knows them."""
        leader = self.leader()
        return leader.ephemerals() if leader is not None else []

    def start(self):
        """Those that do not run, until all serve."""
        for server in self.servers:
            if server.process is None:
                server.launch()
        end = time.monotonic() + PATIENCE_S
        while not self.serves():
            assert time.monotonic() < end, self.servers[0].said()[-3000:]
            time.sleep(0.1)
        return self

    def stop(self):
        for server in self.servers:
            server.stop()

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()
        for server in self.servers:
            shutil.rmtree(server.folder)
