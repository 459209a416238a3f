"""Our reader of time zones and our ticks, against Python's zoneinfo and a slow, obvious reader of cron.

Nothing is copied: both read the tz database of this machine.
"""
import datetime
import os
import random
import subprocess
import zoneinfo

import pytest

ZONE_TOOL = os.environ.get("ZONE_TOOL") or os.path.join(
    os.path.dirname(os.environ["TARRY_BIN"]), "zone-tool")
UTC = datetime.timezone.utc
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=UTC)

# Those with odd rules: half an hour of summer time, a summer that is the standard, a zone that crossed the date line, changes at
# midnight, offsets of quarters, changes by Ramadan, no summer any more, a rule with days of more than 24 hours.
ODD = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Europe/Dublin", "Pacific/Apia",
       "America/Sao_Paulo", "Asia/Kathmandu", "Africa/Casablanca", "Asia/Tehran", "Asia/Gaza",
       "America/Godthab", "Pacific/Chatham", "Asia/Shanghai", "UTC", "Etc/GMT+5", "Antarctica/Troll",
       "America/Havana", "Africa/Cairo", "America/Scoresbysund", "Asia/Beirut"]


def tool(*args, text=None):
    done = subprocess.run([ZONE_TOOL, *map(str, args)], input=text, capture_output=True, text=True,
                          timeout=60)
    assert done.returncode == 0, (args, done.stderr)
    return [int(line) for line in done.stdout.split()]


def all_zones():
    return sorted(zone for zone in zoneinfo.available_timezones()
                  if not zone.startswith("right/") and "localtime" not in zone
                  and zone not in ("Factory", "posixrules"))


def offset(zone, moment):
    local = datetime.datetime.fromtimestamp(moment, UTC).astimezone(zone)
    return int(local.utcoffset().total_seconds())


def test_all_zones_agree_with_zoneinfo():
    """Random moments of 1850 to 2400, and both sides of each change that they find."""
    dice = random.Random(7)
    zones = all_zones()
    assert len(zones) > 300
    for name in zones:
        zone = zoneinfo.ZoneInfo(name)
        count = 400 if name in ODD else 60
        moments = [dice.randrange(-3786912000, 13569465600) for _ in range(count)]
        for year in (1970, 2000, 2026, 2027, 2037, 2038, 2100) if name in ODD else (2026, 2038):
            first = int(datetime.datetime(year, 1, 1, tzinfo=UTC).timestamp())
            moments += [first + day * 86400 for day in range(0, 366, 2)]
        found = tool("offsets", name, text="\n".join(map(str, moments)))
        for moment, east in zip(moments, found, strict=True):
            assert east == offset(zone, moment), (name, moment)


def changes(zone, year):
    """The seconds of a year at which the offset changes: [moment]."""
    first = int(datetime.datetime(year, 1, 1, tzinfo=UTC).timestamp())
    found = []
    for day in range(366):
        low, high = first + day * 86400, first + (day + 1) * 86400
        if offset(zone, low) == offset(zone, high):
            continue
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if offset(zone, middle) == offset(zone, low) else (low, middle)
        found.append(high)
    return found


@pytest.mark.parametrize("name", ODD)
def test_edges_are_at_the_second(name):
    zone = zoneinfo.ZoneInfo(name)
    for year in (1987, 2011, 2026, 2045):
        for edge in changes(zone, year):
            before, after = tool("offsets", name, text=f"{edge - 1} {edge}")
            assert (before, after) == (offset(zone, edge - 1), offset(zone, edge)), (name, edge)


# ---- ticks: a reader who walks through local time, second by second where it matters ----

def matches(field, value, low, high):
    for part in field.split(","):
        part, _, step = part.partition("/")
        first, _, last = part.partition("-")
        if first == "*":
            first, last = low, high
        elif not last:
            last = high if step else first
        if value in range(int(first), int(last) + 1, int(step or 1)):
            return True
    return False


def local_times(minute, hour, begin, end):
    """All minutes of local time that are named, as naive datetimes."""
    day = begin.replace(hour=0, minute=0, second=0)
    while day < end:
        for h in range(24):
            for m in range(60) if matches(hour, h, 0, 23) else ():
                if matches(minute, m, 0, 59):
                    yield day.replace(hour=h, minute=m)
        day += datetime.timedelta(days=1)


def moment_of(local, zone, fold):
    return int((local.replace(tzinfo=zone, fold=fold).astimezone(UTC) - EPOCH).total_seconds())


def expected(zone, minute, hour, begin, end):
    """As doc/schedules.md has it, in words of Python: fold=0 is the first of two, and in a gap the offset before it."""
    ticks = set()
    kind = "all" if all(matches(hour, h, 0, 23) for h in range(24)) else "step" if "/" in hour else "fixed"
    for local in local_times(minute, hour, begin, end):
        first, second = moment_of(local, zone, 0), moment_of(local, zone, 1)
        if offset(zone, first) + first != int((local - datetime.datetime(1970, 1, 1)).total_seconds()):
            # In a gap: `first` counts with the offset before it, `second` with that behind it.
            gap = next(edge for edge in range(second, first + 1)
                       if offset(zone, edge) != offset(zone, edge - 1))
            ticks.add(gap if kind == "fixed" else first)
        else:
            ticks.add(first)
            if kind == "all":
                ticks.add(second)
    return sorted(ticks)


CASES = [("30", "2"), ("0", "2"), ("0", "3"), ("30", "1,2,3"), ("0", "*"), ("30", "*"), ("*/20", "*"),
         ("0", "*/2"), ("30", "0/3"), ("*/10", "2"), ("0", "0"), ("15", "0,1,23"), ("0", "1-4")]


@pytest.mark.parametrize("name", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe",
                                  "Europe/Dublin", "America/Havana", "Asia/Beirut"])
def test_ticks_across_both_edges(name):
    zone = zoneinfo.ZoneInfo(name)
    edges = changes(zone, 2027)
    assert len(edges) == 2, name
    for edge in edges:
        begin = datetime.datetime.fromtimestamp(edge, UTC).replace(tzinfo=None, hour=0, minute=0,
                                                                   second=0)
        begin -= datetime.timedelta(days=2)
        end = begin + datetime.timedelta(days=5)
        for minute, hour in CASES:
            want = expected(zone, minute, hour, begin, end)
            # Of the first and the last day only a part is sure, by offsets of up to 14 hours.
            want = [tick for tick in want if edge - 86400 <= tick < edge + 86400]
            found = tool("ticks", name, f"{minute} {hour} * * *", edge - 86400 - 1, len(want) + 1)
            assert found[:len(want)] == want, (name, minute, hour, edge)
            assert found[len(want)] >= edge + 86400


def test_names_do_not_leave_the_folder(tmp_path):
    (tmp_path / "zones").mkdir()
    (tmp_path / "outside").write_bytes(open("/usr/share/zoneinfo/Europe/Berlin", "rb").read())
    (tmp_path / "zones" / "Mine").write_bytes((tmp_path / "outside").read_bytes())
    (tmp_path / "zones" / "Text").write_text("no zone")
    env = {**os.environ, "TZDIR": str(tmp_path / "zones")}

    def status(name):
        return subprocess.run([ZONE_TOOL, "offsets", name], input="0", env=env, capture_output=True,
                              text=True, timeout=60)

    assert status("Mine").stdout == "3600\n"
    for name in ("../outside", "/etc/passwd", "Mine/../../outside", ".", "..", "a//b", "", "Mine/",
                 "x" * 65, "Europe/Berlin", "Mi\nne"):
        assert "TARRY_ENOTFOUND" in status(name).stderr, name
    assert "TARRY_EINVAL" in status("Text").stderr
