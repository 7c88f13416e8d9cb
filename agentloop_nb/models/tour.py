"""The script behind `offline:tour`: what the quickstart's agent says and does, as a function of the
request. It tidies a folder with two tools, `list_files` and `delete_file`, and reacts to how its
calls ended, so that a lesson can decline one, leave it unanswered or stop the run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from agentloop_nb.messages import ToolResult
from agentloop_nb.models.base import Request, ToolSpec
from agentloop_nb.models.offline import Call, Pause, Reply, last_user_text, new_results

LIST, DELETE = "list_files", "delete_file"

_LEFTOVER = re.compile(
    r"(?<![a-z])(?:draft|old|tmp|temp|copy|backup|bak)(?![a-z])|~$", re.IGNORECASE
)


def tour(request: Request) -> Reply:
    """The next reply of the tour."""
    results = {result.name: result for result in new_results(request)}
    tools = {spec.name: spec for spec in request.tools}
    if DELETE in results:
        return _report(request, results[DELETE])
    if LIST in results:
        return _choose(results[LIST], tools.get(DELETE))
    return _look(request, tools.get(LIST))


def _look(request: Request, spec: ToolSpec | None) -> Reply:
    if spec is None:
        return Reply(
            f"You said: {last_user_text(request)!r}. This tour needs an agent with the tools "
            f"`{LIST}` and `{DELETE}`; give it both and start again."
        )
    arguments = dict.fromkeys(_required(spec), ".")
    return Reply(
        thinking=[
            "The user wants this folder tidied. ",
            Pause(0.3),
            "Before anything is deleted I have to know what is there, so I list the files first.",
        ],
        text="I will look at what is in the folder first.",
        calls=[Call(LIST, **arguments)],
    )


def _choose(listing: ToolResult, spec: ToolSpec | None) -> Reply:
    if listing.is_error:
        return Reply(
            f"I could not list the files, so I left everything as it is: {listing.content}"
        )
    files = _names(listing.content)
    leftover = next((name for name in files if _LEFTOVER.search(name)), None)
    if leftover is None or spec is None:
        count = f"{len(files)} file" + ("" if len(files) == 1 else "s")
        return Reply(f"There is nothing to tidy: {count} here, and none looks like a leftover.")
    argument = next(iter(_required(spec) or _properties(spec)), "path")
    return Reply(
        thinking=f"{leftover} looks like a leftover; the others look wanted. Deleting cannot be "
        "undone, so this call waits for the user's approval.",
        text=f"`{leftover}` looks like a leftover. I would like to delete it.",
        calls=[Call(DELETE, **{argument: leftover})],
    )


def _report(request: Request, result: ToolResult) -> Reply:
    path = _deleted_path(request)
    match result.outcome:
        case "ok":
            return Reply(_done(path, result.content))
        case "declined":
            return Reply(f"You declined, so `{path}` stays where it is. {_UNCHANGED}")
        case "unanswered":
            return Reply(
                f"Nobody answered, so I did not delete `{path}`. That is not a no: start again "
                f"when you have a moment. {_UNCHANGED}"
            )
        case "unknown_outcome":
            return Reply(
                f"I do not know whether `{path}` was deleted: the kernel ended in the middle of "
                "it. Please look before you ask me to try again."
            )
        case _:
            return Reply(f"Deleting `{path}` did not work: {result.content}")


_UNCHANGED = "Nothing in the folder was changed."


def _done(path: str, said: str) -> str:
    return f"""The folder is tidy. This is what happened:

- I listed the files and found one leftover.
- You approved the call, and only then did it run.
- The tool answered: *{said.strip() or "nothing"}*

| round | tool | outcome |
|---|---|---|
| 0 | `{LIST}` | done |
| 1 | `{DELETE}` | approved, done |

To go on in the same session:

```python
run2 = run.session.start("And now the next one")
```

`{path}` is gone; everything else is as it was."""


def _deleted_path(request: Request) -> str:
    for message in reversed(request.messages):
        for call in message.calls:
            if call.name == DELETE and isinstance(call.input, dict):
                return str(next(iter(call.input.values()), "the file"))
    return "the file"


def _names(listing: str) -> list[str]:
    """File names in a listing, whether it has one a line or is a list in text."""
    lines = listing.splitlines() if "\n" in listing else listing.strip("[]() ").split(",")
    names = (re.sub(r"\s+\(?\d[\d.,]*\s*\w*\)?$", "", line.strip(" \t-*'\"[],")) for line in lines)
    return [name for name in names if name]


def _required(spec: ToolSpec) -> list[str]:
    required = spec.schema.get("required")
    return [str(name) for name in required] if isinstance(required, list | tuple) else []


def _properties(spec: ToolSpec) -> list[str]:
    properties: Any = spec.schema.get("properties")
    return list(properties) if isinstance(properties, Mapping) else []
