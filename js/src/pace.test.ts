import { expect, test } from "vitest";
import type { PageEvent } from "./events";
import { AT_ONCE, Pace } from "./pace";
import { done } from "./testing";

const at = { seq: 0, at: 0, t: 0, path: [], round: 0 };
const text = (words: string): PageEvent => ({
  ...at,
  type: "text_delta",
  text: words,
  attempt: 0,
  block: 0,
  upto: null,
});
const round: PageEvent = { ...at, type: "round_start", attempt: 0 };

const textOf = (events: PageEvent[]): string =>
  events.map((e) => (e.type === "text_delta" ? (e as { text: string }).text : "|")).join("");

function drain(pace: Pace): PageEvent[][] {
  const frames: PageEvent[][] = [];
  while (!pace.empty) {
    frames.push(pace.take());
  }
  return frames;
}

test("little text is shown in one frame", () => {
  const pace = new Pace();
  pace.push([round, text("a".repeat(AT_ONCE)), round]);
  expect(textOf(pace.take())).toBe(`|${"a".repeat(AT_ONCE)}`);
  pace.push([text("b")]);
  expect(textOf(pace.take())).toBe("|b");
  expect(pace.empty).toBe(true);
});

test("what waits when a person has stopped the run is shown at once", () => {
  const pace = new Pace();
  const many = "a".repeat(100 * AT_ONCE);
  pace.push([text(many), done()]);
  expect(pace.take().length).toBe(1);
  pace.push([done("Stopped", "user_cancel"), text("the next run")]);
  expect(pace.take().map((event) => event.type)).toEqual([
    "text_delta",
    "done",
    "done",
    "text_delta",
  ]);
  pace.push([text(many), round]);
  expect(textOf(pace.take())).not.toContain("|");
});

test("frames that take too long are given less, until they are quick again", () => {
  const pace = new Pace();
  let now = 0;
  const next = (ms: number): number => {
    now += ms;
    return textOf(pace.take(now)).length;
  };
  pace.push([text("a".repeat(1_000_000))]);
  const first = next(0);
  expect(next(500)).toBe(first / 2);
  expect(next(500)).toBe(first / 4);
  expect(next(16)).toBe(first / 2);
  for (let n = 0; n < 20; n += 1) {
    next(500);
  }
  expect(next(500)).toBe(AT_ONCE);
});

test("a page that was idle is not a slow one", () => {
  const pace = new Pace();
  pace.push([text("a")]);
  pace.take(0);
  pace.push([text("a".repeat(80_000))]);
  expect(textOf(pace.take(10_000))).toHaveLength(5_000);
});

test("much text flows over many frames, whole and in order", () => {
  const pace = new Pace();
  const words = Array.from({ length: 20_000 }, (_, i) => `w${i} `).join("");
  pace.push([text("before "), round, text(words), round, text("after")]);
  const frames = drain(pace);
  expect(frames.length).toBeGreaterThan(20);
  expect(textOf(frames.flat())).toBe(`before |${words}|after`);
});

test("160,000 characters flow over more than 50 frames, even if they come in one piece", () => {
  const pace = new Pace();
  pace.push([text("x".repeat(160_000))]);
  expect(drain(pace).length).toBe(63);
});

test("a steady stream is left fifteen frames behind, and one as fast as a model none", () => {
  for (const [chars, frames] of [
    [5000, 15],
    [AT_ONCE, 0],
  ] as const) {
    const pace = new Pace();
    let waiting = 0;
    for (let frame = 0; frame < 300; frame += 1) {
      pace.push([text("x".repeat(chars))]);
      waiting += chars - textOf(pace.take()).length;
    }
    expect(Math.round(waiting / chars)).toBe(frames);
  }
});

test("a pair of surrogates is never cut in two", () => {
  const pace = new Pace();
  const words = "\u{1f600}".repeat(5000);
  pace.push([text(`a${words}`)]);
  for (const frame of drain(pace)) {
    expect(textOf(frame)).not.toMatch(/\p{Surrogate}/u);
  }
});
