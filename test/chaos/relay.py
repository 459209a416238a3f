"""TCP relays in front of the Redis servers, in a process of their own: networks that split, lose and wait.

Each server has a relay for its clients and one for the cluster's bus, and announces their ports, so that
all that nodes and servers say to each other goes through here. Who has connected is found in /proc: the
socket at the other end belongs to one of the processes that the harness has named. A rule is about one
link, from whom to whom, and about one direction or both:

    hold    nothing passes; what was sent meanwhile goes on when the rule ends, as TCP does
    cut     the same, and connections are reset when it begins and when it ends
    delay   each piece waits so many ms

The harness says {"rules": [...]} or {"who": {pid: name}} or {"tell": true} in lines of JSON on stdin, and
hears counters of each rule.
"""
import asyncio
import collections
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

PIECE = 65536
NAMED_S = 30   # so long the harness may take to name a process
LOOK_S = 0.05  # looking for owners is work, and all links wait for it


SOCK_DIAG, BY_FAMILY, REQUEST, ERROR = 4, 20, 1, 2  # of linux/netlink.h, linux/sock_diag.h
HOME = socket.inet_aton("127.0.0.1").ljust(16, b"\0")


def socket_of(port, to_port):
    """The inode of the socket that connected from this port, or None. The kernel is asked for this one: /proc/net/tcp
    has all, thousands after a while, and takes as long."""
    asked = struct.pack("=BBBxI", socket.AF_INET, socket.IPPROTO_TCP, 0, 0xffffffff) + \
        struct.pack("!HH", port, to_port) + HOME + HOME + struct.pack("=III", 0, 0xffffffff, 0xffffffff)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, SOCK_DIAG) as wire:
        wire.send(struct.pack("=IHHII", 16 + len(asked), BY_FAMILY, REQUEST, 0, 0) + asked)
        said = wire.recv(4096)
    if struct.unpack_from("=H", said, 4)[0] == ERROR:
        return None
    return str(struct.unpack_from("=I", said, 16 + 4 + 48 + 16)[0])


def sockets_of(pids):
    """{inode: process} of all sockets that these have."""
    out = {}
    for pid in pids:
        try:
            for name in os.listdir(f"/proc/{pid}/fd"):
                try:
                    link = os.readlink(f"/proc/{pid}/fd/{name}")
                except OSError:
                    continue
                if link.startswith("socket:["):
                    out[link[8:-1]] = pid
        except OSError:
            pass
    return out


class Link:
    """One connection through a relay."""

    def __init__(self, source, target):
        self.source, self.target = source, target
        self.writers = []

    def reset(self):
        for writer in self.writers:
            writer.transport.abort()

    def close(self):
        for writer in self.writers:
            writer.close()


class Relays:
    """All of them. `rules`: [{"from", "to", "way": "there"|"back"|"both", "do", "ms", "name"}]; "*" is anybody."""

    def __init__(self):
        self.rules, self.who, self.links = [], {}, set()
        self.owners, self.looked = {}, 0.0
        self.counts = collections.defaultdict(collections.Counter)
        self.changed = asyncio.Event()

    async def listen(self, port, to_port, target):
        await asyncio.start_server(lambda r, w: self.relay(r, w, (port, to_port, target)), "127.0.0.1", port)

    def rules_of(self, link, way):
        return [r for r in self.rules if r["from"] in ("*", link.source) and r["to"] in ("*", link.target)
                and r["way"] in ("both", way)]

    def owner(self, inode):
        now = time.monotonic()
        if inode not in self.owners and now > self.looked + LOOK_S:
            self.owners = sockets_of(list(self.who))
            self.looked = time.monotonic()
        return self.who.get(self.owners.get(inode))

    async def name(self, reader, writer, port):
        """Whose connection this is."""
        inode = socket_of(writer.get_extra_info("peername")[1], port)
        end = time.monotonic() + NAMED_S
        while inode not in (None, "0") and not reader.at_eof() and time.monotonic() < end:
            name = self.owner(inode)
            if name is not None:
                return name
            await asyncio.sleep(LOOK_S)
        return "?"

    async def relay(self, reader, writer, where):
        port, to_port, target = where
        link = Link(await self.name(reader, writer, port), target)
        link.writers.append(writer)
        self.links.add(link)
        try:
            await self.gate(link, "there", 0)
            there, back = await asyncio.open_connection("127.0.0.1", to_port)
            link.writers.append(back)
            await asyncio.gather(self.pump(reader, back, link, "there"), self.pump(there, writer, link, "back"))
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self.links.discard(link)
            link.close()

    async def gate(self, link, way, size):
        """Returns when this may pass."""
        while True:
            rules = self.rules_of(link, way)
            for rule in rules:
                self.counts[rule["name"]][f"{rule['do']} pieces"] += 1
                self.counts[rule["name"]][f"{rule['do']} bytes"] += size
            if not any(r["do"] in ("hold", "cut") for r in rules):
                for rule in rules:
                    await asyncio.sleep(rule["ms"] / 1000)
                return
            await self.changed.wait()

    async def pump(self, reader, writer, link, way):
        while True:
            piece = await reader.read(PIECE)
            await self.gate(link, way, len(piece))
            if not piece:
                link.close()  # who closes one way closes both, here
                return
            writer.write(piece)
            await writer.drain()

    def set_rules(self, rules):
        touched = [r for r in self.rules + rules if r["do"] == "cut"]
        self.rules = rules
        for link in list(self.links):
            for rule in touched:
                if rule["from"] in ("*", link.source) and rule["to"] in ("*", link.target):
                    self.counts[rule["name"]]["connections reset"] += 1
                    link.reset()
                    break
        self.changed.set()
        self.changed = asyncio.Event()

    def obey(self, said):
        if "rules" in said:
            self.set_rules(said["rules"])
        if "who" in said:
            self.who = {int(pid): name for pid, name in said["who"].items()}
        print(json.dumps({name: dict(count) for name, count in self.counts.items()}), flush=True)


async def main():
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the harness says when
    relays = Relays()
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    for port, to_port, target in json.loads(sys.argv[1]):
        await relays.listen(port, to_port, target)

    def listen():
        for line in sys.stdin:
            loop.call_soon_threadsafe(relays.obey, json.loads(line))
        loop.call_soon_threadsafe(ended.set)

    threading.Thread(target=listen, daemon=True).start()
    print("{}", flush=True)
    await ended.wait()
    os._exit(0)


class Control:
    """The harness' end. `ports`: [(port, port of the server, its name)]."""

    def __init__(self, ports):
        self.process = subprocess.Popen([sys.executable, "-B", __file__, json.dumps(ports)], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.lock = threading.Lock()
        self.who = {}
        self.process.stdout.readline()

    def ask(self, **what):
        with self.lock:
            self.process.stdin.write(json.dumps(what) + "\n")
            self.process.stdin.flush()
            return json.loads(self.process.stdout.readline())

    def name(self, pid, name):
        """This process is called so, from now on."""
        self.who = {p: n for p, n in self.who.items() if n != name}
        self.who[pid] = name
        self.ask(who=self.who)

    def rules(self, *rules):
        """These and no others; gives the counters."""
        return self.ask(rules=list(rules))

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=60)


if __name__ == "__main__":
    asyncio.run(main())
