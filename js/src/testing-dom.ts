// happy-dom's `Node.prototype.nodeName` is empty, and DOMPurify reads names by that getter (a page
// could have hidden an element's own). Import this before anything that imports DOMPurify.
const OTHERS: Record<number, string> = { 3: "#text", 8: "#comment", 9: "#document" };

Object.defineProperty(Node.prototype, "nodeName", {
  configurable: true,
  get(this: Node): string {
    return this instanceof Element ? this.tagName : (OTHERS[this.nodeType] ?? "#document-fragment");
  },
});
