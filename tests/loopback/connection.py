"""One HTTP/1.1 connection of the loopback server: requests in, JSON or a chunked stream out.

While it streams it also listens, so that it notices at once when the client hangs up; a byte that
comes instead belongs to the next request and is kept for it.
"""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import Mapping
from http import HTTPStatus
from socket import SO_LINGER, SOL_SOCKET

MOST_HEAD_BYTES = 65_536


TLS_HELLO = b"\x16"


class Gone(Exception):
    """The client is not there any more."""


Request = tuple[str, str, dict[str, str], bytes]


class Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._next_byte: asyncio.Task[bytes] | None = None
        self._broken = False

    async def request(self) -> Request:
        """The next request: method, path, headers (lower case), body. Raises Gone at the end."""
        try:
            first = await (self._next_byte or self._reader.read(1))
            self._next_byte = None
            if first == TLS_HELLO:
                self._head(400, {"connection": "close"})  # as a server says that has no TLS
                raise Gone
            if not first:
                raise Gone
            lines = (
                (first + await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            )
            headers = {k.lower(): v for k, _, v in (line.partition(": ") for line in lines[1:])}
            body = await self._reader.readexactly(int(headers.get("content-length", 0)))
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            raise Gone from error
        method, path, _ = lines[0].split(" ", 2)
        return method, path, headers, body

    def send_json(
        self,
        status: int,
        body: Mapping[str, object] | str | object,
        headers: Mapping[str, str] = {},
    ) -> None:
        """A whole answer; a string goes out as it is."""
        data = (body if isinstance(body, str) else json.dumps(body)).encode()
        kind = "text/html" if isinstance(body, str) else "application/json"
        self._head(status, {"content-type": kind, "content-length": str(len(data)), **headers})
        self._writer.write(data)

    def begin_stream(self) -> None:
        self._head(
            200,
            {
                "content-type": "text/event-stream; charset=utf-8",
                "cache-control": "no-cache",
                "transfer-encoding": "chunked",
            },
        )
        self.listen()

    def listen(self) -> None:
        """Notice from here on that the client hangs up."""
        self._next_byte = asyncio.create_task(self._reader.read(1))

    def reset(self) -> None:
        """Tear it down, so that the client gets a reset and no end."""
        socket = self._writer.get_extra_info("socket")
        socket.setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()

    async def chunk(self, data: bytes) -> None:
        """A piece of the stream, at the speed of the reader. Raises Gone."""
        self._writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        try:
            await self._writer.drain()
        except OSError as error:
            raise Gone from error
        await asyncio.sleep(0)
        self._check_there()

    async def end_stream(self) -> None:
        self._writer.write(b"0\r\n\r\n")
        try:
            await self._writer.drain()
        except OSError as error:
            raise Gone from error

    async def rest(self, seconds: float) -> None:
        """Send nothing for a while. Raises Gone as soon as the client is."""
        assert self._next_byte is not None
        await asyncio.wait([self._next_byte], timeout=seconds)
        self._check_there()

    async def rest_until(self, event: asyncio.Event) -> None:
        """Send nothing until then. Raises Gone as soon as the client is."""
        assert self._next_byte is not None
        opened = asyncio.create_task(event.wait())
        try:
            await asyncio.wait([opened, self._next_byte], return_when=asyncio.FIRST_COMPLETED)
        finally:
            opened.cancel()
        self._check_there()

    def close(self) -> None:
        """End the connection, in the middle of whatever it is in."""
        if self._next_byte is not None:
            if self._next_byte.done() and not self._next_byte.cancelled():
                self._next_byte.exception()  # looked at, so that nobody is told of a reset
            self._next_byte.cancel()
        self._writer.close()

    def _check_there(self) -> None:
        if self._next_byte is None or not self._next_byte.done():
            return
        if self._next_byte.exception() is not None or self._next_byte.result() == b"":
            raise Gone

    def _head(self, status: int, headers: Mapping[str, str]) -> None:
        try:
            phrase = HTTPStatus(status).phrase
        except ValueError:  # 529 is Anthropic's own
            phrase = "Overloaded"
        lines = [f"HTTP/1.1 {status} {phrase}", *(f"{k}: {v}" for k, v in headers.items())]
        self._writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
