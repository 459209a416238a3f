"""A shop that is told when it was paid: checks the signature, and says "success" from attempt N on.

    python3 receiver.py PORT SECRET N
"""
import hashlib
import hmac
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

PORT, SECRET, GOOD_FROM = int(sys.argv[1]), sys.argv[2].encode(), int(sys.argv[3])
seen = set()  # ids of notifications that are done; a real shop has this in its database


def is_from_tarry(header, body):
    parts = [part.partition("=") for part in header.split(",")]
    t = next((value for name, _, value in parts if name == "t"), "0")
    right = hmac.new(SECRET, t.encode() + b"." + body, hashlib.sha256).hexdigest().encode()
    given = [value.encode() for name, _, value in parts if name == "v1"]  # of the new secret, and of the old
    return abs(time.time() - int(t)) < 300 and any(hmac.compare_digest(right, one) for one in given)


class Shop(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        attempt, name = int(self.headers["Tarry-Attempt"]), self.headers["Idempotency-Key"]
        if not is_from_tarry(self.headers.get("Tarry-Signature", ""), body):
            self.answer(403, "who are you?")
        elif attempt < GOOD_FROM:
            print(f"{self.headers['Tarry-Due']} attempt {attempt}: not now", flush=True)
            self.answer(503, "not now")
        else:
            if name not in seen:  # it may come twice: the second time there is nothing to do
                seen.add(name)
                print(f"{self.headers['Tarry-Due']} attempt {attempt}: {body.decode()}", flush=True)
            self.answer(200, "success")

    def answer(self, status, text):
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        pass


HTTPServer(("127.0.0.1", PORT), Shop).serve_forever()
