"""Judges: claims and verdicts, relevance, refusal, answerability, citations, and the layer at fault."""
