// What the tests share: a stand-in for the widget's model with a kernel behind it, and events.
/// <reference types="vite/client" />
import { vi } from "vitest";
import type { Model } from "./channel";
import type { Approval, KnownEvent, PageEvent, Usage } from "./events";
import type { Pair } from "./protocol";
import type { State } from "./state";

export interface Fixture {
  readonly name: string;
  readonly events: PageEvent[];
  readonly state: State;
}

const FIXTURES = import.meta.glob<Fixture>("../../tests/fixtures/view/*.json", {
  eager: true,
  import: "default",
});

// Name of the file without its ending, and what it holds.
export const fixtures = Object.entries(FIXTURES).map(
  ([path, fixture]) => [path.replace(/^.*\/|\.json$/g, ""), fixture] as const,
);

export function fixture(name: string): Fixture {
  const found = fixtures.find(([each]) => each === name);
  if (found === undefined) {
    throw new Error(`No fixture ${name}.`);
  }
  return structuredClone(found[1]);
}

type Sent = Record<string, unknown>;

// A model as anywidget hands it out. By itself it is deaf: tests speak for the kernel.
export class StandIn implements Model {
  readonly handlers = new Set<(content: unknown) => void>();
  readonly sent: Sent[] = [];
  readonly traits: Record<string, unknown> = { protocol: 1, session_id: "s1", ended: false };

  get(name: string): unknown {
    return this.traits[name];
  }

  send(content: unknown): void {
    this.sent.push(content as Sent);
  }

  on(name: string, callback: (content: unknown) => void): void {
    if (name === "msg:custom") {
      this.handlers.add(callback);
    }
  }

  off(_name: string, callback: (content: unknown) => void): void {
    this.handlers.delete(callback);
  }

  hear(content: unknown): void {
    for (const handler of [...this.handlers]) {
      handler(structuredClone(content));
    }
  }

  all(type: string): Sent[] {
    return this.sent.filter((content) => content.type === type);
  }

  get client(): string {
    return String(this.all("hello")[0]?.client);
  }

  // -- the kernel's lines

  welcome(last = -1, change: object = {}): void {
    this.hear({ type: "welcome", to: this.client, v: 1, epoch: "e1", first: 0, last, ...change });
  }

  batch(from: number, to: number, events: readonly (PageEvent | Pair)[], change = {}): void {
    const { client } = this;
    const batch = { client, epoch: "e1", from, to, now: 0, events, ...change };
    const { epoch, now } = batch;
    this.hear([batch.client, epoch, from, to, now, events]);
  }

  tick(last: number, now: number, change: object = {}): void {
    this.hear({ type: "tick", epoch: "e1", last, now, ...change });
  }

  reply(command: Sent | undefined, ok: boolean, why = ""): void {
    this.hear({ type: "reply", to: this.client, id: command?.id, ok, why });
  }

  // Welcomes the page and shows it events from the start of the tape.
  show(events: readonly PageEvent[], now = 0): void {
    this.welcome(events.length - 1);
    this.batch(0, events.length - 1, events, { now });
  }
}

const ENVELOPE = { seq: 0, at: 0, t: 0, path: [], round: 0 };
const NONE: Usage = {
  input_tokens: 0,
  output_tokens: 0,
  cache_read_tokens: 0,
  cache_write_tokens: 0,
};

type Bare<E> = E extends KnownEvent
  ? Omit<E, keyof typeof ENVELOPE> & Partial<typeof ENVELOPE>
  : never;

export const event = (bare: Bare<KnownEvent>): PageEvent => ({ ...ENVELOPE, ...bare });

export const runStart = (prompt = "Go"): PageEvent =>
  event({
    type: "run_start",
    session_id: "s1",
    run_id: "s1.0",
    prompt,
    model: "m",
    instructions: "",
    tools: [],
    max_turns: 25,
  });

export const says = (text: string): PageEvent =>
  event({ type: "text_delta", text, attempt: 0, block: 0, upto: null });

export const thinks = (text: string): PageEvent =>
  event({ type: "thinking", text, attempt: 0, block: 1, upto: null });

export const done = (message = "Done in 1 round", exit_reason = "end_turn"): PageEvent =>
  event({ type: "done", exit_reason, message, rounds: 1, usage: NONE, t: 3 });

// A run that asks whether calls of `delete_file` may run, one per path.
export function asking(paths: readonly string[], timeout_s: number | null = 120): PageEvent[] {
  const calls = paths.map((path, index) => ({ id: `c0.${index}`, name: "delete_file", path }));
  const items: Approval["items"] = calls.map(({ id, name, path }) => ({
    call_id: id,
    name,
    shown: [["path", path]],
    fingerprint: id,
    description: "Delete one file.",
  }));
  return [
    runStart(),
    event({ type: "round_start", attempt: 0 }),
    ...calls.map(({ id, name, path }) =>
      event({ type: "tool_use_start", id, name, arguments: { path } }),
    ),
    event({ type: "question", t: 0, question: { type: "approval", id: "q5", items, timeout_s } }),
  ];
}

// Lets frames, effects and what follows from them happen. Timers are the test's own.
export async function frames(ms = 100): Promise<void> {
  await vi.advanceTimersByTimeAsync(ms);
}
