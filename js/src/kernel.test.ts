import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Kernel } from "./kernel";

// As JupyterLab's kernel connection: a status, and a signal when it changes.
class Connection {
  readonly slots = new Set<() => void>();
  status = "idle";
  readonly statusChanged = {
    connect: (slot: () => void) => this.slots.add(slot),
    disconnect: (slot: () => void) => this.slots.delete(slot),
  };

  become(status: string): void {
    this.status = status;
    for (const slot of this.slots) {
      slot();
    }
  }
}

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

describe("what is known of the kernel", () => {
  it("is nothing where the front end does not tell", () => {
    for (const manager of [undefined, null, {}, { kernel: null }, { kernel: {} }]) {
      expect(new Kernel({ widget_manager: manager }).look()).toBe("unknown");
    }
  });

  it("is that it is busy, for as long as it is", () => {
    const connection = new Connection();
    const kernel = new Kernel({ widget_manager: { kernel: connection } });
    connection.become("busy");
    expect(kernel.look()).toBe("busy");
    connection.become("idle");
    expect(kernel.look()).toBe("unknown");
  });

  it.each(["dead", "restarting", "autorestarting", "terminating"])(
    "is that it has gone once it was %s, though another is idle in its place",
    (status) => {
      const connection = new Connection();
      const kernel = new Kernel({ widget_manager: { kernel: connection } });
      kernel.look();
      connection.become(status);
      connection.become("idle"); // between two looks
      expect(kernel.look()).toBe("gone");
      expect(kernel.spoke()).toBe(false); // its last words
      expect(kernel.look()).toBe("gone");
      vi.advanceTimersByTime(6000);
      expect(kernel.spoke()).toBe(true);
      expect(kernel.look()).toBe("unknown");
    },
  );

  it("leaves no slot behind", () => {
    const [first, second] = [new Connection(), new Connection()];
    const manager = { kernel: first };
    const kernel = new Kernel({ widget_manager: manager });
    kernel.look();
    manager.kernel = second;
    kernel.look();
    expect([first.slots.size, second.slots.size]).toEqual([0, 1]);
    kernel.close();
    expect(second.slots.size).toBe(0);
  });
});
