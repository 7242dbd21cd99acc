"""Every attribute name that Groundwatch writes or reads on the wire, in one place.

OpenTelemetry GenAI and OpenInference names are used where they exist; ``groundwatch.*`` names what they do not
have: the outcome that the program recorded, the rewritten query, the reranked list, the context really sent and
the citations. Attribute names are API: changing one is a line in the changelog.
"""

from __future__ import annotations

from typing import Final

SCOPE_NAME: Final = "groundwatch"
SCHEMA_VERSION: Final = "1"
OTHER_STAGE: Final = "other"  # a stage that the application named itself

# Resource (OpenTelemetry).
SERVICE_NAME: Final = "service.name"
SERVICE_VERSION: Final = "service.version"
DEPLOYMENT_ENVIRONMENT: Final = "deployment.environment.name"
PROJECT: Final = "groundwatch.project"  # set by the collector where ingest keys are configured: whose key it was

# Every span of ours.
SCHEMA: Final = "groundwatch.schema.version"
STAGE: Final = "groundwatch.stage"  # request | rewrite | candidates | rerank | context | answer
CONTENT_MODE: Final = "groundwatch.content.mode"  # none | ids | text
FLAGS: Final = "groundwatch.flags"  # JSON list of what the SDK had to mend, e.g. ["nan_score", "unknown_outcome"]
TRUNCATED: Final = "groundwatch.truncated"  # JSON list of what a cap cut, e.g. ["answer", "document:3"]
DROPPED_BY_SDK: Final = "groundwatch.sdk.dropped_traces"  # running total of requests that this process could not send

# Root span (one request).
OUTCOME: Final = "groundwatch.outcome"
OUTCOME_REASON: Final = "groundwatch.outcome.reason"
RETRIES: Final = "groundwatch.retries"
CITATIONS: Final = "groundwatch.citations"  # JSON list of {"id": document id, "marker": "[1]"}
QUERY: Final = "input.value"  # OpenInference
ANSWER: Final = "output.value"  # OpenInference
SESSION: Final = "session.id"  # OpenInference
CONVERSATION: Final = "gen_ai.conversation.id"  # OpenTelemetry
USER_HASH: Final = "groundwatch.user.hash"  # keyed hash, never the user id
COST_USD: Final = "groundwatch.cost.usd"

# Stage spans.
REWRITTEN_QUERY: Final = "gen_ai.retrieval.query.text"  # OpenTelemetry: what was sent to the retriever
CANDIDATES: Final = "gen_ai.retrieval.documents"  # OpenTelemetry: JSON list of documents
RERANKED: Final = "groundwatch.rerank.documents"  # no standard name yet (semantic-conventions-genai #253)
CONTEXT: Final = "groundwatch.context.documents"  # what was really sent to the model
DATA_SOURCE: Final = "gen_ai.data_source.id"

# Keys inside a document object of the three lists above.
DOC_ID: Final = "id"
DOC_RANK: Final = "rank"  # 1-based
DOC_SCORE: Final = "score"
DOC_TEXT: Final = "content"
DOC_CUT: Final = "cut"  # number of characters that a cap removed
DOC_VERSION: Final = "version"
DOC_TITLE: Final = "title"

# OpenTelemetry GenAI.
OPERATION: Final = "gen_ai.operation.name"  # invoke_workflow | retrieval | rerank | chat
WORKFLOW: Final = "gen_ai.workflow.name"
PROVIDER: Final = "gen_ai.provider.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
RESPONSE_MODEL: Final = "gen_ai.response.model"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
FIRST_TOKEN: Final = "gen_ai.response.time_to_first_chunk"  # noqa: S105 (seconds from the start of the request)
ERROR_TYPE: Final = "error.type"
EXCEPTION_TYPE: Final = "exception.type"
EXCEPTION_MESSAGE: Final = "exception.message"  # only where text is captured

# OpenInference.
SPAN_KIND: Final = "openinference.span.kind"  # CHAIN | RETRIEVER | RERANKER | LLM
INPUT: Final = QUERY  # of a stage too: what it was asked, for viewers that do not know the names above
OUTPUT: Final = ANSWER  # of a stage too: what it gave; a list of documents as short lines
OUTPUT_TYPE: Final = "output.mime_type"
RERANKER_QUERY: Final = "reranker.query"
RERANKER_MODEL: Final = "reranker.model_name"
RERANKER_DOCUMENTS: Final = "reranker.output_documents"  # .N.document.id, .score, .content: the first ones, cut short

# Langfuse, which has no type for rerankers and takes what names a model for a model's answer.
LANGFUSE_TYPE: Final = "langfuse.observation.type"

# Span events.
EXCEPTION_EVENT: Final = "exception"  # OpenTelemetry
RETRY_EVENT: Final = "groundwatch.retry"  # one per retry, with exception.type

STAGES: Final = ("rewrite", "candidates", "rerank", "context", "answer")
OUTCOMES: Final = ("answered", "partial", "refused", "no_result", "error", "timeout", "cancelled", "unknown")
