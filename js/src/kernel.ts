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

const ENDED = new Set(["dead", "terminating", "restarting", "autorestarting"]);

export interface Managed {
  readonly widget_manager?: unknown;
}

export class Kernel {
  readonly #model: Managed;
  #connection: Connection | null = null;
  #gone = false;

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
    if (this.#gone) {
      return "gone";
    }
    return connection?.status === "busy" ? "busy" : "unknown";
  }

  // It has just spoken, so whatever ended was not the one that runs this.
  spoke(): void {
    this.#gone = false;
  }

  close(): void {
    this.#connection?.statusChanged?.disconnect(this.#note);
    this.#connection = null;
  }

  readonly #note = (): void => {
    this.#gone ||= ENDED.has(this.#connection?.status ?? "");
  };
}

function find(manager: unknown): Connection | null {
  const kernel = (manager as { kernel?: Partial<Connection> | null } | null | undefined)?.kernel;
  return typeof kernel?.status === "string" ? (kernel as Connection) : null;
}
