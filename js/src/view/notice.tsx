// What to know about the way to the kernel, where it is not simply fine.
import type { Connection } from "../channel";
import type { Turn } from "../state";

interface Props {
  readonly connection: Connection;
  readonly turn: Turn | undefined;
  readonly sessionId: string;
  readonly savedEnded: boolean;
}

export function Notice({ connection, turn, sessionId, savedEnded }: Props) {
  if (connection === "newer") {
    return (
      <Words>
        Reload the page to get the view of the newer version. The run goes on meanwhile.
      </Words>
    );
  }
  if (connection === "busy") {
    return (
      <Words>
        {turn === undefined
          ? "The kernel is busy with a cell. The view comes when that is over."
          : "The kernel is busy with a cell. The run stands still meanwhile, and so does the time to answer; what you click acts as soon as the cell is over."}
      </Words>
    );
  }
  if (connection !== "lost" && connection !== "gone") {
    return null;
  }
  const ended = turn === undefined ? savedEnded : turn.exit_reason !== null;
  const name = JSON.stringify(sessionId);
  const code = (
    <code>{ended ? `agent.session(${name}).start("\u2026")` : `agent.resume(${name})`}</code>
  );
  if (connection === "gone") {
    return (
      <Words>
        {ended ? "What you see stays. " : "This run ended with its kernel; what it did is saved. "}
        Go on in a cell with {code}.
      </Words>
    );
  }
  if (turn === undefined) {
    return (
      <Words>
        {ended ? "A run that has ended. " : "A run. "}
        Its view comes from the kernel that ran it, and no kernel answers now. If it has ended, go
        on from a cell with {code}.
      </Words>
    );
  }
  return (
    <Words>
      If it is only slow, this view comes back by itself. If it has ended, go on in a cell with{" "}
      {code}.
    </Words>
  );
}

function Words({ children }: { children: preact.ComponentChildren }) {
  return (
    <p class="al-notice" data-part="notice">
      {children}
    </p>
  );
}
