// One turn: what was asked for, its rounds, and how it ended.
import type { Connection } from "../channel";
import type { Turn } from "../state";
import type { Sent, Store } from "../store";
import { PauseView } from "./pause";
import { pure } from "./pure";
import { asksAbout, RoundView, Said } from "./round";
import { clock, count, endTone, roundWord, shortPath } from "./words";

// A turn longer than this folds all but its last rounds.
const LONG = 12;
const LEFT_OPEN = 6;

interface Props {
  readonly store: Store;
  readonly turn: Turn;
  readonly index: number;
  readonly commands: Readonly<Record<string, Sent>>;
  readonly connection: Connection;
}

export const TurnView = pure(({ store, turn, index, commands, connection }: Props) => {
  const { rounds, question } = turn;
  const folded = rounds.length > LONG ? rounds.length - LEFT_OPEN : 0;
  return (
    <section class="al-turn" data-turn={index}>
      <Said text={turn.prompt} part="prompt" />
      {rounds.map((round, place) => {
        const { word, tone } = roundWord(round, turn);
        const asked = question !== null && asksAbout(question, round) ? question : null;
        return (
          <RoundView
            key={round.round}
            store={store}
            runId={turn.run_id}
            round={round}
            question={asked}
            commands={commands}
            connection={connection}
            fold={place < folded && asked === null}
            word={word}
            tone={tone}
          />
        );
      })}
      {turn.pause !== null && (
        <PauseView
          store={store}
          runId={turn.run_id}
          pause={turn.pause}
          commands={commands}
          connection={connection}
        />
      )}
      {turn.exit_reason !== null && <End turn={turn} />}
    </section>
  );
});

function End({ turn }: { turn: Turn }) {
  const { input_tokens, output_tokens } = turn.usage;
  const facts = [
    clock(turn.elapsed ?? 0),
    `${count(input_tokens)} in`,
    `${count(output_tokens)} out`,
    ...(turn.snapshot === null ? [] : [`saved in ${shortPath(turn.snapshot)}`]),
  ];
  return (
    <div
      class="al-end"
      data-part="end"
      data-reason={turn.exit_reason}
      data-tone={endTone(turn.exit_reason ?? "")}
    >
      <strong>{turn.message}</strong>{" "}
      <span class="al-quiet" title={turn.snapshot ?? undefined}>
        {facts.join(" \u00b7 ")}
      </span>
    </div>
  );
}
