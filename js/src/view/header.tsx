// One line on top, always in sight: what is going on, how long, which round, tokens, Stop.

import type { Turn } from "../state";
import { type Shown, STOP, type Store } from "../store";
import { remaining, useNow } from "./clock";
import { clock, count, reachable, status } from "./words";

interface Props {
  readonly store: Store;
  readonly shown: Shown;
  readonly turn: Turn | undefined;
  readonly away: boolean; // an open question is out of sight
  readonly toQuestion: () => void;
}

export function Header({ store, shown, turn, away, toQuestion }: Props) {
  const connected = reachable(shown.connection);
  const running = turn !== undefined && turn.exit_reason === null;
  const now = useNow(store, running && connected);
  const stop = shown.commands[STOP];
  const stopping = stop?.status === "sent" || stop?.status === "taken";
  const { question, pause } = turn ?? { question: null, pause: null };
  const wait = question?.timeout_s ?? pause?.wait_s ?? null;
  const from = question?.t0 ?? pause?.t0 ?? 0;
  const left = wait === null ? null : clock(remaining(from, wait, now));
  const { text, tone } = status(turn, shown.connection, stopping, left);
  return (
    <header class="al-header" data-part="header" data-tone={tone}>
      <span class="al-now">
        <span class="al-dot" aria-hidden="true" />
        {question !== null && connected ? (
          <button
            type="button"
            class="al-status al-link"
            data-part="status"
            data-action="show-question"
            onClick={toQuestion}
          >
            {text}
            {away ? " \u2014 show it" : ""}
          </button>
        ) : (
          <span class="al-status" data-part="status" title={turn?.message}>
            {text}
          </span>
        )}
      </span>
      {turn !== undefined && <Facts turn={turn} elapsed={turn.elapsed ?? now} />}
      {running && (
        <span class="al-stop">
          {stop?.status === "failed" && <span class="al-warning">{stop.why}</span>}
          <button
            type="button"
            class="al-button"
            data-action="stop"
            disabled={stopping || !connected}
            onClick={() => store.stop()}
          >
            <span class="al-square" aria-hidden="true" />
            {stopping ? "Stopping\u2026" : "Stop"}
          </button>
        </span>
      )}
    </header>
  );
}

function Facts({ turn, elapsed }: { turn: Turn; elapsed: number }) {
  const { input_tokens, output_tokens } = turn.usage;
  const round = turn.rounds.at(-1)?.round;
  const most = turn.max_turns === null ? "" : ` of ${turn.max_turns}`;
  return (
    <span class="al-facts">
      {round !== undefined && turn.exit_reason === null && (
        <span title={`Rounds count from 0${most && `; there may be ${turn.max_turns}`}`}>
          round {round}
          {most}
        </span>
      )}
      <span title="Time since the run began">{clock(elapsed)}</span>
      {input_tokens + output_tokens > 0 && (
        <span title="Tokens, as the provider counts them">
          {count(input_tokens)} in {"\u00b7"} {count(output_tokens)} out
        </span>
      )}
    </span>
  );
}
