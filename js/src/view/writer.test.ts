import "../testing-dom";
import { describe, expect, it } from "vitest";
import { LONGEST_REDRAWN, Writer } from "./writer";

const TEXT = `# Title

A paragraph that goes
over two lines.

- one
- two

  still two

- three
  \`\`\`
  code in a list

  more
  \`\`\`
- four

Between.
\`\`\`python
def f():

    return "- no list"
\`\`\`
After the fence

| a | b |
|---|---|
| 1 | 2 |

1. first

2. second

> quoted

The end.`;

function grown(text: string, size: number): HTMLElement {
  const host = document.createElement("div");
  const writer = new Writer(host);
  for (let end = 0; end < text.length; end += size) {
    writer.write(text.slice(0, end), true);
  }
  writer.write(text, true);
  writer.write(text, false);
  return host;
}

describe("a growing text", () => {
  it.each([1, 2, 3, 7, 50, 1000])("ends as it would have been at once, in pieces of %i", (size) => {
    expect(grown(TEXT, size).innerHTML).toBe(grown(TEXT, 100_000).innerHTML);
  });

  it("keeps plain text to the letter while it grows and when it is whole", () => {
    const text = "word one two\n\n".repeat(50) + "last words ".repeat(2000);
    const host = document.createElement("div");
    const writer = new Writer(host);
    for (let end = 0; end < text.length; end += 997) {
      writer.write(text.slice(0, end), true);
      expect(host.textContent).toBe(text.slice(0, end));
    }
    writer.write(text, false);
    expect(host.textContent).toBe(text);
  });

  it("makes a settled block once and never touches it again", () => {
    const host = document.createElement("div");
    const writer = new Writer(host);
    writer.write("First block here.\n\nSecond", true);
    writer.write("First block here.\n\nSecond block, open", true);
    const first = host.querySelector("p");
    writer.write("First block here.\n\nSecond block, open still.\n\nThird block, open", true);
    expect(first?.textContent).toBe("First block here.");
    expect(host.querySelector("p")).toBe(first);
  });

  it("draws a long open block no more, but adds to it", () => {
    const host = document.createElement("div");
    const writer = new Writer(host);
    const long = "word ".repeat(LONGEST_REDRAWN);
    writer.write(long, true);
    const open = host.lastElementChild;
    const pieces = [...host.querySelectorAll(".al-piece")];
    writer.write(`${long}more`, true);
    expect(host.lastElementChild).toBe(open);
    expect([...host.querySelectorAll(".al-piece")].slice(0, pieces.length)).toEqual(pieces);
    expect(host.textContent).toBe(`${long}more`);
  });

  it("lays out long plain text in pieces, cut after lines where there are any", () => {
    const host = document.createElement("div");
    const writer = new Writer(host);
    const text = "a line of some length\n".repeat(2000);
    for (let end = 0; end < text.length; end += 1000) {
      writer.write(text.slice(0, end), true);
    }
    const pieces = [...host.querySelectorAll(".al-piece")].map((piece) => piece.textContent ?? "");
    expect(pieces.length).toBeGreaterThan(5);
    expect(pieces.slice(0, -1).every((piece) => piece.endsWith("\n"))).toBe(true);
    expect(pieces.every((piece) => piece.length < 6000)).toBe(true);
  });

  it("shows an open fence as code before it closes", () => {
    const host = document.createElement("div");
    const writer = new Writer(host);
    writer.write("Look:\n```python\nx = 1\ny", true);
    expect(host.querySelector("pre > code")?.textContent).toBe("x = 1\ny");
    writer.write("Look:\n```python\nx = 1\ny = 2\n```\nDone", true);
    expect(host.querySelectorAll("pre")).toHaveLength(1);
    expect(host.querySelector("pre > code")?.textContent).toBe("x = 1\ny = 2");
  });

  it("settles a long list between its items, and goes on counting", () => {
    const list = Array.from({ length: 400 }, (_, n) => `${n + 1}. item number ${n + 1}`).join("\n");
    const host = grown(list, 100);
    const lists = [...host.querySelectorAll("ol")];
    expect(lists.length).toBeGreaterThan(2);
    expect(host.querySelectorAll("li")).toHaveLength(400);
    const before = lists[0]?.children.length ?? 0;
    expect(lists[1]?.getAttribute("start")).toBe(String(before + 1));
  });

  it("goes on with a block that grows again after it was whole", () => {
    const host = document.createElement("div");
    const writer = new Writer(host);
    writer.write("A1 ", true);
    writer.write("A1 ", false);
    writer.write("A1 A2", true);
    writer.write("A1 A2", false);
    expect(host.textContent).toBe("A1 A2");
  });
});

describe("a long text", () => {
  const paragraphs = Array.from(
    { length: 600 },
    (_, n) => `Paragraph ${n} ${"word ".repeat(40)}\n\n`,
  );

  it("lies in chunks, of which those that the browser has seen may go out of its sight", () => {
    const host = document.createElement("div");
    const writer = new Writer(host);
    let text = "";
    for (const paragraph of paragraphs) {
      text += paragraph;
      writer.write(text, true);
    }
    const chunks = [...host.querySelectorAll(".al-chunk")];
    expect(chunks.length).toBeGreaterThan(3);
    expect(chunks.map((chunk) => chunk.classList.contains("al-far"))).toEqual([
      ...chunks.slice(1).map(() => true),
      false,
    ]);
    expect(host.textContent).toBe(text);
  });

  it("that comes at once has no height yet that could be kept", () => {
    const host = document.createElement("div");
    new Writer(host).write(paragraphs.join(""), false);
    expect(host.querySelectorAll(".al-chunk").length).toBeGreaterThan(1);
    expect(host.querySelectorAll(".al-far")).toHaveLength(0);
  });

  it("keeps the parts of a list of 24,000 characters together: a gap would show", () => {
    const host = document.createElement("div");
    new Writer(host).write("- item of a list\n".repeat(1500), false);
    expect(host.querySelectorAll(".al-chunk")).toHaveLength(1);
  });
});
