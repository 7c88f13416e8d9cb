"""Cells that the browser tests run: an agent whose one tool writes a line to a file and asks first.

The kernel works in the notebook's folder, so the test reads the file there.
"""

from __future__ import annotations

TOOL = """
from agentloop_nb import Agent, Call, Limits, OfflineModel, Pause, Reply, runs, tool

@tool(approval="required")
def note(word: str) -> str:
    \"\"\"Write a word to a file.\"\"\"
    with open("ran.txt", "a") as file:
        file.write(word + "\\n")
        file.flush()
    return "wrote " + word

def agent(**limits):
    return Agent(
        OfflineModel([
            Reply("First I ask.", calls=[Call("note", word="plum")]),
            Reply("All is written down."),
        ]),
        tools=[note],
        limits=Limits(**limits),
    )
"""

ANSWERS = """
def answers(run):
    return [(e.by, d.approved) for e in run.events if e.type == "answer" for d in e.decisions]

print("answers:", answers(runs()[-1]))
print("exit:", runs()[-1].result and str(runs()[-1].result.exit_reason))
print("text:", runs()[-1].result and runs()[-1].result.text)
"""

BACKGROUND = "other = agent().start('In the background.')"
"""A run that waits for its own question meanwhile."""

OTHER_ENDED = """
finished = await other
print("other:", finished.exit_reason, finished.text)
"""

BEGIN = {
    "start": "run = agent().start('Write plum.')",
    "await": "result = await agent().run('Write plum.')",
    "run_sync": "result = agent().run_sync('Write plum.')",
}
