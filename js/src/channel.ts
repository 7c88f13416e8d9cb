// The page's end of the wire, and the only file that uses the widget's model: its custom messages,
// and the traits that a saved notebook has of it.
//
// The way loses and reorders messages. So a batch is applied only where it continues what is there,
// a gap or a silence makes the page say hello with what it has, and a command is sent again and
// again under one id until the kernel replies. A silence is judged by what else is known: a kernel
// that is busy with a cell comes back, one that was restarted does not.
import type { PageEvent } from "./events";
import { Kernel, type Managed } from "./kernel";
import { type Command, type FromKernel, grows, PROTOCOL, read, whole } from "./protocol";

export const BEAT_MS = 250;
export const HELLO_PAUSE_MS = 500; // at most one hello in this time
export const HELLO_AGAIN_MS = 1250; // until an unanswered hello is said again
export const FIRST_HELLO_MS = 2500; // and the first one, while the page is still loading
export const LOST_HELLO_MS = 5000; // and again, once the kernel counts as lost
export const SILENCE_MS = 2250; // while a run lives the kernel says something each second
export const LOST_AFTER = 2; // unanswered hellos
export const RESEND_MS = 1000;
export const GIVE_UP_MS = 30_000;

// Small batches of a stream are acknowledged once a second, not one by one. To each message the kernel
// says "busy" and "idle", and where the server has just written these, TCP keeps the next batch back
// for up to 40 ms (Nagle's algorithm, and an acknowledgement of TCP's own that waits).
export const ACK_PAUSE_MS = 1000;
const SMALL = 2000; // characters

// What of an anywidget model is used here.
export interface Model extends Managed {
  get(name: string): unknown;
  send(content: unknown): void;
  on(name: string, callback: (content: unknown) => void): void;
  off(name: string, callback: (content: unknown) => void): void;
}

// "busy": the kernel is there, but cannot answer before its cell is over; it takes commands then.
// "lost": it does not answer, nobody knows why. "gone": it was restarted, or has died. "newer": it
// speaks a later protocol than this script.
export type Connection = "connecting" | "live" | "busy" | "lost" | "gone" | "newer";

// Who hears of it: the store.
export interface Listener {
  reset(): void;
  // `past`: the kernel had them before the page said hello.
  apply(events: readonly PageEvent[], now: number, past: boolean): void;
  tick(now: number): void;
  connected(connection: Connection): void;
  replied(id: string, ok: boolean, why: string): void;
  // Whether something is still to come: a run is going on.
  live(): boolean;
}

interface Pending {
  command: Command & { id: string; client: string };
  first: number;
  sent: number;
}

export class Channel {
  readonly #model: Model;
  readonly #listener: Listener;
  readonly #kernel: Kernel;
  readonly #client = randomName();
  readonly #pending = new Map<string, Pending>();
  #connection: Connection = "connecting";
  #epoch: string | null = null;
  #have = -1;
  #event: PageEvent | null = null; // the one at that position
  #last = -1; // the newest position known to be in the kernel
  #past = -1; // the newest at the last hello
  #heard = 0; // when the kernel last said anything
  #grew = 0; // when the last batch was applied
  #helloAt = Number.NEGATIVE_INFINITY;
  #helloWanted = false;
  #unanswered = 0;
  #ackedAt = Number.NEGATIVE_INFINITY;
  #owed = false; // an acknowledgement
  #commands = 0;
  #beat: ReturnType<typeof setInterval> | undefined;

  constructor(model: Model, listener: Listener) {
    this.#model = model;
    this.#listener = listener;
    this.#kernel = new Kernel(model);
  }

  open(): void {
    this.#model.on("msg:custom", this.#receive);
    this.#heard = this.#grew = performance.now();
    this.#kernel.look(); // from here on its signals count: a restart can be over before a beat
    this.#beat = setInterval(this.#onBeat, BEAT_MS);
    this.#hello();
  }

  close(): void {
    clearInterval(this.#beat);
    this.#kernel.close();
    this.#model.off("msg:custom", this.#receive);
  }

  // -- what the widget was saved with, for a page whose kernel is gone

  get savedSession(): string {
    const id = this.#model.get("session_id");
    return typeof id === "string" ? id : "";
  }

  get savedEnded(): boolean {
    return this.#model.get("ended") === true;
  }

  // Sends a command until it is replied to; returns the id that `replied` will name.
  command(command: Command): string {
    this.#commands += 1;
    const id = `m${this.#commands}`;
    const now = performance.now();
    const pending = { command: { ...command, id, client: this.#client }, first: now, sent: now };
    this.#pending.set(id, pending);
    this.#send(pending.command);
    return id;
  }

  readonly #receive = (content: unknown): void => {
    const message = read(content);
    if (message === null) {
      return;
    }
    switch (message.type) {
      case "welcome":
        this.#onWelcome(message);
        break;
      case "batch":
        this.#onBatch(message);
        break;
      case "tick":
        this.#onTick(message);
        break;
      case "reply":
        this.#onReply(message);
        break;
    }
  };

  #onWelcome(message: FromKernel & { type: "welcome" }): void {
    if (message.to !== this.#client) {
      return;
    }
    if (message.v !== PROTOCOL) {
      this.#become("newer");
      return;
    }
    if (message.epoch !== this.#epoch) {
      this.#begin(message.epoch);
    }
    this.#last = this.#past = message.last;
    this.#alive();
  }

  // Another kernel: what was held of the one before is void, and so is what it was asked to do.
  #begin(epoch: string): void {
    const first = this.#epoch === null;
    this.#epoch = epoch;
    this.#have = -1;
    this.#event = null;
    this.#listener.reset();
    if (!first) {
      this.#drop("The kernel was restarted before it heard this.");
    }
  }

  #drop(why: string): void {
    for (const id of [...this.#pending.keys()]) {
      this.#settle(id, false, why);
    }
  }

  #onBatch(message: FromKernel & { type: "batch" }): void {
    if (message.client !== this.#client || this.#connection === "newer") {
      return;
    }
    if (message.epoch !== this.#epoch) {
      this.#hello();
      return;
    }
    this.#alive();
    const follows = message.from === this.#have + 1 && message.to >= message.from;
    const events = follows ? whole(message.events, this.#event) : null;
    if (events !== null) {
      this.#have = message.to;
      this.#event = events.at(-1) ?? null;
      this.#last = Math.max(this.#last, message.to);
      this.#grew = performance.now();
      this.#listener.apply(events, message.now, message.to <= this.#past);
    } else if (message.to > this.#have) {
      this.#hello(); // something before it is missing; or it overlaps, and merged events do not split
      return;
    }
    this.#owed = true;
    const now = performance.now();
    if (now - this.#ackedAt >= ACK_PAUSE_MS || events === null || !isSmall(events)) {
      this.#acknowledge(now);
    }
  }

  #acknowledge(now: number): void {
    this.#owed = false;
    this.#ackedAt = now;
    this.#send({ type: "ack", client: this.#client, seq: this.#have });
  }

  #onTick(message: FromKernel & { type: "tick" }): void {
    if (this.#connection === "newer") {
      return;
    }
    if (message.epoch !== this.#epoch) {
      this.#hello();
      return;
    }
    this.#last = Math.max(this.#last, message.last);
    if (message.held === true) {
      this.#alive("busy"); // said past the run's loop, whose clock stands still
    } else {
      this.#alive();
      this.#listener.tick(message.now);
    }
  }

  #onReply(message: FromKernel & { type: "reply" }): void {
    if (message.to === this.#client && this.#pending.has(message.id)) {
      this.#alive();
      this.#settle(message.id, message.ok, message.why);
    }
  }

  #settle(id: string, ok: boolean, why: string): void {
    this.#pending.delete(id);
    this.#listener.replied(id, ok, why);
  }

  readonly #onBeat = (): void => {
    const now = performance.now();
    if (this.#connection === "newer") {
      return;
    }
    if (this.#owed && now - this.#ackedAt >= ACK_PAUSE_MS) {
      this.#acknowledge(now);
    }
    this.#judge(now);
    this.#resend(now);
    if (this.#helloWanted || this.#missing(now)) {
      this.#hello();
    }
  };

  // What a silence means. Only a word of the kernel makes it live again.
  #judge(now: number): void {
    const health = this.#kernel.look();
    if (health === "gone") {
      this.#become("gone");
      this.#drop("The kernel ended before it heard this.");
    } else if (this.#unanswered >= LOST_AFTER && now - this.#helloAt >= this.#patience) {
      this.#become(health === "busy" ? "busy" : "lost");
    }
  }

  get #patience(): number {
    return this.#epoch === null ? FIRST_HELLO_MS : HELLO_AGAIN_MS;
  }

  // Whether something should have come by now.
  #missing(now: number): boolean {
    const away = this.#connection === "lost" || this.#connection === "gone";
    if (now - this.#helloAt < (away ? LOST_HELLO_MS : this.#patience)) {
      return false;
    }
    const silent = now - this.#heard >= SILENCE_MS;
    const behind = this.#last > this.#have && now - this.#grew >= SILENCE_MS;
    return this.#epoch === null || behind || (silent && this.#listener.live());
  }

  #hello(): void {
    const now = performance.now();
    this.#helloWanted = now - this.#helloAt < HELLO_PAUSE_MS;
    if (this.#helloWanted) {
      return; // the beat will say it
    }
    this.#helloAt = now;
    this.#unanswered += 1;
    this.#send({
      type: "hello",
      v: PROTOCOL,
      client: this.#client,
      epoch: this.#epoch,
      have: this.#have,
    });
  }

  // A kernel that is gone can make sending raise. That is one more lost message: the beat repeats it.
  #send(content: unknown): void {
    try {
      this.#model.send(content);
    } catch (error) {
      console.debug("agentloop_nb: a message could not be sent", error);
    }
  }

  #alive(connection: "live" | "busy" = "live"): void {
    this.#heard = performance.now();
    this.#unanswered = 0;
    if (this.#kernel.spoke()) {
      this.#become(connection);
    }
  }

  #become(connection: Connection): void {
    if (connection !== this.#connection) {
      this.#connection = connection;
      this.#listener.connected(connection);
    }
  }

  #resend(now: number): void {
    for (const [id, pending] of this.#pending) {
      if (this.#connection === "busy") {
        pending.first = now; // it will hear of it, however long its cell takes
      }
      if (now - pending.first >= GIVE_UP_MS) {
        this.#settle(id, false, `The kernel did not answer in ${GIVE_UP_MS / 1000} seconds.`);
      } else if (now - pending.sent >= RESEND_MS) {
        pending.sent = now;
        this.#send(pending.command);
      }
    }
  }
}

// Whether a batch is some text of a stream, as many follow.
function isSmall(events: readonly PageEvent[]): boolean {
  const length = events.reduce((sum, event) => sum + (grows(event) ? event.text.length : SMALL), 0);
  return length < SMALL;
}

// Names this page among those that show the widget. `crypto.randomUUID` is missing on plain http.
function randomName(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(3));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
