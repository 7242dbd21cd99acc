"""Dashboards for Grafana: what each panel asks (``panels``), and the JSON files made of it (``grafana``)."""
