import "../testing-dom";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { ImageBlock, Outcome, PageEvent } from "../events";
import createWidget from "../index";
import {
  asking,
  done,
  event,
  fixture,
  fixtures,
  frames,
  runStart,
  StandIn,
  says,
  thinks,
} from "../testing";

let model: StandIn;
let dispose: (() => void)[];
let widget: ReturnType<typeof createWidget>;

// anywidget gives more than is used here; the types ask for all of it.
type Given = Parameters<typeof widget.initialize>[0] & Parameters<typeof widget.render>[0];
const given = (el: HTMLElement) => ({ model, el }) as unknown as Given;

beforeEach(() => {
  vi.useFakeTimers();
  model = new StandIn();
  widget = createWidget();
  dispose = [widget.initialize(given(document.body))];
});

afterEach(() => {
  for (const each of dispose.reverse()) {
    each();
  }
  vi.useRealTimers();
  document.body.replaceChildren();
});

function render(): HTMLElement {
  const el = document.createElement("div");
  document.body.append(el);
  const leave = widget.render(given(el));
  if (leave) {
    dispose.push(leave);
  }
  return el;
}

async function shown(events: readonly PageEvent[], now = 0): Promise<HTMLElement> {
  const el = render();
  model.show(events, now);
  await frames();
  return el;
}

function find<E extends HTMLElement = HTMLElement>(el: HTMLElement, selector: string): E {
  const found = el.querySelector<E>(selector);
  if (found === null) {
    throw new Error(`There is no ${selector} in ${el.innerHTML}`);
  }
  return found;
}

const words = (el: HTMLElement, selector: string) => find(el, selector).textContent?.trim();
const click = async (el: HTMLElement, selector: string) => {
  find(el, selector).click();
  await frames();
};
const submit = async (form: HTMLElement) => {
  form.dispatchEvent(new Event("submit", { bubbles: true, cancelable: true }));
  await frames();
};

describe("a view", () => {
  it.each(fixtures)("draws the fixture %s", async (_, { events }) => {
    const errors = vi.spyOn(console, "error");
    const el = await shown(events);
    expect(find(el, "[data-agentloop=view]").dataset.paints).toMatch(/^[1-9]/);
    expect(errors).not.toHaveBeenCalled();
  });

  it("shows prompt, text and end in words", async () => {
    const el = await shown(fixture("plain_answer").events);
    expect(words(el, "[data-part=prompt] .al-words")).toBe("Say hello");
    expect(words(el, "[data-part=text]")).toBe("Hello, world. Bye.");
    expect(words(el, "[data-part=end] strong")).toBe("Done in 1 round");
    expect(words(el, "[data-part=status]")).toBe("Done in 1 round");
    expect(find(el, "[data-part=end]").textContent).toContain("n.agentloop/s1.json");
    expect(el.querySelector("[data-action=stop]")).toBeNull();
  });

  it("paints once for a burst of batches", async () => {
    const el = await shown([runStart()]);
    const root = find(el, "[data-agentloop=view]");
    const before = Number(root.dataset.paints);
    for (let n = 1; n < 100; n++) {
      model.batch(n, n, [says("word ")]);
    }
    await frames(20);
    expect(Number(root.dataset.paints)).toBe(before + 1);
    expect(find(el, "[data-part=text]").textContent).toBe("word ".repeat(99));
  });

  it("folds thinking once text follows, and opens it at a click", async () => {
    const el = await shown([runStart(), thinks("Let me see.")]);
    expect(find(el, "[data-part=thinking]").hidden).toBe(false);
    model.batch(2, 2, [says("It is so.")]);
    await frames();
    expect(find(el, "[data-part=thinking]").hidden).toBe(true);
    await click(el, ".al-thinking button");
    expect(find(el, "[data-part=thinking]").hidden).toBe(false);
    expect(words(el, "[data-part=thinking]")).toBe("Let me see.");
  });

  it("shows what was said where the model saw it", async () => {
    const el = await shown(fixture("said_in_mid_run").events);
    const round = find(el, "[data-round='1']");
    expect(words(round, "[data-part=said] .al-words")).toBe("Look in src first");
  });

  it("names an event it does not know", async () => {
    const el = await shown(fixture("unknown_event").events);
    expect(find(el, "[data-part=note]").textContent).toContain("hologram");
  });

  it("folds the finished rounds of a long run to a line each", async () => {
    const rounds = Array.from({ length: 20 }, (_, round) => [
      event({ type: "round_start", attempt: 0, round }),
      { ...says(`part ${round}`), round },
    ]);
    rounds[3]?.push(event({ type: "error", message: "bad", round: 3 }));
    const el = await shown([runStart(), ...rounds.flat()]);
    expect(el.querySelectorAll("[data-round]")).toHaveLength(20);
    expect(el.querySelectorAll("[data-part=text]")).toHaveLength(6);
    expect(el.querySelectorAll("[data-mark]")).toHaveLength(20);
    expect(words(el, "[data-round='3']")).toBe("Round 3with a failure");
    await click(el, "[data-round='3'] button");
    expect(words(find(el, "[data-round='3']"), "[data-part=text]")).toBe("part 3");
  });

  it("announces a round, a question and the end once each", async () => {
    const el = render();
    const said: string[] = [];
    const region = find(el, "[aria-live=polite]");
    const note = () => {
      const text = region.textContent ?? "";
      if (text !== said.at(-1)) {
        said.push(text);
      }
    };
    const events = [...asking(["a"]), says("b"), says("c"), done()];
    model.welcome(events.length - 1);
    for (const [n, each] of events.entries()) {
      model.batch(n, n, [each]);
      await frames(20);
      note();
    }
    expect(said).toEqual([
      "",
      "Round 0 began.",
      "The agent asks whether it may run delete_file.",
      "Done in 1 round",
    ]);
  });
});

describe("several views", () => {
  it("of one model show the same and send one command", async () => {
    const [one, two] = [render(), render()];
    model.show(asking(["a"]));
    await frames();
    expect(words(two, "[data-part=prompt] .al-words")).toBe("Go");
    await click(one, "[data-action=approve]");
    await click(two, "[data-action=approve]");
    expect(model.all("answer")).toHaveLength(1);
    expect(model.all("hello")).toHaveLength(1);
  });

  it("leave no listener and no node behind, and the others go on", async () => {
    const [one, two] = [render(), render()];
    model.show(asking(["a"]));
    await frames();
    expect(model.handlers.size).toBe(1);
    dispose.splice(1, 1)[0]?.();
    expect(one.innerHTML).toBe("");
    await click(two, "[data-action=approve]");
    expect(model.all("answer")).toHaveLength(1);
    for (const each of dispose.reverse()) {
      each();
    }
    dispose = [];
    expect(two.innerHTML).toBe("");
    expect(model.handlers.size).toBe(0);
    await frames(1000);
    expect(vi.getTimerCount()).toBe(0);
  });

  it("of two models share nothing", async () => {
    const other = createWidget();
    const second = new StandIn();
    const el = document.createElement("div");
    const both = { model: second, el } as unknown as Given;
    dispose.push(other.initialize(both));
    const leave = other.render(both);
    model.show([runStart("first")]);
    second.show([runStart("second")]);
    await frames();
    expect(words(el, "[data-part=prompt] .al-words")).toBe("second");
    leave?.();
  });
});

describe("the approval dialog", () => {
  it("shows name, arguments and time left, inline at its call", async () => {
    const el = await shown(asking(["old.csv"]), 13);
    const dialog = find(el, "[data-call='c0.0'] + [data-part=approval]");
    expect(dialog.textContent).toContain("delete_file");
    expect(words(dialog, "tbody")).toBe("pathold.csv");
    expect(words(dialog, "[data-part=remaining]")).toBe("1:47");
    expect(find(dialog, "[data-part=remaining]").dataset.seconds).toBe("107");
    expect(words(el, "[data-part=status]")).toBe("Waiting for you \u00b7 1:47");
    expect(find(el, "[data-call='c0.0']").dataset.state).toBe("waiting");
  });

  it("counts down by the kernel's clock and stops at nothing", async () => {
    const el = await shown(asking(["a"], 5), 1);
    expect(words(el, "[data-part=remaining]")).toBe("0:04");
    for (let second = 2; second < 9; second++) {
      model.tick(4, second);
      await frames(1000);
    }
    expect(words(el, "[data-part=remaining]")).toBe("0:00");
  });

  it("without an end has no countdown", async () => {
    const el = await shown(asking(["a"], null));
    expect(el.querySelector("[data-part=remaining]")).toBeNull();
    expect(words(el, "[data-part=status]")).toBe("Waiting for you");
  });

  it("sends one approval for a double click", async () => {
    const el = await shown(asking(["a"]));
    find(el, "[data-action=approve]").click();
    find(el, "[data-action=approve]").click();
    await frames();
    expect(model.all("answer")).toHaveLength(1);
    expect(find<HTMLButtonElement>(el, "[data-action=approve]").disabled).toBe(true);
  });

  it("declines with a reason, typed and sent with Enter", async () => {
    const el = await shown(asking(["a"]));
    await click(el, "[data-action=decline]");
    expect(model.all("answer")).toHaveLength(0);
    const field = find<HTMLInputElement>(el, ".al-reason input");
    expect(document.activeElement).toBe(field);
    field.value = "I need it";
    await submit(find(el, ".al-reason"));
    expect(model.all("answer")[0]?.decisions).toEqual([
      { call_id: "c0.0", approved: false, reason: "I need it" },
    ]);
  });

  it("decides each of several calls by its own id, or all at once", async () => {
    const el = await shown(asking(["a", "b", "c"]));
    await click(el, "[data-item='c0.1'] [data-action=approve]");
    await click(el, "[data-action=approve-all]");
    const sent = model.all("answer").map((answer) => answer.decisions);
    expect(sent).toEqual([
      [{ call_id: "c0.1", approved: true, reason: "" }],
      [
        { call_id: "c0.0", approved: true, reason: "" },
        { call_id: "c0.2", approved: true, reason: "" },
      ],
    ]);
  });

  it("keeps the rest open when a part is decided", async () => {
    const el = await shown(fixture("half_answered").events);
    expect(el.querySelectorAll("[data-item]")).toHaveLength(1);
    expect(find(el, "[data-call='c0.1']").textContent).toContain(
      "You declined this. Reason: I still need it",
    );
  });

  it("takes no focus from someone who types", async () => {
    const el = await shown([runStart()]);
    const box = find<HTMLTextAreaElement>(el, "[data-part=say] textarea");
    box.focus();
    model.batch(1, 4, asking(["a"]).slice(1));
    await frames();
    expect(el.querySelector("[data-part=approval]")).not.toBeNull();
    expect(document.activeElement).toBe(box);
    box.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true }));
    await frames();
    expect(model.all("answer")).toHaveLength(0);
  });

  it("says why an answer had no effect", async () => {
    const el = await shown(asking(["a"]));
    await click(el, "[data-action=approve]");
    model.reply(model.all("answer")[0], false, "The run is being stopped.");
    await frames();
    expect(find(el, "[data-part=approval]").textContent).toContain("The run is being stopped.");
    expect(find<HTMLButtonElement>(el, "[data-action=approve]").disabled).toBe(false);
  });

  it("says at the call that a late click had no effect", async () => {
    const events = asking(["a"]);
    const el = await shown(events);
    await click(el, "[data-action=approve]");
    model.batch(events.length, events.length, [
      event({
        type: "answer",
        id: "q5",
        decisions: [{ call_id: "c0.0", approved: false, reason: "" }],
        by: "timeout",
        closed: true,
      }),
    ]);
    model.reply(model.all("answer")[0], false, "The time to answer was over.");
    await frames();
    const call = find(el, "[data-call='c0.0']");
    expect(call.dataset.state).toBe("unanswered");
    expect(call.textContent).toContain("Nobody answered in time");
    expect(call.textContent).toContain("The time to answer was over.");
    expect(call.textContent).not.toContain("declined");
  });

  it("warns where characters were spelt out", async () => {
    const plain = await shown(asking(["a.txt"]));
    expect(plain.querySelector(".al-asked .al-warning")).toBeNull();
    dispose.splice(0).forEach((each) => {
      each();
    });
    model = new StandIn();
    widget = createWidget();
    dispose = [widget.initialize(given(document.body))];
    const spelt = await shown(asking(["\\u202egpj.exe"]));
    expect(find(spelt, ".al-asked .al-warning").textContent).toContain("cannot be seen");
  });
});

describe("a wait for the provider", () => {
  const failed = { attempt: 1, kind: "server", message: "It failed." };
  const timer = "[data-part=pause] [role=timer]";

  it("counts down to the next try, which a person may have at once", async () => {
    const pause = event({ type: "retry", ...failed, wait_s: 8 });
    const el = await shown([runStart(), pause], pause.t + 2);
    expect(words(el, "[data-part=note]")).toBe("Try 1 failed: It failed.");
    expect(words(el, timer)).toBe("The next try is in 0:06.");
    expect(words(el, "[data-part=status]")).toBe("Waiting to try again \u00b7 0:06");
    await click(el, "[data-action=retry-now]");
    await click(el, "[data-action=retry-now]");
    expect(model.all("retry_now")).toHaveLength(1);
    expect(find<HTMLButtonElement>(el, "[data-action=retry-now]").disabled).toBe(true);
  });

  it("says so where the circuit is open, and where another run tries", async () => {
    const open = event({ type: "circuit", state: "open", wait_s: 60 });
    const el = await shown([runStart(), open], open.t);
    expect(words(el, timer)).toBe("The provider keeps failing. One more try in 1:00.");
    model.batch(2, 2, [event({ type: "circuit", state: "open", wait_s: null })]);
    await frames();
    expect(words(el, timer)).toContain("Another run is trying it now.");
    model.batch(3, 3, [event({ type: "circuit", state: "probe", wait_s: null })]);
    await frames();
    expect(el.querySelector("[data-part=pause]")).toBeNull();
  });
});

describe("controls", () => {
  it("Stop is sent once and says so until the end", async () => {
    const el = await shown([runStart()]);
    await click(el, "[data-action=stop]");
    await click(el, "[data-action=stop]");
    model.reply(model.all("stop")[0], true);
    await frames();
    expect(model.all("stop")).toHaveLength(1);
    expect(words(el, "[data-action=stop]")).toBe("Stopping\u2026");
    expect(words(el, "[data-part=status]")).toBe("Stopping\u2026");
    model.batch(1, 1, [done("Stopped by you in round 0", "user_cancel")]);
    await frames();
    expect(words(el, "[data-part=status]")).toBe("Stopped by you in round 0");
  });

  it("Stop stays there while a dialog is open", async () => {
    const el = await shown(asking(["a"]));
    await click(el, "[data-action=stop]");
    expect(model.all("stop")).toHaveLength(1);
  });

  it("the box says something and empties, and gives back what was not taken", async () => {
    const el = await shown([runStart()]);
    const box = find<HTMLTextAreaElement>(el, "[data-part=say] textarea");
    box.value = "look in src";
    box.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true }));
    await frames();
    expect(box.value).toBe("");
    expect(model.all("say")[0]).toMatchObject({ text: "look in src" });
    model.reply(model.all("say")[0], false, "Another run is live.");
    await frames();
    expect(box.value).toBe("look in src");
    expect(find(el, "[data-part=say]").textContent).toContain("Another run is live.");
  });

  it("the box sends nothing twice, and breaks the line at Shift+Enter", async () => {
    const el = await shown([runStart()]);
    const box = find<HTMLTextAreaElement>(el, "[data-part=say] textarea");
    box.value = "one";
    const key = { key: "Enter", bubbles: true };
    box.dispatchEvent(new KeyboardEvent("keydown", { ...key, shiftKey: true }));
    expect(model.all("say")).toHaveLength(0);
    await submit(find(el, "[data-part=say]"));
    await submit(find(el, "[data-part=say]"));
    expect(model.all("say")).toHaveLength(1);
  });
});

describe("the way to the kernel", () => {
  it("lost: says so, stops the clock, and takes no clicks", async () => {
    const el = await shown(asking(["a"]), 10);
    await frames(12_000);
    expect(words(el, "[data-part=status]")).toBe("The kernel does not answer");
    expect(words(el, "[data-part=notice] code")).toBe('agent.resume("s1")');
    const left = words(el, "[data-part=remaining]");
    await frames(10_000);
    expect(words(el, "[data-part=remaining]")).toBe(left);
    for (const action of ["approve", "decline", "stop", "say"]) {
      expect(find<HTMLButtonElement>(el, `[data-action=${action}]`).disabled, action).toBe(true);
    }
    model.tick(3, 60);
    await frames();
    expect(words(el, "[data-part=remaining]")).toBe("1:00");
    expect(el.querySelector("[data-part=notice]")).toBeNull();
  });

  it("gone: says so, stops the clock, takes no clicks, and names the way on", async () => {
    const front = { kernel: { status: "idle" } };
    Object.assign(model, { widget_manager: front });
    const el = await shown(asking(["a"]), 10);
    front.kernel.status = "dead";
    await frames(500);
    expect(words(el, "[data-part=status]")).toBe("The kernel has ended");
    expect(words(el, "[data-part=notice] code")).toBe('agent.resume("s1")');
    expect(words(el, "[data-part=remaining]")).toContain("the kernel has ended");
    for (const action of ["approve", "decline", "stop", "say"]) {
      expect(find<HTMLButtonElement>(el, `[data-action=${action}]`).disabled, action).toBe(true);
    }
    await frames(10_000);
    expect(Number(find(el, "[data-part=remaining]").dataset.seconds)).toBeGreaterThanOrEqual(108);
  });

  it("busy: says so, stops the clock, and takes clicks all the same", async () => {
    const el = await shown(asking(["a"]), 10);
    await frames(3000);
    model.tick(3, 13, { held: true });
    await frames();
    const left = words(el, "[data-part=remaining]");
    expect(words(el, "[data-part=notice]")).toContain("busy with a cell");
    expect(left).toContain("stands still");
    expect(words(el, "[data-part=status]")).toContain("Waiting for you");
    await frames(2000);
    expect(words(el, "[data-part=remaining]")).toBe(left);
    find<HTMLButtonElement>(el, "[data-action=approve]").click();
    expect(model.all("answer")).toHaveLength(1);
  });

  it("never there: a saved view says calmly what it is", async () => {
    model.traits.ended = true;
    const el = render();
    await frames();
    expect(words(el, "[data-part=status]")).toBe("Connecting\u2026");
    await frames(8000);
    expect(words(el, "[data-part=notice] code")).toBe('agent.session("s1").start("\u2026")');
    expect(find(el, "[data-part=notice]").textContent).toContain("A run that has ended.");
  });

  it("of another version: asks for a reload", async () => {
    const el = render();
    model.welcome(0, { v: 2 });
    await frames();
    expect(words(el, "[data-part=notice]")).toContain("Reload the page");
  });
});

const IMAGE: ImageBlock = { type: "image", media_type: "image/png", data: "iVBORw0KGgo=" };

function result(outcome: Outcome, change: object = {}): PageEvent {
  return event({
    type: "tool_result",
    id: "c0.0",
    name: "t",
    content: "what the model was told",
    is_error: outcome !== "ok",
    outcome,
    images: [],
    display: null,
    duration_s: 0.5,
    ...change,
  });
}

describe("a call", () => {
  const called = event({ type: "tool_use_start", id: "c0.0", name: "t", arguments: { path: "." } });

  it("is one line until it is opened", async () => {
    const el = await shown([runStart(), called, result("ok")]);
    const line = words(el, ".al-call-line");
    expect(line).toContain('path="."');
    expect(line).toContain("done");
    expect(line).toContain("0.5 s");
    expect(el.querySelector(".al-details")).toBeNull();
    await click(el, ".al-call-line");
    expect(find(el, ".al-details").textContent).toContain("what the model was told");
  });

  it("that failed shows the user's own line without being opened", async () => {
    const display = "cell 3, line 7, in load\n    open(path)\nFileNotFoundError: x\nThe way there:";
    const el = await shown([runStart(), called, result("error", { display })]);
    expect(words(el, ".al-error")).toBe(
      "cell 3, line 7, in load\n    open(path)\nFileNotFoundError: x",
    );
  });

  it("shows the arguments of a call whose outcome is unknown", async () => {
    const el = await shown(fixture("resumed_after_a_dead_kernel").events);
    const call = find(el, "[data-call='c0.0']");
    expect(call.dataset.state).toBe("unknown_outcome");
    expect(call.textContent).toContain("outcome unknown");
    expect(call.textContent).toContain("old.csv");
  });

  it("has a word and a sign for each way to end", async () => {
    const el = await shown(fixture("every_outcome").events);
    const states = [...el.querySelectorAll(".al-call-state")].map((state) => state.textContent);
    expect(new Set(states).size).toBe(states.length);
    expect(states.every((state) => /^\S+ \S+/.test(state ?? ""))).toBe(true);
  });

  it("shows pictures only from the result itself, and no SVG", async () => {
    const svg = { ...IMAGE, media_type: "image/svg+xml" };
    const el = await shown([runStart(), called, result("ok", { images: [IMAGE, svg] })]);
    const pictures = [...el.querySelectorAll("img")];
    expect(pictures.map((picture) => picture.getAttribute("src"))).toEqual([
      "data:image/png;base64,iVBORw0KGgo=",
    ]);
  });

  it("spells out what cannot be seen in its arguments", async () => {
    const tricky = { path: "a\u202egpj.exe\u200b\u2028\u001b[2K" };
    const el = await shown([
      runStart(),
      event({ type: "tool_use_start", id: "c0.0", name: "t", arguments: tricky }),
    ]);
    expect(words(el, ".al-call-line")).toContain("a\\u202egpj.exe\\u200b\\u2028\\u001b[2K");
  });
});

describe("hostile words", () => {
  const HTML = '<img src="https://evil.example/x.png" onerror="alert(1)"><script>alert(1)</script>';

  it.each([
    ["the prompt", [runStart(HTML)]],
    ["text", [runStart(), says(HTML)]],
    ["thinking", [runStart(), thinks(HTML)]],
    ["what was said", [runStart(), event({ type: "say", text: HTML })]],
    ["a warning", [runStart(), event({ type: "warning", message: HTML })]],
    ["an approval", asking([HTML])],
    [
      "a call's name and arguments",
      [
        runStart(),
        event({ type: "tool_use_start", id: "c0.0", name: HTML, arguments: { a: HTML } }),
      ],
    ],
    ["a result", [runStart(), result("ok", { content: HTML, name: HTML })]],
    ["an error", [runStart(), result("error", { content: HTML, display: HTML })]],
    ["the end", [runStart(), done(HTML, "fatal_error")]],
  ])("are shown and do nothing in %s", async (_, events) => {
    const el = await shown(events);
    for (const line of el.querySelectorAll<HTMLElement>(".al-call-line")) {
      line.click();
    }
    await frames();
    expect(el.querySelector("img, script, iframe, svg, style, link, object")).toBeNull();
    expect([...el.querySelectorAll("*")].some((each) => each.hasAttribute("onerror"))).toBe(false);
    expect(el.textContent).toContain("alert(1)");
  });
});
