"""The loopback server under the real SDKs: they parse its bytes, and its errors as the providers'.

Every event is also held against the SDK's own types, strictly, so that what the server writes is
what the SDK was made for and not only what it puts up with.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from anthropic.types import RawMessageStreamEvent
from openai.types.chat import ChatCompletionChunk
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

from agentloop_nb.messages import Usage
from tests.loopback import (
    Loopback,
    call,
    cut,
    fail,
    flood,
    flood_pieces,
    flood_text,
    hold,
    pause,
    ping,
    refuse,
    reply,
    say,
    think,
    think_hidden,
    think_redacted,
)
from tests.loopback.script import Script

CHECKOUT = Path(__file__).parents[1]
KEY = "key-of-the-test"
LIMIT_S = 60.0
FORMATS = ("anthropic", "responses", "chat")
ASK = "Read it."
USAGE = Usage(input_tokens=90, output_tokens=7, cache_read_tokens=40, cache_write_tokens=20)
RICH = reply(
    think("Look ", "first."),
    say("Read", "ing", " ünïcode 🍸."),
    call("read", {"path": "a.txt"}),
    call("read", ['{"pa', 'th": "b"}']),
    usage=USAGE,
)

Events = list[Any]


@pytest.fixture(autouse=True)
def no_certificates(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading all the world's certificates takes each client 0.1 s, and none is needed here."""
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.setenv("SSL_CERT_DIR", str(own_folder))


def raw(format: str, url: str, **more: Any) -> Iterator[Any]:
    """The events of one request, as the real SDK gives them."""
    ask: Any = [{"role": "user", "content": ASK}]
    if format == "anthropic":
        with claude(url) as claude_client:
            yield from claude_client.messages.create(
                model="claude-test", max_tokens=2000, messages=ask, stream=True, **more
            )
        return
    with gpt(url) as client:
        if format == "responses":
            yield from client.responses.create(model="gpt-test", input=ASK, stream=True, **more)
            return
        counted: Any = {"include_usage": True}
        yield from client.chat.completions.create(
            model="gpt-test", messages=ask, stream=True, stream_options=counted, **more
        )


def claude(url: str, key: str = KEY) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=url, api_key=key, max_retries=0, timeout=LIMIT_S)


def gpt(url: str, key: str = KEY) -> openai.OpenAI:
    return openai.OpenAI(base_url=url + "/v1", api_key=key, max_retries=0, timeout=LIMIT_S)


def events(format: str, script: Script, **more: Any) -> Events:
    with Loopback(script, key=KEY) as server:
        found = list(raw(format, server.base_url, **more))
        assert not server.complaints
        return found


def text_in(events: Events) -> str:
    """The text that a stream of any format came to."""
    texts = []
    for event in events:
        if getattr(event, "choices", None):
            texts.append(event.choices[0].delta.content or "")
        elif getattr(event, "type", "") == "content_block_delta":
            texts.append(getattr(event.delta, "text", ""))
        elif getattr(event, "type", "") == "response.output_text.delta":
            texts.append(event.delta)
    return "".join(texts)


# -- what the SDKs make of it


def test_the_anthropic_sdk_puts_the_message_together() -> None:
    script = [
        reply(
            *RICH.parts[:1], think_redacted("no"), think_hidden("no"), *RICH.parts[1:], usage=USAGE
        )
    ]
    with (
        Loopback(script) as server,
        claude(server.base_url) as client,
        client.messages.stream(
            model="claude-test", max_tokens=2000, messages=[{"role": "user", "content": ASK}]
        ) as stream,
    ):
        message = stream.get_final_message()
    kinds = ["thinking", "redacted_thinking", "thinking", "text", "tool_use", "tool_use"]
    assert [block.type for block in message.content] == kinds
    shown, redacted, hidden, text, first, second = (b.model_dump() for b in message.content)
    assert (shown["thinking"], hidden["thinking"]) == ("Look first.", "")
    assert shown["signature"] != hidden["signature"]
    assert redacted["data"]
    assert text["text"] == "Reading ünïcode 🍸."
    assert (first["input"], second["input"]) == ({"path": "a.txt"}, {"path": "b"})
    assert first["id"] != second["id"]
    assert message.stop_reason == "tool_use"
    usage = message.usage
    assert (usage.input_tokens, usage.cache_read_input_tokens) == (30, 40)
    assert (usage.cache_creation_input_tokens, usage.output_tokens) == (20, 7)


def test_the_openai_sdk_puts_the_response_together() -> None:
    with (
        Loopback([RICH]) as server,
        gpt(server.base_url) as client,
        client.responses.stream(
            model="gpt-test",
            input=ASK,
            reasoning={"summary": "auto"},
            include=["reasoning.encrypted_content"],
        ) as stream,
    ):
        response = stream.get_final_response()
    reasoning, message, first, second = (item.model_dump() for item in response.output)
    assert reasoning["summary"][0]["text"] == "Look first."
    assert reasoning["encrypted_content"]
    assert message["content"][0]["text"] == response.output_text == "Reading ünïcode 🍸."
    assert json.loads(first["arguments"]) == {"path": "a.txt"}
    assert json.loads(second["arguments"]) == {"path": "b"}
    assert len({item.id for item in response.output}) == 4
    assert response.usage is not None
    assert (response.usage.input_tokens, response.usage.output_tokens) == (90, 7)


def test_reasoning_is_shown_and_encrypted_only_where_the_request_asks() -> None:
    done = events("responses", [reply(think("Hm."), "Yes.")])[-1].response
    assert done.output[0].summary == []
    assert done.output[0].encrypted_content is None


def test_the_openai_sdk_puts_the_completion_together() -> None:
    with (
        Loopback([RICH]) as server,
        gpt(server.base_url) as client,
        client.chat.completions.stream(
            model="gpt-test",
            messages=[{"role": "user", "content": ASK}],
            stream_options={"include_usage": True},
        ) as stream,
    ):
        completion = stream.get_final_completion()
    choice = completion.choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content == "Reading ünïcode 🍸."
    calls = [c.model_dump() for c in choice.message.tool_calls or ()]
    arguments = [json.loads(c["function"]["arguments"]) for c in calls]
    assert arguments == [{"path": "a.txt"}, {"path": "b"}]
    assert completion.usage is not None
    assert completion.usage.prompt_tokens == 90


@pytest.mark.parametrize(
    ("format", "type_"),
    [
        ("anthropic", RawMessageStreamEvent),
        ("responses", ResponseStreamEvent),
        ("chat", ChatCompletionChunk),
    ],
)
@pytest.mark.parametrize(
    "answer",
    [
        RICH,
        reply("Cut sh", stop="max_tokens"),
        reply("I will not.", stop="refusal"),
        reply(think_redacted("x"), ping(), "Yes."),
    ],
    ids=["rich", "cut-by-tokens", "refused", "redacted"],
)
def test_every_event_fits_the_sdks_own_type(format: str, type_: Any, answer: Any) -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(type_)
    with Loopback([answer]) as server:
        data = [data for data in wire_data(format, server.base_url) if data != "[DONE]"]
    assert len(data) > 2
    for text in data:
        event = json.loads(text)
        if event.get("type") != "ping":
            adapter.validate_python(event)


def wire_data(format: str, url: str) -> list[str]:
    """The data of every event of one request, read without any SDK."""
    path, body = {
        "anthropic": (
            "/v1/messages",
            {"max_tokens": 9, "messages": [{"role": "user", "content": ASK}]},
        ),
        "responses": (
            "/v1/responses",
            {
                "input": ASK,
                "reasoning": {"summary": "auto"},
                "include": ["reasoning.encrypted_content"],
            },
        ),
        "chat": (
            "/v1/chat/completions",
            {
                "messages": [{"role": "user", "content": ASK}],
                "stream_options": {"include_usage": True},
            },
        ),
    }[format]
    request = urllib.request.Request(
        url + path,
        json.dumps({"model": "m", "stream": True, **body}).encode(),
        {"x-api-key": KEY, "authorization": f"Bearer {KEY}", "anthropic-version": "2023-06-01"},
    )
    with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = answer.read().decode().splitlines()
    return [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("size", [1, 7])
def test_the_stream_may_come_in_chunks_of_any_size(format: str, size: int) -> None:
    with Loopback([reply("Grüße", "\u2028🍸")], chunk_bytes=size) as server:
        assert text_in(list(raw(format, server.base_url))) == "Grüße\u2028🍸"


# -- errors


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    ("status", "name"),
    [
        (400, "BadRequestError"),
        (401, "AuthenticationError"),
        (403, "PermissionDeniedError"),
        (404, "NotFoundError"),
        (429, "RateLimitError"),
        (500, "InternalServerError"),
    ],
)
def test_a_refusal_is_the_sdks_own_exception(format: str, status: int, name: str) -> None:
    sdk = anthropic if format == "anthropic" else openai
    script = [refuse(status, headers={"retry-after": "7"})]
    with Loopback(script) as server, pytest.raises(getattr(sdk, name)) as caught:
        list(raw(format, server.base_url))
    assert caught.value.status_code == status
    assert caught.value.response.headers["retry-after"] == "7"
    assert len(server.requests) == 1
    assert server.last.ended == "refused"


def test_anthropics_own_status_529_is_overloaded() -> None:
    with Loopback([refuse(529)]) as server, pytest.raises(anthropic.APIStatusError) as caught:
        list(raw("anthropic", server.base_url))
    assert caught.value.type == "overloaded_error"


def test_an_error_body_may_be_anything() -> None:
    with (
        Loopback([refuse(502, body="<html>Bad gateway</html>")]) as server,
        pytest.raises(openai.InternalServerError) as caught,
    ):
        list(raw("chat", server.base_url))
    assert caught.value.response.headers["content-type"] == "text/html"


@pytest.mark.parametrize("format", FORMATS)
def test_a_wrong_key_is_refused(format: str) -> None:
    sdk = anthropic if format == "anthropic" else openai
    with Loopback([], key="another") as server, pytest.raises(sdk.AuthenticationError):
        list(raw(format, server.base_url))


@pytest.mark.parametrize("format", FORMATS)
def test_an_error_in_the_stream_ends_it(format: str) -> None:
    script = [reply("Half", fail("overloaded_error", "Too busy."), " more")]
    with Loopback(script) as server:
        if format == "responses":
            found = list(raw(format, server.base_url))
            assert found[-1].type == "response.failed"
            assert found[-1].response.error.message == "Too busy."
            assert text_in(found) == "Half"
        else:
            error = anthropic.APIStatusError if format == "anthropic" else openai.APIError
            with pytest.raises(error, match=r"Too busy\."):
                list(raw(format, server.base_url))


def test_the_responses_api_knows_a_bare_error_too() -> None:
    found = events("responses", [reply("Half", fail("server_error", "Gone.", bare=True))])
    assert (found[-1].type, found[-1].message) == ("error", "Gone.")


@pytest.mark.parametrize("format", FORMATS)
def test_a_cut_connection_is_an_error_of_the_connection(format: str) -> None:
    with (
        Loopback([reply("Half", cut(), " more")]) as server,
        pytest.raises(Exception, match=r"(?i)peer closed|incomplete|connection"),
    ):
        list(raw(format, server.base_url))
    assert server.wait_ended() == "cut"


@pytest.mark.parametrize("format", FORMATS)
def test_a_body_that_ends_early_looks_like_an_end(format: str) -> None:
    assert text_in(events(format, [reply("Half", cut(clean=True), " more")])) == "Half"


def test_a_broken_history_gets_a_400_with_the_complaint() -> None:
    broken: Any = [{"role": "user", "content": " "}]
    with (
        Loopback([]) as server,
        claude(server.base_url) as client,
        pytest.raises(anthropic.BadRequestError, match="non-whitespace"),
    ):
        client.messages.create(model="m", max_tokens=9, messages=broken, stream=True)
    assert [str(complaint) for complaint in server.complaints] == [
        "messages.0.content: text content blocks must contain non-whitespace text"
    ]


def test_openais_complaint_names_the_parameter_and_a_code() -> None:
    broken: Any = [{"role": "model", "content": "Hi"}]
    with (
        Loopback([]) as server,
        gpt(server.base_url) as client,
        pytest.raises(openai.BadRequestError) as caught,
    ):
        client.chat.completions.create(model="m", messages=broken, stream=True)
    assert (caught.value.param, caught.value.code) == ("messages[0].role", "invalid_value")


@pytest.mark.parametrize("text", [b"{", b'{"model": NaN}', b'{"model": "\\ud800"}', b"[]"])
def test_a_body_that_is_not_json_is_refused(text: bytes) -> None:
    with Loopback([]) as server:
        request = urllib.request.Request(
            server.base_url + "/v1/messages",
            text,
            {"x-api-key": KEY, "anthropic-version": "2023-06-01"},
        )
        with pytest.raises(urllib.error.HTTPError, match="400") as caught:
            urllib.request.urlopen(request, timeout=LIMIT_S)
        with caught.value as answer:
            assert b"request body is not" in answer.read()


def test_a_script_that_is_over_says_so() -> None:
    with Loopback([]) as server, pytest.raises(openai.InternalServerError, match="no more answers"):
        list(raw("chat", server.base_url))


def test_a_script_that_raises_says_what() -> None:
    def script(body: dict[str, Any]) -> Any:
        raise KeyError("oops")

    with Loopback(script) as server, pytest.raises(openai.InternalServerError, match="oops"):
        list(raw("chat", server.base_url))


# -- time


@pytest.mark.parametrize("format", FORMATS)
def test_a_hold_keeps_the_stream_until_it_is_released(format: str) -> None:
    with Loopback([reply("Half", hold("g"), " more")]) as server:
        stream = raw(format, server.base_url)
        found = []
        while text_in(found) != "Half":
            found.append(next(stream))
        server.wait_held("g")
        assert server.last.ended is None
        server.release("g")
        found.extend(stream)
        assert text_in(found) == "Half more"
        assert server.wait_ended() == "complete"


def test_a_client_that_hangs_up_is_noticed_at_a_hold() -> None:
    with Loopback([reply("Half", hold("never"))]) as server, gpt(server.base_url) as client:
        stream = client.responses.create(model="m", input=ASK, stream=True)
        server.wait_held("never")
        stream.close()
        assert server.wait_ended() == "gone"


def test_a_pause_lets_the_rest_through() -> None:
    assert text_in(events("chat", [reply("a", pause(0.01), "b")])) == "ab"


def test_answers_share_a_connection_and_come_in_the_order_of_the_script() -> None:
    script = [reply("one"), refuse(500), reply("three")]
    with Loopback(script) as server, gpt(server.base_url) as client:
        answers = []
        for _ in range(3):
            try:
                stream = client.responses.create(model="m", input=ASK, stream=True)
                answers.append(text_in(list(stream)))
            except openai.InternalServerError:
                answers.append("500")
        assert answers == ["one", "500", "three"]
        assert server.connections == 1
        assert [request.format for request in server.requests] == ["openai"] * 3


def test_a_script_may_be_a_function_of_the_body() -> None:
    with Loopback(lambda body: reply(f"You said {body['input']}")) as server:
        assert text_in(list(raw("responses", server.base_url))) == f"You said {ASK}"
        assert server.last.body["model"] == "gpt-test"
        assert server.last.headers["authorization"] == f"Bearer {KEY}"


def test_a_lifetime_ends_the_server_and_its_streams() -> None:
    with Loopback([reply("Half", hold("never"))], lifetime_s=0.3) as server:
        with pytest.raises(Exception, match=r"(?i)peer closed|incomplete|connection"):
            list(raw("chat", server.base_url))
        server.join(LIMIT_S)
        assert not server.alive


def test_nobody_waits_for_ever() -> None:
    with Loopback([]) as server, pytest.raises(TimeoutError, match="2 requests"):
        server.wait_requests(2, timeout_s=0.01)


# -- the flood


def test_the_words_of_a_flood_are_all_different_and_plain() -> None:
    pieces = flood_pieces()
    assert len(set(pieces)) == len(pieces) == 20_000
    assert {len(piece) for piece in pieces} == {8}
    assert flood_text()[:-1].replace(" ", "").isalpha()


@pytest.mark.parametrize("format", FORMATS)
def test_a_flood_arrives_whole(format: str) -> None:
    assert text_in(events(format, [flood(2_000)])) == flood_text(2_000)


def test_a_paced_flood_keeps_its_pace() -> None:
    began = time.monotonic()
    assert text_in(events("chat", [flood(200, pace=1000)])) == flood_text(200)
    assert time.monotonic() - began >= 0.199


# -- a process of its own


def test_a_server_in_a_process_of_its_own(own_folder: Path) -> None:
    port_file = own_folder / "port"
    command = [sys.executable, "-m", "tests.loopback", "--port-file", str(port_file)]
    process = subprocess.Popen(
        [*command, "--script", "held", "--lifetime", "60"], cwd=CHECKOUT, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().decode().strip()
        assert url == port_file.read_text("utf-8")
        stream = raw("anthropic", url)
        found = []
        while text_in(found) != "The first half":
            found.append(next(stream))
        post(url + "/loopback/release/middle")
        found.extend(stream)
        assert text_in(found) == "The first half and the second."
        assert post(url + "/loopback/requests")[0]["path"] == "/v1/messages"
    finally:
        process.terminate()
        assert process.wait(LIMIT_S) == 0
        assert process.stdout is not None
        process.stdout.close()


def post(url: str) -> Any:
    request = urllib.request.Request(url, b"", method="POST")
    with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:
        return json.load(answer)
