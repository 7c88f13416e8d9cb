import { describe, expect, it } from "vitest";
import { foldAll, initial } from "./reduce";
import { event, fixture, fixtures, runStart, says } from "./testing";

describe("the fold", () => {
  it("finds the fixtures that its twin in Python is held to", () => {
    expect(fixtures.length).toBeGreaterThan(15);
  });

  it.each(fixtures)("gives the state of the fixture %s, from one batch", (_, { events, state }) => {
    expect(foldAll(initial(), events)).toEqual(state);
  });

  it.each(fixtures)("gives the state of the fixture %s, event by event", (_, { events, state }) => {
    const folded = events.reduce((before, each) => foldAll(before, [each]), initial());
    expect(folded).toEqual(state);
  });

  it.each(fixtures)("leaves events and earlier states of %s as they were", (name, { events }) => {
    let state = initial();
    for (const each of events) {
      const before = structuredClone(state);
      const next = foldAll(state, [each]);
      expect(state).toEqual(before);
      state = next;
    }
    expect(events).toEqual(fixture(name).events);
  });

  it("keeps the identity of all that a delta does not touch", () => {
    const before = foldAll(initial(), [
      ...fixture("follow_up").events,
      event({ type: "round_start", round: 1, attempt: 0 }),
      says("a"),
    ]);
    const after = foldAll(before, [{ ...says("b"), round: 0 }]);
    expect(after.turns[0]).toBe(before.turns[0]);
    expect(after.turns[1]?.rounds[0]).toBe(before.turns[1]?.rounds[0]);
    expect(after.turns[1]).not.toBe(before.turns[1]);
  });

  it("adds a delta without a new object for each of a batch", () => {
    const many = Array.from({ length: 1000 }, (_, index) => says(`${index} `));
    const state = foldAll(initial(), [runStart(), ...many]);
    const item = state.turns[0]?.rounds[0]?.items[0];
    expect(state.turns[0]?.rounds[0]?.items).toHaveLength(1);
    expect(item?.kind === "text" && item.text.endsWith("998 999 ")).toBe(true);
  });
});
