// The timeline: one mark per round, in order, over all turns. With many rounds the marks thin out
// to bars, and the rail stays one rail.
import type { State } from "../state";
import { pure } from "./pure";
import { roundFacts } from "./round";
import { roundWord } from "./words";

const MOST_NUMBERED = 16;

interface Props {
  readonly state: State;
  readonly toRound: (turn: number, round: number) => void;
}

export const Rail = pure(({ state, toRound }: Props) => {
  const total = state.turns.reduce((sum, turn) => sum + turn.rounds.length, 0);
  return (
    <nav class="al-rail" aria-label="Rounds" data-dense={total > MOST_NUMBERED ? "" : undefined}>
      {state.turns.map((turn, index) => (
        <ol key={turn.run_id}>
          {turn.rounds.map((round) => {
            const { sign, word, tone } = roundWord(round, turn);
            const facts = [`Round ${round.round}: ${word}`, roundFacts(round)].filter(Boolean);
            const calls = round.items.filter((item) => item.kind === "call").length;
            const title = [...facts, calls > 0 ? `calls: ${calls}` : ""].filter(Boolean);
            return (
              <li key={round.round}>
                <button
                  type="button"
                  class="al-mark"
                  data-mark={round.round}
                  data-tone={tone}
                  title={title.join(" \u00b7 ")}
                  aria-label={title.join(", ")}
                  onClick={() => toRound(index, round.round)}
                >
                  <span class="al-mark-number">{round.round}</span>
                  <span class="al-mark-sign" aria-hidden="true">
                    {sign}
                  </span>
                </button>
              </li>
            );
          })}
        </ol>
      ))}
    </nav>
  );
});
