// What the front end knows of the kernel, where it tells: JupyterLab and Notebook 7 give a widget's
// model a manager that has the kernel's connection. Elsewhere nothing is known, and silence decides.

// "gone": the kernel that ran this has died or was restarted, and nothing of it comes back.
export type Health = "unknown" | "busy" | "gone";

interface Signal {
  connect(slot: () => void): unknown;
  disconnect(slot: () => void): unknown;
}

interface Connection {
  readonly status: string;
  readonly statusChanged?: Signal;
}

// A kernel that is being ended may still say something; later than this it was not that one.
const LAST_WORDS_MS = 5000;

const ENDED = new Set(["dead", "terminating", "restarting", "autorestarting"]);

export interface Managed {
  readonly widget_manager?: unknown;
}

export class Kernel {
  readonly #model: Managed;
  #connection: Connection | null = null;
  #goneAt: number | null = null;

  constructor(model: Managed) {
    this.#model = model;
  }

  // A restart may be over before the next look, so its signal counts too.
  look(): Health {
    const connection = find(this.#model.widget_manager);
    if (connection !== this.#connection) {
      this.close();
      this.#connection = connection;
      connection?.statusChanged?.connect(this.#note);
    }
    this.#note();
    if (this.#goneAt !== null) {
      return "gone";
    }
    return connection?.status === "busy" ? "busy" : "unknown";
  }

  // It has just spoken. Whether that means that it lives: whatever ended was not the one that runs
  // this, unless these were its last words.
  spoke(): boolean {
    if (this.#goneAt !== null && performance.now() - this.#goneAt < LAST_WORDS_MS) {
      return false;
    }
    this.#goneAt = null;
    return true;
  }

  close(): void {
    this.#connection?.statusChanged?.disconnect(this.#note);
    this.#connection = null;
  }

  readonly #note = (): void => {
    if (ENDED.has(this.#connection?.status ?? "")) {
      this.#goneAt ??= performance.now();
    }
  };
}

function find(manager: unknown): Connection | null {
  const kernel = (manager as { kernel?: Partial<Connection> | null } | null | undefined)?.kernel;
  return typeof kernel?.status === "string" ? (kernel as Connection) : null;
}
