import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { ACK_PAUSE_MS, Channel, type Connection, GIVE_UP_MS, type Listener } from "./channel";
import type { PageEvent } from "./events";
import { done, StandIn, says } from "./testing";

class Ears implements Listener {
  readonly texts: string[] = [];
  readonly connections: Connection[] = [];
  readonly replies: [string, boolean, string][] = [];
  resets = 0;
  nows: number[] = [];
  going = true;

  reset(): void {
    this.resets += 1;
    this.texts.length = 0;
  }

  apply(events: readonly PageEvent[], now: number): void {
    this.texts.push(...events.map((event) => ("text" in event ? String(event.text) : event.type)));
    this.nows.push(now);
  }

  tick(now: number): void {
    this.nows.push(now);
  }

  connected(connection: Connection): void {
    this.connections.push(connection);
  }

  replied(id: string, ok: boolean, why: string): void {
    this.replies.push([id, ok, why]);
  }

  live(): boolean {
    return this.going;
  }
}

let model: StandIn;
let ears: Ears;
let channel: Channel;

beforeEach(() => {
  vi.useFakeTimers();
  model = new StandIn();
  ears = new Ears();
  channel = new Channel(model, ears);
  channel.open();
});

afterEach(() => {
  channel.close();
  vi.useRealTimers();
});

const wait = (ms: number) => vi.advanceTimersByTime(ms);
const hellos = () => model.all("hello");
const acks = () => model.all("ack").map((ack) => ack.seq);

// The kernel is there and says so each second, as it does while a run is live.
function ticking(seconds: number, last: number): void {
  for (let second = 0; second < seconds; second++) {
    wait(1000);
    model.tick(last, second);
  }
}

describe("batches", () => {
  it("begin with a hello that has nothing", () => {
    expect(hellos()).toEqual([
      { type: "hello", v: 1, client: model.client, epoch: null, have: -1 },
    ]);
    expect(model.client).toMatch(/^[0-9a-f]{6}$/);
  });

  it("are applied in order and acknowledged", () => {
    model.welcome(4);
    model.batch(0, 2, [says("a"), says("b"), says("c")]);
    model.batch(3, 4, [says("d")]);
    expect(ears.texts).toEqual(["a", "b", "c", "d"]);
    expect(acks()).toEqual([2]);
    wait(ACK_PAUSE_MS);
    expect(acks()).toEqual([2, 4]);
    expect(ears.connections).toEqual(["live"]);
  });

  it("of a stream are acknowledged once a second, one with more in it at once", () => {
    model.welcome(99);
    for (let n = 0; n < 40; n++) {
      model.batch(n, n, [says("word")]);
      wait(50);
    }
    expect(acks().length).toBeLessThanOrEqual(3);
    expect(acks().at(-1)).toBeGreaterThanOrEqual(20);
    model.batch(40, 40, [says("a".repeat(20_000))]);
    expect(acks().at(-1)).toBe(40);
    model.batch(41, 41, [done()]);
    expect(acks().at(-1)).toBe(41);
    const count = acks().length;
    wait(1000);
    expect(acks().length).toBe(count);
  });

  it("that come twice are applied once and acknowledged again", () => {
    model.welcome(0);
    model.batch(0, 0, [says("a")]);
    model.batch(0, 0, [says("a")]);
    wait(ACK_PAUSE_MS);
    expect(ears.texts).toEqual(["a"]);
    expect(acks()).toEqual([0, 0]);
  });

  it("may hold pairs, which go on with the event before them", () => {
    model.welcome(9);
    model.batch(0, 1, [says("a"), [1, "b"]]);
    model.batch(2, 4, [[2, "c"], done()]);
    expect(ears.texts).toEqual(["a", "b", "c", "done"]);
    wait(600);
    model.batch(5, 5, [[3, "of nothing"]]);
    expect(ears.texts).toHaveLength(4);
    expect(hellos().at(-1)).toMatchObject({ have: 4 });
  });

  it("after a gap are left out, and the page says what it has", () => {
    model.welcome(9);
    model.batch(0, 1, [says("a")]);
    wait(600);
    model.batch(4, 5, [says("c")]);
    expect(ears.texts).toEqual(["a"]);
    expect(acks()).toEqual([1]);
    expect(hellos().at(-1)).toMatchObject({ epoch: "e1", have: 1 });
    model.batch(2, 5, [says("b"), says("c")]);
    expect(ears.texts).toEqual(["a", "b", "c"]);
  });

  it("that overlap what is there are left out too", () => {
    model.welcome(5);
    model.batch(0, 2, [says("abc")]);
    wait(600);
    model.batch(1, 4, [says("bcde")]);
    expect(ears.texts).toEqual(["abc"]);
    expect(hellos().at(-1)).toMatchObject({ have: 2 });
  });

  it("for another page are not for us", () => {
    model.welcome(1);
    model.batch(0, 0, [says("a")], { client: "other" });
    expect(ears.texts).toEqual([]);
    expect(acks()).toEqual([]);
  });

  it("of another kernel are left out until it welcomes us anew", () => {
    model.welcome(1);
    model.batch(0, 0, [says("old")]);
    wait(600);
    model.batch(0, 0, [says("new")], { epoch: "e2" });
    expect(ears.texts).toEqual(["old"]);
    expect(hellos().at(-1)).toMatchObject({ epoch: "e1", have: 0 });
    model.welcome(0, { epoch: "e2" });
    expect(ears.resets).toBe(2);
    model.batch(0, 0, [says("new")], { epoch: "e2" });
    expect(ears.texts).toEqual(["new"]);
  });

  it.each([null, 7, "batch", {}, { type: "batch" }, { type: "constructor" }, { type: "tick" }])(
    "that are nonsense do nothing: %j",
    (content) => {
      model.hear(content);
      model.batch(0, 0, ["x" as unknown as PageEvent]);
      expect(ears.texts).toEqual([]);
    },
  );
});

describe("hello", () => {
  it("is said at most once in half a second, and never forgotten", () => {
    model.welcome(9);
    wait(600);
    const before = hellos().length;
    for (let n = 0; n < 20; n++) {
      model.batch(5, 6, [says("x")]);
    }
    expect(hellos()).toHaveLength(before + 1);
    model.batch(5, 6, [says("x")]);
    wait(750);
    expect(hellos()).toHaveLength(before + 2);
  });

  it("is said when two of the kernel's beats are missing while a run goes on", () => {
    model.welcome(0);
    model.batch(0, 0, [says("a")]);
    const before = hellos().length;
    wait(2000);
    expect(hellos()).toHaveLength(before);
    wait(500);
    expect(hellos().length).toBeGreaterThan(before);
  });

  it("is not said for silence after the end", () => {
    model.welcome(0);
    model.batch(0, 0, [says("a")]);
    ears.going = false;
    const before = hellos().length;
    wait(60_000);
    expect(hellos()).toHaveLength(before);
    expect(ears.connections).toEqual(["live"]);
  });

  it("is said when ticks tell of events that did not come", () => {
    model.welcome(0);
    model.batch(0, 0, [says("a")]);
    ticking(5, 7);
    expect(hellos().at(-1)).toMatchObject({ have: 0 });
    expect(hellos().length).toBeGreaterThan(1);
    expect(ears.connections).toEqual(["live"]);
  });

  it("is not said while all is well", () => {
    model.welcome(0);
    model.batch(0, 0, [says("a")]);
    ticking(30, 0);
    expect(hellos()).toHaveLength(1);
  });

  it("that nobody answers twice means that the kernel is lost", () => {
    wait(4500);
    expect(ears.connections).toEqual([]);
    wait(1000);
    expect(ears.connections).toEqual(["lost"]);
    expect(hellos().length).toBeGreaterThanOrEqual(2);
  });

  it("answered once makes two more needed before the kernel is lost", () => {
    model.welcome(0);
    model.batch(0, 0, [says("a")]);
    wait(4500);
    expect(hellos()).toHaveLength(3);
    expect(ears.connections).toEqual(["live"]);
    wait(500);
    expect(ears.connections).toEqual(["live", "lost"]);
  });

  it("goes on being said to a lost kernel, which may come back", () => {
    wait(20_000);
    const before = hellos().length;
    wait(10_000);
    expect(hellos().length).toBeGreaterThan(before);
    expect(hellos().length).toBeLessThan(before + 4);
    model.welcome();
    expect(ears.connections).toEqual(["lost", "live"]);
  });

  it("answered in another version of the protocol ends it", () => {
    model.welcome(3, { v: 2 });
    model.batch(0, 3, [says("a")]);
    wait(20_000);
    expect(ears.texts).toEqual([]);
    expect(ears.connections).toEqual(["newer"]);
    expect(hellos()).toHaveLength(1);
  });

  it("whose answer was for another page is not answered", () => {
    model.welcome(0, { to: "other" });
    wait(6000);
    expect(ears.connections).toEqual(["lost"]);
  });
});

describe("a kernel of which the front end tells", () => {
  const front = { kernel: { status: "idle" } };

  beforeEach(() => {
    channel.close();
    front.kernel.status = "idle";
    model = Object.assign(new StandIn(), { widget_manager: front });
    channel = new Channel(model, ears);
    channel.open();
    model.welcome(0);
    model.batch(0, 0, [says("a")]);
  });

  it("is gone at once where it was restarted, and hears no command of before", () => {
    channel.command({ type: "stop" });
    front.kernel.status = "restarting";
    wait(250);
    front.kernel.status = "idle";
    expect(ears.connections).toEqual(["live", "gone"]);
    expect(ears.replies).toEqual([["m1", false, "The kernel ended before it heard this."]]);
    const before = model.all("stop").length;
    wait(30_000);
    expect(model.all("stop")).toHaveLength(before);
    expect(ears.connections).toEqual(["live", "gone"]);
  });

  it("is gone though the restart was over before the first beat", () => {
    const slots = new Set<() => void>();
    const kernel = {
      status: "idle",
      statusChanged: {
        connect: (slot: () => void) => slots.add(slot),
        disconnect: (slot: () => void) => slots.delete(slot),
      },
    };
    channel.close();
    model = Object.assign(new StandIn(), { widget_manager: { kernel } });
    channel = new Channel(model, ears);
    channel.open();
    model.welcome(0);
    for (const status of ["restarting", "idle"]) {
      kernel.status = status;
      for (const slot of slots) {
        slot();
      }
    }
    wait(250);
    expect(ears.connections.at(-1)).toBe("gone");
    channel.close();
    expect(slots.size).toBe(0);
  });

  it("is not gone where it speaks all the same", () => {
    front.kernel.status = "dead";
    wait(250);
    front.kernel.status = "idle";
    model.tick(0, 5); // these may be its last words
    expect(ears.connections).toEqual(["live", "gone"]);
    wait(6000);
    model.tick(0, 11);
    wait(500);
    expect(ears.connections).toEqual(["live", "gone", "live"]);
  });

  it("is busy and not lost where a cell keeps it from answering, however long", () => {
    front.kernel.status = "busy";
    channel.command({ type: "stop" });
    wait(120_000);
    expect(ears.connections).toEqual(["live", "busy"]);
    expect(ears.replies).toEqual([]);
    expect(model.all("stop").length).toBeGreaterThan(60); // still being said
    front.kernel.status = "idle";
    model.tick(0, 120);
    expect(ears.connections).toEqual(["live", "busy", "live"]);
  });
});

describe("a beat said past the run's loop", () => {
  it("tells that the kernel is there, and not what time it is", () => {
    model.welcome(0);
    model.batch(0, 0, [says("a")]);
    const nows = ears.nows.length;
    for (let second = 0; second < 40; second++) {
      wait(1000);
      model.tick(0, second, { held: true });
    }
    expect(ears.connections).toEqual(["live", "busy"]);
    expect(ears.nows).toHaveLength(nows);
    model.tick(0, 40);
    expect(ears.connections).toEqual(["live", "busy", "live"]);
  });
});

describe("commands", () => {
  it("are sent again under one id until they are replied to", () => {
    model.welcome(0);
    const id = channel.command({ type: "stop" });
    wait(3200);
    const sent = model.all("stop");
    expect(sent).toHaveLength(4);
    expect(new Set(sent.map((command) => command.id))).toEqual(new Set([id]));
    model.reply(sent[0], true);
    wait(10_000);
    expect(model.all("stop")).toHaveLength(4);
    expect(ears.replies).toEqual([[id, true, ""]]);
  });

  it("hear their reply once, however often it comes", () => {
    model.welcome(0);
    channel.command({ type: "stop" });
    model.reply(model.all("stop")[0], false, "The run has ended.");
    model.reply(model.all("stop")[0], false, "The run has ended.");
    expect(ears.replies).toHaveLength(1);
  });

  it("do not hear the reply to another page's", () => {
    model.welcome(0);
    const id = channel.command({ type: "stop" });
    model.hear({ type: "reply", to: "other", id, ok: true, why: "" });
    expect(ears.replies).toEqual([]);
  });

  it("are given up after half a minute, with a word", () => {
    model.welcome(0);
    const id = channel.command({ type: "say", text: "hi" });
    wait(GIVE_UP_MS + 500);
    expect(ears.replies).toEqual([[id, false, "The kernel did not answer in 30 seconds."]]);
    const sent = model.all("say").length;
    wait(5000);
    expect(model.all("say")).toHaveLength(sent);
  });

  it("to a kernel that is gone are not sent to the next one", () => {
    model.welcome(0);
    const id = channel.command({ type: "stop" });
    model.welcome(0, { epoch: "e2" });
    expect(ears.replies).toEqual([[id, false, "The kernel was restarted before it heard this."]]);
    wait(5000);
    expect(model.all("stop")).toHaveLength(1);
  });

  it("survive a model that cannot send", () => {
    model.welcome(0);
    const send = vi.spyOn(model, "send").mockImplementation(() => {
      throw new Error("the kernel is dead");
    });
    vi.spyOn(console, "debug").mockImplementation(() => {});
    channel.command({ type: "stop" });
    send.mockRestore();
    wait(1500);
    expect(model.all("stop")).toHaveLength(1);
  });
});

describe("closing", () => {
  it("leaves no listener and no timer", () => {
    channel.close();
    expect(model.handlers.size).toBe(0);
    expect(vi.getTimerCount()).toBe(0);
  });
});
