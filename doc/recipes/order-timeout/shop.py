"""Orders that are not paid within half an hour are closed.

    python3 shop.py place 42       an order comes in
    python3 shop.py pay 42         it is paid
    python3 shop.py work [30s]     closes what is not paid; ends when nothing came for so long
"""
import json
import os
import sys
import time
import urllib.error
import urllib.request

SERVER = os.environ.get("TARRY_SERVER", "http://127.0.0.1:11301")


def ask(method, path, body=None):
    """(status, answer) of the server."""
    request = urllib.request.Request(SERVER + path, body, method=method)
    try:
        with urllib.request.urlopen(request) as reply:
            return reply.status, json.loads(reply.read() or "null")
    except urllib.error.HTTPError as refused:
        return refused.code, json.loads(refused.read())


def place(order):
    # The same push sent twice, after a time-out of the network, makes one job: it has a key.
    status, said = ask("POST", f"/v1/topics/unpaid/jobs?delay=30m&key=order-{order}", order.encode())
    assert status in (200, 201), said
    print(f"order {order}: placed, closes at {said['due']} unless it is paid")


def pay(order):
    status, said = ask("DELETE", f"/v1/topics/unpaid/keys/order-{order}")
    if status == 200:
        print(f"order {order}: paid")  # cancelled is cancelled: no worker gets it any more
    elif status in (404, 409):
        print(f"order {order}: too late, give the money back")  # 404: closed; 409: being closed
    else:
        raise RuntimeError(f"order {order}: not known yet, ask again: {said['error']['message']}")


def ack(job):
    status, said = ask("POST", f"/v1/jobs/{job['id']}/ack?lease={job['lease']}")
    if status != 200:  # say, it took longer than the ttr: the lease was lost, and the job comes again
        print(f"order {job['body']}: {said['error']['message']}", file=sys.stderr)


def work(patience):
    while True:
        status, said = ask("POST", f"/v1/topics/unpaid/reserve?wait={patience or '30s'}")
        if status == 204 and patience:
            return
        if status not in (200, 204):  # the server is draining, or not ready: it passes
            print(said["error"]["message"], file=sys.stderr)
            time.sleep(1)
        for job in said["jobs"] if status == 200 else []:
            print(f"order {job['body']}: closed, {job['late_ms']} ms late")  # here: your database
            ack(job)


if __name__ == "__main__":
    {"place": place, "pay": pay, "work": work}[sys.argv[1]](sys.argv[2] if len(sys.argv) > 2 else "")
