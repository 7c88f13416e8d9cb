"""Adapters end to end: the real SDK over real HTTP against a server that refuses what the service
refuses. Rounds of a conversation, its own and another provider's; every way a request can fail."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from agentloop_nb.errors import ProviderError, ProviderErrorKind, StreamCut
from agentloop_nb.messages import (
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
    user,
)
from agentloop_nb.models.anthropic import AnthropicModel
from agentloop_nb.models.assemble import Assembler
from agentloop_nb.models.base import (
    CallChunk,
    CallEnd,
    CallStart,
    Finish,
    Model,
    ModelDelta,
    Request,
    TextChunk,
    ThinkingChunk,
    ToolSpec,
)
from agentloop_nb.models.openai_chat import OpenAIChatModel
from agentloop_nb.models.openai_responses import OpenAIModel
from tests.loopback import (
    Loopback,
    Reply,
    call,
    cut,
    fail,
    hold,
    ping,
    refuse,
    reply,
    say,
    think,
    think_hidden,
    think_redacted,
)
from tests.loopback.script import Part

PROVIDERS = ("anthropic", "openai", "openai-chat")
KEY = "sk-test-0123456789abcdef"
LIMIT_S = 60.0  # no test comes near it; it only keeps a broken one from hanging
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
TOOLS = (ToolSpec("read", "Read a file.", SCHEMA), ToolSpec("look", "", SCHEMA))
PNG = Image(
    "image/png",
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5E"
    "rkJggg==",
)
USAGE = Usage(input_tokens=90, output_tokens=7, cache_read_tokens=40, cache_write_tokens=20)
PARTS: tuple[Part, ...] = (
    think("Both ", "are needed."),
    say("Read", "ing."),
    call("read", {"path": "a.txt"}),
    call("look", ['{"pa', 'th": "b"}']),
)


@pytest.fixture(autouse=True)
def no_certificates(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading all the world's certificates takes each client 0.1 s, and none is needed here."""
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.setenv("SSL_CERT_DIR", str(own_folder))


KEPT: list[Model] = []


@pytest.fixture(autouse=True)
def models_outlive_their_loop() -> Iterator[None]:
    """A loop that ends closes the connections of the models that are still there."""
    yield
    KEPT.clear()


def model_of(provider: str, url: str) -> Model:
    """The adapter, with all that makes it think."""
    KEPT.append(_model(provider, url))
    return KEPT[-1]


def _model(provider: str, url: str) -> Model:
    match provider:
        case "anthropic":
            return AnthropicModel(
                "claude-test", base_url=url, api_key=KEY, max_tokens=4096, thinking_budget=1024
            )
        case "openai":
            return OpenAIModel("gpt-test", base_url=url, api_key=KEY, reasoning_summary="auto")
        case _:
            return OpenAIChatModel("gpt-test", base_url=url, api_key=KEY)


def stream(
    model: Model, messages: Sequence[Message], limit_s: float | None = LIMIT_S
) -> AsyncIterator[ModelDelta]:
    return model.stream(Request("Be brief.", tuple(messages), TOOLS, limit_s))


async def answer(model: Model, messages: Sequence[Message], round: int = 0) -> Message:
    """One round: the whole reply."""
    assembler = Assembler(round, model.provider)
    async with asyncio.timeout(LIMIT_S):
        async for delta in stream(model, messages):
            assembler.feed(delta)
    return assembler.finish()


async def deltas(model: Model) -> list[ModelDelta]:
    async with asyncio.timeout(LIMIT_S):
        return [delta async for delta in stream(model, [user("Read both.")])]


def results(message: Message) -> Message:
    """What its tools returned: one an image, one an error, the others words."""
    made = [ToolResult(c.id, c.name, f"content of {c.input}") for c in message.calls]
    if made:
        made[0] = ToolResult(made[0].id, made[0].name, "", images=(PNG,))
    if len(made) > 1:
        made[1] = ToolResult(made[1].id, made[1].name, "No such file.", "error", (PNG,))
    return Message("tool", tuple(made))


# -- what streams


@pytest.mark.parametrize("provider", PROVIDERS)
def test_text_thinking_and_calls_stream_as_they_were_sent(provider: str) -> None:
    with Loopback([reply(*PARTS, usage=USAGE)]) as server:
        found = asyncio.run(deltas(model_of(provider, server.base_url)))
        assert not server.complaints
    assert [d.text for d in found if isinstance(d, ThinkingChunk)] == ["Both ", "are needed."]
    assert [d.text for d in found if isinstance(d, TextChunk)] == ["Read", "ing."]
    assert [d.name for d in found if isinstance(d, CallStart)] == ["read", "look"]
    arguments = "".join(d.text for d in found if isinstance(d, CallChunk))
    assert arguments == '{"path": "a.txt"}{"path": "b"}'
    assert sum(isinstance(d, CallEnd) for d in found) == 2
    last = found[-1]
    assert isinstance(last, Finish)
    assert (last.stop_reason, last.usage) == ("tool_use", USAGE)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("size", [1, 5])
def test_a_stream_cut_into_any_chunks_comes_to_the_same(provider: str, size: int) -> None:
    parts = (think("Grüße"), say("\u2028🍸", " so."), call("read", {"path": "ü🍸"}))
    whole = []
    for chunk_bytes in (None, size):
        with Loopback([reply(*parts)], chunk_bytes=chunk_bytes) as server:
            whole.append(asyncio.run(deltas(model_of(provider, server.base_url))))
    assert whole[0] == whole[1]


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("stop", ["end_turn", "max_tokens", "refusal"])
def test_why_a_reply_ended_comes_through(provider: str, stop: Any) -> None:
    with Loopback([reply("So.", stop=stop)]) as server:
        message = asyncio.run(answer(model_of(provider, server.base_url), [user("Hi")]))
    assert (message.text, message.stop_reason) == ("So.", stop)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_call_that_the_token_limit_cut_never_ends(provider: str) -> None:
    with Loopback([reply("So.", call("read", ['{"pa']), stop="max_tokens")]) as server:
        found = asyncio.run(deltas(model_of(provider, server.base_url)))
    assert any(isinstance(d, CallStart) for d in found)
    assert not any(isinstance(d, CallEnd) for d in found)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_what_has_come_is_there_while_the_rest_is_held_back(provider: str) -> None:
    async def scenario(server: Loopback) -> None:
        seen = ""
        async for delta in stream(model_of(provider, server.base_url), [user("Hi")]):
            if isinstance(delta, TextChunk):
                seen += delta.text
            if seen == "Half":  # nothing was released: it came on its own
                server.release("g")
        assert seen == "Half more"

    with Loopback([reply(say("Half", hold("g"), " more"))]) as server:
        asyncio.run(asyncio.wait_for(scenario(server), LIMIT_S))


@pytest.mark.parametrize("provider", PROVIDERS)
def test_closing_the_stream_hangs_up(provider: str) -> None:
    async def scenario(server: Loopback) -> None:
        model = model_of(provider, server.base_url)
        async with aclosing(model.stream(Request("", (user("Hi"),)))) as live:
            async for delta in live:
                if isinstance(delta, TextChunk):
                    break
        assert await asyncio.to_thread(server.wait_ended) == "gone"

    with Loopback([reply(say("Half", hold("never")))]) as server:
        asyncio.run(asyncio.wait_for(scenario(server), LIMIT_S))


# -- conversations


def first_turn(provider: str) -> list[Reply]:
    """Replies of a turn of three rounds, with all kinds of thinking that the format has."""
    hidden: tuple[Part, ...] = (think_redacted("secret"), think_hidden("secret"))
    return [
        reply(*PARTS[:1], *(hidden if provider == "anthropic" else ()), *PARTS[1:]),
        reply(think("Again."), call("look", {"path": "c"})),
        reply(think_hidden("Done."), "Both are read."),
    ]


async def talk(model: Model, history: list[Message], first_round: int = 0) -> list[Message]:
    """Rounds until an answer without calls; the history grows by them."""
    history = list(history)
    for round in range(first_round, first_round + 5):
        message = await answer(model, history, round)
        history.append(message)
        if not message.calls:
            break
        history.append(results(message))
    return history


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_service_takes_every_round_of_a_conversation(provider: str) -> None:
    async def scenario(server: Loopback) -> list[Message]:
        model = model_of(provider, server.base_url)
        history = await talk(model, [Message("user", (Text("Read both."), PNG))])
        assert history[-1].text == "Both are read."
        return await talk(model, [*history, user("And now?")])

    script = [*first_turn(provider), *first_turn(provider)]
    with Loopback(script) as server:
        history = asyncio.run(scenario(server))
        assert not server.complaints
        assert len(server.requests) == len(script)
    assert len(history) == 12
    assert len({c.provider_id for m in history for c in m.calls}) == 6


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_later_request_begins_as_the_earlier_one_did(provider: str) -> None:
    """Else the provider's cache of the prompt would be of no use."""
    with Loopback(first_turn(provider)) as server:
        asyncio.run(talk(model_of(provider, server.base_url), [user("Read both.")]))
        key = "input" if provider == "openai" else "messages"
        first, second, third = (json.dumps(r.body[key])[1:-1] for r in server.requests)
    assert second.startswith(first)
    assert third.startswith(second)


@pytest.mark.parametrize("after", PROVIDERS)
@pytest.mark.parametrize("before", PROVIDERS)
@pytest.mark.parametrize("turn", ["finished", "in-its-calls"])
def test_another_provider_takes_a_conversation_over(before: str, after: str, turn: str) -> None:
    async def scenario(server: Loopback) -> None:
        history = await talk(model_of(before, server.base_url), [user("Read both.")])
        if turn == "finished":
            history.append(user("And now?"))
        else:
            history = history[:3]  # the question, the calls, their results
        history = await talk(model_of(after, server.base_url), history, first_round=3)
        assert history[-1].text == "Both are read."

    with Loopback([*first_turn(before), *first_turn(after)]) as server:
        asyncio.run(scenario(server))
        assert not server.complaints


@pytest.mark.parametrize("after", PROVIDERS)
@pytest.mark.parametrize("before", PROVIDERS)
@pytest.mark.parametrize("part", range(len(PARTS)))
def test_a_reply_that_was_stopped_anywhere_goes_on(before: str, after: str, part: int) -> None:
    """A person stopped it: what had come so far is in the history, its calls with a result."""

    async def scenario(server: Loopback) -> None:
        model = model_of(before, server.base_url)
        assembler = Assembler(0, model.provider)
        async with aclosing(model.stream(Request("", (user("Read both."),), TOOLS))) as live:
            async for delta in live:
                if isinstance(delta, Finish):
                    break
                assembler.feed(delta)
                if server.requests and stopped(delta):
                    break
        partial = assembler.partial()
        history = [user("Read both."), *([partial] if partial.blocks else [])]
        if partial.calls:
            history.append(results(partial))
        history.append(user("Go on."))
        await talk(model_of(after, server.base_url), history, first_round=1)

    def stopped(delta: ModelDelta) -> bool:
        kinds = (ThinkingChunk, TextChunk, CallChunk, CallChunk)
        wanted = "are needed." if part == 0 else "ing." if part == 1 else ""
        text = getattr(delta, "text", "")
        if part == 3:
            return isinstance(delta, CallChunk) and '"b"' in text
        return isinstance(delta, kinds[part]) and wanted in text

    with Loopback([reply(*PARTS), *first_turn(after)]) as server:
        asyncio.run(asyncio.wait_for(scenario(server), LIMIT_S))
        assert not server.complaints


def reply_of(*blocks: Any, provider: str = "", **fields: Any) -> Message:
    return Message("assistant", blocks, provider, **fields)


def tool_call(id: str, name: str = "read", arguments: str = "{}", own: str = "") -> ToolCall:
    return ToolCall(id, name, arguments, own)


def tool_result(id: str, content: str = "done", **fields: Any) -> ToolResult:
    return ToolResult(id, "read", content, **fields)


ODD: dict[str, list[Message]] = {
    "arguments-that-are-no-json": [
        reply_of(tool_call("c0.0", arguments='{"a": ')),
        Message("tool", (tool_result("c0.0", outcome="invalid"),)),
    ],
    "arguments-that-are-a-list": [
        reply_of(tool_call("c0.0", arguments="[1, NaN]")),
        Message("tool", (tool_result("c0.0"),)),
    ],
    "name-that-no-tool-may-have": [
        reply_of(tool_call("c0.0", "functions.read file!")),
        Message("tool", (tool_result("c0.0", outcome="invalid"),)),
    ],
    "name-of-300-letters": [
        reply_of(tool_call("c0.0", "x" * 300)),
        Message("tool", (tool_result("c0.0", outcome="invalid"),)),
    ],
    "name-that-is-empty": [
        reply_of(tool_call("c0.0", "")),
        Message("tool", (tool_result("c0.0", outcome="invalid"),)),
    ],
    "call-without-result": [reply_of(tool_call("c0.0"), tool_call("c0.1")), user("So?")],
    "calls-without-results-at-the-end": [reply_of(Text("Reading."), tool_call("c0.0"))],
    "results-in-another-order": [
        reply_of(tool_call("c0.0"), tool_call("c0.1")),
        Message("tool", (tool_result("c0.1", ""), tool_result("c0.0", " ", images=(PNG, PNG)))),
    ],
    "result-without-call": [
        reply_of(tool_call("c0.0")),
        Message("tool", (tool_result("c0.0"), tool_result("c9.9"))),
    ],
    "results-nobody-asked-for": [
        reply_of(Text("No.")),
        Message("tool", (tool_result("c0.0"),)),
        user("Well?"),
    ],
    "one-id-twice": [
        reply_of(tool_call("c0.0", own="same")),
        Message("tool", (tool_result("c0.0"),)),
        reply_of(tool_call("c0.0", own="same")),
        Message("tool", (tool_result("c0.0"),)),
    ],
    "id-that-is-too-long-and-odd": [
        *(
            message
            for provider in PROVIDERS
            for message in (
                reply_of(tool_call("c0.0", own="call|é" + "x" * 80), provider=provider),
                Message("tool", (tool_result("c0.0"),)),
            )
        ),
    ],
    "reply-that-is-blank": [reply_of(Text(" \n")), user("Hello?")],
    "reply-that-is-empty": [reply_of(), user("Hello?")],
    "reply-of-thinking-alone": [reply_of(Thinking("Hm."), provider="anthropic"), user("Well?")],
    "two-replies-in-a-row": [
        reply_of(Text("Partly"), stop_reason="cancelled"),
        reply_of(Text("Stopped after 18 rounds."), stop_reason="engine"),
        user("Go on."),
    ],
    "what-the-person-said-after-the-results": [
        reply_of(tool_call("c0.0")),
        Message("tool", (tool_result("c0.0"),)),
        user("Look in src first."),
        user("And in tests."),
    ],
    "half-a-character": [
        reply_of(Text("a\ud83c"), tool_call("c0.0", arguments='{"a": "\\ud83c"}')),
        Message("tool", (tool_result("c0.0", "b\udf78"),)),
        user("c\ud83cd"),
    ],
    "images-of-the-person": [reply_of(Text("Show.")), Message("user", (PNG, PNG))],
    "blank-beside-an-image": [reply_of(Text("Show.")), Message("user", (Text(" "), PNG))],
    "space-at-the-end": [reply_of(Text("So far ")), user("Go on. ")],
}


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("odd", ODD)
def test_the_service_takes_a_history_with(provider: str, odd: str) -> None:
    with Loopback([reply("Well.")]) as server:
        history = [user("Read both."), *ODD[odd]]
        message = asyncio.run(answer(model_of(provider, server.base_url), history))
        assert not server.complaints
    assert message.text == "Well."


# -- what goes wrong


async def failure(model: Model, limit_s: float | None = LIMIT_S) -> ProviderError:
    async def drain() -> None:
        async for _ in stream(model, [user("Read both.")], limit_s):
            pass

    with pytest.raises(ProviderError) as caught:
        await asyncio.wait_for(drain(), LIMIT_S)
    assert KEY not in str(caught.value)
    return caught.value


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "request"),
        (401, "auth"),
        (403, "auth"),
        (404, "model_not_found"),
        (413, "request"),
        (429, "rate_limit"),
        (500, "server"),
        (503, "overloaded"),
        (504, "timeout"),
        (529, "overloaded"),
    ],
)
def test_a_refused_request_is_asked_once_and_says_why(
    provider: str, status: int, kind: ProviderErrorKind
) -> None:
    with Loopback([refuse(status)]) as server:
        error = asyncio.run(failure(model_of(provider, server.base_url)))
        assert len(server.requests) == 1, "the SDK retried"
    assert (error.kind, error.status) == (kind, status)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    ("refusal", "kind"),
    [
        (refuse(400, "prompt is too long: 210000 tokens > 200000 maximum"), "context_overflow"),
        (
            refuse(
                400,
                "This model's maximum context length is 8192 tokens.",
                code="context_length_exceeded",
            ),
            "context_overflow",
        ),
        (refuse(400, "Your credit balance is too low to access the API."), "billing"),
        (refuse(429, "You exceeded your current quota.", code="insufficient_quota"), "billing"),
        (refuse(502, body="<html>Bad gateway</html>"), "server"),
        (refuse(401, f"Incorrect API key provided: {KEY}"), "auth"),
    ],
    ids=["long", "long-openai", "credit", "quota", "proxy", "key-in-the-message"],
)
def test_the_words_of_a_refusal_decide(
    provider: str, refusal: Any, kind: ProviderErrorKind
) -> None:
    with Loopback([refusal]) as server:
        error = asyncio.run(failure(model_of(provider, server.base_url)))
        assert len(server.requests) == 1
    assert error.kind == kind


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("bare", [False, True])
@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("overloaded_error", "overloaded"),
        ("server_error", "server"),
        ("rate_limit_exceeded", "rate_limit"),
        ("something_new", "server"),
    ],
)
def test_an_error_in_the_stream_has_its_kind(
    provider: str, bare: bool, code: str, kind: ProviderErrorKind
) -> None:
    with Loopback([reply("Half", fail(code, "So it is.", bare=bare))]) as server:
        error = asyncio.run(failure(model_of(provider, server.base_url)))
        assert len(server.requests) == 1
    assert error.kind == kind
    assert "So it is." in str(error)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_connection_that_breaks_in_mid_stream_is_no_answer(provider: str) -> None:
    with Loopback([reply("Half", cut())]) as server:
        error = asyncio.run(failure(model_of(provider, server.base_url)))
        assert len(server.requests) == 1
    assert error.kind == "connection"


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_body_that_ends_early_is_no_answer(provider: str) -> None:
    with Loopback([reply("Half", cut(clean=True))]) as server:
        error = asyncio.run(failure(model_of(provider, server.base_url)))
        assert len(server.requests) == 1
    assert isinstance(error, StreamCut)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("parts", [(hold("never"),), ("Half", ping(), hold("never"))])
def test_a_silence_ends_the_request_and_hangs_up(provider: str, parts: Any) -> None:
    with Loopback([reply(*parts)]) as server:
        error = asyncio.run(failure(model_of(provider, server.base_url), limit_s=0.2))
        assert len(server.requests) == 1
        assert server.wait_ended() == "gone"
    assert error.kind == "timeout"


@pytest.mark.parametrize("provider", PROVIDERS)
def test_where_nothing_listens_the_connection_fails(provider: str) -> None:
    with Loopback() as server:
        url = server.base_url
    assert asyncio.run(failure(model_of(provider, url))).kind == "connection"


@pytest.mark.parametrize("provider", PROVIDERS)
def test_after_a_failure_the_same_model_answers(provider: str) -> None:
    async def scenario(server: Loopback) -> None:
        model = model_of(provider, server.base_url)
        await failure(model)
        await failure(model)
        assert (await answer(model, [user("Hi")])).text == "Now."

    with Loopback([refuse(500), reply("Half", cut()), reply("Now.")]) as server:
        asyncio.run(scenario(server))
        assert len(server.requests) == 3
