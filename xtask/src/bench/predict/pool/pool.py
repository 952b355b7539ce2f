"""A pool of threads, each of which serves one connection at a time: reads a request, waits for a backend, and sends a file."""
import os
import random
import socket
import threading
import time

ROOT = "{root}"
BACKEND_S = 0.02

listener = socket.create_server(("{address}", {port}), backlog={backlog})


def answer(connection):
    head = b""
    while b"\r\n\r\n" not in head:
        received = connection.recv(4096)
        if not received:
            return
        head += received
    # The backend takes 20 ms on average, and varies as a database does.
    time.sleep(random.expovariate(1.0 / BACKEND_S))
    path = os.path.join(ROOT, head.split(b" ", 2)[1].decode().lstrip("/"))
    if os.path.isfile(path):
        with open(path, "rb") as file:
            body = file.read()
        status = b"200 OK"
    else:
        status, body = b"404 Not Found", b""
    fields = b"Content-Type: application/octet-stream\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"
    connection.sendall(b"HTTP/1.0 " + status + b"\r\n" + fields % len(body) + body)


def serve():
    while True:
        connection, _ = listener.accept()
        with connection:
            try:
                answer(connection)
            except OSError:
                # The client has given up.
                pass


for _ in range({connections}):
    threading.Thread(target=serve, daemon=True).start()
threading.Event().wait()
