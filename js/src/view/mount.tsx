// Puts a view of a store into an element, and keeps its place: the view follows the text only while
// the reader is at the end, and it knows whether the open question is in sight.
import { render } from "preact";
import { lastTurn, type Store } from "../store";
import { Follow } from "./follow";
import { type Go, type Place, View } from "./view";

const EDGE_PX = 24; // a question of which only so much shows is out of sight

// Returns what takes the view out again and leaves nothing behind.
export function mount(el: HTMLElement, store: Store): () => void {
  const root = document.createElement("div");
  root.className = "agentloop-nb";
  root.dataset.agentloop = "view";
  // JupyterLab's single-key shortcuts must not fire while a button in here has the focus.
  root.dataset.lmSuppressShortcuts = "true";
  el.append(root);

  const scroller = () => root.querySelector<HTMLElement>("[data-part=scroller]");
  const go = ways(root, scroller);
  const follow = new Follow();
  let place: Place = { atEnd: true, questionAway: false };
  let paints = 0;

  const draw = () => {
    render(<View store={store} shown={store.shown} place={place} go={go} />, root);
  };
  const look = () => {
    const box = scroller();
    follow.look(box);
    // The search goes through all that is on the page, so it is made only where there is one.
    const asks = (lastTurn(store.shown.state)?.question ?? null) !== null;
    const seen = { atEnd: follow.atEnd, questionAway: asks && questionAway(box) };
    if (seen.atEnd !== place.atEnd || seen.questionAway !== place.questionAway) {
      place = seen;
      draw();
    }
  };
  const paint = () => {
    follow.look(scroller()); // before the text grows
    draw();
    follow.go(scroller());
    paints += 1;
    root.dataset.paints = String(paints);
    look();
  };
  root.addEventListener("scroll", look, { capture: true, passive: true });
  const unsubscribe = store.subscribe(paint);
  paint();
  return () => {
    unsubscribe();
    root.removeEventListener("scroll", look, { capture: true });
    render(null, root);
    root.remove();
  };
}

// Where a click leads to. All but the question stay inside the view's own scrolled box.
function ways(root: HTMLElement, scroller: () => HTMLElement | null): Go {
  return {
    toEnd: () => scroller()?.scrollTo({ top: scroller()?.scrollHeight ?? 0 }),
    toQuestion: () => {
      const question = root.querySelector<HTMLElement>("[data-part=approval]");
      question?.scrollIntoView({ block: "nearest" });
      question?.focus({ preventScroll: true });
    },
    toRound: (turn, round) => {
      const sought = `[data-turn="${turn}"] [data-round="${round}"]`;
      const box = scroller();
      const target = box?.querySelector<HTMLElement>(sought);
      if (box && target) {
        box.scrollTop += target.getBoundingClientRect().top - box.getBoundingClientRect().top;
      }
    },
  };
}

function questionAway(box: HTMLElement | null): boolean {
  const question = box?.querySelector("[data-part=approval]");
  if (!box || !question) {
    return false;
  }
  const [seen, asked] = [box.getBoundingClientRect(), question.getBoundingClientRect()];
  const away = asked.top >= seen.bottom - EDGE_PX || asked.bottom <= seen.top + EDGE_PX;
  return away && seen.height > 0;
}
