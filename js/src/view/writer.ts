// Writes a growing Markdown text into an element, in time that grows with the text once: settled
// blocks are made into nodes and never touched again; only the open block is drawn anew, and not
// even that once it is long. Settled blocks lie in chunks, and long plain text in pieces, of which the
// browser lays out only those in sight: else each frame would cost as much as the text is long.
import { Blocks } from "../blocks";
import { LONGEST_FORMATTED, toNodes } from "../markdown";

// An open block longer than this grows as plain text until it settles.
export const LONGEST_REDRAWN = 4000;

// Plain text grows in pieces of about this size, so that the browser lays out only the last one.
const PIECE = 4000;

// Settled text that lies in one chunk. Each frame pays for the last one's size, and for the number of
// those out of sight: over 1 MB, 8,000 characters cost the last frames more, and 64,000 cost all more.
const CHUNK = 32_000;

// `node` ends the plain text of the open block, which stands for the text `from` to `to`.
interface Tail {
  node: Text;
  from: number;
  to: number;
}

export class Writer {
  readonly #host: HTMLElement;
  #blocks = new Blocks();
  #text = "";
  #written = 0; // settled text that stands on the page
  #chunk: HTMLElement | null = null; // where the next settled block goes
  #chunkFrom = 0; // the text that it begins with
  #full: HTMLElement[] = []; // chunks and pieces that were filled by the last write
  #open: HTMLElement | null = null; // the open block, always the last child
  #tail: Tail | null = null; // its text, where it is plain

  constructor(host: HTMLElement) {
    this.#host = host;
  }

  // Shows `text`, which begins with what was shown before; `open` says that more may follow.
  write(text: string, open: boolean): void {
    if (!text.startsWith(this.#text.slice(0, 64)) || text.length < this.#text.length) {
      this.#clear(); // another text: never the case for a growing one
    }
    this.#text = text;
    this.#retire();
    this.#blocks.read(text);
    const settled = open ? this.#blocks.settled : text.length;
    if (settled > this.#written) {
      this.#drop();
      this.#settle(text, settled);
    }
    if (settled < text.length) {
      this.#grow(text);
    }
  }

  // Writes the blocks that became final, as many at once as may be formatted together.
  #settle(text: string, settled: number): void {
    const cuts = this.#blocks.cuts.filter((cut) => cut > this.#written && cut < settled);
    let end = this.#written;
    for (const cut of [...cuts, settled]) {
      if (cut - this.#written > LONGEST_FORMATTED && end > this.#written) {
        this.#append(text, end);
      }
      end = cut;
    }
    this.#append(text, settled);
    this.#blocks.cuts = [this.#blocks.settled];
  }

  #append(text: string, end: number): void {
    const part = text.slice(this.#written, end);
    if (this.#chunk === null || this.#written - this.#chunkFrom > CHUNK) {
      if (this.#chunk !== null) {
        this.#full.push(this.#chunk);
      }
      this.#chunk = document.createElement("div");
      this.#chunk.className = "al-chunk";
      this.#chunkFrom = this.#written;
      this.#host.append(this.#chunk);
    }
    this.#chunk.append(toNodes(part));
    this.#written = end;
  }

  // Not in the write that filled them: the browser has to have seen their height once.
  #retire(): void {
    for (const part of this.#full) {
      part.classList.add("al-far");
    }
    this.#full = [];
  }

  #grow(text: string): void {
    const from = Math.max(this.#blocks.fence ?? 0, this.#written);
    if (this.#tail !== null && this.#tail.from === from) {
      this.#full.push(...extend(this.#tail, text));
      return;
    }
    this.#drop();
    const fenced = this.#blocks.fence !== null;
    if (fenced || text.length - from > LONGEST_REDRAWN) {
      this.#open = plainBlock(fenced);
      const node = document.createTextNode("");
      (this.#open.firstElementChild ?? this.#open).append(piece(node));
      this.#tail = { node, from, to: from };
      this.#full.push(...extend(this.#tail, text));
    } else {
      this.#open = document.createElement("div");
      this.#open.append(toNodes(text.slice(from)));
    }
    this.#open.classList.add("al-open");
    this.#host.append(this.#open);
  }

  #drop(): void {
    this.#open?.remove();
    this.#open = null;
    this.#tail = null;
  }

  #clear(): void {
    this.#host.replaceChildren();
    this.#blocks = new Blocks();
    this.#written = 0;
    this.#chunk = null;
    this.#full = [];
    this.#open = null;
    this.#tail = null;
  }
}

function plainBlock(fenced: boolean): HTMLElement {
  const block = document.createElement(fenced ? "pre" : "div");
  if (fenced) {
    block.append(document.createElement("code"));
  } else {
    block.className = "al-plain";
  }
  return block;
}

// Returns the pieces that this filled.
function extend(tail: Tail, text: string): HTMLElement[] {
  tail.node.appendData(text.slice(tail.to));
  tail.to = text.length;
  const filled = tail.node.parentElement;
  const cut = whereToCut(tail.node.data);
  if (cut === 0 || filled === null) {
    return [];
  }
  tail.node = tail.node.splitText(cut);
  filled.after(piece(tail.node));
  return [filled];
}

// After a line, which does not show; text without any is cut after a word, and that much later.
const whereToCut = (text: string): number =>
  (text.length > PIECE ? text.lastIndexOf("\n") + 1 : 0) ||
  (text.length > 4 * PIECE ? text.lastIndexOf(" ") + 1 : 0);

function piece(node: Text): HTMLElement {
  const element = document.createElement("span");
  element.className = "al-piece";
  element.append(node);
  return element;
}
