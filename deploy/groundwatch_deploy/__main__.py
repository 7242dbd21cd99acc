"""`python -m groundwatch_deploy` is the `groundwatch` command."""

from __future__ import annotations

import sys

from groundwatch_deploy.cli import main

sys.exit(main())
