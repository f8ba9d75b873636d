"""Secrets at rest: AES-256-GCM with rotating keys (decision 32).

Promise: a ciphertext only opens in the row and column it was made for, with a key the operator
still lists. The first key seals; every key opens. Form: `gs1.<key id>.<base64 nonce+ciphertext>`.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from gitsync.errors import ConfigError

MIN_KEY_LENGTH = 32


def new_key() -> str:
    """A fresh key for `GITSYNC_SECRET_KEYS`."""
    return base64.urlsafe_b64encode(os.urandom(32)).decode().rstrip("=")


def _derive(key: str, purpose: str) -> bytes:
    kdf = HKDF(hashes.SHA256(), length=32, salt=b"gitsync", info=purpose.encode())
    return kdf.derive(key.encode())


class Sealer:
    """Seals and opens secrets; `place` is `table/row/column` and is bound into the ciphertext."""

    def __init__(self, keys: Sequence[str]) -> None:
        for position, key in enumerate(keys, 1):
            if len(key) < MIN_KEY_LENGTH:
                raise ConfigError(
                    f"Key {position} of GITSYNC_SECRET_KEYS is shorter than {MIN_KEY_LENGTH} "
                    "characters. Make one with `gitsync db new-key`."
                )
        if not keys:
            raise ConfigError("GITSYNC_SECRET_KEYS is empty. Make a key with `gitsync db new-key`.")
        self._keys = {hashlib.sha256(_derive(k, "id")).hexdigest()[:8]: k for k in keys}
        self._first = next(iter(self._keys))

    @property
    def key_ids(self) -> tuple[str, ...]:
        """Public ids of the keys, the sealing one first."""
        return tuple(self._keys)

    def seal(self, secret: str | bytes, place: str) -> str:
        """Encrypt for one place."""
        data = secret.encode() if isinstance(secret, str) else secret
        nonce = os.urandom(12)
        box = AESGCM(_derive(self._keys[self._first], "rows")).encrypt(
            nonce, data, f"{self._first}/{place}".encode()
        )
        return f"gs1.{self._first}.{base64.urlsafe_b64encode(nonce + box).decode()}"

    def open(self, sealed: str, place: str) -> bytes:
        """Decrypt what was sealed for this place."""
        _, key_id, text = sealed.split(".", 2)
        key = self._keys.get(key_id)
        if key is None:
            raise ConfigError(
                f"A stored secret needs the key with id {key_id}, which GITSYNC_SECRET_KEYS does "
                "not hold. Add the old key behind the new one, then run `gitsync db rekey`."
            )
        data = base64.urlsafe_b64decode(text)
        try:
            return AESGCM(_derive(key, "rows")).decrypt(
                data[:12], data[12:], f"{key_id}/{place}".encode()
            )
        except InvalidTag as e:
            raise ConfigError(
                f"A stored secret at {place} does not open: the row was moved or altered."
            ) from e

    def is_current(self, sealed: str) -> bool:
        """True if the first key made it."""
        return sealed.split(".", 2)[1] == self._first

    def derive(self, purpose: str) -> bytes:
        """A 32-byte sub-key of the first key for another purpose, such as signing cookies."""
        return _derive(self._keys[self._first], purpose)
