"""The build hook, what gets shipped, the command line, and the player of `demo --check`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import hatch_build
from agentloop_nb import cli, demo_check
from agentloop_nb.codec import page_json
from agentloop_nb.events import (
    AnswerEvent,
    AnyEvent,
    Done,
    QuestionEvent,
    RoundStart,
    RunStart,
    TextDelta,
    ToolResultEvent,
    ToolRunning,
    ToolUseStart,
)
from agentloop_nb.messages import Outcome, Usage
from agentloop_nb.notebook import assets
from agentloop_nb.questions import Approval, ApprovalItem, Decision

ROOT = Path(__file__).parent.parent


# The build hook ----------------------------------------------------------------------------------


@pytest.fixture
def front_end(tmp_path: Path) -> Path:
    """A copy of the front end's sources, without its packages."""
    js = tmp_path / "js"
    shutil.copytree(ROOT / "js", js, ignore=shutil.ignore_patterns("node_modules"))
    return js


def built_from(js: Path, static: Path) -> None:
    static.mkdir()
    for name in hatch_build.BUILT:
        (static / name).write_text("built", encoding="utf-8")
    (static / hatch_build.HASH_FILE).write_text(hatch_build.source_hash(js), encoding="utf-8")


def no_node() -> Any:
    raise AssertionError("Node was asked for")


def test_nothing_is_built_where_the_sources_have_not_changed(
    front_end: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hatch_build, "node_commands", no_node)
    built_from(front_end, tmp_path / "static")
    assert hatch_build.build_front_end(front_end, tmp_path / "static") is False


@pytest.mark.parametrize("edited", ["src/index.ts", "build.mjs", "package-lock.json"])
def test_an_edit_of_a_source_makes_the_built_files_stale(
    front_end: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, edited: str
) -> None:
    monkeypatch.setattr(hatch_build, "node_commands", no_node)
    built_from(front_end, tmp_path / "static")
    (front_end / edited).write_text("edited", encoding="utf-8")
    with pytest.raises(AssertionError, match="Node was asked for"):
        hatch_build.build_front_end(front_end, tmp_path / "static")


def test_an_edit_of_a_test_rebuilds_nothing(front_end: Path) -> None:
    before = hatch_build.source_hash(front_end)
    (front_end / "src" / "another.test.ts").write_text("edited", encoding="utf-8")
    assert hatch_build.source_hash(front_end) == before


@pytest.mark.parametrize("name", [*hatch_build.BUILT, hatch_build.HASH_FILE])
def test_a_missing_built_file_is_noticed(front_end: Path, tmp_path: Path, name: str) -> None:
    built_from(front_end, tmp_path / "static")
    (tmp_path / "static" / name).unlink()
    assert hatch_build.built_hash(tmp_path / "static") is None


def test_a_failed_command_is_named_with_what_it_said(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import sys; sys.exit('no such bundle')"]
    with pytest.raises(RuntimeError) as failed:
        hatch_build.run(command, tmp_path, dict(os.environ))
    assert "no such bundle" in str(failed.value)
    assert sys.executable in str(failed.value)
    assert str(tmp_path) in str(failed.value)


def test_npms_children_find_node_though_none_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    node, _, env = hatch_build.node_commands()
    found = shutil.which("node", path=env["PATH"])
    assert found is not None
    assert Path(found).samefile(node[0])


# What gets shipped -------------------------------------------------------------------------------


def test_the_lock_names_no_host_and_serves_every_platform() -> None:
    text = (ROOT / "js" / "package-lock.json").read_text(encoding="utf-8")
    packages = json.loads(text)["packages"]
    assert "resolved" not in text
    for platform in ("linux-x64", "linux-arm64", "darwin-arm64", "darwin-x64", "win32-x64"):
        assert packages[f"node_modules/@esbuild/{platform}"]["integrity"].startswith("sha512-")


def test_every_source_of_the_front_end_makes_uv_build_again() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    keys = [key["file"] for key in project["tool"]["uv"]["cache-keys"]]
    watched = {path for key in keys for path in ROOT.glob(key)}
    inputs = {ROOT / "js" / name for name in hatch_build.INPUTS}
    sources = {path for path in (ROOT / "js" / "src").rglob("*") if path.is_file()}
    assert inputs | sources | {ROOT / "pyproject.toml", ROOT / "hatch_build.py"} <= watched


def test_a_missing_widget_file_says_how_to_build_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assets, "STATIC", tmp_path)
    for ask in (assets.widget_js, assets.widget_css):
        with pytest.raises(FileNotFoundError, match="uv sync --reinstall-package agentloop-nb"):
            ask()


def test_the_widgets_files_are_there() -> None:
    assert assets.widget_js().stat().st_size > 0
    assert assets.widget_css().stat().st_size > 0


# The command line --------------------------------------------------------------------------------


def test_the_demo_copies_the_shipped_notebook(tmp_path: Path) -> None:
    copy = cli.copy_notebook(tmp_path / "new" / "folder")
    assert copy.read_bytes() == cli.shipped_notebook().read_bytes()


def test_the_demo_keeps_an_edited_copy_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / cli.NOTEBOOK).write_text("mine", encoding="utf-8")
    copy = cli.copy_notebook(tmp_path)
    assert copy.read_text(encoding="utf-8") == "mine"
    assert "Keeping your copy" in capsys.readouterr().out


def test_the_demo_opens_this_environments_jupyterlab_on_the_copy(tmp_path: Path) -> None:
    notebook = tmp_path / cli.NOTEBOOK
    command = cli.lab_command(notebook, port=8123, browser=False)
    assert command[:3] == [sys.executable, "-m", "jupyterlab"]
    assert f"--ServerApp.root_dir={tmp_path}" in command
    address = f"--LabApp.default_url=/lab/tree/{cli.NOTEBOOK}"
    assert {"--no-browser", "--ServerApp.port=8123", address} <= set(command)
    assert "--no-browser" not in cli.lab_command(notebook, port=None, browser=True)


def test_the_demos_kernel_is_not_a_python_registered_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user's own kernel "python3" has none of this environment's packages."""
    elsewhere = tmp_path / "data" / "kernels" / "python3"
    elsewhere.mkdir(parents=True)
    spec = {"argv": ["/nowhere/python"], "display_name": "Elsewhere", "language": "python"}
    (elsewhere / "kernel.json").write_text(json.dumps(spec), encoding="utf-8")
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    found = subprocess.run(
        [sys.executable, "-m", "jupyter_client.kernelspecapp", "list", "--json"],
        env=cli.lab_environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    chosen = json.loads(found.stdout)["kernelspecs"]["python3"]
    assert Path(chosen["resource_dir"]).is_relative_to(sys.prefix)


def test_an_unknown_argument_is_refused_with_the_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main(["demo", "--chekc"])
    assert stopped.value.code == 2
    assert "unrecognized arguments: --chekc" in capsys.readouterr().err


def test_demo_check_runs_the_tool_in_a_real_kernel() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "agentloop_nb.cli", "demo", "--check"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for told in ("round 0", "asks: may this run?", "by person", "ended: end_turn", "is gone"):
        assert told in done.stdout


# The player of `demo --check` --------------------------------------------------------------------


def events(*, outcome: Outcome = "ok", exit_reason: str = "end_turn") -> list[dict[str, Any]]:
    """A run with one approved call, as the page gets it."""
    call, name = "c0.0", "delete_file"
    item = ApprovalItem(call, name, (("path", '"scratch/a.txt"'),), "fingerprint")
    bad = outcome != "ok"
    told: list[AnyEvent] = [
        RunStart(session_id="s", run_id="s.1", prompt="Tidy up", model="offline"),
        RoundStart(),
        TextDelta(text="I will "),
        TextDelta(text="delete it."),
        ToolUseStart(id=call, name=name, arguments={"path": "scratch/a.txt"}),
        QuestionEvent(question=Approval("q5", (item,), timeout_s=120)),
        AnswerEvent(id="q5", decisions=(Decision(call, True),), by="person", closed=True),
        ToolRunning(id=call, name=name),
        ToolResultEvent(id=call, name=name, content="gone", is_error=bad, outcome=outcome),
        Done(exit_reason=exit_reason, message="The end.", rounds=1, usage=Usage()),
    ]
    return [page_json(replace(event, seq=seq), whole=True) for seq, event in enumerate(told)]


def scratch_file(folder: Path) -> Path:
    path = folder / "scratch" / "a.txt"
    path.parent.mkdir()
    path.write_text("x", encoding="utf-8")
    return path


def batch(told: list[dict[str, Any]], *, epoch: str = "e") -> dict[str, Any]:
    first, last = told[0]["seq"], told[-1]["seq"]
    to = {"client": "client", "epoch": epoch, "from": first, "to": last}
    return {"type": "batch", **to, "now": 1.0, "events": told}


def opened_page(story: demo_check.Story) -> demo_check.Page:
    page = demo_check.Page(story, "client")
    list(page.take({"type": "welcome", "to": "client", "epoch": "e"}))
    return page


def test_the_player_approves_acknowledges_and_tells_the_story(tmp_path: Path) -> None:
    lines: list[str] = []
    target = scratch_file(tmp_path)
    story = demo_check.Story(tmp_path, lines.append)
    page = opened_page(story)
    told = events()
    sent = list(page.take(batch(told[:6])))
    assert [message["type"] for message in sent] == ["answer", "ack"]
    assert (sent[0]["question"], sent[0]["run_id"]) == ("q5", "s.1")
    assert sent[0]["decisions"] == [{"call_id": "c0.0", "approved": True, "reason": ""}]
    assert sent[1]["seq"] == 5
    target.unlink()
    list(page.take(batch(told[6:])))
    assert page.ended
    assert story.faults() == []
    assert "  says: I will delete it." in lines
    assert "ended: end_turn after 1 rounds" in lines


def test_the_check_fails_where_the_file_is_still_there(tmp_path: Path) -> None:
    scratch_file(tmp_path)
    story = demo_check.Story(tmp_path, lambda line: None)
    for event in events():
        story.take(event)
    assert any("Still there" in fault for fault in story.faults())


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"outcome": "unanswered"}, "No approved call ended well"),
        ({"exit_reason": "fatal_error"}, "instead of end_turn"),
    ],
)
def test_the_check_fails_where_the_run_did_not_go_well(
    tmp_path: Path, changed: dict[str, Any], fault: str
) -> None:
    target = scratch_file(tmp_path)
    story = demo_check.Story(tmp_path, lambda line: None)
    for event in events(**changed):
        story.take(event)
        if event["type"] == "tool_running":
            target.unlink()
    assert any(fault in told for told in story.faults())
    assert len(story.faults()) == 1


def test_the_player_asks_again_on_a_gap_and_on_another_kernel(tmp_path: Path) -> None:
    page = opened_page(demo_check.Story(tmp_path, lambda line: None))
    told = events()
    for wrong in (batch(told[2:4]), batch(told[:2], epoch="another")):
        (again,) = page.take(wrong)
        assert (again["type"], again["have"], again["epoch"]) == ("hello", -1, "e")
    assert [message["type"] for message in page.take(batch(told[:2]))] == ["ack"]
    assert page.have == 1


def test_the_player_leaves_messages_to_other_pages_alone(tmp_path: Path) -> None:
    page = opened_page(demo_check.Story(tmp_path, lambda line: None))
    assert list(page.take({**batch(events()), "client": "another"})) == []
    assert page.have == -1


def test_a_refused_command_fails_the_check(tmp_path: Path) -> None:
    page = opened_page(demo_check.Story(tmp_path, lambda line: None))
    with pytest.raises(ValueError, match="no such question"):
        list(page.take({"type": "reply", "to": "client", "ok": False, "why": "no such question"}))
