"""Sessions on disk: what a crash, a full disk or a strange file leaves."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentloop_nb import Agent, Call, OfflineModel, Reply, UsageError, tool
from agentloop_nb.errors import SessionBusy, StoredDataError
from agentloop_nb.events import AnyEvent, Delta, SnapshotEvent
from agentloop_nb.events import Warning as WarningEvent
from agentloop_nb.snapshot import SessionFiles, session_ids


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def saved(folder: Path, turns: int = 1) -> tuple[Agent, str]:
    """A session of some turns, saved in a folder."""
    script = [Reply("Adding.", calls=[Call("add", a=1, b=2)]), Reply("Three.")]
    agent = Agent(OfflineModel(script * turns), tools=[add], folder=folder)
    session = agent.session()
    for turn in range(turns):
        session.run_sync(f"Turn {turn}")
    return agent, session.id


def test_journal_and_snapshot_say_the_same(tmp_path: Path) -> None:
    agent, session = saved(tmp_path, turns=2)
    files = SessionFiles(tmp_path, session)
    from_both = files.load()
    files.snapshot.unlink()
    from_journal = files.load()
    assert from_both.state == from_journal.state
    assert from_both.events == from_journal.events
    assert from_both.journal_bytes == from_journal.journal_bytes == files.journal.stat().st_size
    assert len(from_both.state.messages) == 8
    assert agent.sessions() == [session]


def test_the_journal_holds_one_line_per_event_that_is_no_delta(tmp_path: Path) -> None:
    script = [Reply("Adding.", calls=[Call("add", a=1, b=2)]), Reply("Three.")]
    agent = Agent(OfflineModel(script), tools=[add], folder=tmp_path)
    session = agent.session()
    seen: list[AnyEvent] = []

    async def main() -> None:
        run = session.start("Go.")
        await run
        seen.extend(run.events)

    asyncio.run(main())
    lines = (tmp_path / f"{session.id}.jsonl").read_text("utf-8").splitlines()
    header, *events = map(json.loads, lines)
    assert header["format"] == "agentloop_nb.journal"
    assert [e["seq"] for e in events] == [e.seq for e in seen if not isinstance(e, Delta)]


def test_the_run_says_once_where_it_is_saved(tmp_path: Path) -> None:
    agent = Agent(OfflineModel(["Hello."]), folder=tmp_path)

    async def main() -> None:
        run = agent.start("Go.")
        await run
        (event,) = [e for e in run.events if isinstance(e, SnapshotEvent)]
        assert Path(event.file).is_file()

    asyncio.run(main())


def test_a_line_cut_by_a_crash_is_dropped_and_taken_off_by_the_next_write(tmp_path: Path) -> None:
    _, session = saved(tmp_path)
    files = SessionFiles(tmp_path, session)
    files.snapshot.unlink()
    whole = files.journal.read_bytes()
    before = files.load()
    for cut in range(1, 60):
        files.journal.write_bytes(whole + whole[-60:-cut])
        assert files.load().state == before.state
    files.append([])
    assert files.journal.read_bytes().startswith(whole)
    assert files.load().state == before.state


def test_a_journal_cut_at_any_byte_still_loads(tmp_path: Path) -> None:
    _, session = saved(tmp_path)
    files = SessionFiles(tmp_path, session)
    files.snapshot.unlink()
    whole = files.journal.read_bytes()
    runs = 0
    for cut in range(0, len(whole), 7):
        files.journal.write_bytes(whole[:cut])
        runs += files.load().state.runs
    assert runs > 0


def test_a_journal_shorter_than_its_snapshot_says_is_no_reason_to_lose_either(
    tmp_path: Path,
) -> None:
    agent, session = saved(tmp_path)
    files = SessionFiles(tmp_path, session)
    whole, snapshot = files.journal.read_bytes(), files.snapshot.read_bytes()
    for left in (b"", bytes(100), b"".join(whole.splitlines(True)[:3])):
        files.journal.write_bytes(left)
        with pytest.raises(StoredDataError, match=r"Move .* away"):
            agent.session(session)
        assert files.snapshot.read_bytes() == snapshot
    files.journal.unlink()
    assert len(agent.session(session).messages) == 4
    assert agent.session(session).run_sync("More.").messages[:4] == files.load().state.messages[:4]


@pytest.mark.parametrize("text", ["not json", "[]", '{"format": "other"}', ""], ids=repr)
def test_a_snapshot_that_is_not_ours_says_what_to_do(tmp_path: Path, text: str) -> None:
    agent, session = saved(tmp_path)
    snapshot = tmp_path / f"{session}.json"
    snapshot.write_text(text)
    with pytest.raises(StoredDataError, match=r"move .* away") as caught:
        agent.resume(session)
    assert str(snapshot) in str(caught.value)
    snapshot.unlink()
    assert len(agent.session(session).messages) == 4


def test_a_damaged_snapshot_names_the_place(tmp_path: Path) -> None:
    agent, session = saved(tmp_path)
    snapshot = tmp_path / f"{session}.json"
    data = json.loads(snapshot.read_text())
    data["state"]["messages"][0]["role"] = "king"
    snapshot.write_text(json.dumps(data))
    with pytest.raises(StoredDataError, match=r"messages\.0\.role"):
        agent.session(session)


def test_a_newer_format_is_refused_by_its_number(tmp_path: Path) -> None:
    agent, session = saved(tmp_path)
    snapshot = tmp_path / f"{session}.json"
    snapshot.write_text(json.dumps({**json.loads(snapshot.read_text()), "version": 99}))
    with pytest.raises(StoredDataError, match="99"):
        agent.session(session)


def test_a_broken_line_in_the_middle_names_its_byte_and_loses_nothing(tmp_path: Path) -> None:
    agent, session = saved(tmp_path)
    (tmp_path / f"{session}.json").unlink()
    journal = tmp_path / f"{session}.jsonl"
    lines = journal.read_bytes().splitlines(True)
    place = len(b"".join(lines[:2]))
    broken = b"".join([*lines[:2], b"{oops\n", *lines[2:]])
    journal.write_bytes(broken)
    with pytest.raises(StoredDataError, match=f"byte {place}"):
        agent.session(session)
    assert journal.read_bytes() == broken


def test_a_folder_that_cannot_be_written_warns_once_and_the_run_goes_on(tmp_path: Path) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_text("a file where the folder should be")
    agent = Agent(
        OfflineModel([Reply(calls=[Call("add", a=1, b=2)]), "Three."]), tools=[add], folder=blocked
    )

    async def main() -> None:
        run = agent.start("Go.")
        result = await run
        assert result.exit_reason == "end_turn"
        (warning,) = [e for e in run.events if isinstance(e, WarningEvent)]
        assert "not being saved" in warning.message

    asyncio.run(main())


def test_a_replace_that_fails_twice_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = iter([PermissionError("held by a scanner"), PermissionError("still held")])
    replace = Path.replace

    def flaky(self: Path, target: Path) -> Path:
        for failure in failures:
            raise failure
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", flaky)
    _, session = saved(tmp_path)
    monkeypatch.undo()
    assert SessionFiles(tmp_path, session).load().state.run is not None
    assert not list(tmp_path.glob("*.tmp"))


def test_a_flush_that_fails_once_writes_no_line_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = iter([OSError("no space left")])
    flush = os.fsync

    def flaky(descriptor: int) -> None:
        for failure in failures:
            raise failure
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", flaky)
    _, session = saved(tmp_path)
    lines = (tmp_path / f"{session}.jsonl").read_text("utf-8").splitlines()
    numbers = [json.loads(line).get("seq") for line in lines[1:]]
    assert numbers == sorted(set(numbers))
    assert numbers[0] == 0


def test_a_snapshot_that_can_never_be_replaced_leaves_the_old_one_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, session = saved(tmp_path)
    old = (tmp_path / f"{session}.json").read_bytes()

    def refuse(self: Path, target: Path) -> Path:
        raise PermissionError("never")

    monkeypatch.setattr(Path, "replace", refuse)
    result = agent.session(session).run_sync("More.")
    assert result.exit_reason == "end_turn"
    assert (tmp_path / f"{session}.json").read_bytes() == old
    assert not list(tmp_path.glob("*.tmp"))


def test_a_session_that_is_live_in_another_process_is_busy(tmp_path: Path) -> None:
    agent, session = saved(tmp_path)
    code = (
        "import sys; from pathlib import Path; from agentloop_nb.snapshot import SessionFiles\n"
        f"files = SessionFiles(Path({str(tmp_path)!r}), {session!r}); files.claim()\n"
        "print('held', flush=True); sys.stdin.read()"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(SessionBusy, match="another kernel"):
            agent.session(session).run_sync("More.")
        other.kill()
    assert agent.session(session).run_sync("More.").exit_reason == "end_turn"


def test_manual_writes_only_when_asked(tmp_path: Path) -> None:
    agent = Agent(OfflineModel(["Hello.", "Again."]), folder=tmp_path, snapshots="manual")

    async def main() -> None:
        run = agent.start("Go.")
        await run
        assert session_ids(tmp_path) == []
        path = Path(run.snapshot())
        assert path.is_file()
        assert SessionFiles(tmp_path, run.session_id).load().state.messages == run.session.messages

    asyncio.run(main())


def test_no_key_of_a_client_reaches_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-SECRET")
    _, session = saved(tmp_path)
    for path in tmp_path.iterdir():
        assert b"SECRET" not in path.read_bytes()
    assert session


@pytest.mark.parametrize("session_id", ["../evil", "a/b", "", "x" * 65, "no such"])
def test_a_session_id_cannot_leave_its_folder(tmp_path: Path, session_id: str) -> None:
    agent = Agent("offline:echo", folder=tmp_path)
    with pytest.raises(UsageError):
        agent.session(session_id)
