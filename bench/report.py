"""Tables of what was measured, and doc/performance.md: what stands between a section's two markers
is replaced, the text around them is kept."""
import os
import pathlib
import platform
import re
import statistics
import subprocess
import time


def number(value):
    if value != value:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def shares(figures):
    """CPUs that the server and the generator used."""
    seconds = float(figures["secs"])
    return float(figures["server_cpu"]) / seconds, float(figures["client_cpu"]) / seconds


def binding(server, client, others):
    if client >= 0.9 and client > server:
        return "client CPU"
    if server >= 0.9:
        return "server CPU"
    return "other load on the machine" if others > 0.3 else "disk, wire or wake-ups"


def bound_by(figures):
    """What kept this run from being faster, as far as its own figures tell."""
    if "server_cpu" not in figures or "ops" not in figures:
        return ""
    server, client = shares(figures)
    who = binding(server, client, float(figures.get("others", 0)))
    if float(figures.get("redis_busy", 0)) >= 0.9 > server:
        who = "CPU of Redis"
    return f"{who} ({100 * server:.0f} % / {100 * client:.0f} %)"


def ceiling(runs):
    """How fast the generator itself is, from the figures of all runs against the echo: a sentence,
    then a line for each load. A server near it may be faster than its own figure says."""
    loads = {}
    for figures in runs:
        load = figures["mode"], f"{figures['conns']}×{figures['depth']}"
        loads.setdefault(load, []).append(figures)
    if not loads:
        return ["The generator was not measured against the echo."]
    rate, lines = {}, []
    for load, found in loads.items():
        rate[load] = statistics.median(float(figures["ops"]) for figures in found)
        server, client = (statistics.median(part) for part in zip(*map(shares, found)))
        others = statistics.median(float(figures.get("others", 0)) for figures in found)
        lines.append(f"- {' '.join(load)}: {number(rate[load])}/s; "
                     f"{binding(server, client, others)} binds (client {100 * client:.0f} %, "
                     f"echo {100 * server:.0f} %; {len(found)} run{'s' * (len(found) != 1)})")
    best = max(rate, key=rate.get)
    return [f"The generator's own ceiling: it reached {rate[best] / 1e6:.2f} M/s against the echo "
            f"({' '.join(best)}).", "", *lines]


def stored_echo(path):
    """The figures of the echo in the raw lines of a file."""
    lines = [line for line in path.read_text().splitlines()
             if line.startswith("echo mode=") and " failed=" not in line]
    return [dict(word.split("=", 1) for word in line.split() if "=" in word) for line in lines]


def table(row, results):
    heads = [head for head, _, _ in row.columns]
    lines = ["| | " + " | ".join([heads[0], "min – max", *heads[1:]])
             + " | CPU s/M | bound by (server / client CPU) |",
             "| --- |" + " ---: |" * (len(heads) + 2) + " --- |"]
    for case in results.of:
        if case == "calib":
            continue
        cells = []
        for i, (_, key, divisor) in enumerate(row.columns):
            found = [value / divisor for value in results.all(case, key)]
            cells.append(number(statistics.median(found)) if found else "–")
            if i == 0:
                cells.append(f"{number(min(found))} – {number(max(found))}" if found else "–")
        cells += [number(results.cpu_each(case)), bound_by(results.of[case][-1])]
        lines.append(f"| {case} | " + " | ".join(cells) + " |")
    return lines


def calibration(results):
    if "calib" not in results.of:
        return []
    keys = sorted(results.of["calib"][0], key=lambda key: [int(w) if w.isdigit() else w for w in
                                                           re.split(r"(\d+)", key)])
    said = ", ".join(f"{key} {number(results.median('calib', key))}" for key in keys
                     if key not in ("load1", "steal", "others", "busy"))
    return ["", f"Calibration (medians): {said}."]


def besides(results):
    all_of = [figures for runs in results.of.values() for figures in runs if "others" in figures]
    if not all_of:
        return ""
    others = [figures["others"] for figures in all_of]
    steal = max(figures["steal"] for figures in all_of)
    return (f"Other load while it ran: median {statistics.median(others):.2f}, "
            f"at most {max(others):.2f} CPUs; steal at most {100 * steal:.1f} %.")


def raw(case, figures):
    return " ".join([case.replace(" ", "_"), *(f"{key}={value}" for key, value in figures.items())])


def section(row, results, reps):
    """The markdown of one row."""
    lines = [f"### {row.title}", "",
             f"{time.strftime('%Y-%m-%d %H:%M')}, {reps} repetition{'s' * (reps != 1)}, medians. "
             f"{besides(results)}", "", *table(row, results), ""]
    lines += [f"- {goal.words()}" for goal in row.judge(results)]
    bad = [f"- **failed**: {case}: {figures['failed']}" for case, runs in results.of.items()
           for figures in runs if "failed" in figures]
    lines += bad + calibration(results)
    if row.name == "sustained":
        lines += ["", "![put latency in each second](performance-sustained.svg)"]
    lines += ["", "<details><summary>raw lines</summary>", "", "```"]
    lines += [raw(case, figures) for case, runs in results.of.items() for figures in runs]
    return lines + ["```", "", "</details>"]


def said_by(*command, line=0):
    try:
        out = subprocess.run(command, capture_output=True, text=True, timeout=10)
        return (out.stdout or out.stderr).strip().splitlines()[line]
    except (OSError, IndexError, subprocess.TimeoutExpired):
        return "?"


def file_system(folder):
    """ext4, tmpfs ... or ?"""
    words = said_by("df", "--output=fstype", str(folder), line=1).split()
    return words[0] if words else "?"


def machine(scratch, tarry):
    model = "?"
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
    memory = pathlib.Path("/proc/meminfo").read_text().split()[1]
    return [f"{time.strftime('%Y-%m-%d %H:%M %Z')}. {model}, {os.cpu_count()} CPUs, "
            f"{int(memory) / 1048576:.0f} GiB; Linux {platform.release()}; data on "
            f"{file_system(scratch)}. {said_by(str(tarry), 'version')} "
            f"({said_by('git', 'rev-parse', '--short', 'HEAD')}), "
            f"{said_by('beanstalkd', '-v')}, {said_by('redis-server', '--version')[:21]}."]


def store(path, name, lines):
    """Puts a section into the file, in place of its last one or at the end."""
    begin, end = f"<!-- bench {name} begin -->", f"<!-- bench {name} end -->"
    text = path.read_text()
    new = "\n".join([begin, *lines, end])
    if begin in text and end in text:
        head, rest = text.split(begin, 1)
        text = head + new + rest.split(end, 1)[1]
    else:
        text = text.rstrip("\n") + "\n\n" + new + "\n"
    path.write_text(text)
