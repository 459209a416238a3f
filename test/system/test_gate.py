"""No reply leaves before what it tells of is on disk: seen from outside, with strace.

strace stops a thread at the beginning and at the end of each call, so the order of its lines is
the order of what happened. A reply that tells of a change is good when this order is kept:

    read of the command ... pwrite to a log slot, with the job's body if it is a put
    ... fdatasync of that slot begins ... and returns ... the reply's bytes go to the socket

It holds for whoever hears of the change, so for the answers to other connections, too. strace also
makes syncs slow, which opens the window wide in which a server that does not wait would talk.

Which thread writes and syncs, how many changes go together and when they go is not looked at, but
for two tests of who is held up: those ask more where another thread than the one that talks syncs.
"""
import codecs
import contextlib
import os
import pathlib
import re
import shutil
import signal
import time

import pytest

from client import Client, tarry_with_port
from harness import PATIENCE_S, sanitized

pytestmark = [pytest.mark.skipif(sanitized(), reason="a sanitizer and strace do not go together"),
              pytest.mark.skipif(shutil.which("strace") is None, reason="no strace")]

CALLS = ("fdatasync,fsync,pwrite64,pwritev,pwritev2,write,writev,sendto,sendmsg,recvfrom,recvmsg,"
         "read,readv")
LINE = re.compile(r"(\d+) +(\d+\.\d+) (.*)")
BEGINS = re.compile(r"(\w+)\((\d+)<(.*?)>(?=[,)])(.*)")  # name, fd, what it is, rest
TEXT = re.compile(r'"((?:[^"\\]|\\.)*)"')
WRITES = {"pwrite64", "pwritev", "pwritev2"}
SYNCS = {"fdatasync"}
SENDS = {"write", "writev", "sendto", "sendmsg"}
READS = {"read", "readv", "recvfrom", "recvmsg"}
TEXT_MAX = 16384  # bytes of each buffer in the trace: more than any batch here, less than new slots
SOON_S = 8  # what is to happen within milliseconds, on a busy machine; housekeeping begins after ten seconds


class Call:
    """One system call: where in the order of things it began and ended, and its bytes."""

    def __init__(self, thread, began, ended, text):
        parts = BEGINS.match(text)
        self.thread = thread
        self.begin, self.begin_s = began
        self.end, self.end_s = ended
        self.good = re.search(r"\) += \d+[^\"]*$", text) is not None
        if parts is None:  # a file descriptor that strace could not name
            self.name, self.what, text = "", "", ""
        else:
            self.name, _, self.what, text = parts.groups()  # "/…/w.000", "TCP:[…:1->…:2]"
        self.data = b"".join(codecs.escape_decode(piece)[0] for piece in TEXT.findall(text))

    def __repr__(self):
        return f"{self.name} {self.what} {self.begin}..{self.end} {self.data[:60]!r}"


def calls(path):
    """The calls in a trace, by their end; one that has not ended is left out."""
    found, open_calls = [], {}
    for number, line in enumerate(path.read_text(errors="replace").split("\n")[:-1]):
        thread, at_s, text = LINE.fullmatch(line).groups()
        if text.startswith(("+++", "---")):
            continue
        began = now = number, float(at_s)
        if text.endswith("<unfinished ...>"):
            open_calls[thread] = now, text[:-len("<unfinished ...>")].rstrip()
            continue
        if text.startswith("<... "):
            began, head = open_calls.pop(thread)
            text = head + text.split(" resumed>", 1)[1]
        found.append(Call(thread, began, now, text))
    return found


class Trace:
    """What happened, and whether replies came too soon."""

    def __init__(self, path):
        all_calls = [call for call in calls(path) if call.good]
        self.writes = [call for call in all_calls
                       if call.name in WRITES and re.search(r"/w\.\d+$", call.what)
                       and call.data.strip(b"\0")]  # zeros make room, they tell nothing
        self.syncs = [call for call in all_calls
                      if call.name in SYNCS and re.search(r"/w\.\d+$", call.what)]
        self.sends = [call for call in all_calls
                      if call.name in SENDS and "TCP:" in call.what]
        self.reads = [call for call in all_calls
                      if call.name in READS and "TCP:" in call.what]

    def sent(self, reply):
        """The only send in which these bytes left."""
        found, = [call for call in self.sends if reply in call.data]
        return found

    def read(self, command):
        """The first read that brought these bytes."""
        return next(call for call in self.reads if command in call.data)

    def durable(self, write):
        """The first sync that made this write durable, or None."""
        return next((sync for sync in self.syncs
                     if sync.what == write.what and sync.begin > write.end), None)

    def write_of(self, marker, after=-1):
        """The first write to the log with these bytes (any bytes: b""), from a place on."""
        return next((write for write in self.writes
                     if marker in write.data and write.begin > after), None)

    def too_soon(self, reply, marker=b"", command=None):
        """Why this reply left before its change was durable, or None. The change is the first
        write with the marker, after the command was read."""
        after = self.read(command).end if command else -1
        write = self.write_of(marker, after)
        if write is None:
            return f"{reply!r} was sent, but nothing was written to the log"
        sync = self.durable(write)
        for send in (call for call in self.sends if reply in call.data):
            if sync is None or send.begin < sync.end:
                return f"{send} left before the sync of {write}, which is {sync}"
        return None


class Traced:
    """A server under strace."""

    def __init__(self, server, path):
        self.server = server
        self.path = path
        self.port = server.port()
        self.lines = path.open(errors="replace")
        self.line = ""  # the beginning of one that strace has not written to its end
        children = f"/proc/{server.process.pid}/task/{server.process.pid}/children"
        self.pid = int(pathlib.Path(children).read_text().split()[0])

    def wait_for(self, kind, data):
        """Waits until a read, or a write or sync, with this in it is in the trace.

        Each byte of the trace is looked at once: what a test does next is to come soon. So things
        are to be waited for in the order in which they come."""
        text = data.replace("\r\n", "\\r\\n")
        form = re.compile(rf"\d+ +[\d.]+ (<\.\.\. )?({'|'.join(kind)})\b.*{re.escape(text)}")
        end = time.monotonic() + PATIENCE_S
        while True:
            line = self.lines.readline()
            self.line += line
            if self.line.endswith("\n"):
                if form.match(self.line):
                    self.line = ""
                    return
                self.line = ""
            elif not line:
                if form.match(self.line):
                    return  # strace writes the rest when the call ends
                assert time.monotonic() < end, f"no {data!r}"
                time.sleep(0.002)

    def so_far(self, enough):
        """The trace, as soon as it has enough."""
        end = time.monotonic() + PATIENCE_S
        while not enough(trace := Trace(self.path)):
            assert time.monotonic() < end, "the trace does not have it"
            time.sleep(0.02)
        return trace

    def stop(self, slow_ms=0):
        """In order, unless syncs are so slow that a stop does not wait for them (4.5 s)."""
        os.kill(self.pid, signal.SIGTERM if slow_ms < 1000 else signal.SIGKILL)
        status = self.server.ended()
        assert slow_ms >= 1000 or status == 0, self.server.said
        return Trace(self.path)


def starts(server):
    """Does it come so far as to listen? If not, it has ended, and not as if all were well."""
    try:
        server.port()
    except AssertionError:
        assert server.ended() == 1
        assert "data directory" in server.said
        return False
    return True


@contextlib.contextmanager
def traced(tmp_path, *flags, slow_ms=0, fault=None):
    path = tmp_path / "trace"
    command = ["strace", "-f", "-yy", "-ttt", "-s", str(TEXT_MAX), "-e", "trace=" + CALLS,
               "-e", "signal=none", "-o", str(path)]
    if slow_ms:
        command += ["-e", f"inject=fdatasync:delay_enter={slow_ms * 1000}"]
    if fault:
        command += ["-e", "inject=" + fault]
    with tarry_with_port(tmp_path / "store", *flags, before=command) as server:
        if fault and not starts(server):
            yield None
            return
        made = Traced(server, path)
        try:
            yield made
        finally:
            if server.process.poll() is None:
                os.kill(made.pid, signal.SIGKILL)  # strace ends with it
                server.process.wait(timeout=PATIENCE_S)


def everything(server):
    """Every kind of change, each heard of by another connection while its sync is under way.

    Gives what to look for in the trace: (reply, marker, command)."""
    told = []
    with Client(server.port) as one, Client(server.port) as two, Client(server.port) as three:
        three.send("reserve\r\n")  # waits
        server.wait_for(READS, "reserve\r\n")
        one.send(one.put_bytes(b"MARK-handed"))
        id = three.reply().args[0]
        assert one.reply().args == [id]
        told += [(f"INSERTED {id}\r\n", "MARK-handed", None),
                 (f"RESERVED {id} 11\r\n", "MARK-handed", None)]

        one.send(one.put_bytes(b"MARK-peeked"))
        server.wait_for(READS, "MARK-peeked")
        two.send("peek-ready\r\n")
        id = two.reply().args[0]
        assert one.reply().args == [id]
        told += [(f"INSERTED {id}\r\n", "MARK-peeked", None),
                 (f"FOUND {id} 11\r\n", "MARK-peeked", None)]

        # Due within a minute: a far job may have left memory, and what is asked of it then waits for
        # a read, so that the other connection may be answered first.
        for verb, answer, state in (("release {} 77 40", "RELEASED", "pri: 77"),
                                    ("kick-job {}", "KICKED", "kicks: 1"),
                                    ("bury {} 0", "BURIED", "state: buried"),
                                    ("kick 9", "KICKED 1", "kicks: 2"),
                                    ("delete {}", "DELETED", None)):
            if verb[0] in "rb":
                assert one.ask(f"reserve-job {id}").word == "RESERVED"
            command = verb.format(id)
            one.send(command + "\r\n")
            server.wait_for(READS, command + "\r\n")
            two.send(f"stats-job {id}\r\n")
            heard = two.reply()
            assert " ".join([(found := one.reply()).word, *found.args]) == answer
            told.append((answer + "\r\n", "", command))
            if state:
                assert state in heard.body.decode()
                told.append((state + "\n", "", command))
            else:
                assert heard.word == "NOT_FOUND"
                told.append(("NOT_FOUND\r\n", "", command))
    return [(reply.encode(), marker.encode(), command and (command + "\r\n").encode())
            for reply, marker, command in told]


def test_nobody_hears_of_a_change_before_its_sync(tmp_path):
    with traced(tmp_path, slow_ms=100) as server:
        told = everything(server)
        trace = server.stop()
    assert len(told) == 14
    for reply, marker, command in told:
        assert any(reply in send.data for send in trace.sends), reply
        assert trace.too_soon(reply, marker, command) is None


@pytest.mark.parametrize("sync", ["50ms", "never"])
def test_the_check_can_fail(sync, tmp_path):
    """With weak sync all of these replies are too soon, and the same check says so."""
    def all_too_soon(folder, slow_ms):
        with traced(folder, "--sync", sync, slow_ms=slow_ms) as server:
            told = everything(server)
            trace = server.stop(slow_ms)
        return [row for row in told if trace.too_soon(*row) is None] == []
    in_time(tmp_path, all_too_soon)


@pytest.mark.parametrize("sync", ["50ms", "never"])
def test_with_weak_sync_the_disk_hears_of_it_soon(sync, tmp_path):
    """Nothing else happens, but the put is written, and synced unless never; kill -9 spares it."""
    with traced(tmp_path, "--sync", sync) as server:
        with Client(server.port) as client:
            id = client.put(b"MARK-weak")
            server.wait_for(WRITES, "MARK-weak")
            trace = server.so_far(lambda trace: (write := trace.write_of(b"MARK-weak")) and
                                  (sync == "never" or trace.durable(write)))
        os.kill(server.pid, signal.SIGKILL)
        server.server.process.wait(timeout=PATIENCE_S)
    write = trace.write_of(b"MARK-weak")
    assert write.begin_s - trace.read(b"MARK-weak").end_s < SOON_S
    assert sync == "never" or trace.durable(write).begin_s - write.end_s < SOON_S
    with tarry_with_port(tmp_path / "store") as server, Client(server.port()) as client:
        assert client.peek(id) == b"MARK-weak"


def test_every_put_of_many_waits_for_its_sync(tmp_path):
    """Nothing slowed down, several connections, pipelined."""
    ids = {}
    with traced(tmp_path) as server:
        clients = [Client(server.port) for _ in range(4)]
        for turn in range(10):
            bodies = {}
            for number, client in enumerate(clients):
                bodies[client] = [b"MARK-%d-%d-%d;" % (turn, number, i) for i in range(10)]
                client.send(b"".join(client.put_bytes(body) for body in bodies[client]))
            for client in clients:
                for body in bodies[client]:
                    ids[int(client.reply().args[0])] = body
            for client in clients:
                for _ in range(10):
                    client.send("reserve\r\n")
                    id, body = int((found := client.reply()).args[0]), found.body
                    assert ids[id] == body
                    client.send(f"delete {id}\r\n")
                    assert client.reply().word == "DELETED"
        for client in clients:
            client.close()
        trace = server.stop()
    assert len(ids) == 400
    for id, body in ids.items():
        assert trace.too_soon(b"INSERTED %d\r\n" % id, body) is None
        assert trace.too_soon(b"RESERVED %d " % id, body) is None
        read = trace.read(b"delete %d\r\n" % id)
        sync = trace.durable(trace.write_of(b"", read.end))
        answer = next(send for send in trace.sends
                      if send.what == read.what and send.begin > read.end)
        assert answer.data == b"DELETED\r\n" and answer.begin > sync.end


def in_time(tmp_path, play):
    """A sync that takes some 100 ms is a window in which something else must happen. It may be over
    too soon on a busy machine, so it is opened wider then. `play` says whether it was in time."""
    for slow_ms in (300, 1200, 4800):
        folder = tmp_path / str(slow_ms)
        folder.mkdir()
        if play(folder, slow_ms):
            return
    pytest.fail("it waited for the sync to end, however long that took")


def ask_at_rest(tmp_path, slow_ms):
    """Queries on a store at rest, and a hand-out of a durable job while a sync is under way."""
    with traced(tmp_path, slow_ms=slow_ms) as server:
        with Client(server.port) as one, Client(server.port) as two:
            old = one.put(b"MARK-old")
            assert two.ask("list-tubes").word == "OK"
            assert two.ask("stats").word == "OK"
            assert two.peek(old) == b"MARK-old"
            one.send(one.put_bytes(b"MARK-new"))
            server.wait_for(WRITES, "MARK-new")
            two.send("reserve\r\n")
            assert two.reply().args[0] == str(old)
            assert one.reply().word == "INSERTED"
        trace = server.stop(slow_ms)
    for command, reply in ((b"list-tubes\r\n", b"- default\n"), (b"stats\r\n", b"cmd-put:"),
                           (b"peek %d\r\n" % old, b"FOUND %d " % old)):
        read, send = trace.read(command), trace.sent(reply)
        assert [sync for sync in trace.syncs if read.end < sync.end < send.begin] == []
    asked, handed = trace.read(b"reserve\r\n"), trace.sent(b"RESERVED %d " % old)
    sync = trace.durable(trace.write_of(b"MARK-new"))
    assert [call for call in trace.syncs if asked.end < call.begin < handed.begin] == []
    return sync.thread == asked.thread or sync.begin < asked.begin < handed.end < sync.end


def test_what_saw_nothing_open_is_answered_at_once(tmp_path):
    in_time(tmp_path, ask_at_rest)


def put_during_a_sync(tmp_path, slow_ms):
    """While one put waits for its sync, fifty connections put; the next sync takes them all."""
    with traced(tmp_path, slow_ms=slow_ms) as server:
        first = Client(server.port)
        others = [Client(server.port) for _ in range(50)]
        for client in others:
            assert client.say("use x") == "USING x"
        start = time.monotonic()
        first.send(first.put_bytes(b"MARK-first"))
        server.wait_for(WRITES, "MARK-first")
        for number, client in enumerate(others):
            client.send(client.put_bytes(b"MARK-%d;" % number))
        assert first.reply().word == "INSERTED"
        assert all(client.reply().word == "INSERTED" for client in others)
        took = time.monotonic() - start
        for client in [first, *others]:
            client.close()
        trace = server.stop(slow_ms)
    sync = trace.durable(trace.write_of(b"MARK-first"))
    reads = [trace.read(b"MARK-%d;" % number) for number in range(50)]
    writes = {trace.write_of(b"MARK-%d;" % number) for number in range(50)}
    apart = sync.thread not in {read.thread for read in reads}
    if apart and any(read.end > sync.end for read in reads):
        return False
    assert len(writes) <= (1 if apart else 2), "they did not go together"
    syncs = [call for call in trace.syncs if sync.begin <= call.begin and call.what == sync.what]
    print(f"gate puts=51 syncs={len(syncs)} took_ms={took * 1000:.0f} sync_ms={slow_ms}")
    assert len(syncs) <= len(writes) + 2  # the first one, and what housekeeping there may be
    return True


def test_a_sync_under_way_holds_nobody_up(tmp_path):
    in_time(tmp_path, put_during_a_sync)


def puts_until_it_ends(tmp_path, fault):
    """Puts one after the other to a server that meets the fault: {id: body} of those that it
    acknowledged, or None when it did not even start."""
    kept = {}
    with traced(tmp_path, fault=fault) as server:
        if server is None:
            return None
        with Client(server.port) as client:
            with pytest.raises((EOFError, ConnectionResetError, BrokenPipeError)):
                for number in range(1000):
                    body = b"MARK-%d;" % number
                    kept[client.put(body)] = body
        assert server.server.ended() == 1
        assert "could not be written" in server.server.said
        trace = Trace(server.path)
    for id, body in kept.items():
        assert trace.too_soon(b"INSERTED %d\r\n" % id, body) is None
    return kept


@pytest.mark.parametrize("error", ["fdatasync:error=EIO", "pwritev:error=EIO",
                                   "pwritev:error=ENOSPC"])
def test_what_could_not_be_written_is_not_acknowledged(error, tmp_path):
    """From some call of each thread on, none succeeds. The server says so and ends; what it had
    acknowledged is there at the next start. The store is there before, so that few calls are for
    anything but the log; how many those are is not known here, so the fault comes later and later,
    until some puts go well before it."""
    all_kept, runs = {}, 0
    with tarry_with_port(tmp_path / "store") as server, Client(server.port()) as client:
        all_kept[client.put(b"MARK-old;")] = b"MARK-old;"
        assert server.stop() == 0
    for first in (1, 4, 8, 16, 32, 64, 128):
        kept = puts_until_it_ends(tmp_path, f"{error}:when={first}+")
        if kept is not None:
            all_kept |= kept
            runs += 1
        if kept and len(kept) > 3:
            break
    else:
        pytest.fail("it never acknowledged a few puts before the fault")
    with tarry_with_port(tmp_path / "store") as server, Client(server.port()) as client:
        in_doubt = server.ready()[0] - len(all_kept)  # the last put of each run
        assert 0 <= in_doubt <= runs
        assert {id: client.peek(id) for id in all_kept} == all_kept


def test_calls_that_overlap_are_put_together(tmp_path):
    """The reading of a trace, on one made by hand, whose reply leaves before or after the sync."""
    lines = ["7 1.0 read(9<TCP:[127.0.0.1:1->127.0.0.1:2]>, \"put 0 0 1 4\\r\\nM-\\0011\\r\\n\", 64) = 19",
             "8 1.1 pwritev(5</d/w.000>, [{iov_base=\"ab\", iov_len=2}, {iov_base=\"M-\\0011\", "
             "iov_len=4}], 2, 0 <unfinished ...>",
             "7 1.2 read(9<TCP:[127.0.0.1:1->127.0.0.1:2]>, 0x7f, 64) = -1 EAGAIN (Again)",
             "8 1.3 <... pwritev resumed>)         = 6",
             "8 1.4 fdatasync(5</d/w.000> <unfinished ...>",
             "8 1.5 <... fdatasync resumed>)       = 0 (DELAYED)",
             "8 1.6 +++ exited with 0 +++"]
    send = "7 1.45 write(9<TCP:[127.0.0.1:1->127.0.0.1:2]>, \"INSERTED 1\\r\\n\", 12) = 12"
    path = tmp_path / "trace"
    for at, too_soon in ((7, False), (6, False), (5, True), (1, True)):
        path.write_text("\n".join(lines[:at] + [send] + lines[at:]) + "\n")
        trace = Trace(path)
        assert [len(calls) for calls in (trace.writes, trace.syncs, trace.sends, trace.reads)] == \
            [1, 1, 1, 1]
        assert trace.writes[0].data == b"abM-\x011"
        assert (trace.too_soon(b"INSERTED 1\r\n", b"M-\x011") is not None) == too_soon
    path.write_text("\n".join(lines[:4] + [send]) + "\n")  # no sync at all
    assert "which is None" in Trace(path).too_soon(b"INSERTED 1\r\n", b"M-\x011")
    path.write_text("\n".join(lines[:1] + [send]) + "\n")  # not even a write
    assert "nothing was written" in Trace(path).too_soon(b"INSERTED 1\r\n", b"M-\x011")
