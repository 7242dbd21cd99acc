"""Alertmanager's configuration and the words of its messages."""

from __future__ import annotations

CONFIG_FILE, TEMPLATE_FILE = "alertmanager.yaml", "groundwatch.tmpl"

CONFIG = """\
# Written by `groundwatch rules render`. Put your receivers in; the grouping and the inhibitions are worth keeping.
route:
  receiver: tickets
  group_by: [app, fault_layer, severity]  # one message for what has one cause
  group_wait: 30s
  group_interval: 5m
  repeat_interval: 12h
  routes:
    - receiver: pages
      matchers: ['severity="page"']
      repeat_interval: 4h
      mute_time_intervals: [maintenance]
inhibit_rules:
  # While an application fails to answer, what its few answers are worth is no news.
  - source_matchers: ['alertname="RagExecutionBudgetBurn"']
    target_matchers: ['alertname=~"RagFailureRateAboveObjective|RagWrongRefusals|RagQualityChange|RagRetrievalEmpty|\
RagRefusalShareChanged|RagMixShift|RagLatencyAboveObjective|RagEstimateBlind|RagExecutionBudgetBurnSlow"']
    equal: [app]
  # A page says the same as a ticket, and more.
  - source_matchers: ['severity="page"']
    target_matchers: ['severity="ticket"', 'alertname=~"RagFailureRateAboveObjective|RagWrongRefusals"']
    equal: [app, alertname, criterion]
  # Without the monitor nothing that it says can be believed.
  - source_matchers: ['alertname="GroundwatchAbsent"']
    target_matchers: ['alertname=~"RagEstimateBlind|GroundwatchJudge.*|GroundwatchLogLag"']
  # What the monitor does not count is not gone.
  - source_matchers: ['alertname=~"GroundwatchAbsent|GroundwatchLogLag|GroundwatchCollectorDropping"']
    target_matchers: ['alertname="RagTrafficGone"']
time_intervals:
  # No page is sent in these hours. An empty plan mutes nothing: this day lies in no month.
  - name: maintenance
    time_intervals:
      - {times: [{start_time: "02:00", end_time: "02:01"}], days_of_month: ["31"], months: ["february"]}
receivers:
  # Where words are sent and no JSON, use those of groundwatch.tmpl. By mail, for example, with smtp_smarthost and
  # smtp_from under `global`:
  #   email_configs:
  #     - to: on-call@shop.example
  #       headers: {Subject: '{{ template "groundwatch.title" . }}'}
  #       html: ""
  #       text: '{{ template "groundwatch.text" . }}'
  #       send_resolved: true
  - name: pages
    webhook_configs:
      - url: http://127.0.0.1:9095/pages
        send_resolved: true
  - name: tickets
    webhook_configs:
      - url: http://127.0.0.1:9095/tickets
        send_resolved: true
templates: [groundwatch.tmpl]
"""

TEMPLATE = """\
{{/* Words for a small screen: what, since when, where to look. Use as {{ template "groundwatch.title" . }} */ -}}
{{ define "groundwatch.title" -}}
{{ if eq .Status "resolved" }}Over: {{ end }}{{ with .GroupLabels.app }}{{ . }}: {{ end -}}
{{ $now := .Alerts.Firing }}{{ if eq .Status "resolved" }}{{ $now = .Alerts.Resolved }}{{ end -}}
{{ (index $now 0).Labels.alertname }}{{ if gt (len $now) 1 }} ({{ len $now }} alerts){{ end }}
{{- end }}
{{ define "groundwatch.text" -}}
{{ range .Alerts }}{{ if eq .Status "resolved" }}Over: {{ end }}{{ .Annotations.summary }}
Since {{ .StartsAt.UTC.Format "Jan 2 15:04" }} UTC
{{- if eq .Status "resolved" }}, until {{ .EndsAt.UTC.Format "Jan 2 15:04" }}{{ end }}
{{ with .Labels.fault_layer }}Layer: {{ . }}
{{ end }}{{ with .Labels.version }}Version: {{ . }}
{{ end }}{{ with .Annotations.traces_url }}Look at: {{ . }}
{{ end }}{{ with .Annotations.dashboard_url }}Dashboard: {{ . }}
{{ end }}{{ with .Annotations.runbook_url }}Do now: {{ . }}
{{ end }}
{{ end }}
{{- end }}
"""


def alertmanager_files() -> dict[str, str]:
    """Name and text of each file for Alertmanager 0.25 and newer."""
    return {CONFIG_FILE: CONFIG, TEMPLATE_FILE: TEMPLATE}
