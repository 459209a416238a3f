"""A real ZooKeeper on loopback, of Debian's package: one server, in a temporary folder, ended by its own
process. Needs nothing of the tests (tools/cluster uses it, too). Use with `with`."""
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time

PATIENCE_S = 120
JARS = "/usr/share/java"
NEEDED = ("zookeeper", "zookeeper-jute", "slf4j-api", "slf4j-simple", "netty-all", "netty-handler",
          "netty-transport", "netty-buffer", "netty-common", "netty-codec", "netty-resolver",
          "commons-io", "commons-cli", "metrics-core", "snappy-java", "jline2")


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as made:
        return made.getsockname()[1]


class ZooKeeper:
    """A running server. tick_ms: sessions last from 2 to 20 of these, and end on one."""
    apart = False  # True: Ctrl-C in a terminal is not for it

    def __init__(self, tick_ms=500):
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tarry-zookeeper-"))
        self.process = None
        (self.folder / "zoo.cfg").write_text(
            f"dataDir={self.folder}/data\nclientPort={self.port}\nclientPortAddress=127.0.0.1\n"
            f"tickTime={tick_ms}\nadmin.enableServer=false\n4lw.commands.whitelist=*\n"
            "maxClientCnxns=0\nforceSync=no\n")

    def start(self):
        jars = [f"{JARS}/{name}.jar" for name in NEEDED if pathlib.Path(f"{JARS}/{name}.jar").exists()]
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                ["java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
                 "-Dzookeeper.jmx.log4j.disable=true", "-cp", ":".join(jars),
                 "org.apache.zookeeper.server.quorum.QuorumPeerMain", str(self.folder / "zoo.cfg")],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder,
                start_new_session=self.apart)
        end = time.monotonic() + PATIENCE_S
        while "Mode:" not in self.ask("srvr"):
            assert self.process.poll() is None, self.said()[-3000:]
            assert time.monotonic() < end, self.said()[-3000:]
            time.sleep(0.05)
        return self

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
