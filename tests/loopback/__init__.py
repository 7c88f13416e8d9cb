"""A loopback server that speaks the providers' wire formats, so that real SDKs parse real bytes.

    from tests.loopback import Loopback, call, hold, refuse, reply, say, think

    with Loopback([
        reply(think("Look first."), say("Looking", " now."), call("list_files", {"path": "."})),
        refuse(529),
        reply("Two files.", hold("almost"), " That is all."),
    ]) as server:
        model = AnthropicModel("claude-test", base_url=server.base_url, api_key="k")
        …                                  # or OpenAIModel, OpenAIChatModel: the path decides
        server.wait_held("almost")         # the stream stands there; all before it has been sent
        server.release("almost")
        assert server.last.body["messages"][-1]["role"] == "user"
        assert not server.complaints       # what the real service would have answered 400 for

The script is a list of answers, one per request, or a function of the request's body. Each piece
of a text, of reasoning or of a call's arguments is one delta. Steps between them: `pause(seconds)`,
`hold(name)`, `ping()`, `fail(code, message)` (an error in the stream), `cut()` (the connection
breaks) and `cut(clean=True)` (the body ends early). A reply has a `pace` in deltas per second.
`refuse(status)` is an HTTP error in the provider's own words.

Every request goes through its format's checker first (`checkers.py`), written from the provider's
documentation; a broken history gets a 400 with its complaint. Signatures and ciphertext are the
server's own and checked byte for byte, also by the next server. `flood()` is the long stream.

From another process: `python -m tests.loopback --port-file F --script NAME --lifetime SECONDS`
(names in `scripts.py`); POST /loopback/release/NAME releases, GET /loopback/requests lists.
"""

from __future__ import annotations

from tests.loopback.checkers import Complaint, check_anthropic, check_chat, check_responses
from tests.loopback.flood import flood, flood_pieces, flood_text
from tests.loopback.script import (
    Refusal,
    Reply,
    call,
    cut,
    fail,
    hang,
    hold,
    pause,
    ping,
    raw,
    refuse,
    reply,
    reset,
    say,
    think,
    think_hidden,
    think_redacted,
)
from tests.loopback.sealed import seal, sign
from tests.loopback.server import Loopback, Recorded

__all__ = [
    "Complaint",
    "Loopback",
    "Recorded",
    "Refusal",
    "Reply",
    "call",
    "check_anthropic",
    "check_chat",
    "check_responses",
    "cut",
    "fail",
    "flood",
    "flood_pieces",
    "flood_text",
    "hang",
    "hold",
    "pause",
    "ping",
    "raw",
    "refuse",
    "reply",
    "reset",
    "say",
    "seal",
    "sign",
    "think",
    "think_hidden",
    "think_redacted",
]
