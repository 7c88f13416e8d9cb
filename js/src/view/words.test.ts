import { describe, expect, it } from "vitest";
import { foldAll, initial } from "../reduce";
import { asking, event, runStart, says, thinks } from "../testing";
import { remaining } from "./clock";
import { clock, count, duration, firstLine, shortPath, status, visible } from "./words";

describe("numbers", () => {
  it.each([
    [0, "0:00"],
    [42.9, "0:42"],
    [107, "1:47"],
    [3723, "1:02:03"],
    [-5, "0:00"],
  ])("a clock shows %f s as %s", (seconds, text) => expect(clock(seconds)).toBe(text));

  it.each([
    [0.003, "3 ms"],
    [0.12, "0.1 s"],
    [9.96, "10.0 s"],
    [12.4, "12 s"],
    [65, "1:05"],
  ])("a duration of %f s is %s", (seconds, text) => expect(duration(seconds)).toBe(text));

  it.each([
    [999, "999"],
    [1100, "1.1k"],
    [123_456, "123k"],
    [2_500_000, "2.5M"],
  ])("%i tokens are %s", (tokens, text) => expect(count(tokens)).toBe(text));

  it("time left is rounded up and never below nothing", () => {
    expect(remaining(10, 120, 10)).toBe(120);
    expect(remaining(10, 120, 22.5)).toBe(108);
    expect(remaining(10, 120, 129.9)).toBe(1);
    expect(remaining(10, 120, 500)).toBe(0);
  });
});

describe("text of others", () => {
  it("is shown with what cannot be seen", () => {
    expect(visible("a\u202eb\u200bc\u2028d\u001b[2K\n\te")).toBe(
      "a\\u202eb\\u200bc\\u2028d\\u001b[2K\n\te",
    );
  });

  it("is cut to its first line that says something", () => {
    expect(firstLine("\n\n  one\ntwo")).toBe("  one");
    expect(firstLine("x".repeat(500))).toHaveLength(201);
  });
});

describe("the status", () => {
  const start = event({ type: "round_start", attempt: 0 });
  const run = (id: string) => event({ type: "tool_running", id, name: "look" });
  const call = event({
    type: "tool_use_delta",
    id: "c0.0",
    name: "look",
    text: "{",
    attempt: 0,
    block: 3,
    upto: null,
  });

  it.each([
    ["Waiting for the model", [runStart(), start]],
    ["Thinking", [runStart(), start, thinks("a")]],
    ["Writing", [runStart(), start, thinks("a"), says("b")]],
    ["Writing a call of look", [runStart(), start, says("b"), call]],
    ["Running look", [runStart(), start, run("c0.0")]],
    ["Running 2 tools", [runStart(), start, run("c0.0"), run("c0.1")]],
    ["Waiting for you", asking(["a"], null)],
  ])("says %s", (text, events) => {
    const turn = foldAll(initial(), events).turns[0];
    expect(status(turn, "live", false, null).text).toBe(text);
  });
});

it.each([
  ["/srv/notes/nb.agentloop/s.json", "nb.agentloop/s.json"],
  ["C:\\work\\nb.agentloop\\s.json", "nb.agentloop/s.json"],
  ["s.json", "s.json"],
])("the path %s is short", (path, short) => expect(shortPath(path)).toBe(short));
