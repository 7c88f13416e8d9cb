// Markdown to nodes of the page, and the one sanitiser. Nothing a model writes runs here or loads
// anything: HTML shows as the text it is, images show as words, links wait for a click.
import DOMPurify from "dompurify";
import { Marked, type Token } from "marked";

// One block longer than this stays plain text. Of the worst text for the parser, 20,000 characters
// take half a second and 50,000 take three and a half.
export const LONGEST_FORMATTED = 20_000;

const FENCED = /^ {0,3}(?:```|~~~)/;
const SAFE_LINK = /^(?:https?|mailto):/i;

const marked = new Marked({
  gfm: true,
  renderer: {
    html: ({ raw }) => escaped(raw),
    image: ({ raw }) => escaped(raw),
    checkbox: ({ checked }) => (checked ? "\u2611 " : "\u2610 "),
    code: ({ text }) => `<pre><code>${escaped(text)}</code></pre>`,
    link({ href, tokens, raw }) {
      const words = this.parser.parseInline(tokens);
      if (!SAFE_LINK.test(href)) {
        return escaped(raw);
      }
      const to = escaped(href);
      return `<a href="${to}" title="${to}" target="_blank" rel="noopener noreferrer">${words}</a>`;
    },
  },
});

const ALLOWED = {
  ALLOWED_TAGS: [
    ...["p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "ul", "ol", "li"],
    ...["strong", "em", "del", "code", "pre", "a"],
    ...["table", "thead", "tbody", "tr", "th", "td"],
  ],
  ALLOWED_ATTR: ["href", "title", "target", "rel", "start", "align"],
  ADD_URI_SAFE_ATTR: ["title", "target", "rel", "start", "align"], // not addresses
  ALLOWED_URI_REGEXP: SAFE_LINK,
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
};

// The nodes of a piece of Markdown: one block, or several short ones. Space between blocks is kept,
// so that the text of plain paragraphs is the text that was written.
export function toNodes(text: string): DocumentFragment {
  const html = toHtml(text);
  if (html !== null) {
    return DOMPurify.sanitize(html, { ...ALLOWED, RETURN_DOM_FRAGMENT: true });
  }
  const plain = document.createDocumentFragment();
  plain.append(plainNode(text));
  return plain;
}

// Null where the text is too long to format, or nested so deep that the parser runs out of stack.
function toHtml(text: string): string | null {
  if (text.length > LONGEST_FORMATTED && !FENCED.test(text)) {
    return null;
  }
  try {
    return marked.lexer(text).map(blockHtml).join("");
  } catch {
    return null;
  }
}

export function plainNode(text: string): HTMLElement {
  const node = document.createElement("div");
  node.className = "al-plain";
  node.textContent = text;
  return node;
}

function blockHtml(token: Token): string {
  if (token.type === "space") {
    return token.raw;
  }
  const after = /\n\s*$/.exec(token.raw)?.[0] ?? "";
  return marked.parser([token]).trimEnd() + after;
}

const ESCAPES: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };

function escaped(text: string): string {
  return text.replace(/[&<>"]/g, (char) => ESCAPES[char] ?? char);
}
