// The fold of events into what a view shows: the twin of agentloop_nb/viewstate.py, held to the
// same fixtures in tests/fixtures/view.
// Written as if it changed the state in place; the Draft sees to the copies.
import { Draft, lastIndex } from "./draft";
import type {
  AnswerEvent,
  AttemptDiscarded,
  CircuitEvent,
  DecidedBy,
  Done,
  Event,
  GuardEvent,
  KnownEvent,
  MessageEvent,
  PageEvent,
  QuestionEvent,
  Resumed,
  RetryEvent,
  RoundEnd,
  RunStart,
  Say,
  TextDelta,
  ThinkingDelta,
  ToolOutput,
  ToolResultEvent,
  ToolRunning,
  ToolUseDelta,
  ToolUseStart,
  Usage,
} from "./events";
import type { CallItem, CallState, Item, NoteItem, Round, State, TextItem, Turn } from "./state";

const NO_USAGE: Usage = {
  input_tokens: 0,
  output_tokens: 0,
  cache_read_tokens: 0,
  cache_write_tokens: 0,
};

// Events that can come in the middle of a growing text; the text goes on after them.
const LEAVE_OPEN = new Set(["text_delta", "thinking", "tool_output", "snapshot", "warning"]);

// Events that can come while the run waits to try again; any other one ends that.
const LEAVE_PAUSE = new Set(["tool_output", "snapshot", "warning", "say"]);

// The state of a call that was not approved, by who closed its question.
const REFUSED: Record<DecidedBy, CallState> = {
  person: "declined",
  on_question: "declined",
  timeout: "unanswered",
  nobody: "unanswered",
  error: "unanswered",
  stop: "cancelled",
};

export function initial(): State {
  return { session_id: "", turns: [] };
}

// The state after a batch of events. The given state stays as it is.
export function foldAll(state: State, events: readonly PageEvent[]): State {
  const draft = new Draft();
  const next = draft.own(state);
  for (const event of events) {
    fold(draft, next, event);
  }
  return next;
}

function fold(draft: Draft, state: State, event: PageEvent): void {
  state.turns = draft.own(state.turns);
  if (isStart(event)) {
    state.session_id = event.session_id;
    state.turns.push(draft.made(newTurn(event)));
    return;
  }
  const turn = draft.last(state.turns);
  if (turn === undefined) {
    return; // nothing to attach it to: the first event of a run is its run_start
  }
  if (!isKnown(event)) {
    note(draft, turn, event, "unknown", event.type);
    return;
  }
  if (!LEAVE_OPEN.has(event.type)) {
    closeOpen(draft, turn, event);
  }
  if (!LEAVE_PAUSE.has(event.type)) {
    turn.pause = null;
  }
  take(draft, turn, event);
}

const isStart = (event: PageEvent): event is RunStart => event.type === "run_start";

type LaterEvent = Exclude<KnownEvent, RunStart>;
type Folds = {
  [Kind in LaterEvent["type"]]: (
    draft: Draft,
    turn: Turn,
    event: Extract<LaterEvent, { type: Kind }>,
  ) => void;
};

const FOLDS: Folds = {
  resumed,
  round_start: roundOf,
  text_delta: delta,
  thinking: delta,
  tool_use_delta: toolUseDelta,
  tool_use_start: toolUseStart,
  tool_running: toolRunning,
  tool_output: toolOutput,
  tool_result: toolResult,
  message,
  question,
  answer,
  say,
  round_end: roundEnd,
  attempt_discarded: attemptDiscarded,
  retry,
  guard,
  circuit,
  snapshot: (_, turn, event) => {
    turn.snapshot = event.file;
  },
  warning: (draft, turn, event) => note(draft, turn, event, "warning", event.message),
  error: (draft, turn, event) => note(draft, turn, event, "error", event.message),
  done,
};

const isKnown = (event: PageEvent): event is LaterEvent => Object.hasOwn(FOLDS, event.type);

function take(draft: Draft, turn: Turn, event: LaterEvent): void {
  // The table pairs each type with its own fold; TypeScript cannot follow that through an index.
  const own = FOLDS[event.type] as (draft: Draft, turn: Turn, event: LaterEvent) => void;
  own(draft, turn, event);
}

function newTurn(event: RunStart): Turn {
  return {
    run_id: event.run_id,
    prompt: event.prompt,
    model: event.model,
    max_turns: event.max_turns,
    rounds: [],
    question: null,
    pause: null,
    snapshot: null,
    exit_reason: null,
    message: "",
    usage: NO_USAGE,
    elapsed: null,
    resumed: false,
  };
}

// The round an event belongs to, made where it is the first of it.
function roundOf(draft: Draft, turn: Turn, event: Event): Round {
  const last = draft.lastRound(turn);
  if (last !== undefined && last.round === event.round) {
    return last;
  }
  const made: Round = draft.made({
    round: event.round,
    t0: event.t,
    t1: null,
    stop_reason: null,
    usage: null,
    items: draft.made<Item[]>([]),
  });
  turn.rounds.push(made);
  return made;
}

const roundItems = (draft: Draft, turn: Turn, event: Event): Item[] =>
  draft.items(roundOf(draft, turn, event));

// The text that is still growing: at most one, in the last round.
function closeOpen(draft: Draft, turn: Turn, event: Event): void {
  const last = draft.lastRound(turn);
  const index = lastIndex(last?.items ?? [], isGrowing);
  if (last === undefined || index < 0) {
    return;
  }
  const item = draft.at(draft.items(last), index);
  if (item !== undefined && isText(item)) {
    item.open = false;
    item.t1 = event.t;
  }
}

function delta(draft: Draft, turn: Turn, event: TextDelta | ThinkingDelta): void {
  const kind = event.type === "text_delta" ? "text" : "thinking";
  const sought = (item: Item): item is TextItem =>
    item.kind === kind && item.key?.[0] === event.attempt && item.key[1] === event.block;
  const known = draft.lastRound(turn);
  const growing = known?.items[lastIndex(known.items, isGrowing)];
  if (growing !== undefined && (known?.round !== event.round || !sought(growing))) {
    closeOpen(draft, turn, event);
  }
  const items = roundItems(draft, turn, event);
  const item = draft.at(items, lastIndex(items, sought));
  if (item !== undefined && isText(item)) {
    item.text += event.text;
    item.open = true;
    item.t1 = null;
    return;
  }
  const { attempt, block, text, t } = event;
  items.push(draft.made({ kind, key: [attempt, block], text, open: true, t0: t, t1: null }));
}

function findCall(draft: Draft, turn: Turn, id: string): CallItem | undefined {
  for (let r = turn.rounds.length - 1; r >= 0; r--) {
    const index = turn.rounds[r]?.items.findIndex((item) => item.kind === "call" && item.id === id);
    if (index !== undefined && index >= 0) {
      turn.rounds = draft.own(turn.rounds);
      const round = draft.at(turn.rounds, r);
      const item = round && draft.at(draft.items(round), index);
      return item?.kind === "call" ? item : undefined;
    }
  }
  return undefined;
}

function callOf(draft: Draft, turn: Turn, event: Event & { id: string; name: string }): CallItem {
  const found = findCall(draft, turn, event.id);
  if (found !== undefined) {
    return found;
  }
  const made: CallItem = draft.made({
    kind: "call",
    id: event.id,
    name: event.name,
    text: "",
    input: null,
    state: "arriving",
    output: [],
    progress: null,
    decision: null,
    result: null,
    t0: null,
    duration: null,
  });
  roundItems(draft, turn, event).push(made);
  return made;
}

function toolUseDelta(draft: Draft, turn: Turn, event: ToolUseDelta): void {
  callOf(draft, turn, event).text += event.text;
}

function toolUseStart(draft: Draft, turn: Turn, event: ToolUseStart): void {
  const call = callOf(draft, turn, event);
  call.name = event.name;
  call.input = event.arguments;
  call.state = "queued";
}

function toolRunning(draft: Draft, turn: Turn, event: ToolRunning): void {
  const call = callOf(draft, turn, event);
  call.state = "running";
  call.t0 = event.t;
}

function toolOutput(draft: Draft, turn: Turn, event: ToolOutput): void {
  const call = findCall(draft, turn, event.id);
  if (call === undefined) {
    return;
  }
  if (event.stream === "progress") {
    call.progress = { fraction: event.fraction, text: event.text };
    return;
  }
  call.output = draft.own(call.output);
  const last = draft.last(call.output);
  if (last?.stream === event.stream) {
    last.text += event.text;
  } else {
    call.output.push(draft.made({ stream: event.stream, text: event.text }));
  }
}

function toolResult(draft: Draft, turn: Turn, event: ToolResultEvent): void {
  const { content, display, images } = event;
  const call = callOf(draft, turn, event);
  call.state = event.outcome;
  call.progress = null;
  call.duration = event.duration_s;
  call.result = { content, display, images };
}

// A reply is complete. Its blocks come along only where no delta did (a journal keeps none).
function message(draft: Draft, turn: Turn, event: MessageEvent): void {
  const items = roundItems(draft, turn, event);
  patch(draft, items, isArriving, { state: "cut" });
  const { seq, at, t, path, round } = event;
  for (const [block, part] of event.message.blocks?.entries() ?? []) {
    const piece = { seq, at, t, path, round, attempt: 0, block, upto: null };
    if (part.type === "tool_call") {
      callOf(draft, turn, { ...piece, id: part.id, name: part.name }).text += part.arguments;
    } else if ((part.type === "text" || part.type === "thinking") && part.text !== "") {
      const type = part.type === "text" ? "text_delta" : "thinking";
      delta(draft, turn, { ...piece, type, text: part.text });
    }
  }
  closeOpen(draft, turn, event);
  // No later delta belongs to these texts, whatever its block number.
  patch(draft, items, isUnsealed, { key: null });
}

const isText = (item: Item): item is TextItem => item.kind === "text" || item.kind === "thinking";
const isGrowing = (item: Item): item is TextItem => isText(item) && item.open;
const isUnsealed = (item: Item): item is TextItem => isText(item) && item.key !== null;
const callIn =
  (state: CallState) =>
  (item: Item): item is CallItem =>
    item.kind === "call" && item.state === state;
const isArriving = callIn("arriving");
const isWaiting = callIn("waiting");

function patch<T extends Item>(
  draft: Draft,
  items: Item[],
  picked: (item: Item) => item is T,
  change: Partial<T>,
): void {
  for (const [index, item] of items.entries()) {
    if (picked(item)) {
      items[index] = draft.made({ ...item, ...change });
    }
  }
}

function patchAll<T extends Item>(
  draft: Draft,
  turn: Turn,
  picked: (item: Item) => item is T,
  change: Partial<T>,
): void {
  turn.rounds = draft.own(turn.rounds);
  for (let index = 0; index < turn.rounds.length; index++) {
    const round = turn.rounds[index]?.items.some(picked) ? draft.at(turn.rounds, index) : undefined;
    if (round !== undefined) {
      patch(draft, draft.items(round), picked, change);
    }
  }
}

function question(draft: Draft, turn: Turn, event: QuestionEvent): void {
  const { id, items, timeout_s } = event.question;
  turn.question = { id, items, t0: event.t, timeout_s, decided: [] };
  for (const item of items) {
    const call = findCall(draft, turn, item.call_id);
    if (call !== undefined) {
      call.state = "waiting";
    }
  }
}

function answer(draft: Draft, turn: Turn, event: AnswerEvent): void {
  for (const { call_id, approved, reason } of event.decisions) {
    const call = findCall(draft, turn, call_id);
    if (call !== undefined) {
      call.decision = { approved, reason, by: event.by };
      call.state = approved ? "queued" : REFUSED[event.by];
    }
  }
  const decided = event.decisions.map((decision) => decision.call_id);
  const asked = turn.question;
  if (event.closed) {
    turn.question = null;
  } else if (asked !== null) {
    turn.question = { ...asked, decided: [...asked.decided, ...decided] };
  }
}

function attemptDiscarded(draft: Draft, turn: Turn, event: AttemptDiscarded): void {
  const items = roundItems(draft, turn, event);
  const kept = items.filter((item) => !isVoid(item, event.attempt));
  items.splice(0, items.length, ...kept);
}

// Whether a dead attempt left this: a text that is not sealed, a call that never was whole.
const isVoid = (item: Item, attempt: number): boolean =>
  item.kind === "call" ? isArriving(item) : isText(item) && item.key?.[0] === attempt;

// Of whole rounds; a single call that was guarded says so itself.
const GUARDED: Partial<Record<GuardEvent["kind"], string>> = {
  "wrap-up": "The tool budget is used up. The model was told to answer now.",
  "hard-stop": "The model went on calling tools past the limit, so the run was ended.",
};

function guard(draft: Draft, turn: Turn, event: GuardEvent): void {
  const text = GUARDED[event.kind];
  if (text !== undefined) {
    note(draft, turn, event, "warning", text);
  }
}

const FAILED = " failed: ";

function retry(draft: Draft, turn: Turn, event: RetryEvent): void {
  const items = roundItems(draft, turn, event);
  const last = items.at(-1);
  let first = event.attempt;
  if (last?.kind === "note" && last.level === "retry") {
    const at = last.text.indexOf(FAILED);
    if (last.text.slice(at + FAILED.length) === event.message) {
      first = Number(last.text.slice(0, at).split(" ")[1]); // once more the same: one line for all
      items.pop();
    }
  }
  const tries = first === event.attempt ? `Try ${first}` : `Tries ${first} to ${event.attempt}`;
  note(draft, turn, event, "retry", `${tries}${FAILED}${event.message}`);
  if (event.wait_s > 0) {
    turn.pause = { kind: "retry", t0: event.t, wait_s: event.wait_s };
  }
}

function circuit(_: Draft, turn: Turn, event: CircuitEvent): void {
  if (event.state === "open") {
    turn.pause = { kind: "circuit", t0: event.t, wait_s: event.wait_s };
  }
}

function say(draft: Draft, turn: Turn, event: Say): void {
  roundItems(draft, turn, event).push({ kind: "say", text: event.text });
}

function note(draft: Draft, turn: Turn, event: Event, level: NoteItem["level"], text: string) {
  roundItems(draft, turn, event).push({ kind: "note", level, text });
}

function roundEnd(draft: Draft, turn: Turn, event: RoundEnd): void {
  const { usage, stop_reason, t } = event;
  const round = roundOf(draft, turn, event);
  round.t1 = t;
  round.stop_reason = stop_reason;
  round.usage = usage;
  const sum = turn.usage;
  turn.usage = {
    input_tokens: sum.input_tokens + usage.input_tokens,
    output_tokens: sum.output_tokens + usage.output_tokens,
    cache_read_tokens: sum.cache_read_tokens + usage.cache_read_tokens,
    cache_write_tokens: sum.cache_write_tokens + usage.cache_write_tokens,
  };
}

function resumed(draft: Draft, turn: Turn, event: Resumed): void {
  turn.resumed = true;
  turn.model = event.model;
  turn.question = null; // the kernel that asked it is gone; it is asked again where needed
  patchAll(draft, turn, isWaiting, { state: "queued" });
  note(draft, turn, event, "resumed", event.model);
}

function done(draft: Draft, turn: Turn, event: Done): void {
  patchAll(draft, turn, isArriving, { state: "cut" });
  turn.question = null;
  turn.exit_reason = event.exit_reason;
  turn.message = event.message;
  turn.usage = event.usage;
  turn.elapsed = event.t;
}
