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
  | { type: "say"; text: string };

export type FromKernel =
  | { type: "welcome"; to: string; v: number; epoch: string; first: number; last: number }
  | {
      type: "batch";
      client: string;
      epoch: string;
      from: number;
      to: number;
      now: number;
      events: PageEvent[];
    }
  | { type: "tick"; epoch: string; last: number; now: number; held?: boolean }
  | { type: "reply"; to: string; id: string; ok: boolean; why: string };

const FIELDS: Record<FromKernel["type"], Record<string, "string" | "number" | "boolean">> = {
  welcome: { to: "string", v: "number", epoch: "string", first: "number", last: "number" },
  batch: { client: "string", epoch: "string", from: "number", to: "number", now: "number" },
  tick: { epoch: "string", last: "number", now: "number" },
  reply: { to: "string", id: "string", ok: "boolean", why: "string" },
};

// What a delta goes without on the way; see `LEFT_OUT` in tape.py.
const LEFT_OUT = { seq: 0, at: 0, path: [], attempt: 0, block: 0, upto: null };

// A batch with its deltas whole again.
function filled(batch: FromKernel & { type: "batch" }): FromKernel {
  const events = batch.events.map((event) =>
    event.type === "text_delta" || event.type === "thinking" ? { ...LEFT_OUT, ...event } : event,
  );
  return { ...batch, events };
}

// The message, or null where it is none of ours.
export function read(content: unknown): FromKernel | null {
  if (!isRecord(content) || typeof content.type !== "string") {
    return null;
  }
  if (!Object.hasOwn(FIELDS, content.type)) {
    return null;
  }
  const fields = FIELDS[content.type as FromKernel["type"]];
  for (const [name, kind] of Object.entries(fields)) {
    if (typeof content[name] !== kind) {
      return null;
    }
  }
  if (content.type === "batch" && !isEvents(content.events)) {
    return null;
  }
  const message = content as FromKernel;
  return message.type === "batch" ? filled(message) : message;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}

function isEvents(value: unknown): value is PageEvent[] {
  return Array.isArray(value) && value.every((e) => isRecord(e) && typeof e.type === "string");
}
