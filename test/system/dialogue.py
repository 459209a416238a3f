"""Reads the dialogues of test/proto and replays them against a live server.

test/proto/README.md is the format. By hand: dialogue.py tarry|beanstalkd FILE...
"""
import pathlib
import re
import sys
import time

from beanstalk import SERVERS, Conn

FOLDER = pathlib.Path(__file__).parent.parent / "proto"
PATIENCE_S = 30    # for an expected reply; a wrong dialogue must not take a minute to say so
SILENCE_S = 0.05   # how long nothing must arrive for A<>
SLOW_S = 0.2       # all answers together, without times that pass in it: less than any of these may be off by
SETTLE_S = 0.02    # so that the server sees the packets of two connections in our order
ESCAPES = {"r": b"\r", "n": b"\n", "t": b"\t", "0": b"\0", "\\": b"\\", "$": b"$"}
ENGINES = {"local", "redis", "sql"}  # who has the jobs; beanstalkd has them itself
STEP = re.compile(r"([A-Z])(> |<>|< |<ok |<keys |<list ?|\.close|\.halfclose|\.eof)(.*)")


class Wrong(Exception):
    """The server did not say what the dialogue wants, or the dialogue makes no sense."""


class TooSlow(Wrong):
    """The same, but answers before it took so long that its times may have passed."""


def pieces(text):
    """Splits a text with escapes into byte strings and variable numbers."""
    out = [b""]
    at = 0
    while at < len(text):
        if text[at] == "$":
            number = re.compile(r"[1-9][0-9]?").match(text, at + 1)
            if not number:
                raise Wrong("$ without a number; a plain one is \\$")
            out += [int(number[0]), b""]
            at = number.end()
        elif text[at] != "\\":
            out[-1] += text[at].encode()
            at += 1
        elif text.startswith("\\x", at):
            out[-1] += bytes.fromhex(text[at + 2:at + 4])
            at += 4
        elif text.startswith("\\{", at):
            end = text.index("}", at)
            out[-1] += text[at + 2].encode() * int(text[at + 4:end])
            at = end + 1
        else:
            out[-1] += ESCAPES[text[at + 1]]
            at += 2
    return out


def steps(text, server, engine="local"):
    """The steps of a dialogue that are for this server: (line number, who, verb, argument)."""
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("!"):
            only, _, line = line[1:].partition(" ")
            names = set(only.split(","))
            if not (names <= set(SERVERS) or names <= ENGINES):
                raise Wrong(f"line {number}: no server {only!r}")
            if not names & {server, engine}:
                if line == "":
                    return
                continue
        if line == "" or line.startswith("#"):
            continue
        step = STEP.fullmatch(line)
        wait = re.fullmatch(r"\+(\d+)ms", line)
        if step:
            yield number, step[1], step[2].strip(), step[3]
        elif wait:
            yield number, "", "wait", int(wait[1]) / 1000
        elif line == "drain":
            yield number, "", "drain", ""
        else:
            raise Wrong(f"line {number}: {line!r} is no step")


def is_for(text, server):
    return next(steps(text, server), None) is not None


def has_time(text):
    return any(verb == "wait" for server in SERVERS for _, _, verb, _ in steps(text, server))


class Replay:
    """One run of one dialogue."""

    def __init__(self, server, split):
        self.server = server
        self.split = split
        self.conns = {}
        self.values = {}     # of the variables
        self.unsettled = ""  # who acted last without an answer since
        self.asked = b""     # what was sent last
        self.slow_s = 0.0    # how long it took that should take no time

    def conn(self, who):
        if who not in self.conns:
            self.conns[who] = Conn(self.server.address)
        return self.conns[who]

    def value(self, number):
        if number not in self.values:
            raise Wrong(f"${number} has no value yet")
        return self.values[number]

    def text(self, text):
        """The bytes of a text whose variables all have values."""
        return b"".join(p if isinstance(p, bytes) else self.value(p) for p in pieces(text))

    def expect(self, conn, text):
        """Reads just these bytes; a variable without a value takes the digits that come."""
        seen = b""
        for piece in pieces(text):
            if isinstance(piece, int) and piece not in self.values:
                digits = b""
                while conn.got[:1].isdigit() or (conn.got == b"" and conn.more(PATIENCE_S)
                                                 and conn.got[:1].isdigit()):
                    digits += conn.take(1)
                self.values[piece] = digits
                seen += digits
                if digits == b"":
                    raise Wrong(f"no number for ${piece} after {seen!r}, but {conn.got!r}")
                continue
            want = piece if isinstance(piece, bytes) else self.values[piece]
            got = conn.bytes(len(want), PATIENCE_S)
            seen += got
            if got != want:
                while conn.more(SILENCE_S):
                    pass
                raise Wrong(f"not what came: {seen + conn.got!r}")

    def body(self, conn):
        """The lines of the body of an OK reply."""
        reply = conn.reply(PATIENCE_S)
        head, _, rest = reply.partition(b"\r\n")
        if not re.fullmatch(rb"OK \d+", head) or not rest.startswith(b"---\n") \
                or not rest.endswith(b"\n\r\n") or int(head[3:]) != len(rest) - 2:
            raise Wrong(f"no OK with a body, but {reply!r}")
        return rest[4:-3].split(b"\n") if len(rest) > 6 else []

    def expect_ok(self, conn, arg):
        """Wants each `key: value`; a value a..b is a number from a to b. Of a server that puts a
        job back a moment after its connection has ended (`settles_s`) it is asked again, if this was
        the answer to the last command."""
        end = time.monotonic() + getattr(self.server, "settles_s", 0)
        last = self.asked.removesuffix(b"\r\n").rpartition(b"\r\n")[2]
        while True:
            try:
                self.compare(self.body(conn), arg)
                return
            except Wrong:
                if time.monotonic() >= end or conn.got or not last.startswith(b"stats"):
                    raise
            time.sleep(SETTLE_S)
            conn.send(last + b"\r\n")

    def compare(self, lines, arg):
        have = dict(line.split(b": ", 1) for line in lines)
        for pair in arg.split(" | "):
            key, want = self.text(pair).split(b": ", 1)
            if key.decode() in getattr(self.server, "unlike", ()):
                continue
            span = re.fullmatch(rb"(\d+)\.\.(\d+)", want)
            got = have.get(key)
            if got != want and not (span and got is not None
                                    and int(span[1]) <= int(got) <= int(span[2])):
                raise Wrong(f"want {pair!r}, not {got!r} in {lines!r}")

    def expect_keys(self, conn, arg):
        keys = [line.split(b": ", 1)[0].decode() for line in self.body(conn)]
        want = arg.split()
        if keys[:len(want)] != want:
            raise Wrong(f"the keys are {keys!r}")

    def expect_list(self, conn, arg):
        want = sorted(b"- " + self.text(name) for name in arg.split())
        lines = self.body(conn)
        if sorted(lines) != want:
            raise Wrong(f"the list is {lines!r}")

    def expect_silence(self, conn):
        if conn.got or conn.more(SILENCE_S) or conn.ended:
            raise Wrong(f"something came: {conn.got!r}{' and the end' * conn.ended}")

    def expect_end(self, conn):
        while not conn.got and conn.more(PATIENCE_S):
            pass
        if conn.got or not conn.ended:
            raise Wrong(f"not the end, but {conn.got!r}")

    def settle(self, who):
        """Without this, the server might see the packets of two connections in another order."""
        if self.unsettled not in ("", who):
            time.sleep(SETTLE_S)
            self.slow_s -= SETTLE_S
        self.unsettled = who

    def step(self, who, verb, arg):
        if verb == "wait":
            time.sleep(arg)
            return
        if verb == "drain":
            self.server.drain()
            return
        conn = self.conn(who)
        if verb == ">":
            self.settle(who)
            self.asked = self.text(arg)
            try:
                conn.send(self.asked, self.split)
            except ConnectionError:
                pass  # closed in the middle, by a quit; the next steps say if that is right
        elif verb == ".close":
            self.settle(who)
            self.conns.pop(who).socket.close()
        elif verb == ".halfclose":
            self.settle(who)
            conn.socket.shutdown(1)
        else:
            expect = {"<": self.expect, "<ok": self.expect_ok, "<keys": self.expect_keys,
                      "<list": self.expect_list}
            if verb in expect:
                expect[verb](conn, arg)
            elif verb == "<>":
                self.expect_silence(conn)
            else:
                self.expect_end(conn)
            if self.unsettled == who:
                self.unsettled = ""

    def run(self, text):
        number = 0
        try:
            for number, who, verb, arg in steps(text, self.server.name, getattr(self.server, "engine", "local")):
                began = time.monotonic()
                passes = arg if verb == "wait" else SILENCE_S if verb == "<>" else 0
                try:
                    self.step(who, verb, arg)
                finally:
                    took = time.monotonic() - began - passes
                    self.slow_s += took if 0 < took < PATIENCE_S else 0
            time.sleep(SETTLE_S)
            for who, conn in self.conns.items():
                conn.more(0)
                if conn.got:
                    raise Wrong(f"{who} has got more: {conn.got!r}")
        except (Wrong, OSError, KeyError, ValueError) as error:
            line = text.split("\n")[number - 1]
            kind = TooSlow if self.slow_s > SLOW_S else Wrong
            raise kind(f"line {number}: {line}\n    {type(error).__name__}: {error}") from error
        finally:
            for conn in self.conns.values():
                conn.socket.close()


def replay(path, server, split=False):
    """Plays one file against a server that must be fresh; raises Wrong if it does not agree."""
    Replay(server, split).run(path.read_text())


def play(make, path, split=False, tries=5):
    """Plays one file against the fresh server that make() gives: what is wrong, or nothing. On a machine that was too
    busy it is played again."""
    while True:
        with make() as server:
            try:
                replay(path, server, split)
                return ""
            except Wrong as wrong:
                tries -= 1
                if tries == 0 or not isinstance(wrong, TooSlow):
                    return f"{path.name} {wrong}"


def main(name, *paths):
    bad = 0
    for path in map(pathlib.Path, paths):
        text = path.read_text()
        for split in (False, True)[:1 if has_time(text) else 2]:
            if not is_for(text, name):
                continue
            with SERVERS[name]() as server:
                try:
                    replay(path, server, split)
                except Wrong as error:
                    bad += 1
                    print(f"{path.name}{' (split)' * split}: {error}")
    print(f"{len(paths)} dialogues, {bad} failures")
    return bad != 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
