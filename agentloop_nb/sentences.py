"""Every sentence said to a model in place of a tool's result, and what the engine itself says.

Each says what happened first, then what to do next. They are written for a model: plain, in the
second person, with the tool's name, because a model reads several of them side by side.
"""

from __future__ import annotations

from collections.abc import Sequence

_NOT_AGAIN = "Do not call it again this turn"


def declined(name: str, reason: str = "") -> str:
    """A person said no. With a reason, a corrected call may be tried once more."""
    if words := reason.strip():
        return (
            f"The user declined this call of {name!r}, so it did not run. Their reason: {words}\n"
            "Take the reason into account. Do not repeat this call as it is; a call that meets "
            "the reason may be asked for once more."
        )
    return (
        f"The user declined this call of {name!r}, so it did not run. {_NOT_AGAIN}; go on without "
        "it, or say what you would have done and why."
    )


def unanswered(name: str, waited_s: float | None = None) -> str:
    """A dialog was shown and nobody answered in time, which is not a no."""
    within = "" if waited_s is None else f" within {waited_s:g} seconds"
    return (
        f"The user was asked to approve this call of {name!r} and nobody answered{within}, so it "
        f"did not run. Nobody declined it either. {_NOT_AGAIN}; finish what you can without it "
        "and say that it still waits for an approval."
    )


def nobody_to_ask(name: str) -> str:
    """There was no page, and no other way, to ask a person."""
    return (
        f"The tool {name!r} needs a person's approval and there is no one to ask here, so the "
        f"call did not run. {_NOT_AGAIN}; finish what you can without it and say what is left."
    )


def ask_failed(name: str) -> str:
    """Asking broke; what cannot be asked is not run."""
    return (
        f"The tool {name!r} needs a person's approval and asking for it failed, so the call did "
        f"not run. {_NOT_AGAIN}; finish what you can without it and say what is left."
    )


def declined_before(name: str) -> str:
    """The tool, or this very call, was declined earlier in this turn; nobody is asked again."""
    return (
        f"This call of {name!r} did not run: it was declined, or left unanswered, earlier in this "
        f"turn, and the user is not asked again. {_NOT_AGAIN}; go on without it, or end your turn "
        "and ask the user in your answer."
    )


def deferred(name: str) -> str:
    """The round has had its dialog; the one sentence that invites to call again."""
    return (
        f"This call of {name!r} did not run: it needs the user, who can be asked only once in a "
        "round, and was asked about something else. If it is still needed, call it again in the "
        "next round."
    )


def repeated(name: str, times: int) -> str:
    """The same call came to the same result so many times in a row."""
    return (
        f"This call of {name!r} did not run: with these arguments it has already run {times} "
        f"times, with the same result each time. {_NOT_AGAIN} with these arguments; use the result "
        "you have, try something else, or answer with what you know."
    )


def wrap_up(name: str) -> str:
    """Past the soft limit: nothing runs any more."""
    return (
        f"This call of {name!r} did not run: the tool budget of this turn is exhausted. Do not "
        "call any tool again this turn; answer now with what you have, and say what is left undone."
    )


def hard_stop(name: str) -> str:
    """Past the hard limit: the run ends with this round."""
    return (
        f"This call of {name!r} did not run: the tool budget of this turn was exhausted and the "
        "run was ended. Do not call it again this turn; the user's next message goes on from here."
    )


def cancelled(name: str, *, started: bool) -> str:
    """A call was stopped, alone or with its run, before it began or while it was at work."""
    if started:
        return (
            f"This call of {name!r} was stopped while it was at work. It may have done some or "
            "all of what it does: check before you repeat it."
        )
    return f"The run was stopped before {name!r} began, so this call did not run."


def unknown_tool(name: str, known: Sequence[str], nearest: str | None = None) -> str:
    """The model named a tool that it was not given."""
    if not known:
        return (
            f"There is no tool {name!r}, so nothing ran: no tools are available here. Answer "
            "without tools."
        )
    hint = "" if nearest is None else f" Did you mean {nearest!r}?"
    return (
        f"There is no tool {name!r}, so nothing ran.{hint} The tools are: {', '.join(known)}. "
        "Call one of these by its exact name, or answer without."
    )


def outcome_unknown(name: str, arguments: str) -> str:
    """The process died while the tool ran, so nobody knows what it came to. `arguments` is the
    call's JSON text."""
    return (
        f"The outcome of this call of {name!r} is unknown: the process ended while it ran. Its "
        f"arguments were {arguments}. It may or may not have happened, in part or in full, and "
        "it was not started again. Check what it did before you repeat it."
    )


def timed_out(name: str, timeout_s: float, *, still_running: bool) -> str:
    """The tool took longer than it may. A thread cannot be ended, only left behind."""
    after = f"The tool {name!r} took longer than its limit of {timeout_s:g} seconds"
    if still_running:
        return (
            f"{after}; it could not be ended and may still be running, but its result will not "
            "be used. Check what it has done before you repeat it, or ask it for less at a time."
        )
    return (
        f"{after} and was ended. It may have done a part of its work: check before you repeat "
        "it, or ask it for less at a time."
    )


def truncated(name: str) -> str:
    """The reply that held this call was cut, so none of the reply's calls were run."""
    return (
        f"Your reply was cut off before it was complete, so this call of {name!r} did not run, "
        "and neither did any other call of that reply. Make the calls again, with shorter "
        "arguments or fewer of them at once."
    )


def bad_arguments(name: str, problems: Sequence[str], fits: str) -> str:
    """The arguments do not fit the schema. `fits` is a line that says what would."""
    lines = "\n".join(f"- {problem}" for problem in problems)
    return (
        f"The arguments do not fit the tool {name!r}, so it did not run:\n{lines}\n{fits}\n"
        "Call it again with arguments that fit."
    )


def stopped_at_cap(rounds: int) -> str:
    """The engine's own last message when the rounds are used up."""
    return (
        f"Stopped after {rounds} rounds, which is the limit of this run, before there was an "
        "answer. A new message goes on from here."
    )


def stopped_past_tools(rounds: int, limit: int, undone: Sequence[str]) -> str:
    """The engine's own last message past the hard limit. `undone` are the tools still asked for."""
    names = ", ".join(dict.fromkeys(undone))
    return (
        f"Stopped after {rounds} rounds of tools: the limit of this turn is {limit}, and the model "
        f"went on calling tools after it was told to answer. Not done: {names}. A new message goes "
        "on from here."
    )


def stopped_by_errors(failed: int) -> str:
    """The engine's own last message after so many failed calls in a row."""
    return (
        f"Stopped after {failed} failed tool calls in a row, which is the limit of this run. The "
        "last errors are in the results above. A new message goes on from here."
    )
