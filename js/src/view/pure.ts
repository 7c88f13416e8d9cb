// A component that is drawn again only when one of its props is another object than before.
import { Component, type ComponentChildren, type ComponentClass } from "preact";

export function pure<Props extends object>(
  draw: (props: Props) => ComponentChildren,
): ComponentClass<Props> {
  return class extends Component<Props> {
    override shouldComponentUpdate(next: Readonly<Props>): boolean {
      const names = Object.keys({ ...this.props, ...next }) as (keyof Props)[];
      return names.some((name) => this.props[name] !== next[name]);
    }

    override render(props: Props): ComponentChildren {
      return draw(props);
    }
  };
}
