// Spreads text that comes in big pieces over a few frames, so that an answer flows and does not jump.
// Order is kept: what comes after a text waits for it. A frame shows a sixteenth of what waits: a model
// (below 30,000 characters a second) is shown at once, a faster stream a quarter of a second late, and
// 160,000 characters that come in one piece take 63 frames. Where frames take too long, they are given
// less: a page that is too slow for its stream falls behind, and still hears a click.
// Where a person stopped the run, what waits is shown at once: they want the end, not the rest of it.
import type { PageEvent } from "./events";
import { grows } from "./protocol";

export const AT_ONCE = 512; // characters that a frame shows at least
const SHARE = 16;
const SLOW_MS = 250; // a frame that took longer had too much; much less, and it never catches up
const MOST = 1_000_000;

export class Pace {
  #waiting: PageEvent[] = [];
  #first = 0; // of `#waiting`; taken ones are dropped together, so that the cost stays linear
  #chars = 0;
  #stopped = false;
  #most = MOST; // characters that a frame may show here and now
  #taken = 0; // by the frame before
  #at: number | null = null; // when that was, if the next frame comes right after it

  get empty(): boolean {
    return this.#first === this.#waiting.length;
  }

  push(events: readonly PageEvent[]): void {
    for (const event of events) {
      this.#waiting.push(event);
      this.#chars += length(event);
      this.#stopped ||= "exit_reason" in event && event.exit_reason === "user_cancel";
    }
  }

  // All that waits: what a page missed is shown, not played.
  takeAll(): PageEvent[] {
    const taken = this.#waiting.slice(this.#first);
    this.clear();
    return taken;
  }

  clear(): void {
    this.#waiting = [];
    this.#first = 0;
    this.#chars = 0;
    this.#stopped = false;
    this.#at = null;
  }

  // What the next frame may show; everything, where little waits.
  take(now = performance.now()): PageEvent[] {
    this.#learn(now);
    if (this.#stopped) {
      return this.takeAll();
    }
    let room = Math.min(this.#most, Math.max(AT_ONCE, Math.ceil(this.#chars / SHARE)));
    this.#taken = Math.min(room, this.#chars);
    this.#at = now;
    const taken: PageEvent[] = [];
    while (room > 0 && !this.empty) {
      const event = this.#waiting[this.#first] as PageEvent;
      const part = cut(event, room);
      room -= length(part);
      this.#chars -= length(part);
      taken.push(part);
      if (part === event) {
        this.#first += 1;
      } else {
        this.#waiting[this.#first] = rest(event, length(part));
      }
    }
    if (this.empty) {
      this.clear();
    }
    return taken;
  }

  #learn(now: number): void {
    if (this.#at === null) {
      return;
    }
    this.#most =
      now - this.#at > SLOW_MS
        ? Math.max(AT_ONCE, Math.ceil(Math.min(this.#most, this.#taken) / 2))
        : Math.min(MOST, this.#most * 2);
  }
}

const length = (event: PageEvent): number => (grows(event) ? event.text.length : 0);

// The event, or one with as much of its text as there is room for. A surrogate pair stays whole.
function cut(event: PageEvent, room: number): PageEvent {
  if (!grows(event) || event.text.length <= room) {
    return event;
  }
  const last = event.text.charCodeAt(room - 1);
  const end = last >= 0xd800 && last < 0xdc00 ? room + 1 : room;
  return end >= event.text.length ? event : { ...event, text: event.text.slice(0, end) };
}

const rest = (event: PageEvent, from: number): PageEvent =>
  grows(event) ? { ...event, text: event.text.slice(from) } : event;
