"""The example config, the systemd unit, the Debian package and the Dockerfile."""
import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from harness import PATIENCE_S, TARRY, Server, sanitized, tarry
from web import Web, web_port, web_server

TOP = pathlib.Path(__file__).parents[2]
CONF = TOP / "contrib" / "tarry.conf"
UNIT = TOP / "contrib" / "systemd" / "tarry.service"
DOCKERFILE = TOP / "packaging" / "Dockerfile"
TLS = ["--set", "tls.cert=@/cert", "--set", "tls.key=@/key"]


def keys_of_help():
    """{key: default} as the binary says."""
    said = tarry("help", "serve").stdout
    rows = re.findall(r"^  ([a-z]+\.[a-z_]+)  +(?:--[a-z-]+  +)?(\S+)  +TARRY_", said, re.M)
    assert len(rows) > 20
    return dict(rows)


def keys_of_conf():
    """{key: (default, comment)} of the example."""
    found, section, comment = {}, "", ""
    for line in CONF.read_text().splitlines():
        if match := re.fullmatch(r"\[(\w+)\]", line):
            section = match[1]
        elif match := re.fullmatch(r"#(\w+) = (.*)", line):
            found[f"{section}.{match[1]}"] = (match[2], comment)
            comment = ""
        else:
            comment = f"{comment} {line[2:]}" if line.startswith("# ") else ""
    return found


def fixed_keys():
    """Those that a reload does not change, as the code says."""
    rows = re.findall(r'NAME\("(\w+)", "(\w+)"\),(.*?)\.apply =', (TOP / "src/server/config_keys.c").read_text(),
                      re.S)
    return {f"{section}.{name}" for section, name, rest in rows if ".fixed" in rest}


# ---- the example config ----


def test_example_has_every_key_and_its_default():
    assert {key: default for key, (default, _) in keys_of_conf().items()} == keys_of_help()


def test_example_explains_every_key():
    fixed = fixed_keys()
    assert {"store.path", "listen.http"} <= fixed and "limits.body" not in fixed
    for key, (_, comment) in keys_of_conf().items():
        assert len(comment) > 20, key
        assert ("(restart)" in comment) == (key in fixed), key


def test_document_names_the_keys_that_are_fixed():
    text = (TOP / "doc" / "config.md").read_text()
    listed = re.search(r"These keys need a restart;.*?: (.*?)\. All others", text, re.S)[1]
    assert set(re.findall(r"`([a-z_.]+)`", listed)) == fixed_keys()


def test_document_has_the_defaults():
    rows = re.findall(r"^\| `([a-z]+\.[a-z_]+)` \|[^|]*\| `TARRY_[A-Z_]+` \| `?([^|`]*)`? \|",
                      (TOP / "doc" / "config.md").read_text(), re.M)
    assert dict(rows) == keys_of_help()


def test_example_is_valid(tmp_path):
    """As it is, and with every key set to its default."""
    conf = tmp_path / "tarry.conf"
    text = CONF.read_text()
    for text in (text, re.sub(r"^#(\w+ = )", r"\1", text, flags=re.M)):
        conf.write_text(text)
        with Server(tmp_path / "store", "--config", str(conf), "--http", "127.0.0.1:0") as server:
            shown = Web(web_port(server)).get("/v1/config").json["settings"]
            assert shown["limits.idle"]["from"] == ("file" if "\nidle = " in text else "default")
            assert server.stop() == 0


# ---- the unit ----


def settings(path):
    return re.findall(r"^(\w+)=(.*)$", path.read_text(), re.M)


def test_unit_is_hardened():
    unit = dict(settings(UNIT))
    assert unit["Type"] == "notify"
    assert unit["User"] == "tarry" and unit["StateDirectory"] == "tarry"
    assert unit["ExecReload"] == "/bin/kill -HUP $MAINPID"
    assert unit["CapabilityBoundingSet"] == "" and unit["ProtectSystem"] == "strict"
    for name in ("NoNewPrivileges", "PrivateTmp", "PrivateDevices", "ProtectHome",
                 "MemoryDenyWriteExecute", "ProtectKernelModules", "RestrictNamespaces"):
        assert unit[name] == "yes", name
    assert set(unit["RestartPreventExitStatus"].split()) == {"2", "3"}
    assert int(unit["TimeoutStopSec"]) > 5
    filters = re.findall(r"^SystemCallFilter=(.*)$", UNIT.read_text(), re.M)  # in order: the last word counts
    assert filters[0] == "@system-service" and filters[-1] == "setpriority sched_setattr"


def analyze(tmp_path, *words):
    """systemd-analyze on a copy of the unit whose program is there."""
    copy = tmp_path / "tarry.service"
    copy.write_text(UNIT.read_text().replace("/usr/bin/tarry", TARRY)
                    .replace("man:tarry(1) man:tarry.conf(5)", "man:man(1)"))
    return subprocess.run(["systemd-analyze", *words, str(copy)], capture_output=True, text=True)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd")
def test_unit_pleases_systemd(tmp_path):
    done = analyze(tmp_path, "verify")
    ours = [line for line in done.stderr.splitlines() if "tarry.service" in line]
    assert ours == []


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd")
def test_unit_exposes_little(tmp_path):
    done = analyze(tmp_path, "security", "--offline=true", "--threshold=20", "--no-pager")
    assert done.returncode == 0, done.stdout[-500:] + done.stderr
    print(done.stdout.strip().splitlines()[-1])


# ---- the Debian package ----


def as_root(*command):
    """As root, or as good as."""
    return [*([] if os.getuid() == 0 else ["fakeroot", "--"]), *map(str, command)]


@pytest.fixture(scope="module")
def deb(tmp_path_factory):
    if shutil.which("dpkg-shlibdeps") is None:
        pytest.skip("no dpkg-dev")
    if sanitized():
        pytest.skip("nobody installs a sanitizer")
    out = tmp_path_factory.mktemp("deb")
    made = subprocess.run([TOP / "packaging" / "build-deb", pathlib.Path(TARRY).parent, out],
                          capture_output=True, text=True)
    assert (made.returncode, made.stderr) == (0, "")
    path = pathlib.Path(made.stdout.strip())
    assert path.parent == out
    return path


class Root:
    """A folder that is the root of a system of its own, as far as dpkg sees it."""

    def __init__(self, path):
        self.path = path
        for folder in ("var/lib/dpkg/info", "var/lib/dpkg/updates", "etc", "var/log"):
            (path / folder).mkdir(parents=True)
        # So that what it depends on is there.
        shutil.copy("/var/lib/dpkg/status", path / "var/lib/dpkg/status")
        (path / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
        (path / "etc/group").write_text("root:x:0:\n")
        (path / "etc/shadow").write_text("root:*:1:0:99999:7:::\n")
        (path / "etc/gshadow").write_text("root:*::\n")

    def dpkg(self, *words):
        done = subprocess.run(as_root("dpkg", f"--root={self.path}", "--force-script-chrootless",
                                      "--force-not-root", *words), capture_output=True, text=True,
                              env={**os.environ, "LC_ALL": "C", "PATH": os.environ["PATH"] + ":/usr/sbin:/sbin"})
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def state(self):
        done = subprocess.run(["dpkg-query", f"--admindir={self.path}/var/lib/dpkg", "-W", "-f",
                               "${db:Status-Status}", "tarry"], capture_output=True, text=True)
        return done.stdout if done.returncode == 0 else None

    def files(self):
        """Of tarry, by path and mode."""
        return {str(path.relative_to(self.path)) for path in self.path.rglob("*")
                if "tarry" in path.name and "var/lib/dpkg" not in str(path)}


def test_package_is_installed_removed_and_purged(deb, tmp_path):
    root = Root(tmp_path / "root")
    root.dpkg("-i", deb)
    assert root.state() == "installed"
    binary, conf = root.path / "usr/bin/tarry", root.path / "etc/tarry/tarry.conf"
    data = root.path / "var/lib/tarry"
    done = subprocess.run([binary, "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, tarry("version").stdout)
    assert re.search(r"^tarry:x?:\d+:\d+:.*:/var/lib/tarry:/usr/sbin/nologin$",
                     (root.path / "etc/passwd").read_text(), re.M)
    if os.getuid() == 0:
        uid = int(re.search(r"^tarry:x?:(\d+):", (root.path / "etc/passwd").read_text(), re.M)[1])
        assert data.stat().st_uid == uid
    assert data.stat().st_mode & 0o7777 == 0o700
    assert conf.stat().st_mode & 0o7777 == 0o640
    assert {"lib/systemd/system/tarry.service", "usr/share/man/man1/tarry.1.gz",
            "usr/share/man/man5/tarry.conf.5.gz", "usr/share/doc/tarry",
            "usr/share/bash-completion/completions/tarry"} <= root.files()
    before = ["env", f"TARRY_CONFIG={conf}"]
    with Server(tmp_path / "store", before=before) as server:  # the config that it comes with is one
        server.ready()
        assert server.stop() == 0

    conf.write_text(conf.read_text() + "\n; a word of the operator's\n")
    root.dpkg("-i", deb)  # once more: what was changed stays
    assert "a word of the operator's" in conf.read_text()
    assert (root.path / "etc/passwd").read_text().count("\ntarry:") == 1

    root.dpkg("-r", "tarry")
    assert root.state() == "config-files"
    assert not binary.exists() and conf.exists() and data.exists()
    (data / "w.000").write_text("jobs")
    said = root.dpkg("--purge", "tarry")
    assert "the jobs in /var/lib/tarry" in said and "are left" in said
    assert root.state() in (None, "not-installed")
    assert not conf.exists() and not conf.parent.exists()
    assert (data / "w.000").read_text() == "jobs"
    assert root.files() == {"var/lib/tarry"}


def test_purge_of_an_unused_package_leaves_nothing(deb, tmp_path):
    root = Root(tmp_path / "root")
    root.dpkg("-i", deb)
    assert "are left" not in root.dpkg("--purge", "tarry")
    assert root.files() == set()


def test_package_says_what_it_needs(deb):
    shown = subprocess.run(["dpkg-deb", "--field", deb], capture_output=True, text=True, check=True).stdout
    fields = dict(re.findall(r"^(\S+): (.*)$", shown, re.M))
    assert fields["Package"] == "tarry"
    assert fields["Version"].startswith(tarry("version").stdout.split()[1] + "-")
    for name in ("libc6", "libuv1", "libinih1"):
        assert name in fields["Depends"]
    listed = subprocess.run(["dpkg-deb", "--contents", deb], capture_output=True, text=True,
                            check=True).stdout
    for line in listed.splitlines():
        mode, owner = line.split()[:2]
        assert owner == "root/root"
        assert "w" not in mode[4:], line
    scripts = subprocess.run(["dpkg-deb", "--info", deb, "postinst"], capture_output=True, text=True,
                             check=True).stdout
    assert scripts.startswith("#!/bin/sh\n")


def test_same_sources_same_package(deb, tmp_path):
    again = subprocess.run([TOP / "packaging" / "build-deb", pathlib.Path(TARRY).parent, tmp_path],
                           capture_output=True, text=True, check=True).stdout.strip()
    assert pathlib.Path(again).read_bytes() == deb.read_bytes()


@pytest.mark.skipif(shutil.which("lintian") is None, reason="no lintian")
def test_lintian_has_no_complaint(deb):
    done = subprocess.run(["lintian", "--fail-on", "error,warning", "--allow-root", "--tag-display-limit", "0", deb],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_scripts_are_plain_shell():
    for path in [*(TOP / "packaging/deb").glob("p*"), TOP / "packaging/build-deb"]:
        done = subprocess.run(["dash", "-n", path] if shutil.which("dash") else ["sh", "-n", path],
                              capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, ""), path


# ---- the Dockerfile ----


def stages():
    """The instructions of each stage, as (word, rest)."""
    text = re.sub(r"^#.*\n", "", DOCKERFILE.read_text(), flags=re.M).replace("\\\n", " ")
    found = []
    for line in filter(None, (line.strip() for line in text.splitlines())):
        word, rest = line.split(maxsplit=1)
        assert word in {"FROM", "RUN", "COPY", "WORKDIR", "USER", "VOLUME", "EXPOSE", "STOPSIGNAL",
                        "HEALTHCHECK", "ENTRYPOINT", "CMD"}, line
        if word == "FROM":
            found.append([])
        found[-1].append((word, " ".join(rest.split())))
    return found


def packages(stage):
    install = next(rest for word, rest in stage if word == "RUN" and "apt-get install" in rest)
    assert "apt-get update &&" in install and "--no-install-recommends" in install
    assert "rm -rf /var/lib/apt/lists/*" in install
    return {word for word in install.split("--no-install-recommends", 1)[1].split("&&")[0].split()}


def test_dockerfile_is_minimal():
    build, last = stages()
    assert build[0] == ("FROM", "debian:12-slim AS build") and last[0] == ("FROM", "debian:12-slim")
    words = dict(last)
    assert words["USER"] == "tarry" and words["STOPSIGNAL"] == "SIGTERM"
    assert "/healthz" in words["HEALTHCHECK"]
    assert words["VOLUME"] == "/var/lib/tarry" and words["EXPOSE"] == "11300 11301"
    assert [word for word, _ in last].count("COPY") == 1
    assert not packages(last) & {"gcc", "make", "meson"}
    flags = json.loads(words["CMD"])
    done = tarry(*json.loads(words["ENTRYPOINT"])[1:], *flags, "--config", "/nonexistent")
    assert "/nonexistent cannot be read" in done.stderr  # and nothing is wrong with the flags


def test_dockerfile_has_what_is_needed(deb):
    build, last = stages()
    setup = (TOP / "tools/setup").read_text()
    run = set(re.search(r"^run='(.*?)'", setup, re.S | re.M)[1].split())
    assert packages(build) >= run - {"git"}
    shown = subprocess.run(["dpkg-deb", "--field", deb, "Depends"], capture_output=True, text=True,
                           check=True).stdout
    libraries = {part.split()[0] for part in shown.split(",")} - {"libc6", "passwd"}
    assert packages(last) >= libraries


@pytest.mark.parametrize("flags", [[], TLS], ids=["plain", "tls"])
def test_dockerfile_asks_for_health(tmp_path, flags):
    """The command of the health check sees a server that answers, with and without TLS, and one that does not."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-keyout", tmp_path / "key", "-out", tmp_path / "cert", "-subj", "/CN=tarry"],
                   check=True, capture_output=True)
    check = json.loads(dict(stages()[1])["HEALTHCHECK"].partition("CMD ")[2])

    def healthy(port):
        command = [word.replace("11301", str(port)) for word in check]
        return subprocess.run(command, capture_output=True, timeout=PATIENCE_S, check=False).returncode == 0

    with web_server(tmp_path / "store", "--sync", "never", *(flag.replace("@", str(tmp_path)) for flag in flags)) as server:
        port = web_port(server)
        assert healthy(port)
    assert not healthy(port)
