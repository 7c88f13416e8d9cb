// Whether the view follows the text as it grows. It does while the reader is at the end; the first
// pixel that they scroll up ends it, however gently, and coming back to the end begins it again.

const NEAR_PX = 40; // who comes down this close to the end wants to be there
const THERE_PX = 2; // browsers round, and pages are zoomed

type Box = Pick<HTMLElement, "scrollTop" | "scrollHeight" | "clientHeight">;

export class Follow {
  atEnd = true;
  #top = 0; // where the reader was at the last look

  look(box: Box | null): void {
    if (box === null) {
      this.atEnd = true;
      this.#top = 0;
      return;
    }
    const { scrollTop: top, scrollHeight, clientHeight } = box;
    const left = scrollHeight - top - clientHeight;
    if (left > NEAR_PX) {
      this.atEnd = false;
    } else if (left <= THERE_PX || top > this.#top) {
      this.atEnd = true;
    } else if (top < this.#top) {
      this.atEnd = false;
    }
    this.#top = top;
  }

  // Goes to the end, where the reader is to be kept there.
  go(box: HTMLElement | null): void {
    if (this.atEnd && box !== null) {
      box.scrollTop = box.scrollHeight;
    }
  }
}
