// Copy on write for one batch of events: an object is copied the first time the batch touches it,
// and what it does not touch keeps its identity, so that a view can skip it.
import type { Item, Round, Turn } from "./state";

export class Draft {
  readonly #own = new Set<object>();

  own<T extends object>(value: T): T {
    if (this.#own.has(value)) {
      return value;
    }
    return this.made((Array.isArray(value) ? [...value] : { ...value }) as T);
  }

  made<T extends object>(value: T): T {
    this.#own.add(value);
    return value;
  }

  // The element of a list that is our own, made our own too.
  at<T extends object>(list: T[], index: number): T | undefined {
    const value = list[index];
    if (value === undefined) {
      return undefined;
    }
    const own = this.own(value);
    list[index] = own;
    return own;
  }

  last<T extends object>(list: T[]): T | undefined {
    return this.at(list, list.length - 1);
  }

  lastRound(turn: Turn): Round | undefined {
    turn.rounds = this.own(turn.rounds);
    return this.last(turn.rounds);
  }

  items(round: Round): Item[] {
    round.items = this.own(round.items);
    return round.items;
  }
}

// The place of the last element that is picked, -1 where none is.
export function lastIndex<T>(list: readonly T[], picked: (value: T) => boolean): number {
  let index = list.length - 1;
  for (let value = list[index]; value !== undefined && !picked(value); value = list[index]) {
    index -= 1;
  }
  return index;
}
