"""What the engine costs beside a loop written by hand over the same SDK.

Run as `uv run python -m benchmarks.engine`; prints a table of Markdown. Tasks: a = 20 tool rounds
of 20 text deltas, b = one answer of 20,000 deltas of 8 characters, c = 200 tool rounds of 5 deltas.
Each figure is CPU time of the client's process, ours divided by the raw loop's, the least of some
runs of each in turn; the server is a process of its own. Ours is the whole of it: `agent.run` with
its log and governance, snapshots off, no page.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

TASKS = {"a": "20-rounds", "b": "flood", "c": "200-rounds"}
SERVER_LIFETIME_S = 3000.0
NAMES = {
    "anthropic": "Anthropic Messages",
    "openai-chat": "Chat Completions",
    "openai": "OpenAI Responses",
}
TO_REACH = {
    "anthropic": {"a": 0.9, "b": 0.65, "c": 0.9},
    "openai-chat": {"a": 0.35, "b": 0.2, "c": 0.1},
    "openai": {"a": 0.12, "b": 0.3, "c": 0.03},
}
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
PROMPT = "Look at the files."

marks: list[float] = []
"""CPU seconds at each call of the tool."""


def look(path: str) -> str:
    """Look at a file."""
    marks.append(time.process_time())
    return f"{path} is empty."


# -- the raw loops: each SDK's typed streaming, as its documentation shows it


async def raw_anthropic(client: Any, tools: bool) -> tuple[str, int]:
    specs = [{"name": "look", "description": "Look at a file.", "input_schema": SCHEMA}]
    options: dict[str, Any] = {"tools": specs} if tools else {}
    messages: list[Any] = [{"role": "user", "content": PROMPT}]
    results = 0
    while True:
        async with client.messages.stream(
            model="m", max_tokens=16_384, messages=messages, **options
        ) as stream:
            async for _ in stream.text_stream:
                pass
            reply = await stream.get_final_message()
        messages.append({"role": "assistant", "content": reply.content})
        answers = [
            {"type": "tool_result", "tool_use_id": block.id, "content": look(**block.input)}
            for block in reply.content
            if block.type == "tool_use"
        ]
        if not answers:
            return "".join(b.text for b in reply.content if b.type == "text"), results
        results += len(answers)
        messages.append({"role": "user", "content": answers})


async def raw_chat(client: Any, tools: bool) -> tuple[str, int]:
    function = {"name": "look", "description": "Look at a file.", "parameters": SCHEMA}
    options: dict[str, Any] = {"tools": [{"type": "function", "function": function}]}
    messages: list[Any] = [{"role": "user", "content": PROMPT}]
    results = 0
    while True:
        text, calls = [], {}
        stream = await client.chat.completions.create(
            model="m", messages=messages, stream=True, **(options if tools else {})
        )
        async for chunk in stream:
            for choice in chunk.choices:
                text.append(choice.delta.content or "")
                for piece in choice.delta.tool_calls or ():
                    call = calls.setdefault(piece.index, ["", "", ""])
                    call[0] += piece.id or ""
                    call[1] += piece.function.name or ""
                    call[2] += piece.function.arguments or ""
        if not calls:
            return "".join(text), results
        wire = [
            {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
            for id, name, arguments in calls.values()
        ]
        messages.append({"role": "assistant", "content": "".join(text), "tool_calls": wire})
        for id, _, arguments in calls.values():
            answer = look(**json.loads(arguments))
            messages.append({"role": "tool", "tool_call_id": id, "content": answer})
        results += len(calls)


async def raw_responses(client: Any, tools: bool) -> tuple[str, int]:
    spec = {"type": "function", "name": "look", "parameters": SCHEMA, "strict": False}
    options: dict[str, Any] = {"tools": [spec]} if tools else {}
    items: list[Any] = [{"role": "user", "content": PROMPT}]
    results = 0
    while True:
        text: list[str] = []
        stream = await client.responses.create(
            model="m", input=items, stream=True, store=False, **options
        )
        async for event in stream:
            if event.type == "response.output_text.delta":
                text.append(event.delta)
            elif event.type == "response.completed":
                output = event.response.output
        items += output
        calls = [item for item in output if item.type == "function_call"]
        if not calls:
            return "".join(text), results
        for call in calls:
            answer = look(**json.loads(call.arguments))
            items.append(
                {"type": "function_call_output", "call_id": call.call_id, "output": answer}
            )
        results += len(calls)


# -- one run in a process of its own


async def raw(sdk: str, url: str) -> tuple[str, int]:
    """A plain request first, so that imports and the connection count for nobody."""
    if sdk == "anthropic":
        from anthropic import AsyncAnthropic

        loop: Any = raw_anthropic
        client: Any = AsyncAnthropic(base_url=url, api_key="test")
    else:
        from openai import AsyncOpenAI

        loop = raw_chat if sdk == "openai-chat" else raw_responses
        client = AsyncOpenAI(base_url=url, api_key="test")
    await loop(client, False)
    begin()
    ended: tuple[str, int] = await loop(client, True)
    return ended


async def ours(sdk: str, url: str) -> tuple[str, int]:
    from agentloop_nb import Agent, AnthropicModel, Limits, OpenAIChatModel, OpenAIModel, tool

    makers: dict[str, Any] = {
        "anthropic": AnthropicModel,
        "openai-chat": OpenAIChatModel,
        "openai": partial(OpenAIModel, store=True),  # the default at OpenAI's own address
    }
    model = makers[sdk]("m", base_url=url, api_key="test")
    with tempfile.TemporaryDirectory() as folder:
        await Agent(model, snapshots="manual", folder=folder).run(PROMPT)
        limits = Limits(max_turns=None)
        agent = Agent(model, tools=[tool(look)], limits=limits, snapshots="manual", folder=folder)
        begin()
        result = await agent.run(PROMPT)
    return result.raise_for_exit().text, int(result.counters["tool_calls"])


_began = 0.0


def begin() -> None:
    """The clock starts here. What the imports left in memory is nobody's to collect: one pass over
    it costs as much as a whole short task, and would fall on whoever comes to it."""
    global _began
    gc.collect()
    gc.freeze()
    _began = time.process_time()


def one(who: str, sdk: str, url: str) -> None:
    text, results = asyncio.run((ours if who == "ours" else raw)(sdk, url))
    row = {
        "cpu_s": time.process_time() - _began,
        "peak_kb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        "history": [results, len(text), text[:40]],
        "growth": growth(),
    }
    print(json.dumps(row))


def growth() -> float | None:
    """CPU of a late round by that of an early one: the last 20 of 200 by the 11th to 30th."""
    if len(marks) < 100:
        return None
    steps = [after - before for before, after in pairwise(marks)]
    return statistics.median(steps[-20:]) / statistics.median(steps[10:30])


# -- all of them


@contextmanager
def server(script: str) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "port"
        command = [sys.executable, "-m", "tests.loopback", "--port-file", str(place)]
        command += ["--script", script, "--lifetime", str(SERVER_LIFETIME_S)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.terminate()
            process.wait()


def run_one(who: str, sdk: str, url: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.engine", "--one", who, sdk, url]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return row


def measure(sdk: str, task: str, repeat: int) -> dict[str, Any]:
    rows: dict[str, list[dict[str, Any]]] = {"raw": [], "ours": []}
    with server(TASKS[task]) as url:
        for _ in range(repeat):
            for who, found in rows.items():
                found.append(run_one(who, sdk, url))
    histories = {json.dumps(row["history"]) for found in rows.values() for row in found}
    assert len(histories) == 1, f"they do not end alike: {histories}"
    least = {who: min(row["cpu_s"] for row in found) for who, found in rows.items()}
    peak = {who: min(row["peak_kb"] for row in found) for who, found in rows.items()}
    grown = [row["growth"] for row in rows["ours"]]
    return {
        "ratio": least["ours"] / least["raw"],
        "raw_s": least["raw"],
        "memory": peak["ours"] / peak["raw"],
        "growth": None if None in grown else min(grown),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engine")
    parser.add_argument("--one", nargs=3, metavar=("WHO", "SDK", "URL"), help=argparse.SUPPRESS)
    parser.add_argument("--repeat", type=int, default=3, help="runs of each")
    options = parser.parse_args()
    if options.one:
        one(*options.one)
        return
    print(f"anthropic {version('anthropic')}, openai {version('openai')}, to reach in brackets\n")
    print("| | a | b | c | late round of c by an early one (1.3) | peak memory of c (1.15) |")
    print("|---|---|---|---|---|---|")
    for sdk, name in NAMES.items():
        found = {task: measure(sdk, task, options.repeat) for task in TASKS}
        cells = [f"{found[t]['ratio']:.2f} ({TO_REACH[sdk][t]})" for t in TASKS]
        last = found["c"]
        cells += [f"{last['growth']:.2f}", f"{last['memory']:.2f}"]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
