import "../testing-dom";
import { expect, it } from "vitest";
import { Follow } from "./follow";

const BOX = 100;

// Where the reader is after looks at these places: [scrollTop, scrollHeight].
function after(...places: [number, number][]): boolean {
  const follow = new Follow();
  for (const [scrollTop, scrollHeight] of places) {
    follow.look({ scrollTop, scrollHeight, clientHeight: BOX });
  }
  return follow.atEnd;
}

it.each<[string, boolean, [number, number][]]>([
  ["text that does not fill its box", true, [[0, 80]]],
  ["a reader at the end", true, [[900, 1000]]],
  ["a page that rounds", true, [[899, 1000]]],
  [
    "the first pixels up",
    false,
    [
      [900, 1000],
      [895, 1000],
    ],
  ],
  [
    "gentle steps up",
    false,
    [
      [900, 1000],
      [895, 1000],
      [885, 1000],
      [870, 1000],
    ],
  ],
  [
    "a line that came without being drawn here",
    true,
    [
      [900, 1000],
      [900, 1020],
    ],
  ],
  [
    "details that were opened",
    false,
    [
      [900, 1000],
      [900, 1300],
    ],
  ],
  [
    "a reader who comes down close to the end",
    true,
    [
      [500, 1000],
      [870, 1000],
    ],
  ],
  [
    "a reader who came up close to the end",
    false,
    [
      [900, 1000],
      [870, 1000],
      [870, 1000],
    ],
  ],
  [
    "text that grows behind someone who went up",
    false,
    [
      [900, 1000],
      [895, 1000],
      [895, 1010],
    ],
  ],
  [
    "text that shrinks to the reader's place",
    true,
    [
      [500, 1000],
      [300, 400],
    ],
  ],
])("%s: follows %s", (_what, follows, places) => {
  expect(after(...places)).toBe(follows);
});

it("goes to the end only where it follows", () => {
  const box = Object.assign(document.createElement("div"), { scrollTop: 0 });
  Object.defineProperties(box, { scrollHeight: { value: 1000 }, clientHeight: { value: BOX } });
  const follow = new Follow();
  follow.go(box);
  expect(box.scrollTop).toBe(1000);
  box.scrollTop = 500;
  follow.look(box);
  follow.go(box);
  expect(box.scrollTop).toBe(500);
});
