import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { answerKey, SAY, STOP, Store } from "./store";
import { asking, done, event, frames, runStart, StandIn, says } from "./testing";

let model: StandIn;
let store: Store;

beforeEach(() => {
  vi.useFakeTimers();
  model = new StandIn();
  store = new Store(model);
  store.open();
});

afterEach(() => {
  store.close();
  vi.useRealTimers();
});

describe("views", () => {
  it("hear of any number of changes once a frame", async () => {
    const view = vi.fn();
    store.subscribe(view);
    await frames();
    view.mockClear();
    model.show([runStart()]);
    for (let n = 1; n < 500; n++) {
      model.batch(n, n, [says("x")]);
    }
    expect(view).not.toHaveBeenCalled();
    await frames(20);
    expect(view).toHaveBeenCalledTimes(1);
    await frames(1000);
    expect(view).toHaveBeenCalledTimes(1);
  });

  it("that have left hear nothing", async () => {
    const view = vi.fn();
    store.subscribe(view)();
    model.show([runStart()]);
    await frames();
    expect(view).not.toHaveBeenCalled();
  });
});

describe("what a page missed", () => {
  const long = says("word ".repeat(2000));

  it("is shown at once, and not played", async () => {
    model.show([runStart(), long]);
    await frames(20);
    expect(JSON.stringify(store.shown.state)).toContain(`"${"word ".repeat(2000)}"`);
  });

  it("is told from what comes while it is there", async () => {
    model.show([runStart()]);
    model.batch(1, 1, [long]);
    await frames(20);
    expect(JSON.stringify(store.shown.state)).not.toContain("word ".repeat(2000));
    await frames(1000);
    expect(JSON.stringify(store.shown.state)).toContain("word ".repeat(2000));
  });
});

describe("the clock", () => {
  it("counts on from what the kernel said, and is set right by each word of it", () => {
    model.show([runStart()], 10);
    vi.advanceTimersByTime(1500);
    expect(store.now()).toBeCloseTo(11.5);
    model.tick(0, 20);
    expect(store.now()).toBeCloseTo(20);
  });

  it("stands still while the kernel does not answer", () => {
    model.show([runStart()], 10);
    vi.advanceTimersByTime(12_000);
    expect(store.shown.connection).toBe("lost");
    const stopped = store.now();
    vi.advanceTimersByTime(60_000);
    expect(store.now()).toBe(stopped);
    model.welcome(0);
    model.tick(0, 90);
    expect(store.now()).toBeCloseTo(90);
  });
});

describe("answers", () => {
  it("go out once, however often the button is clicked", () => {
    model.show(asking(["a", "b"]));
    const yes = { call_id: "c0.0", approved: true, reason: "" };
    store.answer("s1.0", "q5", [yes]);
    store.answer("s1.0", "q5", [yes]);
    store.answer("s1.0", "q5", [{ ...yes, approved: false }]);
    expect(model.all("answer")).toHaveLength(1);
    expect(model.all("answer")[0]).toMatchObject({
      client: model.client,
      run_id: "s1.0",
      question: "q5",
      decisions: [yes],
    });
  });

  it("for all leave out what is decided already", () => {
    model.show(asking(["a", "b"]));
    const yes = (call_id: string) => ({ call_id, approved: true, reason: "" });
    store.answer("s1.0", "q5", [{ ...yes("c0.0"), approved: false }]);
    store.answer("s1.0", "q5", [yes("c0.0"), yes("c0.1")]);
    expect(model.all("answer")[1]?.decisions).toEqual([yes("c0.1")]);
  });

  it("that had no effect may be tried again, and say why", () => {
    model.show(asking(["a"]));
    const yes = { call_id: "c0.0", approved: true, reason: "" };
    store.answer("s1.0", "q5", [yes]);
    model.reply(model.all("answer")[0], false, "This question is closed.");
    expect(store.shown.commands[answerKey("s1.0", "c0.0")]).toEqual({
      status: "failed",
      why: "This question is closed.",
      about: "q5",
      text: "",
    });
    store.answer("s1.0", "q5", [yes]);
    expect(model.all("answer")).toHaveLength(2);
  });

  it("to one question leave the same call free when it is asked about again", () => {
    model.show(asking(["a"]));
    const yes = { call_id: "c0.0", approved: true, reason: "" };
    store.answer("s1.0", "q5", [yes]); // of the kernel before: nobody ever replies
    store.answer("s1.0", "q9", [yes]);
    expect(model.all("answer").map((answer) => answer.question)).toEqual(["q5", "q9"]);
  });
});

describe("controls", () => {
  it("send one Stop", () => {
    model.show([runStart()]);
    store.stop();
    store.stop();
    model.reply(model.all("stop")[0], true);
    store.stop();
    expect(model.all("stop")).toHaveLength(1);
  });

  it("begin anew with each turn", () => {
    model.show([runStart()]);
    store.stop();
    model.reply(model.all("stop")[0], true);
    model.batch(1, 2, [done("Stopped by you in round 0", "user_cancel"), runStart("Next")]);
    expect(store.shown.commands[STOP]).toBeUndefined();
    expect(store.live()).toBe(true);
    store.stop();
    expect(model.all("stop")).toHaveLength(2);
  });

  it("forget what was said once it stands in the view", () => {
    model.show([runStart()]);
    store.say("look in src");
    store.say("twice");
    expect(model.all("say").map((say) => say.text)).toEqual(["look in src"]);
    model.reply(model.all("say")[0], true);
    expect(store.shown.commands[SAY]?.status).toBe("taken");
    model.batch(1, 1, [event({ type: "say", text: "look in src" })]);
    expect(store.shown.commands[SAY]).toBeUndefined();
  });

  it("say nothing that is empty", () => {
    model.show([runStart()]);
    store.say(" \n");
    expect(model.all("say")).toHaveLength(0);
  });
});

describe("another kernel", () => {
  it("makes the store forget all it held of the one before", () => {
    model.show([runStart(), says("old")]);
    store.stop();
    model.welcome(0, { epoch: "e2" });
    expect(store.shown.state.turns).toEqual([]);
    expect(store.shown.commands).toEqual({});
  });
});
