// The run's clock for what counts seconds: it draws anew four times a second, and no more.
import { useLayoutEffect, useState } from "preact/hooks";
import type { Store } from "../store";

const TICK_MS = 250;

// Seconds since the run began, now.
export function useNow(store: Store, running: boolean): number {
  const [, turn] = useState(0);
  useLayoutEffect(() => {
    if (!running) {
      return undefined;
    }
    const timer = setInterval(() => turn((ticks) => ticks + 1), TICK_MS);
    return () => clearInterval(timer);
  }, [running]);
  return store.now();
}

// Whole seconds left of a wait, never below 0.
export function remaining(t0: number, timeout: number, now: number): number {
  return Math.max(0, Math.ceil(t0 + timeout - now));
}
