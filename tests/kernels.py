"""A real kernel in a test, and the client that plays its page.

The kernel is a process of its own in a folder of its own, runs the checkout's code and is killed by
its pid at the end; it ends itself where the test process dies. All that it says, on the shell's
channel and to everybody, is kept in `messages`, in the order it was read. `until` waits for one of
them and says what came instead.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import zmq
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager

CHECKOUT = Path(__file__).parents[1]
WAIT_S = 30.0
"""The longest wait for anything; what is waited for takes milliseconds, a kernel's start two s."""

STRANDED_S = 3.0
"""Stock ipykernel 7.0 to 7.3 may strand a cell where no run of ours lives; after so long a silence
another message frees it. Where one lives, `test_kernel_stranding.py` looks for it, un-nudged."""

Message = dict[str, Any]
Predicate = Callable[[Message], bool]


class Cell:
    """An execute request that was sent."""

    def __init__(self, kernel: Kernel, msg_id: str) -> None:
        self.msg_id = msg_id
        self._kernel = kernel

    def reply(self, timeout_s: float = WAIT_S) -> Message:
        """The content of the reply, once the cell and what it printed are complete."""
        self._kernel.until(idle(self.msg_id), timeout_s)
        found = self._kernel.until(
            lambda m: m["msg_type"] == "execute_reply" and of(self.msg_id)(m), timeout_s
        )
        content: Message = found["content"]
        return content

    def ok(self, timeout_s: float = WAIT_S) -> str:
        """What the cell printed; its reply has to be ok."""
        reply = self.reply(timeout_s)
        assert reply["status"] == "ok", "\n".join(reply.get("traceback", [str(reply)]))
        return self.text()

    def text(self, name: str = "stdout") -> str:
        """What was printed so far with this cell as its parent."""
        return "".join(
            m["content"]["text"]
            for m in self._kernel.messages
            if m["msg_type"] == "stream" and m["content"]["name"] == name and of(self.msg_id)(m)
        )


class Kernel:
    """A running kernel. Make it by `live_kernel`."""

    def __init__(self, manager: KernelManager, client: BlockingKernelClient) -> None:
        self.messages: list[Message] = []
        self.nudged = True
        """Whether a long silence is broken by a message, which frees what the kernel stranded."""
        self.listeners: list[Callable[[Message], None]] = []
        """Each hears every message as it is read, and may answer."""
        self._manager = manager
        self._client = client
        self._sockets = {
            channel.socket: name
            for name, channel in (
                ("iopub", client.iopub_channel),
                ("shell", client.shell_channel),
                ("control", client.control_channel),
            )
        }

    @property
    def pid(self) -> int:
        pid: int = self._manager.provisioner.pid
        return pid

    @property
    def ipykernel(self) -> tuple[int, int]:
        """Its version."""
        said = self.run("import ipykernel; print(*ipykernel.version_info[:2])")
        major, minor = map(int, said.split())
        return major, minor

    # -- saying something

    def cell(self, code: str, **options: Any) -> Cell:
        """Send a cell and do not wait. `options` are `execute`'s, such as `stop_on_error`."""
        return Cell(self, self._client.execute(code, **options))

    def run(self, code: str) -> str:
        """Run a cell to its end, which has to be a good one; returns what it printed."""
        return self.cell(code).ok()

    def request(
        self, kind: str, content: Message, *, channel: str = "shell", subshell: str | None = None
    ) -> str:
        """Send any message, on the main shell or a subshell; returns its id."""
        message = self._client.session.msg(kind, content)
        if subshell is not None:
            message["header"]["subshell_id"] = subshell
        getattr(self._client, f"{channel}_channel").send(message)
        msg_id: str = message["header"]["msg_id"]
        return msg_id

    def comm_open(self, comm_id: str, target: str, data: object = None, **how: Any) -> str:
        content = {"comm_id": comm_id, "target_name": target, "data": data or {}}
        return self.request("comm_open", content, **how)

    def comm_msg(self, comm_id: str, data: object, **how: Any) -> str:
        return self.request("comm_msg", {"comm_id": comm_id, "data": data}, **how)

    def comm_close(self, comm_id: str, **how: Any) -> str:
        return self.request("comm_close", {"comm_id": comm_id, "data": {}}, **how)

    def subshell(self) -> str:
        """Make a subshell, as JupyterLab does for comms; returns its id."""
        asked = self.request("create_subshell_request", {}, channel="control")
        reply = self.until(lambda m: m["msg_type"] == "create_subshell_reply" and of(asked)(m))
        subshell_id: str = reply["content"]["subshell_id"]
        return subshell_id

    def interrupt(self) -> None:
        """As the notebook's interrupt button does."""
        self._manager.interrupt_kernel()

    def die(self) -> None:
        """SIGKILL: nothing of the kernel's gets a chance to tidy up. Returns when it is gone."""
        os.kill(self.pid, signal.SIGKILL)
        self._manager.finish_shutdown(waittime=WAIT_S)

    # -- hearing something

    def until(self, wanted: Predicate, timeout_s: float = WAIT_S, *, since: int = 0) -> Message:
        """The first message that is `wanted`, of those read already (from index `since`) and of
        those to come. Fails after `timeout_s` seconds."""
        end = time.monotonic() + timeout_s
        looked = since
        while True:
            for message in self.messages[looked:]:
                if wanted(message):
                    return message
            looked = max(looked, len(self.messages))
            left = end - time.monotonic()
            assert left > 0, f"Waited {timeout_s} s in vain. Last came:\n{self._tail()}"
            self._read(left)

    def until_true(self, wanted: Callable[[], bool], timeout_s: float = WAIT_S) -> None:
        """Read until something holds, which reading alone can bring about."""
        end = time.monotonic() + timeout_s
        while not wanted():
            left = end - time.monotonic()
            assert left > 0, f"Waited {timeout_s} s in vain. Last came:\n{self._tail()}"
            self._read(left)

    def comm_data(self, comm_id: str, wanted: Predicate, timeout_s: float = WAIT_S) -> Message:
        """The first data sent on a comm that is `wanted`."""
        found = self.until(
            lambda m: (
                m["msg_type"] == "comm_msg"
                and m["content"]["comm_id"] == comm_id
                and wanted(m["content"]["data"])
            ),
            timeout_s,
        )
        data: Message = found["content"]["data"]
        return data

    def _read(self, timeout_s: float) -> None:
        poller = zmq.Poller()
        for socket in self._sockets:
            poller.register(socket, zmq.POLLIN)
        ready = poller.poll(min(timeout_s, STRANDED_S) * 1000)
        if not ready and self.nudged:
            self._client.kernel_info()
        for socket, _ in ready:
            _, message = self._client.session.recv(socket, mode=zmq.NOBLOCK)
            if message is not None:
                self.messages.append({"channel": self._sockets[socket], **message})
                for listener in self.listeners:
                    listener(message)

    def _tail(self) -> str:
        return "\n".join(
            f"{m['channel']} {m['msg_type']} {str(m['content'])[:300]}" for m in self.messages[-12:]
        )


def of(msg_id: str) -> Predicate:
    """Messages that answer to this one."""
    return lambda m: m["parent_header"].get("msg_id") == msg_id


def idle(msg_id: str) -> Predicate:
    """The last status that a request brings about."""
    return lambda m: (
        m["msg_type"] == "status" and m["content"]["execution_state"] == "idle" and of(msg_id)(m)
    )


def write_spec(folder: Path, name: str, python: Path | str) -> None:
    """A kernelspec for an interpreter that has ipykernel, in a folder of kernelspecs."""
    place = folder / name
    place.mkdir(parents=True, exist_ok=True)
    arguments = ["-Xfrozen_modules=off", "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = {
        "argv": [str(python), *arguments],
        "display_name": name,
        "language": "python",
        "metadata": {"debugger": False},
    }
    (place / "kernel.json").write_text(json.dumps(spec), encoding="utf-8")


@contextmanager
def live_kernel(
    folder: Path, python: Path | str = sys.executable, **environment: str
) -> Iterator[Kernel]:
    """A kernel of this interpreter that runs in `folder`, killed at the end. `environment` is added
    to this process's; the user's own profile, history and start-up files are not seen."""
    folder.mkdir(parents=True, exist_ok=True)
    write_spec(folder / "kernels", "tested", python)
    manager = KernelManager(
        kernel_name="tested",
        kernel_spec_manager=KernelSpecManager(kernel_dirs=[str(folder / "kernels")]),
        connection_file=str(folder / "connection.json"),
    )
    manager.start_kernel(
        cwd=str(folder),
        env={
            **os.environ,
            "PYTHONPATH": str(CHECKOUT),
            "IPYTHONDIR": str(folder / "ipython"),
            "PYDEVD_DISABLE_FILE_VALIDATION": "1",
            **environment,
        },
    )
    client = manager.client()
    try:
        client.start_channels()
        client.wait_for_ready(timeout=WAIT_S)
        yield Kernel(manager, client)
    finally:
        client.stop_channels()
        if manager.has_kernel:
            manager.shutdown_kernel(now=True)
        manager.cleanup_resources()
