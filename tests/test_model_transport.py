"""From an SDK's response to deltas: real SDKs over real sockets, silences, cuts, keys, loops.

The server here plays bytes and keeps what it was sent; it knows no provider's rules.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest

from agentloop_nb.errors import ProviderError, StreamCut, UsageError
from agentloop_nb.messages import Message, user
from agentloop_nb.models.anthropic import AnthropicModel
from agentloop_nb.models.assemble import Assembler
from agentloop_nb.models.base import Model, Request, TextChunk
from agentloop_nb.models.failures import from_exception, redact
from agentloop_nb.models.openai_chat import OpenAIChatModel
from agentloop_nb.models.openai_responses import OpenAIModel
from agentloop_nb.models.silence import watch

KEY = "sk-test-0123456789abcdef"
LIMIT_S = 60.0  # no test comes near it; it only keeps a broken one from hanging

ANTHROPIC = [
    {"type": "message_start", "message": {"usage": {"input_tokens": 3, "output_tokens": 1}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "text_delta", "text": "Grüße\u2028🍸"},
    },
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
    {"type": "message_stop"},
]
CHAT = [
    {"choices": [{"index": 0, "delta": {"content": "Grüße\u2028🍸"}, "finish_reason": None}]},
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}},
    "[DONE]",
]
RESPONSES = [
    {"type": "response.output_item.added", "output_index": 0, "item": {"type": "message"}},
    {"type": "response.output_text.delta", "output_index": 0, "delta": "Grüße\u2028🍸"},
    {
        "type": "response.completed",
        "response": {"id": "r", "usage": {"input_tokens": 3, "output_tokens": 2}},
    },
]
ADAPTERS: dict[str, tuple[Any, list[Any], str]] = {
    "anthropic": (AnthropicModel, ANTHROPIC, "/v1/messages"),
    "openai-chat": (OpenAIChatModel, CHAT, "/v1/chat/completions"),
    "openai": (OpenAIModel, RESPONSES, "/v1/responses"),
}


def sse(events: list[Any]) -> bytes:
    lines = (e if isinstance(e, str) else json.dumps(e, ensure_ascii=False) for e in events)
    return "".join(f"data: {line}\n\n" for line in lines).encode()


class Server:
    """Answers each request with what `play` writes; knows the requests and the connections."""

    def __init__(
        self, play: Callable[[asyncio.StreamWriter], Awaitable[None]], status: int
    ) -> None:
        self.play = play
        self.status = status
        self.requests: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        self.connections = 0
        self.gone = asyncio.Event()
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while await self._one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self.gone.set()
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()
        headers = {k.lower(): v for k, _, v in (line.partition(": ") for line in head[1:])}
        body = await reader.readexactly(int(headers["content-length"]))
        self.requests.append((head[0].split()[1], headers, json.loads(body)))
        kind = "text/event-stream" if self.status == 200 else "application/json"
        writer.write(
            f"HTTP/1.1 {self.status} X\r\ncontent-type: {kind}\r\n"
            "transfer-encoding: chunked\r\n\r\n".encode()
        )
        await self.play(writer)
        return not writer.is_closing()


def write(writer: asyncio.StreamWriter, data: bytes) -> None:
    if data:
        writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")


def playing(data: bytes) -> Callable[[asyncio.StreamWriter], Awaitable[None]]:
    async def play(writer: asyncio.StreamWriter) -> None:
        write(writer, data)
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    return play


@asynccontextmanager
async def serving(
    play: bytes | Callable[[asyncio.StreamWriter], Awaitable[None]], status: int = 200
) -> AsyncIterator[Server]:
    server = Server(playing(play) if isinstance(play, bytes) else play, status)
    async with asyncio.timeout(LIMIT_S):
        listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
        server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        try:
            yield server
        finally:
            listening.close()


def make(name: str, server: Server) -> Any:
    url = server.url if name == "anthropic" else server.url + "/v1"
    return ADAPTERS[name][0]("m", base_url=url, api_key=KEY)


def request(limit_s: float | None = LIMIT_S) -> Request:
    return Request("Be brief.", (user("Hallo"),), stream_timeout_s=limit_s)


async def answer(model: Model, limit_s: float | None = LIMIT_S) -> Message:
    assembler = Assembler(0, model.provider)
    async for delta in model.stream(request(limit_s)):
        assembler.feed(delta)
    assert assembler.usage.input_tokens == 3
    assert assembler.usage.output_tokens == 2
    return assembler.finish()


async def failure(model: Model, limit_s: float | None = LIMIT_S) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await answer(model, limit_s)
    return caught.value


@pytest.mark.parametrize("name", ADAPTERS)
def test_a_real_sdk_carries_the_request_out_and_the_bytes_back(name: str) -> None:
    _, events, path = ADAPTERS[name]

    async def scenario() -> None:
        async with serving(sse(events)) as server:
            model = make(name, server)
            assert (await answer(model)).text == "Grüße\u2028🍸"
            ((asked, headers, body),) = server.requests
            assert asked == path
            assert KEY in headers.get("authorization", "") + headers.get("x-api-key", "")
            assert body == model.encode(request())

    asyncio.run(scenario())


@pytest.mark.parametrize("name", ADAPTERS)
def test_rounds_share_a_connection_and_nothing_is_asked_twice(name: str) -> None:
    async def scenario() -> None:
        async with serving(sse(ADAPTERS[name][1])) as server:
            model = make(name, server)
            for _ in range(3):
                await answer(model)
            assert (len(server.requests), server.connections) == (3, 1)

    asyncio.run(scenario())


@pytest.mark.parametrize("name", ADAPTERS)
@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (401, {"error": {"type": "authentication_error", "message": f"bad key {KEY}"}}, "auth"),
        (404, {"error": {"type": "not_found_error", "message": "model: m"}}, "model_not_found"),
        (404, {"error": {"message": "no such page"}}, "request"),
        (429, {"error": {"type": "rate_limit_error", "message": "slow"}}, "rate_limit"),
        (429, {"error": {"code": "insufficient_quota", "message": "pay"}}, "billing"),
        (400, {"error": {"message": "Your credit balance is too low"}}, "billing"),
        (400, {"error": {"message": "prompt is too long: 9 > 8"}}, "context_overflow"),
        (400, {"error": {"message": "odd"}}, "request"),
        (500, {"error": {"message": "m"}}, "server"),
        (529, {"error": {"type": "overloaded_error", "message": "m"}}, "overloaded"),
    ],
)
def test_a_refusal_is_classed_asked_once_and_shows_no_key(
    name: str, status: int, body: dict[str, Any], kind: str
) -> None:
    async def scenario() -> None:
        async with serving(json.dumps(body).encode(), status) as server:
            error = await failure(make(name, server))
            assert (error.kind, error.status) == (kind, status)
            assert KEY not in str(error)
            assert body["error"]["message"].split(" sk-")[0] in str(error)
            assert len(server.requests) == 1

    asyncio.run(scenario())


@pytest.mark.parametrize("name", ADAPTERS)
def test_a_body_that_ends_cleanly_but_early_is_a_cut_stream(name: str) -> None:
    async def scenario() -> None:
        async with serving(sse(ADAPTERS[name][1][:1])) as server:
            assert isinstance(await failure(make(name, server)), StreamCut)

    asyncio.run(scenario())


@pytest.mark.parametrize("name", ADAPTERS)
def test_a_connection_lost_in_mid_stream_is_a_connection_error(name: str) -> None:
    async def lose(writer: asyncio.StreamWriter) -> None:
        write(writer, sse(ADAPTERS[name][1][:1]))
        await writer.drain()
        writer.close()

    async def scenario() -> None:
        async with serving(lose) as server:
            error = await failure(make(name, server))
            assert error.kind == "connection"
            assert not isinstance(error, StreamCut)

    asyncio.run(scenario())


@pytest.mark.parametrize("name", ADAPTERS)
def test_a_server_that_is_not_there_is_a_connection_error(name: str) -> None:
    async def scenario() -> None:
        async with serving(b"") as server:
            pass
        error = await failure(make(name, server))
        assert error.kind == "connection"
        assert "Check the network" in str(error)

    asyncio.run(scenario())


@pytest.mark.parametrize("name", ADAPTERS)
def test_pings_are_silence_and_a_silence_ends_the_request(name: str) -> None:
    async def scenario() -> None:
        pinging = asyncio.Event()

        async def ping(writer: asyncio.StreamWriter) -> None:
            write(writer, sse(ADAPTERS[name][1][:1]))
            while not writer.is_closing():
                write(writer, sse([{"type": "ping"}]) + b": keep-alive\n\n")
                await writer.drain()
                pinging.set()
                await asyncio.sleep(0.01)

        async with serving(ping) as server:
            error = await failure(make(name, server), limit_s=0.3)
            assert pinging.is_set()
            assert error.kind == "timeout"
            assert "sent nothing for 0.3 seconds" in str(error)

    asyncio.run(scenario())


@pytest.mark.parametrize("name", ADAPTERS)
def test_closing_the_stream_closes_the_connection(name: str) -> None:
    async def trickle(writer: asyncio.StreamWriter) -> None:
        write(writer, sse(ADAPTERS[name][1][:3]))
        while True:  # until writing fails because the other side has gone
            write(writer, b": still here\n\n")
            await writer.drain()
            await asyncio.sleep(0.01)

    async def scenario() -> None:
        async with serving(trickle) as server:
            stream = make(name, server).stream(request())
            assert isinstance(await anext(stream), TextChunk)
            assert not server.gone.is_set()
            await stream.aclose()
            await server.gone.wait()

    asyncio.run(scenario())


@pytest.mark.parametrize("name", ADAPTERS)
def test_cancelling_the_reader_closes_the_connection(name: str) -> None:
    async def scenario() -> None:
        asked, gone = asyncio.Event(), asyncio.Event()

        async def hang(writer: asyncio.StreamWriter) -> None:
            asked.set()
            try:
                while True:
                    write(writer, b": nothing yet\n\n")
                    await writer.drain()
                    await asyncio.sleep(0.01)
            finally:
                gone.set()

        async with serving(hang) as server:
            running = asyncio.create_task(answer(make(name, server)))
            await asked.wait()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            await gone.wait()

    asyncio.run(scenario())


@pytest.mark.parametrize("name", ADAPTERS)
def test_a_finished_answer_is_not_held_up_by_a_connection_that_stays_open(name: str) -> None:
    async def linger(writer: asyncio.StreamWriter) -> None:
        write(writer, sse(ADAPTERS[name][1]))
        await writer.drain()
        await asyncio.Event().wait()

    async def scenario() -> None:
        async with serving(linger) as server:
            assert (await answer(make(name, server))).text

    asyncio.run(scenario())


@contextmanager
def served_in_a_thread(
    play: bytes | Callable[[asyncio.StreamWriter], Awaitable[None]],
) -> Iterator[Server]:
    """A server on a loop of its own, which works on while the test's loop is blocked."""
    ready: Future[Server] = Future()
    stop = threading.Event()

    async def serve() -> None:
        async with serving(play) as server:
            ready.set_result(server)
            while not stop.is_set():
                await asyncio.sleep(0.01)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        yield ready.result(LIMIT_S)
    finally:
        stop.set()
        thread.join(LIMIT_S)


@pytest.mark.parametrize("name", ADAPTERS)
def test_one_model_serves_several_loops_one_after_another_and_at_once(name: str) -> None:
    with served_in_a_thread(sse(ADAPTERS[name][1])) as server:
        model = make(name, server)
        texts: list[str] = []

        def run() -> None:
            texts.append(asyncio.run(answer(model)).text)

        run()
        run()
        others = [threading.Thread(target=run) for _ in range(3)]
        for other in others:
            other.start()
        for other in others:
            other.join(LIMIT_S)
        assert texts == ["Grüße\u2028🍸"] * 5


def sdk_client(name: str, url: str, **options: Any) -> Any:
    if name == "anthropic":
        from anthropic import AsyncAnthropic

        return AsyncAnthropic(base_url=url, api_key=KEY, **options)
    from openai import AsyncOpenAI

    return AsyncOpenAI(base_url=url + "/v1", api_key=KEY, **options)


@pytest.mark.parametrize("name", ADAPTERS)
def test_a_given_client_is_used_without_its_own_retries_and_from_every_loop(name: str) -> None:
    async def scenario(status: int) -> None:
        async with serving(sse(ADAPTERS[name][1]) if status == 200 else b"{}", status) as server:
            client = sdk_client(name, server.url, default_headers={"x-mine": "1"}, max_retries=5)
            model: Model = ADAPTERS[name][0]("m", client=client)
            model.check()
            if status == 200:
                await answer(model)
                await asyncio.to_thread(asyncio.run, answer(model))
                assert len(server.requests) == 2
            else:
                assert (await failure(model)).kind == "server"
                assert len(server.requests) == 1
            assert all(headers["x-mine"] == "1" for _, headers, _ in server.requests)
            await client.close()

    asyncio.run(scenario(200))
    asyncio.run(scenario(500))


def test_a_client_with_its_own_http_client_is_refused_on_a_second_loop() -> None:
    import httpx2

    async def scenario() -> None:
        async with serving(sse(CHAT)) as server:
            client = sdk_client("openai-chat", server.url, http_client=httpx2.AsyncClient())
            model = OpenAIChatModel("m", client=client)
            await answer(model)
            with pytest.raises(UsageError, match="on another event loop"):
                await asyncio.to_thread(asyncio.run, answer(model))
            await client.close()

    asyncio.run(scenario())


# -- silence


async def arriving(queue: asyncio.Queue[str]) -> AsyncIterator[str]:
    while True:
        yield await queue.get()


def held(seconds: float) -> None:
    """Hold the loop, as a synchronous cell does."""
    threading.Event().wait(seconds)


@pytest.mark.parametrize("name", ADAPTERS)
@pytest.mark.parametrize("when", ["before the request goes out", "while the answer arrives"])
def test_a_loop_that_was_held_past_the_limit_still_gets_its_answer(name: str, when: str) -> None:
    limit_s, events = 0.5, ADAPTERS[name][1]
    sent, all_sent = threading.Event(), threading.Event()

    async def in_two(writer: asyncio.StreamWriter) -> None:
        write(writer, sse(events[:1]))
        await writer.drain()
        sent.set()
        await asyncio.sleep(0.02)  # the rest comes into a loop that does not turn
        write(writer, sse(events[1:]))
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        all_sent.set()

    async def hold_in_mid_answer() -> None:
        while not sent.is_set():
            await asyncio.sleep(0)
        assert all_sent.wait(LIMIT_S)
        held(3 * limit_s)

    async def scenario(model: Model) -> str:
        await answer(model)  # the SDK's import and the connection are not what is tried here
        for flag in (sent, all_sent):
            flag.clear()
        if when == "while the answer arrives":
            holding = asyncio.create_task(hold_in_mid_answer())
            message = await answer(model, limit_s)
            await holding
        else:
            asyncio.get_running_loop().call_soon(held, 3 * limit_s)
            message = await answer(model, limit_s)
        return message.text

    with served_in_a_thread(in_two) as server:
        assert asyncio.run(scenario(make(name, server))) == "Grüße\u2028🍸"


def test_an_item_that_comes_with_the_due_timer_is_taken() -> None:
    async def scenario() -> str:
        queue: asyncio.Queue[str] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        loop.call_later(0.05, queue.put_nowait, "just in time")
        return await anext(watch(arriving(queue), 0.05, provider="x"))

    assert asyncio.run(asyncio.wait_for(scenario(), LIMIT_S)) == "just in time"


def test_time_that_the_consumer_takes_is_no_silence() -> None:
    async def scenario() -> list[str]:
        queue: asyncio.Queue[str] = asyncio.Queue()
        seen: list[str] = []
        queue.put_nowait("a")
        async for item in watch(arriving(queue), 0.05, provider="x"):
            seen.append(item)
            if item == "c":
                return seen
            await asyncio.sleep(0.1)
            queue.put_nowait(chr(ord(item) + 1))
        return seen

    assert asyncio.run(asyncio.wait_for(scenario(), LIMIT_S)) == ["a", "b", "c"]


def test_a_cancelled_watcher_is_cancelled_and_not_timed_out() -> None:
    async def scenario() -> None:
        watched = watch(arriving(asyncio.Queue()), LIMIT_S, provider="x")
        waiting = asyncio.ensure_future(anext(watched))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(scenario())


def test_no_limit_is_no_timer() -> None:
    async def scenario() -> None:
        queue: asyncio.Queue[str] = asyncio.Queue()
        queue.put_nowait("a")
        assert await anext(watch(arriving(queue), None, provider="x")) == "a"

    asyncio.run(scenario())


# -- failures


@pytest.mark.parametrize(
    "text",
    [
        f"GET https://host/v1?key={KEY} failed",
        f"Authorization: Bearer {KEY}",
        f"headers: x-api-key: {KEY}",
        "https://user:sk-hidden-pass@host/v1",
        f"api_key={KEY}",
        "Incorrect API key provided: sk-proj-abc***xyz. See the docs",
        "the odd key my-own-secret was refused",
    ],
)
def test_keys_are_taken_out_of_texts(text: str) -> None:
    shown = redact(text, ["my-own-secret"])
    for part in (KEY, "sk-hidden", "sk-proj", "my-own-secret"):
        assert part not in shown
    assert "[key]" in shown


def test_a_fault_of_our_own_does_not_pass_for_the_providers() -> None:
    assert from_exception(KeyError("x"), "x") is None
    assert from_exception(ZeroDivisionError(), "x") is None
    known = from_exception(ConnectionResetError(104, "reset by peer"), "the server")
    assert known is not None
    assert known.kind == "connection"
    assert str(known).startswith("The connection to the server failed (")


def test_text_deltas_arrive_as_they_are_sent_and_not_at_the_end() -> None:
    async def scenario() -> None:
        seen = asyncio.Event()

        async def in_two(writer: asyncio.StreamWriter) -> None:
            write(writer, sse(CHAT[:1]))
            await writer.drain()
            await seen.wait()
            write(writer, sse(CHAT[1:]))
            writer.write(b"0\r\n\r\n")

        async with serving(in_two) as server:
            async for delta in make("openai-chat", server).stream(request()):
                if isinstance(delta, TextChunk):
                    seen.set()

    asyncio.run(scenario())


def test_a_client_for_another_platform_fails_with_a_typed_error() -> None:
    """Vertex's has no key; what goes wrong there is still a ProviderError."""
    from anthropic import AsyncAnthropicVertex

    async def scenario() -> None:
        async with serving(b"{}", status=529) as server:
            client = AsyncAnthropicVertex(
                base_url=server.url, access_token="k", region="us-east5", project_id="p"
            )
            model = AnthropicModel("claude-x", client=client)
            with pytest.raises(ProviderError) as caught:
                async for _ in model.stream(Request("", (user("Hi"),))):
                    pass
            assert caught.value.kind == "overloaded"
            await client.close()

    asyncio.run(scenario())


def test_a_users_own_kind_of_client_is_read_through_the_sdks_typed_stream() -> None:
    from anthropic import AsyncAnthropic

    class Mine(AsyncAnthropic):
        """As Bedrock's, whose events only the SDK can read."""

    async def scenario() -> list[Any]:
        async with serving(sse_named(ANTHROPIC)) as server:
            client = Mine(base_url=server.url, api_key=KEY)
            model = AnthropicModel("claude-x", client=client)
            found = [d async for d in model.stream(Request("", (user("Hi"),)))]
            assert server.requests[0][2]["messages"][0]["role"] == "user"
            await client.close()
            return found

    found = asyncio.run(scenario())
    assert "".join(d.text for d in found if isinstance(d, TextChunk)) == "Grüße\u2028🍸"


def sse_named(events: list[Any]) -> bytes:
    """With the names that the typed stream goes by."""
    return b"".join(
        f"event: {e['type']}\ndata: {json.dumps(e, ensure_ascii=False)}\n\n".encode()
        for e in events
    )
