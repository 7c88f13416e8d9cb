// Where a growing Markdown text can be cut: what lies before the cut will not change any more.
//
// Lines are read once. A block settles when the next one begins at the margin after an empty line,
// or when its fence closes. A list goes on over empty lines, and keeps its fences inside; a long one
// settles between its items.
const FENCE = /^ {0,3}(`{3,}|~{3,})/;
const LIST = /^(?:[-*+]|\d{1,9}[.)])(?:\s|$)/;
const LONG_LIST = 2000; // characters
const ENOUGH = 12; // characters of an unfinished line that tell what it begins

export class Blocks {
  cuts: number[] = [0]; // places where a block begins or the last one ends; what is before is final
  fence: number | null = null; // where the text inside an open fence at the margin begins
  #at = 0; // the first line that was not read to its end
  #closing = ""; // what closes the open fence
  #list = false;
  #empty = true; // whether the line before was empty

  get settled(): number {
    return this.cuts[this.cuts.length - 1] ?? 0;
  }

  // Takes in the text so far: the same as last time, and more at its end.
  read(text: string): void {
    for (let end = text.indexOf("\n", this.#at); end >= 0; end = text.indexOf("\n", this.#at)) {
      this.#line(text.slice(this.#at, end), this.#at, end + 1);
      this.#at = end + 1;
    }
    if (text.length - this.#at >= ENOUGH && this.#closing === "") {
      this.#start(text.slice(this.#at, this.#at + ENOUGH), this.#at);
    }
  }

  #line(line: string, start: number, next: number): void {
    if (this.#closing !== "") {
      this.#inFence(line, next);
      return;
    }
    if (line.trim() === "") {
      this.#empty = true;
      return;
    }
    this.#start(line, start);
    const fence = FENCE.exec(this.#list ? line.trimStart() : line)?.[1];
    if (fence === undefined) {
      return;
    }
    this.#closing = fence;
    if (!this.#list) {
      this.#cut(start);
      this.fence = next;
    }
  }

  #inFence(line: string, next: number): void {
    const mark = line.trim();
    const closes = mark.startsWith(this.#closing) && mark === mark.charAt(0).repeat(mark.length);
    if (!closes) {
      return;
    }
    this.#closing = "";
    if (this.fence !== null) {
      this.fence = null;
      this.#cut(next);
      this.#empty = true;
    }
  }

  // A line that is not empty: does a block begin with it?
  #start(line: string, start: number): void {
    const margin = !/^\s/.test(line);
    const item = LIST.test(line);
    const follows = this.#list && item; // another item of the open list
    const block = this.#empty && !follows;
    if (margin && (block || (follows && start - this.settled > LONG_LIST))) {
      this.#cut(start);
      this.#list = item;
    }
    this.#empty = false;
  }

  #cut(place: number): void {
    if (place > this.settled) {
      this.cuts.push(place);
    }
  }
}
