"""Owner of what forges say: one module per provider verifies and parses deliveries.

A provider module has `verify(headers, body, secrets) -> bool` over the raw bytes in constant time
and `parse(headers, body) -> Parsed`. Headers are a mapping of lower-case names to bytes.
"""

from gitsync.forge.delivery import Malformed, Parsed

__all__ = ["Malformed", "Parsed"]
