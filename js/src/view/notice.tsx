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
  if (connection !== "lost") {
    return null;
  }
  const ended = turn === undefined ? savedEnded : turn.exit_reason !== null;
  const name = JSON.stringify(sessionId);
  const code = ended ? `agent.session(${name}).start("\u2026")` : `agent.resume(${name})`;
  if (turn === undefined) {
    return (
      <Words>
        {ended ? "A run that has ended. " : "A run. "}
        Its view comes from the kernel that ran it, and no kernel answers now. It may be busy with a
        cell: then the view comes by itself. If it has ended, go on from a cell with{" "}
        <code>{code}</code>.
      </Words>
    );
  }
  return (
    <Words>
      It may be busy with a cell: then this view comes back by itself. If it has ended, go on in a
      new one with <code>{code}</code>.
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
