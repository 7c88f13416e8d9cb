// One tool call: a line with its state, its details when opened, and its open question.
import { useState } from "preact/hooks";
import type { ImageBlock } from "../events";
import type { CallItem } from "../state";
import type { Sent } from "../store";
import { Chevron } from "./prose";
import { pure } from "./pure";
import { briefly, callWord, decisionWords, duration, firstLine, visible } from "./words";

const FAILED = new Set(["error", "invalid", "timeout"]);
// The model is told at length why these did not run; a person knows, and the state says it.
const NOT_RUN = new Set(["declined", "unanswered"]);
const ERROR_LINES = 3; // the user's own line of code, its source, the error

export const Call = pure(({ item, sent }: { item: CallItem; sent: Sent | undefined }) => {
  const [open, setOpen] = useState(false);
  const { sign, word, tone } = callWord(item.state);
  return (
    <section class="al-call" data-call={item.id} data-state={item.state} data-tone={tone}>
      <button
        type="button"
        class="al-call-line"
        aria-expanded={open}
        onClick={() => setOpen(!open)}
      >
        <Chevron open={open} />
        <span class="al-call-name">{visible(item.name)}</span>
        <span class="al-call-brief">{briefly(item)}</span>
        <span class="al-call-state">
          <span aria-hidden="true">{sign}</span> {word}
          {item.duration ? ` \u00b7 ${duration(item.duration)}` : ""}
        </span>
      </button>
      {open ? <Details item={item} /> : <Summary item={item} />}
      {item.decision !== null && <p class="al-decision">{decisionWords(item.decision)}</p>}
      {sent?.status === "failed" && item.state !== "waiting" && (
        <p class="al-decision">Your click had no effect: {sent.why}</p>
      )}
    </section>
  );
});

// What shows under a closed line: progress while it runs, then the result at its size.
function Summary({ item }: { item: CallItem }) {
  if (item.progress !== null) {
    const { fraction, text } = item.progress;
    return (
      <p class="al-call-note">
        {fraction !== null && <progress value={fraction} max={1} />} {text}
      </p>
    );
  }
  if (item.result === null) {
    const printed = item.output.at(-1)?.text.trimEnd() ?? "";
    const line = printed.slice(printed.lastIndexOf("\n") + 1);
    return line === "" ? null : <p class="al-call-note al-mono">{firstLine(line)}</p>;
  }
  if (NOT_RUN.has(item.state)) {
    return null;
  }
  const said = item.result.display ?? item.result.content;
  if (FAILED.has(item.state)) {
    return <pre class="al-error">{said.split("\n").slice(0, ERROR_LINES).join("\n")}</pre>;
  }
  return (
    <>
      {said.trim() !== "" && <p class="al-call-note">{brieflySaid(said)}</p>}
      <Images images={item.result.images} />
    </>
  );
}

function brieflySaid(text: string): string {
  const lines = text.trim().split("\n").length;
  return lines === 1 ? firstLine(text) : `${firstLine(text)}  (${lines} lines)`;
}

function Details({ item }: { item: CallItem }) {
  const { input, result } = item;
  return (
    <div class="al-details">
      {result?.display && (
        <Part title={FAILED.has(item.state) ? "What happened" : "Shown"} text={result.display} />
      )}
      {input !== null && typeof input === "object" ? (
        <>
          <h4>Arguments</h4>
          <Values
            title="Arguments"
            values={Object.entries(input).map(([name, value]) => [name, asText(value)])}
          />
        </>
      ) : (
        <Part title="Arguments" text={visible(input ?? item.text)} />
      )}
      {item.output.map((output, index) => (
        <Part key={index} title={`Printed (${output.stream})`} text={output.text} />
      ))}
      {result !== null && (
        <Part
          title={result.display || NOT_RUN.has(item.state) ? "What the model was told" : "Result"}
          text={result.content}
        />
      )}
      {result !== null && <Images images={result.images} />}
    </div>
  );
}

const asText = (value: unknown): string =>
  visible(typeof value === "string" ? value : JSON.stringify(value, null, 2));

function Part({ title, text }: { title: string; text: string }) {
  return text === "" ? null : (
    <>
      <h4>{title}</h4>
      <pre>{text}</pre>
    </>
  );
}

// Names and values, one a row. Empty where there are none.
export function Values({
  title,
  values,
}: {
  title: string;
  values: readonly (readonly [string, string])[];
}) {
  if (values.length === 0) {
    return <p class="al-call-note">No arguments</p>;
  }
  return (
    <table class="al-values" aria-label={title}>
      <tbody>
        {values.map(([name, value]) => (
          <tr key={name}>
            <th scope="row">{name}</th>
            <td>
              <pre>{value}</pre>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

// Pictures of a tool, inline and never fetched. SVG can carry scripts and styles; it is named only.
const PICTURES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);

function Images({ images }: { images: readonly ImageBlock[] }) {
  return (
    <>
      {images.map(({ media_type, data }, index) =>
        PICTURES.has(media_type) ? (
          <img key={index} alt={`Result ${index + 1}`} src={`data:${media_type};base64,${data}`} />
        ) : (
          <p key={index} class="al-call-note">
            An image of type {media_type}, which is not shown here
          </p>
        ),
      )}
    </>
  );
}
