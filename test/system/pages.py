"""The pages of the documentation as tests: their blocks, a shell for their commands, what they show.

A fenced block is named by its language, and by a word more if it needs another server:

    console         commands behind `$ `, and what they print; `…` stands for what differs each time
    sh              a script
    console clock   the same on a server with a test clock (KINDS below)

All blocks of a page and kind run in order in one shell, in an empty folder, on a server of their
own; `localhost:11301` in the page is that server. A page that begins with `$ tarry serve` starts it
so. A block behind a line `<!-- not run by the tests: REASON -->` is not run.
"""
import os
import pathlib
import re
import shlex
import shutil
import signal
import socket
import subprocess
import time

import mariadb_server
from harness import PATIENCE_S, TARRY, Server
from ports import free_port
from web import LISTENING

TOP = pathlib.Path(__file__).resolve().parents[2]
NOT_RUN = "not run by the tests"
RUN = {"console", "sh"}
HTTP, BEANSTALK = 11301, 11300

CLOCK = ["--test-clock", "--set", "clock.start=2027-01-01T00:00:00Z"]
KINDS = {"": [], "classic": ["--set", "http.classic=on"], "clock": CLOCK,
         "backup": ["--set", "store.backup_root=copies"],
         "private": [*CLOCK, "--set", "outlet.allow_private=on"],
         "beanstalkd": [], "redis": [], "sql": []}  # and such a server at a port of PEERS
# Ports in pages that stand for a free one, and who is there: {port: (kinds of pages, command)}
PEERS = {11400: ({"beanstalkd"}, "beanstalkd -l 127.0.0.1 -p {port}"),
         6379: ({"redis", "sql"}, "redis-server --bind 127.0.0.1 --port {port} --save ''"),
         8080: (set(), None)}
MARIADB = 3306  # the same for a mariadbd, in pages of the kind sql

# What differs from run to run, in pages that show the real thing instead of `…`.
VARIES = [
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z", "<time>"),
    (r"\b1[78]\d{11}\b", "<ms>"),
    (r'"lease":"[0-9a-f]+"', '"lease":"<lease>"'),
    (r'"(late_ms|lease_ms)":\d+', r'"\1":<n>'),
    (r"\bready in \d+ ms", "ready in <n> ms"),
    (r"\b\d+ ms late\b|\bon time\b", "<late>"),
    (r"\bafter \d+ ms\b", "after <n> ms"),
    (r"\btarry \d+\.\d+\.\d+\b", "tarry <version>"),
    (r"[ \t]+$", ""),
]


class Block:
    """One fenced block: `lang` and `kind` of its first line, where it stands, and why it is not run, or None."""

    def __init__(self, page, number, lang, kind):
        self.page, self.number, self.lang, self.kind, self.text, self.reason = page, number, lang, kind, "", None

    @property
    def steps(self):
        """[(command, output)]; a script is one command without output."""
        if self.lang == "sh":
            return [(self.text.rstrip("\n"), None)]
        steps = []
        for line in self.text.splitlines(keepends=True):
            if line.startswith("$ "):
                steps.append([line[2:].rstrip("\n"), ""])
            elif steps and steps[-1][0].endswith("\\") and not steps[-1][1]:
                steps[-1][0] += "\n" + line.rstrip("\n")
            elif steps and steps[-1][0].count("'") % 2 and not steps[-1][1]:
                steps[-1][0] += "\n" + line.rstrip("\n")  # a quote goes on
            else:
                assert steps, f"{self}: output before the first command"
                steps[-1][1] += line
        return [tuple(step) for step in steps]

    def __str__(self):
        return f"{self.page.relative_to(TOP)}:{self.number}"


def pages():
    """Every page of the project."""
    return [*sorted(TOP.glob("*.md")), *sorted((TOP / "doc").rglob("*.md"))]


def blocks_of(page):
    """The fenced blocks of a page."""
    blocks, fence, before = [], None, ""
    for number, line in enumerate(page.read_text().splitlines(keepends=True), 1):
        if fence is None:
            if match := re.match(r"(\s*)```(\w*) *(\S*) *$", line):
                fence = Block(page, number, match[2], match[3])
                indent = len(match[1])
                if reason := re.fullmatch(rf"<!-- {NOT_RUN}: (.*) -->", before.strip()):
                    fence.reason = reason[1]
            before = line
        elif line.strip() == "```":
            blocks.append(fence)
            fence = None
        else:
            fence.text += line[min(indent, len(line) - len(line.lstrip(" "))):]
    assert fence is None, f"{fence}: the block does not end"
    return blocks


def matches(wanted, said):
    """Is this the output that the page shows?"""
    for forms in ([], VARIES):
        for form, name in forms:
            wanted, said = (re.sub(form, name, text, flags=re.M) for text in (wanted, said))
        pattern = ".*".join(map(re.escape, wanted.strip("\n").split("…")))
        if re.fullmatch(pattern, said.strip("\n"), re.S):
            return True
    return False


class PageServer(Server):
    """A server that a page starts, in the folder of the page."""

    def __init__(self, folder, words, env):
        self.started, self.said = time.monotonic(), ""
        self.process = subprocess.Popen([TARRY, *words], cwd=folder, env={**os.environ, **env},
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


class Shell:
    """A bash that goes on from command to command, in a folder with a server of its own."""

    def __init__(self, folder, kind=""):
        self.folder, self.flags, self.server = folder, KINDS[kind], None
        self.http = self.beanstalk = 0
        self.free = {port: free_port() for port in PEERS}
        self.peers = [self.peer(command.format(port=self.free[port]), self.free[port])
                      for port, (kinds, command) in PEERS.items() if kind in kinds]
        self.maria = self.database(folder) if kind == "sql" else None
        for where in ("bin", "build"):
            (folder / where).mkdir()
            (folder / where / "tarry").symlink_to(TARRY)
        (folder / "copies").mkdir()
        (folder / ".curlrc").write_text("silent\nshow-error\nnoproxy = *\n")
        env = {name: value for name, value in os.environ.items() if not name.startswith("TARRY_")}
        env |= {"HOME": str(folder), "PATH": f"{folder}/bin:{env['PATH']}", "TZ": "UTC", "LANG": "C.UTF-8"}
        self.process = subprocess.Popen(
            ["bash"], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env,
            stderr=subprocess.STDOUT, start_new_session=True)

    def peer(self, command, port):
        """A server of another kind, on a port of ours."""
        process = subprocess.Popen(shlex.split(command), cwd=self.folder, stdout=subprocess.DEVNULL)
        end = time.monotonic() + PATIENCE_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                return process
            except OSError:
                assert process.poll() is None and time.monotonic() < end, command
                time.sleep(0.02)

    def database(self, folder):
        """A mariadbd, and the file by which its client finds it as its administrator."""
        made = mariadb_server.Server()
        made.start()
        self.free[MARIADB] = made.port
        (folder / ".my.cnf").write_text(f"[client]\nsocket = {made.path}\nuser = root\n")
        return made

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.killpg(self.process.pid, signal.SIGKILL)  # the shell, and what it left behind
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        self.leave()
        for process in self.peers:
            process.kill()
            process.wait()
        if self.maria:
            self.maria.__exit__()

    def leave(self):
        if self.server:
            self.server.__exit__()
            self.server = None

    def serve(self, words, env=None):
        """Starts a server with these flags, instead of the one that was there."""
        self.leave()
        self.server = PageServer(self.folder, words, env or {})
        self.server.ready()
        http = re.search(LISTENING, self.server.said)
        self.http = int(http[1]) if http else 0
        self.beanstalk = self.server.port()
        self.run(f"export TARRY_SERVER=http://127.0.0.1:{self.http}")
        return self.at_home(self.server.said)

    def default_server(self):
        if self.server is None:
            self.serve(["serve", "--data", "store", *self.ports([]), *self.flags])

    @staticmethod
    def ports(words):
        """Flags for free ports, where the words name none."""
        return [flag for name in ("--http", "--beanstalk") if name not in words
                for flag in (name, f"127.0.0.1:{free_port()}")]

    def to_peers(self, text):
        """The same with the ports of other servers."""
        for usual, port in self.free.items():
            text = re.sub(rf"\b{usual}\b", str(port), text)
        return text

    def away(self, text):
        """A command as it is run: with the ports of our server."""
        for usual, port in {HTTP: self.http, BEANSTALK: self.beanstalk}.items():
            text = re.sub(rf"\b{usual}\b", str(port), text)
        return self.to_peers(text)

    def at_home(self, text):
        """An output as the page has it: with the ports that servers have as a rule."""
        for usual, port in {HTTP: self.http, BEANSTALK: self.beanstalk, **self.free}.items():
            text = re.sub(rf"\b{port}\b", str(usual), text) if port else text
        return text

    def run(self, command):
        """What a command prints, and its exit code."""
        self.process.stdin.write(f"{{\n{command}\n}} </dev/null\nprintf '\\n--done %s--\\n' $?\n")
        self.process.stdin.flush()
        said = ""
        while not (end := re.search(r"\n--done (\d+)--\n$", said)):
            line = self.process.stdout.readline()
            assert line, "the shell ended"
            said += line
        return said[:end.start()].strip("\n"), int(end[1])

    def step(self, command):
        """A command of a page: (what it prints, its exit code). Servers stay until the next one."""
        serve = re.fullmatch(r"((?:TARRY_\w+=\S+ )*)(?:build/)?tarry (serve|beanstalkd)\b([^|;&]*)", command)
        if serve:
            env = dict(word.split("=", 1) for word in serve[1].split())
            words = [word.strip("'\"") for word in serve[3].split()]
            if serve[2] == "serve":
                words = [self.to_peers(word) for word in words]
                return self.serve(["serve", *words, *self.ports(words)], env), 0
            words = ["0" if word == str(BEANSTALK) else word for word in words]
            return self.serve(["beanstalkd", *words]), 0
        self.default_server()
        said, code = self.run(self.away(command))
        return self.at_home(said), code


def play(page, kind, folder):
    """Runs the blocks of one kind of a page; fails where the page says something else."""
    if page.parent.parent.name == "recipes":  # programs stand beside their page
        shutil.copytree(page.parent, folder, dirs_exist_ok=True)
    with Shell(folder, kind) as shell:
        count, wrong = 0, []
        for block in blocks_of(page):
            if block.lang not in RUN or block.kind != kind or block.reason:
                continue
            for command, wanted in block.steps:
                said, code = shell.step(command)
                count += 1
                if code != 0 and (wanted is None or wanted.strip() == "…"):  # dots hide no failure
                    wrong.append(f"{block}: exit code {code}\n{said}")
                elif wanted is not None and not matches(wanted, said):
                    wrong.append(f"{block}: {command}\n{said}\nis not\n{wanted}")
        assert not wrong, "\n\n".join(wrong)
        return count
