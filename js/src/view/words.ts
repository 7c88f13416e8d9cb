// The words and numbers that a view shows. Every state has a sign and a word, never a colour alone.
import type { Connection } from "../channel";
import type { CallDecision, CallItem, CallState, Round, Turn } from "../state";

export type Tone = "quiet" | "busy" | "ask" | "good" | "warn" | "bad";

export interface Word {
  readonly sign: string;
  readonly word: string;
  readonly tone: Tone;
}

const CALL_STATES: Record<CallState, Word> = {
  arriving: { sign: "\u2026", word: "arriving", tone: "busy" },
  cut: { sign: "\u2013", word: "cut off", tone: "quiet" },
  queued: { sign: "\u25cb", word: "queued", tone: "quiet" },
  waiting: { sign: "?", word: "waiting for you", tone: "ask" },
  running: { sign: "\u25b8", word: "running", tone: "busy" },
  ok: { sign: "\u2713", word: "done", tone: "good" },
  error: { sign: "\u2717", word: "failed", tone: "bad" },
  invalid: { sign: "\u2717", word: "not a valid call", tone: "bad" },
  declined: { sign: "\u2298", word: "declined", tone: "warn" },
  unanswered: { sign: "\u2298", word: "nobody answered", tone: "warn" },
  timeout: { sign: "\u2717", word: "timed out", tone: "bad" },
  cancelled: { sign: "\u25a0", word: "stopped", tone: "quiet" },
  guarded: { sign: "\u21bb", word: "repeated", tone: "warn" },
  deferred: { sign: "\u2192", word: "put off", tone: "warn" },
  unknown_outcome: { sign: "?", word: "outcome unknown", tone: "warn" },
};

export const callWord = (state: CallState): Word => CALL_STATES[state];

// What a person, or the lack of one, did about a call. Empty where the state says it all.
export function decisionWords(decision: CallDecision): string {
  switch (decision.by) {
    case "person":
      return decision.approved
        ? "You approved this."
        : `You declined this.${tail(decision.reason)}`;
    case "on_question":
      return decision.approved ? "The program approved this." : "The program declined this.";
    case "timeout":
      return "Nobody answered in time, so it did not run.";
    case "nobody":
      return "No page was open to ask on, so it did not run.";
    case "error":
      return "Asking failed, so it did not run.";
    case "stop":
      return "The run was stopped first, so it did not run.";
  }
}

const tail = (reason: string): string => (reason.trim() === "" ? "" : ` Reason: ${reason}`);

// Whether what a person does now reaches the kernel, be it a little later.
export const reachable = (connection: Connection): boolean =>
  connection === "live" || connection === "busy";

// Why a countdown stands still, for its place at the question. Empty while it counts.
export function standing(connection: Connection): string {
  switch (connection) {
    case "busy":
      return "stands still: the kernel is busy";
    case "gone":
      return "the kernel has ended";
    case "lost":
      return "the kernel does not answer";
    default:
      return "";
  }
}

export interface Status {
  readonly text: string;
  readonly tone: Tone;
}

// What is going on, for the header.
export function status(
  turn: Turn | undefined,
  connection: Connection,
  stopping: boolean,
  remaining: string | null,
): Status {
  if (turn !== undefined && turn.exit_reason !== null) {
    // The details stand at the end of the turn.
    return { text: turn.message.split(": ")[0] ?? "", tone: endTone(turn.exit_reason) };
  }
  if (connection === "gone") {
    return { text: "The kernel has ended", tone: "bad" };
  }
  if (connection === "lost") {
    return { text: "The kernel does not answer", tone: "warn" };
  }
  if (connection === "newer") {
    return { text: "Another version", tone: "warn" };
  }
  if (turn === undefined) {
    const starting = connection === "live" ? "Starting" : "Connecting\u2026";
    return { text: connection === "busy" ? "The kernel is busy" : starting, tone: "quiet" };
  }
  if (stopping) {
    return { text: "Stopping\u2026", tone: "busy" };
  }
  if (turn.question !== null) {
    const time = remaining === null ? "" : ` \u00b7 ${remaining}`;
    return { text: `Waiting for you${time}`, tone: "ask" };
  }
  if (connection === "busy") {
    return { text: "The kernel is busy", tone: "busy" };
  }
  if (turn.pause !== null) {
    const time = remaining === null ? "" : ` \u00b7 ${remaining}`;
    return { text: `Waiting to try again${time}`, tone: "busy" };
  }
  return { text: doing(turn), tone: "busy" };
}

function doing(turn: Turn): string {
  const items = turn.rounds.at(-1)?.items ?? [];
  const calls = items.filter((item) => item.kind === "call");
  const running = calls.filter((call) => call.state === "running");
  if (running.length > 0) {
    return running.length === 1 ? `Running ${running[0]?.name}` : `Running ${running.length} tools`;
  }
  const arriving = calls.find((call) => call.state === "arriving");
  if (arriving !== undefined) {
    return `Writing a call of ${arriving.name}`;
  }
  if (calls.some((call) => call.state === "queued")) {
    return "About to run tools";
  }
  const open = items.find(
    (item) => (item.kind === "text" || item.kind === "thinking") && item.open,
  );
  if (open !== undefined) {
    return open.kind === "text" ? "Writing" : "Thinking";
  }
  return "Waiting for the model";
}

export function endTone(reason: string): Tone {
  if (reason === "end_turn") {
    return "good";
  }
  return reason === "user_cancel" || reason === "no_tool_calls" ? "quiet" : "bad";
}

// The state of a round, for its mark in the rail.
export function roundWord(round: Round, turn: Turn): Word {
  const calls = round.items.filter((item): item is CallItem => item.kind === "call");
  const last = turn.rounds.at(-1) === round;
  if (calls.some((call) => call.state === "waiting")) {
    return { sign: "?", word: "waiting for you", tone: "ask" };
  }
  if (last && turn.exit_reason === null && round.t1 === null) {
    const tools = calls.some((call) => call.state === "running");
    return { sign: "\u2026", word: tools ? "running tools" : "under way", tone: "busy" };
  }
  if (round.stop_reason === "cancelled") {
    return { sign: "\u25a0", word: "stopped", tone: "quiet" };
  }
  const bad = calls.some((call) => callWord(call.state).tone === "bad");
  const error = round.items.some((item) => item.kind === "note" && item.level === "error");
  if (bad || error) {
    return { sign: "!", word: "with a failure", tone: "bad" };
  }
  return { sign: "", word: "done", tone: "good" };
}

// -- numbers

// 0:42, 12:05, 1:02:03. A countdown is rounded up, so that it reads 0:00 only when it is over.
export function clock(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  const [h, m, s] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const minutes = h > 0 ? `${h}:${String(m).padStart(2, "0")}` : String(m);
  return `${minutes}:${String(s).padStart(2, "0")}`;
}

export function duration(seconds: number): string {
  if (seconds < 0.1) {
    return `${Math.round(seconds * 1000)} ms`;
  }
  return seconds < 60 ? `${seconds.toFixed(seconds < 10 ? 1 : 0)} s` : clock(seconds);
}

export function count(tokens: number): string {
  if (tokens < 1000) {
    return String(tokens);
  }
  const [size, unit] = tokens < 1_000_000 ? [tokens / 1000, "k"] : [tokens / 1_000_000, "M"];
  return `${size.toFixed(size < 100 ? 1 : 0)}${unit}`;
}

// -- text of others, made honest

const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

// The text with what cannot be seen, or turns its surroundings round, written out.
export function visible(text: string): string {
  return text.replace(UNSEEN, (char) =>
    char === "\n" || char === "\t"
      ? char
      : `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

const SHORT_VALUE = 60;
const SHORT_LINE = 200;

// A call's arguments on one line: path="." n=3.
export function briefly(call: CallItem): string {
  const { input } = call;
  if (input === null || typeof input === "string") {
    return visible((input ?? call.text).slice(0, SHORT_LINE)).replace(/\s+/g, " ");
  }
  const parts = Object.entries(input).map(([name, value]) => `${name}=${brief(value)}`);
  return visible(parts.join("  ").slice(0, SHORT_LINE));
}

function brief(value: unknown): string {
  const text = JSON.stringify(value);
  return text.length > SHORT_VALUE ? `${text.slice(0, SHORT_VALUE)}\u2026` : text;
}

// The first line of a longer text that says something, cut to what fits a line.
export function firstLine(text: string): string {
  const line = text.split("\n", 20).find((part) => part.trim() !== "") ?? "";
  return line.length > SHORT_LINE ? `${line.slice(0, SHORT_LINE)}\u2026` : line;
}

// A file as a reader looks for it: its name and its folder's, on any system.
export function shortPath(path: string): string {
  return path.split(/[\\/]/).slice(-2).join("/");
}
