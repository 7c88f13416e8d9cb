"""A model string to a model: the prefix names the adapter, what follows the model there."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches

from agentloop_nb.errors import ModelNotFound, UsageError
from agentloop_nb.models import offline
from agentloop_nb.models.anthropic import AnthropicModel
from agentloop_nb.models.base import Model
from agentloop_nb.models.openai_chat import OpenAIChatModel
from agentloop_nb.models.openai_responses import OpenAIModel

_ADAPTERS: dict[str, Callable[[str], Model]] = {
    "anthropic": AnthropicModel,
    "openai": OpenAIModel,
    "openai-chat": OpenAIChatModel,
    "offline": offline.named,
}

_FAMILIES = {"claude": "anthropic", "gpt": "openai", "o1": "openai", "o3": "openai", "o4": "openai"}
"""How models are called by their makers, for a guess where someone left the prefix out."""


def resolve(model: object) -> Model:
    """The model that `model` names, or `model` itself where it is one already.

    Raises ModelNotFound for a string that names none, and UsageError for anything else.
    """
    if isinstance(model, str):
        return _named(model.strip())
    # A class has the attributes of a model too, so the protocol alone would let it pass.
    if not isinstance(model, type) and isinstance(model, Model):
        return model
    made = f"the class {model.__name__}" if isinstance(model, type) else f"{type(model).__name__}"
    raise UsageError(
        f"The model is {made}, and must be a string such as 'anthropic:claude-…' or a model such "
        "as AnthropicModel('claude-…')."
    )


def _named(text: str) -> Model:
    prefix, colon, name = text.partition(":")
    make = _ADAPTERS.get(prefix)
    if make is not None and name:
        return make(name)
    what = (
        f"The model string {text!r} has no model's name after {prefix!r}."
        if make is not None
        else f"The model string {text!r} does not begin with a provider that is known."
    )
    raise ModelNotFound(
        f"{what}{_guess(prefix, name if colon else text)} Write one of 'anthropic:NAME', "
        "'openai:NAME' (Responses API), 'openai-chat:NAME' (Chat Completions) or "
        f"'offline:NAME' ({', '.join(offline.names())}), or pass a model object."
    )


def _guess(prefix: str, name: str) -> str:
    near = get_close_matches(prefix.lower(), _ADAPTERS, n=1)
    if near and near[0] != prefix and name:
        return f" Did you mean {near[0] + ':' + name!r}?"
    for family, provider in _FAMILIES.items():
        if name.lower().startswith(family):
            return f" Did you mean {provider + ':' + name!r}?"
    return ""
