"""A program that uses beanstalkd, and does not know that it talks to tarry.

    python3 tube.py HOST:PORT put TUBE DELAY BODY
    python3 tube.py HOST:PORT work TUBE [SECONDS]     ends when nothing came for so long
"""
import socket
import sys


class Beanstalk:
    def __init__(self, where):
        host, port = where.rsplit(":", 1)
        self.stream = socket.create_connection((host, int(port))).makefile("rwb")

    def say(self, line, body=None):
        """Sends a command and gives the words of the answer."""
        self.stream.write(line.encode() + b"\r\n" + (body + b"\r\n" if body is not None else b""))
        self.stream.flush()
        return self.stream.readline().decode().split()

    def body(self, size):
        return self.stream.read(int(size) + 2)[:-2]


def main(where, word, tube, *more):
    queue = Beanstalk(where)
    if word == "put":
        queue.say(f"use {tube}")
        body = more[1].encode()
        print(*queue.say(f"put 1024 {more[0]} 60 {len(body)}", body))
        return
    queue.say(f"watch {tube}")
    reserve = f"reserve-with-timeout {more[0]}" if more else "reserve"
    while (answer := queue.say(reserve))[0] == "RESERVED":
        print(queue.body(answer[2]).decode())
        queue.say(f"delete {answer[1]}")


main(*sys.argv[1:])
