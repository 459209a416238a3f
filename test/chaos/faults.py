"""What goes wrong in a run. Each fault happens, is proven to have happened, and is over when it returns.

A fault gives a dict of its proof: process ids, config epochs, counters before and after. One that cannot
be shown to have happened raises NotProven. `@fault(...)` says what of the world it needs.
"""
import contextlib
import shutil
import signal
import time

from world import redis_cluster, stopped, until

PATIENCE_S = 120
FAULTS = {}


class NotProven(Exception):
    """Nothing is known to have gone wrong: then the run proves nothing."""


def fault(*needs):
    def note(function):
        FAULTS[function.__name__.replace("_", "-")] = (function, set(needs))
        return function
    return note


def proven(condition, **proof):
    if not condition:
        raise NotProven(proof)
    return proof


def some_primary(world, dice):
    return dice.choice([p for p in world.cluster.primaries() if world.cluster.replica_of(p)])


def span(world, dice, short, long):
    """Seconds, not so many in a short run."""
    return dice.uniform(short, min(long, world.options.longest))


def silent(world, server, begin):
    world.silences.append((server.name, begin, world.history.now()))


# ---- nodes ----


@fault()
def kill_node(world, dice):
    """SIGKILL; it is started again on the same ports."""
    victim = dice.choice(world.all_nodes)
    old = victim.process.pid
    world.nodes.remove(victim)
    victim.kill()
    time.sleep(dice.random() * 2)
    victim.start()
    until(victim.is_ready, PATIENCE_S)
    world.nodes.append(victim)
    return proven(victim.process.pid != old, node=victim.name, pids=[old, victim.process.pid])


@fault()
def pause_node(world, dice):
    """SIGSTOP for longer than its lease: it must stop its housekeeping by itself when it goes on."""
    victim = dice.choice(world.all_nodes)
    before = victim.redis("self_stops")
    seconds = span(world, dice, 3.5, 15)
    victim.pause()
    time.sleep(seconds)
    victim.go_on()
    end = time.monotonic() + PATIENCE_S
    while victim.redis("self_stops") <= before and time.monotonic() < end:
        time.sleep(0.1)
    after = victim.redis("self_stops")
    return proven(after > before, node=victim.name, seconds=round(seconds, 1), self_stops=[before, after])


# ---- Redis ----


@fault("redis")
def kill_primary(world, dice):
    """SIGKILL; started again when its replica has taken over."""
    victim = some_primary(world, dice)
    replica = until(lambda: world.cluster.replica_of(victim))
    epoch, old = world.cluster.epoch(victim), victim.process.pid
    begin = world.history.now()
    victim.kill()
    until(lambda: world.cluster.is_primary(replica), PATIENCE_S)
    time.sleep(dice.random())
    silent(world, victim, begin)
    victim.start()
    world.cluster.whole()
    after = world.cluster.epoch(replica)
    return proven(after > epoch and victim.process.pid != old, server=victim.name, successor=replica.name,
                  epochs=[epoch, after], pids=[old, victim.process.pid])


@fault("redis")
def restart_primary(world, dice):
    """SIGKILL, and started again at once from its file, which may lack the last two seconds: Redis puts
    off its writing while the disk syncs."""
    victim = some_primary(world, dice)
    old = victim.process.pid
    slots = world.slots_on(victim)
    began = world.history.now()
    victim.kill()
    victim.start()
    world.cluster.whole()
    if not world.options.wait and not world.options.sql:
        world.history.event("undo", slots=slots, begin=began - 2, end=world.history.now(), server=victim.name,
                            gap=None)
    return proven(victim.process.pid != old, server=victim.name, pids=[old, victim.process.pid],
                  still_primary=world.cluster.is_primary(victim))


@fault("redis")
def pause_primary(world, dice):
    """SIGSTOP until its replica has taken over, and a while longer: it answers as a primary when it wakes."""
    victim = some_primary(world, dice)
    replica = until(lambda: world.cluster.replica_of(victim))
    epoch = world.cluster.epoch(victim)
    begin = world.history.now()
    victim.hang_up()
    world.cluster.paused.add(victim)
    victim.pause()
    try:
        until(lambda: world.cluster.is_primary(replica), PATIENCE_S)
        time.sleep(dice.random() * 2)
    finally:
        silent(world, victim, begin)
        victim.go_on()
        world.cluster.paused.discard(victim)
    world.cluster.whole()
    after = world.cluster.epoch(replica)
    return proven(after > epoch, server=victim.name, successor=replica.name, epochs=[epoch, after])


def planned(world, dice, how):
    old = some_primary(world, dice)
    replica = until(lambda: world.cluster.replica_of(old))
    epoch = world.cluster.epoch(old)
    if not how:
        world.clean.add(replica.name)
    try:
        new = world.cluster.failover(old, how)
        world.cluster.whole()
        time.sleep(0.5)  # so that the monitor sees it
    finally:
        world.clean.discard(replica.name)
    after = world.cluster.epoch(new)
    return proven(after > epoch and new is not old, server=old.name, successor=new.name, epochs=[epoch, after])


@fault("redis")
def failover(world, dice):
    """CLUSTER FAILOVER: loses nothing."""
    return planned(world, dice, ())


@fault("redis")
def takeover(world, dice):
    """CLUSTER FAILOVER TAKEOVER: the replica asks nobody."""
    return planned(world, dice, ("TAKEOVER",))


@fault("redis")
def reshard(world, dice):
    """Hash slots of our topics move to other primaries, key by key, under load."""
    cluster = world.cluster
    before = cluster.counts()
    moved, keys = [], 0
    for _ in range(dice.randint(3, 6)):
        slot = dice.choice(world.slots_busy)
        owner = cluster.owner(world.tags[slot])
        to = dice.choice([p for p in cluster.primaries() if p is not owner])
        begin = world.history.now()
        keys += cluster.move(world.tags[slot], to, pause=dice.choice((0.002, 0.01)))
        world.moves.append((begin, world.history.now(), slot, to.name))
        moved.append(slot)
        proven(cluster.owner(world.tags[slot]) is to, slot=slot)
    end = time.monotonic() + PATIENCE_S
    while cluster.counts().get("MOVED", 0) <= before.get("MOVED", 0) and time.monotonic() < end:
        time.sleep(0.1)
    after = cluster.counts()
    words = {word: after.get(word, 0) - before.get(word, 0) for word in ("MOVED", "ASK", "TRYAGAIN")}
    return proven(keys > 0 and words["MOVED"] > 0, slots=moved, keys=keys, **words)


def is_made(world, slot):
    """Does Redis know a slot of ours?"""
    with contextlib.suppress(redis_cluster.Error):  # CLUSTERDOWN, for a while
        return world.cluster.owner(world.tags[slot]).ask("EXISTS", f"tarry:{{{slot}}}:m") == 1
    return False


def emptied(world, victim, lost):
    """All that a server had is lost; which the nodes must notice. With a database nothing is: they make slots that are
    used anew."""
    if world.options.sql:
        used = [slot for slot in world.slots_on(victim) if slot in world.slots_used]
        until(lambda: not used or any(is_made(world, slot) for slot in used), PATIENCE_S)
        return lost + max(len(used), 1)
    world.history.event("undo", slots=world.slots_on(victim), begin=0, end=world.history.now(), server=victim.name,
                        gap=None)
    end = time.monotonic() + PATIENCE_S
    while sum(n.redis("slots_lost") for n in world.all_nodes) <= lost and time.monotonic() < end:
        time.sleep(0.1)
    return sum(n.redis("slots_lost") for n in world.all_nodes)


@fault("redis", "loses")
def flushall(world, dice):
    """FLUSHALL of a primary: the jobs of its slots are gone, and nothing else."""
    victim = some_primary(world, dice)
    lost = sum(n.redis("slots_lost") for n in world.all_nodes)
    keys = victim("DBSIZE")
    victim("FLUSHALL")
    after = emptied(world, victim, lost)
    return proven(after > lost and keys > 0, server=victim.name, keys=keys, slots_lost=[lost, after])


@fault("redis", "loses")
def wipe(world, dice):
    """A primary comes back without its file, before its replica has taken over."""
    victim = some_primary(world, dice)
    lost = sum(n.redis("slots_lost") for n in world.all_nodes)
    old, run = victim.process.pid, victim.info("server")["run_id"]
    keys = victim("DBSIZE")
    victim.kill()
    shutil.rmtree(f"{victim.folder}/aof-{victim.port}")
    victim.start()
    after = emptied(world, victim, lost)
    world.cluster.whole()
    return proven(after > lost, server=victim.name, keys=keys, pids=[old, victim.process.pid],
                  runs=[run, victim.info("server")["run_id"]], slots_lost=[lost, after])


@fault("redis")
def forget_scripts(world, dice):
    """SCRIPT FLUSH on all servers."""
    before = world.cluster.counts().get("NOSCRIPT", 0)
    for server in world.cluster.primaries():
        server("SCRIPT", "FLUSH")
    end = time.monotonic() + PATIENCE_S
    while (after := world.cluster.counts().get("NOSCRIPT", 0)) <= before and time.monotonic() < end:
        time.sleep(0.1)
    return proven(after > before, NOSCRIPT=[before, after])


def refused(world, dice, word, key, value):
    """All primaries refuse what adds something, with this word, for a while."""
    primaries = world.cluster.primaries()
    before = world.cluster.counts().get(word, 0)
    old = primaries[0]("CONFIG", "GET", key)[1]
    for server in primaries:
        server("CONFIG", "SET", key, value(server))
    time.sleep(span(world, dice, 1, 4))
    end = time.monotonic() + PATIENCE_S
    while (after := world.cluster.counts().get(word, 0)) <= before and time.monotonic() < end:
        time.sleep(0.1)
    for server in primaries:
        server("CONFIG", "SET", key, old)
    return proven(after > before, **{word: [before, after]})


@fault("redis")
def full_redis(world, dice):
    """maxmemory is what is used already: no new jobs, all else goes on."""
    return refused(world, dice, "OOM", "maxmemory", lambda server: server.info("memory")["used_memory"])


@fault("redis")
def no_replicas(world, dice):
    """min-replicas-to-write is more than there are: Redis takes no write at all."""
    return refused(world, dice, "NOREPLICAS", "min-replicas-to-write", lambda server: 3)


# ---- networks ----


def partition(world, name, rules, seconds):
    """These rules for so long. Gives the relay's counters."""
    before = world.relay.rules(*[{"name": name, "ms": 0, **rule} for rule in rules]).get(name, {})
    time.sleep(seconds)
    world.relay.rules()
    after = world.relay.ask().get(name, {})
    counts = {what: n - before.get(what, 0) for what, n in after.items()}
    return proven(sum(counts.values()) > 0, seconds=round(seconds, 2), **counts)


@fault("relays")
def split_node(world, dice):
    """A node sees no Redis for a while; what was sent is not lost, only late, or is reset."""
    victim = dice.choice(world.all_nodes)
    do = dice.choice(("hold", "cut"))
    return {"node": victim.name, "do": do, **partition(
        world, "split-node", [{"from": victim.name, "to": "*", "way": "both", "do": do}],
        span(world, dice, 2, 8))}


@fault("relays")
def deaf_node(world, dice):
    """One way: what a node says arrives, the answers do not. All of it is done, and nobody knows."""
    victim = dice.choice(world.all_nodes)
    do = dice.choice(("hold", "cut"))
    return {"node": victim.name, "do": do, **partition(
        world, "deaf-node", [{"from": victim.name, "to": "*", "way": "back", "do": do}],
        span(world, dice, 1, 4))}


@fault("relays")
def slow_node(world, dice):
    """Each piece between a node and Redis takes its time, near the time-out of 500 ms."""
    victim = dice.choice(world.all_nodes)
    ms = dice.choice((20, 150, 300))
    return {"node": victim.name, "ms": ms, **partition(
        world, "slow-node", [{"from": victim.name, "to": "*", "way": "both", "do": "delay", "ms": ms}],
        span(world, dice, 2, 5))}


@fault("relays", "redis")
def split_primary(world, dice):
    """A primary sees no other Redis server, and clients see it: for a while there are two primaries."""
    victim = some_primary(world, dice)
    replica = until(lambda: world.cluster.replica_of(victim))
    epoch = world.cluster.epoch(victim)
    others = [s.name for s in world.cluster.nodes if s is not victim]
    rules = [{"name": "split-primary", "ms": 0, "way": "both", "do": "cut", "from": a, "to": b}
             for other in others for a, b in ((victim.name, other), (other, victim.name))]
    before = world.relay.rules(*rules).get("split-primary", {})
    try:
        until(lambda: world.cluster.is_primary(replica), PATIENCE_S)
        both = world.cluster.is_primary(victim)
        time.sleep(dice.random() * 2)
    finally:
        world.relay.rules()
    after = world.relay.ask().get("split-primary", {})
    world.cluster.whole()
    now = world.cluster.epoch(replica)
    return proven(now > epoch and after != before, server=victim.name, successor=replica.name, epochs=[epoch, now],
                  two_primaries=both, **after)


# ---- clocks ----


OFFSETS_S = (0.1, 1, 4, 60, 3600)


def seen_offset(world, address, offset, asked):
    """What /v1/cluster of a node says of a server's clock, in seconds, once it is about that."""
    end = time.monotonic() + PATIENCE_S
    told = None
    while time.monotonic() < end:
        for server in asked.get("/v1/cluster")[1].get("servers", ()):
            if server["address"] == address and server["clock_offset_us"] is not None:
                told = server["clock_offset_us"] / 1e6
                if abs(told - offset) < 0.05 + server["round_trip_us"] / 1e6:
                    return told
        time.sleep(0.1)
    raise NotProven({"told": told, "set": offset})


def step(world, dice, name, ask):
    offset = world.options.offset or dice.choice(OFFSETS_S) * dice.choice((1, -1))
    world.set_clock(name, offset)
    told = ask(offset)
    time.sleep(span(world, dice, 1, 5))
    world.set_clock(name, 0)
    ask(0)
    return {"who": name, "offset_s": offset, "seen_s": round(told, 3)}


@fault("clocks", "redis")
def clock_primary(world, dice):
    """The wall clock of a primary is off for some seconds."""
    victim = some_primary(world, dice)
    address = f"127.0.0.1:{victim.public[0]}"
    return step(world, dice, victim.name,
                lambda offset: seen_offset(world, address, offset, world.all_nodes[0]))


@fault("clocks")
def clock_node(world, dice):
    """The wall clock of a node is off: to it, all servers are off the other way."""
    victim = dice.choice(world.all_nodes)
    address = f"127.0.0.1:{some_primary(world, dice).public[0]}"
    return step(world, dice, victim.name, lambda offset: -seen_offset(world, address, -offset, victim))


# ---- ZooKeeper ----


@fault("zookeeper")
def kill_zookeeper(world, dice):
    """SIGKILL of the one that decides; started again. Of three, another one is elected meanwhile."""
    victim = until(world.zoo.leader)
    old = victim.process.pid
    victim.stop()
    others = [s for s in world.zoo.servers if s is not victim]
    if others:
        until(world.zoo.leader, PATIENCE_S)
    else:
        time.sleep(span(world, dice, 1, 6))
    victim.launch()
    until(world.zoo.serves, PATIENCE_S)
    return proven(victim.process.pid != old, pids=[old, victim.process.pid],
                  leader=until(world.zoo.leader).address, was=victim.address)


@fault("zookeeper")
def expire_session(world, dice):
    """A node stands still for longer than its session: ZooKeeper ends that, and the node makes another."""
    victim = dice.choice(world.all_nodes)
    before = sum(s.said().count("Expiring session") for s in world.zoo.servers)
    stops = victim.redis("self_stops")
    victim.pause()
    try:
        until(lambda: sum(s.said().count("Expiring session") for s in world.zoo.servers) > before, PATIENCE_S)
    finally:
        victim.go_on()
    until(victim.is_ready, PATIENCE_S)
    after = sum(s.said().count("Expiring session") for s in world.zoo.servers)
    return proven(after > before and victim.redis("self_stops") > stops, node=victim.name, expired=[before, after])


# ---- MariaDB ----


@fault("sql")
def kill_sql(world, dice):
    """SIGKILL of the database; started again after a while."""
    old = world.sql.process.pid
    world.sql.kill()
    time.sleep(dice.random() * 3)
    world.sql.start()
    return proven(world.sql.process.pid != old, pids=[old, world.sql.process.pid])


@fault("sql")
def pause_sql(world, dice):
    """SIGSTOP of the database."""
    seconds = span(world, dice, 1, 8)
    world.sql.process.send_signal(signal.SIGSTOP)
    until(lambda: stopped(world.sql.process.pid))
    time.sleep(seconds)
    world.sql.process.send_signal(signal.SIGCONT)
    return {"seconds": round(seconds, 1), "pid": world.sql.process.pid}


@fault("sql", "clocks")
def clock_sql(world, dice):
    """The clock that decides is off."""
    def ask(offset):
        told = float(world.sql.ask("SELECT UNIX_TIMESTAMP(NOW(6))")) - time.time()
        return proven(abs(told - offset) < 0.5, told=told, set=offset)["told"]
    return step(world, dice, "sql", ask)
