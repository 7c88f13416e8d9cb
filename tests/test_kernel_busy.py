"""A plain synchronous cell holds the kernel: nothing runs out meanwhile, no click is lost.

On `loop="thread"` the run goes on during such a cell. Where the kernel receives the shell's
messages on a thread of its own (ipykernel 7), a click is honoured there and then; on 6 the main
thread alone reads them, so it is honoured when the cell is over.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kernel_envs import chosen
from tests.kernels import Kernel
from tests.loopback import Loopback, call, pause, reply, say
from tests.pages import Notebook, agents_kernel

LIMITS = "limits=Limits(approval_timeout_s=1.5, stream_timeout_s=1.5, tool_timeout_s=1.5)"
BUSY = "threading.Event().wait({})"
"""A cell of plain code, as `time.sleep` or a long computation."""
BUSY_S = 3.0


@pytest.fixture(scope="module", params=chosen())
def opened(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Notebook]:
    with agents_kernel(tmp_path_factory.mktemp("busy"), request.param) as notebook:
        yield notebook


@pytest.fixture
def notebook(opened: Notebook) -> Notebook:
    opened.ran()
    opened.page.forget()
    return opened


def hears_at_once(kernel: Kernel) -> bool:
    return kernel.ipykernel >= (7, 0)


def test_on_a_loop_of_its_own_a_click_is_honoured_while_a_plain_cell_blocks(
    notebook: Notebook,
) -> None:
    kernel = notebook.kernel
    at_once = hears_at_once(kernel)
    _, view = notebook.begin("run = agent(loop='thread').start('Write plum.')")
    view.until_asked()
    # The cell ends when the tool has run, which takes the click; at the latest after 5 s.
    cell = kernel.cell(
        "import os\n"
        "print('blocking', flush=True)\n"
        "for _ in range(500):\n"
        "    if os.path.exists('ran.txt'): break\n"
        "    threading.Event().wait(0.01)\n"
        "print('during' if os.path.exists('ran.txt') else 'after')"
    )
    kernel.until_true(lambda: cell.text() == "blocking\n")
    assert view.approve()["ok"]
    assert cell.ok() == "blocking\n" + ("during\n" if at_once else "after\n")
    assert view.until_ended() == "end_turn"
    assert notebook.ran() == ["plum"]


def test_on_a_loop_of_its_own_a_run_streams_and_stops_while_a_plain_cell_blocks(
    notebook: Notebook,
) -> None:
    kernel = notebook.kernel
    if not hears_at_once(kernel):
        return  # the run goes on there too, but Stop waits for the cell: see the test above
    _, view = notebook.begin(
        "run = agent(' '.join(['word'] * 20000), loop='thread').start('Talk.')"
    )
    cell = kernel.cell("run.wait(30)")
    kernel.until_true(lambda: len(view.text()) > 1000)
    assert view.stop()["ok"]
    assert view.until_ended() == "user_cancel"
    assert cell.reply()["status"] == "ok"


def test_a_dialog_is_not_closed_by_a_cell_that_outlasts_it(notebook: Notebook) -> None:
    kernel = notebook.kernel
    _, view = notebook.begin(f"run = agent({LIMITS}).start('Write plum.')")
    view.until_asked()
    cell = kernel.cell(BUSY.format(BUSY_S))
    click = view.command(
        {
            "type": "answer",
            "run_id": view.turn["run_id"],
            "question": view.question["id"] if view.question else "",
            "decisions": [{"call_id": view.items("call")[0]["id"], "approved": True}],
        }
    )
    cell.ok()
    assert view.reply(click)["ok"]
    assert view.until_ended() == "end_turn"
    assert notebook.ran() == ["plum"]


def test_after_the_cell_there_is_as_much_time_to_answer_as_before(notebook: Notebook) -> None:
    kernel = notebook.kernel
    _, view = notebook.begin("run = agent(limits=Limits(approval_timeout_s=20)).start('Plum.')")
    view.until_asked()
    kernel.run(BUSY.format(BUSY_S))
    kernel.until_true(lambda: len(view.of("question")) == 2)
    first, again = (event["question"] for event in view.of("question"))
    assert again["id"] == first["id"]
    assert again["timeout_s"] >= first["timeout_s"] - 3
    assert view.approve()["ok"]
    assert view.until_ended() == "end_turn"
    notebook.ran()


def test_no_timeout_of_a_stream_or_a_tool_while_a_cell_holds_the_kernel(
    notebook: Notebook,
) -> None:
    """Over HTTP: the provider answers while nobody listens, and a tool waits for the loop."""
    kernel = notebook.kernel
    answers = [
        reply(say("I "), pause(0.5), say("look. "), call("look", {})),
        reply(say("It "), pause(0.5), say("is blue.")),
    ]
    with Loopback(answers) as server:
        kernel.run(
            "looking = threading.Event()\n"
            "async def look() -> str:\n"
            "    'Look.'\n"
            "    looking.set()\n"
            "    await asyncio.sleep(0.5)\n"
            "    return 'blue'\n"
        )
        _, view = notebook.begin(
            f"run = Agent(AnthropicModel('m', base_url={server.base_url!r}, api_key='test'), "
            f"tools=[look], {LIMITS}).start('Look')\n"
            f"{BUSY.format(BUSY_S)}"  # before the request has gone out
        )
        kernel.until_true(lambda: view.text() != "")
        kernel.run(BUSY.format(BUSY_S))  # in the stream
        view.until_running()
        kernel.run(BUSY.format(BUSY_S))  # while the tool waits
        assert view.until_ended() == "end_turn"
        assert [item["state"] for item in view.items("call")] == ["ok"]
        assert view.text().replace("|", "") == "I look. It is blue."
        assert len(server.requests) == 2
