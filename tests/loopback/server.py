"""The loopback server: HTTP on 127.0.0.1 in a thread of its own, answering by a script.

It reads requests off real sockets, hands them to the format that their path names, and writes the
format's frames at the script's pace. It stops itself when its lifetime is over. All waiting inside
is on its own event loop; what tests call is safe from any thread.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn, Self

from tests.loopback.anthropic_wire import AnthropicWire
from tests.loopback.chat_wire import ChatWire
from tests.loopback.checking import Complaint
from tests.loopback.connection import Connection, Gone
from tests.loopback.responses_wire import ResponsesWire
from tests.loopback.script import Answer, Cut, Hang, Hold, Pause, Raw, Refusal, Reply, Script
from tests.loopback.wire import Frame, Out, Wire
from tests.loopback.wishes import WISHES

LIFETIME_S = 120.0
"""How long a server lives where nobody stops it, in seconds."""

WAIT_S = 30.0
"""The longest wait for the server, in seconds; what is waited for takes milliseconds."""

BATCH_BYTES = 16_384
"""How much of an unpaced stream goes out at a time."""

Ended = Literal["complete", "refused", "cut", "gone"]


@dataclass
class Recorded:
    """A request as it came. `ended` says how its answer did: `gone` where the client hung up."""

    path: str
    format: str
    headers: Mapping[str, str]
    body: dict[str, Any]
    ended: Ended | None = None
    complaints: list[Complaint] = field(default_factory=list)


class Loopback:
    """A server that speaks all three formats, by path; see the package's docstring.

    `script` is a list of answers, one per request in the order they come, or a function of the
    request's body (called on the server's thread). `check` switches the checkers; `key` is the one
    API key that is let in, None for any. Where not `stores`, no response is ever found again.
    `wishes` are what is refused beyond the checkers (`wishes.py`). `chunk_bytes` cuts the stream
    into chunks of so many bytes. `lifetime_s` is when the server stops by itself.
    """

    def __init__(
        self,
        script: Script = (),
        *,
        check: bool = True,
        stores: bool = True,
        wishes: Collection[str] = (),
        key: str | None = None,
        lifetime_s: float = LIFETIME_S,
        chunk_bytes: int | None = None,
        port: int = 0,
    ) -> None:
        self._next = _player(script)
        self._check = check
        self._wishes = [WISHES[name] for name in wishes]
        self._responses = ResponsesWire(stores=stores)
        self._wires: tuple[Wire, ...] = (AnthropicWire(), self._responses, ChatWire())
        self._key = key
        self._lifetime_s = lifetime_s
        self._chunk_bytes = chunk_bytes
        self._port = port
        self._changed = threading.Condition()
        self._requests: list[Recorded] = []
        self._reached: set[str] = set()
        self._released: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._connections = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self._failed: BaseException | None = None
        self._thread = threading.Thread(target=self._main, name="loopback", daemon=True)

    # -- life

    def __enter__(self) -> Self:
        self._thread.start()
        self._until(
            lambda: self._loop is not None or self._failed is not None, "the server's start"
        )
        if self._failed is not None:
            raise self._failed
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End it now: streams break off, the port closes. Returns when the thread has ended."""
        if self._loop is not None and self._thread.is_alive():
            with suppress(RuntimeError):  # its lifetime may have ended in this very moment
                self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(WAIT_S)

    def join(self, timeout_s: float | None = None) -> None:
        """Wait until it has stopped by itself."""
        self._thread.join(timeout_s)

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    # -- what tests look at

    @property
    def base_url(self) -> str:
        """Where to point any SDK or adapter; with or without `/v1` behind it, all formats work."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def requests(self) -> list[Recorded]:
        """Every request so far, in the order they came."""
        with self._changed:
            return list(self._requests)

    @property
    def last(self) -> Recorded:
        """The latest request."""
        return self.requests[-1]

    @property
    def complaints(self) -> list[Complaint]:
        """Everything that a checker had against any request."""
        return [complaint for request in self.requests for complaint in request.complaints]

    @property
    def connections(self) -> int:
        """How many connections were opened."""
        return self._connections

    def forget(self) -> None:
        """Drop every stored response, as the service does after a month."""
        self._responses.stored.clear()

    def release(self, name: str) -> None:
        """Let every stream on at `hold(name)`, those that come there later too."""
        assert self._loop is not None, "the server has not started"
        self._loop.call_soon_threadsafe(lambda: self._released[name].set())

    def wait_held(self, name: str, timeout_s: float = WAIT_S) -> None:
        """Return when a stream stands at `hold(name)`: all before it has been sent."""
        self._until(lambda: name in self._reached, f"a stream at {name!r}", timeout_s)

    def wait_requests(self, count: int, timeout_s: float = WAIT_S) -> list[Recorded]:
        """Return when so many requests have come."""
        self._until(lambda: len(self._requests) >= count, f"{count} requests", timeout_s)
        return self.requests

    def wait_ended(self, index: int = -1, timeout_s: float = WAIT_S) -> Ended:
        """How the answer to a request ended, once it has."""
        self._until(
            lambda: bool(self._requests) and self._requests[index].ended is not None,
            f"the end of request {index}",
            timeout_s,
        )
        ended = self._requests[index].ended
        assert ended is not None
        return ended

    def _until(self, done: Callable[[], bool], what: str, timeout_s: float = WAIT_S) -> None:
        with self._changed:
            if not self._changed.wait_for(done, timeout_s):
                raise TimeoutError(f"Waited {timeout_s} s in vain for {what}.")

    # -- the server's thread

    def _main(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            self._failed = error
            self._tell()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._connected, "127.0.0.1", self._port)
        self._port = server.sockets[0].getsockname()[1]
        self._loop = asyncio.get_running_loop()
        self._tell()
        try:
            async with asyncio.timeout(self._lifetime_s):
                await self._stop.wait()
        except TimeoutError:
            pass
        server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _tell(self) -> None:
        with self._changed:
            self._changed.notify_all()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._connections += 1
        connection = Connection(reader, writer)
        try:
            while await self._exchange(connection):
                pass
        except (Gone, asyncio.CancelledError):
            pass
        finally:
            connection.close()
            self._tasks.discard(task)

    async def _exchange(self, connection: Connection) -> bool:
        """Answer one request. False where the connection is at its end."""
        method, path, headers, raw = await connection.request()
        if path.startswith("/loopback/"):
            connection.send_json(200, self._control(method, path))
            return True
        wire = next((w for w in self._wires if path.split("?")[0].endswith(w.path)), None)
        if wire is None or method != "POST":
            connection.send_json(404, {"error": {"message": f"nothing at {method} {path}"}})
            return True
        record = Recorded(path, wire.name, headers, {})
        answer, whole = self._answer(wire, record, raw)
        with self._changed:
            serial = len(self._requests)
            self._requests.append(record)
            self._changed.notify_all()
        try:
            if isinstance(answer, Refusal):
                body = wire.error_body(answer) if answer.body is None else answer.body
                connection.send_json(answer.status, body, answer.headers)
                record.ended = "refused"
                return True
            if isinstance(answer, Hang):
                if answer.reset:
                    connection.reset()
                    record.ended = "cut"
                    return False
                connection.listen()
                await connection.rest_until(asyncio.Event())
            if isinstance(answer, Raw):
                record.ended = await self._play(connection, _frames(answer), None)
                return record.ended == "complete"
            assert isinstance(answer, Reply)
            outs = wire.stream(answer, whole, serial)
            record.ended = await self._play(connection, outs, answer.pace)
            return record.ended == "complete"
        finally:
            record.ended = record.ended or "gone"
            self._tell()

    def _control(self, method: str, path: str) -> object:
        """What another process may ask: GET /loopback/requests, POST /loopback/release/NAME."""
        if method == "POST" and path.startswith("/loopback/release/"):
            self.release(path.removeprefix("/loopback/release/"))
        return [{"path": r.path, "body": r.body, "ended": r.ended} for r in self.requests]

    def _answer(self, wire: Wire, record: Recorded, raw: bytes) -> tuple[Answer, dict[str, Any]]:
        """The answer, and the body that it is one to: with what the service holds of the talk."""
        if refused := wire.refuse_headers(record.headers, self._key):
            return refused, {}
        if refused := self._read(wire, record, raw):
            return refused, {}
        whole = wire.expand(record.body)
        if isinstance(whole, Refusal):
            return whole, {}
        if self._check:
            record.complaints = wire.check(whole)
            if not record.complaints:
                record.complaints = [c for wish in self._wishes for c in wish(whole)]
            if record.complaints:
                return wire.refusal(record.complaints[0]), {}
        if not whole.get("stream"):
            return Refusal(501, 'This server only streams: send "stream": true.'), {}
        try:
            return self._next(whole), whole
        except Exception as error:
            return Refusal(500, f"The script raised {error!r}."), {}

    def _read(self, wire: Wire, record: Recorded, raw: bytes) -> Refusal | None:
        try:
            body = json.loads(raw, parse_constant=_not_json)
            json.dumps(body, ensure_ascii=False).encode()  # a lone surrogate is no text
        except ValueError as error:
            record.complaints = [Complaint(f"The request body is not valid JSON: {error}")]
            return wire.refusal(record.complaints[0])
        if not isinstance(body, dict):
            record.complaints = [Complaint("The request body is not a JSON object.")]
            return wire.refusal(record.complaints[0])
        record.body = body
        return None

    async def _play(self, connection: Connection, outs: Iterator[Out], pace: float | None) -> Ended:
        player = _Player(connection, pace, self._chunk_bytes)
        connection.begin_stream()
        for out in outs:
            match out:
                case Frame():
                    await player.frame(out)
                    if out.last:
                        break
                case Pause(seconds):
                    await player.flush()
                    await connection.rest(seconds)
                case Hold(name):
                    await player.flush()
                    with self._changed:
                        self._reached.add(name)
                        self._changed.notify_all()
                    await connection.rest_until(self._released[name])
                case Cut(clean):
                    await player.flush()
                    if not clean:
                        return "cut"
                    break
        await player.flush()
        await connection.end_stream()
        return "complete"


class _Player:
    """Writes frames: paced ones each at its time, the others in batches."""

    def __init__(self, connection: Connection, pace: float | None, chunk_bytes: int | None) -> None:
        self._connection = connection
        self._pace = pace
        self._chunk_bytes = chunk_bytes
        self._batch = bytearray()
        self._due: float | None = None

    async def frame(self, frame: Frame) -> None:
        if frame.delta and self._pace:
            now = asyncio.get_running_loop().time()
            # Against a schedule, not from one delta to the next: the rate holds on average.
            self._due = now if self._due is None else self._due + 1 / self._pace
            if self._due > now:
                await self.flush()
                await self._connection.rest(self._due - now)
        self._batch += frame.data
        if len(self._batch) >= BATCH_BYTES:
            await self.flush()

    async def flush(self) -> None:
        data = bytes(self._batch)
        self._batch.clear()
        size = self._chunk_bytes or len(data) or 1
        for start in range(0, len(data), size):
            await self._connection.chunk(data[start : start + size])


def _frames(answer: Raw) -> Iterator[Out]:
    for frame in answer.frames:
        if isinstance(frame, bytes):
            yield Frame(frame)
        elif isinstance(frame, Pause | Hold | Cut):
            yield frame
        else:
            raise TypeError(f"{frame!r} has no bytes of its own")


def _player(script: Script) -> Callable[[dict[str, Any]], Answer]:
    if callable(script):
        return script
    answers = iter(script)

    def following(_: dict[str, Any]) -> Answer:
        over = Refusal(500, "The script has no more answers: one more request came than it has.")
        return next(answers, over)

    return following


def _not_json(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
