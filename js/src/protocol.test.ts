import { expect, it } from "vitest";
import { read } from "./protocol";

const batch = (events: unknown[]) => ({
  type: "batch",
  client: "c",
  epoch: "e",
  from: 0,
  to: 0,
  now: 0,
  events,
});

it("makes a delta whole that left out what mostly has one value", () => {
  const delta = { type: "text_delta", text: "a", t: 1, round: 2, block: 3 };
  const other = { type: "round_start", round: 2 };
  expect(read(batch([delta, other]))).toMatchObject({
    events: [{ ...delta, attempt: 0, path: [], upto: null }, other],
  });
});

it("takes no message that is none of the kernel's", () => {
  for (const content of [null, 1, {}, { type: "toString" }, batch([null]), batch([{ type: 1 }])]) {
    expect(read(content)).toBeNull();
  }
});
