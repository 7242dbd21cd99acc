"""The answerer as a language model, for those who have one: any OpenAI-compatible endpoint."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Mapping, Sequence

import openai

from groundwatch_deploy.demo import answering, words
from groundwatch_deploy.demo.app import Answer
from groundwatch_deploy.demo.behaviour import Behaviour, invent_number
from groundwatch_deploy.demo.corpus import Passage
from groundwatch_deploy.demo.rewrite import Rewritten

INSTRUCTIONS = (
    "Answer the question from the numbered passages only, in one or two sentences, in the question's language. "
    "Quote figures as they stand. Put the number of the passage that you used behind each sentence, like [1]. "
    f'If the passages do not hold the answer, reply exactly "{answering.REFUSAL_EN}" or, in Chinese, '
    f'"{answering.REFUSAL_ZH}".'
)
_MARKER = re.compile(r"\[(\d{1,2})\]")


class LlmGenerator:
    """Writes answers with a model. The faults of a deployed version are applied to what the model wrote."""

    def __init__(self, client: openai.OpenAI, model: str, behaviour: Behaviour) -> None:
        self.model = model
        self._client = client
        self._behaviour = behaviour

    def write(self, query: str, rewritten: Rewritten, context: Sequence[Passage], rng: random.Random) -> Answer:
        """One call. Errors of the endpoint are the request's errors: they are raised."""
        passages = "\n\n".join(f"[{number}] {passage.text}" for number, passage in enumerate(context, start=1))
        reply = self._client.chat.completions.create(
            model=self.model,
            messages=[
                {"role": "system", "content": INSTRUCTIONS},
                {"role": "user", "content": f"{passages}\n\nQuestion: {query}"},
            ],
            temperature=0,
            max_tokens=200,
        )
        text = (reply.choices[0].message.content or "").strip()
        usage = (reply.usage.prompt_tokens, reply.usage.completion_tokens) if reply.usage else (0, 0)
        return self._as_deployed(query, text, context, usage, rng)

    def _as_deployed(
        self, query: str, text: str, context: Sequence[Passage], usage: tuple[int, int], rng: random.Random
    ) -> Answer:
        invents, declines = rng.random(), rng.random()
        refused = not text or answering.REFUSAL_EN in text or answering.REFUSAL_ZH in text
        # Without a confidence of its own, the over-refusing version declines as often as the extractive one.
        declining = self._behaviour.spurious_refusal_rate + max(
            0.0, self._behaviour.refuse_below - Behaviour().refuse_below
        )
        if refused or declines < declining:
            return Answer(answering.refusal(query), refused=True, input_tokens=usage[0], output_tokens=usage[1])
        wrong = invent_number(text, rng) if invents < self._behaviour.invented_number_rate else None
        invented = wrong is not None or bool(_unread_numbers(text, query, context))
        return Answer(
            wrong or text,
            _cited(text, context),
            confidence=1.0,
            invented=invented,
            input_tokens=usage[0],
            output_tokens=usage[1],
        )


def _cited(text: str, context: Sequence[Passage]) -> tuple[tuple[str, str], ...]:
    found = dict.fromkeys(int(number) for number in _MARKER.findall(text))
    return tuple((context[n - 1].id, f"[{n}]") for n in found if 1 <= n <= len(context))


def _unread_numbers(text: str, query: str, context: Sequence[Passage]) -> set[str]:
    """Numbers that the model wrote and had not read: made up by the model itself, and a failure all the same."""
    read = set(words.numbers(" ".join([query, *(passage.text for passage in context)])))
    return set(words.numbers(_MARKER.sub("", text))) - read


def client_from(environ: Mapping[str, str] = os.environ) -> tuple[openai.OpenAI, str] | None:
    """A client and a model name from ``OPENAI_BASE_URL``, ``OPENAI_API_KEY`` and ``OPENAI_MODEL``; None without."""
    if not (environ.get("OPENAI_BASE_URL") or environ.get("OPENAI_API_KEY")):
        return None
    client = openai.OpenAI(
        base_url=environ.get("OPENAI_BASE_URL") or None,
        api_key=environ.get("OPENAI_API_KEY") or "none",
        timeout=60.0,
        max_retries=1,
    )
    return client, environ.get("OPENAI_MODEL", "gpt-4o-mini")
