"""The wire of the HTTP port: requests in pieces, many at once, too large, malformed; and who may ask."""
import socket

import pytest

from test_http import HEAD, is_error, server, web  # noqa: F401 (fixtures)
from web import raw, read_answer, talk, web_port, web_server

def get(path, *headers):
    return (f"GET {path} HTTP/1.1\r\n" + "".join(f"{h}\r\n" for h in ("Host: localhost", *headers))
            + "\r\n").encode()


def post(path, body, *headers):
    length = f"Content-Length: {len(body)}"
    lines = "".join(f"{h}\r\n" for h in ("Host: localhost", length, *headers))
    return f"POST {path} HTTP/1.1\r\n{lines}\r\n".encode() + body


def test_pipelining(server):
    sent = b"".join(post("/v1/topics/t/jobs", b"%d" % i) for i in range(100))
    sent += get("/nope") + get("/healthz")
    answers = talk(server.web, sent, 102)
    assert [a.status for a in answers] == [201] * 100 + [404, 200]
    ids = [a.json["id"] for a in answers[:100]]
    assert sorted(map(int, ids)) == list(map(int, ids)) and len(set(ids)) == 100
    answers = talk(server.web, b"".join(get(f"/v1/jobs/{id}") for id in ids), 100)
    assert [a.json["body"] for a in answers] == [str(i) for i in range(100)]


def test_byte_by_byte(server):
    with raw(server.web) as wire:
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in post("/v1/topics/t/jobs?delay=1h", b"slow"):
            wire.sendall(bytes([byte]))
        assert read_answer(wire.makefile("rb")).status == 201


def test_chunked_and_expect(server):
    chunks = (b"POST /v1/topics/t/jobs HTTP/1.1\r\n" + HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
              b"3\r\nabc\r\n5;x=y\r\ndefgh\r\n0\r\nTrailer: 1\r\n\r\n")
    first, second = talk(server.web, chunks + get("/healthz"), 2)
    assert first.status == 201 and second.status == 200
    assert talk(server.web, get(f"/v1/jobs/{first.json['id']}"))[0].json["body"] == "abcdefgh"
    with raw(server.web) as wire:
        stream = wire.makefile("rb")
        wire.sendall(b"POST /v1/topics/t/jobs HTTP/1.1\r\n" + HEAD +
                     b"Content-Length: 2\r\nExpect: 100-continue\r\n\r\n")
        assert read_answer(stream).status == 100
        wire.sendall(b"ok")
        assert read_answer(stream).status == 201
        wire.sendall(b"POST /v1/topics/t/jobs?delay=x HTTP/1.1\r\n" + HEAD +
                     b"Content-Length: 2\r\nExpect: 100-continue\r\n\r\n")
        assert read_answer(stream).status == 400  # and nothing is asked for
        assert read_answer(stream) is None
    with raw(server.web) as wire:
        wire.sendall(b"POST /v1/topics/t/jobs HTTP/1.1\r\n" + HEAD +
                     b"Content-Length: 9999999999\r\nExpect: 100-continue\r\n\r\n")
        assert read_answer(wire.makefile("rb")).status == 413


@pytest.mark.parametrize("sizes", ["fffffff", "200000", "ffffffffffffffff", "100001", "1\r\nx\r\n100000"],
                         ids=lambda sizes: sizes.split()[-1])
def test_a_chunk_that_is_too_large_is_refused_before_it_is_sent(server, sizes):
    with raw(server.web) as wire:
        wire.sendall(b"POST /v1/topics/t/jobs HTTP/1.1\r\n" + HEAD + b"Transfer-Encoding: chunked\r\n\r\n" +
                     sizes.encode() + b"\r\n")
        is_error(read_answer(wire.makefile("rb")), 413, "body_too_large")


def test_keep_alive(server):
    with raw(server.web) as wire:
        stream = wire.makefile("rb")
        for _ in range(3):
            wire.sendall(get("/healthz"))
            assert read_answer(stream).status == 200
        wire.sendall(get("/healthz", "Connection: close"))
        answer = read_answer(stream)
        assert answer.headers["Connection"] == "close" and stream.read() == b""
    with raw(server.web) as wire:
        wire.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        stream = wire.makefile("rb")
        assert read_answer(stream).status == 200 and stream.read() == b""
    with raw(server.web) as wire:
        wire.sendall(b"HEAD /v1/stats HTTP/1.1\r\n" + HEAD + b"\r\n" + get("/healthz"))
        stream = wire.makefile("rb")
        assert int(read_answer(stream, "HEAD").headers["Content-Length"]) > 100
        assert read_answer(stream).json["ok"] is True


def test_large_body_that_is_refused_is_answered(server):
    """The client is still sending when it is refused: it must get the answer all the same."""
    with raw(server.web) as wire:
        wire.sendall(b"POST /v1/topics/t/jobs HTTP/1.1\r\n" + HEAD +
                     b"Content-Length: 20000000\r\n\r\n")
        try:
            for _ in range(20):
                wire.sendall(b"x" * 1_000_000)
        except (BrokenPipeError, ConnectionResetError):
            pass
        assert read_answer(wire.makefile("rb")).status == 413


@pytest.mark.parametrize("sent, status", [
    (b"nonsense\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\n\r\n", 400),  # no Host
    (b"GET / HTTP/2.0\r\n" + HEAD + b"\r\n", 505),
    (b"GET / HTTP/1.1\r\n" + HEAD + HEAD + b"\r\n", 400),
    (b"GET /" + b"x" * 20000 + b" HTTP/1.1\r\n", 414),
    (b"GET / HTTP/1.1\r\n" + HEAD + b"X: " + b"x" * 20000, 431),
    (b"GET /v1/jobs/%zz HTTP/1.1\r\n" + HEAD + b"\r\n", 400),
    (b"GET /v1/jobs/% HTTP/1.1\r\n" + HEAD + b"\r\n", 400),
    (b"GET /healthz HTTP/1.1\r\n" + HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx", 400),
    (b"POST /v1/jobs HTTP/1.1\r\n" + HEAD + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"
     b"0\r\n\r\n", 400),
    (b"POST /v1/jobs HTTP/1.1\r\n" + HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
    (b"POST /v1/jobs HTTP/1.1\r\n" + HEAD + b"Content-Length: -1\r\n\r\n", 400),
    (b"POST /v1/jobs HTTP/1.1\r\n" + HEAD + b"Content-Length: 1\r\nContent-Encoding: gzip\r\n\r\nx", 415),
    (b"POST /v1/jobs HTTP/1.1\r\n" + HEAD + b"Content-Length: 1\r\nExpect: cake\r\n\r\nx", 417),
    (b"POST /v1/jobs HTTP/1.1\r\n" + HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
])
def test_bad_requests_are_told_and_closed(server, sent, status):
    with raw(server.web) as wire:
        wire.sendall(sent)
        stream = wire.makefile("rb")
        answer = read_answer(stream)
        assert answer.status == status and answer.headers["Connection"] == "close"
        assert answer.json["error"]["message"]
        assert stream.read() == b""


def test_smuggled_requests_are_not_executed(server, web):
    """What stands behind an ambiguous length is never taken for a request."""
    hidden = b"POST /v1/topics/smuggled/jobs HTTP/1.1\r\n" + HEAD + b"Content-Length: 1\r\n\r\nx"
    for head in (b"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n",
                 b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
                 b"Transfer-Encoding : chunked\r\n", b"Transfer-Encoding: xchunked\r\n",
                 b"Content-Length: 0\r\nContent-Length: 5\r\n", b"Content-Length: +5\r\n"):
        talk(server.web, b"POST /v1/topics/t/jobs HTTP/1.1\r\n" + HEAD + head +
             b"\r\n0\r\n\r\n" + hidden, 1)
    assert web.post("/v1/topics/smuggled/reserve").status == 204


def test_wrong_paths_and_methods(web):
    is_error(web.get("/v2/jobs"), 404, "no_route")
    is_error(web.get("/v1/topics/t/jobs/"), 404, "no_route")
    answer = web.ask("PUT", "/v1/jobs/1")
    is_error(answer, 405)
    assert set(answer.headers["Allow"].split(", ")) == {"GET", "HEAD", "DELETE", "PATCH"}
    is_error(web.ask("OPTIONS", "/v1/jobs"), 405)
    is_error(web.ask("GET", "/v1/jobs/1", b"body"), 400)
    assert "Access-Control-Allow-Origin" not in web.get("/healthz").headers


def test_percent_encoding(web):
    job = web.push("a%2Fb", b"x")
    assert web.get(f"/v1/%6aobs/{job['id']}").json["topic"] == "a/b"
    is_error(web.get("/v1%2Fjobs/1"), 404, "no_route")
    assert web.post("/v1/topics/%74/jobs?%64elay=1%68", b"x").json["state"] == "delayed"
    at = web.post("/v1/topics/t/jobs?at=2027-01-01T00:00:00+08:00", b"x").json  # + is a space there
    assert at["due"] == "2026-12-31T16:00:00.000Z"


# ---- who may ask ----


def test_host(server, tmp_path):
    def ask(host, port):
        sent = b"GET /v1/stats HTTP/1.1\r\nHost: " + host + b"\r\n\r\n"
        return talk(port, sent)[0].status

    for host in (b"127.0.0.1", b"127.0.0.1:1", b"localhost", b"LocalHost:99", b"[::1]:5", b"10.1.2.3"):
        assert ask(host, server.web) == 200, host
    for host in (b"evil.example", b"127.0.0.1.evil.example", b"localhost.evil", b"[::1", b"", b"1.2.3",
                 b"256.1.1.1", b"tarry.example"):
        assert ask(host, server.web) == 421, host
    with web_server(tmp_path / "other", "--set", "http.hosts=x.example, tarry.example") as named:
        port = web_port(named)
        assert ask(b"Tarry.Example:80", port) == 200
        assert ask(b"other.example", port) == 421


def test_foreign_pages(web):
    foreign = [{"Sec-Fetch-Site": "cross-site"}, {"Origin": "http://evil.example"},
               {"Origin": "null"}]
    own = [{"Origin": f"http://127.0.0.1:{web.port}"}, {"Sec-Fetch-Site": "same-origin"}]
    for headers in foreign:
        is_error(web.ask("POST", "/v1/topics/t/jobs", b"x", headers=headers), 403)
        is_error(web.ask("DELETE", "/v1/jobs/1", headers=headers), 403)
        assert web.ask("GET", "/v1/stats", headers=headers).status == 200
    for headers in own:
        assert web.ask("POST", "/v1/topics/t/jobs", b"x", headers=headers).status == 201
