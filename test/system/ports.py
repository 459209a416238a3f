"""Ports for servers of the tests that have to know theirs before they start, or come back on the same one.

Below those that the kernel gives to whoever connects: so nobody takes one while its server is down, and who tries to
connect to it then does not meet himself. And no two tests get the same one: each is noted by the name of a socket, which
goes with the process. No round numbers, which stand in texts, too.
"""
import random
import socket

LOW, HIGH = 12000, 32000
DICE = random.SystemRandom()
notes = []


def free_port():
    while True:
        port = DICE.randrange(LOW, HIGH)
        if port % 100 == 0:
            continue
        note = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        with socket.socket() as probe:
            try:
                note.bind(f"\0tarry-test-port-{port}")
                probe.bind(("127.0.0.1", port))
            except OSError:
                note.close()
                continue
        notes.append(note)
        return port
