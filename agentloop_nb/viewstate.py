"""The small fold that a view shows: page events in, turns of rounds of items out. Pure.

The twin of `js/src/reduce.ts`; both are held to the fixtures in `tests/fixtures/view/`. State is
plain JSON, so that the two can be compared byte for byte. `fold` changes the state it is given:
a growing text is appended to, never copied per delta (in the page) and never re-sent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

State = dict[str, Any]
PageEvent = dict[str, Any]

_LEAVE_OPEN = frozenset({"text_delta", "thinking", "tool_output", "snapshot", "warning"})
"""Events that can come in the middle of a growing text; the text goes on after them."""

_LEAVE_PAUSE = frozenset({"tool_output", "snapshot", "warning", "say"})
"""Events that can come while the run waits to try again; any other one ends that."""

_REFUSED_STATES = {
    "timeout": "unanswered",
    "nobody": "unanswered",
    "error": "unanswered",
    "stop": "cancelled",
}
"""The state of a call that was not approved, by who closed its question, where nobody said no."""


def initial() -> State:
    """Nothing has happened yet. `turns` holds one entry per run shown in this view."""
    return {"session_id": "", "turns": []}


def fold(state: State, event: PageEvent) -> State:
    """Take one event into the state, and return it.

    A turn: `{run_id, prompt, model, max_turns, rounds, question, pause, snapshot, exit_reason,
    message, usage, elapsed, resumed}`; a round: `{round, t0, t1, stop_reason, usage, items}`; an
    item is a `say`, `text`, `thinking`, `call` or `note`. An event of a type not known becomes a
    note.
    """
    kind = event["type"]
    if kind == "run_start":
        _run_start(state, event)
        return state
    if not state["turns"]:
        return state  # nothing to attach it to: the first event of a run is its run_start
    turn = state["turns"][-1]
    if kind in _FOLDS and kind not in _LEAVE_OPEN:
        _close_open(turn, event)
    if kind in _FOLDS and kind not in _LEAVE_PAUSE:
        turn["pause"] = None
    _FOLDS.get(kind, _unknown)(turn, event)
    return state


def _run_start(state: State, event: PageEvent) -> None:
    state["session_id"] = event["session_id"]
    state["turns"].append(
        {
            "run_id": event["run_id"],
            "prompt": event["prompt"],
            "model": event["model"],
            "max_turns": event["max_turns"],
            "rounds": [],
            "question": None,
            "pause": None,
            "snapshot": None,
            "exit_reason": None,
            "message": "",
            "usage": _no_usage(),
            "elapsed": None,
            "resumed": False,
        }
    )


def _no_usage() -> State:
    return {
        "input_tokens": 0,
        "output_tokens": 0,
        "cache_read_tokens": 0,
        "cache_write_tokens": 0,
    }


def _round(turn: State, event: PageEvent) -> State:
    """The round an event belongs to, made where it is the first of it."""
    rounds = turn["rounds"]
    if not rounds or rounds[-1]["round"] != event["round"]:
        rounds.append(
            {
                "round": event["round"],
                "t0": event["t"],
                "t1": None,
                "stop_reason": None,
                "usage": None,
                "items": [],
            }
        )
    last: State = rounds[-1]
    return last


def _open_item(turn: State) -> State | None:
    """The text or thinking item that is still growing: at most one, in the last round."""
    if not turn["rounds"]:
        return None
    return next((i for i in reversed(turn["rounds"][-1]["items"]) if i.get("open")), None)


def _close_open(turn: State, event: PageEvent) -> None:
    _close(_open_item(turn), event)


def _close(item: State | None, event: PageEvent) -> None:
    if item is not None:
        item["open"] = False
        item["t1"] = event["t"]


def _delta(turn: State, event: PageEvent) -> None:
    kind = "text" if event["type"] == "text_delta" else "thinking"
    key = [event["attempt"], event["block"]]
    growing = _open_item(turn)
    items = _round(turn, event)["items"]
    item = next((i for i in reversed(items) if i["kind"] == kind and i["key"] == key), None)
    if growing is not item:
        _close(growing, event)
    if item is None:
        item = {"kind": kind, "key": key, "text": "", "open": True, "t0": event["t"], "t1": None}
        items.append(item)
    item["text"] += event["text"]
    item["open"] = True
    item["t1"] = None


def _find_call(turn: State, call_id: str) -> State | None:
    for shown in reversed(turn["rounds"]):
        for item in shown["items"]:
            if item["kind"] == "call" and item["id"] == call_id:
                found: State = item
                return found
    return None


def _call(turn: State, event: PageEvent) -> State:
    call = _find_call(turn, event["id"])
    if call is None:
        call = {
            "kind": "call",
            "id": event["id"],
            "name": event["name"],
            "text": "",
            "input": None,
            "state": "arriving",
            "output": [],
            "progress": None,
            "decision": None,
            "result": None,
            "t0": None,
            "duration": None,
        }
        _round(turn, event)["items"].append(call)
    return call


def _tool_use_delta(turn: State, event: PageEvent) -> None:
    call = _call(turn, event)
    call["text"] += event["text"]


def _tool_use_start(turn: State, event: PageEvent) -> None:
    call = _call(turn, event)
    call["name"] = event["name"]
    call["input"] = event["arguments"]
    call["state"] = "queued"


def _tool_running(turn: State, event: PageEvent) -> None:
    call = _call(turn, event)
    call["state"] = "running"
    call["t0"] = event["t"]


def _tool_output(turn: State, event: PageEvent) -> None:
    call = _find_call(turn, event["id"])
    if call is None:
        return
    if event["stream"] == "progress":
        call["progress"] = {"fraction": event["fraction"], "text": event["text"]}
    elif call["output"] and call["output"][-1]["stream"] == event["stream"]:
        call["output"][-1]["text"] += event["text"]
    else:
        call["output"].append({"stream": event["stream"], "text": event["text"]})


def _tool_result(turn: State, event: PageEvent) -> None:
    call = _call(turn, event)
    call["state"] = event["outcome"]
    call["progress"] = None
    call["duration"] = event["duration_s"]
    call["result"] = {
        "content": event["content"],
        "display": event["display"],
        "images": event["images"],
    }


def _message(turn: State, event: PageEvent) -> None:
    """A reply is complete. Its blocks come along only where no delta did (a journal keeps none)."""
    items = _round(turn, event)["items"]
    _cut(items)
    for index, block in enumerate(event["message"]["blocks"] or ()):
        if block["type"] in ("text", "thinking") and block["text"]:
            kind = "text_delta" if block["type"] == "text" else "thinking"
            piece = {**event, "type": kind, "text": block["text"], "attempt": 0, "block": index}
            _delta(turn, piece)
        elif block["type"] == "tool_call":
            _tool_use_delta(turn, {**event, **block, "text": block["arguments"]})
    _close_open(turn, event)
    _seal(items)


def _cut(items: list[State]) -> None:
    """The reply is over: a call that is still arriving will never be whole."""
    for item in items:
        if item["kind"] == "call" and item["state"] == "arriving":
            item["state"] = "cut"


def _seal(items: list[State]) -> None:
    """No later delta belongs to these texts, whatever its block number."""
    for item in items:
        if item["kind"] in ("text", "thinking"):
            item["key"] = None


def _question(turn: State, event: PageEvent) -> None:
    question = event["question"]
    turn["question"] = {
        "id": question["id"],
        "items": question["items"],
        "t0": event["t"],
        "timeout_s": question["timeout_s"],
        "decided": [],
    }
    for item in question["items"]:
        call = _find_call(turn, item["call_id"])
        if call is not None:
            call["state"] = "waiting"


def _answer(turn: State, event: PageEvent) -> None:
    question = turn["question"]
    for decision in event["decisions"]:
        call = _find_call(turn, decision["call_id"])
        if call is not None:
            call["decision"] = {
                "approved": decision["approved"],
                "reason": decision["reason"],
                "by": event["by"],
            }
            refused = _REFUSED_STATES.get(event["by"], "declined")
            call["state"] = "queued" if decision["approved"] else refused
        if question is not None:
            question["decided"].append(decision["call_id"])
    if event["closed"]:
        turn["question"] = None


def _attempt_discarded(turn: State, event: PageEvent) -> None:
    items = _round(turn, event)["items"]
    items[:] = [item for item in items if not _is_void(item, event["attempt"])]


def _is_void(item: State, attempt: int) -> bool:
    """Whether a dead attempt left this: a text that is not sealed, a call that never was whole."""
    if item["kind"] == "call":
        return bool(item["state"] == "arriving")
    return item["kind"] in ("text", "thinking") and item["key"] and item["key"][0] == attempt


_GUARDED = {
    "wrap-up": "The tool budget is used up. The model was told to answer now.",
    "hard-stop": "The model went on calling tools past the limit, so the run was ended.",
}
"""Of whole rounds; a single call that was guarded says so itself."""


def _guard(turn: State, event: PageEvent) -> None:
    if text := _GUARDED.get(event["kind"]):
        _round(turn, event)["items"].append({"kind": "note", "level": "warning", "text": text})


def _retry(turn: State, event: PageEvent) -> None:
    items = _round(turn, event)["items"]
    first = event["attempt"]
    if items and items[-1].get("level") == "retry":
        tries, _, message = items[-1]["text"].partition(" failed: ")
        if message == event["message"]:  # once more the same: one line for all of them
            first = int(tries.split()[1])
            items.pop()
    tries = f"Try {first}" if first == event["attempt"] else f"Tries {first} to {event['attempt']}"
    text = f"{tries} failed: {event['message']}"
    items.append({"kind": "note", "level": "retry", "text": text})
    if event["wait_s"] > 0:
        turn["pause"] = {"kind": "retry", "t0": event["t"], "wait_s": event["wait_s"]}


def _circuit(turn: State, event: PageEvent) -> None:
    if event["state"] == "open":
        turn["pause"] = {"kind": "circuit", "t0": event["t"], "wait_s": event["wait_s"]}


def _say(turn: State, event: PageEvent) -> None:
    _round(turn, event)["items"].append({"kind": "say", "text": event["text"]})


def _note(level: str) -> Callable[[State, PageEvent], None]:
    def fold_note(turn: State, event: PageEvent) -> None:
        note = {"kind": "note", "level": level, "text": event["message"]}
        _round(turn, event)["items"].append(note)

    return fold_note


def _unknown(turn: State, event: PageEvent) -> None:
    note = {"kind": "note", "level": "unknown", "text": event["type"]}
    _round(turn, event)["items"].append(note)


def _round_start(turn: State, event: PageEvent) -> None:
    _round(turn, event)


def _round_end(turn: State, event: PageEvent) -> None:
    shown = _round(turn, event)
    shown["t1"] = event["t"]
    shown["stop_reason"] = event["stop_reason"]
    shown["usage"] = event["usage"]
    turn["usage"] = {key: turn["usage"][key] + event["usage"][key] for key in turn["usage"]}


def _resumed(turn: State, event: PageEvent) -> None:
    turn["resumed"] = True
    turn["model"] = event["model"]
    turn["question"] = None  # the kernel that asked it is gone; it is asked again where needed
    for shown in turn["rounds"]:
        for item in shown["items"]:
            if item["kind"] == "call" and item["state"] == "waiting":
                item["state"] = "queued"
    note = {"kind": "note", "level": "resumed", "text": event["model"]}
    _round(turn, event)["items"].append(note)


def _snapshot(turn: State, event: PageEvent) -> None:
    turn["snapshot"] = event["file"]


def _done(turn: State, event: PageEvent) -> None:
    for shown in turn["rounds"]:
        _cut(shown["items"])
    turn["question"] = None
    turn["exit_reason"] = event["exit_reason"]
    turn["message"] = event["message"]
    turn["usage"] = event["usage"]
    turn["elapsed"] = event["t"]


_FOLDS: dict[str, Callable[[State, PageEvent], None]] = {
    "resumed": _resumed,
    "round_start": _round_start,
    "text_delta": _delta,
    "thinking": _delta,
    "tool_use_delta": _tool_use_delta,
    "tool_use_start": _tool_use_start,
    "tool_running": _tool_running,
    "tool_output": _tool_output,
    "tool_result": _tool_result,
    "message": _message,
    "question": _question,
    "answer": _answer,
    "say": _say,
    "round_end": _round_end,
    "attempt_discarded": _attempt_discarded,
    "retry": _retry,
    "guard": _guard,
    "circuit": _circuit,
    "snapshot": _snapshot,
    "warning": _note("warning"),
    "error": _note("error"),
    "done": _done,
}
