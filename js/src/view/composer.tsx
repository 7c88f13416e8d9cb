// The text box: adds something to a run that goes on, or begins the next turn after its end.
import { useLayoutEffect, useRef } from "preact/hooks";
import type { Sent, Store } from "../store";
import { pure } from "./pure";

interface Props {
  readonly store: Store;
  readonly sent: Sent | undefined;
  readonly connected: boolean;
  readonly running: boolean;
}

export const Composer = pure(({ store, sent, connected, running }: Props) => {
  const field = useRef<HTMLTextAreaElement>(null);
  const waiting = sent?.status === "sent";
  useLayoutEffect(() => {
    // What could not be sent comes back, unless something new was typed meanwhile.
    if (sent?.status === "failed" && field.current?.value === "") {
      field.current.value = sent.text;
    }
  }, [sent]);
  const send = () => {
    const box = field.current;
    if (box !== null && connected && !waiting && box.value.trim() !== "") {
      store.say(box.value);
      box.value = "";
    }
  };
  const label = running ? "Say something to the agent" : "Send the next message";
  return (
    <form
      class="al-say"
      data-part="say"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      <textarea
        ref={field}
        class="al-field"
        rows={1}
        aria-label={label}
        placeholder={`${label}\u2026`}
        disabled={!connected}
        onKeyDown={(event) => {
          if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
            event.preventDefault();
            send();
          }
        }}
      />
      <button type="submit" class="al-button" data-action="say" disabled={!connected || waiting}>
        Send
      </button>
      <Became sent={sent} running={running} />
    </form>
  );
});

function Became({ sent, running }: { sent: Sent | undefined; running: boolean }) {
  if (sent?.status === "failed") {
    return <p class="al-warning">Not sent. {sent.why}</p>;
  }
  if (sent !== undefined && running) {
    return <p class="al-quiet">The agent sees this with its next request: {sent.text}</p>;
  }
  return null;
}
