// One round: what the model said, the calls it asked for, and the open question at its call. A long
// run folds its finished rounds to a line each.
import { useState } from "preact/hooks";
import type { Connection } from "../channel";
import type { CallItem, Item, NoteItem, OpenQuestion, Round } from "../state";
import { answerKey, type Sent, type Store } from "../store";
import { Approval } from "./approval";
import { Call } from "./call";
import { Chevron, Prose, Thinking } from "./prose";
import { pure } from "./pure";
import { count, duration, type Tone } from "./words";

interface Props {
  readonly store: Store;
  readonly runId: string;
  readonly round: Round;
  readonly question: OpenQuestion | null; // where it asks about calls of this round
  readonly commands: Readonly<Record<string, Sent>>;
  readonly connection: Connection;
  readonly fold: boolean;
  readonly word: string; // its state, where a folded line should say so
  readonly tone: Tone;
}

export const RoundView = pure((props: Props) => {
  const { round, fold, word, tone } = props;
  const [chosen, choose] = useState<boolean | null>(null);
  const unfolded = chosen ?? !fold;
  return (
    <section
      class="al-round"
      data-round={round.round}
      data-folded={unfolded ? undefined : ""}
      data-tone={tone}
      aria-label={`Round ${round.round}`}
    >
      <h3>
        <button
          type="button"
          class="al-fold"
          aria-expanded={unfolded}
          onClick={() => choose(!unfolded)}
        >
          <Chevron open={unfolded} /> Round {round.round}
          <span class="al-quiet">{roundFacts(round)}</span>
          {!unfolded && <span class="al-quiet al-names">{callNames(round)}</span>}
          {!unfolded && tone !== "good" && <span class="al-round-state">{word}</span>}
        </button>
      </h3>
      {unfolded && <Items {...props} />}
    </section>
  );
});

function Items({ store, runId, round, question, commands, connection }: Props) {
  const asked = question?.items.at(-1)?.call_id;
  return (
    <>
      {round.items.map((item, index) => (
        <div key={item.kind === "call" ? item.id : index}>
          <ItemView item={item} runId={runId} commands={commands} />
          {question !== null && item.kind === "call" && item.id === asked && (
            <Approval
              key={question.id}
              store={store}
              runId={runId}
              question={question}
              commands={commands}
              connection={connection}
            />
          )}
        </div>
      ))}
    </>
  );
}

interface ItemProps {
  readonly item: Item;
  readonly runId: string;
  readonly commands: Readonly<Record<string, Sent>>;
}

function ItemView({ item, runId, commands }: ItemProps) {
  switch (item.kind) {
    case "text":
      return <Prose item={item} />;
    case "thinking":
      return <Thinking item={item} />;
    case "call":
      return <Call item={item} sent={commands[answerKey(runId, item.id)]} />;
    case "say":
      return <Said text={item.text} part="said" />;
    case "note":
      return <Note item={item} />;
  }
}

export function Said({ text, part }: { text: string; part: string }) {
  return (
    <div class="al-said" data-part={part}>
      <span class="al-who">You</span>
      <div class="al-words">{text}</div>
    </div>
  );
}

function Note({ item }: { item: NoteItem }) {
  const words = {
    warning: item.text,
    error: item.text,
    retry: item.text,
    resumed: `Went on in a new kernel, with ${item.text}.`,
    unknown: `Something that this version of the view does not know: ${item.text}`,
  };
  return (
    <p class="al-note" data-part="note" data-level={item.level}>
      {words[item.level]}
    </p>
  );
}

export function roundFacts(round: Round): string {
  const facts: string[] = [];
  if (round.t1 !== null) {
    facts.push(duration(round.t1 - round.t0));
  }
  if (round.usage !== null && round.usage.input_tokens + round.usage.output_tokens > 0) {
    const { input_tokens, output_tokens } = round.usage;
    facts.push(`${count(input_tokens)} in`, `${count(output_tokens)} out`);
  }
  return facts.join(" \u00b7 ");
}

const callsOf = (round: Round): CallItem[] => round.items.filter((item) => item.kind === "call");

const callNames = (round: Round): string =>
  callsOf(round)
    .map((call) => call.name)
    .join(", ");

// Whether a question asks about this round's calls.
export const asksAbout = (question: OpenQuestion, round: Round): boolean =>
  callsOf(round).some((call) => question.items.some((item) => item.call_id === call.id));
