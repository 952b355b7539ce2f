"""Requests files from an HTTP/3 server, all at once over one connection, with aioquic.

    aioquic_client.py HOST PORT NAME CA [--keys FILE] [--qlog FOLDER] TARGET...

Prints one JSON object: for each target its status, length, SHA-256, fields and the bytes of the HEADERS
frames that carried them; and for the connection its protocol and whether early data was taken.
"""

import argparse
import asyncio
import hashlib
import json
import sys

from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, StreamReset
from aioquic.quic.logger import QuicFileLogger


class Client(QuicConnectionProtocol):
    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.http = H3Connection(self._quic)
        self.answers = {}
        self.ended = {}

    def ask(self, name, target):
        stream = self._quic.get_next_available_stream_id()
        fields = [
            (b":method", b"GET"),
            (b":scheme", b"https"),
            (b":authority", name.encode()),
            (b":path", target.encode()),
            (b"user-agent", b"aioquic"),
        ]
        self.answers[stream] = {"target": target, "content": b"", "fields": []}
        self.ended[stream] = asyncio.get_running_loop().create_future()
        self.http.send_headers(stream, fields, end_stream=True)
        return stream

    def quic_event_received(self, event):
        if isinstance(event, ConnectionTerminated):
            for future in self.ended.values():
                if not future.done():
                    future.set_exception(ConnectionError(f"{event.error_code:#x} {event.reason_phrase}"))
        if isinstance(event, StreamReset) and event.stream_id in self.ended:
            self.ended[event.stream_id].set_exception(ConnectionError(f"reset {event.error_code:#x}"))
        for happened in self.http.handle_event(event):
            answer = self.answers.get(getattr(happened, "stream_id", None))
            if answer is None:
                continue
            if isinstance(happened, HeadersReceived):
                answer["fields"] += happened.headers
            elif isinstance(happened, DataReceived):
                answer["content"] += happened.data
            if happened.stream_ended and not self.ended[happened.stream_id].done():
                self.ended[happened.stream_id].set_result(None)


async def run(arguments):
    configuration = QuicConfiguration(is_client=True, alpn_protocols=H3_ALPN)
    configuration.load_verify_locations(arguments.authority)
    configuration.server_name = arguments.name
    if arguments.keys:
        configuration.secrets_log_file = open(arguments.keys, "a")
    if arguments.qlog:
        configuration.quic_logger = QuicFileLogger(arguments.qlog)
    async with connect(
        arguments.host, arguments.port, configuration=configuration, create_protocol=Client
    ) as client:
        for target in arguments.targets:
            client.ask(arguments.name, target)
        client.transmit()
        await asyncio.wait_for(asyncio.gather(*client.ended.values()), 60)
        answers = []
        for answer in client.answers.values():
            fields = {name.decode(): value.decode() for name, value in answer["fields"]}
            answers.append(
                {
                    "target": answer["target"],
                    "status": int(fields.pop(":status")),
                    "length": len(answer["content"]),
                    "sha256": hashlib.sha256(answer["content"]).hexdigest(),
                    "fields": fields,
                    "field_bytes": sum(len(name) + len(value) for name, value in answer["fields"]),
                }
            )
        json.dump({"answers": answers}, sys.stdout)


parser = argparse.ArgumentParser()
parser.add_argument("host")
parser.add_argument("port", type=int)
parser.add_argument("name")
parser.add_argument("authority")
parser.add_argument("--keys")
parser.add_argument("--qlog")
parser.add_argument("targets", nargs="+")
asyncio.run(run(parser.parse_args()))
