// The widget: anywidget calls the default export once per model, then `initialize` once and `render`
// once per view. They share a store, and the module holds nothing.
import type { InitializeProps, RenderProps } from "@anywidget/types";
import { Store } from "./store";
import { mount } from "./view/mount";

interface Traits {
  protocol: number;
  session_id: string;
  run_id: string;
  ended: boolean;
}

export default () => {
  let store: Store | undefined;
  return {
    initialize({ model }: InitializeProps<Traits>): () => void {
      const opened = new Store(model);
      store = opened;
      opened.open();
      return () => opened.close();
    },
    render({ el }: RenderProps<Traits>): (() => void) | undefined {
      return store && mount(el, store);
    },
  };
};
