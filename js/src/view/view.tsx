// The whole view of a store, drawn once per change. What it needs to know of its place on the page
// (is the reader at the end, is the question in sight) comes from mount.tsx.

import type { State } from "../state";
import { lastTurn, SAY, type Shown, type Store } from "../store";
import { Composer } from "./composer";
import { Header } from "./header";
import { Notice } from "./notice";
import { Rail } from "./rail";
import { TurnView } from "./turn";
import { reachable } from "./words";

export interface Place {
  readonly atEnd: boolean;
  readonly questionAway: boolean;
}

export interface Go {
  readonly toEnd: () => void;
  readonly toQuestion: () => void;
  readonly toRound: (turn: number, round: number) => void;
}

interface Props {
  readonly store: Store;
  readonly shown: Shown;
  readonly place: Place;
  readonly go: Go;
}

export function View({ store, shown, place, go }: Props) {
  const { state, connection, commands } = shown;
  const turn = lastTurn(state);
  const connected = reachable(connection);
  return (
    <>
      <Header
        store={store}
        shown={shown}
        turn={turn}
        away={place.questionAway}
        toQuestion={go.toQuestion}
      />
      <Notice
        connection={connection}
        turn={turn}
        sessionId={store.sessionId}
        savedEnded={store.savedEnded}
      />
      {turn !== undefined && <Body store={store} shown={shown} place={place} go={go} />}
      {turn !== undefined && (
        <Composer
          store={store}
          sent={commands[SAY]}
          connected={connected}
          running={turn.exit_reason === null}
        />
      )}
      <p class="al-unseen" data-part="announce" aria-live="polite">
        {announcement(state)}
      </p>
    </>
  );
}

function Body({ store, shown, place, go }: Props) {
  const { state, connection, commands } = shown;
  return (
    <div class="al-body">
      <Rail state={state} toRound={go.toRound} />
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolled box needs the keyboard */}
      <section class="al-scroller" data-part="scroller" tabIndex={0} aria-label="Run">
        {state.turns.map((each, index) => (
          <TurnView
            key={each.run_id}
            store={store}
            turn={each}
            index={index}
            commands={commands}
            connection={connection}
          />
        ))}
      </section>
      {!place.atEnd && (
        <button
          type="button"
          class="al-button al-primary al-to-end"
          data-action="to-end"
          title="To the end"
          aria-label="To the end"
          onClick={go.toEnd}
        >
          {"\u2193"}
        </button>
      )}
    </div>
  );
}

// What a screen reader says: it changes once per event, so it is read once per event.
export function announcement(state: State): string {
  const turn = lastTurn(state);
  if (turn === undefined) {
    return "";
  }
  if (turn.exit_reason !== null) {
    return turn.message;
  }
  if (turn.question !== null) {
    const names = turn.question.items.map((item) => item.name).join(", ");
    return `The agent asks whether it may run ${names}.`;
  }
  const round = turn.rounds.at(-1);
  return round === undefined ? "" : `Round ${round.round} began.`;
}
