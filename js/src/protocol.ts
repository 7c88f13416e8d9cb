// The messages between page and kernel, and how an untrusted one is read. The kernel's side is
// agentloop_nb/notebook/bridge.py.
import type { PageEvent } from "./events";

export const PROTOCOL = 1;

export interface DecisionSent {
  call_id: string;
  approved: boolean;
  reason: string;
}

// What a person does. Each is sent with an id until the kernel replies, and acts there once.
export type Command =
  | { type: "answer"; run_id: string; question: string; decisions: DecisionSent[] }
  | { type: "stop" }
  | { type: "retry_now" }
  | { type: "say"; text: string };

// What a delta adds that goes on with the event before it: its time and its text.
export type Pair = [number, string];

export type FromKernel =
  | { type: "welcome"; to: string; v: number; epoch: string; first: number; last: number }
  | {
      type: "batch";
      client: string;
      epoch: string;
      from: number;
      to: number;
      now: number;
      events: (PageEvent | Pair)[];
    }
  | { type: "tick"; epoch: string; last: number; now: number; held?: boolean }
  | { type: "reply"; to: string; id: string; ok: boolean; why: string };

const FIELDS: Record<FromKernel["type"], Record<string, "string" | "number" | "boolean">> = {
  welcome: { to: "string", v: "number", epoch: "string", first: "number", last: "number" },
  batch: { client: "string", epoch: "string", from: "number", to: "number", now: "number" },
  tick: { epoch: "string", last: "number", now: "number" },
  reply: { to: "string", id: "string", ok: "boolean", why: "string" },
};

export type Growing = PageEvent & { type: "text_delta" | "thinking"; text: string };

// Whether an event is a delta: more of a text.
export const grows = (event: PageEvent): event is Growing =>
  event.type === "text_delta" || event.type === "thinking";

// A batch travels as a row without names; see packing.py.
const ROW = ["client", "epoch", "from", "to", "now", "events"];

// The message, or null where it is none of ours.
export function read(content: unknown): FromKernel | null {
  const message = Array.isArray(content) ? named(content) : content;
  if (!isRecord(message) || typeof message.type !== "string") {
    return null;
  }
  if (!Object.hasOwn(FIELDS, message.type)) {
    return null;
  }
  const fields = FIELDS[message.type as FromKernel["type"]];
  for (const [name, kind] of Object.entries(fields)) {
    if (typeof message[name] !== kind) {
      return null;
    }
  }
  if (message.type === "batch" && !isEvents(message.events)) {
    return null;
  }
  return message as FromKernel;
}

const named = (row: unknown[]): unknown =>
  row.length === ROW.length
    ? { type: "batch", ...Object.fromEntries(ROW.map((name, n) => [name, row[n]])) }
    : null;

// The events of a batch, each with all its fields; null where a pair goes on with nothing. Of a
// pair's `seq`, `at` and `upto`, which no page uses, nothing is known.
export function whole(
  events: readonly (PageEvent | Pair)[],
  before: PageEvent | null,
): PageEvent[] | null {
  const found: PageEvent[] = [];
  for (const event of events) {
    const last = found.at(-1) ?? before;
    if (!Array.isArray(event)) {
      found.push(event);
    } else if (last !== null && "text" in last) {
      found.push({ ...last, t: event[0], text: event[1] } as PageEvent);
    } else {
      return null;
    }
  }
  return found;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}

function isEvents(value: unknown): value is (PageEvent | Pair)[] {
  return Array.isArray(value) && value.every((event) => isPair(event) || isEvent(event));
}

const isEvent = (value: unknown): boolean => isRecord(value) && typeof value.type === "string";

const isPair = (value: unknown): boolean =>
  Array.isArray(value) && typeof value[0] === "number" && typeof value[1] === "string";
