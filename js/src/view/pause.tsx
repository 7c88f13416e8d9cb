// The run waits before it asks the provider again: how long still, and a way not to wait.
import type { Connection } from "../channel";
import type { Pause } from "../state";
import { RETRY, type Sent, type Store } from "../store";
import { remaining, useNow } from "./clock";
import { clock, reachable } from "./words";

interface Props {
  readonly store: Store;
  readonly runId: string;
  readonly pause: Pause;
  readonly commands: Readonly<Record<string, Sent>>;
  readonly connection: Connection;
}

export function PauseView({ store, runId, pause, commands, connection }: Props) {
  const now = useNow(store, connection === "live");
  const sent = commands[RETRY];
  const asked = sent?.about === `${runId} ${pause.t0}` ? sent : undefined;
  const waiting = asked !== undefined && asked.status !== "failed";
  return (
    <div class="al-pause" data-part="pause" data-kind={pause.kind}>
      <span role="timer">{words(pause, now)}</span>
      <button
        type="button"
        class="al-button"
        data-action="retry-now"
        disabled={waiting || !reachable(connection)}
        onClick={() => store.retryNow(runId, pause.t0)}
      >
        Try now
      </button>
      {asked?.status === "failed" && <span class="al-warning">{asked.why}</span>}
    </div>
  );
}

function words(pause: Pause, now: number): string {
  if (pause.wait_s === null) {
    return "The provider keeps failing. Another run is trying it now.";
  }
  const left = clock(remaining(pause.t0, pause.wait_s, now));
  return pause.kind === "circuit"
    ? `The provider keeps failing. One more try in ${left}.`
    : `The next try is in ${left}.`;
}
