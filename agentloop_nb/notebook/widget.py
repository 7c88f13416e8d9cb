"""The widget: its traits and its built front end. It does not think: the bridge does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anywidget
import traitlets

from agentloop_nb.notebook.assets import widget_css, widget_js
from agentloop_nb.notebook.bridge import PROTOCOL
from agentloop_nb.notebook.packing import Content, pack


class RunWidget(anywidget.AnyWidget):
    """A live view of a run. All that happens travels as custom messages; these traits only say
    which run it is, so that a view without its kernel can say so."""

    _esm = widget_js()
    _css = widget_css()

    protocol = traitlets.Int(PROTOCOL).tag(sync=True)
    session_id = traitlets.Unicode("").tag(sync=True)
    run_id = traitlets.Unicode("").tag(sync=True)
    ended = traitlets.Bool(False).tag(sync=True)

    def __init__(self, receive: Callable[[object], None], **traits: Any) -> None:
        super().__init__(**traits)
        # Registered here, before the page can know of the widget: its hello comes at once.
        self.on_msg(lambda _widget, content, _buffers: receive(content))

    def tell(self, message: Content) -> None:
        """Send a message of the bridge to all pages."""
        self.send(pack(message))

    def __repr__(self) -> str:
        return f"The view of run {self.run_id}"  # what shows where no front end draws widgets
