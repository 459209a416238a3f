"""Chaos, in short: a few faults on a whole cluster under load, and that the judge notices a server with
deliberate bugs. `make chaos` is the long form; test_chaos_check.py has the judge alone."""
import json
import pathlib
import subprocess

import pytest

from harness import TARRY, sanitized

TOP = pathlib.Path(__file__).resolve().parents[2]


def chaos(folder, *args):
    """Runs it: exit status and report."""
    done = subprocess.run([TOP / "tools/chaos", "--once", "--binary", TARRY, "--out", folder, *args],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print(done.stdout)
    report = folder / "report.json"
    return done.returncode, json.loads(report.read_text()) if report.exists() else None


def test_faults(tmp_path):
    faults = ["kill-node", "failover", "deaf-node"] + ([] if sanitized() else ["clock-primary"])
    status, report = chaos(tmp_path, "--seed", "1", "--longest", "2", "--faults", ",".join(faults))
    assert status == 0, report
    assert [f["name"] for f in report["faults"]] == faults
    assert report["calls"]["push ok"] > 50 and report["calls"]["ack ok"] > 50
    assert (tmp_path / "history.jsonl").stat().st_size > 10000


@pytest.mark.skipif(sanitized(), reason="a sanitizer wants to be preloaded first")
def test_deliberate_bugs_are_noticed(tmp_path):
    """Leases that are not compared, and a clock that is an hour ahead and believed."""
    status, report = chaos(tmp_path, "--seed", "1", "--longest", "3", "--offset", "3600", "--faults",
                           "forget-scripts,forget-scripts,clock-primary", "--mutant", "any-lease,any-clock")
    assert status == 1
    assert {"fenced", "early"} <= {kind for kind, _ in report["wrong"]}


def test_a_fault_that_does_not_exist(tmp_path):
    assert chaos(tmp_path, "--faults", "earthquake") == (2, None)
