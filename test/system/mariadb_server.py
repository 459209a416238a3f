"""A mariadbd of the tests' own, with passwords, on a socket file and a port of loopback."""
import pathlib
import shutil
import subprocess
import tempfile
import time

from ports import free_port

PATIENCE_S = 180
MARIADBD = shutil.which("mariadbd") or "/usr/sbin/mariadbd"
SMALL = ["--innodb-buffer-pool-size=24M", "--innodb-log-file-size=8M", "--innodb-fast-shutdown=1",
         "--key-buffer-size=1M", "--aria-pagecache-buffer-size=8M", "--aria-log-file-size=8M",
         "--innodb-flush-method=nosync"]  # a power cut is not tested


class Server:
    """Use with `with`: it is gone afterwards."""

    apart = False  # True: Ctrl-C in a terminal is not for it
    def __init__(self, *flags, home=None, data=None, before=()):
        """home: where its files are; data: another folder for those with rows; before: what starts its programs."""
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tarry-maria-", dir=home))
        self.data = data or self.folder / "data"
        self.before = before
        self.path = str(self.folder / "socket")
        self.port = free_port()
        self.flags = flags
        self.process = None
        self.databases = 0
        (self.folder / "tmp").mkdir()  # one that starts removes what others have in theirs
        self.tmp = f"--tmpdir={self.folder}/tmp"
        done = subprocess.run([*before, "mariadb-install-db", "--no-defaults", f"--datadir={self.data}",
                               "--auth-root-authentication-method=normal", "--skip-test-db", "--user=root",
                               "--skip-name-resolve", self.tmp, *SMALL], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr

    def start(self, *flags):
        self.log = open(self.folder / "log", "ab")
        self.process = subprocess.Popen(
            [*self.before, MARIADBD, "--no-defaults", f"--datadir={self.data}", f"--socket={self.path}",
             f"--port={self.port}", "--bind-address=127.0.0.1", "--user=root", "--skip-name-resolve",
             f"--pid-file={self.folder}/pid", "--performance-schema=OFF", self.tmp, *SMALL, *self.flags, *flags],
            stdout=self.log, stderr=self.log, start_new_session=self.apart)
        end = time.monotonic() + PATIENCE_S
        while self.ask("SELECT 1", check=False) != "1\n":
            assert self.process.poll() is None, (self.folder / "log").read_text()
            assert time.monotonic() < end
            time.sleep(0.05)

    def kill(self):
        """kill -9"""
        self.process.kill()
        self.process.wait()
        self.log.close()

    def ask(self, text, database=None, check=True):
        """What the administrator is answered, by the client of MariaDB."""
        done = subprocess.run(["mariadb", "--no-defaults", f"--socket={self.path}", "--user=root", "-N", "-B",
                               *([database] if database else [])], input=text, capture_output=True, text=True)
        assert not check or done.returncode == 0, done.stderr
        return done.stdout

    def database(self, rights="ALL"):
        """A new database, and a user of the same name with these rights in it and the password `word`."""
        self.databases += 1
        name = f"d{self.databases}"
        self.ask(f"CREATE DATABASE {name}; CREATE USER {name}@'127.0.0.1' IDENTIFIED BY 'word';")
        if rights:
            self.ask(f"GRANT {rights} ON {name}.* TO {name}@'127.0.0.1'")
        return name

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        if self.process is not None and self.process.poll() is None:
            self.kill()
        shutil.rmtree(self.folder)
