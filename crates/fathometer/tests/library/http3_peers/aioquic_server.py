"""Serves the files of a folder over HTTP/3, with aioquic.

    aioquic_server.py FOLDER CERTIFICATE KEY [--retry]

Prints its port, and serves until it is killed. The response to `POST` is the SHA-256 of the request's content;
`/reset` resets its stream; `/close` closes the connection.
"""

import argparse
import asyncio
import hashlib
import os

from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.asyncio.server import serve
from aioquic.h3.connection import H3_ALPN, ErrorCode, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ProtocolNegotiated
from aioquic.tls import SessionTicket

FOLDER = ""


class Server(QuicConnectionProtocol):
    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.http = None
        self.requests = {}

    def quic_event_received(self, event):
        if isinstance(event, ProtocolNegotiated):
            self.http = H3Connection(self._quic)
        if self.http is None:
            return
        for happened in self.http.handle_event(event):
            if isinstance(happened, HeadersReceived):
                fields = dict(happened.headers)
                self.requests[happened.stream_id] = (fields, bytearray())
            elif isinstance(happened, DataReceived):
                self.requests[happened.stream_id][1].extend(happened.data)
            else:
                continue
            if happened.stream_ended:
                self.answer(happened.stream_id, *self.requests.pop(happened.stream_id))
        self.transmit()

    def answer(self, stream, fields, content):
        path = fields[b":path"].decode()
        if path == "/reset":
            self._quic.reset_stream(stream, ErrorCode.H3_INTERNAL_ERROR)
            return
        if path == "/close":
            self._quic.close(error_code=ErrorCode.H3_INTERNAL_ERROR, reason_phrase="asked to")
            return
        status, body = 200, b""
        if fields[b":method"] == b"POST":
            body = hashlib.sha256(content).hexdigest().encode()
        else:
            try:
                with open(os.path.join(FOLDER, path.lstrip("/")), "rb") as file:
                    body = file.read()
            except OSError:
                status = 404
        head = [
            (b":status", str(status).encode()),
            (b"server", b"aioquic"),
            (b"content-length", str(len(body)).encode()),
        ]
        is_head = fields[b":method"] == b"HEAD" or not body
        self.http.send_headers(stream, head, end_stream=is_head)
        if not is_head:
            self.http.send_data(stream, body, end_stream=True)


class Tickets:
    """Session tickets, kept in memory, so that clients may resume."""

    def __init__(self):
        self.tickets = {}

    def add(self, ticket: SessionTicket):
        self.tickets[ticket.ticket] = ticket

    def pop(self, label):
        return self.tickets.pop(label, None)


async def run(arguments):
    configuration = QuicConfiguration(is_client=False, alpn_protocols=H3_ALPN)
    configuration.load_cert_chain(arguments.certificate, arguments.key)
    tickets = Tickets()
    server = await serve(
        "127.0.0.1",
        0,
        configuration=configuration,
        create_protocol=Server,
        session_ticket_fetcher=tickets.pop,
        session_ticket_handler=tickets.add,
        retry=arguments.retry,
    )
    port = server._transport.get_extra_info("sockname")[1]
    print(port, flush=True)
    await asyncio.Future()


parser = argparse.ArgumentParser()
parser.add_argument("folder")
parser.add_argument("certificate")
parser.add_argument("key")
parser.add_argument("--retry", action="store_true")
options = parser.parse_args()
FOLDER = options.folder
asyncio.run(run(options))
