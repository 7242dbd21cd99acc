"""The console, human verdicts, redaction, candidates for the regression set."""
