// One per widget model, however many views it has: the state, the run's clock, what a person asked
// for and what became of it. Views hear of changes at most once an animation frame.
import { Channel, type Connection, type Listener, type Model } from "./channel";
import type { PageEvent } from "./events";
import { Pace } from "./pace";
import type { Command, DecisionSent } from "./protocol";
import { foldAll, initial } from "./reduce";
import type { State, Turn } from "./state";

// What became of a command: `sent` until the kernel replies, then `taken` or `failed`. `about` is the
// question that an answer was for, `text` what was said.
export interface Sent {
  readonly status: "sent" | "taken" | "failed";
  readonly why: string;
  readonly about: string;
  readonly text: string;
}

// All that a view draws from. A part that did not change is the same object as before.
export interface Shown {
  readonly state: State;
  readonly connection: Connection;
  readonly commands: Readonly<Record<string, Sent>>;
}

// The kernel says its time each second while its loop turns. Where it does not, time stands still:
// a cell that holds the loop takes nothing from a question.
const AHEAD_S = 2;

export const STOP = "stop";
export const RETRY = "retry";
export const SAY = "say";
export const answerKey = (runId: string, callId: string): string => `${runId} ${callId}`;

export class Store implements Listener {
  readonly #channel: Channel;
  readonly #views = new Set<() => void>();
  readonly #ids = new Map<string, string[]>(); // command id → its keys
  #shown: Shown = { state: initial(), connection: "connecting", commands: {} };
  #clock: { now: number; at: number } | null = null; // run's seconds, and when they came in ms
  readonly #pace = new Pace();
  #taken = false; // the next frame already has its share
  #frame: number | null = null;

  constructor(model: Model) {
    this.#channel = new Channel(model, this);
  }

  open(): void {
    this.#channel.open();
  }

  close(): void {
    this.#channel.close();
    this.#views.clear();
    if (this.#frame !== null) {
      cancelAnimationFrame(this.#frame);
    }
  }

  // -- for views

  get shown(): Shown {
    return this.#shown;
  }

  // Calls back at most once a frame, before it is painted; returns what ends it.
  subscribe(view: () => void): () => void {
    this.#views.add(view);
    return () => this.#views.delete(view);
  }

  // Seconds since the run began, as the kernel counts them.
  now(): number {
    const clock = this.#clock;
    if (clock === null) {
      return 0;
    }
    return clock.now + Math.min((performance.now() - clock.at) / 1000, AHEAD_S);
  }

  get sessionId(): string {
    return this.#shown.state.session_id || this.#channel.savedSession;
  }

  // Whether the widget was saved after its run had ended.
  get savedEnded(): boolean {
    return this.#channel.savedEnded;
  }

  // -- what a person does

  // Decides calls of a question. A call that was decided here already is not decided again.
  answer(runId: string, question: string, decisions: readonly DecisionSent[]): void {
    const open = decisions.filter((d) => this.#free(answerKey(runId, d.call_id), question));
    if (open.length > 0) {
      const keys = open.map((d) => answerKey(runId, d.call_id));
      this.#command({ type: "answer", run_id: runId, question, decisions: open }, keys, {
        about: question,
      });
    }
  }

  stop(): void {
    if (this.#free(STOP)) {
      this.#command({ type: "stop" }, [STOP]);
    }
  }

  // Ends the pause that began at `t0` of the run's clock.
  retryNow(runId: string, t0: number): void {
    const about = `${runId} ${t0}`;
    if (this.#free(RETRY, about)) {
      this.#command({ type: "retry_now" }, [RETRY], { about });
    }
  }

  say(words: string): void {
    if (words.trim() !== "" && this.#shown.commands[SAY]?.status !== "sent") {
      this.#command({ type: "say", text: words }, [SAY], { text: words });
    }
  }

  #free(key: string, about = ""): boolean {
    const sent = this.#shown.commands[key];
    return sent === undefined || sent.status === "failed" || sent.about !== about;
  }

  #command(command: Command, keys: string[], what: Partial<Sent> = {}): void {
    this.#mark(keys, { status: "sent", why: "", about: "", text: "", ...what });
    this.#ids.set(this.#channel.command(command), keys);
  }

  #mark(keys: readonly string[], sent: Sent): void {
    const marked = Object.fromEntries(keys.map((key) => [key, sent]));
    this.#show({ commands: { ...this.#shown.commands, ...marked } });
  }

  // -- from the channel

  reset(): void {
    this.#clock = null;
    this.#pace.clear();
    const said = this.#shown.commands[SAY]; // a person's words are not lost with the kernel
    this.#show({ state: initial(), commands: said === undefined ? {} : { [SAY]: said } });
  }

  apply(events: readonly PageEvent[], now: number, past: boolean): void {
    this.#sync(now);
    const behind = !this.#pace.empty;
    this.#pace.push(events);
    if (past || !behind) {
      this.#fold(past ? this.#pace.takeAll() : this.#pace.take());
      this.#taken = true;
    }
  }

  #fold(events: readonly PageEvent[]): void {
    const before = this.#shown;
    const state = foldAll(before.state, events);
    // A new turn begins with clean controls; what was said needs no word once it stands in the view.
    const fresh = state.turns.length !== before.state.turns.length;
    const seen = events.some((event) => event.type === "say");
    const { [SAY]: said, ...others } = before.commands;
    const kept = fresh ? {} : seen && said?.status === "taken" ? others : before.commands;
    this.#show({ state, commands: kept });
  }

  tick(now: number): void {
    this.#sync(now);
  }

  connected(connection: Connection): void {
    this.#show({ connection });
  }

  replied(id: string, ok: boolean, why: string): void {
    const keys = this.#ids.get(id) ?? [];
    this.#ids.delete(id);
    const sent = this.#shown.commands[keys[0] ?? ""];
    if (sent !== undefined) {
      this.#mark(keys, { ...sent, status: ok ? "taken" : "failed", why });
    }
  }

  live(): boolean {
    const turn = lastTurn(this.#shown.state);
    return turn !== undefined && turn.exit_reason === null;
  }

  #sync(now: number): void {
    this.#clock = { now, at: performance.now() };
  }

  #show(change: Partial<Shown>): void {
    this.#shown = { ...this.#shown, ...change };
    this.#frame ??= requestAnimationFrame(this.#onFrame);
  }

  readonly #onFrame = (): void => {
    if (!this.#taken && !this.#pace.empty) {
      this.#fold(this.#pace.take());
    }
    this.#taken = false;
    this.#frame = this.#pace.empty ? null : requestAnimationFrame(this.#onFrame);
    for (const view of [...this.#views]) {
      view();
    }
  };
}

export const lastTurn = (state: State): Turn | undefined => state.turns.at(-1);
