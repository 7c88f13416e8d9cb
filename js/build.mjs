// Bundles the front end into the two files that the Python package serves, and holds the script
// to its size: it travels with every widget, so growth is paid for in every notebook.
// Run as `node build.mjs [folder for the built files]`.
import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const SCRIPT_LIMIT_BYTES = 150_000; // docs: 150 kB, of which a page loads each byte once per kernel
const here = dirname(fileURLToPath(import.meta.url));
const out = process.argv[2]
  ? resolve(process.argv[2])
  : join(here, "..", "agentloop_nb", "notebook", "static");

const common = {
  absWorkingDir: here,
  bundle: true,
  minify: true,
  target: "es2022",
  outdir: out,
  write: false, // written below, once every size is known to be fine
  logLevel: "warning",
  legalComments: "eof", // the licences of what is bundled have to travel with it
};

async function bundle(options) {
  const result = await build({ ...common, ...options });
  const [file] = result.outputFiles;
  return file;
}

const script = await bundle({
  entryPoints: { widget: "src/index.ts" },
  format: "esm",
  define: { "process.env.NODE_ENV": '"production"' },
  loader: { ".css": "empty" }, // the theme is a file of its own, which the widget names
});
const theme = await bundle({ entryPoints: { widget: "src/theme.css" } });

for (const file of [script, theme]) {
  console.log(`${file.path}: ${(file.contents.length / 1000).toFixed(1)} kB`);
}
if (script.contents.length > SCRIPT_LIMIT_BYTES) {
  console.error(
    `The widget's script is ${script.contents.length} bytes, more than the ${SCRIPT_LIMIT_BYTES} ` +
      "it may have. Take something out; nothing was written.",
  );
  process.exit(1);
}
await mkdir(out, { recursive: true });
for (const file of [script, theme]) {
  await writeFile(file.path, file.contents);
}
