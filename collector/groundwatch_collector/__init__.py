"""OTLP in, durable span log, RAG traces, strata, known inclusion probability, ledger, traffic metrics."""
