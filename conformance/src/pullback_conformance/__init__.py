"""The conformance kit: what every backend is measured by, generated from the op table."""
