// The open question, inline at its call. Nothing here is focused by itself, so no key that someone
// types elsewhere can approve; the countdown is the kernel's, shown.
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Connection } from "../channel";
import type { ApprovalItem } from "../events";
import type { DecisionSent } from "../protocol";
import type { OpenQuestion } from "../state";
import { answerKey, type Sent, type Store } from "../store";
import { Values } from "./call";
import { remaining, useNow } from "./clock";
import { pure } from "./pure";
import { clock, reachable, standing, visible } from "./words";

interface Props {
  readonly store: Store;
  readonly runId: string;
  readonly question: OpenQuestion;
  readonly commands: Readonly<Record<string, Sent>>;
  readonly connection: Connection;
}

export const Approval = pure(({ store, runId, question, commands, connection }: Props) => {
  const connected = reachable(connection);
  const decide = (decisions: DecisionSent[]) => store.answer(runId, question.id, decisions);
  const left = question.items.filter((item) => !question.decided.includes(item.call_id));
  const title = left.length === 1 ? "May this run?" : `May these ${left.length} calls run?`;
  return (
    <section
      class="al-approval"
      data-part="approval"
      data-question={question.id}
      data-off={connected ? undefined : ""}
      tabIndex={-1}
      aria-label={title}
    >
      <header>
        <strong>{title}</strong>
        {question.timeout_s !== null && (
          <Remaining
            store={store}
            t0={question.t0}
            timeout={question.timeout_s}
            connection={connection}
          />
        )}
      </header>
      {left.map((item) => (
        <Asked
          key={item.call_id}
          item={item}
          sent={about(question.id, commands[answerKey(runId, item.call_id)])}
          connected={connected}
          decide={(approved, reason) => decide([{ call_id: item.call_id, approved, reason }])}
        />
      ))}
      {left.length > 1 && (
        <footer>
          <button
            type="button"
            class="al-button"
            data-action="approve-all"
            disabled={!connected}
            onClick={() =>
              decide(left.map((item) => ({ call_id: item.call_id, approved: true, reason: "" })))
            }
          >
            Approve all {left.length}
          </button>
        </footer>
      )}
    </section>
  );
});

// What was said to this question. A call that is asked about again, after a resume, is undecided.
const about = (questionId: string, sent: Sent | undefined): Sent | undefined =>
  sent?.about === questionId ? sent : undefined;

interface AskedProps {
  readonly item: ApprovalItem;
  readonly sent: Sent | undefined;
  readonly connected: boolean;
  readonly decide: (approved: boolean, reason: string) => void;
}

function Asked({ item, sent, connected, decide }: AskedProps) {
  const [declining, setDeclining] = useState(false);
  const busy = sent?.status === "sent" || sent?.status === "taken";
  const off = busy || !connected;
  return (
    <div class="al-asked" data-item={item.call_id}>
      <p class="al-asked-name">
        <span class="al-mono">{visible(item.name)}</span>
        {item.description !== "" && (
          <span class="al-quiet"> {item.description.split("\n")[0]}</span>
        )}
      </p>
      <Values title={`Arguments of ${item.name}`} values={item.shown} />
      {item.shown.some(([, value]) => SPELT.test(value)) && (
        <p class="al-warning">
          Some characters here cannot be seen or change the direction of the text. They are written
          out, like \u200b.
        </p>
      )}
      <Buttons
        name={item.name}
        sent={sent}
        off={off}
        declining={declining}
        approve={() => decide(true, "")}
        decline={() => setDeclining(!declining)}
      />
      {declining && !busy && (
        <Reason
          name={item.name}
          off={off}
          decline={(reason) => decide(false, reason)}
          close={() => setDeclining(false)}
        />
      )}
    </div>
  );
}

interface ButtonsProps {
  readonly name: string;
  readonly sent: Sent | undefined;
  readonly off: boolean;
  readonly declining: boolean;
  readonly approve: () => void;
  readonly decline: () => void;
}

function Buttons({ name, sent, off, declining, approve, decline }: ButtonsProps) {
  return (
    <div class="al-buttons">
      <button
        type="button"
        class="al-button al-primary"
        data-action="approve"
        aria-label={`Approve ${name}`}
        disabled={off}
        onClick={approve}
      >
        Approve
      </button>
      <button
        type="button"
        class="al-button"
        data-action="decline"
        aria-label={`Decline ${name}`}
        aria-expanded={declining}
        disabled={off}
        onClick={decline}
      >
        Decline{"\u2026"}
      </button>
      {sent !== undefined && sent.status !== "failed" && <span class="al-quiet">Sent</span>}
      {sent?.status === "failed" && <span class="al-warning">{sent.why}</span>}
    </div>
  );
}

const SPELT = /\\u[0-9a-f]{4}|\\U[0-9a-f]{8}/;

interface ReasonProps {
  readonly name: string;
  readonly off: boolean;
  readonly decline: (reason: string) => void;
  readonly close: () => void;
}

function Reason({ name, off, decline, close }: ReasonProps) {
  const field = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => {
    field.current?.form?.scrollIntoView({ block: "nearest" });
    field.current?.focus({ preventScroll: true });
  }, []);
  const send = () => off || decline(field.current?.value ?? "");
  return (
    <form
      class="al-reason"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
      onKeyDown={(event) => event.key === "Escape" && close()}
    >
      <input
        ref={field}
        type="text"
        class="al-field"
        placeholder="Reason, if you like: the model reads it"
        aria-label={`Reason for declining ${name}`}
        onKeyDown={(event) => {
          // In JupyterLab's notebooks Enter does not submit a form by itself.
          if (event.key === "Enter" && !event.isComposing) {
            event.preventDefault();
            send();
          }
        }}
      />
      <button type="submit" class="al-button" data-action="decline-now" disabled={off}>
        Decline
      </button>
    </form>
  );
}

interface RemainingProps {
  readonly store: Store;
  readonly t0: number;
  readonly timeout: number;
  readonly connection: Connection;
}

function Remaining({ store, t0, timeout, connection }: RemainingProps) {
  const seconds = remaining(t0, timeout, useNow(store, connection === "live"));
  const stands = standing(connection);
  return (
    <span
      class="al-remaining"
      data-part="remaining"
      data-seconds={seconds}
      data-short={seconds <= 10 && stands === "" ? "" : undefined}
      role="timer"
      title="Time left to answer; after that the call does not run"
    >
      {stands !== "" && <span class="al-stands">{`${stands} \u00b7 `}</span>}
      {clock(seconds)}
    </span>
  );
}
