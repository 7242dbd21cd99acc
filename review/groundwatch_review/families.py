"""Which failures are one test: near-duplicates of a question, and many questions about one broken page.

Only redacted text is compared, so that two users who ask the same under two names meet in one family.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import orjson
from rapidfuzz import fuzz
from sqlalchemy import Connection, select

from groundwatch_review.tables import candidates

METHOD: Final = "redacted_near_duplicate_v2"
HOLDOUT_PERCENT: Final = 20
_SIMILAR: Final = 90.0  # rapidfuzz ratio of normalised questions; on labelled pairs precision 0.97, recall 1.0
_PAGE_CHARACTERS: Final = 40  # a shorter passage says too little to be "the same page"
_COMPARED: Final = 5_000  # oldest candidates that a new one is compared with

Document = Mapping[str, Any]


def assign(document: dict[str, Any], others: Iterable[Document] = ()) -> None:
    """Put *document* into the family of the first of *others* that is its near-duplicate, else into one of its own.

    The split follows the family, by its digest and never by row, so that no family is on both sides.
    """
    twin = next((other for other in others if _alike(document, other)), None)
    family = document["family"]
    family["method"] = METHOD
    family["threshold"] = _SIMILAR / 100
    family["family_id"] = twin["family"]["family_id"] if twin else _own(document)
    family["near_duplicate_of"] = twin["candidate_id"] if twin else None
    share = int(hashlib.sha256(f"split:{family['family_id']}".encode()).hexdigest()[:8], 16) % 100
    document["split"] = "HOLDOUT" if share < HOLDOUT_PERCENT else "DEV"


def stored(connection: Connection) -> Iterator[Document]:
    """Candidates that a new one is compared with, oldest first; rejected ones lead no family."""
    query = (
        select(candidates.c.document).order_by(candidates.c.created_at, candidates.c.candidate_id).limit(_COMPARED)
    )
    for (text,) in connection.execute(query):
        document = orjson.loads(text)
        if document["review"]["status"] != "REJECTED":
            yield document


def normal(text: str) -> str:
    """Letters, digits and nothing else; placeholders keep their type and lose their number."""
    text = re.sub(r"\[\[([A-Z_]+)_[A-Z0-9]+\]\]", r" \1 ", text)
    return " ".join(re.sub(r"[\W_]+", " ", unicodedata.normalize("NFKC", text).casefold()).split())


def sizes(failures: Sequence[tuple[str, str, str]]) -> list[int]:
    """How many of *failures* (layer, question, page) are each one again: same fault, and question or page alike.

    A first impression of raw traces for the queue; the family of a candidate is taken from redacted text.
    """
    leader = list(range(len(failures)))

    def top(place: int) -> int:
        while leader[place] != place:
            place = leader[place]
        return place

    asked = [(layer, normal(question)) for layer, question, _page in failures]
    firsts: dict[tuple[str, ...], int] = {}
    for place, (layer, _question, page) in enumerate(failures):
        for key in ((layer, "question", asked[place][1]), (layer, "page", page)):
            if key[2]:
                leader[top(place)] = top(firsts.setdefault(key, place))
    distinct = [place for key, place in firsts.items() if key[1] == "question"]
    for number, place in enumerate(distinct):
        for other in distinct[:number]:
            if asked[place][0] == asked[other][0] and _same_question(asked[place][1], asked[other][1]):
                leader[top(place)] = top(other)
    counts = Counter(top(place) for place in range(len(failures)))
    return [counts[top(place)] for place in range(len(failures))]


def _own(document: Document) -> str:
    seed = f"{normal(document['question']['text'])}\n{document['fault']['layer']}"
    return f"fam_{hashlib.sha256(seed.encode()).hexdigest()[:24]}"


def _alike(document: Document, other: Document) -> bool:
    """One fault, and the same question in other words or the same page behind both."""
    if document["fault"]["layer"] != other["fault"]["layer"]:
        return False
    if _same_question(normal(document["question"]["text"]), normal(other["question"]["text"])):
        return True
    page = _page(document)
    return bool(page) and page == _page(other) and document["fault"].get("type") == other["fault"].get("type")


def _same_question(left: str, right: str) -> bool:
    """Two numbers make two questions: error 404 is not error 413."""
    if re.findall(r"\d+", left) != re.findall(r"\d+", right):
        return False
    return fuzz.ratio(left, right, score_cutoff=_SIMILAR) > 0 if left and right else False


def _page(document: Document) -> str:
    """The passage on which the fault rests: the first anchor, else what the model read first."""
    evidence = document["evidence"]
    found = [anchor["exact"] for anchor in evidence.get("expected_anchors", ())]
    found += [passage["text"] for passage in evidence.get("retrieved", ())]
    text = normal(found[0]) if found else ""
    return text if len(text) >= _PAGE_CHARACTERS else ""
