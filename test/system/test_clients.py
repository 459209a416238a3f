"""Client libraries that people use, each through its whole API, against a live server.

The programs are in test/clients. They run against Debian's beanstalkd too, which shows that what
they expect is right. Those for Node come with npm into the build folder, never into the sources.
"""
import fcntl
import hashlib
import pathlib
import shutil
import subprocess

import pytest

from beanstalk import BEANSTALKD
from client import Reference, tarry_with_port
from harness import PATIENCE_S, TARRY, sanitized

CLIENTS = pathlib.Path(__file__).resolve().parent.parent / "clients"
RUBY, PHP, NODE = (shutil.which(name, path="/usr/local/bin:/usr/bin:/bin")
                   for name in ("ruby", "php", "node"))
NPM = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]


def node_folder():
    """test/clients/node with its packages, made once per build folder and lock file."""
    source = CLIENTS / "node"
    folder = pathlib.Path(TARRY).resolve().parent / "test-clients-node"
    folder.mkdir(exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for path in source.iterdir():
            if path.is_file():
                shutil.copy(path, folder)
        want = hashlib.sha256((source / "package-lock.json").read_bytes()).hexdigest()
        made = folder / "made-from"
        if not made.exists() or made.read_text() != want:
            done = subprocess.run(NPM, cwd=folder, capture_output=True, text=True, timeout=600)
            assert done.returncode == 0, done.stdout + done.stderr
            made.write_text(want)
    return folder


def program(name):
    """(what runs it, the file)"""
    if name == "beaneater":
        return [RUBY, "-W0"], CLIENTS / "ruby" / "beaneater_test.rb"
    if name == "pheanstalk":
        return [PHP], CLIENTS / "php" / "pheanstalk_test.php"
    return [NODE], node_folder() / (name.replace("-", "_") + "_test.js")


@pytest.fixture(params=["tarry", "beanstalkd"])
def server(request, tmp_path):
    if request.param == "tarry":
        made = tarry_with_port(tmp_path / "store")
    elif sanitized():
        pytest.skip("the programs were shown to be right with the plain build")
    elif BEANSTALKD is None:
        pytest.skip("no beanstalkd")
    else:
        made = Reference()
    with made:
        yield made
        assert made.process.poll() is None, "the server has ended"


@pytest.mark.parametrize("name", ["beaneater", "pheanstalk", "jackd", "node-beanstalk",
                                  "nodestalker"])
def test_client(name, server):
    runs, path = program(name)
    assert runs[0], f"nothing to run {path.name} with: tools/setup test"
    done = subprocess.run([*runs, path, str(server.port())], capture_output=True, text=True,
                          timeout=PATIENCE_S)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("ok all\n")
