// What a view shows, as plain JSON: turns of rounds of items. The shape is that of
// agentloop_nb/viewstate.py, field by field.
import type {
  ApprovalItem,
  DecidedBy,
  ImageBlock,
  Json,
  Outcome,
  StopReason,
  Usage,
} from "./events";

export interface State {
  session_id: string;
  turns: Turn[];
}

export interface Turn {
  run_id: string;
  prompt: string;
  model: string;
  max_turns: number | null;
  rounds: Round[];
  question: OpenQuestion | null;
  pause: Pause | null;
  snapshot: string | null;
  exit_reason: string | null;
  message: string;
  usage: Usage;
  elapsed: number | null;
  resumed: boolean;
}

export interface Round {
  round: number;
  t0: number;
  t1: number | null;
  stop_reason: StopReason | null;
  usage: Usage | null;
  items: Item[];
}

export type Item = TextItem | CallItem | SayItem | NoteItem;

// `key` is [attempt, block] while deltas may still come for it.
export interface TextItem {
  kind: "text" | "thinking";
  key: [number, number] | null;
  text: string;
  open: boolean;
  t0: number;
  t1: number | null;
}

// `text` is the JSON of the arguments as it arrived, `input` the parsed arguments.
export interface CallItem {
  kind: "call";
  id: string;
  name: string;
  text: string;
  input: { readonly [key: string]: Json } | string | null;
  state: CallState;
  output: Output[];
  progress: Progress | null;
  decision: CallDecision | null;
  result: CallResult | null;
  t0: number | null;
  duration: number | null;
}

export type CallState = "arriving" | "cut" | "queued" | "waiting" | "running" | Outcome;

export interface Output {
  stream: "stdout" | "stderr";
  text: string;
}

export interface Progress {
  fraction: number | null;
  text: string;
}

export interface CallDecision {
  approved: boolean;
  reason: string;
  by: DecidedBy;
}

export interface CallResult {
  content: string;
  display: string | null;
  images: readonly ImageBlock[];
}

export interface SayItem {
  kind: "say";
  text: string;
}

export interface NoteItem {
  kind: "note";
  level: "warning" | "error" | "retry" | "resumed" | "unknown";
  text: string;
}

// The run waits before it asks the provider again; `wait_s` is null while another run tries it.
export interface Pause {
  kind: "retry" | "circuit";
  t0: number;
  wait_s: number | null;
}

// `t0` is on the run's clock, in seconds; `decided` holds call ids.
export interface OpenQuestion {
  id: string;
  items: readonly ApprovalItem[];
  t0: number;
  timeout_s: number | null;
  decided: string[];
}
