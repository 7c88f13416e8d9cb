// The page's side of the hostile channel: real stores, on a clock that the test turns.
//
// One JSON line in, one out. {op: "reset"} forgets everything; {op: "open", page} opens a page;
// {op: "hear", page, content} has it hear a message; {op: "turn", to} lets timers and frames run up
// to a moment in ms; {op: "do", page, method, args} calls the store as a view does; {op: "show",
// page} answers with what it shows. Every answer has `sent`: what the pages said since the last one.
import { createRequire } from "node:module";
import { resolve } from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

// -- the clock: what the page's code uses of a browser's timers

let now = 0;
let timers = [];
let numbers = 0;

const at = (callback, due, every) => {
  timers.push({ number: ++numbers, callback, due, every });
  return numbers;
};
const clear = (number) => {
  timers = timers.filter((timer) => timer.number !== number);
};
function turn(to) {
  for (;;) {
    const next = timers.reduce((a, b) => (b.due < (a?.due ?? Infinity) ? b : a), undefined);
    if (next === undefined || next.due > to) {
      break;
    }
    now = Math.max(now, next.due);
    if (next.every) {
      next.due += next.every;
    } else {
      clear(next.number);
    }
    next.callback(now);
  }
  now = Math.max(now, to);
}

// -- the pages

let pages = new Map();
let sent = [];

class Model {
  constructor(page) {
    this.page = page;
    this.ear = () => {};
  }
  get() {}
  on(_name, ear) {
    this.ear = ear;
  }
  off() {}
  send(content) {
    sent.push([this.page, content]);
  }
}

async function load() {
  const require = createRequire(resolve("package.json"));
  const { createServer } = await import(pathToFileURL(require.resolve("vite")).href);
  const server = await createServer({
    configFile: false,
    root: resolve("."),
    logLevel: "error",
    appType: "custom",
    server: { middlewareMode: true, hmr: false, ws: false, watch: null },
    optimizeDeps: { noDiscovery: true },
  });
  const { Store } = await server.ssrLoadModule("/src/store.ts");
  await server.close();
  return Store;
}

const Store = await load(); // with the real timers
globalThis.performance.now = () => now;
globalThis.setInterval = (callback, ms) => at(callback, now + ms, ms);
globalThis.clearInterval = clear;
globalThis.requestAnimationFrame = (callback) => at(callback, now + 16);
globalThis.cancelAnimationFrame = clear;

const ops = {
  reset() {
    now = 0;
    timers = [];
    pages = new Map();
  },
  open({ page }) {
    const model = new Model(page);
    const store = new Store(model);
    pages.set(page, { model, store });
    store.open();
  },
  hear({ page, content }) {
    pages.get(page).model.ear(content);
  },
  turn({ to }) {
    turn(to);
  },
  do({ page, method, args }) {
    pages.get(page).store[method](...args);
  },
  show({ page }) {
    const { state, connection, commands } = pages.get(page).store.shown;
    return { state, connection, commands };
  },
};

process.stdout.write("ready\n");
for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  const said = ops[request.op](request) ?? null;
  process.stdout.write(`${JSON.stringify({ said, sent })}\n`);
  sent = [];
}
