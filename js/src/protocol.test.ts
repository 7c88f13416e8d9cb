import { expect, it } from "vitest";
import { read, whole } from "./protocol";
import { done, says, thinks } from "./testing";

const batch = (events: unknown): unknown => ["c", "e", 0, 1, 0.5, events];

it("names what a row holds", () => {
  expect(read(batch([done(), [1, "a"]]))).toEqual({
    type: "batch",
    client: "c",
    epoch: "e",
    from: 0,
    to: 1,
    now: 0.5,
    events: [done(), [1, "a"]],
  });
});

it("takes no message that is none of the kernel's", () => {
  const batches = [[null], [{ type: 1 }], [[1]], [["a", 1]], {}].map(batch);
  for (const content of [
    null,
    1,
    {},
    { type: "toString" },
    [],
    ["c", "e", 0, 1, 0.5],
    ...batches,
  ]) {
    expect(read(content)).toBeNull();
  }
});

it("makes an event of a pair, with what the one before it has", () => {
  expect(whole([[1, "b"], thinks("c"), [2, "d"]], says("a"))).toEqual([
    { ...says("b"), t: 1 },
    thinks("c"),
    { ...thinks("d"), t: 2 },
  ]);
  expect(whole([done(), [1, "b"]], says("a"))).toBeNull();
  expect(whole([[1, "b"]], null)).toBeNull();
});
