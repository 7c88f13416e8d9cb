// Text and thinking of a model. Both are Markdown; thinking folds away once something follows it.
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { TextItem } from "../state";
import { pure } from "./pure";
import { duration } from "./words";
import { Writer } from "./writer";

export const Prose = pure(({ item }: { item: TextItem }) => (
  <div class="al-text" data-part="text" data-open={item.open ? "" : undefined}>
    <Growing text={item.text} open={item.open} />
  </div>
));

export const Thinking = pure(({ item }: { item: TextItem }) => {
  const [chosen, choose] = useState<boolean | null>(null);
  const unfolded = chosen ?? item.open;
  const took = item.t1 === null ? 0 : item.t1 - item.t0;
  const label = item.open ? "Thinking" : `Thought${took >= 0.1 ? ` for ${duration(took)}` : ""}`;
  return (
    <section class="al-thinking" data-open={item.open ? "" : undefined}>
      <button
        type="button"
        class="al-fold"
        aria-expanded={unfolded}
        onClick={() => choose(!unfolded)}
      >
        <Chevron open={unfolded} /> {label}
      </button>
      <div class="al-thought" data-part="thinking" hidden={!unfolded}>
        <Growing text={item.text} open={item.open} />
      </div>
    </section>
  );
});

export const Chevron = ({ open }: { open: boolean }) => (
  <span class="al-chevron" aria-hidden="true" data-open={open ? "" : undefined} />
);

// The element is the writer's alone: what it holds is never drawn from here.
const Growing = ({ text, open }: { text: string; open: boolean }) => {
  const host = useRef<HTMLDivElement>(null);
  const writer = useRef<Writer | null>(null);
  useLayoutEffect(() => {
    if (host.current !== null) {
      writer.current ??= new Writer(host.current);
      writer.current.write(text, open);
    }
  }, [text, open]);
  return <div class="al-prose" ref={host} />;
};
