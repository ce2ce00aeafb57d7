"""`python -m pullback`: the command line."""

from pullback.cli import main

raise SystemExit(main())
