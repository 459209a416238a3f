"""Clients of one node that write all they do into a history: one over HTTP, one over the beanstalk port.

What an answer means: ok, done; fail, the server says that it was not done; unknown, all else: no answer, a
broken connection, 503 `unsure`, INTERNAL_ERROR.
"""
import http.client
import itertools
import json
import socket

PATIENCE_S = 5
SURE_NOT = {"away", "draining", "loading"}  # codes of 503 that say: nothing was done


class Gone(Exception):
    """The connection is of no more use."""


class Http:
    """A kept connection; leases come with the jobs, and are good on any node."""

    port = "http"

    def __init__(self, history, node):
        self.history, self.node = history, node
        self.wire = http.client.HTTPConnection("127.0.0.1", node.http, timeout=PATIENCE_S)

    def close(self):
        self.wire.close()

    def ask(self, call, method, path, body=None):
        """(status, what it says) of an ok call; None otherwise. The call is closed unless ok."""
        try:
            self.wire.request(method, path, body=body)
            reply = self.wire.getresponse()
            said = json.loads(reply.read() or b"{}")
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.history.done(call, "unknown", code=type(error).__name__)
            raise Gone from error
        if reply.status < 300:
            return reply.status, said
        code = said.get("error", {}).get("code", "")
        sure = reply.status < 500 or reply.status in (501, 507) or code in SURE_NOT
        self.history.done(call, "fail" if sure else "unknown", code=code, status=reply.status)
        return None

    def push(self, topic, body, delay, ttr, key=None, conflict="replace"):
        call = self.history.invoke("push", topic=topic, body=body, delay=delay, ttr=ttr, port=self.port,
                                   node=self.node.name, **({"key": key, "conflict": conflict} if key else {}))
        path = f"/v1/topics/{topic}/jobs?delay={int(delay * 1000)}ms&ttr={ttr}s&retries=-1&backoff=100ms"
        if key:
            path += f"&key={key}&on_conflict={conflict}"
        answer = self.ask(call, "POST", path, body)
        if answer is None:
            return None
        made = answer[0] == 201
        self.history.done(call, "ok", id=answer[1]["id"], made=made, kept=not made and conflict == "keep")
        return answer[1]["id"]

    def reserve(self, topic, count, wait_ms):
        call = self.history.invoke("reserve", topic=topic, port=self.port, node=self.node.name)
        answer = self.ask(call, "POST", f"/v1/topics/{topic}/reserve?wait={wait_ms}ms&count={count}")
        if answer is None:
            return None
        jobs = [{"id": j["id"], "body": j["body"], "lease": j["lease"]} for j in answer[1].get("jobs", ())]
        self.history.done(call, "ok", jobs=jobs)
        return jobs

    def change(self, op, job, topic, **more):
        """ack, release or touch by the lease. Is it done?"""
        call = self.history.invoke(op, id=job["id"], lease=job["lease"], topic=topic, port=self.port,
                                   node=self.node.name, **more)
        path = f"/v1/jobs/{job['id']}/{op}?lease={job['lease']}"
        if "delay" in more:
            path += f"&delay={int(more['delay'] * 1000)}ms"
        return self.end(call, "POST", path)

    def cancel(self, id_, topic, force=False):
        call = self.history.invoke("cancel", id=id_, topic=topic, port=self.port, node=self.node.name,
                                   **({"force": True} if force else {}))
        return self.end(call, "DELETE", f"/v1/jobs/{id_}" + ("?force=true" if force else ""))

    def fire(self, id_, topic):
        call = self.history.invoke("fire", id=id_, topic=topic, port=self.port, node=self.node.name)
        return self.end(call, "POST", f"/v1/jobs/{id_}/fire")

    def end(self, call, method, path):
        if self.ask(call, method, path) is not None:
            self.history.done(call, "ok")
        return call.how


class Beanstalk:
    """A connection, which is the lease of all that it has reserved."""

    port = "beanstalk"
    numbers = itertools.count(1)
    REFUSALS = {"DRAINING", "OUT_OF_MEMORY", "JOB_TOO_BIG", "NOT_FOUND"}

    def __init__(self, history, node):
        self.history, self.node = history, node
        self.lease = f"connection-{next(self.numbers)}"
        self.since = history.now()  # it was good then
        self.open = True
        self.watched = None
        self.sock = socket.create_connection(("127.0.0.1", node.beanstalk), timeout=PATIENCE_S)
        self.file = self.sock.makefile("rb")

    def close(self):
        """Says until when it was certainly there."""
        if self.open:
            self.open = False
            self.history.event("closed", conn=self.lease, since=self.since)
            self.file.close()
            self.sock.close()

    def line(self, text):
        """Sends, and gives the words of the answer, the body last."""
        begin = self.history.now()
        try:
            self.sock.sendall(text)
            line = self.file.readline()
            if not line.endswith(b"\r\n"):
                raise Gone
            words = line.decode().split()
            if words[0] == "RESERVED":
                words.append(self.file.read(int(words[-1]) + 2)[:-2].decode())
        except OSError as error:
            raise Gone from error
        self.since = begin
        return words

    def must(self, text, good):
        """What has to succeed; if not, the connection is given up."""
        if self.line(text)[0] != good:
            raise Gone

    def ask(self, call, text, good):
        """The words, if the first one is good; None otherwise, and the call is closed."""
        try:
            words = self.line(text)
        except Gone:
            self.history.done(call, "unknown", code="broken")
            raise
        if words[0] in good:
            return words
        self.history.done(call, "fail" if words[0] in self.REFUSALS else "unknown", code=words[0])
        return None

    def push(self, topic, body, delay, ttr):
        if self.watched != topic:
            self.must(b"use %s\r\n" % topic.encode(), "USING")
            self.watched = topic
        call = self.history.invoke("push", topic=topic, body=body, delay=delay, ttr=ttr, port=self.port,
                                   node=self.node.name)
        words = self.ask(call, b"put 1024 %d %d %d\r\n%s\r\n" % (delay, ttr, len(body), body.encode()),
                         ("INSERTED",))
        if words is None:
            return None
        self.history.done(call, "ok", id=words[1])
        return words[1]

    def watch(self, topic):
        """This one, and no other."""
        if self.watched != topic:
            self.must(b"watch %s\r\n" % topic.encode(), "WATCHING")
            self.must(b"ignore %s\r\n" % (self.watched or "default").encode(), "WATCHING")
            self.watched = topic

    def reserve(self, topic, wait_s):
        self.watch(topic)
        call = self.history.invoke("reserve", topic=topic, port=self.port, node=self.node.name)
        words = self.ask(call, b"reserve-with-timeout %d\r\n" % wait_s, ("RESERVED", "TIMED_OUT", "DEADLINE_SOON"))
        if words is None:
            return None
        jobs = [{"id": words[1], "body": words[3], "lease": self.lease}] if words[0] == "RESERVED" else []
        self.history.done(call, "ok", jobs=jobs)
        return jobs

    def change(self, op, job, topic, **more):
        call = self.history.invoke(op, id=job["id"], lease=self.lease, topic=topic, port=self.port,
                                   node=self.node.name, **more)
        text = {"ack": "delete {id}", "touch": "touch {id}", "release": "release {id} 1024 {delay}"}[op].format(
            id=job["id"], **more)
        return self.end(call, text)

    def cancel(self, id_, topic):
        call = self.history.invoke("cancel", id=id_, topic=topic, port=self.port, node=self.node.name)
        return self.end(call, f"delete {id_}")

    def end(self, call, text):
        if self.ask(call, text.encode() + b"\r\n", ("DELETED", "RELEASED", "TOUCHED", "BURIED")) is not None:
            self.history.done(call, "ok")
        return call.how
